"""Manipulation functions: each is one gather with the right strides, or a reshape."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from corepy import _dtypes
from corepy._errors import bad_argument, bad_type, wrong_shape
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._layout import (
    Axes,
    Shape,
    broadcast_all,
    broadcast_values,
    common_shape,
    gather,
    normalize_axes,
    normalize_axis,
    normalize_shape,
    offsets,
    strides_of,
)
from corepy.backends.reference._operands import (
    ArrayLike,
    as_array,
    check_dtype,
    result_dtype,
    widen,
)

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]


# ------------------------------------------------------------------ broadcasting


def broadcast_arrays(*arrays: ArrayLike) -> tuple[ReferenceArray, ...]:
    """Broadcast arrays against each other; each keeps its dtype.

    Raises
    ------
    ValueError
        If the shapes do not broadcast together.
    """
    if not arrays:
        return ()
    given = [as_array("broadcast_arrays", f"arrays[{i}]", x) for i, x in enumerate(arrays)]
    values, shape = broadcast_all("broadcast_arrays", given)
    return tuple(
        ReferenceArray(list(own), shape, x.dtype) for own, x in zip(values, given, strict=True)
    )


def broadcast_shapes(*shapes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Broadcast shapes against each other; ``()`` for none.

    A dimension that is None, of unknown size, stays unknown unless another shape decides it.

    Raises
    ------
    ValueError
        If the shapes do not broadcast together.
    """
    # With every unknown size read as 1, the known ones decide, or leave 1 where all are unknown.
    known = common_shape(
        "broadcast_shapes", [tuple(1 if n is None else n for n in shape) for shape in shapes]
    )
    result: list[int | None] = list(known)
    for shape in shapes:
        for back, size in enumerate(reversed(shape), start=1):
            if size is None and result[-back] == 1:
                result[-back] = None
    return tuple(result)


def broadcast_to(x: ArrayLike, /, shape: Sequence[int]) -> ReferenceArray:
    """Repeat an array to a shape.

    Raises
    ------
    ValueError
        If `x` does not broadcast to the shape.
    """
    x = as_array("broadcast_to", "x", x)
    wanted = normalize_shape("broadcast_to", shape)
    if common_shape("broadcast_to", [x.shape, wanted]) != wanted:
        raise bad_argument("broadcast_to", "shape", wanted, f"one that {x.shape} broadcasts to")
    return ReferenceArray(list(broadcast_values(x, wanted)), wanted, x.dtype)


# ------------------------------------------------------------------ shape alone


