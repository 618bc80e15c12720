"""Activations in device kernels."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from corepy.kernels._arguments import Given
from corepy.kernels._device import Program, Result, launch, memory
from corepy.kernels._device._sharing import by_elements, vector_of
from corepy.kernels._series import (
    GELU_CUBE,
    GELU_FLOOR,
    GELU_SLOPE,
    POLE,
    SILU_FLOOR,
    TAIL_32,
    TAIL_64,
)


def _polynomial(coefficients: tuple[float, ...]) -> str:
    """Write a polynomial in ``s`` by Horner's rule, lowest power first in the coefficients."""
    first, *others = reversed(coefficients)
    return reduce(lambda inner, c: f"({inner} * s + (real){c!r})", others, f"(real){first!r}")


_SERIES = {"float32": TAIL_32, "float64": TAIL_64}
_programs = {
    wide: Program(
        __file__,
        constants={
            "POLE": POLE,
            "TAIL(s)": _polynomial(series),
            "GELU_FLOOR": GELU_FLOOR,
            "GELU_SLOPE": GELU_SLOPE,
            "GELU_CUBE": GELU_CUBE,
            "SILU_FLOOR": SILU_FLOOR,
        },
    )
    for wide, series in _SERIES.items()
}


def activation(x: Given, function: str, opened: Given | None, out: Given | None) -> Any:
    """Return ``silu``, ``gelu`` or ``gelu_tanh`` of each element, times another array."""
    result = Result(opened or x, out, x)
    values, factors = memory(x), None if opened is None else memory(opened)
    vector = vector_of(x, 0, values, factors, result.memory)
    grid, block, defines = by_elements(x, x.size, vector)
    launch(
        *(x, _programs[x.wide], "activation"),
        grid=grid,
        block=block,
        arguments=(values, factors, result.memory, np.int64(x.size)),
        X=x.dtype,
        FUNCTION=function,
        OPENED=int(opened is not None),
        **defines,
    )
    return result.array()
