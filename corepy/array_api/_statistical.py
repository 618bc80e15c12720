"""Statistical functions.

https://data-apis.org/array-api/2025.12/API_specification/statistical_functions.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument
from corepy.array_api._arguments import (
    axis_of,
    dtype_argument,
    flag_of,
    number_of,
    optional_axes,
)
from corepy.dispatch import (
    as_operand,
    operation,
    run,
    same,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array

Axes = int | tuple[int, ...] | None


def accumulator(function: str, x: Array, wanted: Any) -> DType:
    """Return the dtype in which sums and products accumulate, and which they have.

    Small integers grow to the device's default integer dtype of their signedness; floats stay.
    """
    table = x._table
    if wanted is not None:
        return table.sibling(dtype_argument(function, wanted), function).dtype
    grown = {"u": _dtypes.uint64, "i": _dtypes.int64}.get(x.dtype.kind, x.dtype)
    return table.narrowed(grown)


def _reduce(function: str, x: Array, axis: Axes, keepdims: bool, **params: Any) -> Array:
    axes = optional_axes(function, axis, x.ndim)
    keep = flag_of(function, "keepdims", keepdims)
    return cast("Array", run(function, x, axis=axes, keepdims=keep, **params))


def _accumulate(function: str, x: Any, axis: Axes, dtype: Any, keepdims: bool) -> Array:
    x = as_operand(function, "x", x)
    wanted = accumulator(function, x, dtype)
    if wanted.rank < x.dtype.rank:
        # The standard casts before it adds; complex to real, or float to integer, loses values.
        raise bad_argument(function, "dtype", wanted.name, f"one that {x.dtype} converts to")
    return _reduce(function, x, axis, keepdims, dtype=wanted)


@operation(_dtypes.NUMERIC)
def cumulative_prod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Array:
    """Product of the elements up to each one.

    Parameters
    ----------
    x : Array
        Of at least one dimension, with a numeric dtype.
    axis : int or None
        May be left out for 1-D arrays only.
    dtype : DType or None
        By default int64 or uint64 for integers, else that of `x`.
    include_initial : bool
        Whether the result begins with a one.

    Returns
    -------
    Array
        Of the shape of `x`, with one more element along `axis` if `include_initial`.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If `axis` is None and `x` is not 1-D, `x` is 0-D, or its dtype does not convert to `dtype`.
    IndexError
        If `axis` is out of range.
    """
    return _cumulate("cumulative_prod", x, axis, dtype, include_initial)


@operation(_dtypes.NUMERIC)
def cumulative_sum(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Array:
    """Sum of the elements up to each one.

    Parameters
    ----------
    x : Array
        Of at least one dimension, with a numeric dtype.
    axis : int or None
        May be left out for 1-D arrays only.
    dtype : DType or None
        By default int64 or uint64 for integers, else that of `x`.
    include_initial : bool
        Whether the result begins with a zero.

    Returns
    -------
    Array
        Of the shape of `x`, with one more element along `axis` if `include_initial`.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If `axis` is None and `x` is not 1-D, `x` is 0-D, or its dtype does not convert to `dtype`.
    IndexError
        If `axis` is out of range.
    """
    return _cumulate("cumulative_sum", x, axis, dtype, include_initial)


def _cumulate(function: str, x: Any, axis: int | None, dtype: Any, initial: bool) -> Array:
    x = as_operand(function, "x", x)
    if x.ndim == 0:
        raise bad_argument(function, "x.shape", x.shape, "at least one dimension")
    if axis is None:
        if x.ndim != 1:
            raise bad_argument(function, "axis", axis, f"an int for {x.ndim} dimensions")
        axis = 0
    wanted = accumulator(function, x, dtype)
    if wanted.rank < x.dtype.rank:
        raise bad_argument(function, "dtype", wanted.name, f"one that {x.dtype} converts to")
    place = axis_of(function, axis, x.ndim)
    first = flag_of(function, "include_initial", initial)
    return cast("Array", run(function, x, axis=place, dtype=wanted, include_initial=first))


def _extreme(function: str, x: Any, axis: Axes, keepdims: bool) -> Array:
    x = as_operand(function, "x", x)
    axes = optional_axes(function, axis, x.ndim)
    over = range(x.ndim) if axes is None else axes
    if any(x.shape[place] == 0 for place in over):
        raise bad_argument(function, "x.shape", x.shape, "at least one element to reduce")
    keep = flag_of(function, "keepdims", keepdims)
    return cast("Array", run(function, x, axis=axes, keepdims=keep))


@operation(_dtypes.REAL, same)
def max(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Greatest element; NaN if there is one.

    Parameters
    ----------
    x : Array
        With a real-valued dtype.
    axis : int, tuple of int or None
        None reduces over all axes.
    keepdims : bool
        Whether the axes stay, with size one.

    Returns
    -------
    Array
        Of the dtype of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If there is nothing to reduce, or an axis comes twice.
    IndexError
        If an axis is out of range.
    """
    return _extreme("max", x, axis, keepdims)