def reshape(x: ArrayLike, /, shape: Sequence[int], *, copy: bool | None = None) -> ReferenceArray:
    """Give the elements, in row-major order, a new shape.

    Parameters
    ----------
    x : array
        Of any dtype.
    shape : tuple of int
        Of as many elements as `x`; one size may be -1 and is inferred.
    copy : bool or None
        True: new memory. Otherwise the result shares the memory of `x`, which is always possible.

    Raises
    ------
    ValueError
        If the number of elements does not match.
    """
    x = as_array("reshape", "x", x)
    given = shape if isinstance(shape, tuple | list) else (shape,)
    known = math.prod(size for size in given if size != -1)
    if list(given).count(-1) == 1 and known:
        wanted = tuple(x.size // known if size == -1 else operator.index(size) for size in given)
    else:
        wanted = normalize_shape("reshape", given)
    if math.prod(wanted) != x.size:
        raise bad_argument("reshape", "shape", tuple(given), f"a shape of {x.size} elements")
    return ReferenceArray(list(x.values) if copy else x.values, wanted, x.dtype)


def expand_dims(x: ArrayLike, /, axis: int | tuple[int, ...]) -> ReferenceArray:
    """Insert axes of size one, at positions of the result; the memory is shared.

    Raises
    ------
    IndexError
        If a position lies outside the result.
    ValueError
        If a position is given twice.
    """
    x = as_array("expand_dims", "x", x)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    inserted = normalize_axes("expand_dims", axis, x.ndim + count)
    sizes = iter(x.shape)
    shape = tuple(1 if i in inserted else next(sizes) for i in range(x.ndim + count))
    return ReferenceArray(x.values, shape, x.dtype)


def squeeze(x: ArrayLike, /, axis: int | tuple[int, ...]) -> ReferenceArray:
    """Remove axes of size one; the memory is shared.

    Raises
    ------
    IndexError
        If there is no such axis.
    ValueError
        If an axis has another size, or is given twice.
    """
    x = as_array("squeeze", "x", x)
    removed = normalize_axes("squeeze", axis, x.ndim)
    if any(x.shape[i] != 1 for i in removed):
        raise bad_argument("squeeze", "axis", axis, f"axes of size 1 in shape {x.shape}")
    shape = tuple(size for i, size in enumerate(x.shape) if i not in removed)
    return ReferenceArray(x.values, shape, x.dtype)


# ------------------------------------------------------------------ order of axes and elements


def permute_dims(x: ArrayLike, /, axes: tuple[int, ...]) -> ReferenceArray:
    """Reorder the axes: axis ``i`` of the result is axis ``axes[i]`` of `x`.

    Raises
    ------
    IndexError
        If there is no such axis.
    ValueError
        If `axes` is no permutation.
    """
    x = as_array("permute_dims", "x", x)
    order = normalize_axes("permute_dims", axes, x.ndim, "axes")
    if len(order) != x.ndim:
        raise bad_argument("permute_dims", "axes", axes, f"each of {x.ndim} axes once")
    return _permuted(x, order)


def moveaxis(
    x: ArrayLike, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> ReferenceArray:
    """Move axes to new positions; the others keep their order.

    Raises
    ------
    IndexError
        If there is no such axis.
    ValueError
        If `source` and `destination` differ in length, or name an axis twice.
    """
    x = as_array("moveaxis", "x", x)
    moved = normalize_axes("moveaxis", source, x.ndim, "source")
    places = normalize_axes("moveaxis", destination, x.ndim, "destination")
    if len(moved) != len(places):
        raise bad_argument(
            "moveaxis", "destination", destination, f"{len(moved)} axes as in source"
        )
    order = [axis for axis in range(x.ndim) if axis not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return _permuted(x, tuple(order))


def _permuted(x: ReferenceArray, order: Shape) -> ReferenceArray:
    strides = strides_of(x.shape)
    return gather(x, tuple(x.shape[i] for i in order), [strides[i] for i in order])


def flip(x: ArrayLike, /, *, axis: Axes = None) -> ReferenceArray:
    """Reverse the elements along axes; along all of them by default.

    Raises
    ------
    IndexError
        If there is no such axis.
    """
    x = as_array("flip", "x", x)
    strides = list(strides_of(x.shape))
    start = 0
    for i in normalize_axes("flip", axis, x.ndim):
        start += (x.shape[i] - 1) * strides[i]
        strides[i] = -strides[i]
    return gather(x, x.shape, strides, start)


def roll(x: ArrayLike, /, shift: int | tuple[int, ...], *, axis: Axes = None) -> ReferenceArray:
    """Shift elements along axes; what leaves at the end comes back at the start.

    Parameters
    ----------
    x : array
        Of any dtype.
    shift : int or tuple of int
        By how much: one amount for all axes, or one for each.
    axis : int, tuple of int or None
        Along which axes; None for the flattened array, whose shape is then restored. An axis
        given twice is shifted twice.

    Raises
    ------
    IndexError
        If there is no such axis.
    ValueError
        If `shift` is a tuple and `axis` none of the same length.
    """
    x = as_array("roll", "x", x)
    if axis is None:
        total = sum(shift) if isinstance(shift, tuple | list) else shift
        cut = -total % x.size if x.size else 0
        return ReferenceArray(x.values[cut:] + x.values[:cut], x.shape, x.dtype)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    shifts = shift if isinstance(shift, tuple | list) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise bad_argument("roll", "shift", shift, f"{len(axes)} amounts, one for each axis")
    positions = [list(range(size)) for size in x.shape]
    for one, amount in zip(axes, shifts, strict=True):
        index = normalize_axis("roll", one, x.ndim)
        own = positions[index]
        cut = -amount % len(own) if own else 0
        positions[index] = own[cut:] + own[:cut]
    return _picked(x, positions)


def _picked(x: ReferenceArray, positions: list[list[int]]) -> ReferenceArray:
    """Take the elements at the given positions along each axis."""
    places = [0]
    for stride, chosen in zip(strides_of(x.shape), positions, strict=True):
        steps = [index * stride for index in chosen]
        places = [place + step for place in places for step in steps]
    values = x.values
    return ReferenceArray([values[i] for i in places], tuple(map(len, positions)), x.dtype)


# ------------------------------------------------------------------ repetition


def repeat(x: ArrayLike, repeats: int | ArrayLike, /, *, axis: int | None = None) -> ReferenceArray:
    """Repeat each element along an axis.

    Parameters
    ----------
    x : array
        Of any dtype.
    repeats : int or array
        How often: one non-negative number for all elements along the axis, or one for each.
    axis : int or None
        None flattens `x` first.

    Raises
    ------
    IndexError
        If there is no such axis.
    TypeError
        If `repeats` is no integer array.
    ValueError
        If a repeat is negative, or their number does not match the axis.
    """
    x = as_array("repeat", "x", x)
    counts = as_array("repeat", "repeats", repeats)
    check_dtype("repeat", "repeats", counts, _dtypes.INTEGER)
    if axis is None:
        x = ReferenceArray(x.values, (x.size,), x.dtype)
        axis = 0
    index = normalize_axis("repeat", axis, x.ndim)
    size = x.shape[index]
    if counts.ndim > 1 or counts.size not in (1, size):
        expected = f"one repeat, or one for each of {size} elements"
        raise wrong_shape("repeat", "repeats", counts.shape, expected)
    times = counts.values * size if counts.size == 1 else counts.values
    positions = [list(range(n)) for n in x.shape]
    positions[index] = []
    for place, count in enumerate(times):
        if operator.index(count) < 0:  # type: ignore[arg-type]
            raise bad_argument("repeat", "repeats", count, "non-negative repeats")
        positions[index] += [place] * count  # type: ignore[operator]
    return _picked(x, positions)


def tile(x: ArrayLike, repetitions: tuple[int, ...], /) -> ReferenceArray:
    """Repeat a whole array along each axis.

    Parameters
    ----------
    x : array
        Of any dtype.
    repetitions : tuple of int
        How often along each axis, counted from the last. The shorter of it and the shape of `x`
        is filled up with ones in front.

    Raises
    ------
    ValueError
        If a repetition is negative.
    """
    x = as_array("tile", "x", x)
    times = normalize_shape("tile", repetitions, "repetitions")
    ndim = max(x.ndim, len(times))
    times = (1,) * (ndim - len(times)) + times
    shape = (1,) * (ndim - x.ndim) + x.shape
    own = ReferenceArray(x.values, shape, x.dtype)
    return _picked(own, [list(range(n)) * t for n, t in zip(shape, times, strict=True)])


# ------------------------------------------------------------------ joining and splitting


def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> ReferenceArray:
    """Join arrays along an axis that they have.

    Parameters
    ----------
    arrays : sequence of array
        Of the same shape but for the axis; dtypes are promoted.
    axis : int or None
        None flattens the arrays first.

    Raises
    ------
    IndexError
        If there is no such axis.
    TypeError
        If the dtypes do not promote.
    ValueError
        If there are no arrays, or their shapes differ.
    """
    given = _promoted("concat", arrays)
    if axis is None:
        given = [ReferenceArray(x.values, (x.size,), x.dtype) for x in given]
        axis = 0
    first = given[0]
    index = normalize_axis("concat", axis, first.ndim)
    for i, x in enumerate(given):
        if x.ndim != first.ndim or any(
            n != m for j, (n, m) in enumerate(zip(x.shape, first.shape, strict=True)) if j != index
        ):
            expected = f"the shape {first.shape} of the first, but for axis {index}"
            raise wrong_shape("concat", f"arrays[{i}]", x.shape, expected)
    total = sum(x.shape[index] for x in given)
    shape = (*first.shape[:index], total, *first.shape[index + 1 :])
    values: list[Value] = []
    chunks = [math.prod(x.shape[index:]) for x in given]
    for row in range(math.prod(first.shape[:index])):
        for x, size in zip(given, chunks, strict=True):
            values += x.values[row * size : (row + 1) * size]
    return ReferenceArray(values, shape, first.dtype)


def stack(arrays: Sequence[ArrayLike], /, *, axis: int = 0) -> ReferenceArray:
    """Join arrays along a new axis, at a position of the result.

    Raises
    ------
    IndexError
        If the position lies outside the result.
    TypeError
        If the dtypes do not promote.
    ValueError
        If there are no arrays, or their shapes differ.
    """
    given = _promoted("stack", arrays)
    shape = given[0].shape
    for i, x in enumerate(given):
        if x.shape != shape:
            raise wrong_shape("stack", f"arrays[{i}]", x.shape, f"shape {shape}")
    index = normalize_axis("stack", axis, len(shape) + 1)
    expanded = (*shape[:index], 1, *shape[index:])
    return concat([ReferenceArray(x.values, expanded, x.dtype) for x in given], axis=index)


def _promoted(function: str, arrays: Sequence[ArrayLike]) -> list[ReferenceArray]:
    if isinstance(arrays, ReferenceArray) or not isinstance(arrays, tuple | list):
        raise bad_type(function, "arrays", arrays, "a tuple or list of arrays")
    given = [as_array(function, f"arrays[{i}]", x) for i, x in enumerate(arrays)]
    if not given:
        raise bad_argument(function, "arrays", arrays, "at least one array")
    dtype = result_dtype(function, [x.dtype for x in given])
    return [widen(x, dtype) for x in given]


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[ReferenceArray, ...]:
    """Split an array into the slices along an axis.

    Raises
    ------
    IndexError
        If there is no such axis.
    """
    x = as_array("unstack", "x", x)
    index = normalize_axis("unstack", axis, x.ndim)
    strides = strides_of(x.shape)
    shape = x.shape[:index] + x.shape[index + 1 :]
    others = strides[:index] + strides[index + 1 :]
    places = offsets(shape, others)
    values = x.values
    return tuple(
        ReferenceArray([values[place + i * strides[index]] for place in places], shape, x.dtype)
        for i in range(x.shape[index])
    )
