"""Compiled products of integer matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._loops._compile import compiler
from corepy.backends.numba._tiles import HEIGHT, WIDTH, multiply

Array = npt.NDArray[Any]

#: Rows of the right matrix that are multiplied together: their panel stays in the first cache.
_DEPTH: Final = 256
#: Rows of the result that a task works on.
STRIP: Final = 64

kernel = compiler((Path(__file__).with_name("_tiles.py"),))


@kernel()
def integer_products(x1: Array, x2: Array, out: Array, start: int, stop: int) -> None:
    """Multiply stacks of integer matrices; overflow wraps around.

    ``x1 (1 or stack, n, k)`` and ``x2 (1 or stack, k, m)`` into ``out (stack, n, m)``, tile by
    tile. A task is a strip of rows of one matrix.
    """
    _, rows, columns = out.shape
    strips = -(-rows // STRIP)
    length = x1.shape[2]
    panel, tile = np.empty((_DEPTH, WIDTH), out.dtype), np.empty((HEIGHT, WIDTH), out.dtype)
    for task in range(start, stop):
        s, strip = task // strips, task % strips
        left, right = x1[min(s, x1.shape[0] - 1)], x2[min(s, x2.shape[0] - 1)]
        upper, lower = strip * STRIP, min((strip + 1) * STRIP, rows)
        for top in range(0, max(length, 1), _DEPTH):
            depth = min(_DEPTH, length - top)
            for first in range(0, columns, WIDTH):
                wide = min(WIDTH, columns - first)
                for k in range(depth):
                    for j in range(wide):
                        panel[k, j] = right[top + k, first + j]
                    panel[k, wide:] = 0
                for i in range(upper, lower, HEIGHT):
                    last = lower - 1  # stands in for rows beyond it
                    which = (i, min(i + 1, last), min(i + 2, last), min(i + 3, last))
                    multiply(left, which, top, panel, depth, tile)
                    for row in range(min(HEIGHT, lower - i)):
                        into = out[s, i + row, first : first + wide]
                        if top:
                            for j in range(wide):
                                into[j] += tile[row, j]
                        else:
                            for j in range(wide):
                                into[j] = tile[row, j]
