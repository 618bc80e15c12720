"""Manipulation, searching, sorting, set and statistical functions that Dask lacks or gets wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np

from corepy.backends.dask._blocks import (
    NUMPY,
    Array,
    Named,
    along,
    at_once,
    automatic,
    beside,
    elementwise,
    flat,
    need_equal,
    need_filled,
    need_sizes,
    nothing,
    numpy_operation,
    whole,
)
from corepy.backends.dask._creation import positions

_UNKNOWN = float("nan")
_INDEX = np.dtype(np.int64)


# ---------------------------------------------------------------------------- manipulation


def astype(x: Array, dtype: Any, *, copy: bool = True) -> Array:
    if not isinstance(x, da.Array):  # a scalar beside an array, which is NumPy's
        return x.astype(dtype)
    # Lazy arrays never change, so that none needs to be copied.
    return x if x.dtype == dtype else x.map_blocks(numpy_operation("astype"), dtype, dtype=dtype)


def clip(x: Array, *, min: Any, max: Any) -> Array:
    # Dask's demands both bounds, and compat's known shapes.
    return elementwise("clip")(x, min, max)


def broadcast_to(x: Array, shape: tuple[int | None, ...], /) -> Array:
    # Two sizes that are not known, which Dask sees as unequal, have been found to fit.
    same = len(shape) == x.ndim and all(
        n is None or n == m for n, m in zip(shape, x.shape, strict=True)
    )
    return x if same else da.broadcast_to(x, shape)


def expand_dims(x: Array, *, axis: tuple[int, ...]) -> Array:
    # Dask's reshapes, for which it wants to know the sizes.
    width = x.ndim + len(axis)
    return x[tuple(None if place in axis else slice(None) for place in range(width))]


def concat(arrays: tuple[Array, ...], /, *, axis: int) -> Array:
    others = [place for place in range(arrays[0].ndim) if place != axis]
    for x in arrays:  # which NumPy stretches to each other's sizes when it joins their chunks
        need_sizes(x, others)
    for place in others:
        need_equal(*((x, place) for x in arrays))
    if any(x.shape[place] == 0 for x in arrays for place in others):
        for x in arrays:  # of which Dask leaves out those that it knows to be empty
            need_sizes(x, (axis,))
    return da.concatenate(arrays, axis=axis, allow_unknown_chunksizes=True)


def repeat(x: Array, repeats: Any, *, axis: int | None) -> Array:
    if axis is None:
        x, axis = flat(x), 0
    if isinstance(repeats, int):
        if 0 in x.shape:
            return nothing(
                (*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]), x.dtype
            )
        return da.repeat(x, repeats, axis=axis)
    # The counts are computed at once: without them nobody knows the shape.
    counts = np.broadcast_to(repeats.compute(), x.shape[axis])
    return da.take(x, np.repeat(np.arange(x.shape[axis]), counts), axis=axis)


def reshape(x: Array, shape: tuple[int, ...], *, copy: bool | None) -> Array:
    if 0 in shape:
        return nothing(shape, x.dtype)
    if shape == (-1,):  # left by sizes that are not known
        return flat(x)
    try:
        return x.reshape(shape)
    except NotImplementedError:  # chunks that neither merge nor split evenly do so when flat
        return flat(x).reshape(shape)


def roll(x: Array, shift: Any, *, axis: Any) -> Array:
    if axis is None:
        return reshape(da.roll(flat(x), shift, axis=0), x.shape, copy=None)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axis)  # which Dask demands
    return da.roll(x, shifts, axis=axis)


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    width = max(x.ndim, len(repetitions))
    sizes = (1,) * (width - x.ndim) + x.shape
    times = (1,) * (width - len(repetitions)) + repetitions
    shape = tuple(n * m for n, m in zip(sizes, times, strict=True))
    return nothing(shape, x.dtype) if 0 in shape else da.tile(x, repetitions)


def triangle(*, lower: bool) -> Callable[..., Array]:
    """Make ``tril`` or ``triu``. Dask's casts complex numbers to count rows with them."""

    def run(x: Array, *, k: int) -> Array:
        rows, columns = (positions(n) for n in x.shape[-2:])
        above = columns - rows[:, None] - k
        return da.where(above <= 0 if lower else above >= 0, x, x.dtype.type(0))

    return run


def meshgrid(*arrays: Array, indexing: str) -> tuple[Array, ...]:
    return tuple(da.meshgrid(*arrays, indexing=indexing))


# ---------------------------------------------------------------------------- sorting, searching


def arg_extreme(function: Callable[..., Array]) -> Callable[..., Array]:
    """Make ``argmax`` or ``argmin``. Of equal elements Dask's finds the first chunk's."""

    def run(x: Array, *, axis: int | None, keepdims: bool) -> Array:
        if axis is not None and x.ndim > 1:
            return function(x, axis=axis, keepdims=keepdims)
        # Of the only axis Dask's wants to know the size, of one among others not.
        found = function(flat(x)[:, None], axis=0)[0]
        return found.reshape((1,) * x.ndim) if keepdims else found

    return run


def sort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    options = {"descending": descending, "stable": stable}
    return along(numpy_operation("sort"), x, (axis,), axis=axis, **options)


def argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    options = {"descending": descending, "stable": stable}
    return along(numpy_operation("argsort"), x, (axis,), axis=axis, into=_INDEX, **options)


