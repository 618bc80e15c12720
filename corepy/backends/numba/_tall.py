"""Decompositions of matrices of many more rows than columns, by blocks that fit the cache.

LAPACK goes over the whole matrix for each few columns. Here blocks of rows are factored one by one,
then the triangles that they leave, on top of each other, in the same way: as stable, for each step
is orthogonal [1]_. All is computed in double precision, as NumPy computes these, and rounded once.

In double precision the products of the columns of a float32 matrix tell as much as the columns
themselves, but for columns that nearly depend on each other: of others R is Cholesky's factor of
these products, and Q what solves ``Q R = x`` [2]_, in a fifth of the time and without Q in double
precision. Columns are made equally long before, so that those that differ in size depend on each
other no more than else.

.. [1] Demmel, Grigori, Hoemmen and Langou, Communication-optimal Parallel and Sequential QR and LU
   Factorizations, 2012, https://arxiv.org/abs/0808.2664
.. [2] Yamamoto, Nakatsukasa, Yanagisawa and Fukaya, Roundoff error analysis of the CholeskyQR2
   algorithm, 2015: the columns of Q are orthogonal but for some ``eps cond(x)**2``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._blas import can_hold, single
from corepy.backends._extents import TALL
from corepy.backends.numba._compiled import launch
from corepy.backends.numba._glue import Operation, operation, size_from

Array = npt.NDArray[Any]

#: Columns up to which blocks fit the cache, and elements of a block.
WIDEST: Final = 256
_BLOCK: Final = 1 << 17
#: Elements from which it pays.
_LEAST: Final = 1 << 16
#: Condition of equally long columns up to which their products tell enough: what is lost is some
#: 2e-11, far below what is rounded off in float32.
_CONDITION: Final = 300.0


def _is_tall(x: npt.NDArray[Any]) -> bool:
    """Say whether blocks of a matrix are worth it."""
    if x.ndim != 2 or x.dtype.kind != "f" or x.size < size_from(_LEAST) or not can_hold():
        return False
    rows: int = x.shape[0]
    columns: int = x.shape[1]
    return 1 < columns <= WIDEST and rows >= TALL * columns


def _edges(x: Array) -> list[int]:
    """Return where blocks of rows begin and end."""
    rows, columns = x.shape
    parts = max(1, rows // max(4 * columns, _BLOCK // columns))
    return [i * rows // parts for i in range(parts + 1)]


def _each(work: Callable[[int], None], parts: int, x: Array) -> None:
    """Run a function on each block, in several threads."""

    def share(start: int, stop: int) -> None:
        for i in range(start, stop):
            work(i)

    launch(share, (), parts, x.size * x.shape[1] // 4)


def _triangle(x: Array, q: Array | None) -> Array:
    """Factor a matrix: return R, and put into `q` what has orthogonal columns."""
    edges, n = _edges(x), x.shape[1]
    parts = len(edges) - 1
    if parts < 2:
        whole = x.astype(np.float64, copy=False)
        if q is None:
            return np.asarray(np.linalg.qr(whole, mode="r"))
        q[...], rest = np.linalg.qr(whole)
        return np.asarray(rest)
    stacked = np.empty((parts * n, n))

    def factor(i: int) -> None:
        rows = slice(edges[i], edges[i + 1])
        block = x[rows].astype(np.float64, copy=False)
        into = stacked[i * n : (i + 1) * n]
        if q is None:
            into[...] = np.linalg.qr(block, mode="r")
        else:
            q[rows], into[...] = np.linalg.qr(block)

    _each(factor, parts, x)
    if q is None:
        return _triangle(stacked, None)
    turns = np.empty_like(stacked)
    triangle = _triangle(stacked, turns)
    _turn(q, [turns[i * n : (i + 1) * n] for i in range(parts)], edges, q)
    return triangle


def _turn(q: Array, turns: list[Array], edges: list[int], out: Array) -> None:
    """Put blocks of rows times a matrix each into `out`, which may be `q`."""

    def multiply(i: int) -> None:
        rows = slice(edges[i], edges[i + 1])
        out[rows] = q[rows].astype(np.float64, copy=False) @ turns[i]

    _each(multiply, len(turns), q)


def _products(x: Array) -> tuple[Array, Array] | None:
    """Return R of a float32 matrix, and what turns it into Q; None where too much is lost."""
    if x.dtype != np.float32:
        return None
    edges, n = _edges(x), x.shape[1]
    parts = np.empty((len(edges) - 1, n, n))

    def multiply(i: int) -> None:
        block = x[edges[i] : edges[i + 1]].astype(np.float64)
        np.matmul(block.T, block, out=parts[i])

    with np.errstate(invalid="ignore"):  # of infinities, of which LAPACK says what there is
        _each(multiply, len(parts), x)
        total = np.add.reduce(parts, axis=0)
    lengths = np.sqrt(np.diagonal(total))
    if not np.isfinite(lengths).all() or not lengths.all():
        return None
    try:
        triangle = np.linalg.cholesky(total / np.outer(lengths, lengths)).T
    except np.linalg.LinAlgError:
        return None
    u, values, right = np.linalg.svd(triangle)
    if values[0] > _CONDITION * values[-1]:
        return None
    return triangle * lengths, (right.T / values) @ u.T / lengths[:, None]


def _factor(x: Array) -> tuple[Array, Array, Array | None] | None:
    """Return R, and Q as a matrix and what turns its rows; None where LAPACK has the word."""
    found = _products(x)
    if found is not None:
        return found[0], x, found[1]
    q = np.empty(x.shape)
    triangle = _triangle(x, q)
    return (triangle, q, None) if np.isfinite(triangle).all() else None


def _turned(q: Array, turn: Array, x: Array) -> Array:
    """Return `q` times a matrix in the dtype of `x`, in the memory of `q` if that is another's."""
    out = q if q.dtype == x.dtype and q is not x else np.empty(x.shape, x.dtype)
    edges = _edges(x)
    _turn(q, [turn] * (len(edges) - 1), edges, out)
    return out


def _qr(x: Array, /, *, mode: str) -> tuple[Array, Array] | None:
    """Return Q and R of a tall matrix, None for others."""
    if mode != "reduced" or not _is_tall(x):
        return None
    with single():
        found = _factor(x)
        if found is None:
            return None  # LAPACK has the word on infinities and NaN
        triangle, q, turn = found
        q = q.astype(x.dtype, copy=False) if turn is None else _turned(q, turn, x)
    return q, triangle.astype(x.dtype, copy=False)


def _svd(x: Array, /, *, full_matrices: bool) -> tuple[Array, Array, Array] | None:
    if full_matrices or not _is_tall(x):
        return None
    with single():
        found = _factor(x)
        if found is None:
            return None
        triangle, q, turn = found
        left, values, right = np.linalg.svd(triangle)
        u = _turned(q, left if turn is None else turn @ left, x)
    return u, values.astype(x.dtype, copy=False), right.astype(x.dtype, copy=False)


def _svdvals(x: Array, /) -> Array | None:
    if not _is_tall(x):
        return None
    with single():
        found = _products(x)
        triangle = _triangle(x, None) if found is None else found[0]
    if not np.isfinite(triangle).all():
        return None
    values = np.linalg.svd(triangle, compute_uv=False)
    return values.astype(x.dtype, copy=False)


OPERATIONS: Final[dict[str, Operation]] = {
    "linalg.qr": operation("linalg.qr", _LEAST)(_qr),
    "linalg.svd": operation("linalg.svd", _LEAST)(_svd),
    "linalg.svdvals": operation("linalg.svdvals", _LEAST)(_svdvals),
}
