"""Normalization of channels by statistics that are known, as networks do that are trained."""

from __future__ import annotations

import math
import sys
from functools import partial
from typing import Any

from corepy._errors import bad_type
from corepy.devices._device import CPU
from corepy.kernels._arguments import (
    Given,
    destination,
    epsilon,
    floating,
    parameter,
    place,
    torch_layout,
)
from corepy.kernels._choice import by_torch
from corepy.kernels._device import on_device
from corepy.kernels._formulas import by_reference, empty
from corepy.kernels._memory import Result, supports, view, widened
from corepy.kernels._replay import replayed
from corepy.kernels.norms import reference


@replayed
def batch_norm(
    x: Any,
    mean: Any,
    variance: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    eps: float = 1e-5,
    axis: int = 1,
    out: Any = None,
) -> Any:
    """Normalize channels: ``(x - mean) / sqrt(variance + eps) * weight + bias``.

    Parameters
    ----------
    x : array
        Such as (batch, channels, height, width), of float16, bfloat16, float32 or float64.
    mean, variance : array (channels,)
        Of the dtype of `x`, or float32 beside 16-bit floats: what was gathered in training, or
        those of `x` itself.
    weight, bias : array (channels,) or None
        Of these dtypes too. None: 1 and 0.
    eps : float
        Added to the variance; 0 or more.
    axis : int
        That of the channels; -1 for images with the channels last.
    out : array or None
        Where to put the result, which may be `x` itself. None: new memory.

    Returns
    -------
    array
        In the shape, library, dtype and device of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type, library or dtype.
    ValueError
        If a shape does not fit, `eps` is negative or not finite, or `out` is read-only.
    IndexError
        If `x` has no such axis.
    DeviceMismatchError
        If an array lives on another device than `x`.

    Notes
    -----
    There is no training form, for it is this one with ``mean(x)`` and ``var(x)`` over the other
    axes, through which gradients pass, and what becomes of running statistics is the trainer's. A
    variance of less than ``-eps`` gives NaN. Computed in float32, or float64 where `x` has that,
    and rounded once. `eps` has the limits of `rms_norm`.

    References
    ----------
    Ioffe and Szegedy, Batch Normalization, 2015, https://arxiv.org/abs/1502.03167

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[1.0, 10.0], [3.0, 30.0]])
    >>> batch_norm(x, np.asarray([2.0, 20.0]), np.asarray([1.0, 25.0]), eps=0.0).tolist()
    [[-1.0, -2.0], [1.0, 2.0]]
    """
    name = "batch_norm"
    g = floating(name, "x", x)
    along = place(g, axis)
    channels = g.shape[along]
    m = _required("mean", mean, g, (channels,))
    v = _required("variance", variance, g, (channels,))
    w, b = (parameter(n, v, g, (channels,)) for n, v in (("weight", weight), ("bias", bias)))
    eps = epsilon(g, eps)
    to = destination("out", out, g)
    if g.size == 0:
        return empty(g, to)
    if on_device(g, m, v, w, b) and not _torch_serves(g, (m, v), (w, b), eps, along):
        from corepy.kernels.norms import device

        return device.batch_norm(g, m, v, w, b, eps, along, to)
    if not supports(g, m, v, w, b):
        if _torch_serves(g, (m, v), (w, b), eps, along):
            function = sys.modules["torch"].nn.functional.batch_norm
            return by_torch(g, partial(function, eps=eps), m, v, w, b, out=to)
        return by_reference(reference.batch_norm, g, (m, v, w, b), (to,), eps=eps, axis=along)

    from corepy.kernels.norms import numba

    after = math.prod(g.shape[along + 1 :])
    result = Result(g, to, read_again=(m, v, w, b))
    numba.batch_norm(
        view(g).reshape(-1, channels, after),
        widened(m, g.wide, channels, 0.0),
        widened(v, g.wide, channels, 1.0),
        widened(w, g.wide, channels, 1.0),
        widened(b, g.wide, channels, 0.0),
        eps,
        g.dtype == "bfloat16",
        result.host.reshape(-1, channels, after),
    )
    return result.array()


def _required(argument: str, value: Any, x: Given, shape: tuple[int, ...]) -> Given:
    found = parameter(argument, value, x, shape)
    if found is None:
        raise bad_type(x.function, argument, value, "an array")
    return found


def _torch_serves(
    x: Given,
    statistics: tuple[Given, Given],
    parameters: tuple[Given | None, ...],
    eps: float,
    axis: int,
) -> bool:
    """Say whether torch's function has all that is asked for.

    It passes no gradient on to the statistics, and has no rules for `torch.func`. On the host it
    computes ``x * scale + (bias - mean * scale)``, which loses digits far from zero.
    """
    if x.library != "torch" or x.device is CPU or axis != 1 or eps == 0.0:
        return False
    torch = sys.modules["torch"]
    return (
        type(x.native) in (torch.Tensor, torch.nn.Parameter)
        and all(g.dtype == x.dtype for g in (*statistics, *parameters) if g is not None)
        and not any(g.native.requires_grad for g in statistics)
        and not torch.compiler.is_compiling()
        and not torch_layout().is_transformed()
    )
