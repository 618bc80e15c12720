"""Decompositions of the linear algebra extension.

Cholesky and QR need square roots but nothing else beyond the four operations, so each of their
elements is rounded once from an exact value. Eigenvalues and singular values come from hundreds
of bits (see ``_spectral.py``) and are rounded once, too. Where a decomposition is not unique, the
docstrings say which one this is.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import Literal, NamedTuple

from corepy import _dtypes
from corepy._errors import bad_argument, unsolvable
from corepy.backends.reference import _spectral
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._integer_matrix import (
    Gaussian,
    Matrix,
    Number,
    Vector,
    identity,
    inner,
    orthogonalize,
)
from corepy.backends.reference._matrices import (
    as_stack,
    nan_of,
    round_root,
    round_scalars,
    unit_values,
)
from corepy.backends.reference._operands import ArrayLike

__all__ = [
    "EigResult",
    "EighResult",
    "QRResult",
    "SVDResult",
    "cholesky",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "qr",
    "svd",
    "svdvals",
]


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: ReferenceArray
    eigenvectors: ReferenceArray


class EigResult(NamedTuple):
    """What `eig` returns."""

    eigenvalues: ReferenceArray
    eigenvectors: ReferenceArray


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: ReferenceArray
    R: ReferenceArray


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: ReferenceArray
    S: ReferenceArray
    Vh: ReferenceArray


def _transposed(vectors: list[list[Value]], length: int) -> list[Value]:
    """List the values of a matrix whose columns are given."""
    return [vector[i] for i in range(length) for vector in vectors]


# ------------------------------------------------------------------ Cholesky


def cholesky(x: ArrayLike, /, *, upper: bool = False) -> ReferenceArray:
    """Factor positive-definite matrices into a triangle and its adjoint.

    Parameters
    ----------
    x : array
        Shape ``(..., M, M)``, floating-point. Only the triangle of the result is read, of the
        diagonal only the real part.
    upper : bool
        Whether ``x = U^H U`` or, by default, ``x = L L^H``.

    Returns
    -------
    array
        Of the shape and dtype of `x`, each element rounded once; the diagonal is positive. A
        matrix with infinities or NaNs yields NaN in its triangle.

    Raises
    ------
    TypeError
        If `x` is not floating-point.
    ValueError
        If `x` is not a stack of square matrices, or one of them is not positive definite.
    """
    stack = as_stack("cholesky", x, square=True)
    n = stack.rows
    values: list[Value] = []
    zero: Value = 0j if stack.dtype.kind == "c" else 0.0
    for position, scaled in enumerate(stack.exact()):
        if scaled is None:
            entries = [[nan_of(stack.dtype)] * (i + 1) for i in range(n)]
        else:
            matrix, shift = scaled
            lower = [
                [(matrix[j][i].conjugate() if upper else matrix[i][j]) for j in range(i + 1)]
                for i in range(n)
            ]
            factor = _cholesky(lower)
            if factor is None:
                raise unsolvable(
                    f"cholesky: {stack.name(position)} is not positive definite; expected a "
                    "positive-definite matrix"
                )
            numbers, squares = factor
            entries = [
                [
                    round_root(y.conjugate() if upper else y, square << shift, stack.dtype)
                    for y, square in zip(row, squares, strict=False)
                ]
                for row in numbers
            ]
        for i in range(n):
            for j in range(n):
                row, column = (j, i) if upper else (i, j)
                values.append(entries[row][column] if column <= row else zero)
    return stack.collect(values, n, n)


def _cholesky(lower: Matrix) -> tuple[Matrix, list[int]] | None:
    """Factor a matrix given by its lower triangle, row by row.

    Returns
    -------
    tuple or None
        The factor's lower triangle, and for each column the square of what it is still to be
        divided by. None if the matrix is not positive definite.
    """
    rows = [list(row) for row in lower]
    squares = []
    last = 1
    for k in range(len(rows)):
        pivot = rows[k][k].real
        if pivot <= 0:
            return None
        rows[k][k] = pivot
        for i in range(k + 1, len(rows)):
            for j in range(k + 1, i + 1):
                below = rows[i][k] * rows[j][k].conjugate()
                rows[i][j] = (pivot * rows[i][j] - below) // last
        squares.append(last * pivot)
        last = pivot
    return rows, squares


# ------------------------------------------------------------------ QR


def qr(x: ArrayLike, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Factor matrices into orthonormal columns and an upper triangle.

    Parameters
    ----------
    x : array
        Shape ``(..., M, N)``, floating-point.
    mode : {"reduced", "complete"}
        Whether `Q` has ``K = min(M, N)`` columns, the default, or M.

    Returns
    -------
    QRResult
        `Q` of shape ``(..., M, K)`` and `R` of shape ``(..., K, N)``, K being M if complete; each
        element rounded once. `R` is in row echelon form with positive leading elements: so its
        diagonal is positive, unless columns depend on those before them. A matrix with infinities
        or NaNs yields NaN, but for the zeros of `R`.

    Raises
    ------
    TypeError
        If `x` is not floating-point.
    ValueError
        If `x` has less than two dimensions or `mode` is unknown.
    """
    stack = as_stack("qr", x)
    if mode not in ("reduced", "complete"):
        raise bad_argument("qr", "mode", mode, "reduced or complete")
    m, n = stack.rows, stack.columns
    count = m if mode == "complete" else min(m, n)
    nan = nan_of(stack.dtype)
    zero: Value = 0j if stack.dtype.kind == "c" else 0.0
    q_values: list[Value] = []
    r_values: list[Value] = []
    for scaled in stack.exact():
        if scaled is None:
            q_values += [nan] * (m * count)
            r_values += [nan if i <= j else zero for i in range(count) for j in range(n)]
            continue
        matrix, shift = scaled
        columns: list[Vector] = [[row[j] for row in matrix] for j in range(n)]
        # Unit vectors make up for columns that are missing or dependent.
        basis = orthogonalize(chain(columns, identity(m)), count)
        q_values += _transposed(
            [[round_root(y, square, stack.dtype) for y in vector] for vector, square in basis], m
        )
        for vector, square in basis:
            conjugate = [y.conjugate() for y in vector]
            below = square << (2 * shift)
            r_values += [round_root(inner(conjugate, c), below, stack.dtype) for c in columns]
    return QRResult(stack.collect(q_values, m, count), stack.collect(r_values, count, n))


