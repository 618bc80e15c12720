"""Indexing: every key is turned into the positions it selects, to read there or to write there.

The meaning is NumPy's, of which the standard's is a part: integer arrays are broadcast against
each other and select points, boolean arrays stand for the indices of their true elements, and
where arrays stand apart the dimensions that they make come first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NamedTuple, TypeAlias, cast

from corepy import _dtypes
from corepy._errors import bad_argument, bad_type, beyond, unfit, wrong_shape
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._layout import (
    Shape,
    broadcast_values,
    common_shape,
    normalize_axis,
    offsets,
    strides_of,
)
from corepy.backends.reference._operands import ArrayLike, as_array, check_dtype, convert_scalar
from corepy.backends.reference._searching import nonzero

__all__ = ["Key", "getitem", "setitem", "take", "take_along_axis"]

_Index: TypeAlias = "int | slice | EllipsisType | bool | ReferenceArray | list[Any] | None"
Key: TypeAlias = "_Index | tuple[_Index, ...]"


class _Points(NamedTuple):
    """An integer array (or int) as an index: the elements it picks along one axis."""

    indices: ReferenceArray
    stride: int


#: What a slice or a new axis becomes: the steps from element to element along one dimension.
_Steps: TypeAlias = list[int]


# ------------------------------------------------------------------ the keys


def _bad_key(function: str, got: str, expected: str) -> IndexError:
    return IndexError(f"{function}: key {got}; expected {expected}")


def _expand(function: str, key: Key, ndim: int) -> list[_Index]:
    """Return one entry for each axis of the array (or new axis).

    An Ellipsis stays where it stands for no axis: it keeps arrays apart as a slice does.
    """
    entries: list[Any] = list(key) if isinstance(key, tuple) else [key]
    entries = [as_array(function, "key", e) if isinstance(e, list) else e for e in entries]
    used = sum(map(_axes_used, entries))
    if used > ndim:
        raise _bad_key(function, f"indexes {used} axes", f"at most {ndim}")
    dots = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    if len(dots) > 1:
        raise _bad_key(function, f"has {len(dots)} Ellipsis", "at most one")
    place = dots[0] if dots else len(entries)
    between = [slice(None)] * (ndim - used) or entries[place : place + 1]
    return [*entries[:place], *between, *entries[place + 1 :]]


def _axes_used(entry: Any) -> int:
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    if isinstance(entry, ReferenceArray) and entry.dtype is _dtypes.bool:
        return entry.ndim
    return 1


def _checked(index: int, size: int, axis: int) -> int:
    if not -size <= index < size:
        raise beyond(index, axis, size)
    return index % size


def _points(
    function: str, entry: ReferenceArray, shape: Shape, strides: Shape, axis: int
) -> list[_Points]:
    """Turn an index array into one array of points for each axis that it uses."""
    if entry.dtype is not _dtypes.bool:
        if entry.dtype not in _dtypes.INTEGER:
            raise _bad_key(function, f"has an array of dtype {entry.dtype}", "integers or bool")
        chosen: list[Value] = [
            _checked(cast("int", index), shape[axis], axis) for index in entry.values
        ]
        return [_Points(ReferenceArray(chosen, entry.shape, _dtypes.int64), strides[axis])]
    if entry.ndim == 0:  # a new dimension, there once or not at all
        count = int(cast("bool", entry.values[0]))
        return [_Points(ReferenceArray([0] * count, (count,), _dtypes.int64), 0)]
    covered = shape[axis : axis + entry.ndim]
    for size, own in zip(entry.shape, covered, strict=True):
        if size not in (own, 0):
            raise _bad_key(function, f"has a mask of shape {entry.shape}", f"shape {covered}")
    own_strides = strides[axis : axis + entry.ndim]
    return [_Points(indices, s) for indices, s in zip(nonzero(entry), own_strides, strict=True)]


def _selected(function: str, shape: Shape, key: Key) -> tuple[list[int], Shape]:
    """Return the positions that a key selects in an array, and the shape they are laid out in."""
    strides = strides_of(shape)
    entries = _expand(function, key, len(shape))
    # An int among arrays broadcasts with them; alone it just selects.
    vectorized = any(isinstance(entry, ReferenceArray | bool) for entry in entries)
    parts: list[_Steps | _Points | None] = []
    start = 0
    axis = 0
    for entry in entries:
        if entry is None:
            parts.append([0])
        elif entry is Ellipsis:
            parts.append(None)
        elif isinstance(entry, slice):
            parts.append([i * strides[axis] for i in _range(function, entry, shape[axis])])
            axis += 1
        elif isinstance(entry, bool):
            parts += _points(
                function, ReferenceArray([entry], (), _dtypes.bool), shape, strides, axis
            )
        elif isinstance(entry, ReferenceArray):
            parts += _points(function, entry, shape, strides, axis)
            axis += _axes_used(entry)
        else:
            index = _checked(_as_index(function, entry), shape[axis], axis)
            if vectorized:
                own = ReferenceArray([index], (), _dtypes.int64)
                parts.append(_Points(own, strides[axis]))
            else:
                start += index * strides[axis]
            axis += 1
    return _lay_out(function, parts, start)


def _lay_out(
    function: str, parts: Sequence[_Steps | _Points | None], start: int
) -> tuple[list[int], Shape]:
    """Combine steps and points to positions; the points make one block of dimensions.

    None stands for no dimension, and keeps points apart.
    """
    points = [part for part in parts if isinstance(part, _Points)]
    try:
        block_shape = common_shape(function, [part.indices.shape for part in points])
    except ValueError as error:
        raise IndexError(str(error)) from None
    block = [0] * math.prod(block_shape)
    for part in points:
        chosen = cast("list[int]", broadcast_values(part.indices, block_shape))
        block = [place + index * part.stride for place, index in zip(block, chosen, strict=True)]
    where = [i for i, part in enumerate(parts) if isinstance(part, _Points)]
    adjacent = bool(where) and where[-1] - where[0] == len(where) - 1
    place = where[0] - parts[: where[0]].count(None) if adjacent else 0
    dimensions: list[tuple[Shape, _Steps]] = [
        ((len(part),), part) for part in parts if part is not None and not isinstance(part, _Points)
    ]
    if points:
        dimensions.insert(place, (block_shape, block))
    positions = [start]
    shape: Shape = ()
    for sizes, steps in dimensions:
        positions = [position + step for position in positions for step in steps]
        shape += sizes
    return positions, shape


def _range(function: str, entry: slice, size: int) -> range:
    try:
        return range(*entry.indices(size))
    except TypeError:
        raise bad_type(function, "key", entry, "slices of ints or None") from None


def _as_index(function: str, entry: Any) -> int:
    try:
        return operator.index(entry)
    except TypeError:
        expected = "an int, a slice, Ellipsis, None, or an array of integers or booleans"
        raise _bad_key(function, f"has an entry of type {type(entry).__name__}", expected) from None


# ------------------------------------------------------------------ reading and writing


def getitem(x: ReferenceArray, key: Key, /) -> ReferenceArray:
    """Return ``x[key]``, always a new array.

    Parameters
    ----------
    x : array
        Of any dtype.
    key : int, slice, Ellipsis, None, array, list, or a tuple of these
        Arrays hold integers or booleans; lists count as arrays.

    Raises
    ------
    IndexError
        If there are too many indices, one is out of bounds, or a mask does not fit.
    """
    return _read("__getitem__", x, key)


def _read(function: str, x: ReferenceArray, key: Key) -> ReferenceArray:
    positions, shape = _selected(function, x.shape, key)
    values = x.values
    return ReferenceArray([values[i] for i in positions], shape, x.dtype)


def setitem(x: ReferenceArray, key: Key, value: ReferenceArray | Value, /) -> ReferenceArray:
    """Do ``x[key] = value`` in place and return `x`.

    Parameters
    ----------
    x : array
        Of any dtype.
    key : as in `getitem`
        Where a position is selected twice, the last value stays.
    value : array or scalar
        Of the dtype of `x`, of a shape that broadcasts to that of the selection.

    Raises
    ------
    IndexError
        As in `getitem`.
    TypeError
        If the value has another dtype.
    ValueError
        If its shape does not broadcast.
    """
    positions, shape = _selected("__setitem__", x.shape, key)
    if not isinstance(value, ReferenceArray):
        scalar = convert_scalar("__setitem__", "value", value, x.dtype)
        value = ReferenceArray([scalar], (), x.dtype)
    check_dtype("__setitem__", "value", value, frozenset({x.dtype}))
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = ReferenceArray(value.values, value.shape[1:], value.dtype)
    sizes = zip(reversed(value.shape), reversed(shape), strict=False)
    if value.ndim > len(shape) or any(own not in (1, size) for own, size in sizes):
        raise unfit(value.shape, shape)
    # Values that are read while they are overwritten, as in x[::-1] = x, are copied first.
    for position, new in zip(positions, list(broadcast_values(value, shape)), strict=True):
        x.values[position] = new
    return x


# ------------------------------------------------------------------ the functions


def take(x: ArrayLike, indices: ArrayLike, /, *, axis: int | None = None) -> ReferenceArray:
    """Pick elements along an axis.

    Parameters
    ----------
    x : array
        Of any dtype.
    indices : array
        Integers; negative ones count from the end.
    axis : int, optional
        The axis; may be left out if there is only one.

    Returns
    -------
    array
        Of the shape of `x`, but for the shape of `indices` where the axis was.

    Raises
    ------
    TypeError
        If `indices` are no integers.
    ValueError
        If `axis` is left out and `x` is not 1-D.
    IndexError
        If there is no such axis, or an index is out of bounds.
    """
    x = as_array("take", "x", x)
    chosen = as_array("take", "indices", indices, _dtypes.int64)
    check_dtype("take", "indices", chosen, _dtypes.INTEGER)
    if axis is None:
        if x.ndim != 1:
            raise bad_argument("take", "axis", axis, f"an axis of the {x.ndim} dimensions")
        axis = 0
    index = normalize_axis("take", axis, x.ndim)
    return _read("take", x, (*[slice(None)] * index, chosen))


def take_along_axis(x: ArrayLike, indices: ArrayLike, /, *, axis: int = -1) -> ReferenceArray:
    """Pick along an axis, for each position on the others by indices of its own.

    Parameters
    ----------
    x : array
        Of any dtype.
    indices : array
        Integers, with as many dimensions as `x`; broadcast against it but for the axis.
        Negative ones count from the end.
    axis : int
        The axis; by default the last.

    Returns
    -------
    array
        Of the broadcast shape, and the size of `indices` along the axis.

    Raises
    ------
    TypeError
        If `indices` are no integers.
    ValueError
        If the numbers of dimensions differ, or the shapes do not broadcast together.
    IndexError
        If there is no such axis, or an index is out of bounds.
    """
    x = as_array("take_along_axis", "x", x)
    chosen = as_array("take_along_axis", "indices", indices, _dtypes.int64)
    check_dtype("take_along_axis", "indices", chosen, _dtypes.INTEGER)
    if chosen.ndim != x.ndim:
        expected = f"{x.ndim} dimensions as x"
        raise wrong_shape("take_along_axis", "indices", chosen.shape, expected)
    index = normalize_axis("take_along_axis", axis, x.ndim)

    def without_axis(shape: Shape) -> Shape:
        return (*shape[:index], 1, *shape[index + 1 :])

    others = common_shape("take_along_axis", map(without_axis, (x.shape, chosen.shape)))
    shape = (*others[:index], chosen.shape[index], *others[index + 1 :])
    # Where each element's row begins: the axis itself, and axes that x repeats, take no step.
    own = [
        0 if i == index or size == 1 else stride
        for i, (size, stride) in enumerate(zip(x.shape, strides_of(x.shape), strict=True))
    ]
    starts = offsets(shape, own)
    step = strides_of(x.shape)[index]
    rows = cast("list[int]", broadcast_values(chosen, shape))
    size = x.shape[index]
    values = [
        x.values[start + _checked(row, size, index) * step]
        for start, row in zip(starts, rows, strict=True)
    ]
    return ReferenceArray(values, shape, x.dtype)
