"""Loops that fill, convert and copy memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from corepy._loops._atomics import call
from corepy.backends.numba._compiled import BLOCK, kernel

#: Bytes that are copied together: a page, of which several make a stretch.
PAGE: Final = 4096
#: Bytes that no cache holds. Of more, results go past the caches: to write into memory that is not
#: in a cache, a processor reads it first.
_HELD: Final = 1 << 25
_LINE: Final = 64


@intrinsic  # type: ignore[untyped-decorator]
def _copy(context: Any, into: Any, source: Any, count: Any) -> Any:
    """Copy bytes from one address to another, as the C library does."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        kind = ir.IntType(8).as_pointer()
        into, source = (builder.inttoptr(place, kind) for place in operands[:2])
        cgutils.raw_memcpy(builder, into, source, operands[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _copy_line(context: Any, into: Any, source: Any) -> Any:
    """Copy a line to an address at the beginning of one, past the caches."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        kind = ir.VectorType(ir.IntType(64), _LINE // 8).as_pointer()
        into, source = (builder.inttoptr(place, kind) for place in operands)
        stored = builder.store(builder.load(source, align=1), into, align=_LINE)
        mark = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        stored.set_metadata("nontemporal", mark)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _fence(context: Any) -> Any:
    """Let everybody see what was written past the caches before anything that follows."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@kernel()
def _stream(into: int, source: int, count: int) -> None:
    """Copy bytes past the caches."""
    first = min(-into % _LINE, count)
    last = count - (count - first) % _LINE
    _copy(into, source, first)
    for i in range(first, last, _LINE):
        _copy_line(into + i, source + i)
    _copy(into + last, source + last, count - last)


@kernel()
def fill(value: Any, out: Any, start: int, stop: int) -> None:
    """Set blocks of ``out (n,)`` to ``value (1,)``."""
    element, part = value[0], out[start * BLOCK : stop * BLOCK]
    if out.nbytes <= _HELD:
        for i in range(part.size):
            part[i] = element
        return
    block = np.full(BLOCK, element, out.dtype)
    for first in range(0, part.size, BLOCK):
        some = part[first : first + BLOCK]
        _stream(some.ctypes.data, block.ctypes.data, some.nbytes)
    _fence()


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
        if 2 * size <= _HELD:
            _copy(into + first, source, length)
        else:
            _stream(into + first, source, length)
        first += length
        at, part = 0, part + 1
        if part == count:
            row, part = row + 1, 0
    _fence()


@kernel()
def _assign(x: Any, out: Any) -> None:
    for i in range(x.size):
        out[i] = x[i]


@kernel()
def _convert(x: Any, out: Any, start: int, stop: int) -> None:
    source, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    if x.nbytes + out.nbytes <= _HELD:
        _assign(source, into)
        return
    block = np.empty(BLOCK, out.dtype)
    for first in range(0, source.size, BLOCK):
        some = into[first : first + BLOCK]
        _assign(source[first : first + BLOCK], block)
        _stream(some.ctypes.data, block.ctypes.data, some.nbytes)
    _fence()


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