# ------------------------------------------------------------------ eigenvalues


def eigh(x: ArrayLike, /) -> EighResult:
    """Decompose real symmetric or complex Hermitian matrices.

    Parameters
    ----------
    x : array
        Shape ``(..., M, M)``, floating-point. Only the lower triangle is read, of the diagonal
        only the real part.

    Returns
    -------
    EighResult
        `eigenvalues` of shape ``(..., M)``, real and ascending, and `eigenvectors` of shape
        ``(..., M, M)``, orthonormal in columns, of each the first element other than zero being
        positive. A matrix with infinities or NaNs yields NaN.

    Raises
    ------
    TypeError
        If `x` is not floating-point.
    ValueError
        If `x` is not a stack of square matrices.
    """
    return _eigh("eigh", x)


def eigvalsh(x: ArrayLike, /) -> ReferenceArray:
    """Return the eigenvalues that `eigh` returns; parameters and errors as there."""
    return _eigh("eigvalsh", x).eigenvalues


def _eigh(function: str, x: ArrayLike) -> EighResult:
    stack = as_stack(function, x, square=True)
    n = stack.rows
    real = _dtypes.real_of(stack.dtype)
    values: list[Value] = []
    vectors: list[Value] = []
    for scaled in stack.exact():
        if scaled is None:
            values += [math.nan] * n
            vectors += [nan_of(stack.dtype)] * (n * n)
        elif n:
            matrix, shift = scaled
            found, columns = _spectral.eigh(_hermitian(matrix))
            values += round_scalars(found, shift, real)
            vectors += _transposed([round_scalars(c, 0, stack.dtype) for c in columns], n)
    return EighResult(
        stack.collect(values, n, dtype=real),
        stack.collect(vectors, n, n),
    )


def _hermitian(a: Matrix) -> Matrix:
    """Complete the lower triangle to a Hermitian matrix."""

    def element(i: int, j: int) -> Number:
        if i == j:
            return Gaussian(a[i][i].real, 0) if isinstance(a[i][i], Gaussian) else a[i][i]
        return a[i][j] if j < i else a[j][i].conjugate()

    return [[element(i, j) for j in range(len(a))] for i in range(len(a))]


