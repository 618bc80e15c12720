"""Products of a few vectors with a matrix of 16-bit floats, of which a row is widened at a time.

Libraries widen the whole matrix first, and write and read it once more in twice as many bytes.
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
    sum_of_products_of_words,
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
        fetch(x[t], vector[t * size : (t + 1) * size], brain)
    for block in range(start, stop):
        first, last = block * _ROWS, min((block + 1) * _ROWS, len(matrix))
        for r in range(first, last):
            if vectors > _AT_ONCE:
                fetch(matrix[r], row, brain)
            for t in range(vectors):
                left = vector[t * size : (t + 1) * size]
                if vectors > _AT_ONCE:
                    found = sum_of_products(left, row)
                else:
                    found = sum_of_products_of_words(left, matrix[r], brain)
                values[t * _ROWS + r - first] = alpha * found
        for t in range(vectors):
            some = values[t * _ROWS : t * _ROWS + last - first]
            if beta != 0.0:
                fetch(added[t, first:last], more[: last - first], brain)
                for j in range(some.size):
                    some[j] += beta * more[j]
            put(some, out[t, first:last], brain)


def products(
    x: Array, matrix: Array, alpha: float, beta: float, added: Array, brain: bool, out: Array
) -> None:
    """Put ``alpha * x @ matrix.T + beta * added`` into `out (vectors, rows)`.

    Parameters
    ----------
    x : array of uint16 (vectors, size)
        The bits of float16, or of bfloat16 if `brain`, as of all arrays.
    matrix : array of uint16 (rows, size)
    alpha, beta : float
    added : array of uint16 (vectors, rows)
        Not read with a `beta` of zero.
    """
    blocks = -(-len(matrix) // _ROWS)
    work = (1 + len(x)) * matrix.size // 4
    launch(_products, (x, matrix, alpha, beta, added, brain, out), blocks, work)
