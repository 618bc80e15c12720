"""A fused step of the optimiser Adam, with decoupled weight decay."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

from corepy._errors import bad_argument
from corepy.dispatch import one_operation
from corepy.kernels._arguments import (
    Given,
    beside,
    epsilon,
    finite,
    floating,
    real,
    whole,
    within,
    writable,
)
from corepy.kernels._device import on_device
from corepy.kernels._formulas import by_reference
from corepy.kernels._memory import Result, dense_order, refuse_overlap, supports, turned, view
from corepy.kernels.adam import reference

__all__ = ["adam_step"]

#: What changes from step to step, by corrections of the moments and by schedules of the rate.
_VARYING: Final = ("rate", "decay", "correction")


@one_operation
def adam_step(
    parameter: Any,
    gradient: Any,
    first_moment: Any,
    second_moment: Any,
    *,
    step: int,
    learning_rate: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> tuple[Any, Any, Any]:
    """Change a parameter and its moments in place, by one step of AdamW.

    ``m = beta1 * m + (1 - beta1) * g``, ``v = beta2 * v + (1 - beta2) * g**2``, and then
    ``p = p * (1 - learning_rate * weight_decay) - learning_rate * m' / (sqrt(v') + eps)`` with
    ``m' = m / (1 - beta1**step)`` and ``v' = v / (1 - beta2**step)``.

    Parameters
    ----------
    parameter : array
        Of float16, bfloat16, float32 or float64.
    gradient : array
        In the shape of `parameter`; of its dtype, or of float32 beside 16-bit floats.
    first_moment, second_moment : array
        Zeros before the first step. In the shape of `parameter`; both of its dtype, or both of
        float32 beside 16-bit floats.
    step : int
        The number of this step, from 1 on.
    learning_rate, eps, weight_decay : float
        0 or more.
    beta1, beta2 : float
        From 0 on, less than 1.

    Returns
    -------
    tuple of three arrays
        The parameter and both moments: those that were given, or new ones for JAX's own, which
        never change.

    Raises
    ------
    TypeError
        If an argument is of another type, library or dtype.
    ValueError
        If a shape does not fit, a number is out of its range, an array is read-only, or two of
        them have memory in common.
    DeviceMismatchError
        If an array lives on another device than `parameter`.

    Notes
    -----
    Computed in float32, or float64 where `parameter` has that; what is kept is rounded once, and
    the step is taken with the moments before their rounding. Numbers beyond that dtype's greatest
    count as it, and a positive `eps` below its least normal number as that one. No gradient passes
    through it.

    References
    ----------
    Kingma and Ba, Adam, 2014, https://arxiv.org/abs/1412.6980; Loshchilov and Hutter, Decoupled
    Weight Decay Regularization, 2017, https://arxiv.org/abs/1711.05101

    Examples
    --------
    >>> import numpy as np
    >>> p, g, m, v = np.ones(2), np.asarray([1.0, -4.0]), np.zeros(2), np.zeros(2)
    >>> _ = adam_step(p, g, m, v, step=1, learning_rate=0.1, eps=0.0)
    >>> p.tolist()
    [0.9, 1.1]
    """
    name = "adam_step"
    p = floating(name, "parameter", parameter)
    dtypes = tuple(dict.fromkeys((p.dtype, p.wide)))
    g = beside("gradient", gradient, p, dtypes, p.shape)
    m = beside("first_moment", first_moment, p, dtypes, p.shape)
    v = beside("second_moment", second_moment, p, (m.dtype,), p.shape)
    step = whole(name, "step", step, 1)
    finite(name, "step", step)  # as a float, for powers
    rate = real(p, "learning_rate", learning_rate, 0.0)
    betas = []
    for argument, value in (("beta1", beta1), ("beta2", beta2)):
        betas.append(finite(name, argument, value, 0.0))
        if betas[-1] >= 1.0:
            raise bad_argument(name, argument, value, "a number less than 1")
    settings: dict[str, Any] = {
        "rate": within(p, rate / _rest(betas[0], step)),
        "decay": within(p, 1.0 - rate * real(p, "weight_decay", weight_decay, 0.0)),
        "beta1": betas[0],
        "beta2": betas[1],
        "correction": 1.0 / math.sqrt(_rest(betas[1], step)),
        "eps": epsilon(p, eps),
    }
    p, g, m, v = map(_without_gradient, (p, g, m, v))
    refuse_overlap(p, g, m, v)
    if p.library == "jax" and any(x.table is None for x in (p, m, v)):
        plain = replace(p, value=p.native, table=None)
        outs = tuple(None if x.table is None else x for x in (p, m, v))
        found: tuple[Any, Any, Any] = by_reference(
            reference.adam_step, plain, (g, m, v), outs, varying=_VARYING, **settings
        )
        return found
    for x in (p, m, v):
        writable(x)
    if p.size:
        _change(p, g, m, v, settings)
    return parameter, first_moment, second_moment


def _change(p: Given, g: Given, m: Given, v: Given, settings: dict[str, Any]) -> None:
    if on_device(p, g, m, v, in_place=True):
        from corepy.kernels.adam import device

        device.adam_step(p, g, m, v, settings)
        return
    if not supports(p, g, m, v):
        by_reference(reference.adam_step, p, (g, m, v), (p, m, v), varying=_VARYING, **settings)
        return

    from corepy.kernels.adam import numba

    order = dense_order(p, g, m, v)
    p, g, m, v = (turned(x, order) for x in (p, g, m, v))
    results = [Result(p, p, g, m, v), Result(m, m, g, p, v), Result(v, v, g, p, m)]
    old = tuple(view(x).reshape(-1) for x in (p, g, m, v))
    new = tuple(result.host.reshape(-1) for result in results)
    numba.adam_step(old, new, tuple(settings.values()), p.dtype == "bfloat16")
    for result in results:
        result.array()


def _rest(beta: float, step: int) -> float:
    """Return ``1 - beta**step``, of which a difference of a beta near 1 would lose digits."""
    half = math.tanh(-0.5 * step * math.log(beta)) if beta else 1.0
    return 2.0 * half / (1.0 + half)  # as -expm1 is, which `torch.compile` does not trace


def _without_gradient(x: Given) -> Given:
    """Return an argument as one that torch lets change, in the same memory."""
    if x.library != "torch" or x.table is not None or not x.native.requires_grad:
        return x
    native = x.native.detach()
    return replace(x, native=native, value=native)
