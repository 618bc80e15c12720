"""Inverses, solutions, determinants, and Cholesky's and orthogonal factors of large matrices.

LAPACK's routines are called on rows as they lie (`_lapack`); NumPy copies each matrix element by
element, which takes a third of the time of a determinant. An inverse is found from its triangles,
three quarters of the work of solving for the columns of the identity [1]_.

.. [1] Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, 2002, section 14.3
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from corepy import _blas
from corepy.backends import _numpy_linalg
from corepy.backends._lapack import (
    LARGE,
    copied,
    gains_by_space,
    has_routines,
    leading,
    routines_of,
    with_work,
)
from corepy.backends._numpy_rows import triangle

Array = npt.NDArray[Any]

__all__ = ["OPERATIONS", "SINGLE", "determinant", "is_large"]

#: Rows up to which a second thread of BLAS gains nothing, and loses where it is slow to wake: a
#: factorization is many short steps, which its threads share.
_ALONE: Final = {"getrf": 512, "potrf": 640}
#: How small a pivot may be beside another one in float32.
_APART: Final = np.float32(2.0**-64)
#: The least and the greatest float64 that has all its digits.
_LEAST: Final = np.finfo(np.float64).tiny
_GREATEST: Final = np.finfo(np.float64).max


#: Rows from which Cholesky's factor is found past NumPy's functions, which take twice as long where
#: what they work on is memory new from the system, as it may be from 128 KiB on.
_CHOLESKY: Final = 127


def is_large(x: Array, least: int = LARGE) -> bool:
    """Say whether LAPACK is called for a matrix past NumPy's functions."""
    return has_routines(x, least) and x.shape[0] == x.shape[1]


def _call(name: str, x: Array, *arguments: Any) -> int:
    """Call a routine for the dtype of a matrix, as `Routines` describes."""
    lapack = routines_of(x)
    if len(x) > _ALONE.get(name, 0):
        return lapack(name, *arguments)
    with _blas.single():
        return lapack(name, *arguments)


def _factored(x: Array, dtype: npt.DTypeLike) -> tuple[Array, Array, bool]:
    """Return L and U of the transposed matrix by columns, its pivots, and whether it is singular.

    What it overwrites is a copy in the dtype.

    Raises
    ------
    LinAlgError
        If the dtype is float32, and float64 is to be taken.
    """
    factors = np.array(x, dtype, order="C")
    n = len(factors)
    pivots = np.empty(n, routines_of(factors).integers)
    info = _call("getrf", factors, n, n, factors, n, pivots)
    sizes = np.abs(factors.diagonal())
    # Pivots are chosen along rows here, so that columns of other scales leave multipliers that
    # single precision may not hold.
    if sizes.dtype == np.float32 and sizes.min() < _APART * sizes.max():
        raise np.linalg.LinAlgError("float32 is too narrow for the multipliers")
    # Beside subnormal pivots OpenBLAS overlooks zeros, and leaves them as they are in an inverse.
    return factors, pivots, info > 0 or not sizes.all()


def _rows(pivots: Array) -> Array:
    """Return the order of rows that undoes all exchanges, from the last one to the first."""
    order = list(range(len(pivots)))
    for i, other in enumerate(pivots.tolist()):
        order[i], order[other - 1] = order[other - 1], order[i]
    undone = np.empty(len(order), np.intp)
    undone[order] = np.arange(len(order))
    return undone


def _refuse_singular(singular: bool) -> None:
    if singular:
        raise np.linalg.LinAlgError("Singular matrix")


def _exchanges(pivots: Array) -> int:
    """Return how many rows were exchanged with another one."""
    return int(np.count_nonzero(pivots != np.arange(1, len(pivots) + 1)))


def _turns(factors: Array, pivots: Array) -> bool:
    """Say whether the determinant is negative."""
    return bool((_exchanges(pivots) + np.count_nonzero(factors.diagonal() < 0)) % 2)


