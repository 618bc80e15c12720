"""Indexing: keys that Dask takes go to Dask, others to NumPy with the whole array in one task."""

from __future__ import annotations

from typing import Any, Final

import dask
import dask.array as da
import numpy as np
from dask.array.core import broadcast_shapes, elemwise

from corepy._errors import listing
from corepy.backends._keys import axes, check, check_value, within
from corepy.backends.dask._blocks import (
    Array,
    Named,
    Shape,
    at_once,
    flat,
    is_known,
    need_equal,
    numpy_operation,
    stacked,
)
from corepy.backends.dask._functions import reshape

#: The size of what a mask selects.
_UNKNOWN: Final = float("nan")


# ---------------------------------------------------------------------------- reading


def getitem(x: Array, key: Any) -> Array:
    parts = key if isinstance(key, tuple) else (key,)
    arrays = [part for part in parts if isinstance(part, da.Array)]
    _check_key(x, parts)
    parts = _canonical(x, parts)
    if not arrays:
        return x[parts]
    if len(arrays) == 1 and _adjacent(parts) and None not in _plain(parts):
        index = arrays[0]
        if index.dtype != bool and index.ndim < 2:
            return _pick("__getitem__", x, parts)
        alone = index.dtype == bool and len(parts) == 1 and index.ndim == x.ndim > 0
        if alone and 0 not in index.shape:
            for axis in range(x.ndim):
                need_equal((x, axis), (index, axis))
            # In C order: Dask's own goes chunk by chunk where it does not know the sizes, and of a
            # mask that does not fit says only that.
            return da.blockwise(
                Named("__getitem__", _getitem),
                (0,),
                flat(x),
                (0,),
                flat(index),
                (0,),
                adjust_chunks={0: lambda _: _UNKNOWN},
                dtype=x.dtype,
            )
    return at_once(Named("__getitem__", _getitem), x, *parts, like=[(_shape(x, parts), x.dtype)])[0]


def _getitem(x: Any, *parts: Any) -> Any:
    return x[parts]


def take(x: Array, indices: Array, *, axis: int) -> Array:
    before = (slice(None),) * axis
    if indices.ndim < 2:
        return _pick("take", x, (*before, indices))
    found = _pick("take", x, (*before, flat(indices)))
    return reshape(found, x.shape[:axis] + indices.shape + x.shape[axis + 1 :], copy=None)


def take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    vectors = (da.moveaxis(part, axis, -1) for part in (x, indices))
    found = stacked(_take_along_last, "(n),(m)->(m)", *vectors, dtypes=x.dtype)
    return da.moveaxis(found, -1, axis)


def _take_along_last(x: Any, indices: Any) -> Any:
    # NumPy wants equal numbers of dimensions, and Dask leaves out leading ones.
    return numpy_operation("take_along_axis")(x, indices, axis=-1)


def _pick(name: str, x: Array, parts: tuple[Any, ...]) -> Array:
    """Select by slices, ints and one vector of indices, among which Dask misses those beyond."""
    if x.dtype.kind == "c":
        # Dask makes an index of the dtype of x, and warns that it is complex: pick real pairs.
        pairs = x.map_blocks(_split, chunks=(*x.chunks, (2,)), new_axis=x.ndim, dtype=x.real.dtype)
        picked = _pick(
            name, pairs, parts if Ellipsis not in _plain(parts) else (*parts, slice(None))
        )
        return picked.map_blocks(_joined, drop_axis=picked.ndim - 1, dtype=x.dtype)
    checked = []
    for part, indexed in zip(parts, axes(parts, x.ndim), strict=True):
        if isinstance(part, da.Array):
            axis = indexed.start
            part = part.map_blocks(Named(name, _within), axis, x.shape[axis], dtype=np.int64)
        checked.append(part)
    return x[tuple(checked)]


def _split(x: Any) -> Any:
    return np.stack([x.real, x.imag], axis=-1)


def _joined(pairs: Any) -> Any:
    return np.ascontiguousarray(pairs).view(np.result_type(pairs, np.complex64))[..., 0]


def _within(indices: Any, axis: int, size: int) -> Any:
    if indices.size:
        check(axis, size, int(indices.min()), int(indices.max()))
    return indices.astype(np.int64)


# ---------------------------------------------------------------------------- writing


def setitem(x: Array, key: Any, value: Any) -> Array:
    """Return a new array: the native one may be held elsewhere, and Dask would change it."""
    parts = key if isinstance(key, tuple) else (key,)
    arrays = [part for part in parts if isinstance(part, da.Array)]
    _check_key(x, parts)
    parts = _canonical(x, parts)
    if is_known(*x.shape):
        shape = _shape(x, parts)
        check_value(value.shape, shape)
        if 0 in shape and not arrays:  # which may have indices out of bounds
            return x
    masked = len(arrays) == len(parts) == 1 and arrays[0].dtype == bool
    whole = masked and arrays[0].ndim == x.ndim and 0 not in arrays[0].shape
    if whole and value.ndim == 0:
        for axis in range(x.ndim):
            need_equal((x, axis), (arrays[0], axis))
        # By `where` NumPy would stretch a chunk of one.
        return elemwise(Named("__setitem__", _setitem), x, value, arrays[0], dtype=x.dtype)
    if not arrays and None not in _plain(parts):
        made = x.copy()
        forwards, value = _forwards(x, parts, value)
        made[forwards] = value
        return made
    return at_once(Named("__setitem__", _setitem), x, value, *parts, like=[(x.shape, x.dtype)])[0]


