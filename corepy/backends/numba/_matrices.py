"""Products of integer matrices, and small ones of long matrices of floats.

Many integers are multiplied as floats, by BLAS, where no sum is too great to be exact. The small
products of long matrices are BLAS's, a block of the long side at a time in threads of ours. Threads
of BLAS wait for each other in a loop many times in such a product: where another process has a
core, the 10 x 32 of 100,000 rows, which takes 3 ms, was seen to take them 2.6 s.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._blas import can_hold, single
from corepy.backends._extents import INNER
from corepy.backends.numba import _matrix_loops as loops
from corepy.backends.numba._compiled import launch
from corepy.backends.numba._glue import Operation, operation, size_from

Array = npt.NDArray[Any]

#: Multiplications from which a loop pays, and the elements of the least of matrices with so many.
_PRODUCTS: Final = 32_768
_LEAST: Final = 1024
#: Multiplications from which BLAS multiplies integers as floats, where these are exact.
_LARGE: Final = 1 << 28
#: Elements of the larger matrix from which blocks pay, and what one of them has.
_LONG: Final = 1 << 18
_BLOCK: Final = 1 << 18
#: Rows that BLAS is given at least of a matrix of integers, and elements of them.
_STRIP: Final = 128
_PART: Final = 1 << 15
#: How many neighbours in a row or column an element of the result has at the most where it adds up
#: `INNER` times as many products.
WIDEST: Final = 256


def _product(x1: Array, x2: Array, /) -> Array | None:
    if x1.dtype != x2.dtype or min(x1.ndim, x2.ndim) < 2:
        return None
    if x1.dtype.kind == "f":
        return _product_of_floats(x1, x2)
    return _product_of_integers(x1, x2) if x1.dtype.kind in "iu" else None


def adds_up_much(x1: Array, x2: Array) -> bool:
    """Say whether two matrices have a small product of long rows and columns."""
    (rows, inner), columns = x1.shape, x2.shape[1]
    wide = max(rows, columns)
    return bool(min(rows, columns) > 1 and wide <= WIDEST and inner >= INNER * wide)


def _product_of_floats(x1: Array, x2: Array) -> Array | None:
    size = max(x1.size, x2.size)
    if x1.ndim != 2 or x2.ndim != 2 or size < size_from(_LONG) or x1.shape[1] != x2.shape[0]:
        return None
    if not (adds_up_much(x1, x2) and can_hold()):
        return None
    inner, parts = x2.shape[0], max(1, size // _BLOCK)
    edges = [i * inner // parts for i in range(parts + 1)]
    sums = np.empty((parts, x1.shape[0], x2.shape[1]), x1.dtype)

    def multiply(start: int, stop: int) -> None:
        for i in range(start, stop):
            block = slice(edges[i], edges[i + 1])
            np.matmul(x1[:, block], x2[block], out=sums[i])

    with single():
        launch(multiply, (), parts, size * min(sums.shape[1:]) // 4)
    total: Array = sums.sum(axis=0, dtype=np.float64)  # in which many blocks lose nothing
    return total.astype(x1.dtype, copy=False)


def _product_of_integers(x1: Array, x2: Array) -> Array | None:
    stack = x1.shape[:-2] or x2.shape[:-2]
    shape = (*stack, x1.shape[-2], x2.shape[-1])
    plain = all(x.shape[:-2] in ((), stack) for x in (x1, x2)) and x1.shape[-1] == x2.shape[-2]
    work = math.prod(shape) * x1.shape[-1]
    if not plain or work < size_from(_PRODUCTS):
        return None
    out = np.empty(shape, x1.dtype)
    if not stack and work >= size_from(_LARGE) and can_hold() and _sums_are_exact(x1, x2):
        _multiply_as_floats(x1, x2, out)
        return out
    into = _stacked(out)
    tasks = len(into) * -(-into.shape[1] // loops.STRIP)
    launch(loops.integer_products, (_stacked(x1), _stacked(x2), into), tasks, work // 2)
    return out


def _sums_are_exact(x1: Array, x2: Array) -> bool:
    """Say whether float64 holds every sum of products of two matrices of integers."""
    greatest: int = x1.shape[1]
    for x in (x1, x2):
        if not x.size:
            return False
        greatest *= max(int(x.max()), -int(x.min()))
    return greatest <= 2**53


def _multiply_as_floats(x1: Array, x2: Array, out: Array) -> None:
    """Multiply matrices of integers by BLAS, some rows at a time, in threads of ours."""
    factor = x2.astype(np.float64)
    count = max(_STRIP, _PART // max(x1.shape[1], out.shape[1]))

    def multiply(start: int, stop: int) -> None:
        for i in range(start, stop):
            rows = slice(i * count, (i + 1) * count)
            found = x1[rows].astype(np.float64) @ factor
            # Only as integers do they wrap around where they do not fit.
            out[rows] = found.astype(np.int64)

    with single():
        launch(multiply, (), -(-len(out) // count), out.size * len(factor) // 16 + x1.size)


def _contracted(x1: Array, x2: Array, /, *, axes: Any) -> Array | None:
    # All else is NumPy's, which copies what is not two matrices.
    if axes != ((1,), (0,)) or not x1.ndim == x2.ndim == 2:
        return None
    is_of_integers = x1.dtype == x2.dtype and x1.dtype.kind in "iu"
    return _product_of_integers(x1, x2) if is_of_integers else None


def _stacked(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


OPERATIONS: Final[dict[str, Operation]] = {
    **{name: operation(name, _LEAST)(_product) for name in ("matmul", "linalg.matmul")},
    "tensordot": operation("tensordot", _LEAST)(_contracted),
}
