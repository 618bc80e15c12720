"""Shapes, strides and axes: where the elements of an array lie.

Arrays are flat and row-major, so every rearrangement (a slice, a transpose, a broadcast, a flip)
is one gather: say which strides the result walks through its source with, let `offsets` list the
positions, and pick the values there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from corepy._errors import bad_argument, bad_type, broadcast_mismatch, out_of_range
from corepy.backends.reference._array import ReferenceArray, Value

__all__ = [
    "Axes",
    "Shape",
    "broadcast_all",
    "broadcast_values",
    "common_shape",
    "gather",
    "lanes",
    "normalize_axes",
    "normalize_axis",
    "normalize_shape",
    "offsets",
    "reduced_shape",
    "strides_of",
]

Shape: TypeAlias = tuple[int, ...]
#: What reductions take: one axis, several, or None for all of them.
Axes: TypeAlias = int | tuple[int, ...] | None


# ------------------------------------------------------------------ positions


def strides_of(shape: Shape) -> Shape:
    """Return how many positions apart neighbours along each axis lie."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    return tuple(strides)


def offsets(shape: Shape, strides: Sequence[int], start: int = 0) -> list[int]:
    """List the positions of a strided view, in row-major order of its shape.

    Strides may be negative (a flipped axis) or zero (a broadcast one).
    """
    positions = [start]
    for size, stride in zip(shape, strides, strict=True):
        steps = [index * stride for index in range(size)]
        positions = [position + step for position in positions for step in steps]
    return positions


def gather(
    x: ReferenceArray, shape: Shape, strides: Sequence[int], start: int = 0
) -> ReferenceArray:
    """Copy the elements of a strided view of `x` into a new array."""
    values = x.values
    return ReferenceArray([values[i] for i in offsets(shape, strides, start)], shape, x.dtype)


# ------------------------------------------------------------------ broadcasting


def common_shape(function: str, shapes: Iterable[Shape]) -> Shape:
    """Broadcast shapes against each other; ``ValueError`` where they do not fit."""
    shapes = [tuple(shape) for shape in shapes]
    ndim = max(map(len, shapes), default=0)
    padded = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    common = []
    for sizes in zip(*padded, strict=True):
        wanted = {size for size in sizes if size != 1}
        if len(wanted) > 1:
            raise broadcast_mismatch(function, shapes)
        common.append(wanted.pop() if wanted else 1)
    return tuple(common)


def broadcast_values(x: ReferenceArray, shape: Shape) -> list[Value]:
    """Return the values of `x` repeated to a shape that it is known to broadcast to."""
    if x.shape == shape:
        return x.values
    if x.size == 1:
        return x.values * math.prod(shape)
    added = len(shape) - x.ndim
    own = [0 if size == 1 else stride for size, stride in zip(x.shape, strides_of(x.shape))]
    values = x.values
    return [values[i] for i in offsets(shape, [0] * added + own)]


def broadcast_all(
    function: str, arrays: Sequence[ReferenceArray]
) -> tuple[list[list[Value]], Shape]:
    """Broadcast arrays against each other; return their values and the common shape."""
    shape = arrays[0].shape
    if any(x.shape != shape for x in arrays):
        shape = common_shape(function, [x.shape for x in arrays])
    return [broadcast_values(x, shape) for x in arrays], shape


# ------------------------------------------------------------------ axes


def normalize_axis(function: str, axis: int, ndim: int, argument: str = "axis") -> int:
    """Count a negative axis from the end; ``IndexError`` where there is no such axis."""
    try:
        index = operator.index(axis)
    except TypeError:
        raise bad_type(function, argument, axis, "an int") from None
    if not -ndim <= index < ndim:
        expected = f"an axis in [{-ndim}, {ndim})" if ndim else "no axis, x has 0 dimensions"
        raise out_of_range(function, argument, axis, expected)
    return index % ndim


def normalize_axes(function: str, axis: Axes, ndim: int, argument: str = "axis") -> Shape:
    """Return several axes, each normalized, in the order given; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple(normalize_axis(function, one, ndim, argument) for one in given)
    if len(set(axes)) < len(axes):
        raise bad_argument(function, argument, axis, "each axis once")
    return axes


def normalize_shape(function: str, shape: int | Sequence[int], argument: str = "shape") -> Shape:
    """Return a shape as a tuple of non-negative ints."""
    given = shape if isinstance(shape, tuple | list) else (shape,)
    try:
        sizes = tuple(operator.index(size) for size in given)
    except TypeError:
        raise bad_type(function, argument, shape, "an int or a tuple of ints") from None
    if any(size < 0 for size in sizes):
        raise bad_argument(function, argument, shape, "non-negative sizes")
    return sizes


def reduced_shape(shape: Shape, axes: Shape, keepdims: bool) -> Shape:
    """Return the shape that is left when axes are reduced away."""
    if keepdims:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def lanes(x: ReferenceArray, axes: Shape) -> list[list[Value]]:
    """Cut an array into the lists of values that lie along some axes.

    Parameters
    ----------
    x : array
    axes : tuple of int
        The axes along which each list runs, normalized.

    Returns
    -------
    list of list
        One list for each position along the remaining axes, in row-major order.
    """
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    order = (*kept, *axes)
    strides = strides_of(x.shape)
    size = math.prod(x.shape[axis] for axis in axes)
    count = math.prod(x.shape[axis] for axis in kept)
    values = x.values
    if order != tuple(range(x.ndim)):
        shape = tuple(x.shape[axis] for axis in order)
        values = [values[i] for i in offsets(shape, [strides[axis] for axis in order])]
    return [values[i * size : (i + 1) * size] for i in range(count)]
