"""Rotary embeddings as their formulas read, in the functions of any library."""

from __future__ import annotations

from typing import Any

from corepy.kernels._casts import cast


def rope(
    xp: Any, x: Any, cos: Any, sin: Any, positions: Any, *, wide: Any, interleaved: bool
) -> Any:
    """Turn each pair ``(a, b)`` into ``(a * cos - b * sin, b * cos + a * sin)``."""
    length, size = x.shape[-2:]
    c, s = (cast(xp, _rows(xp, table, positions, length), wide) for table in (cos, sin))
    y = cast(xp, x, wide)
    half = size // 2
    a, b = (y[..., 0::2], y[..., 1::2]) if interleaved else (y[..., :half], y[..., half:])
    turned = (a * c - b * s, b * c + a * s)
    if interleaved:
        return cast(xp, xp.reshape(xp.stack(turned, axis=-1), x.shape), x.dtype)
    return cast(xp, xp.concat(turned, axis=-1), x.dtype)


def _rows(xp: Any, table: Any, positions: Any, length: int) -> Any:
    """Return the rows of a table that belong to the rows of `x`."""
    if positions is None:
        return table[:length, :]
    rows = xp.take(table, xp.reshape(positions, (-1,)), axis=0)
    return xp.reshape(rows, (*positions.shape, table.shape[-1]))
