"""Norms of the linear algebra extension, each rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument
from corepy.backends.reference import _spectral
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._exact import exact_sum, hypotenuse
from corepy.backends.reference._layout import Axes, lanes, normalize_axes, reduced_shape
from corepy.backends.reference._matrices import as_stack, is_finite, to_exact
from corepy.backends.reference._mpmath import Context, Real, context, round_real
from corepy.backends.reference._operands import ArrayLike, as_array, check_dtype

__all__ = ["matrix_norm", "vector_norm"]

MatrixOrder: TypeAlias = "float | Literal['fro', 'nuc']"

#: Precision of sums of square roots and of powers.
_BITS = 256
#: A factor with a logarithm beyond this overflows, or vanishes, whatever it multiplies.
_LOG_LIMIT = 2000


# ------------------------------------------------------------------ vectors


def vector_norm(
    x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2
) -> ReferenceArray:
    """Return norms of vectors.

    Parameters
    ----------
    x : array
        Floating-point.
    axis : int, tuple of int or None
        The axes along which a vector lies; None for all.
    keepdims : bool
        Whether these axes stay with size one.
    ord : float
        ``inf`` for the greatest absolute value, ``-inf`` for the least, 0 for the number of
        elements other than zero; otherwise ``sum(abs(x)**ord)**(1/ord)``.

    Returns
    -------
    array
        Real of the precision of `x`. Without elements 0.0, for a negative `ord` infinity. NaN
        where there is a NaN, except that for 0 it counts as other than zero.

    Raises
    ------
    TypeError
        If `x` is not floating-point.
    IndexError
        If there is no such axis.
    ValueError
        If an axis comes twice, or `ord` is NaN.
    """
    x = as_array("vector_norm", "x", x)
    check_dtype("vector_norm", "x", x, _dtypes.FLOATING)
    if math.isnan(ord):
        raise bad_argument("vector_norm", "ord", ord, "a number")
    axes = normalize_axes("vector_norm", axis, x.ndim)
    real = _dtypes.real_of(x.dtype)
    norms: list[Value] = [_vector_norm(lane, ord, real) for lane in lanes(x, axes)]
    return ReferenceArray(norms, reduced_shape(x.shape, axes, keepdims), real)


def _vector_norm(values: list[Value], ord: float, real: DType) -> float:
    if ord == 0:
        return float(sum(value != 0 for value in values))
    sizes = [_size(value) for value in values]
    if any(map(math.isnan, sizes)):
        return math.nan
    if ord == math.inf:
        return max((hypotenuse(_parts(value), real) for value in values), default=0.0)
    if ord == -math.inf:
        return min((hypotenuse(_parts(value), real) for value in values), default=math.inf)
    if ord == 1:
        return _sum_of_sizes(values, real)
    if ord == 2:
        return hypotenuse([part for value in values for part in _parts(value)], real)
    if ord < 0:
        # The greatest term is that of the smallest element: a zero makes the sum infinite, and
        # infinities add nothing to it.
        if 0.0 in sizes:
            return 0.0
        values = [value for value, size in zip(values, sizes, strict=True) if size < math.inf]
        if not values:
            return math.inf
    elif math.inf in sizes:
        return math.inf
    return _power_norm([value for value in values if value], ord, real)


def _power_norm(values: list[Value], ord: float, real: DType) -> float:
    """Return ``sum(abs(values)**ord)**(1/ord)`` for finite values other than zero."""
    if not values:
        return 0.0
    mp = context(_BITS)
    order = mp.mpf(ord)
    sizes = [_exact_size(mp, value) for value in values]
    # Relative to the greatest term the sum lies between 1 and the number of terms.
    leading = max(sizes) if ord > 0 else min(sizes)
    logarithm = mp.log(mp.fsum(mp.power(size / leading, order) for size in sizes)) / order
    if abs(logarithm) > _LOG_LIMIT:  # spares mpmath an exponential of absurd size
        return math.inf if logarithm > 0 else 0.0
    return round_real(leading * mp.exp(logarithm), real)


def _parts(value: Value) -> tuple[float, float]:
    return value.real, value.imag


def _size(value: Value) -> float:
    """Return the greater part's absolute value: zero, infinite or NaN if the modulus is."""
    if not isinstance(value, complex):
        return abs(value)
    parts = abs(value.real), abs(value.imag)
    return math.nan if math.inf not in parts and any(map(math.isnan, parts)) else max(parts)


