"""Linear algebra. Products run chunk by chunk; a decomposition sees each matrix whole.

Dask's own ``solve``, ``inv`` and ``cholesky`` work on square chunks and pivot within one chunk
only, which fails for matrices that are not singular; those of NumPy run in one task a matrix.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.array.core import elemwise

from corepy._errors import listing
from corepy.backends.dask._blocks import (
    Array,
    Named,
    is_known,
    need_equal,
    need_sizes,
    numpy_operation,
    stacked,
    whole,
)


def matmul(x1: Array, x2: Array) -> Array:
    need_equal((x1, -1), (x2, -min(x2.ndim, 2)))
    for axis in range(-min(x1.ndim, x2.ndim), -2):
        need_equal((x1, axis), (x2, axis), stretch=True)
    # Dask adds the products of chunks up in the default integer dtype.
    return da.matmul(x1, x2).astype(np.result_type(x1, x2))


def tensordot(x1: Array, x2: Array, *, axes: Any) -> Array:
    pairs = zip(range(-axes, 0), range(axes)) if isinstance(axes, int) else zip(*axes)
    for first, second in pairs:
        need_equal((x1, first), (x2, second))
    return da.tensordot(x1, x2, axes=axes).astype(np.result_type(x1, x2))


def vecdot(x1: Array, x2: Array, *, axis: int) -> Array:
    for place in range(-min(x1.ndim, x2.ndim), 0):
        need_equal((x1, place), (x2, place), stretch=place != axis)
    dtype = np.result_type(x1, x2)
    products = elemwise(Named("vecdot", partial(_products, axis)), x1, x2, dtype=dtype)
    return da.sum(products, axis=axis, dtype=dtype)


def _products(axis: int, x1: Any, x2: Any) -> Any:
    sizes = x1.shape[axis], x2.shape[axis]
    if sizes[0] != sizes[1]:  # of which NumPy would stretch one
        raise ValueError(f"sizes along the axis are {listing(sizes)}; expected equal ones")
    return np.conj(x1) * x2


def trace(x: Array, *, offset: int, dtype: Any) -> Array:
    return da.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def diagonal(x: Array, *, offset: int) -> Array:
    m, n = x.shape[-2:]
    if min(m + min(offset, 0), n - max(offset, 0)) <= 0:
        need_sizes(x, range(x.ndim))  # of nothing Dask fails when it is computed
    return da.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def cross(x1: Array, x2: Array, *, axis: int) -> Array:
    vectors = (da.moveaxis(x, axis, -1) for x in (x1, x2))
    dtype = np.result_type(x1, x2)
    return da.moveaxis(
        stacked(Named("linalg.cross", np.cross), "(n),(n)->(n)", *vectors, dtypes=dtype), -1, axis
    )


def vector_norm(x: Array, *, axis: Any, keepdims: bool, ord: float) -> Array:
    # Dask's takes one axis or two, and two mean a matrix.
    size = abs(x)
    kwargs = {"axis": axis, "keepdims": keepdims}
    if ord == math.inf:
        greatest = partial(np.max, initial=0)  # of no elements too
        return da.reduction(size, greatest, greatest, axis, keepdims, size.dtype)
    if ord == -math.inf:
        least = partial(np.min, initial=math.inf)
        return da.reduction(size, least, least, axis, keepdims, size.dtype)
    if ord == 0:
        return da.sum(size != 0, dtype=size.dtype, **kwargs)
    if ord == 1:
        return da.sum(size, **kwargs)
    if ord == 2:
        return da.sqrt(da.sum(size * size, **kwargs))
    return da.sum(size**ord, **kwargs) ** (1 / ord)


def matrix_norm(x: Array, *, keepdims: bool, ord: Any) -> Array:
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims, ord=2)
    norm = numpy_operation("linalg.matrix_norm")
    norms = stacked(norm, "(i,j)->()", x, dtypes=x.real.dtype, keepdims=False, ord=ord)
    return norms[..., None, None] if keepdims else norms


def cholesky(x: Array, *, upper: bool) -> Array:
    factor = numpy_operation("linalg.cholesky")
    return stacked(factor, "(i,i)->(i,i)", x, dtypes=x.dtype, upper=upper)


def inv(x: Array) -> Array:
    return stacked(numpy_operation("linalg.inv"), "(i,i)->(i,i)", x, dtypes=x.dtype)


def solve(x1: Array, x2: Array) -> Array:
    right = x2[:, None] if x2.ndim == 1 else x2
    function = Named("linalg.solve", np.linalg.solve)
    found = stacked(function, "(i,i),(i,j)->(i,j)", x1, right, dtypes=np.result_type(x1, x2))
    return found[..., 0] if x2.ndim == 1 else found


def qr(x: Array, *, mode: str) -> tuple[Array, ...]:
    m, n = x.shape[-2:]
    if mode == "reduced" and _in_chunks(x) and not m < n:
        return tuple(da.linalg.qr(whole(x, (1,))))
    k = min(m, n) if mode == "reduced" else m
    factor = numpy_operation("linalg.qr")
    dtypes = [x.dtype] * 2
    return tuple(stacked(factor, "(i,j)->(i,k),(k,j)", x, dtypes=dtypes, sizes={"k": k}, mode=mode))


def svd(x: Array, *, full_matrices: bool) -> tuple[Array, ...]:
    m, n = x.shape[-2:]
    if not full_matrices and _in_chunks(x):
        if m < n:
            v, s, u = svd(x.T, full_matrices=False)
            return u.T, s, v.T
        # The decomposition of strips, as Dask has it, never holds more than a chunk of them.
        if x.dtype.kind != "c":
            return tuple(da.linalg.svd(whole(x, (1,)), coerce_signs=False))
        q, r = da.linalg.qr(whole(x, (1,)))  # Dask's svd warns that it drops imaginary parts
        u, s, vh = svd(r.rechunk(-1), full_matrices=False)
        return q @ u, s, vh
    k = min(m, n)
    sizes = {"k": k} | ({"p": m, "q": n} if full_matrices else {"p": k, "q": k})
    return tuple(
        stacked(
            numpy_operation("linalg.svd"),
            "(i,j)->(i,p),(k),(q,j)",
            x,
            dtypes=[x.dtype, x.real.dtype, x.dtype],
            sizes=sizes,
            full_matrices=full_matrices,
        )
    )


def svdvals(x: Array) -> Array:
    return svd(x, full_matrices=False)[1]


def _in_chunks(x: Array) -> bool:
    """Say whether an array is one matrix of several chunks, or of unknown size."""
    return x.ndim == 2 and not (x.npartitions == 1 and is_known(*x.shape))
