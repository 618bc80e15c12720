"""Norms as their formulas read, in the functions of any library."""

from __future__ import annotations

from typing import Any

from corepy.kernels._casts import cast


def rms_norm(xp: Any, x: Any, weight: Any, residual: Any, *, wide: Any, eps: float) -> Any:
    """Return ``x / sqrt(mean(x**2) + eps) * weight``, after a residual if there is one."""
    summed = x
    if residual is not None:
        summed = cast(xp, cast(xp, x, wide) + cast(xp, residual, wide), x.dtype)
    y = cast(xp, summed, wide)
    y = y / xp.sqrt(xp.mean(y * y, axis=-1, keepdims=True) + eps)
    if weight is not None:
        y = y * cast(xp, weight, wide)
    y = cast(xp, y, x.dtype)
    return y if residual is None else (y, summed)


def layer_norm(xp: Any, x: Any, weight: Any, bias: Any, *, wide: Any, eps: float) -> Any:
    """Return ``(x - mean(x)) / sqrt(var(x) + eps) * weight + bias``."""
    y = cast(xp, x, wide)
    y = y - xp.mean(y, axis=-1, keepdims=True)
    # Again, for what the rounding of a mean far from zero left over.
    y = y - xp.mean(y, axis=-1, keepdims=True)
    y = y / xp.sqrt(xp.mean(y * y, axis=-1, keepdims=True) + eps)
    if weight is not None:
        y = y * cast(xp, weight, wide)
    if bias is not None:
        y = y + cast(xp, bias, wide)
    return cast(xp, y, x.dtype)


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
        return xp.reshape(cast(xp, parameter, wide), shape)

    y = (cast(xp, x, wide) - along(mean)) / xp.sqrt(along(variance) + eps)
    if weight is not None:
        y = y * along(weight)
    if bias is not None:
        y = y + along(bias)
    return cast(xp, y, x.dtype)
