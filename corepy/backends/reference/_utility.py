"""Utility functions."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable

from corepy import _dtypes
from corepy._errors import bad_argument, bad_type
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._elementwise import subtract
from corepy.backends.reference._indexing import getitem
from corepy.backends.reference._layout import (
    Axes,
    lanes,
    normalize_axes,
    normalize_axis,
    reduced_shape,
)
from corepy.backends.reference._manipulation import concat
from corepy.backends.reference._operands import ArrayLike, as_array, check_dtype

__all__ = ["all", "any", "diff"]


def all(x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False) -> ReferenceArray:
    """Test whether all elements along axes are true; true if there are none.

    Parameters
    ----------
    x : array
        Of any dtype; numbers other than zero, NaN among them, are true.
    axis : int, tuple of int or None
        The axes to reduce; None for all.
    keepdims : bool
        Whether reduced axes stay with size one.

    Returns
    -------
    array
        bool.

    Raises
    ------
    IndexError
        If there is no such axis.
    """
    return _test("all", x, axis, keepdims, builtins.all)


def any(x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False) -> ReferenceArray:
    """Test whether any element along axes is true; false if there is none. As `all`."""
    return _test("any", x, axis, keepdims, builtins.any)


def _test(
    function: str,
    x: ArrayLike,
    axis: Axes,
    keepdims: bool,
    test: Callable[[Iterable[Value]], bool],
) -> ReferenceArray:
    x = as_array(function, "x", x)
    axes = normalize_axes(function, axis, x.ndim)
    values: list[Value] = [test(lane) for lane in lanes(x, axes)]
    return ReferenceArray(values, reduced_shape(x.shape, axes, keepdims), _dtypes.bool)


def diff(
    x: ArrayLike,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> ReferenceArray:
    """Return the differences of neighbours along an axis.

    Parameters
    ----------
    x : array
        With a numeric dtype.
    axis : int
        The axis; by default the last.
    n : int
        How often differences are taken.
    prepend, append : array, optional
        What is put before and after `x` along the axis first; dtypes are promoted.

    Returns
    -------
    array
        Of `n` elements less along the axis, none if that is negative.

    Raises
    ------
    TypeError
        If `x` is not numeric, or the dtypes do not promote.
    ValueError
        If `n` is negative, or the shapes do not fit.
    IndexError
        If there is no such axis.
    """
    x = as_array("diff", "x", x)
    check_dtype("diff", "x", x, _dtypes.NUMERIC)
    index = normalize_axis("diff", axis, x.ndim)
    if not isinstance(n, int):
        raise bad_type("diff", "n", n, "an int")
    if n < 0:
        raise bad_argument("diff", "n", n, "a non-negative number")
    if prepend is not None or append is not None:
        parts = [part for part in (prepend, x, append) if part is not None]
        x = concat(parts, axis=index)
    before = [slice(None)] * index
    for _ in range(n):
        later = getitem(x, (*before, slice(1, None)))
        x = subtract(later, getitem(x, (*before, slice(None, -1))))
    return x
