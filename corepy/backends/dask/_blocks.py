"""Ways to run a NumPy operation on the chunks of Dask arrays, each as lazy as its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

import dask
import dask.array as da
import numpy as np
from dask.array.core import broadcast_shapes, elemwise, unify_chunks

from corepy._errors import listing, named
from corepy.backends._numpy import NumPyBackend

#: A ``dask.array.Array``.
Array: TypeAlias = Any
#: Shape of a Dask array: NaN stands for the sizes that are not known.
Shape: TypeAlias = "tuple[float, ...]"

NUMPY = NumPyBackend()


@dataclass(frozen=True)
class Named:
    """A function of chunks. Its errors, raised when these are computed, name the operation."""

    name: str
    function: Callable[..., Any]

    @property
    def __name__(self) -> str:  # which Dask shows beside the progress
        return self.name

    def __call__(self, *chunks: Any, **params: Any) -> Any:
        try:
            return self.function(*chunks, **params)
        except Exception as error:
            found = named(self.name.rpartition(".")[2], error)
            if found is None or found is error:
                raise
            try:
                raise found from error
            finally:
                del found  # whose frames hold the chunks


def numpy_operation(name: str) -> Named:
    """Return the NumPy backend's callable for an operation that it is known to have."""
    found = NUMPY.operation(name)
    assert found is not None, name
    return Named(name, found)


def elementwise(name: str) -> Callable[..., Array]:
    """Make an elementwise operation, which runs on chunks that are aligned and broadcast."""
    plain = numpy_operation(name)

    def run(*operands: Any) -> Array:
        dtypes = tuple(getattr(operand, "dtype", None) for operand in operands)
        shared = _shared_unknowns(operands)
        function = Named(name, partial(_on_equal, plain, shared)) if shared else plain
        return elemwise(function, *operands, dtype=_result_dtype(plain, dtypes))

    return run


