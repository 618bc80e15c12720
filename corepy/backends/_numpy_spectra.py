"""Eigenvalues and singular values of large matrices, by LAPACK's routines on rows as they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.backends._lapack import (
    copied,
    gains_by_space,
    has_routines,
    leading,
    routines_of,
    spaced,
    with_work,
)

Array = npt.NDArray[Any]

__all__ = ["SINGLE", "eigh", "has_eigenvalues", "has_singular_values", "svd", "svdvals"]

#: Elements that are looked at together, which fit the caches.
_PART: Final = 1 << 16

# Matrices that are not finite are NumPy's: the routines may never end with them.


def _is_finite(x: Array) -> bool:
    """Say whether a matrix is finite, looking at some rows at a time.

    The answers for all elements at once take an eighth of a float64 matrix, which `malloc` may keep
    while singular values, that need no more than a copy of it, are found.
    """
    if abs(x.strides[0]) < abs(x.strides[1]):
        x = x.T
    rows = max(1, _PART // x.shape[1])
    return all(np.isfinite(x[start : start + rows]).all() for start in range(0, len(x), rows))


def has_eigenvalues(x: Array) -> bool:
    """Say whether LAPACK is called for eigenvalues of a symmetric matrix past NumPy's functions."""
    return has_routines(x) and _is_finite(x)


def has_singular_values(x: Array, dtype: npt.DTypeLike) -> bool:
    """Say whether it is called for singular values, to be computed in a dtype."""
    return gains_by_space(x, dtype) and _is_finite(x)


def eigh(x: Array, dtype: npt.DTypeLike) -> tuple[Array, Array]:
    """Return eigenvalues, in ascending order, and eigenvectors as columns of a symmetric matrix."""
    # What is the lower triangle by rows, which NumPy reads, is the upper one by columns.
    vectors = copied(x, dtype)
    lapack = routines_of(vectors)
    n = len(vectors)
    values = np.empty(n, dtype)
    integers = np.empty(5 * n + 3, lapack.integers)

    def call(work: Array, count: int) -> int:
        return lapack(
            *("syevd", "V", "U", n, vectors, leading(vectors), values),
            *(work, count, integers, len(integers)),
        )

    if with_work(call, dtype):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")
    return values.astype(x.dtype, copy=False), vectors.T.astype(x.dtype, "C")


def _singular(x: Array, dtype: npt.DTypeLike, job: str) -> tuple[Array, Array, Array]:
    """Return left vectors, singular values and right vectors as rows, for a job of ``gesdd``."""
    m, n = x.shape
    k = min(m, n)
    overwritten = copied(x, dtype)
    lapack = routines_of(overwritten)
    # The transpose has the same ones, with the sides exchanged.
    left, right = {
        "A": lambda: (spaced(m, m, dtype), spaced(n, n, dtype)),
        "S": lambda: (spaced(m, k, dtype), spaced(k, n, dtype)),
        "N": lambda: (spaced(1, m, dtype), spaced(1, n, dtype)),
    }[job]()
    values = np.empty(k, dtype)
    integers = np.empty(8 * k, lapack.integers)

    def call(work: Array, count: int) -> int:
        return lapack(
            *("gesdd", job, n, m, overwritten, leading(overwritten), values),
            *(right, leading(right), left, leading(left), work, count, integers),
        )

    if with_work(call, dtype):
        raise np.linalg.LinAlgError("SVD did not converge")
    return left, values.astype(x.dtype, copy=False), right


def svd(
    x: Array, dtype: npt.DTypeLike, *, full_matrices: bool = True
) -> tuple[Array, Array, Array]:
    """Return left vectors as columns, singular values in descending order, right ones as rows."""
    left, values, right = _singular(x, dtype, "A" if full_matrices else "S")
    return left.astype(x.dtype, "C", copy=False), values, right.astype(x.dtype, "C", copy=False)


def svdvals(x: Array, dtype: npt.DTypeLike) -> Array:
    """Return the singular values of a matrix in descending order."""
    return _singular(x, dtype, "N")[1]


def _single_eigh(x: Array, /) -> tuple[Array, Array] | None:
    return eigh(x, np.float32) if has_eigenvalues(x) else None


def _single_svd(x: Array, /, *, full_matrices: bool = True) -> tuple[Array, Array, Array] | None:
    if not has_singular_values(x, np.float32):
        return None
    return svd(x, np.float32, full_matrices=full_matrices)


def _single_svdvals(x: Array, /) -> Array | None:
    return svdvals(x, np.float32) if has_singular_values(x, np.float32) else None


#: By name, what computes large matrices of float32 in float32, and gives None of others.
SINGLE: Final[dict[str, Callable[..., Any]]] = {
    "linalg.eigh": _single_eigh,
    "linalg.svd": _single_svd,
    "linalg.svdvals": _single_svdvals,
}
