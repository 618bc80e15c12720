"""RMSNorm and LayerNorm over the last axis, and BatchNorm over channels."""

from __future__ import annotations

from functools import partial
from typing import Any

from corepy._errors import bad_type, refused
from corepy.kernels._arguments import (
    Given,
    beside,
    destination,
    epsilon,
    floating,
    misshapen,
    parameter,
)
from corepy.kernels._choice import by_torch, over_elements
from corepy.kernels._device import on_device
from corepy.kernels._formulas import by_reference, empty
from corepy.kernels._memory import Result, refuse_overlap, view, widened
from corepy.kernels._replay import replayed
from corepy.kernels._ways import NUMBA, TORCH
from corepy.kernels.norms import reference, torch
from corepy.kernels.norms._batch import batch_norm

__all__ = ["batch_norm", "layer_norm", "rms_norm"]


@replayed
def rms_norm(x: Any, weight: Any, eps: float, *, residual: Any = None, out: Any = None) -> Any:
    """Divide rows by the root of their mean square: ``x / sqrt(mean(x**2) + eps) * weight``.

    Parameters
    ----------
    x : array (..., size)
        Of float16, bfloat16, float32 or float64.
    weight : array (size,) or None
        Of the dtype of `x`, or float32 beside 16-bit floats. None: no weight.
    eps : float
        Added to the mean square; 0 or more.
    residual : array (..., size) or None
        Added to `x` first; of its shape and dtype.
    out : array, tuple of two arrays, or None
        Where to put the result, which may be `x` itself; with `residual` a pair. None: new memory.

    Returns
    -------
    array (..., size) or tuple of two
        The normed rows, in the library, dtype and device of `x`. With `residual` a pair, the
        normed rows and ``x + residual``, as the next block of a transformer needs both.

    Raises
    ------
    TypeError
        If an argument is of another type, library or dtype.
    ValueError
        If a shape does not fit, `eps` is negative or not finite, or of `out` an array is read-only
        or two share memory.
    DeviceMismatchError
        If an array lives on another device than `x`.

    Notes
    -----
    All is computed in float32, or float64 where `x` has that, and rounded to the dtype of `x`
    once, after the weight, as torch does. ``x + residual`` is rounded too, and what is normed is
    the rounded sum: the pair equals ``h = x + residual`` and ``rms_norm(h, weight, eps)``. Where
    the squares of a row, or their sum, overflow in float32 it becomes zero: from 1.8e19 on, in rows
    of thousands of elements from some 3e17. Where they underflow, below 1e-18, a row beside an
    `eps` of zero loses digits, or becomes infinite or NaN. An `eps` beyond the greatest number of
    the dtype that is computed in counts as it, and a positive one below the least normal number
    (1.2e-38 in float32) as that one.

    References
    ----------
    Zhang and Sennrich, Root Mean Square Layer Normalization, 2019, https://arxiv.org/abs/1910.07467

    Examples
    --------
    >>> import numpy as np
    >>> rms_norm(np.asarray([3.0, 4.0, 0.0, 0.0]), None, 0.0).tolist()
    [1.2, 1.6, 0.0, 0.0]
    """
    g = _rows("rms_norm", x)
    size = g.shape[-1]
    w = parameter("weight", weight, g, (size,))
    eps = epsilon(g, eps)
    if residual is None:
        to = destination("out", out, g)
        if g.size == 0:
            return empty(g, to)
        if on_device(g, w):
            return _device_rms_norm(g, w, eps, None, to, None)[0]
        way = over_elements(g, w, torch=torch.serves(g, w))
        if way == NUMBA:
            return _compiled_rms_norm(g, w, eps, None, to, None)[0]
        if way == TORCH:
            return by_torch(g, partial(torch.rms_norm, eps=eps), w, out=to)
        return by_reference(reference.rms_norm, g, (w, None), (to,), eps=eps)
    r = beside("residual", residual, g, (g.dtype,), g.shape)
    to, to_sum = _pair(g, out)
    if g.size == 0:
        return empty(g, to), empty(g, to_sum)
    if on_device(g, w, r):
        return _device_rms_norm(g, w, eps, r, to, to_sum)
    way = over_elements(g, w, r, torch=False)
    if way == NUMBA:
        return _compiled_rms_norm(g, w, eps, r, to, to_sum)
    return by_reference(reference.rms_norm, g, (w, r), (to, to_sum), eps=eps)


