"""A step of Adam as its formulas read, in the functions of any library."""

from __future__ import annotations

from typing import Any

from corepy.kernels._casts import cast


def adam_step(
    xp: Any,
    parameter: Any,
    gradient: Any,
    first: Any,
    second: Any,
    *,
    wide: Any,
    rate: float,
    decay: float,
    beta1: float,
    beta2: float,
    correction: float,
    eps: float,
) -> tuple[Any, Any, Any]:
    """Return the parameter and both moments after a step.

    `rate` has the first moment's correction in it, and `decay` is what is left of the parameter.
    """
    g = cast(xp, gradient, wide)
    m = beta1 * cast(xp, first, wide) + (1.0 - beta1) * g
    v = beta2 * cast(xp, second, wide) + (1.0 - beta2) * (g * g)
    stride = rate * m / (xp.sqrt(v) * correction + eps)
    p = cast(xp, parameter, wide) * decay - stride
    return (
        cast(xp, p, parameter.dtype),
        cast(xp, m, first.dtype),
        cast(xp, v, second.dtype),
    )
