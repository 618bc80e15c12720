"""Softmax along any axis, with a scale and a mask."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from corepy.kernels._arguments import (
    Given,
    beside,
    broadcasts,
    destination,
    floating,
    misshapen,
    place,
    real,
)
from corepy.kernels._choice import by_torch, over_elements
from corepy.kernels._device import on_device
from corepy.kernels._formulas import by_reference, empty
from corepy.kernels._memory import Host, Result, view
from corepy.kernels._replay import replayed
from corepy.kernels._ways import NUMBA, TORCH
from corepy.kernels.softmaxes import reference, torch

__all__ = ["softmax"]


@replayed
def softmax(
    x: Any, axis: int, *, scale: float | None = None, mask: Any = None, out: Any = None
) -> Any:
    """Return ``exp(scale * x) / sum(exp(scale * x))`` along an axis.

    Parameters
    ----------
    x : array
        Of float16, bfloat16, float32 or float64.
    axis : int
        Along which the results sum to one.
    scale : float or None
        Multiplies `x`. None: 1.
    mask : array of bool or None
        True where an element takes part; broadcast to the shape of `x`. None: all do.
    out : array or None
        Where to put the result, which may be `x` itself. None: new memory.

    Returns
    -------
    array
        In the shape, library, dtype and device of `x`. Zero where the mask is false, whatever takes
        part beside it, and where it is so for everything along the axis.

    Raises
    ------
    TypeError
        If an argument is of another type, library or dtype; a mask of numbers is no mask.
    ValueError
        If `mask` does not broadcast to `x`, `scale` is not finite, or `out` has another shape or
        is read-only.
    IndexError
        If `x` has no such axis.
    DeviceMismatchError
        If an array lives on another device than `x`.

    Notes
    -----
    Computed in float32, or float64 where `x` has that, less the greatest element, so that nothing
    overflows, and rounded once. A scale beyond that dtype's greatest number counts as it. NaN,
    positive infinity, or nothing but negative infinities among the elements that take part, times
    the scale, give all of these NaN; what does not take part may be anything.

    References
    ----------
    Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, section 2,
    https://arxiv.org/abs/1805.02867

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[0.0, 0.0, 7.0], [1.0, 2.0, 3.0]])
    >>> softmax(x, -1, mask=np.asarray([[True, True, False], [False, False, False]])).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """
    g = floating("softmax", "x", x)
    along = place(g, axis)
    factors = _parts(1.0 if scale is None else real(g, "scale", scale))
    m = None if mask is None else beside("mask", mask, g, ("bool",))
    if m is not None and not broadcasts(m.shape, g.shape):
        raise misshapen(m, f"one that broadcasts to {g.shape}, the shape of x")
    to = destination("out", out, g)
    if g.size == 0:
        return empty(g, to)
    if on_device(g, m):
        from corepy.kernels.softmaxes import device

        return device.softmax(g, along, *factors, m, to)
    plain = m is None and factors == (1.0, 1.0)
    way = over_elements(g, m, torch=plain and torch.serves(g, along))
    if way == TORCH:
        return by_torch(g, partial(torch.softmax, axis=along), out=to)
    if way != NUMBA:
        return by_reference(reference.softmax, g, (m,), (to,), axis=along, factors=factors)

    from corepy.kernels.softmaxes import numba

    result = Result(g, to, m)
    before, size, after = (
        math.prod(part)
        for part in (g.shape[:along], g.shape[along : along + 1], g.shape[along + 1 :])
    )
    brain = g.dtype == "bfloat16"
    if after == 1:
        rows = (a.reshape(before, size) for a in (view(g), result.host))
        numba.softmax_rows(next(rows), *factors, _period(m, g, size), brain, next(rows))
    else:
        stacks = (a.reshape(before, size, after) for a in (view(g), result.host))
        whole = None if m is None else _spread(m, g).reshape(before, size, after)
        numba.softmax_columns(next(stacks), *factors, whole, brain, next(stacks))
    return result.array()


def _parts(scale: float) -> tuple[float, float]:
    """Return what elements are multiplied by before the greatest is taken away, and what after.

    Before, a scale of more than 1 might overflow, and after, one of less what was so already.
    """
    if abs(scale) <= 1.0:
        return scale, 1.0
    return math.copysign(1.0, scale), abs(scale)


def _spread(mask: Given, x: Given) -> Host:
    """Return a mask in the whole shape of `x`."""
    return np.ascontiguousarray(np.broadcast_to(view(mask), x.shape))


def _period(mask: Given | None, x: Given, size: int) -> Host | None:
    """Return the rows of a mask that repeat themselves over those of `x`, as attention's do."""
    if mask is None:
        return None
    shape = mask.shape
    while shape and shape[0] == 1:
        shape = shape[1:]
    if shape and shape == x.shape[-len(shape) :] and shape[-1] == size:
        return view(mask).reshape(-1, size)
    return _spread(mask, x).reshape(-1, size)
