"""Norms as their formulas read, in the functions of any library."""

from __future__ import annotations

from typing import Any


def rms_norm(xp: Any, x: Any, weight: Any, residual: Any, *, wide: Any, eps: float) -> Any:
    """Return ``x / sqrt(mean(x**2) + eps) * weight``, after a residual if there is one."""
    summed = x
    if residual is not None:
        summed = xp.astype(
            xp.astype(x, wide, copy=False) + xp.astype(residual, wide, copy=False),
            x.dtype,
            copy=False,
        )
    y = xp.astype(summed, wide, copy=False)
    y = y / xp.sqrt(xp.mean(y * y, axis=-1, keepdims=True) + eps)
    if weight is not None:
        y = y * xp.astype(weight, wide, copy=False)
    y = xp.astype(y, x.dtype, copy=False)
    return y if residual is None else (y, summed)


def layer_norm(xp: Any, x: Any, weight: Any, bias: Any, *, wide: Any, eps: float) -> Any:
    """Return ``(x - mean(x)) / sqrt(var(x) + eps) * weight + bias``."""
    y = xp.astype(x, wide, copy=False)
    y = y - xp.mean(y, axis=-1, keepdims=True)
    # Again, for what the rounding of a mean far from zero left over.
    y = y - xp.mean(y, axis=-1, keepdims=True)
    y = y / xp.sqrt(xp.mean(y * y, axis=-1, keepdims=True) + eps)
    if weight is not None:
        y = y * xp.astype(weight, wide, copy=False)
    if bias is not None:
        y = y + xp.astype(bias, wide, copy=False)
    return xp.astype(y, x.dtype, copy=False)


def batch_norm(
    xp: Any,
    x: Any,
    mean: Any,
    variance: Any,
    weight: Any,
    bias: Any,
    *,
    wide: Any,
    eps: float,
    axis: int,
) -> Any:
    """Return ``(x - mean) / sqrt(variance + eps) * weight + bias`` for the channels of an axis."""

    def along(parameter: Any) -> Any:
        shape = (-1, *(1,) * (x.ndim - 1 - axis))
        return xp.reshape(xp.astype(parameter, wide, copy=False), shape)

    y = (xp.astype(x, wide, copy=False) - along(mean)) / xp.sqrt(along(variance) + eps)
    if weight is not None:
        y = y * along(weight)
    if bias is not None:
        y = y + along(bias)
    return xp.astype(y, x.dtype, copy=False)
