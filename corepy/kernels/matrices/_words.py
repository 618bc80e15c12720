"""Products of 16-bit floats on the host: by which compiled loop, or by torch's own product."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from corepy.kernels._arguments import Given
from corepy.kernels._memory import Result, strided, view
from corepy.kernels.matrices import _brain, numba
from corepy.kernels.matrices._panels import products
from corepy.kernels.matrices._sums import sums

Array = npt.NDArray[Any]

#: Vectors up to which rows that lie side by side are multiplied one by one, and those up to which
#: the rows of a matrix that lies by columns are added up.
_FEW: Final = 32
_FEW_BY_COLUMNS: Final = 8
#: Columns up to which a matrix that lies by rows, of so many at least, is copied by columns: to add
#: up rows of two takes ten times as long.
_NARROW: Final = 4
_DEEP: Final = 4096


class Plane(NamedTuple):
    """Matrices of words in flat memory, in which rows or columns lie side by side.

    Attributes
    ----------
    row, column : int
        Strides in elements, one of which is 1.
    over : tuple of int
        The numbers of matrices along other axes.
    steps : tuple of int
        Elements from one to the next along each of them.
    """

    flat: Array
    rows: int
    columns: int
    row: int
    column: int
    over: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    def turned(self) -> Plane:
        """Return the transposed matrices."""
        flat, rows, columns, row, column, over, steps = self
        return Plane(flat, columns, rows, column, row, over, steps)

    def places(self) -> Array:
        """Return where each matrix begins."""
        found = np.zeros(self.over, np.int64)
        for axis, (count, step) in enumerate(zip(self.over, self.steps, strict=True)):
            line = np.arange(count, dtype=np.int64) * step
            found += line.reshape(-1, *(1,) * (len(self.over) - axis - 1))
        return found.reshape(-1)


def _plane(x: Given) -> Plane:
    """Look at the last two axes of an argument, copied only if none lies side by side."""
    rows, columns = x.shape[-2:]
    flat, strides = strided(x, rows=False)
    row, column = strides[-2:]
    if columns == 1:
        column = 1
    elif rows == 1 and column != 1:
        row = 1
    if column != 1 and row != 1:
        flat, strides = strided(x, rows=True)
        row, column = strides[-2], 1
    return Plane(flat, rows, columns, row, column, x.shape[:-2], strides[:-2])


def _lines(x: Given) -> Plane:
    """Look at vectors along the last axis of an argument as one matrix of rows."""
    if len(x.shape) == 2:
        return _plane(x)
    size = x.shape[-1]
    return Plane(view(x).reshape(-1), x.size // size, size, size, 1)


def product(
    left: Given,
    right: Given,
    shape: tuple[int, ...],
    out: Given | None,
    *,
    turned: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    added: Given | None = None,
) -> Any:
    """Return ``alpha * left @ right + beta * added`` in a shape, like `left`.

    Parameters
    ----------
    left : Given (..., depth)
    right : Given (depth, columns) or (depth,)
    turned : bool
        Whether `right` is (columns, depth).
    """
    if len(right.shape) == 1:
        turned = True
    b = _lines(right).turned() if turned else _lines(right)
    if alpha == 1.0 and (beta == 0.0 or added is None):
        few = left.size <= _FEW_BY_COLUMNS * left.shape[-1] and b.column == 1  # are added up
        found = None if few else _brain.product(left, right, turned, shape, out)
        if found is not None:
            return found
    a = _lines(left)
    result = Result(left, out, read_again=(left, right, added), shape=shape)
    host = result.host.reshape(-1)
    more, share = (host, 0.0) if added is None else (view(added).reshape(-1), beta)
    _multiply(a, b, None, 1.0, alpha, share, more, left.dtype == "bfloat16", host)
    return result.array()


def scores(q: Given, k: Given, scale: float, out: Given | None) -> Any:
    """Return ``scale * q @ k.mT``, neighbouring heads of `q` sharing one of `k`."""
    found = _brain.scores(q, k, scale, out)
    if found is not None:
        return found
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]
    result = Result(q, out, read_again=(q, k), shape=(batch, heads, queries, keys))
    a, b = _plane(q), _plane(k).turned()
    over, (outer, inner), group = (batch, kv_heads), a.steps, heads // kv_heads
    if queries == 1 or group == 1 or inner == queries * a.row:  # heads of a group are one matrix
        row = inner if queries == 1 else a.row
        if queries == 1 and a.column != 1 and row != 1:
            flat = view(q).reshape(-1)
            a = Plane(flat, group, size, size, 1, over, (heads * size, group * size))
        else:
            a = Plane(a.flat, group * queries, size, row, a.column, over, (outer, group * inner))
        places = a.places(), b.places()
    else:
        places = a.places(), np.repeat(b.places().reshape(over), group, axis=1).reshape(-1)
    host = result.host.reshape(-1)
    _multiply(a, b, places, scale, 1.0, 0.0, host, q.dtype == "bfloat16", host)
    return result.array()


def weighted(weights: Given, rows: Given, out: Given | None) -> Any:
    """Return ``sum(weights[..., i] * rows[..., i, :])`` over i."""
    depth, size = rows.shape[-2:]
    result = Result(weights, out, read_again=(weights, rows), shape=(*weights.shape[:-1], size))
    flat, b = view(weights).reshape(-1), _plane(rows)
    pairs = flat.size // depth
    a = Plane(flat, 1, depth, depth, 1, (pairs,), (depth,))
    host = result.host.reshape(-1)
    places = (a.places(), b.places())
    _multiply(a, b, places, 1.0, 1.0, 0.0, host, weights.dtype == "bfloat16", host)
    return result.array()


def _multiply(
    a: Plane,
    b: Plane,
    places: tuple[Array, Array] | None,
    factor: float,
    alpha: float,
    beta: float,
    added: Array,
    brain: bool,
    out: Array,
) -> None:
    """Put ``alpha * (factor * a) @ b + beta * added`` into `out`, for each pair of matrices.

    Without `places` there is one of each.
    """
    if b.columns == 1:
        a, b = b.turned(), a.turned()
        places = None if places is None else places[::-1]
    rows, depth, columns = a.rows, a.columns, b.columns
    if rows <= (_FEW_BY_COLUMNS if b.column == 1 else _FEW):
        flat, starts = a.flat, None if places is None else places[0]
        if a.column != 1 or (a.row != depth and rows > 1):
            flat, starts = _in_order(a, starts)
        if b.column == 1 and columns <= _NARROW and depth >= _DEEP:
            line, begins = _in_order(b.turned(), None if places is None else places[1])
            b = Plane(line, depth, columns, 1, depth)
            places = None if places is None else (places[0], begins)
        each = _each(starts, places, rows * columns)
        shape, factor = (rows, depth, columns), factor * alpha
        if b.column == 1:
            sums(flat, b.flat, b.row, each, shape, factor, beta, added, brain, out)
        else:
            numba.products(flat, b.flat, b.column, each, shape, factor, beta, added, brain, out)
        return
    is_turned = b.column == 1 and a.column == 1
    if is_turned:  # what is packed in strips is the one whose columns lie side by side
        a, b = b.turned(), a.turned()
        places = None if places is None else places[::-1]
    each = _each(None if places is None else places[0], places, rows * columns)
    left, right, shape = (a.row, a.column), (b.row, b.column), (a.rows, depth, b.columns)
    numbers = factor, alpha, beta
    products(a.flat, left, b.flat, right, each, shape, numbers, added, is_turned, brain, out)


def _each(starts: Array | None, places: tuple[Array, Array] | None, size: int) -> Array:
    """Return where the matrices of each pair begin, and their product of so many elements."""
    if starts is None or places is None:
        return numba.ALONE
    return np.stack((starts, places[1], np.arange(len(starts)) * size), axis=1)


def _in_order(a: Plane, starts: Array | None) -> tuple[Array, Array]:
    """Copy matrices so that their elements follow each other, and say where each begins."""
    item = a.flat.itemsize
    if starts is None:
        starts = np.zeros(1, np.int64)
    last = (a.rows - 1) * a.row + (a.columns - 1) * a.column
    # The matrices at all places, of which some are copied: places of elements take four times as
    # much memory as the elements.
    shape, strides = (a.flat.size - last, a.rows, a.columns), (item, a.row * item, a.column * item)
    flat = as_strided(a.flat, shape, strides)[starts].reshape(-1)
    return flat, np.arange(len(starts)) * (a.rows * a.columns)
