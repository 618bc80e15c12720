"""Compiled products of integer matrices."""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt

from corepy.backends.numba._compiled import kernel

Array = npt.NDArray[Any]

#: A tile of a matrix: its rows stay in the second-level cache.
_TILE_ROWS: Final = 128
_TILE_COLUMNS: Final = 256
#: Rows of the result that a task works on.
STRIP: Final = 16


@kernel()
def integer_products(x1: Array, x2: Array, out: Array, start: int, stop: int) -> None:
    """Multiply stacks of integer matrices; overflow wraps around.

    ``x1 (1 or stack, n, k)`` and ``x2 (1 or stack, k, m)`` into ``out (stack, n, m)``, by tiles
    of `x2` that stay in the cache. A task is a strip of rows of one matrix.
    """
    _, rows, columns = out.shape
    strips = -(-rows // STRIP)
    length = x1.shape[2]
    for task in range(start, stop):
        s, strip = task // strips, task % strips
        left, right = x1[min(s, x1.shape[0] - 1)], x2[min(s, x2.shape[0] - 1)]
        upper, lower = strip * STRIP, min((strip + 1) * STRIP, rows)
        out[s, upper:lower] = 0
        for top in range(0, length, _TILE_ROWS):
            for first in range(0, columns, _TILE_COLUMNS):
                last = min(first + _TILE_COLUMNS, columns)
                for i in range(upper, lower):
                    into = out[s, i, first:last]
                    for k in range(top, min(top + _TILE_ROWS, length)):
                        factor = left[i, k]
                        row = right[k, first:last]
                        for j in range(row.size):
                            into[j] += factor * row[j]
