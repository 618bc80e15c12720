"""Writing past the caches.

To write into memory that is in no cache, a processor reads it first, unless it is told that
whatever is there will be replaced whole. That pays where results would leave the caches before
anybody reads them, and costs where they would not.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from corepy._loops._compile import compiler
from corepy._loops._simd import prefetch

__all__ = ["HELD", "copy", "fence", "stream", "stream_and_fetch"]

#: Bytes that a cache may hold: of what reads and writes more, results go past them.
HELD: Final = 1 << 25
#: Bytes that are replaced whole.
_LINE: Final = 64

_kernel = compiler(())


@intrinsic  # type: ignore[untyped-decorator]
def copy(context: Any, into: Any, source: Any, count: Any) -> Any:
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
def _fetch_line(context: Any, place: Any) -> Any:
    """Let the processor fetch a line; an address beyond any memory is of no harm."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        prefetch(builder, builder.inttoptr(operands[0], ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def fence(context: Any) -> Any:
    """Let everybody see what was streamed before anything that follows."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@_kernel()
def stream_and_fetch(into: int, source: int, count: int, following: int) -> None:
    """Copy bytes past the caches, and fetch as many from another address on meanwhile.

    As long as memory is written it is not read otherwise. A `fence` has to follow.
    """
    first = min(-into & (_LINE - 1), count)
    last = count - ((count - first) & (_LINE - 1))
    if first:
        copy(into, source, first)
    for i in range(first, last, _LINE):
        _copy_line(into + i, source + i)
        _fetch_line(following + i)
    if last < count:
        copy(into + last, source + last, count - last)


@_kernel()
def stream(into: int, source: int, count: int) -> None:
    """Copy bytes past the caches; a `fence` has to follow."""
    stream_and_fetch(into, source, count, source)  # which is there already
