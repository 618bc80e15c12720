"""What the compiler makes of the loops: vector registers of the processor's whole width."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.backend("numba")


def widest(code: str) -> int:
    """Return the bytes of the widest vectors of float32 in a compiler's code, 0 without any."""
    return max((4 * int(n) for n in re.findall(r"<(\d+) x (?:float|i32)>", code)), default=0)


def compiled(function: Any, **options: Any) -> Any:
    """Compile a function as the loops are, without keeping it."""
    from numba import njit

    from corepy._loops._compile import OPTIONS

    return njit(**OPTIONS, **options)(function)


@cache  # it compiles
def width() -> int:
    """Return the bytes of the vectors that the compiler takes for the simplest of loops.

    On some processors that is half a register: LLVM prefers 256 bits on Intel's first with AVX-512.
    """
    from llvmlite import binding

    from corepy._loops._lowering import IS_WIDE

    @compiled
    def doubled(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] + x[i]

    doubled(*np.zeros((2, 256), np.float32))
    found = widest(*doubled.inspect_llvm().values())
    assert found >= (64 if IS_WIDE else 32 if binding.get_host_cpu_features().get("avx2") else 16)
    return found


def loops() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Return loops that do most of the arithmetic, with operands."""
    from corepy.kernels import _simd
    from corepy.kernels.activations import numba as activations
    from corepy.kernels.matrices import _brain, _sums
    from corepy.kernels.softmaxes import numba as softmaxes

    x, y = np.zeros((2, 256), np.float32)
    words, ends = np.zeros(8 * 256, np.uint16), np.zeros(3, np.int32)
    return {
        "silu": (activations._silu, (x, y)),
        "gelu": (activations._gelu, (x, y)),
        "gelu_tanh": (activations._gelu_tanh, (x, y)),
        "exponentials": (softmaxes._exponentials, (x, x[0], y)),
        "greatest": (softmaxes._greatest, (x,)),
        "squares": (_simd._block_of_squares, (x,)),
        "weights": (_simd._block_of, (x,)),
        "halves": (_sums._add_eight, (words, 0, 256, x[:8], y, False)),
        "brains": (_sums._add_eight, (words, 0, 256, x[:8], y, True)),
        "extent": (_brain._extent, (words, ends)),
    }


@pytest.mark.parametrize(
    "name",
    [
        *("silu", "gelu", "gelu_tanh", "exponentials", "greatest", "squares", "weights"),
        *("halves", "brains", "extent"),
    ],
)
def test_loops_fill_vector_registers(name: str) -> None:
    loop, operands = loops()[name]
    flags = loop.targetoptions["fastmath"]
    flags = getattr(flags, "flags", flags)
    fresh = compiled(loop.py_func, fastmath=flags)
    fresh(*operands)
    (code,) = fresh.inspect_llvm().values()
    assert widest(code) >= width()
    assert not re.search(r"call .*@(exp|log|tanh|erf|pow)f?\(", code)
    assert not re.search(r"llvm\.(exp|log|pow)", code)