def determinant(factors: Array, pivots: Array, dtype: npt.DTypeLike) -> Any:
    """Return the determinant of a matrix by its factors, as LAPACK's ``getrf`` leaves them.

    Parameters
    ----------
    factors : ndarray
        Real, of n rows and columns; only the diagonal of U is looked at.
    pivots : ndarray
        Which row each one was exchanged with, counted from one.
    dtype : dtype
        Of the determinant.

    Returns
    -------
    scalar
        Infinite or zero only where the determinant is beyond what the dtype holds, whatever the
        products of the first pivots are.
    """
    diagonal = factors.diagonal().astype(np.float64)  # whose elements lie far apart
    with np.errstate(all="ignore"):
        products = np.multiply.accumulate(diagonal)
        sizes = np.abs(products)
    if sizes.min() >= _LEAST and sizes.max() <= _GREATEST:
        found = products[-1]
    else:
        found = _product(diagonal)
    return (-found if _exchanges(pivots) % 2 else found).astype(dtype)


def _product(values: Array) -> Any:
    """Multiply float64 numbers whose product may lie within what floats hold where parts do not."""
    negative = np.count_nonzero(values < 0) % 2
    # Mantissas and exponents apart. Each of 512 mantissas is at least a half.
    values, exponents = np.frexp(np.abs(values))
    while len(values) > 1:
        starts = range(0, len(values), 512)
        values, more = np.frexp(np.multiply.reduceat(values, starts))
        exponents = np.append(exponents, more)
    # Beyond all floats it is anyhow, within C's integers.
    power = int(np.clip(exponents.sum(dtype=np.int64), -(2**20), 2**20))
    with np.errstate(under="ignore"):
        return np.ldexp(-values[0] if negative else values[0], power)


def _det(x: Array, dtype: npt.DTypeLike) -> Any:
    factors, pivots, singular = _factored(x, dtype)
    return x.dtype.type(0) if singular else determinant(factors, pivots, x.dtype)


def _slogdet(x: Array, dtype: npt.DTypeLike) -> tuple[Any, Any]:
    factors, pivots, singular = _factored(x, dtype)
    real = x.dtype.type
    if singular:
        return real(0), real(-np.inf)
    logarithm = np.log(np.abs(factors.diagonal())).sum(dtype=np.float64)
    return real(-1 if _turns(factors, pivots) else 1), logarithm.astype(x.dtype)


def _inv(x: Array, dtype: npt.DTypeLike) -> Array:
    factors, pivots, singular = _factored(x, dtype)
    _refuse_singular(singular)
    n = len(x)
    _call("trtri", factors, "U", "N", n, factors, n)
    found = factors.copy()
    triangle(found, found, upper=False)  # U's inverse, by columns
    _call("trsm", found, "R", "L", "N", "U", n, n, 1.0, factors, n, found, n)
    del factors  # its memory serves the next copy
    return found[_rows(pivots)].astype(x.dtype, copy=False)


def _solve(x1: Array, x2: Array, dtype: npt.DTypeLike) -> Array:
    factors, pivots, singular = _factored(x1, dtype)
    _refuse_singular(singular)
    found = np.array(x2, dtype, order="C")
    n, m = len(x1), 1 if x2.ndim == 1 else x2.shape[1]
    if m:
        _call("trsm", found, "R", "U", "N", "N", m, n, 1.0, factors, n, found, m)
        _call("trsm", found, "R", "L", "N", "U", m, n, 1.0, factors, n, found, m)
    del factors
    return found[_rows(pivots)].astype(x1.dtype, copy=False)


def _cholesky(x: Array, dtype: npt.DTypeLike, upper: bool) -> Array:
    found = np.array(x, dtype, order="C")
    n = len(found)
    # What is the lower triangle by rows is the upper one by columns.
    if _call("potrf", found, "U", n, found, n):
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    found = triangle(found, found, upper=False)
    found = found.astype(x.dtype, copy=False)
    return found.T if upper else found


