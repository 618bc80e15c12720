"""Ways to run a NumPy operation on the chunks of Dask arrays, each as lazy as its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import dask
import dask.array as da
import numpy as np
from dask.array.core import elemwise, unify_chunks

from corepy.backends._numpy import NumPyBackend

#: A ``dask.array.Array``.
Array: TypeAlias = Any
#: Shape of a Dask array: NaN stands for the sizes that are not known.
Shape: TypeAlias = "tuple[float, ...]"

NUMPY = NumPyBackend()


def numpy_operation(name: str) -> Callable[..., Any]:
    """Return the NumPy backend's callable for an operation that it is known to have."""
    found = NUMPY.operation(name)
    assert found is not None, name
    return found


def elementwise(name: str) -> Callable[..., Array]:
    """Make an elementwise operation, which runs on chunks that are aligned and broadcast."""
    function = numpy_operation(name)

    def run(*operands: Any) -> Array:
        dtypes = tuple(getattr(operand, "dtype", None) for operand in operands)
        return elemwise(function, *operands, dtype=_result_dtype(function, dtypes))

    return run


@lru_cache(maxsize=4096)
def _result_dtype(function: Callable[..., Any], dtypes: tuple[Any, ...]) -> Any:
    """Return the dtype of an elementwise result. Dask would try memory that is not set."""
    with np.errstate(all="ignore"):
        return function(*(d if d is None else np.ones((), d) for d in dtypes)).dtype


def along(function: Callable[..., Any], x: Array, axes: Sequence[int], **params: Any) -> Array:
    """Run a function that keeps the shape on chunks that are whole along some axes.

    The chunks along the other axes are made smaller for it, so that memory is not exceeded.
    """
    return da.map_blocks(function, whole(x, axes), dtype=params.pop("into", x.dtype), **params)


def whole(x: Array, axes: Sequence[int]) -> Array:
    """Return an array in chunks that are not split along some axes."""
    if all(x.numblocks[axis] == 1 for axis in axes):
        return x
    if not is_known(*x.shape):
        return x.rechunk(dict.fromkeys(axes, -1))
    rest = automatic(x.shape)
    return x.rechunk({axis: -1 if axis in axes else rest for axis in range(x.ndim)})


def flat(x: Array) -> Array:
    """Return an array with one dimension, in C order; the number of rows may be unknown."""
    if x.ndim < 2 or is_known(*x.shape):
        return x.ravel()
    rows = whole(x, tuple(range(1, x.ndim)))
    chunks = ((float("nan"),) * rows.numblocks[0],)
    return rows.map_blocks(np.ravel, drop_axis=tuple(range(1, x.ndim)), chunks=chunks)


def automatic(shape: Shape) -> Any:
    """Return the wish for Dask's own choice of chunks, which divides by the sizes."""
    return -1 if 0 in shape else "auto"


def beside(
    function: Callable[..., Any], x: Array, *others: Array, dtype: Any, **params: Any
) -> Array:
    """Run a function that keeps the shape of `x` on its chunks, with all of some vectors."""
    axes = tuple(range(x.ndim))
    vectors = [item for i, other in enumerate(others) for item in (other, (x.ndim + i,))]
    return da.blockwise(function, axes, x, axes, *vectors, concatenate=True, dtype=dtype, **params)


def at_once(
    function: Callable[..., Any], *arrays: Any, like: Sequence[tuple[Shape, Any]]
) -> tuple[Array, ...]:
    """Run a function on whole arrays in one task, on whichever worker it comes to.

    Parameters
    ----------
    function : callable
        Of the same number of NumPy arrays, returning as many as `like` has entries.
    *arrays : Dask array or plain value
    like : sequence of (shape, dtype)
        What it returns.
    """
    task = dask.delayed(function, nout=len(like), pure=True)(*arrays)
    parts = task if len(like) > 1 else (task,)
    return tuple(
        da.from_delayed(part, shape, dtype)
        for part, (shape, dtype) in zip(parts, like, strict=True)
    )


def stacked(
    function: Callable[..., Any],
    signature: str,
    *stacks: Array,
    dtypes: Any,
    sizes: dict[str, int] | None = None,
    **params: Any,
) -> Any:
    """Run a function on stacks of vectors or matrices, each of which one task sees whole.

    Parameters
    ----------
    function : callable
    signature : str
        As `dask.array.apply_gufunc` takes it.
    *stacks : Dask array
        The vectors or matrices are the last axes.
    dtypes : numpy.dtype or list of them
        Of the result, or of each of the results.
    sizes : dict
        Sizes of the core dimensions that only results have.
    **params
        Keyword arguments of the function.
    """
    # Not by `allow_rechunk`: it divides by the sizes, some of which may be 0.
    cores = signature.partition("->")[0].split("),(")
    ready = [
        whole(x, tuple(range(x.ndim - core.count(",") - 1, x.ndim)))
        for x, core in zip(stacks, cores, strict=True)
    ]
    if len(ready) > 1:
        labelled = [
            item
            for i, (x, core) in enumerate(zip(ready, cores, strict=True))
            for item in (x, _labels(x.ndim, core.count(",") + 1, i))
        ]
        _, ready = unify_chunks(*labelled, warn=False)
    several = isinstance(dtypes, list)
    # Given the dtypes instead, Dask tries the function, and converts complex results to real ones.
    metas = tuple(np.empty(0, dtype) for dtype in (dtypes if several else [dtypes]))
    meta = metas if several else metas[0]
    return da.apply_gufunc(function, signature, *ready, meta=meta, output_sizes=sizes, **params)


def _labels(ndim: int, cores: int, operand: int) -> tuple[Any, ...]:
    """Label the axes of a stack: loop axes from the last one, core axes as no other operand's."""
    loops = ndim - cores
    return (*range(-loops, 0), *((operand, core) for core in range(cores)))


def nothing(shape: Shape, dtype: Any) -> Array:
    """Return an array without elements, which needs no computing and breaks some of Dask's."""
    return da.zeros(shape, dtype=dtype, chunks=-1)


def is_known(*sizes: float) -> bool:
    """Say whether sizes are known; Dask has NaN for those that are not."""
    return not any(math.isnan(size) for size in sizes)
