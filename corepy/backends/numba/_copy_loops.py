"""Loops that convert and copy memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from corepy._loops._atomics import call
from corepy._loops._streaming import HELD, copy, fence, stream
from corepy.backends.numba._compiled import BLOCK, kernel

#: Bytes that are copied together: a page, of which several make a stretch.
PAGE: Final = 4096


@kernel()
def join(parts: Any, into: int, size: int, start: int, stop: int) -> None:
    """Copy rows of several parts beside each other, to pages of the memory at ``into``.

    ``parts (3, n)`` are where each part begins, the bytes of its rows, and those from row to row.
    """
    count, width = parts.shape[1], parts[1].sum()
    first, last = start * PAGE, min(stop * PAGE, size)
    row, at, part = first // width, first % width, 0
    while at >= parts[1, part]:
        at -= parts[1, part]
        part += 1
    while first < last:
        length = min(parts[1, part] - at, last - first)
        source = parts[0, part] + row * parts[2, part] + at
        if 2 * size <= HELD:
            copy(into + first, source, length)
        else:
            stream(into + first, source, length)
        first += length
        at, part = 0, part + 1
        if part == count:
            row, part = row + 1, 0
    fence()


@kernel()
def _assign(x: Any, out: Any) -> None:
    for i in range(x.size):
        out[i] = x[i]


@kernel()
def _convert(x: Any, out: Any, start: int, stop: int) -> None:
    source, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    if x.nbytes + out.nbytes <= HELD:
        _assign(source, into)
        return
    block = np.empty(BLOCK, out.dtype)
    for first in range(0, source.size, BLOCK):
        some = into[first : first + BLOCK]
        _assign(source[first : first + BLOCK], block)
        stream(some.ctypes.data, block.ctypes.data, some.nbytes)
    fence()


@kernel()
def convert(
    flags: tuple[int, int, int], x: Any, out: Any, raised: Any, start: int, stop: int
) -> None:
    """Convert blocks of ``x (n,)`` to the dtype of ``out (n,)``.

    ``raised (blocks,)`` gets the processor's flags that each block has set: those of ``flags`` that
    are asked for, by the functions that clear and test them.
    """
    used, clear, test = flags
    raised[start:stop] = 0
    call(clear, used, 0, 0)
    _convert(x, out, start, stop)
    if call(test, used, 0, 0):  # which blocks they were is found out by converting them once more
        for block in range(start, stop):
            call(clear, used, 0, 0)
            _convert(x, out, block, block + 1)
            raised[block] = call(test, used, 0, 0)
