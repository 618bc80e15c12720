"""Softmax as its formula reads, in the functions of any library."""

from __future__ import annotations

import math
from typing import Any

from corepy.kernels._casts import cast


def softmax(
    xp: Any, x: Any, mask: Any, *, wide: Any, axis: int, factors: tuple[float, float]
) -> Any:
    """Return ``exp(scale * x) / sum(exp(scale * x))``, zero where a mask is false.

    The scale has two factors: before and after the greatest element is taken away.
    """
    before, after = factors

    def exponentials(y: Any, top: Any) -> Any:
        y = y - top
        return xp.exp(y if after == 1.0 else y * after)

    y = cast(xp, x, wide)
    if before != 1.0:
        y = y * before
    if mask is None:
        y = exponentials(y, xp.max(y, axis=axis, keepdims=True))
        return cast(xp, y / xp.sum(y, axis=axis, keepdims=True), x.dtype)
    mask = xp.broadcast_to(mask, x.shape)
    kept = xp.any(mask, axis=axis, keepdims=True)
    y = xp.where(mask, y, xp.full_like(y, -math.inf))
    top = xp.max(y, axis=axis, keepdims=True)
    # A row without anything kept has no greatest element and no sum: it stays zero.
    y = exponentials(y, xp.where(kept, top, xp.zeros_like(top)))
    total = xp.sum(y, axis=axis, keepdims=True)
    y = y / xp.where(kept, total, xp.ones_like(total))
    # What is left out is zero by now, but where the sum is NaN.
    return cast(xp, xp.where(mask, y, xp.zeros_like(y)), x.dtype)
