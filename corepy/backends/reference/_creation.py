"""Creation functions. Ranges are exact before each element is rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal, cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument, bad_type, wrong_shape
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._layout import Shape, gather, normalize_shape
from corepy.backends.reference._operands import (
    ArrayLike,
    as_array,
    check_device,
    convert_scalar,
    default_dtype,
    widen,
)
from corepy.backends.reference._rounding import round_ratio, wrap
from corepy.devices._device import Device

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def asarray(
    obj: ArrayLike,
    /,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    copy: bool | None = None,
) -> ReferenceArray:
    """Make an array.

    Parameters
    ----------
    obj : array, scalar, nested sequence or buffer
        What holds the values; a nested sequence must be rectangular.
    dtype : DType, optional
        By default that of the array or buffer, or int64, float64, complex128 or bool after the
        Python scalars in it. An array converts where the standard's promotion allows it.
    device : Device or str, optional
        The host, ``"cpu"``.
    copy : bool, optional
        True: always new memory. False: raise ``ValueError`` unless `obj` is an array of this
        dtype, which is returned itself. None: copy where necessary.

    Returns
    -------
    array
        Of the shape of `obj`.

    Raises
    ------
    TypeError
        If an element is no number or does not convert to the dtype.
    ValueError
        If a nested sequence is ragged, or a copy is necessary and forbidden.
    OverflowError
        If an integer does not fit the dtype.
    """
    check_device("asarray", device)
    dtype = None if dtype is None else _dtypes.as_dtype(dtype, "asarray")
    x = as_array("asarray", "obj", obj, dtype)
    if dtype is not None and x.dtype is not dtype:
        if _dtypes.PROMOTION.get((x.dtype, dtype)) is not dtype:
            raise bad_type("asarray", "dtype", dtype, f"one that {x.dtype} promotes to")
        x = widen(x, dtype)
    if copy is False and x is not obj:
        raise bad_argument("asarray", "copy", copy, "True or None: this input has to be copied")
    if copy and x is obj:
        return ReferenceArray(list(x.values), x.shape, x.dtype)
    return x


# ------------------------------------------------------------------ constant values


def full(
    shape: int | Sequence[int],
    fill_value: Value,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> ReferenceArray:
    """Return an array of one value; without a dtype, of the default one of the value's kind."""
    return _filled("full", shape, fill_value, dtype or default_dtype([fill_value]), device)


