"""Searching functions. Indices are int64; NaN counts as the extreme that is looked for."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any, Literal

from corepy import _dtypes
from corepy._errors import bad_argument, wrong_shape
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._layout import (
    Axes,
    broadcast_all,
    lanes,
    normalize_axes,
    normalize_axis,
    reduced_shape,
)
from corepy.backends.reference._operands import ArrayLike, as_array, check_dtype, promote
from corepy.backends.reference._sorting import sort_key

__all__ = ["argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where"]

_COMPARABLE = _dtypes.REAL | _dtypes.BOOLEAN


def argmax(x: ArrayLike, /, *, axis: int | None = None, keepdims: bool = False) -> ReferenceArray:
    """Return the index of the first greatest value, or of the first NaN.

    Parameters
    ----------
    x : array
        With a real-valued dtype.
    axis : int or None
        The axis to search along; None for the flattened array.
    keepdims : bool
        Whether the axis stays with size one (all of them, for None).

    Returns
    -------
    array
        int64.

    Raises
    ------
    TypeError
        If `x` is not real-valued.
    ValueError
        If there are no values to compare.
    IndexError
        If there is no such axis.
    """
    return _position("argmax", x, axis, keepdims, operator.gt)


def argmin(x: ArrayLike, /, *, axis: int | None = None, keepdims: bool = False) -> ReferenceArray:
    """Return the index of the first least value, or of the first NaN; otherwise as `argmax`."""
    return _position("argmin", x, axis, keepdims, operator.lt)


def _position(
    function: str,
    x: ArrayLike,
    axis: int | None,
    keepdims: bool,
    better: Callable[[Any, Any], bool],
) -> ReferenceArray:
    x = as_array(function, "x", x)
    check_dtype(function, "x", x, _COMPARABLE)
    axes = tuple(range(x.ndim)) if axis is None else (normalize_axis(function, axis, x.ndim),)
    positions: list[Value] = []
    for lane in lanes(x, axes):
        if not lane:
            raise wrong_shape(function, "x", x.shape, "at least one element")
        best = 0
        for i, value in enumerate(lane):
            if value != value:  # noqa: PLR0124
                best = i
                break
            if better(value, lane[best]):
                best = i
        positions.append(best)
    return ReferenceArray(positions, reduced_shape(x.shape, axes, keepdims), _dtypes.int64)


def count_nonzero(x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False) -> ReferenceArray:
    """Count the elements along axes that are not zero (or false), as int64.

    Raises
    ------
    IndexError
        If there is no such axis.
    """
    x = as_array("count_nonzero", "x", x)
    axes = normalize_axes("count_nonzero", axis, x.ndim)
    counts: list[Value] = [sum(map(bool, lane)) for lane in lanes(x, axes)]
    return ReferenceArray(counts, reduced_shape(x.shape, axes, keepdims), _dtypes.int64)


def nonzero(x: ArrayLike, /) -> tuple[ReferenceArray, ...]:
    """Return the indices of the elements that are not zero: one int64 array for each dimension.

    Raises
    ------
    ValueError
        If `x` is 0-D.
    """
    x = as_array("nonzero", "x", x)
    if x.ndim == 0:
        raise wrong_shape("nonzero", "x", x.shape, "at least one dimension")
    places = [i for i, value in enumerate(x.values) if value]
    found: list[ReferenceArray] = []
    for size in reversed(x.shape):
        indices: list[Value] = [place % size for place in places]
        places = [place // size for place in places]
        found.append(ReferenceArray(indices, (len(indices),), _dtypes.int64))
    return tuple(reversed(found))


def searchsorted(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: ArrayLike | None = None,
) -> ReferenceArray:
    """Find where values would have to be inserted to keep a vector sorted.

    Parameters
    ----------
    x1 : array
        1-D, real-valued, ascending, with NaNs last as `sort` leaves them; or `sorter` sorts it.
    x2 : array or scalar
        The values, real-valued.
    side : {"left", "right"}
        Whether before or after the elements that are equal.
    sorter : array, optional
        Indices that sort `x1`, integers of its shape.

    Returns
    -------
    array
        int64, of the shape of `x2`.

    Raises
    ------
    TypeError
        If an operand is not real-valued, or they have no common dtype.
    ValueError
        If `x1` is not 1-D, `sorter` is not of its shape, or `side` is neither.
    IndexError
        If `sorter` points outside `x1`.
    """
    if side not in ("left", "right"):
        raise bad_argument("searchsorted", "side", side, '"left" or "right"')
    vector, wanted = promote("searchsorted", x1=x1, x2=x2)
    check_dtype("searchsorted", "x1", vector, _COMPARABLE)
    if vector.ndim != 1:
        raise wrong_shape("searchsorted", "x1", vector.shape, "1 dimension")
    keys = [sort_key(value) for value in vector.values]
    if sorter is not None:
        order = as_array("searchsorted", "sorter", sorter)
        check_dtype("searchsorted", "sorter", order, _dtypes.INTEGER)
        if order.shape != vector.shape:
            expected = f"shape {vector.shape} as x1"
            raise wrong_shape("searchsorted", "sorter", order.shape, expected)
        keys = [keys[i] for i in order.values]  # type: ignore[index]
    find = bisect_left if side == "left" else bisect_right
    found: list[Value] = [find(keys, sort_key(value)) for value in wanted.values]
    return ReferenceArray(found, wanted.shape, _dtypes.int64)


def where(condition: ArrayLike, x1: ArrayLike, x2: ArrayLike, /) -> ReferenceArray:
    """Choose elements from `x1` where a condition holds and from `x2` elsewhere.

    Parameters
    ----------
    condition : array
        With the bool dtype.
    x1, x2 : array or scalar
        Of any dtypes that promote together.

    Returns
    -------
    array
        Of the common broadcast shape and the promoted dtype.

    Raises
    ------
    TypeError
        If `condition` is not boolean, or the dtypes do not promote.
    ValueError
        If the shapes do not broadcast together.
    """
    condition = as_array("where", "condition", condition)
    check_dtype("where", "condition", condition, _dtypes.BOOLEAN)
    first, second = promote("where", x1=x1, x2=x2)
    (chosen, left, right), shape = broadcast_all("where", (condition, first, second))
    values = [a if c else b for c, a, b in zip(chosen, left, right, strict=True)]
    return ReferenceArray(values, shape, first.dtype)
