"""The linear algebra extension: exact or correctly rounded, with the standard's names.

The functions lie in the files of their kind; the simple products are here.
"""

from __future__ import annotations

import operator
from typing import cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument, bad_type
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._decompositions import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from corepy.backends.reference._elementwise import multiply
from corepy.backends.reference._exact import exact_dot
from corepy.backends.reference._layout import (
    broadcast_all,
    gather,
    normalize_axis,
    offsets,
    strides_of,
)
from corepy.backends.reference._linear_algebra import (
    matmul,
    matrix_transpose,
    tensordot,
    vecdot,
)
from corepy.backends.reference._norms import matrix_norm, vector_norm
from corepy.backends.reference._operands import ArrayLike, as_array, check_dtype, promote
from corepy.backends.reference._rounding import wrap
from corepy.backends.reference._solving import (
    det,
    inv,
    matrix_power,
    matrix_rank,
    pinv,
    slogdet,
    solve,
)
from corepy.backends.reference._statistical import sum as sum_along

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


# ------------------------------------------------------------------ products of vectors


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> ReferenceArray:
    """Return cross products of vectors of three elements.

    Parameters
    ----------
    x1, x2 : array
        Numeric; the shapes broadcast, but for `axis`, which has size 3 in both.
    axis : int
        Negative, counted from the end of both shapes; or any, if they have as many dimensions.

    Returns
    -------
    array
        Of the broadcast shape and the promoted dtype. Integers wrap, and others are rounded once.

    Raises
    ------
    TypeError
        If an operand is not numeric.
    IndexError
        If there is no such axis.
    ValueError
        If the axis has another size, or the shapes do not broadcast.
    """
    a, b = promote("cross", x1=x1, x2=x2)
    check_dtype("cross", "x1", a, _dtypes.NUMERIC)
    if axis >= 0 and a.ndim != b.ndim:
        raise bad_argument("cross", "axis", axis, "a negative axis for different dimensions")
    for name, x in (("x1", a), ("x2", b)):
        if x.shape[normalize_axis("cross", axis, x.ndim)] != 3:
            raise bad_argument("cross", f"{name}.shape", x.shape, f"size 3 along axis {axis}")
    (left, right), shape = broadcast_all("cross", (a, b))
    place = normalize_axis("cross", axis, len(shape))
    strides = strides_of(shape)
    single = tuple(1 if i == place else size for i, size in enumerate(shape))
    values: list[Value] = [0] * len(left)
    for start in offsets(single, strides):
        one, two, three = range(start, start + 3 * strides[place], strides[place])
        for target, i, j in ((one, two, three), (two, three, one), (three, one, two)):
            values[target] = _minor(left[i], left[j], right[i], right[j], a.dtype)
    return ReferenceArray(values, shape, a.dtype)


def _minor(a: Value, b: Value, c: Value, d: Value, dtype: DType) -> Value:
    """Return ``a * d - b * c``, wrapped or rounded once."""
    if dtype.rank == 1:
        return wrap(cast("int", a * d - b * c), dtype)
    part = _dtypes.real_of(dtype)
    if dtype.rank == 2:
        return exact_dot(cast("list[float]", [a, -b]), cast("list[float]", [d, c]), part)
    factors = (a.real, -a.imag, -b.real, b.imag)
    real = exact_dot(factors, (d.real, d.imag, c.real, c.imag), part)
    factors = (a.real, a.imag, -b.real, -b.imag)
    return complex(real, exact_dot(factors, (d.imag, d.real, c.imag, c.real), part))


def outer(x1: ArrayLike, x2: ArrayLike, /) -> ReferenceArray:
    """Return the products of each element of one vector with each of another.

    Parameters
    ----------
    x1, x2 : array
        Numeric, of shapes ``(N,)`` and ``(M,)``.

    Returns
    -------
    array
        Shape ``(N, M)``, of the promoted dtype. Integers wrap, and others are rounded once.

    Raises
    ------
    TypeError
        If an operand is not numeric.
    ValueError
        If an operand does not have one dimension.
    """
    a, b = promote("outer", x1=x1, x2=x2)
    check_dtype("outer", "x1", a, _dtypes.NUMERIC)
    for name, x in (("x1", a), ("x2", b)):
        if x.ndim != 1:
            raise bad_argument("outer", f"{name}.shape", x.shape, "one dimension")
    column = ReferenceArray(a.values, (a.size, 1), a.dtype)
    return multiply(column, b)


# ------------------------------------------------------------------ diagonals


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> ReferenceArray:
    """Return diagonals of matrices.

    Parameters
    ----------
    x : array
        Shape ``(..., M, N)``, of any dtype.
    offset : int
        How far above the main diagonal, or below it if negative. Outside of the matrix the
        diagonal is empty.

    Returns
    -------
    array
        Shape ``(..., K)`` and the dtype of `x`, K being the length of the diagonal.

    Raises
    ------
    TypeError
        If `offset` is not an integer.
    ValueError
        If `x` has less than two dimensions.
    """
    return _diagonal("diagonal", as_array("diagonal", "x", x), offset)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DType | None = None) -> ReferenceArray:
    """Return the sums of diagonals.

    Parameters
    ----------
    x : array
        Shape ``(..., M, N)``, numeric.
    offset : int
        As in `diagonal`.
    dtype : DType, optional
        The dtype of the result, to which `x` is cast first; by default int64 or uint64 for
        integers and that of `x` for floating-point numbers.

    Returns
    -------
    array
        Shape ``(...)``. Integers wrap, and others are rounded once.

    Raises
    ------
    TypeError
        If `x` is not numeric or `offset` not an integer.
    ValueError
        If `x` has less than two dimensions.
    """
    x = as_array("trace", "x", x)
    check_dtype("trace", "x", x, _dtypes.NUMERIC)
    return sum_along(_diagonal("trace", x, offset), axis=-1, dtype=dtype)


def _diagonal(function: str, x: ReferenceArray, offset: int) -> ReferenceArray:
    if x.ndim < 2:
        raise bad_argument(function, "x.shape", x.shape, "at least two dimensions")
    try:
        right = operator.index(offset)
    except TypeError:
        raise bad_type(function, "offset", offset, "an int") from None
    *batch, m, n = x.shape
    down, right = max(-right, 0), max(right, 0)
    length = max(min(m - down, n - right), 0)
    strides = strides_of(x.shape)
    start = down * strides[-2] + right * strides[-1] if length else 0
    steps = (*strides[:-2], strides[-2] + strides[-1])
    return gather(x, (*batch, length), steps, start)
