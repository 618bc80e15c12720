"""Activations as their formulas read, in the functions of any library."""

from __future__ import annotations

from typing import Any

from corepy.kernels._casts import cast
from corepy.kernels._series import (
    CEILING,
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


def _between(xp: Any, x: Any, floor: float) -> Any:
    """Return numbers that are no less than `floor`, and no more than `CEILING`.

    By selects again: torch's clip gives NaN a derivative of zero, and `torch.compile` does not
    take it through array_api_compat where numbers may change.
    """
    x = xp.where(x < floor, xp.full_like(x, floor), x)
    return xp.where(x > CEILING, xp.full_like(x, CEILING), x)


def _above(xp: Any, x: Any, near: Any) -> Any:
    """Return `x` beyond `CEILING`, for zero times infinity would be its derivative, else `near`."""
    return xp.where(x > CEILING, x, near)


def _silu(xp: Any, x: Any) -> Any:
    near = _between(xp, x, SILU_FLOOR)
    return _above(xp, x, near * _sigmoid(xp, near))


def silu(xp: Any, x: Any, *, wide: Any) -> Any:
    """Return ``x * sigmoid(x)``."""
    return cast(xp, _silu(xp, cast(xp, x, wide)), x.dtype)


def gelu(xp: Any, x: Any, *, wide: Any) -> Any:
    """Return ``x * (1 + erf(x / sqrt(2))) / 2``: times the normal distribution below it."""
    y = cast(xp, x, wide)
    near = _between(xp, y, GELU_FLOOR)
    negative = near < 0
    beyond = _tail(xp, xp.where(negative, -near, near), wide)
    found = near * xp.where(negative, beyond, 1.0 - beyond)
    return cast(xp, _above(xp, y, found), x.dtype)


def gelu_tanh(xp: Any, x: Any, *, wide: Any) -> Any:
    """Return ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``.

    ``(1 + tanh(v)) / 2`` is ``sigmoid(2 * v)``, which keeps its digits where tanh is near -1.
    """
    y = cast(xp, x, wide)
    near = _between(xp, y, GELU_FLOOR)
    cube = 1.0 + GELU_CUBE * near * near
    found = near * _sigmoid(xp, GELU_SLOPE * near * cube)
    return cast(xp, _above(xp, y, found), x.dtype)


def swiglu(xp: Any, x: Any, gate: Any, *, wide: Any) -> Any:
    """Return ``x * silu(gate)``."""
    y = cast(xp, x, wide) * _silu(xp, cast(xp, gate, wide))
    return cast(xp, y, x.dtype)
