"""Decompositions of square matrices by LAPACK in one thread.

A decomposition is many short steps, and threads of BLAS share each of them: for one of a few
hundred rows they wake, or wait for each other, more than they work. Cholesky's of 200 x 200 takes
0.13 ms in one thread, and in two of two processors 0.45; after 10 ms of sleep 0.3 and 5.8.

Only those are here that are hardly slower in one thread even where BLAS's other threads are kept
awake, which inverses, vectors of eigenvalues and singular vectors are; and singular values gain
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._blas import can_hold, single
from corepy.backends.numba import _tall
from corepy.backends.numba._glue import Operation, numpys, operation

Array = npt.NDArray[Any]

#: Rows from which BLAS was seen to use several threads, and up to which one is enough.
_LEAST: Final = 96
_LEAST_OF_CHOLESKY: Final = 128
WIDEST: Final = 400


def _is_small(x: Array) -> bool:
    """Say whether one thread is enough for a matrix."""
    square = x.ndim == 2 and x.shape[0] == x.shape[1]
    return square and x.shape[0] <= WIDEST and x.dtype.kind == "f" and can_hold()


def _of_one(name: str) -> Callable[[Array], Any]:
    function = numpys(name)

    def own(x: Array, /) -> Any:
        if not _is_small(x):
            return None
        with single():
            return function(x)

    return own


def _cholesky(x: Array, /, *, upper: bool) -> Array | None:
    if not _is_small(x):
        return None
    with single():
        found: Array = numpys("linalg.cholesky")(x, upper=upper)
    return found


def _qr(x: Array, /, *, mode: str) -> Any:
    if not _is_small(x):
        return _tall.qr(x, mode=mode)
    with single():
        return numpys("linalg.qr")(x, mode=mode)


def _solve(x1: Array, x2: Array, /) -> Array | None:
    if not _is_small(x1) or x2.ndim > 2 or x2.size > x1.size or x2.dtype != x1.dtype:
        return None
    with single():
        return np.linalg.solve(x1, x2)


OPERATIONS: Final[dict[str, Operation]] = {
    "linalg.cholesky": operation("linalg.cholesky", _LEAST_OF_CHOLESKY**2)(_cholesky),
    "linalg.det": operation("linalg.det", _LEAST**2)(_of_one("linalg.det")),
    "linalg.eigvalsh": operation("linalg.eigvalsh", _LEAST**2)(_of_one("linalg.eigvalsh")),
    "linalg.qr": operation("linalg.qr", _LEAST**2)(_qr),
    "linalg.solve": operation("linalg.solve", _LEAST**2)(_solve),
}