def _qr(x: Array, dtype: npt.DTypeLike) -> tuple[Array, Array]:
    m, n = x.shape
    k = min(m, n)
    # The transpose is a lower triangle by orthogonal rows, L and Q, where the matrix is Q and R.
    factors = copied(x, dtype)
    lapack = routines_of(factors)
    step = leading(factors)
    scales = np.empty(k, dtype)
    with_work(partial(lapack, "gelqf", n, m, factors, step, scales), dtype)
    r = triangle(factors[:k], np.empty((k, n), dtype), upper=True)
    with_work(partial(lapack, "orglq", k, m, k, factors, step, scales), dtype)
    q = factors[:, :k]
    return q.astype(x.dtype, "C", copy=False), r.astype(x.dtype, copy=False)


# ---------------------------------------------------------------------------- operations


def _of_matrix(own: Callable[..., Any], numpys: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Array, /) -> Any:
        # NumPy computes float32 in double precision.
        return own(x, np.float64) if is_large(x) else numpys(x)

    return call


def _is_solvable(x1: Array, x2: Array) -> bool:
    """Say whether both are as LAPACK is called for, past NumPy's promotion and broadcasting."""
    alike = x1.dtype == x2.dtype and x2.ndim in (1, 2) and len(x2) == len(x1)
    return alike and is_large(x1)


def _numpys_solve(x1: Array, x2: Array, /) -> Array:
    if _is_solvable(x1, x2):
        return _solve(x1, x2, np.float64)
    return np.linalg.solve(x1, x2)


def _numpys_cholesky(x: Array, /, *, upper: bool = False) -> Array:
    if is_large(x, _CHOLESKY):
        return _cholesky(x, np.float64, upper)
    found = np.linalg.cholesky(x)
    if not upper:
        return found
    found = found.swapaxes(-1, -2)
    return np.conj(found) if x.dtype.kind == "c" else found


def _has_orthogonal(x: Array, dtype: npt.DTypeLike, mode: str) -> bool:
    """Say whether LAPACK is called for orthogonal factors, of which it makes as many as columns."""
    return gains_by_space(x, dtype) and (mode == "reduced" or x.shape[0] <= x.shape[1])


def _numpys_qr(
    x: Array, /, *, mode: Literal["reduced", "complete"] = "reduced"
) -> tuple[Array, Array]:
    if _has_orthogonal(x, np.float64, mode):
        return _qr(x, np.float64)
    q, r = np.linalg.qr(x, mode)
    return q, r


#: By name, what the NumPy backend runs, of matrices of any size and dtype.
OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "linalg.cholesky": _numpys_cholesky,
    "linalg.det": _of_matrix(_det, np.linalg.det),
    "linalg.inv": _of_matrix(_inv, _numpy_linalg.inv),
    "linalg.qr": _numpys_qr,
    "linalg.slogdet": _of_matrix(_slogdet, _numpy_linalg.slogdet),
    "linalg.solve": _numpys_solve,
}


def _single_of_matrix(own: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Array, /) -> Any:
        return own(x, np.float32) if is_large(x) else None

    return call


def _single_solve(x1: Array, x2: Array, /) -> Array | None:
    return _solve(x1, x2, np.float32) if _is_solvable(x1, x2) else None


def _single_cholesky(x: Array, /, *, upper: bool = False) -> Array | None:
    return _cholesky(x, np.float32, upper) if is_large(x, _CHOLESKY) else None


def _single_qr(x: Array, /, *, mode: str = "reduced") -> tuple[Array, Array] | None:
    return _qr(x, np.float32) if _has_orthogonal(x, np.float32, mode) else None


#: By name, what computes large matrices of float32 in float32, and gives None of others.
SINGLE: Final[dict[str, Callable[..., Any]]] = {
    "linalg.cholesky": _single_cholesky,
    "linalg.det": _single_of_matrix(_det),
    "linalg.inv": _single_of_matrix(_inv),
    "linalg.qr": _single_qr,
    "linalg.solve": _single_solve,
}