@operation(_dtypes.FLOATING, same)
def mean(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Array:
    """Arithmetic mean; NaN where there is no element.

    Parameters
    ----------
    x : Array
        With a floating-point dtype.
    axis : int, tuple of int or None
        None reduces over all axes.
    keepdims : bool
        Whether the axes stay, with size one.

    Returns
    -------
    Array
        Of the dtype of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If an axis comes twice.
    IndexError
        If an axis is out of range.
    """
    return _reduce("mean", as_operand("mean", "x", x), axis, keepdims)


@operation(_dtypes.REAL, same)
def min(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Least element; NaN if there is one.

    Parameters
    ----------
    x : Array
        With a real-valued dtype.
    axis : int, tuple of int or None
        None reduces over all axes.
    keepdims : bool
        Whether the axes stay, with size one.

    Returns
    -------
    Array
        Of the dtype of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If there is nothing to reduce, or an axis comes twice.
    IndexError
        If an axis is out of range.
    """
    return _extreme("min", x, axis, keepdims)


@operation(_dtypes.NUMERIC)
def prod(
    x: Array,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    dtype: DType | None = None,
    keepdims: bool = False,
) -> Array:
    """Product of the elements; one where there is none.

    Parameters
    ----------
    x : Array
        With a numeric dtype.
    axis : int, tuple of int or None
        None reduces over all axes.
    dtype : DType or None
        By default int64 or uint64 for integers, else that of `x`.
    keepdims : bool
        Whether the axes stay, with size one.

    Returns
    -------
    Array
        Of that dtype.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If an axis comes twice, or the dtype of `x` does not convert to `dtype`.
    IndexError
        If an axis is out of range.
    """
    return _accumulate("prod", x, axis, dtype, keepdims)


def _spread(function: str, x: Any, axis: Axes, correction: float, keepdims: bool) -> Array:
    number = number_of(function, "correction", correction)
    x = as_operand(function, "x", x)
    return _reduce(function, x, axis, keepdims, correction=number)


@operation(_dtypes.REAL_FLOATING, same)
def std(
    x: Array,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    correction: int | float = 0.0,
    keepdims: bool = False,
) -> Array:
    """Standard deviation.

    Parameters
    ----------
    x : Array
        With a real floating-point dtype.
    axis : int, tuple of int or None
        None reduces over all axes.
    correction : int or float
        Degrees of freedom that are taken off the number of elements; 1 for a sample.
    keepdims : bool
        Whether the axes stay, with size one.

    Returns
    -------
    Array
        Of the dtype of `x`; NaN where no degree of freedom is left.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If an axis comes twice.
    IndexError
        If an axis is out of range.
    OverflowError
        If `correction` is an int beyond the range of float64.
    """
    return _spread("std", x, axis, correction, keepdims)


@operation(_dtypes.NUMERIC)
def sum(
    x: Array,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    dtype: DType | None = None,
    keepdims: bool = False,
) -> Array:
    """Sum of the elements; zero where there is none.

    Parameters
    ----------
    x : Array
        With a numeric dtype.
    axis : int, tuple of int or None
        None reduces over all axes.
    dtype : DType or None
        By default int64 or uint64 for integers, else that of `x`.
    keepdims : bool
        Whether the axes stay, with size one.

    Returns
    -------
    Array
        Of that dtype.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If an axis comes twice, or the dtype of `x` does not convert to `dtype`.
    IndexError
        If an axis is out of range.
    """
    return _accumulate("sum", x, axis, dtype, keepdims)


@operation(_dtypes.REAL_FLOATING, same)
def var(
    x: Array,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    correction: int | float = 0.0,
    keepdims: bool = False,
) -> Array:
    """Variance.

    Parameters
    ----------
    x : Array
        With a real floating-point dtype.
    axis : int, tuple of int or None
        None reduces over all axes.
    correction : int or float
        Degrees of freedom that are taken off the number of elements; 1 for a sample.
    keepdims : bool
        Whether the axes stay, with size one.

    Returns
    -------
    Array
        Of the dtype of `x`; NaN where no degree of freedom is left.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If an axis comes twice.
    IndexError
        If an axis is out of range.
    OverflowError
        If `correction` is an int beyond the range of float64.
    """
    return _spread("var", x, axis, correction, keepdims)
