"""Waiting for another thread in a loop, without the GIL, where that takes but some microseconds."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from corepy._loops._compile import compiler

__all__ = ["raised"]

#: Turns of the loop: 30 to 90 us on processors that can pause, as threads that have slept need some
#: 20 to wake. On others it is over at once.
_TURNS: Final = 2000

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


@compiler(())()
def _wait(flag: Any, turns: int) -> bool:
    for _ in range(turns):  # noqa: SIM110 (generators are not compiled)
        if _look(flag):
            return True
    return False


def raised(flag: npt.NDArray[np.int64]) -> bool:
    """Wait a moment for a flag to become other than zero, and say whether it has."""
    return not config.DISABLE_JIT and bool(_wait(flag, _TURNS))
