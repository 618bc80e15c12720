"""A step of Adam as its formulas read, in the functions of any library."""

from __future__ import annotations

from typing import Any


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
    g = xp.astype(gradient, wide, copy=False)
    m = beta1 * xp.astype(first, wide, copy=False) + (1.0 - beta1) * g
    v = beta2 * xp.astype(second, wide, copy=False) + (1.0 - beta2) * (g * g)
    stride = rate * m / (xp.sqrt(v) * correction + eps)
    p = xp.astype(parameter, wide, copy=False) * decay - stride
    return (
        xp.astype(p, parameter.dtype, copy=False),
        xp.astype(m, first.dtype, copy=False),
        xp.astype(v, second.dtype, copy=False),
    )
