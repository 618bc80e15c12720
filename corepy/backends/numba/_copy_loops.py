"""Loops that fill, convert and copy memory."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from corepy._loops._atomics import call
from corepy.backends.numba._compiled import BLOCK, kernel

#: Bytes that are copied together: a page, of which several make a stretch.
PAGE = 4096


@intrinsic  # type: ignore[untyped-decorator]
def _copy(context: Any, into: Any, source: Any, count: Any) -> Any:
    """Copy bytes from one address to another, as the C library does."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        kind = ir.IntType(8).as_pointer()
        into, source = (builder.inttoptr(place, kind) for place in operands[:2])
        cgutils.raw_memcpy(builder, into, source, operands[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@kernel()
def fill(value: Any, out: Any, start: int, stop: int) -> None:
    """Set blocks of ``out (n,)`` to ``value (1,)``."""
    element, part = value[0], out[start * BLOCK : stop * BLOCK]
    for i in range(part.size):
        part[i] = element


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
        _copy(into + first, parts[0, part] + row * parts[2, part] + at, length)
        first += length
        at, part = 0, part + 1
        if part == count:
            row, part = row + 1, 0


@kernel()
def _convert(x: Any, out: Any, start: int, stop: int) -> None:
    source, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(source.size):
        into[i] = source[i]


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
