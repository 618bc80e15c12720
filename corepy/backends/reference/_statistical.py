"""Statistical functions. All are exact before the result is rounded once.

Sums, products, means and variances of floats are computed with unbounded integers, so neither the
order of the elements nor an overflow on the way matters.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument, bad_type, wrong_shape
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._data_type import astype
from corepy.backends.reference._exact import (
    ExactComplexProduct,
    ExactProduct,
    ExactSum,
    exact_sqrt,
    exact_sum,
    to_integers,
)
from corepy.backends.reference._layout import (
    Axes,
    gather,
    lanes,
    normalize_axes,
    normalize_axis,
    reduced_shape,
    strides_of,
)
from corepy.backends.reference._operands import ArrayLike, as_array, check_dtype
from corepy.backends.reference._rounding import round_all, round_ratio

__all__ = [
    "cumulative_prod",
    "cumulative_sum",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


def _reduce(
    function: str,
    x: ReferenceArray,
    axis: Axes,
    keepdims: bool,
    reduction: Callable[[list[Any]], Value],
    dtype: DType,
) -> ReferenceArray:
    """Apply a reduction to each list of values along the axes."""
    axes = normalize_axes(function, axis, x.ndim)
    values = [reduction(lane) for lane in lanes(x, axes)]
    return ReferenceArray(round_all(values, dtype), reduced_shape(x.shape, axes, keepdims), dtype)


def _accumulated(function: str, x: ArrayLike, dtype: DType | None) -> ReferenceArray:
    """Convert the operand of a sum or product: small integers to 64 bits, or as asked for."""
    x = as_array(function, "x", x)
    check_dtype(function, "x", x, _dtypes.NUMERIC)
    if dtype is None:
        wide = {"i": _dtypes.int64, "u": _dtypes.uint64}
        return astype(x, wide.get(x.dtype.kind, x.dtype), copy=False)
    return astype(x, _dtypes.as_dtype(dtype, function), copy=False)


def _floating(function: str, x: ArrayLike, allowed: frozenset[DType]) -> ReferenceArray:
    """Convert integers to float64."""
    x = as_array(function, "x", x)
    check_dtype(function, "x", x, allowed)
    return astype(x, _dtypes.float64) if x.dtype.rank == 1 else x


# ------------------------------------------------------------------ extremes


def max(x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False) -> ReferenceArray:
    """Return the greatest value along axes; NaN if there is one.

    Raises
    ------
    TypeError
        If `x` is not real-valued.
    ValueError
        If there are no values to compare.
    """
    return _extreme("max", x, axis, keepdims, builtins.max)


def min(x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False) -> ReferenceArray:
    """Return the least value along axes; NaN if there is one.

    Raises
    ------
    TypeError
        If `x` is not real-valued.
    ValueError
        If there are no values to compare.
    """
    return _extreme("min", x, axis, keepdims, builtins.min)


def _extreme(
    function: str, x: ArrayLike, axis: Axes, keepdims: bool, choose: Callable[[list[Any]], Any]
) -> ReferenceArray:
    x = as_array(function, "x", x)
    check_dtype(function, "x", x, _dtypes.REAL | _dtypes.BOOLEAN)

    def extreme(lane: list[float]) -> float:
        if not lane:
            raise wrong_shape(function, "x", x.shape, "at least one element")
        if math.isnan(builtins.sum(lane)) and any(map(math.isnan, lane)):
            return math.nan
        return cast("float", choose(lane))

    return _reduce(function, x, axis, keepdims, extreme, x.dtype)


# ------------------------------------------------------------------ sums and products


def sum(
    x: ArrayLike, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False
) -> ReferenceArray:
    """Add the values along axes; 0 if there are none.

    Parameters
    ----------
    x : array
        With a numeric dtype.
    axis : int, tuple of int or None
        The axes to reduce; None for all.
    dtype : DType, optional
        The dtype of the result, to which `x` is cast first; by default int64 or uint64 for
        integers and that of `x` for floating-point numbers.
    keepdims : bool
        Whether reduced axes stay with size one.

    Returns
    -------
    array
        Integers wrap modulo ``2**64``; floats are the exact sum, rounded once.

    Raises
    ------
    TypeError
        If `x` is not numeric.
    IndexError
        If there is no such axis.
    """
    x = _accumulated("sum", x, dtype)
    return _reduce("sum", x, axis, keepdims, _total(x.dtype), x.dtype)


def _total(dtype: DType) -> Callable[[list[Any]], Value]:
    part = _dtypes.real_of(dtype)
    if dtype.rank < 2:
        return builtins.sum
    if dtype.rank == 2:
        return lambda lane: exact_sum(lane, part)
    return lambda lane: complex(
        exact_sum([value.real for value in lane], part),
        exact_sum([value.imag for value in lane], part),
    )


def prod(
    x: ArrayLike, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False
) -> ReferenceArray:
    """Multiply the values along axes; 1 if there are none. Parameters and errors as in `sum`.

    Returns
    -------
    array
        Integers wrap modulo ``2**64``; floats are the exact product, rounded once.
    """
    x = _accumulated("prod", x, dtype)
    part = _dtypes.real_of(x.dtype)

    def product(lane: list[Any]) -> Value:
        if x.dtype.rank < 2:
            return cast("int", math.prod(lane))
        total = ExactProduct() if x.dtype.rank == 2 else ExactComplexProduct()
        for value in lane:
            total.multiply(value)
        return total.rounded(part)

    return _reduce("prod", x, axis, keepdims, product, x.dtype)


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> ReferenceArray:
    """Return the running sums along an axis.

    Parameters
    ----------
    x : array
        With a numeric dtype.
    axis : int, optional
        The axis; may be left out if there is only one.
    dtype : DType, optional
        As in `sum`.
    include_initial : bool
        Whether the sums start with 0, so that there is one more of them.

    Returns
    -------
    array
        Each sum is exact, then rounded once.

    Raises
    ------
    TypeError
        If `x` is not numeric.
    ValueError
        If `axis` is left out and `x` is not 1-D.
    IndexError
        If there is no such axis.
    """
    x = _accumulated("cumulative_sum", x, dtype)
    part = _dtypes.real_of(x.dtype)

    def running(lane: list[Any]) -> list[Value]:
        if x.dtype.rank < 2:
            totals = [0]
            for value in lane:
                totals.append(totals[-1] + value)
            return cast("list[Value]", totals)
        if x.dtype.rank == 2:
            return cast("list[Value]", _running_sums(lane, part))
        real = _running_sums([value.real for value in lane], part)
        imag = _running_sums([value.imag for value in lane], part)
        return list(map(complex, real, imag))

    return _cumulative("cumulative_sum", x, axis, include_initial, running)


def _running_sums(lane: list[float], part: DType) -> list[float]:
    total = ExactSum()
    sums = [total.rounded(part)]
    for value in lane:
        total.add(value)
        sums.append(total.rounded(part))
    return sums


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> ReferenceArray:
    """Return the running products along an axis; as `cumulative_sum`, starting with 1."""
    x = _accumulated("cumulative_prod", x, dtype)
    part = _dtypes.real_of(x.dtype)

    def running(lane: list[Any]) -> list[Value]:
        if x.dtype.rank < 2:
            products: list[Value] = [1]
            for value in lane:
                products += round_all([products[-1] * value], x.dtype)
            return products
        total = ExactProduct() if x.dtype.rank == 2 else ExactComplexProduct()
        products = [total.rounded(part)]
        for value in lane:
            total.multiply(value)
            products.append(total.rounded(part))
        return products

    return _cumulative("cumulative_prod", x, axis, include_initial, running)


def _cumulative(
    function: str,
    x: ReferenceArray,
    axis: int | None,
    include_initial: bool,
    running: Callable[[list[Any]], list[Value]],
) -> ReferenceArray:
    """Apply a scan to each list of values along an axis; it returns the initial value as well."""
    if axis is None:
        if x.ndim != 1:
            raise bad_argument(function, "axis", axis, f"an axis of the {x.ndim} dimensions")
        axis = 0
    index = normalize_axis(function, axis, x.ndim)
    values: list[Value] = []
    for lane in lanes(x, (index,)):
        values += running(lane)[0 if include_initial else 1 :]
    # The lanes run along the last axis; carry it to its place.
    others = x.shape[:index] + x.shape[index + 1 :]
    size = x.shape[index] + include_initial
    scanned = ReferenceArray(round_all(values, x.dtype), (*others, size), x.dtype)
    strides = list(strides_of(scanned.shape))
    strides.insert(index, strides.pop())
    return gather(scanned, (*others[:index], size, *others[index:]), strides)


# ------------------------------------------------------------------ moments


def mean(x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False) -> ReferenceArray:
    """Return the arithmetic mean along axes; NaN if there are no values.

    Parameters
    ----------
    x : array
        With a numeric dtype; integers count as float64.
    axis : int, tuple of int or None
        The axes to reduce; None for all.
    keepdims : bool
        Whether reduced axes stay with size one.

    Returns
    -------
    array
        With the dtype of `x`: the exact mean, rounded once.

    Raises
    ------
    TypeError
        If `x` is not numeric.
    IndexError
        If there is no such axis.
    """
    x = _floating("mean", x, _dtypes.NUMERIC)
    part = _dtypes.real_of(x.dtype)

    def average(lane: list[float]) -> float:
        if not lane or not all(map(math.isfinite, lane)):
            return exact_sum(lane, part) if lane else math.nan
        integers, shift = to_integers(lane)
        total = builtins.sum(integers)
        return round_ratio(total, len(lane) << shift, part) if total else exact_sum(lane, part)

    def complex_average(lane: list[complex]) -> complex:
        real, imag = [value.real for value in lane], [value.imag for value in lane]
        return complex(average(real), average(imag))

    reduction = cast("Callable[[list[Any]], Value]", complex_average)
    return _reduce(
        "mean", x, axis, keepdims, reduction if x.dtype.kind == "c" else average, x.dtype
    )


def var(
    x: ArrayLike, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> ReferenceArray:
    """Return the variance along axes.

    Parameters
    ----------
    x : array
        With a real-valued dtype; integers count as float64.
    axis : int, tuple of int or None
        The axes to reduce; None for all.
    correction : int or float
        What the divisor is less than the number of values, such as 1 for a sample.
    keepdims : bool
        Whether reduced axes stay with size one.

    Returns
    -------
    array
        With the dtype of `x`: the exact variance, rounded once. NaN where the divisor is not
        positive or a value is not finite.

    Raises
    ------
    TypeError
        If `x` is not real-valued.
    IndexError
        If there is no such axis.
    """
    return _spread("var", x, axis, correction, keepdims, round_ratio)


def std(
    x: ArrayLike, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> ReferenceArray:
    """Return the standard deviation along axes, the root of the exact `var`, rounded once."""
    return _spread("std", x, axis, correction, keepdims, exact_sqrt)


def _spread(
    function: str,
    x: ArrayLike,
    axis: Axes,
    correction: float,
    keepdims: bool,
    finish: Callable[[int, int, DType], float],
) -> ReferenceArray:
    """Compute the variance as a ratio of integers, and finish with a function of that."""
    x = _floating(function, x, _dtypes.REAL)
    if not isinstance(correction, int | float):
        raise bad_type(function, "correction", correction, "an int or a float")
    dtype = x.dtype

    def spread(lane: list[float]) -> float:
        count = len(lane)
        if not count > correction or not all(map(math.isfinite, lane)):
            return math.nan
        if not lane or correction == -math.inf:
            return 0.0  # of nothing, the squares add up to nothing; of others they are divided
        divisor = count - Fraction(correction)
        integers, shift = to_integers(lane)
        # sum((x - mean)**2) * n = n * sum(x**2) - sum(x)**2, exact and hence without cancellation
        total = count * builtins.sum(i * i for i in integers) - builtins.sum(integers) ** 2
        below = count * divisor * (1 << (2 * shift))
        return finish(total * below.denominator, below.numerator, dtype)

    return _reduce(function, x, axis, keepdims, spread, dtype)