def _forwards(x: Array, parts: tuple[Any, ...], value: Any) -> tuple[tuple[Any, ...], Any]:
    """Turn slices that go backwards, which Dask loses beside ints, and the value with them."""
    found, turned = [], []
    for part, indexed in zip(parts, axes(parts, x.ndim), strict=True):
        if isinstance(part, slice):
            backwards = part.step is not None and part.step < 0
            turned.append(slice(None, None, -1 if backwards else 1))
            if backwards:
                chosen = range(*part.indices(x.shape[indexed.start]))
                part = slice(chosen[-1], chosen[0] + 1, -chosen.step)
        elif part is Ellipsis:
            turned += [slice(None)] * len(indexed)
        found.append(part)
    if all(turn.step in (None, 1) for turn in turned) or value.ndim == 0:
        return tuple(found), value
    shape = _shape(x, parts)
    value = value[(0,) * (value.ndim - len(shape))]
    turned += [slice(None)] * (len(shape) - len(turned))
    return tuple(found), da.broadcast_to(value, shape)[tuple(turned)]


def _setitem(x: Any, value: Any, *parts: Any) -> Any:
    made = np.array(x)
    made[parts] = value
    return made


# ---------------------------------------------------------------------------- keys


def _plain(parts: tuple[Any, ...]) -> list[Any]:
    """Return the parts of a key that are no arrays, which have an equality of their own."""
    return [part for part in parts if not isinstance(part, da.Array)]


def _is_advanced(part: Any) -> bool:
    return isinstance(part, (int, da.Array))


def _adjacent(parts: tuple[Any, ...]) -> bool:
    """Say whether ints and arrays stand together; else NumPy puts their dimensions first."""
    places = [i for i, part in enumerate(parts) if _is_advanced(part)]
    return places[-1] - places[0] == len(places) - 1


def _check_key(x: Array, parts: tuple[Any, ...]) -> None:
    """Refuse now what NumPy would refuse when it is computed: ints and masks that do not fit."""
    for part, indexed in zip(parts, axes(parts, x.ndim), strict=True):
        axis = indexed.start
        if isinstance(part, int) and is_known(x.shape[axis]):
            check(axis, x.shape[axis], part)
        elif isinstance(part, da.Array) and part.dtype == bool:
            for n, m in zip(part.shape, x.shape[axis:], strict=False):
                if n not in (0, m) and is_known(n, m):  # without elements it selects nothing
                    raise IndexError(f"a mask has shape {part.shape}, the array {x.shape}")


def _canonical(x: Array, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace slices by equal ones within the array; beyond it Dask reads some differently."""
    return tuple(
        within(part, x.shape[indexed.start])
        if isinstance(part, slice) and is_known(x.shape[indexed.start])
        else part
        for part, indexed in zip(parts, axes(parts, x.ndim), strict=True)
    )


def _shape(x: Array, parts: tuple[Any, ...]) -> Shape:
    """Return the shape that NumPy's indexing gives."""
    if Ellipsis not in _plain(parts):
        parts = (*parts, Ellipsis)
    sizes: list[float] = []
    indices: list[Array] = []
    front = None
    for part, indexed in zip(parts, axes(parts, x.ndim), strict=True):
        if part is None:
            sizes.append(1)
        elif part is Ellipsis:
            sizes += x.shape[indexed.start : indexed.stop]
        elif isinstance(part, slice):
            sizes.append(len(range(*part.indices(x.shape[indexed.start]))))
        else:
            front = len(sizes) if front is None else front
            if not isinstance(part, int):
                indices.append(part)
    if front is None:
        return tuple(sizes)
    at = front if _adjacent(parts) else 0
    return (*sizes[:at], *_chosen_shape(indices), *sizes[at:])


def _chosen_shape(indices: list[Array]) -> Shape:
    """Return the shape that masks and arrays of indices broadcast to."""
    shapes: list[Shape] = [(_UNKNOWN,) if index.dtype == bool else index.shape for index in indices]
    if len(shapes) > 1:  # and only then it matters now how many a mask selects
        counts = (da.count_nonzero(index) if index.dtype == bool else None for index in indices)
        shapes = [
            shape if count is None else (int(count),)
            for shape, count in zip(shapes, dask.compute(*counts), strict=True)
        ]
    try:
        found: Shape = broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(
            f"arrays of indices have shapes {listing(shapes)}; expected shapes that broadcast"
        ) from None
    return found