def zeros(
    shape: int | Sequence[int],
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> ReferenceArray:
    """Return an array of zeros, float64 by default."""
    return _filled("zeros", shape, _zero(dtype), dtype, device)


def ones(
    shape: int | Sequence[int],
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> ReferenceArray:
    """Return an array of ones, float64 by default."""
    return _filled("ones", shape, _one(dtype), dtype, device)


def empty(
    shape: int | Sequence[int],
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> ReferenceArray:
    """Return an array of no particular values (of zeros, here), float64 by default."""
    return _filled("empty", shape, _zero(dtype), dtype, device)


def full_like(
    x: ArrayLike,
    /,
    fill_value: Value,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> ReferenceArray:
    """Return an array of one value, of the shape and by default the dtype of `x`."""
    x = as_array("full_like", "x", x)
    return _filled("full_like", x.shape, fill_value, dtype or x.dtype, device)


def zeros_like(
    x: ArrayLike, /, *, dtype: DType | None = None, device: Device | str | None = None
) -> ReferenceArray:
    """Return an array of zeros, of the shape and by default the dtype of `x`."""
    x = as_array("zeros_like", "x", x)
    return _filled("zeros_like", x.shape, _zero(dtype or x.dtype), dtype or x.dtype, device)


def ones_like(
    x: ArrayLike, /, *, dtype: DType | None = None, device: Device | str | None = None
) -> ReferenceArray:
    """Return an array of ones, of the shape and by default the dtype of `x`."""
    x = as_array("ones_like", "x", x)
    return _filled("ones_like", x.shape, _one(dtype or x.dtype), dtype or x.dtype, device)


def empty_like(
    x: ArrayLike, /, *, dtype: DType | None = None, device: Device | str | None = None
) -> ReferenceArray:
    """Return an array of no particular values, of the shape and by default the dtype of `x`."""
    x = as_array("empty_like", "x", x)
    return _filled("empty_like", x.shape, _zero(dtype or x.dtype), dtype or x.dtype, device)


def _zero(dtype: DType | None) -> Value:
    return False if dtype is _dtypes.bool else 0


def _one(dtype: DType | None) -> Value:
    return True if dtype is _dtypes.bool else 1


def _filled(
    function: str,
    shape: int | Sequence[int],
    value: Value,
    dtype: DType | None,
    device: Device | str | None,
) -> ReferenceArray:
    check_device(function, device)
    sizes = normalize_shape(function, shape)
    dtype = _dtypes.float64 if dtype is None else _dtypes.as_dtype(dtype, function)
    converted = convert_scalar(function, "fill_value", value, dtype)
    return ReferenceArray([converted] * math.prod(sizes), sizes, dtype)


# ------------------------------------------------------------------ ranges


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> ReferenceArray:
    """Return evenly spaced values of a half-open interval.

    Parameters
    ----------
    start, stop, step : int or float
        With one argument, that is `stop`, and `start` is 0.
    dtype : DType, optional
        A real-valued dtype; by default int64 if all arguments are ints, else float64.
    device : Device or str, optional
        The host, ``"cpu"``.

    Returns
    -------
    array
        1-D, of ``ceil((stop - start) / step)`` elements computed without rounding error, none if
        that is negative. Each element is ``start + i * step``, rounded once, of an integer dtype
        towards zero.

    Raises
    ------
    ValueError
        If `step` is zero or an argument is not finite.
    TypeError
        If the dtype is not real-valued.
    OverflowError
        If an integer dtype does not hold the values.
    """
    check_device("arange", device)
    if stop is None:
        start, stop = 0, start
    given = {"start": start, "stop": stop, "step": step}
    exact = {name: _fraction("arange", name, value) for name, value in given.items()}
    if step == 0:
        raise bad_argument("arange", "step", step, "a nonzero step")
    dtype = default_dtype([*given.values(), 0]) if dtype is None else _dtypes.as_dtype(dtype)
    if dtype not in _dtypes.REAL:
        raise bad_type("arange", "dtype", dtype, _dtypes.describe(_dtypes.REAL))
    first, stride = exact["start"], exact["step"]
    count = max(0, math.ceil((exact["stop"] - first) / stride))
    if dtype.rank == 1:
        low, high = _dtypes.integer_range(dtype)
        ends = int(first), int(first + max(count - 1, 0) * stride)
        if count and not all(low <= end <= high for end in ends):
            raise OverflowError(
                f"arange: values go from {ends[0]} to {ends[1]}; expected them in [{low}, {high}] "
                f"for {dtype}"
            )
    return ReferenceArray(_steps(first, stride, count, dtype), (count,), dtype)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    endpoint: bool = True,
) -> ReferenceArray:
    """Return evenly spaced values of an interval.

    Parameters
    ----------
    start, stop : int, float or complex
        The ends of the interval.
    num : int
        How many values.
    dtype : DType, optional
        By default complex128 if an end is complex, else float64. Integer dtypes take the values
        rounded down.
    device : Device or str, optional
        The host, ``"cpu"``.
    endpoint : bool
        Whether `stop` is one of the values.

    Returns
    -------
    array
        1-D, of `num` elements. Each is computed exactly and rounded once.

    Raises
    ------
    ValueError
        If `num` is negative.
    TypeError
        If an end is complex and the dtype is not.
    """
    check_device("linspace", device)
    (count,) = normalize_shape("linspace", num, "num")
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    if dtype is None:
        dtype = _dtypes.complex128 if is_complex else _dtypes.float64
    dtype = _dtypes.as_dtype(dtype, "linspace")
    if dtype.kind == "b" or (is_complex and dtype.kind != "c"):
        raise bad_type("linspace", "dtype", dtype, "a dtype of the kind of start and stop")
    intervals = count - 1 if endpoint else count
    if dtype.kind != "c":
        values = _line(cast("float", start), cast("float", stop), count, intervals, dtype)
    else:
        part = _dtypes.real_of(dtype)
        real = _line(start.real, stop.real, count, intervals, part)
        imag = _line(start.imag, stop.imag, count, intervals, part)
        values = list(map(complex, cast("list[float]", real), cast("list[float]", imag)))
    return ReferenceArray(values, (count,), dtype)


def _line(start: float, stop: float, count: int, intervals: int, dtype: DType) -> list[Value]:
    """Return values on the way from `start` to `stop`, exact and then rounded once."""
    if not (math.isfinite(start) and math.isfinite(stop)):
        if dtype.rank == 1:
            raise bad_argument("linspace", "start, stop", (start, stop), "finite ends")
        # What start + i * step gives in floating-point arithmetic.
        step = (stop - start) / max(intervals, 1)
        return [start + index * step for index in range(count)]
    first = _fraction("linspace", "start", start)
    stride = (_fraction("linspace", "stop", stop) - first) / max(intervals, 1)
    values = _steps(first, stride, count, dtype)
    if count and start == 0:
        values[0] = convert_scalar("linspace", "start", start, dtype)  # -0.0 stays what it is
    return values


def _fraction(function: str, argument: str, value: float) -> Fraction:
    if not isinstance(value, int | float):
        raise bad_type(function, argument, value, "an int or a float")
    if not math.isfinite(value):
        raise bad_argument(function, argument, value, "a finite number")
    return Fraction(value)


def _steps(first: Fraction, stride: Fraction, count: int, dtype: DType) -> list[Value]:
    """Return ``first + i * stride``, computed over one common denominator."""
    below = math.lcm(first.denominator, stride.denominator)
    start, step = int(first * below), int(stride * below)
    tops = [start + index * step for index in range(count)]
    if dtype.rank == 1:
        return [wrap(int(Fraction(top, below)), dtype) for top in tops]
    return [round_ratio(top, below, dtype) for top in tops]


# ------------------------------------------------------------------ matrices


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> ReferenceArray:
    """Return a matrix with ones on its `k`-th diagonal and zeros elsewhere, float64 by default.

    Parameters
    ----------
    n_rows, n_cols : int
        Its shape; square if `n_cols` is None.
    k : int
        The diagonal: 0 the main one, positive above it, negative below.
    dtype : DType, optional
        Any dtype.
    device : Device or str, optional
        The host, ``"cpu"``.
    """
    rows, columns = normalize_shape("eye", (n_rows, n_rows if n_cols is None else n_cols), "n_rows")
    result = _filled("eye", (rows, columns), _zero(dtype), dtype, device)
    one = convert_scalar("eye", "dtype", _one(dtype), result.dtype)
    for row in range(max(0, -k), min(rows, columns - k)):
        result.values[row * columns + row + k] = one
    return result


def tril(x: ArrayLike, /, *, k: int = 0) -> ReferenceArray:
    """Return the lower triangles of a stack of matrices ``(..., M, N)``; zeros above diagonal `k`.

    Raises
    ------
    ValueError
        If `x` has less than 2 dimensions.
    """
    return _triangle("tril", x, lambda row, column: column - row <= k)


def triu(x: ArrayLike, /, *, k: int = 0) -> ReferenceArray:
    """Return the upper triangles of a stack of matrices ``(..., M, N)``; zeros below diagonal `k`.

    Raises
    ------
    ValueError
        If `x` has less than 2 dimensions.
    """
    return _triangle("triu", x, lambda row, column: column - row >= k)


def _triangle(function: str, x: ArrayLike, keep: Callable[[int, int], bool]) -> ReferenceArray:
    x = as_array(function, "x", x)
    if x.ndim < 2:
        raise wrong_shape(function, "x", x.shape, "at least 2 dimensions")
    rows, columns = x.shape[-2:]
    mask = [keep(row, column) for row in range(rows) for column in range(columns)]
    zero = convert_scalar(function, "x", _zero(x.dtype), x.dtype)
    stacked = mask * math.prod(x.shape[:-2])
    values = [value if kept else zero for value, kept in zip(x.values, stacked, strict=True)]
    return ReferenceArray(values, x.shape, x.dtype)


def meshgrid(
    *arrays: ArrayLike, indexing: Literal["xy", "ij"] = "xy"
) -> tuple[ReferenceArray, ...]:
    """Return coordinate grids of coordinate vectors.

    Parameters
    ----------
    *arrays : array or list
        Vectors of sizes ``N1, N2, ..., Nn``; 0-D arrays count as vectors of one element.
    indexing : {"xy", "ij"}
        ``"ij"``: grids of shape ``(N1, N2, N3, ..., Nn)``; ``"xy"``: ``(N2, N1, N3, ..., Nn)``.

    Returns
    -------
    tuple of array
        One grid for each vector, of its dtype.

    Raises
    ------
    ValueError
        If an array has more than one dimension, or `indexing` is neither.
    """
    if indexing not in ("xy", "ij"):
        raise bad_argument("meshgrid", "indexing", indexing, '"xy" or "ij"')
    vectors = [as_array("meshgrid", f"arrays[{i}]", x) for i, x in enumerate(arrays)]
    for i, x in enumerate(vectors):
        if x.ndim > 1:
            raise wrong_shape("meshgrid", f"arrays[{i}]", x.shape, "1 dimension")
    sizes = [x.size for x in vectors]
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        sizes[0], sizes[1] = sizes[1], sizes[0]
        axes[0], axes[1] = 1, 0
    shape: Shape = tuple(sizes)
    return tuple(
        gather(x, shape, [1 if axis == own else 0 for axis in range(len(shape))])
        for x, own in zip(vectors, axes, strict=True)
    )
