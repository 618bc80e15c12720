"""Activations as their formulas read, in the functions of any library."""

from __future__ import annotations

from typing import Any

from corepy.kernels._casts import cast
from corepy.kernels._series import (
    GELU_CUBE,
    GELU_FLOOR,
    GELU_SLOPE,
    POLE,
    SILU_FLOOR,
    TAIL_32,
    TAIL_64,
)


def _sigmoid(xp: Any, x: Any) -> Any:
    """Return ``1 / (1 + exp(-x))``, where nothing overflows and small results keep their digits.

    By selects, of which each side has all its derivatives at zero: an abs or clip has not.
    """
    negative = x < 0
    small = xp.exp(xp.where(negative, x, -x))
    return xp.where(negative, small, xp.ones_like(x)) / (1.0 + small)


def _tail(xp: Any, u: Any, wide: Any) -> Any:
    """Return the normal distribution's tail beyond ``u``; see `corepy.kernels._series`."""
    t = 1.0 / (POLE + u)
    s = 2.0 * u * t - 1.0
    first, *others = reversed(TAIL_64 if wide == xp.float64 else TAIL_32)
    p = xp.full_like(u, first)
    for coefficient in others:
        p = p * s + coefficient
    # u * u in two parts, so that its rounding does not spoil the exponential.
    near = xp.round(16.0 * u) / 16.0
    return xp.exp(-0.5 * near * near) * xp.exp(-0.5 * (u - near) * (u + near)) * t * p


def _silu(xp: Any, x: Any) -> Any:
    return xp.clip(x, min=SILU_FLOOR) * _sigmoid(xp, x)


def silu(xp: Any, x: Any, *, wide: Any) -> Any:
    """Return ``x * sigmoid(x)``."""
    return cast(xp, _silu(xp, cast(xp, x, wide)), x.dtype)


def gelu(xp: Any, x: Any, *, wide: Any) -> Any:
    """Return ``x * (1 + erf(x / sqrt(2))) / 2``: times the normal distribution below it."""
    y = xp.clip(cast(xp, x, wide), min=GELU_FLOOR)
    negative = y < 0
    beyond = _tail(xp, xp.clip(xp.where(negative, -y, y), max=-GELU_FLOOR), wide)
    return cast(xp, y * xp.where(negative, beyond, 1.0 - beyond), x.dtype)


def gelu_tanh(xp: Any, x: Any, *, wide: Any) -> Any:
    """Return ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``.

    ``(1 + tanh(v)) / 2`` is ``sigmoid(2 * v)``, which keeps its digits where tanh is near -1.
    """
    y = xp.clip(cast(xp, x, wide), min=GELU_FLOOR)
    near = xp.clip(y, max=-GELU_FLOOR)  # beyond it is 1, and the cube's derivative infinite
    cube = 1.0 + GELU_CUBE * near * near
    return cast(xp, y * _sigmoid(xp, GELU_SLOPE * near * cube), x.dtype)


def swiglu(xp: Any, x: Any, gate: Any, *, wide: Any) -> Any:
    """Return ``x * silu(gate)``."""
    y = cast(xp, x, wide) * _silu(xp, cast(xp, gate, wide))
    return cast(xp, y, x.dtype)
