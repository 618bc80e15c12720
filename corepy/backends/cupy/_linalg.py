"""Linear algebra."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import array_api_compat.cupy as compat
import cupy
import cupyx
import numpy as np

from corepy.backends._scaling import powers
from corepy.backends.cupy._devices import KIND

Array = Any
Function = Callable[..., Any]


def solvable(function: Function, failure: str) -> Function:
    """Raise NumPy's error for singular matrices, where CuPy by default fills results with NaN.

    CuPy's own words are the number that the routine of cuSOLVER has returned.

    https://docs.cupy.dev/en/stable/user_guide/difference.html#linear-algebra
    """

    def solve(*args: Any, **params: Any) -> Any:
        try:
            with cupyx.errstate(linalg="raise"):
                return function(*args, **params)
        except np.linalg.LinAlgError as error:
            if "devInfo" not in str(error):
                raise
            raise np.linalg.LinAlgError(failure) from error

    return solve


#: In NumPy's words.
FAILURES: Final = {
    "cholesky": "Matrix is not positive definite",
    "eigh": "Eigenvalues did not converge",
    "eigvalsh": "Eigenvalues did not converge",
    "inv": "Singular matrix",
    "matrix_norm": "SVD did not converge",
    "matrix_rank": "SVD did not converge",
    "pinv": "SVD did not converge",
    "svd": "SVD did not converge",
    "svdvals": "SVD did not converge",
}


def solve(x1: Array, x2: Array) -> Array:
    # CuPy wants stacks of one shape, and takes a stack of vectors where the standard has matrices.
    right = x2[:, None] if x2.ndim == 1 else x2
    stack = np.broadcast_shapes(x1.shape[:-2], right.shape[:-2])
    if 0 in right.shape[-2:] or 0 in stack:  # CuPy divides by the number of columns
        return cupy.empty(stack + (right.shape[-2:] if x2.ndim > 1 else x2.shape), x1.dtype)
    left = cupy.broadcast_to(x1, stack + x1.shape[-2:])
    found = cupy.linalg.solve(left, cupy.broadcast_to(right, stack + right.shape[-2:]))
    return found[..., 0] if x2.ndim == 1 else found


def matrix_power(x: Array, n: int, /) -> Array:
    # Of CuPy, as of NumPy, the first power is the operand itself.
    return x.copy() if n == 1 else compat.linalg.matrix_power(x, n)


def qr(x: Array, *, mode: str) -> Any:
    if 0 in x.shape:
        return compat.linalg.qr(x, mode=mode)
    down, up = powers(cupy, x)
    q, r = compat.linalg.qr(x * down, mode=mode)
    return q, r * up


GENERAL_EIGENVALUES: Final = ("linalg.eig", "linalg.eigvals")


@cache
def has_general_eigenvalues() -> bool:
    """Say whether there are any: since CuPy 14, in cuSOLVER of CUDA 12.6, and not in ROCm."""
    from cupyx import cusolver

    there = hasattr(cupy.linalg, "eig") and KIND == "cuda"
    return there and bool(cusolver.check_availability("geev"))


def eig(x: Array) -> tuple[Array, Array]:
    values, vectors = cupy.linalg.eig(x)
    return _complex(values), _complex(vectors)


def eigvals(x: Array) -> Array:
    return _complex(cupy.linalg.eigvals(x))


def _complex(x: Array) -> Array:
    return x.astype(np.result_type(x.dtype, np.complex64), copy=False)
