"""Products of a few vectors with a matrix, each row of which is read once, for all of them.

BLAS packs a matrix first, for which a few vectors are no reward. Four vectors meet some rows at
once, in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numba import types

from corepy._loops._simd import by_type, converts_halves, number
from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import (
    DEEP,
    fetch,
    put,
    scratch,
    sum_of_products_in_place,
    sums_of_products,
)
from corepy.kernels._tiles import WORDS, dots, lanes_of

Array = npt.NDArray[Any]

#: Rows whose products are rounded together.
_ROWS = 64
#: Vectors that meet some rows at once, which are read, and widened, as seldom.
_AT_ONCE = 4
#: Where a pair of matrices and their product begin that are each the first in their memory.
ALONE: Final = np.zeros((1, 3), np.int64)

_of_floats, _of_halves, _of_brains = (dots(_AT_ONCE, words) for words in ("", *WORDS))


def _dots(
    c: Array, c_at: int, a: Array, a_at: int, size: int, b: Array, b_at: int, step: int, depth: int,
    brain: bool,
) -> None:  # fmt: skip
    """Multiply four vectors by so many rows as `_columns` says, the first `depth` of elements."""
    raise NotImplementedError("compiled code only")


@by_type(_dots)
def _dots_by_type(
    c: Any, c_at: Any, a: Any, a_at: Any, size: Any, b: Any, b_at: Any, step: Any, depth: Any,
    brain: Any,
) -> Callable[..., Any]:  # fmt: skip
    if b.dtype != types.uint16:
        return lambda c, c_at, a, a_at, size, b, b_at, step, depth, brain: _of_floats(
            c, c_at, _ROWS, a, a_at, size, b, b_at, step, depth
        )

    def of_words(
        c: Array, c_at: int, a: Array, a_at: int, size: int, b: Array, b_at: int, step: int,
        depth: int, brain: bool,
    ) -> None:  # fmt: skip
        if brain:
            _of_brains(c, c_at, _ROWS, a, a_at, size, b, b_at, step, depth)
        else:
            _of_halves(c, c_at, _ROWS, a, a_at, size, b, b_at, step, depth)

    def of_brains(
        c: Array, c_at: int, a: Array, a_at: int, size: int, b: Array, b_at: int, step: int,
        depth: int, brain: bool,
    ) -> None:  # fmt: skip
        _of_brains(c, c_at, _ROWS, a, a_at, size, b, b_at, step, depth)

    return of_words if converts_halves() else of_brains


def _columns(held: Array, b: Array, brain: bool) -> int:
    """Return the rows of B that `_dots` multiplies at once, zero if it does not take them."""
    raise NotImplementedError("compiled code only")


@by_type(_columns)
def _columns_by_type(held: Any, b: Any, brain: Any) -> Callable[..., Any]:
    if b.dtype == types.uint16 and not converts_halves():
        return lambda held, b, brain: max(1, lanes_of(held) // _AT_ONCE) if brain else 0
    return lambda held, b, brain: max(1, lanes_of(held) // _AT_ONCE)


def _by_fours(
    vector: Array, matrix: Array, at: int, step: int, first: int, last: int, values: Array
) -> int:
    """Multiply rows of floats by one vector, four at a time; return the first that is left."""
    raise NotImplementedError("compiled code only")


@by_type(_by_fours)
def _by_fours_by_type(
    vector: Any, matrix: Any, at: Any, step: Any, first: Any, last: Any, values: Any
) -> Callable[..., Any]:
    if matrix.dtype == types.uint16:  # which take longer to widen than to read
        return lambda vector, matrix, at, step, first, last, values: first

    def by_fours(
        vector: Array, matrix: Array, at: int, step: int, first: int, last: int, values: Array
    ) -> int:
        r = first
        while r + 4 <= last:
            i = r - first
            values[i], values[i + 1], values[i + 2], values[i + 3] = sums_of_products(
                vector, matrix, at + r * step, step
            )
            r += 4
        return r

    return by_fours


@kernel
def finish(
    row: Array, alpha: float, beta: float, added: Array, out: Array, more: Array, brain: bool
) -> None:
    """Put ``alpha * row + beta * added`` into `out`; `row` and `more` hold what is on the way."""
    for j in range(row.size):
        row[j] *= number(alpha, row[j])
    if beta != 0.0:
        other = fetch(added, more[: row.size], brain)
        for j in range(row.size):
            row[j] += number(beta, row[j]) * other[j]
    put(row, out, brain)


@kernel
def _products(
    x: Array,
    matrix: Array,
    step: int,
    places: Array,
    shape: tuple[int, int, int],
    alpha: float,
    beta: float,
    added: Array,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    vectors, size, rows = shape
    row = scratch(x, size)
    lanes, columns = lanes_of(row), _columns(row, matrix, brain)
    together = 0  # vectors that are multiplied by tiles, with some of zeros
    if vectors > 1 and columns and size >= lanes:
        together = -(-vectors // _AT_ONCE) * _AT_ONCE
    columns = max(1, columns)
    held = max(vectors, together)
    vector, values, others = scratch(x, held * size), scratch(x, held * _ROWS), scratch(x, _ROWS)
    vector[vectors * size :] = 0
    sums = np.empty(held * _ROWS)
    blocks, known = -(-rows // _ROWS), -1
    for task in range(start, stop):
        pair, block = task // blocks, task % blocks
        if pair != known:
            for t in range(vectors):
                at = places[pair, 0] + t * size
                vector[t * size : (t + 1) * size] = fetch(x[at : at + size], row, brain)
            known = pair
        first, last = block * _ROWS, min((block + 1) * _ROWS, rows)
        tiled = first + (last - first) // columns * columns if together else first
        begin = 0
        while begin < size:
            end = begin + DEEP if size - begin >= 2 * DEEP else size
            whole = (end - begin) // lanes * lanes
            at = places[pair, 1] + first * step + begin
            for r in range(first, tiled, columns):
                for t in range(0, together, _AT_ONCE):
                    place = t * _ROWS + r - first
                    _dots(
                        values, place, vector, t * size + begin, size, matrix, at, step, whole,
                        brain,
                    )  # fmt: skip
                    if whole < end - begin:
                        for i in range(_AT_ONCE):
                            left = vector[(t + i) * size + begin + whole : (t + i) * size + end]
                            for j in range(columns):
                                line = matrix[at + j * step + whole : at + j * step + end - begin]
                                more = sum_of_products_in_place(left, line, brain)
                                values[place + i * _ROWS + j] += more
                at += columns * step
            done = tiled
            if vectors == 1:
                at = places[pair, 1] + begin
                done = _by_fours(vector[begin:end], matrix, at, step, first, last, values)
            for r in range(done, last):
                at = places[pair, 1] + r * step
                for t in range(vectors):
                    left = vector[t * size + begin : t * size + end]
                    found = sum_of_products_in_place(left, matrix[at + begin : at + end], brain)
                    values[t * _ROWS + r - first] = found
            if end - begin < size:
                for j in range(values.size):
                    sums[j] = values[j] if begin == 0 else sums[j] + values[j]
                    values[j] = sums[j]
            begin = end
        for t in range(vectors):
            some = values[t * _ROWS : t * _ROWS + last - first]
            at = places[pair, 2] + t * rows + first
            extra = added[at : at + some.size] if beta != 0.0 else added[:0]
            finish(some, alpha, beta, extra, out[at : at + some.size], others, brain)


def products(
    x: Array,
    matrix: Array,
    step: int,
    places: Array,
    shape: tuple[int, int, int],
    alpha: float,
    beta: float,
    added: Array,
    brain: bool,
    out: Array,
) -> None:
    """Put ``alpha * x @ matrix.T + beta * added`` into `out`, for each pair of them.

    Parameters
    ----------
    x : array
        Flat, the vectors of a pair one after the other, of float32 or float64, or of uint16: the
        bits of float16, or of bfloat16 if `brain`. So are all arrays.
    matrix : array
        Flat; elements of a row lie side by side.
    step : int
        Elements from the beginning of one row to that of the next.
    places : array of int64 (pairs, 3)
        Where the vectors, the matrix and the results of a pair begin.
    shape : (vectors, size, rows)
        Of a pair; none of them zero.
    added : array
        Like `out`; not read with a `beta` of zero.
    """
    vectors, size, rows = shape
    blocks = len(places) * -(-rows // _ROWS)
    work = len(places) * (1 + vectors) * rows * size // 4
    launch(
        _products, (x, matrix, step, places, shape, alpha, beta, added, brain, out), blocks, work
    )
