"""Waiting for another thread in a loop, without the GIL, where that takes but some microseconds."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from corepy._loops._compile import compiler

__all__ = ["Flag", "raised", "tell_and_wait"]

#: Turns of the loop: 30 to 90 us on processors that can pause, as threads that have slept need some
#: 20 to wake. On others it is over at once.
_TURNS: Final = 2000
#: Turns for which a helper waits for the next call.
_PATIENCE: Final = 8000
#: Turns for which somebody who was called leaves the interpreter's lock to the caller, who is about
#: to begin: to wait for the lock takes as long as to wake.
_GRACE: Final = 200

#: What tells a processor that its other thread may go first, by the beginning of LLVM's names.
_PAUSES: Final = {"x86_64": "llvm.x86.sse2.pause", "i686": "llvm.x86.sse2.pause"}


@intrinsic  # type: ignore[untyped-decorator]
def _look(context: Any, flag: Any) -> Any:
    """Load the first element of an array anew, whatever the compiler knows of it, and pause."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, operands[0])
        pause = _PAUSES.get(builder.module.triple.partition("-")[0])
        if pause is not None:
            signature = ir.FunctionType(ir.VoidType(), ())
            found = builder.module.globals.get(pause)
            builder.call(found or ir.Function(builder.module, signature, pause), ())
        return builder.load_atomic(array.data, "acquire", 8)

    return types.int64(flag), generate


@intrinsic  # type: ignore[untyped-decorator]
def _raise(context: Any, flag: Any) -> Any:
    """Set the first element of an array to one, after all that was written before."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, operands[0])
        builder.store_atomic(context.get_constant(types.int64, 1), array.data, "release", 8)
        return context.get_dummy_value()

    return types.void(flag), generate


_compiled = compiler(())()


@_compiled
def _wait(flag: Any, known: int, turns: int, grace: int) -> bool:
    for _ in range(turns):
        if _look(flag) != known:
            for _ in range(grace):
                _look(flag)
            return True
    return False


@_compiled
def _tell_and_wait(told: Any, flag: Any, known: int, turns: int, grace: int) -> bool:
    _raise(told)
    return bool(_wait(flag, known, turns, grace))


Flag = npt.NDArray[np.int64]


def raised(flag: Flag) -> bool:
    """Wait a moment for a flag to become other than zero, and say whether it has."""
    return not config.DISABLE_JIT and bool(_wait(flag, 0, _TURNS, 0))


def tell_and_wait(told: Flag, flag: Flag, known: int) -> None:
    """Raise a flag, and wait some moments for another one to become other than it was.

    Who waits for the first one finds the interpreter's lock free: it is released before.
    """
    if config.DISABLE_JIT:
        told[0] = 1
    else:
        _tell_and_wait(told, flag, known, _PATIENCE, _GRACE)
