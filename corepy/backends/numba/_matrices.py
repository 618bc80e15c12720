"""Products of integer matrices; those of floats are BLAS's."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.backends.numba import _matrix_loops as loops
from corepy.backends.numba._compiled import launch
from corepy.backends.numba._glue import Operation, operation, size_from

Array = npt.NDArray[Any]

#: Multiplications from which a loop pays, and the elements of the least of matrices with so many.
_PRODUCTS: Final = 32_768
_LEAST: Final = 1024


def _product(x1: Array, x2: Array, /) -> Array | None:
    if x1.dtype.kind not in "iu" or x1.dtype != x2.dtype or min(x1.ndim, x2.ndim) < 2:
        return None
    stack = x1.shape[:-2] or x2.shape[:-2]
    shape = (*stack, x1.shape[-2], x2.shape[-1])
    plain = all(x.shape[:-2] in ((), stack) for x in (x1, x2)) and x1.shape[-1] == x2.shape[-2]
    work = math.prod(shape) * x1.shape[-1]
    if not plain or work < size_from(_PRODUCTS):
        return None
    out = np.empty(shape, x1.dtype)
    into = _stacked(out)
    tasks = len(into) * -(-into.shape[1] // loops.STRIP)
    launch(loops.integer_products, (_stacked(x1), _stacked(x2), into), tasks, work // 2)
    return out


def _stacked(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


OPERATIONS: Final[dict[str, Operation]] = {
    name: operation(name, _LEAST)(_product) for name in ("matmul", "linalg.matmul")
}