def _exact_size(mp: Context, value: Value) -> Real:
    return mp.hypot(mp.mpf(value.real), mp.mpf(value.imag))


def _sum_of_sizes(values: list[Value], real: DType) -> float:
    """Add absolute values and round once."""
    sizes = [_size(value) for value in values]
    if all(map(math.isfinite, sizes)) and any(value.imag for value in values):
        mp = context(_BITS)
        return round_real(mp.fsum(_exact_size(mp, value) for value in values), real)
    return exact_sum(sizes, real)


# ------------------------------------------------------------------ matrices


def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: MatrixOrder | None = "fro"
) -> ReferenceArray:
    """Return norms of matrices.

    Parameters
    ----------
    x : array
        Shape ``(..., M, N)``, floating-point.
    keepdims : bool
        Whether the last two axes stay with size one.
    ord : {"fro", "nuc", 1, -1, 2, -2, inf, -inf} or None
        Root of the sum of squares, which is also what None means; sum of the singular values;
        greatest or least sum of the absolute values in a column; greatest or least singular
        value; greatest or least sum of the absolute values in a row.

    Returns
    -------
    array
        Real of the precision of `x`. Where there is nothing to choose from, the greatest is 0.0
        and the least infinity. The norms by singular values are NaN for infinities and NaNs.

    Raises
    ------
    TypeError
        If `x` is not floating-point.
    ValueError
        If `x` has less than two dimensions, or `ord` is none of these.
    """
    stack = as_stack("matrix_norm", x)
    norm = _MATRIX_NORMS.get("fro" if ord is None else ord)
    if norm is None:
        raise bad_argument("matrix_norm", "ord", ord, "fro, nuc, 1, -1, 2, -2, inf or -inf")
    real = _dtypes.real_of(stack.dtype)
    norms: list[Value] = [
        norm(values, stack.columns, stack.dtype, real) for values in stack.matrices
    ]
    return stack.collect(norms, *((1, 1) if keepdims else ()), dtype=real)


def _frobenius(values: list[Value], columns: int, dtype: DType, real: DType) -> float:
    return _vector_norm(values, 2, real)


def _greatest(values: list[float]) -> float:
    return math.nan if any(map(math.isnan, values)) else max(values, default=0.0)


def _least(values: list[float]) -> float:
    return math.nan if any(map(math.isnan, values)) else min(values, default=math.inf)


def _of_columns(choose: Callable[[list[float]], float]) -> _MatrixNorm:
    def norm(values: list[Value], columns: int, dtype: DType, real: DType) -> float:
        return choose([_sum_of_sizes(values[j::columns], real) for j in range(columns)])

    return norm


def _of_rows(choose: Callable[[list[float]], float]) -> _MatrixNorm:
    def norm(values: list[Value], columns: int, dtype: DType, real: DType) -> float:
        starts = range(0, len(values), columns) if columns else range(0)
        return choose([_sum_of_sizes(values[i : i + columns], real) for i in starts])

    return norm


def _of_singular_values(choose: Callable[[list[Real]], Real], empty: float) -> _MatrixNorm:
    def norm(values: list[Value], columns: int, dtype: DType, real: DType) -> float:
        if not values:
            return empty
        if not is_finite(values):
            return math.nan
        matrix, shift = to_exact(values, len(values) // columns, columns, dtype)
        chosen = choose(_spectral.svdvals(matrix))
        return round_real(chosen.context.ldexp(chosen, -shift), real)

    return norm


_MatrixNorm: TypeAlias = Callable[[list[Value], int, DType, DType], float]

_MATRIX_NORMS: dict[float | str, _MatrixNorm] = {
    "fro": _frobenius,
    "nuc": _of_singular_values(sum, 0.0),
    1: _of_columns(_greatest),
    -1: _of_columns(_least),
    2: _of_singular_values(lambda singular: singular[0], 0.0),
    -2: _of_singular_values(lambda singular: singular[-1], math.inf),
    math.inf: _of_rows(_greatest),
    -math.inf: _of_rows(_least),
}