def _shared_unknowns(operands: Sequence[Any]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the axes, from the last, whose size several operands do not know, and which do not."""
    lazy = [(i, x) for i, x in enumerate(operands) if isinstance(x, da.Array)]
    if len(lazy) < 2 or is_known(*(n for _, x in lazy for n in x.shape)):
        return ()
    width = max(x.ndim for _, x in lazy)
    found = (
        (axis, tuple(i for i, x in lazy if -axis <= x.ndim and not is_known(x.shape[axis])))
        for axis in range(-width, 0)
    )
    return tuple((axis, those) for axis, those in found if len(those) > 1)


def _on_equal(
    function: Callable[..., Any], shared: Sequence[tuple[int, Sequence[int]]], *chunks: Any
) -> Any:
    # Dask takes sizes that it does not know for equal. NumPy would stretch a chunk of one.
    for axis, those in shared:
        sizes = [chunks[i].shape[axis] for i in those]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"sizes that were not known are {listing(sizes)} in a chunk; expected equal ones: "
                f"x.unwrap().compute_chunk_sizes() makes them known beforehand"
            )
    return function(*chunks)


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
    task = dask.delayed(function, nout=len(like), pure=True)(*map(_whole, arrays))
    parts = task if len(like) > 1 else (task,)
    return tuple(
        da.from_delayed(part, shape, dtype)
        for part, (shape, dtype) in zip(parts, like, strict=True)
    )


def _whole(operand: Any) -> Any:
    """Return an array as the one task that has all of it.

    `dask.delayed` optimizes the graph of each array by itself: what several have in common comes
    out as copies, of which the next call makes copies again.
    """
    if not isinstance(operand, da.Array):
        return operand
    if math.prod(operand.numblocks) != 1:
        if any(map(math.isnan, operand.shape)):
            return operand  # whose blocks nobody can put together before they are computed
        operand = operand.rechunk(-1)
    return operand.to_delayed(optimize_graph=False).item()


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
    cores = [core.count(",") + 1 for core in signature.partition("->")[0].split("),(")]
    ready = [whole(x, range(x.ndim - n, x.ndim)) for x, n in zip(stacks, cores, strict=True)]
    if len(ready) > 1:
        ready = _aligned(ready, cores)
    several = isinstance(dtypes, list)
    # Given the dtypes instead, Dask tries the function, and converts complex results to real ones.
    metas = tuple(np.empty(0, dtype) for dtype in (dtypes if several else [dtypes]))
    meta = metas if several else metas[0]
    return da.apply_gufunc(function, signature, *ready, meta=meta, output_sizes=sizes, **params)


def _aligned(stacks: Sequence[Array], cores: Sequence[int]) -> list[Array]:
    """Give stacks the same chunks along the axes that they have in common, their loops.

    `cores` counts the last axes of each that they do not.
    """
    loops = broadcast_shapes(*(x.shape[: x.ndim - n] for x, n in zip(stacks, cores, strict=True)))
    if 0 in loops:  # which Dask takes for a mistake beside 1
        stacks = [
            da.broadcast_to(x, (*loops, *x.shape[x.ndim - n :]), chunks=-1)
            for x, n in zip(stacks, cores, strict=True)
        ]
    labelled = [
        item
        for i, (x, n) in enumerate(zip(stacks, cores, strict=True))
        for item in (x, (*range(n - x.ndim, 0), *((i, core) for core in range(n))))
    ]
    aligned: list[Array] = unify_chunks(*labelled, warn=False)[1]
    return aligned


def nothing(shape: Shape, dtype: Any) -> Array:
    """Return an array without elements, which needs no computing and breaks some of Dask's."""
    return da.zeros(shape, dtype=dtype, chunks=-1)


def compact(operand: Any) -> Any:
    """Leave out the empty chunks of the Dask arrays in an operand, which may be a tuple of others.

    Masks leave them behind. Dask slices, accumulates and reduces to wrong values where they are.
    """
    if isinstance(operand, (tuple, list)):
        return type(operand)(map(compact, operand))
    if not isinstance(operand, da.Array) or operand.npartitions == 1:
        return operand
    if not any(0 in sizes for sizes in operand.chunks):
        return operand
    if 0 in operand.shape and is_known(*operand.shape):
        return nothing(operand.shape, operand.dtype)
    filled = (tuple(n for n in sizes if n) or (0,) for sizes in operand.chunks)
    return operand.rechunk(tuple(filled))


def need_sizes(x: Array, axes: Iterable[int]) -> None:
    """Refuse sizes along some axes that are not known, so that `settling` computes them.

    For functions of Dask that do not refuse them, and go wrong.
    """
    if not is_known(*(x.shape[axis] for axis in axes)):
        raise NotImplementedError("some of its sizes are not known; expected sizes that are")


def need_filled(x: Array, axes: Iterable[int]) -> None:
    """Refuse axes along which some of several chunks may be empty, likewise."""
    need_sizes(x, (axis for axis in axes if x.numblocks[axis] > 1))


def need_equal(*axes: tuple[Array, int], stretch: bool = False) -> None:
    """Refuse axes of several arrays that are to have one size, where it is not known or differs.

    Dask takes sizes that it does not know for equal chunk by chunk, and NumPy stretches chunks of
    one. Of arrays in one chunk each, NumPy itself sees whether they fit.

    Parameters
    ----------
    *axes : (Dask array, int)
    stretch : bool
        Whether an axis of size one fits every other.
    """
    distinct = {
        (x.name, axis % x.ndim): (x, axis)
        for x, axis in axes
        if not (stretch and x.shape[axis] == 1)
    }.values()
    if len(distinct) > 1 and any(x.numblocks[axis] > 1 for x, axis in distinct):
        for x, axis in distinct:
            need_sizes(x, (axis,))
    sizes = {x.shape[axis] for x, axis in distinct if is_known(x.shape[axis])}
    if len(sizes) > 1:
        raise ValueError(f"sizes along an axis are {listing(sorted(sizes))}; expected equal ones")


def settling(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let an operation go on where it fails for sizes that are not known: compute them first.

    Dask writes them into its array, so that they are computed once.
    """

    def compacted(*operands: Any, **params: Any) -> Any:
        return function(
            *compact(operands), **{name: compact(value) for name, value in params.items()}
        )

    def run(*operands: Any, **params: Any) -> Any:
        try:
            return compacted(*operands, **params)
        except (IndexError, NotImplementedError, TypeError, ValueError):
            unknown = list(_unknown((operands, *params.values())))
            if not unknown:
                raise
            for x in unknown:
                x.compute_chunk_sizes()
        return compacted(*operands, **params)

    return run


def _unknown(operand: Any) -> Iterator[Array]:
    """Yield the arrays of unknown size in an operand, which may be a tuple of others."""
    if isinstance(operand, (tuple, list)):
        for item in operand:
            yield from _unknown(item)
    elif isinstance(operand, da.Array) and not is_known(*operand.shape):
        yield operand


def is_known(*sizes: float) -> bool:
    """Say whether sizes are known; Dask has NaN for those that are not."""
    return not any(math.isnan(size) for size in sizes)
