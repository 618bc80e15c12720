"""Products of a few vectors with a matrix, each row of which is read once, for all of them.

BLAS packs a matrix first, for which a few vectors are no reward; and of 16-bit floats libraries
widen all of it, and write and read it once more in twice as many bytes.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import (
    fetch,
    put,
    scratch,
    sum_of_products,
    sum_of_products_in_place,
)

Array = npt.NDArray[Any]

#: Rows whose products are rounded together.
_ROWS = 64
#: Vectors up to which words are widened once more for each, for that a row is not stored.
_AT_ONCE = 2


@kernel
def _products(
    x: Array,
    matrix: Array,
    alpha: float,
    beta: float,
    added: Array,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    vectors, size = x.shape
    vector, row = scratch(x, vectors * size), scratch(x, size)
    values, more = scratch(x, vectors * _ROWS), scratch(x, _ROWS)
    for t in range(vectors):
        vector[t * size : (t + 1) * size] = fetch(x[t], row, brain)
    for block in range(start, stop):
        first, last = block * _ROWS, min((block + 1) * _ROWS, len(matrix))
        for r in range(first, last):
            if vectors > _AT_ONCE:
                wide = fetch(matrix[r], row, brain)
                for t in range(vectors):
                    found = sum_of_products(vector[t * size : (t + 1) * size], wide)
                    values[t * _ROWS + r - first] = alpha * found
            else:
                for t in range(vectors):
                    left = vector[t * size : (t + 1) * size]
                    found = sum_of_products_in_place(left, matrix[r], brain)
                    values[t * _ROWS + r - first] = alpha * found
        for t in range(vectors):
            some = values[t * _ROWS : t * _ROWS + last - first]
            if beta != 0.0:
                other = fetch(added[t, first:last], more[: last - first], brain)
                for j in range(some.size):
                    some[j] += beta * other[j]
            put(some, out[t, first:last], brain)


def products(
    x: Array, matrix: Array, alpha: float, beta: float, added: Array, brain: bool, out: Array
) -> None:
    """Put ``alpha * x @ matrix.T + beta * added`` into `out (vectors, rows)`.

    Parameters
    ----------
    x : array (vectors, size)
        Of float32 or float64, or of uint16: the bits of float16, or of bfloat16 if `brain`. So are
        all arrays.
    matrix : array (rows, size)
    alpha, beta : float
    added : array (vectors, rows)
        Not read with a `beta` of zero.
    """
    blocks = -(-len(matrix) // _ROWS)
    work = (1 + len(x)) * matrix.size // 4
    launch(_products, (x, matrix, alpha, beta, added, brain, out), blocks, work)
