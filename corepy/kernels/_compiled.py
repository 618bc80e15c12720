"""How the fused kernels are compiled; multiply-adds may be fused in all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from corepy._loops._compile import compiler
from corepy.kernels._host import launch

__all__ = ["kernel", "launch"]

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

#: Files with functions that the kernels call.
_SHARED: Final = ("_simd.py", "_series.py", "_tiles.py", "attention/_spans.py")

_compile = compiler(Path(__file__).parent / name for name in _SHARED)


def kernel(function: Kernel) -> Kernel:
    """Compile a kernel on its first call, and keep it on disk."""
    return _compile(fastmath={"contract"})(function)
