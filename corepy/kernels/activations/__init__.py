"""SiLU, GELU and SwiGLU."""

from __future__ import annotations

from typing import Any, Literal

from corepy.kernels._arguments import Given, beside, choice, destination, floating
from corepy.kernels._device import on_device
from corepy.kernels._formulas import by_reference, empty
from corepy.kernels._memory import (
    Result,
    dense_order,
    supports,
    turned,
    turned_back,
    view,
)
from corepy.kernels._replay import replayed
from corepy.kernels.activations import reference

__all__ = ["gelu", "silu", "swiglu"]


@replayed
def silu(x: Any, *, out: Any = None) -> Any:
    """Return ``x / (1 + exp(-x))``, also called Swish.

    Parameters
    ----------
    x : array
        Of any shape, and float16, bfloat16, float32 or float64.
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
        If `out` has another shape or is read-only.
    DeviceMismatchError
        If `out` lives on another device.

    Notes
    -----
    Computed in float32, or float64 where `x` has that, and rounded once. At minus infinity it is
    -0, its limit there.

    References
    ----------
    Elfwing, Uchibe and Doya, Sigmoid-weighted linear units, 2017, https://arxiv.org/abs/1702.03118

    Examples
    --------
    >>> import numpy as np
    >>> silu(np.asarray([-np.inf, 0.0, 800.0])).tolist()
    [-0.0, 0.0, 800.0]
    """
    g = floating("silu", "x", x)
    return _activated(g, destination("out", out, g), "silu")


@replayed
def gelu(x: Any, *, approximate: Literal["none", "tanh"] = "none", out: Any = None) -> Any:
    """Return ``x`` times the normal distribution's share below it.

    Parameters
    ----------
    x : array
        Of any shape, and float16, bfloat16, float32 or float64.
    approximate : {"none", "tanh"}
        ``"none"``: ``x * (1 + erf(x / sqrt(2))) / 2``. ``"tanh"``: the published approximation
        ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``, which models were trained
        with; it differs by up to 5e-4.
    out : array or None
        Where to put the result, which may be `x` itself. None: new memory.

    Returns
    -------
    array
        In the shape, library, dtype and device of `x`.

    Raises
    ------
    TypeError, DeviceMismatchError
        As `silu`.
    ValueError
        If `approximate` is another word, or `out` has another shape or is read-only.

    Notes
    -----
    Computed in float32, or float64 where `x` has that, and rounded once. Small results keep their
    relative precision, for no 1 is added to an erf or tanh near -1. At minus infinity it is -0,
    its limit there.

    References
    ----------
    Hendrycks and Gimpel, Gaussian Error Linear Units, 2016, https://arxiv.org/abs/1606.08415

    Examples
    --------
    >>> import numpy as np
    >>> gelu(np.asarray([-np.inf, 0.0, 50.0])).tolist()
    [-0.0, 0.0, 50.0]
    """
    g = floating("gelu", "x", x)
    choice("gelu", "approximate", approximate, ("none", "tanh"))
    to = destination("out", out, g)
    return _activated(g, to, "gelu" if approximate == "none" else "gelu_tanh")


@replayed
def swiglu(x: Any, gate: Any, *, out: Any = None) -> Any:
    """Return ``x * silu(gate)``, the gated unit of Llama and its kin.

    Parameters
    ----------
    x : array
        What passes the gate ("up"): of any shape, and float16, bfloat16, float32 or float64.
    gate : array
        What opens it: of the shape and dtype of `x`.
    out : array or None
        Where to put the result, which may be `x` or `gate` itself. None: new memory.

    Returns
    -------
    array
        In the shape, library, dtype and device of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type, library or dtype.
    ValueError
        If `gate` or `out` has another shape, or `out` is read-only.
    DeviceMismatchError
        If an array lives on another device than `x`.

    Notes
    -----
    Computed in float32, or float64 where `x` has that, and rounded once.

    References
    ----------
    Shazeer, GLU Variants Improve Transformer, 2020, https://arxiv.org/abs/2002.05202

    Examples
    --------
    >>> import numpy as np
    >>> swiglu(np.asarray([3.0, 5.0]), np.asarray([0.0, 100.0])).tolist()
    [0.0, 500.0]
    """
    g = floating("swiglu", "x", x)
    gates = beside("gate", gate, g, (g.dtype,), g.shape)
    to = destination("out", out, g)
    if g.size == 0:
        return empty(g, to)
    if on_device(g, gates):
        from corepy.kernels.activations import device

        return device.activation(gates, "silu", g, to)
    if not supports(g, gates):
        return by_reference(reference.swiglu, g, (gates,), (to,))

    from corepy.kernels.activations import numba

    order = dense_order(g, gates, out=to)
    up, opens = turned(g, order), turned(gates, order)
    result = Result(up, turned(to, order), opens)
    operands = view(up).reshape(-1), view(opens).reshape(-1)
    numba.swiglu(*operands, g.dtype == "bfloat16", result.host.reshape(-1))
    return turned_back(result.array(), g, to, order)


def _activated(x: Given, out: Given | None, name: str) -> Any:
    if x.size == 0:
        return empty(x, out)
    if on_device(x):
        from corepy.kernels.activations import device

        return device.activation(x, name, None, out)
    if not supports(x):
        return by_reference(getattr(reference, name), x, (), (out,))

    from corepy.kernels.activations import numba

    order = dense_order(x, out=out)
    values = turned(x, order)
    result = Result(values, turned(out, order))
    row, brain = view(values).reshape(-1), x.dtype == "bfloat16"
    numba.activation(row, numba.KINDS[name], brain, result.host.reshape(-1))
    return turned_back(result.array(), x, out, order)
