"""Words of memory that threads share, and code that is called by its address.

Addresses are integers, so that compiled code hands them on without the interpreter's lock.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["add", "call", "load", "pause", "replace", "store"]

_WORD: Final = ir.IntType(64)
_STATUS: Final = ir.IntType(32)

#: What tells a processor that its other thread may go first, by the beginning of LLVM's names.
_PAUSES: Final = {"x86_64": "llvm.x86.sse2.pause", "i686": "llvm.x86.sse2.pause"}


def _at(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _WORD.as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def load(context: Any, address: Any) -> Any:
    """Return a word, and see all that was written before it was stored."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return builder.load_atomic(_at(builder, operands[0]), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(context: Any, address: Any, value: Any) -> Any:
    """Set a word after all that was written before."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        builder.store_atomic(operands[1], _at(builder, operands[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def add(context: Any, address: Any, value: Any) -> Any:
    """Add to a word; return what it was."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return builder.atomic_rmw("add", _at(builder, operands[0]), operands[1], "acq_rel")

    return types.int64(types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def replace(context: Any, address: Any, old: Any, new: Any) -> Any:
    """Set a word if it is still what it was; say whether it is set."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        place, old, new = operands
        done = builder.cmpxchg(_at(builder, place), old, new, "acq_rel", "acquire")
        return builder.extract_value(done, 1)

    return types.boolean(types.int64, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def pause(context: Any) -> Any:
    """Do nothing for a moment, where the processor knows how."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        name = _PAUSES.get(builder.module.triple.partition("-")[0])
        if name is not None:
            kind = ir.FunctionType(ir.VoidType(), ())
            found = builder.module.globals.get(name)
            builder.call(found or ir.Function(builder.module, kind, name), ())
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic  # type: ignore[untyped-decorator]
def call(context: Any, function: Any, job: Any, start: Any, stop: Any) -> Any:
    """Call ``int function(long job, long start, long stop)``."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        kind = ir.FunctionType(_STATUS, [_WORD] * 3)
        return builder.call(builder.inttoptr(operands[0], kind.as_pointer()), operands[1:])

    return types.int32(types.int64, types.int64, types.int64, types.int64), generate
