"""Convolution by JAX's function and MLX's, of their own arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from corepy.dispatch import make, ran
from corepy.kernels._arguments import Given
from corepy.kernels._formulas import setting
from corepy.kernels._memory import delivered, place_of
from corepy.kernels.convolutions._geometry import Geometry

#: What computes one, of native arrays of one dtype but for the bias, which may be wider.
Function = Callable[[Any, Any, Any, str, Geometry], Any]


def conv2d(
    function: Function,
    x: Given,
    weight: Given,
    bias: Given | None,
    geometry: Geometry,
    out: Given | None,
) -> Any:
    """Compute a convolution with the function of a library, and deliver it."""
    ran(x.backend.name, x.backend, place_of(x), f"{x.library} has a function of its own for it")
    with setting(x, weight, bias):
        added = None if bias is None else bias.native
        native = function(x.native, weight.native, added, x.wide, geometry)
        return delivered(native if x.table is None else make(native, x.table), out)


def function_for(x: Given) -> Function | None:
    """Return the function of JAX or MLX, None for arrays of others and what it lacks."""
    # MLX 0.32 takes float64 and computes it in float32.
    if x.library == "mlx" and x.wide == "float64":
        return None
    return _FUNCTIONS.get(x.library)


def _jax(x: Any, weight: Any, bias: Any, wide: str, geometry: Geometry) -> Any:
    lax = sys.modules["jax"].lax
    g = geometry
    found = lax.conv_general_dilated(
        x.astype(wide),
        weight.astype(wide),
        window_strides=g.stride,
        padding=g.padding,
        rhs_dilation=g.dilation,
        feature_group_count=g.groups,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
    )
    if bias is not None:
        found = found + bias.astype(wide)[:, None, None]
    return found.astype(x.dtype)


def _mlx(x: Any, weight: Any, bias: Any, wide: str, geometry: Geometry) -> Any:
    mx = sys.modules["mlx.core"]
    g = geometry
    (top, bottom), (left, right) = g.padding
    last = (0, 2, 3, 1)  # where MLX has the channels
    found = mx.conv_general(
        x.astype(getattr(mx, wide)).transpose(last),
        weight.astype(getattr(mx, wide)).transpose(last),
        stride=g.stride,
        padding=([top, left], [bottom, right]),
        kernel_dilation=g.dilation,
        groups=g.groups,
    )
    if bias is not None:
        found = found + bias.astype(getattr(mx, wide))
    return found.transpose(0, 3, 1, 2).astype(x.dtype)


_FUNCTIONS: Final[dict[str, Function]] = {"jax": _jax, "mlx": _mlx}