def count_nonzero(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return da.sum(x != 0, axis=axis, keepdims=keepdims, dtype=_INDEX)


def searchsorted(x1: Array, x2: Array, *, side: str, sorter: Array | None) -> Array:
    # Dask's has no sorter, and takes no scalar.
    order = () if sorter is None else (sorter,)
    return beside(Named("searchsorted", _search), x2, x1, *order, dtype=_INDEX, side=side)


def _search(x2: Any, x1: Any, sorter: Any = None, *, side: str) -> Any:
    return NUMPY.execute("searchsorted", [x1, x2], side=side, sorter=sorter)


def isin(x1: Array, x2: Array, *, invert: bool) -> Array:
    return beside(numpy_operation("isin"), x1, flat(x2), dtype=np.dtype(bool), invert=invert)


# ---------------------------------------------------------------------------- sets


def unique_values(x: Array) -> Array:
    # Dask's counts all NaN as one. Chunks that are reduced first fit together where x does not.
    function = numpy_operation("unique_values")
    line = flat(x)
    chunks = ((_UNKNOWN,) * line.numblocks[0],)
    few = line.map_blocks(function, chunks=chunks, dtype=x.dtype)
    return at_once(function, few, like=[((_UNKNOWN,), x.dtype)])[0]


def unique_counts(x: Array) -> tuple[Array, ...]:
    unknown = (_UNKNOWN,)
    like = [(unknown, x.dtype), (unknown, _INDEX)]
    return at_once(numpy_operation("unique_counts"), x, like=like)


def unique_inverse(x: Array) -> tuple[Array, ...]:
    like = [((_UNKNOWN,), x.dtype), (x.shape, _INDEX)]
    return at_once(numpy_operation("unique_inverse"), x, like=like)


def unique_all(x: Array) -> tuple[Array, ...]:
    unknown = (_UNKNOWN,)
    like = [(unknown, x.dtype), (unknown, _INDEX), (x.shape, _INDEX), (unknown, _INDEX)]
    return at_once(numpy_operation("unique_all"), x, like=like)


# ---------------------------------------------------------------------------- statistics


def cumulative(function: Callable[..., Array], initial: int) -> Callable[..., Array]:
    """Make a cumulative operation of Dask's, which has no initial value."""

    def run(x: Array, *, axis: int, dtype: Any, include_initial: bool) -> Array:
        need_filled(x, (axis,))
        found = function(x, axis=axis, dtype=dtype)
        if not include_initial:
            return found
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        first = da.full(shape, initial, dtype=dtype, chunks=automatic(shape))
        return concat((first, found), axis=axis)

    return run


def extreme(name: str) -> Callable[..., Array]:
    """Make ``max`` or ``min``. Dask's loses the shape of chunks without elements."""
    function = numpy_operation(name)

    def part(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        # An axis without elements stays so, and is gone once it is put together with others.
        there = tuple(place for place in axis if x.shape[place])
        return function(x, axis=there, keepdims=True)

    def run(x: Array, *, axis: Any, keepdims: bool) -> Array:
        return da.reduction(x, part, function, axis, keepdims, x.dtype, combine=part)

    return run


def spread(function: Callable[..., Array]) -> Callable[..., Array]:
    """Make ``std`` or ``var``, whose correction Dask calls ddof."""

    def run(x: Array, *, axis: Any, correction: float, keepdims: bool) -> Array:
        axes = range(x.ndim) if axis is None else axis
        need_filled(x, axes)
        count = math.prod(x.shape[place] for place in axes)
        scale = 1.0
        if count > max(correction, 0) and not float(correction).is_integer():
            # Dask subtracts in the dtype of the elements, in which few digits may be left.
            scale, correction = count / (count - correction), 0.0
        found = function(x, axis=axis, ddof=correction, keepdims=keepdims)
        if scale != 1.0:
            found = found * found.dtype.type(math.sqrt(scale) if function is da.std else scale)
        # Dask divides by zero where no degree of freedom is left.
        if math.isnan(count):  # which only what is computed tells
            ones = x.map_blocks(np.ones_like, dtype=np.int64)
            enough = da.sum(ones, axis=axis, keepdims=keepdims) > correction
            return da.where(enough, found, found.dtype.type(math.nan))
        return da.full_like(found, math.nan) if count <= correction else found

    return run


# ---------------------------------------------------------------------------- Fourier transforms


def fft(name: str) -> Callable[..., Array]:
    """Make a transform along one axis. Dask's has no norm, and takes no split axis."""
    function = numpy_operation(f"fft.{name}")

    def run(x: Array, *, n: int, axis: int, norm: str) -> Array:
        count = n // 2 + 1 if name in ("rfft", "ihfft") else n
        sizes = {axis: count}
        return _transform(name, function, x, sizes, n=n, axis=axis, norm=norm)

    return run


def fftn(name: str) -> Callable[..., Array]:
    """Make a transform along several axes."""
    function = numpy_operation(f"fft.{name}")

    def run(x: Array, *, s: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Array:
        sizes = dict(zip(axes, s, strict=True))
        if name == "rfftn":
            sizes[axes[-1]] = s[-1] // 2 + 1
        return _transform(name, function, x, sizes, s=s, axes=axes, norm=norm)

    return run


def _transform(
    name: str, function: Callable[..., Any], x: Array, sizes: dict[int, int], **params: Any
) -> Array:
    strips = whole(x, tuple(sizes))
    chunks = tuple((sizes[i],) if i in sizes else c for i, c in enumerate(strips.chunks))
    dtype = np.result_type(x.dtype, np.complex64)
    if name in ("irfft", "hfft", "irfftn"):
        dtype = np.empty(0, dtype).real.dtype
    return strips.map_blocks(function, chunks=chunks, dtype=dtype, **params)
