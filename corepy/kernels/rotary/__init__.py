"""Rotary position embeddings, and the tables of angles that they take."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from corepy._errors import refused
from corepy.kernels._arguments import (
    FLOATS,
    Given,
    astray,
    beside,
    broadcasts,
    choice,
    destination,
    floating,
    misshapen,
)
from corepy.kernels._device import on_device
from corepy.kernels._formulas import by_reference, empty
from corepy.kernels._memory import Host, Result, fixed, supports, view, widened
from corepy.kernels._replay import replayed
from corepy.kernels.rotary import reference
from corepy.kernels.rotary._tables import rope_tables

__all__ = ["rope", "rope_tables"]


@replayed
def rope(
    x: Any,
    cos: Any,
    sin: Any,
    *,
    layout: Literal["half", "interleaved"] = "half",
    positions: Any = None,
    out: Any = None,
) -> Any:
    """Turn pairs of elements by angles that grow with their position.

    Parameters
    ----------
    x : array (..., length, head_dim)
        Queries or keys, such as (batch, heads, length, head_dim), of float16, bfloat16, float32 or
        float64; `head_dim` is even.
    cos, sin : array (table_length, head_dim // 2)
        The tables, as `rope_tables` makes them, both of one shape and of any of these dtypes.
    layout : {"half", "interleaved"}
        Which elements are a pair. ``"half"``: i and ``i + head_dim // 2``, as the checkpoints of
        Llama on the Hugging Face hub and GPT-NeoX have it. ``"interleaved"``: ``2 * i`` and
        ``2 * i + 1``, as Meta's own checkpoints and the paper have it.
    positions : array of int32 or int64, or None
        The row of the tables for each row of `x`: of shape (length,), or any that broadcasts to
        ``x.shape[:-1]``, such as (batch, 1, length). None: 0 to ``length - 1``.
    out : array or None
        Where to put the result, which may be `x` itself. None: new memory.

    Returns
    -------
    array (..., length, head_dim)
        In the library, dtype and device of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type, library or dtype.
    ValueError
        If a shape does not fit, the tables are too short, `layout` is another word, or `out` is
        read-only.
    IndexError
        If a position lies outside the tables. Positions without values, as inside ``jax.jit`` and
        ``torch.func.grad``, are not looked at.
    DeviceMismatchError
        If an array lives on another device than `x`.

    Notes
    -----
    Computed in float32, or float64 where `x` has that, and rounded once; tables are brought to
    that dtype first. Keep them in float32 beside 16-bit floats: their rounding is the result's.

    References
    ----------
    Su et al., RoFormer, 2021, https://arxiv.org/abs/2104.09864

    Examples
    --------
    >>> import numpy as np
    >>> cos, sin = np.asarray([[0.0]]), np.asarray([[1.0]])  # a quarter turn
    >>> rope(np.asarray([[3.0, 4.0]]), cos, sin).tolist()
    [[-4.0, 3.0]]
    """
    g = floating("rope", "x", x)
    if len(g.shape) < 2 or g.shape[-1] % 2:
        raise misshapen(g, "(..., length, even head_dim)")
    choice("rope", "layout", layout, ("half", "interleaved"))
    c = beside("cos", cos, g, FLOATS)
    half = g.shape[-1] // 2
    if len(c.shape) != 2 or c.shape[1] != half:
        raise misshapen(c, f"(table_length, {half})", beside=g)
    s = beside("sin", sin, g, (c.dtype,))
    if s.shape != c.shape:
        raise misshapen(s, f"{c.shape}, that of cos")
    p = _positions(positions, g, c)
    to = destination("out", out, g)
    if g.size == 0:
        return empty(g, to)
    interleaved = layout == "interleaved"
    if on_device(g, c, s, p):
        from corepy.kernels.rotary import device

        return device.rope(g, c, s, p, interleaved, to)
    if not supports(g, c, s, p):
        return by_reference(reference.rope, g, (c, s, p), (to,), interleaved=interleaved)

    from corepy.kernels.rotary import numba

    size = g.shape[-1]
    result = Result(g, to, c, s, p)
    numba.rope(
        view(g).reshape(-1, size),
        widened(c, g.wide, 0, 0.0),
        widened(s, g.wide, 0, 0.0),
        _places(g, p),
        interleaved,
        g.dtype == "bfloat16",
        result.host.reshape(-1, size),
    )
    return result.array()


def _positions(positions: Any, x: Given, table: Given) -> Given | None:
    """Look at positions, or at whether the tables reach as far as the rows."""
    length, rows = x.shape[-2], table.shape[0]
    if positions is None:
        if rows < length:
            given = f"x has shape {x.shape} and no positions are given"
            raise misshapen(table, f"at least {length} rows, for {given}")
        return None
    found = beside("positions", positions, x, ("int32", "int64"))
    target = x.shape[:-1]
    if not broadcasts(found.shape, target):
        raise misshapen(found, f"one that broadcasts to {target}, the rows of x")
    if (strays := astray(found, rows - 1)) is not None:
        expected = f"0 to {rows - 1}, the rows of cos and sin" if rows else "cos to have rows"
        raise refused(IndexError, found.function, found.argument, strays, expected)
    return found


def _places(x: Given, positions: Given | None) -> Host:
    """Return the positions of rows, as far as they do not repeat themselves."""
    if positions is None:
        return fixed(np.arange(x.shape[-2]))
    found = view(positions).astype(np.int64, copy=False)
    if found.shape != x.shape[-2:-1]:
        found = np.ascontiguousarray(np.broadcast_to(found, x.shape[:-1]))
    return found.reshape(-1)
