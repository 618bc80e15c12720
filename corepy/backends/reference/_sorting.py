"""Sorting. NaN counts as the greatest, and equal values (both zeros, too) keep their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corepy import _dtypes
from corepy._dtypes import DType
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._layout import gather, lanes, normalize_axis, strides_of
from corepy.backends.reference._operands import ArrayLike, as_array, check_dtype

__all__ = ["argsort", "sort", "sort_key"]

_SORTABLE = _dtypes.REAL | _dtypes.BOOLEAN


def sort_key(value: Any) -> tuple[bool, Any]:
    """Return what a value is ordered by: NaN after all numbers."""
    return (True, 0) if value != value else (False, value)  # noqa: PLR0124


def sort(
    x: ArrayLike, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> ReferenceArray:
    """Sort along an axis.

    Parameters
    ----------
    x : array
        With a real-valued dtype.
    axis : int
        The axis; by default the last.
    descending : bool
        Whether the greatest value comes first, and NaNs before it.
    stable : bool
        Equal values keep their order, whether that is asked for or not.

    Returns
    -------
    array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If `x` is not real-valued.
    IndexError
        If there is no such axis.
    """
    x = as_array("sort", "x", x)

    def arrange(lane: list[Any]) -> list[Value]:
        return [lane[i] for i in _order(lane, descending)]

    return _along("sort", x, axis, arrange, x.dtype)


def argsort(
    x: ArrayLike, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> ReferenceArray:
    """Return the indices, int64, that `sort` an array along an axis; parameters as there."""
    x = as_array("argsort", "x", x)

    def arrange(lane: list[Any]) -> list[Value]:
        return list(_order(lane, descending))

    return _along("argsort", x, axis, arrange, _dtypes.int64)


def _order(lane: list[Any], descending: bool) -> list[int]:
    # Python's sort stays stable when reversed.
    return sorted(range(len(lane)), key=lambda i: sort_key(lane[i]), reverse=descending)


def _along(
    function: str,
    x: ReferenceArray,
    axis: int,
    arrange: Callable[[list[Any]], list[Value]],
    dtype: DType,
) -> ReferenceArray:
    """Rearrange each list of values along an axis."""
    check_dtype(function, "x", x, _SORTABLE)
    if x.ndim == 0:
        return ReferenceArray(arrange(x.values), (), dtype)
    index = normalize_axis(function, axis, x.ndim)
    values = [value for lane in lanes(x, (index,)) for value in arrange(lane)]
    # The lanes run along the last axis; carry it to its place.
    others = x.shape[:index] + x.shape[index + 1 :]
    arranged = ReferenceArray(values, (*others, x.shape[index]), dtype)
    strides = list(strides_of(arranged.shape))
    strides.insert(index, strides.pop())
    return gather(arranged, x.shape, strides)
