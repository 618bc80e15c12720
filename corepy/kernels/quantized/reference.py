"""Integers with scales as their formulas read, in the functions of any library."""

from __future__ import annotations

import math
from typing import Any

from corepy.kernels._casts import cast


def quantize(xp: Any, x: Any, *, wide: Any, bits: int, group_size: int) -> tuple[Any, Any]:
    """Return integers and the scales that they are multiplied by."""
    *axes, size = x.shape
    groups = size // group_size
    parts = xp.reshape(cast(xp, x, wide), (*axes, groups, group_size))
    most = float(2 ** (bits - 1) - 1)
    scales = xp.max(xp.abs(parts), axis=-1, keepdims=True) / most
    # Among thousands of elements JAX loses a NaN on the host (jax#39887).
    lost = xp.any(xp.isnan(parts), axis=-1, keepdims=True)
    scales = xp.where(lost, xp.full_like(scales, math.nan), scales)
    # Rounded up, the scale of the greatest numbers overflows when it is multiplied again.
    lowered = scales * (1.0 - 2.0**-20)
    scales = xp.where(xp.isfinite(scales * most), scales, lowered)
    # What has no scale of its own, or none that is finite, is zero: then NaN comes of the scale.
    usable = xp.isfinite(scales) & (scales > 0)
    steps = xp.round(parts / xp.where(usable, scales, xp.ones_like(scales)))
    steps = xp.clip(steps, min=-most, max=most)  # of a subnormal scale, which may be rounded much
    steps = xp.reshape(xp.where(usable, steps, xp.zeros_like(steps)), (*axes, size))
    scales = xp.reshape(scales, (*axes, groups))
    if bits == 8:
        return cast(xp, steps, xp.int8), scales
    words = cast(xp, steps + 8.0, xp.uint8)
    return words[..., 0::2] | (words[..., 1::2] << 4), scales


def dequantize(xp: Any, scales: Any, values: Any, *, wide: Any) -> Any:
    """Return integers times their scales."""
    if values.dtype == xp.uint8:
        low, high = (
            cast(xp, values & 15, wide) - 8.0,
            cast(xp, values >> 4, wide) - 8.0,
        )
        pairs = xp.stack((low, high), axis=-1)
        found = xp.reshape(pairs, (*values.shape[:-1], 2 * values.shape[-1]))
    else:
        found = cast(xp, values, wide)
    *axes, size = found.shape
    groups = scales.shape[-1]
    parts = xp.reshape(found, (*axes, groups, size // groups))
    return xp.reshape(parts * cast(xp, scales, wide)[..., None], (*axes, size))


def matmul(xp: Any, x: Any, values: Any, scales: Any, *, wide: Any) -> Any:
    """Return ``x @ dequantize(values, scales).T``."""
    matrix = dequantize(xp, scales, values, wide=wide)
    return cast(xp, xp.matmul(cast(xp, x, wide), xp.matrix_transpose(matrix)), x.dtype)


def rounded(xp: Any, x: Any, *, wide: Any, dtype: Any) -> Any:
    """Return products in the dtype of what was multiplied."""
    return cast(xp, x, dtype)