def _pair(x: Given, out: Any) -> tuple[Given | None, Given | None]:
    """Look at where the two results of a norm with a residual belong."""
    if out is None:
        return None, None
    if not isinstance(out, tuple):
        raise bad_type(x.function, "out", out, "a tuple of two arrays, with residual")
    if len(out) != 2:
        found = f"has {len(out)} entries"
        raise refused(ValueError, x.function, "out", found, "two, with residual")
    normed, summed = destination("out[0]", out[0], x), destination("out[1]", out[1], x)
    if normed is not None and summed is not None:
        refuse_overlap(normed, summed)
    return normed, summed


def _device_rms_norm(*arguments: Any) -> tuple[Any, Any]:
    from corepy.kernels.norms import device

    return device.rms_norm(*arguments)


def _compiled_rms_norm(
    x: Given,
    weight: Given | None,
    eps: float,
    residual: Given | None,
    out: Given | None,
    out_sum: Given | None,
) -> tuple[Any, Any]:
    from corepy.kernels.norms import numba

    size = x.shape[-1]
    result = Result(x, out, weight, residual, out_sum)
    # Not where the normed rows go, of which it would be part of the way, and not where the weight
    # is, which multiplies after the sum is there.
    summed = None
    if residual is not None:
        summed = Result(x, out_sum, residual, out, read_again=(weight,))
    numba.rms_norm(
        view(x).reshape(-1, size),
        widened(weight, x.wide, size, 1.0),
        eps,
        x.dtype == "bfloat16",
        None if residual is None else view(residual).reshape(-1, size),
        None if summed is None else summed.host.reshape(-1, size),
        result.host.reshape(-1, size),
    )
    return result.array(), None if summed is None else summed.array()


@replayed
def layer_norm(x: Any, weight: Any, bias: Any, eps: float, *, out: Any = None) -> Any:
    """Centre and scale rows: ``(x - mean(x)) / sqrt(var(x) + eps) * weight + bias``.

    Parameters
    ----------
    x : array (..., size)
        Of float16, bfloat16, float32 or float64.
    weight, bias : array (size,) or None
        Of the dtype of `x`, or float32 beside 16-bit floats. None: none.
    eps : float
        Added to the variance, which divides by ``size``; 0 or more.
    out : array or None
        Where to put the result, which may be `x` itself. None: new memory.

    Returns
    -------
    array (..., size)
        In the library, dtype and device of `x`.

    Raises
    ------
    TypeError, ValueError, DeviceMismatchError
        As `rms_norm`.

    Notes
    -----
    All is computed in float32, or float64 where `x` has that, and rounded to the dtype of `x`
    once, after the bias. The mean is taken so that values far from zero lose nothing. Squares, of
    the elements less their mean, and `eps` have the limits of `rms_norm`; compiled loops keep more.

    References
    ----------
    Ba, Kiros and Hinton, Layer Normalization, 2016, https://arxiv.org/abs/1607.06450

    Examples
    --------
    >>> import numpy as np
    >>> layer_norm(np.asarray([1.0, 3.0]), None, None, 0.0).tolist()
    [-1.0, 1.0]
    """
    g = _rows("layer_norm", x)
    size = g.shape[-1]
    w, b = (parameter(n, v, g, (size,)) for n, v in (("weight", weight), ("bias", bias)))
    eps = epsilon(g, eps)
    to = destination("out", out, g)
    if g.size == 0:
        return empty(g, to)
    if on_device(g, w, b):
        from corepy.kernels.norms import device

        return device.layer_norm(g, w, b, eps, to)
    way = over_elements(g, w, b, torch=False)  # whose function loses digits far from zero
    if way != NUMBA:
        return by_reference(reference.layer_norm, g, (w, b), (to,), eps=eps)

    from corepy.kernels.norms import numba

    result = Result(g, to, w, b)
    numba.layer_norm(
        view(g).reshape(-1, size),
        widened(w, g.wide, size, 1.0),
        widened(b, g.wide, size, 0.0),
        eps,
        g.dtype == "bfloat16",
        result.host.reshape(-1, size),
    )
    return result.array()


def _rows(function: str, x: Any) -> Given:
    found = floating(function, "x", x)
    if not found.shape:
        raise misshapen(found, "at least one dimension")
    return found