def eig(x: ArrayLike, /) -> EigResult:
    """Decompose square matrices into eigenvalues and eigenvectors.

    Parameters
    ----------
    x : array
        Shape ``(..., M, M)``, floating-point.

    Returns
    -------
    EigResult
        `eigenvalues` of shape ``(..., M)``, ordered by real and imaginary part, and
        `eigenvectors` of shape ``(..., M, M)``, in columns of unit length, of each the first
        element other than zero being positive. Both are complex of the precision of `x`. An
        eigenvalue that occurs several times has orthonormal eigenvectors, which are repeated if
        there are too few of them.

    Raises
    ------
    TypeError
        If `x` is not floating-point.
    ValueError
        If `x` is not a stack of square matrices, or contains infinities or NaNs.
    """
    stack = as_stack("eig", x, square=True)
    n = stack.rows
    dtype = _dtypes.complex_of(stack.dtype)
    values: list[Value] = []
    vectors: list[Value] = []
    for matrix, shift in stack.finite("eig"):
        found, columns = _spectral.eig(matrix)
        values += round_scalars(found, shift, dtype)
        vectors += _transposed([round_scalars(c, 0, dtype) for c in columns], n)
    return EigResult(
        stack.collect(values, n, dtype=dtype),
        stack.collect(vectors, n, n, dtype=dtype),
    )


def eigvals(x: ArrayLike, /) -> ReferenceArray:
    """Return the eigenvalues that `eig` returns; parameters and errors as there."""
    stack = as_stack("eigvals", x, square=True)
    dtype = _dtypes.complex_of(stack.dtype)
    values: list[Value] = []
    for matrix, shift in stack.finite("eigvals"):
        values += round_scalars(_spectral.eigvals(matrix), shift, dtype)
    return stack.collect(values, stack.rows, dtype=dtype)


# ------------------------------------------------------------------ singular values


def svd(x: ArrayLike, /, *, full_matrices: bool = True) -> SVDResult:
    """Decompose matrices into singular vectors and singular values.

    Parameters
    ----------
    x : array
        Shape ``(..., M, N)``, floating-point.
    full_matrices : bool
        Whether `U` has M columns and `Vh` N rows, or both ``K = min(M, N)``.

    Returns
    -------
    SVDResult
        `U` of shape ``(..., M, M)`` or ``(..., M, K)``, the real and descending `S` of shape
        ``(..., K)``, and `Vh` of shape ``(..., N, N)`` or ``(..., K, N)``, of each row of which
        the first element other than zero is positive.

    Raises
    ------
    TypeError
        If `x` is not floating-point.
    ValueError
        If `x` has less than two dimensions, or contains infinities or NaNs.
    """
    stack = as_stack("svd", x)
    m, n, dtype = stack.rows, stack.columns, stack.dtype
    k = min(m, n)
    left, right = (m, n) if full_matrices else (k, k)
    real = _dtypes.real_of(dtype)
    u: list[Value] = []
    s: list[Value] = []
    vh: list[Value] = []
    for matrix, shift in stack.finite("svd"):
        columns, values, rows = _spectral.svd(matrix, n)
        u += _transposed([round_scalars(c, 0, dtype) for c in columns[:left]], m)
        s += round_scalars(values, shift, real)
        for row in rows[:right]:
            vh += round_scalars(row, 0, dtype)
    if not k:  # nothing to decompose, and any orthonormal vectors do
        count = len(stack.matrices)
        u = unit_values(left, dtype) * count if left else []
        vh = unit_values(right, dtype) * count if right else []
    return SVDResult(
        stack.collect(u, m, left),
        stack.collect(s, k, dtype=real),
        stack.collect(vh, right, n),
    )


def svdvals(x: ArrayLike, /) -> ReferenceArray:
    """Return the singular values that `svd` returns; parameters and errors as there."""
    stack = as_stack("svdvals", x)
    real = _dtypes.real_of(stack.dtype)
    values: list[Value] = []
    for matrix, shift in stack.finite("svdvals"):
        values += round_scalars(_spectral.svdvals(matrix), shift, real)
    return stack.collect(values, min(stack.rows, stack.columns), dtype=real)
