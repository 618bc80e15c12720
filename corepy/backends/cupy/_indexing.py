"""Reading and writing by keys and by indices, and operators that write in place."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import cupy

from corepy.backends._slices import broadcast_together, within

Array = Any
Function = Callable[..., Any]


def getitem(x: Array, key: Any) -> Array:
    if key.__class__ is slice:
        try:
            return x[key]
        except (IndexError, OverflowError):  # of bounds that are no integers of C
            if x.ndim:  # keys of several parts have none (`native_key`)
                key = within(key, x.shape[0])
            return x[key]
    if key.__class__ is not int:
        _look_at_key(x, key)
    return x[key]


#: What selects by an int or a slice alone, unless it raises an exception.
getitem.plain = operator.getitem  # type: ignore[attr-defined]


def setitem(x: Array, key: Any, value: Array) -> Array:
    _look_at_key(x, key)
    several = isinstance(key, tuple)
    where = tuple(_elsewhere(x, part) for part in key) if several else _elsewhere(x, key)
    x[where] = _elsewhere(x, value)
    return x


def _elsewhere(x: Array, other: Any) -> Any:
    """As `_apart`, of `x` itself too: a key may turn it round, or be it."""
    return other.copy() if other is x else _apart(x, other)


def _look_at_key(x: Array, key: Any) -> None:
    """Refuse integers beyond their axis, which CuPy wraps in arrays, and arrays that do not fit.

    https://docs.cupy.dev/en/stable/user_guide/difference.html#out-of-bounds-indices
    """
    parts = key if isinstance(key, tuple) else (key,)
    for part in parts:  # `any` takes longer
        if isinstance(part, cupy.ndarray):
            break
    else:
        return
    axis, used, shapes = 0, sum(map(_width, parts)), []
    for part in parts:
        if part is Ellipsis:
            axis += x.ndim - used
            continue
        if isinstance(part, cupy.ndarray) and part.dtype.kind in "iu" and axis < x.ndim:
            _within(part, x.shape[axis], axis)
            shapes.append(part.shape)
        axis += _width(part)
    broadcast_together(shapes)


def _width(part: Any) -> int:
    """Return how many axes a part of a key indexes."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, cupy.ndarray) and part.dtype.kind == "b" else 1


def _within(indices: Array, length: int, axis: int) -> None:
    if indices.size and not (-length <= int(indices.min()) and int(indices.max()) < length):
        raise IndexError(f"indices reach beyond axis {axis} of size {length}")


def _apart(x: Array, other: Array) -> Array:
    """Return an operand in memory of its own if what is written into `x` could change it.

    CuPy's kernels read what others of their threads have just written.
    """
    if not isinstance(other, cupy.ndarray):
        return other  # a Python scalar, or a part of a key
    return other.copy() if other is not x and cupy.may_share_memory(x, other) else other


def take(x: Array, indices: Array, *, axis: int) -> Array:
    _within(indices, x.shape[axis], axis)
    return cupy.take(x, indices, axis)


def take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    _within(indices, x.shape[axis], axis)
    return cupy.take_along_axis(x, indices, axis)


def repeat(x: Array, repeats: Any, *, axis: int | None) -> Array:
    # An array of counts is taken since CuPy 14 only; the shape needs them on the host anyway.
    counts = repeats.tolist() if isinstance(repeats, cupy.ndarray) else repeats
    return cupy.repeat(x, counts, axis)


def inplace(write: Function) -> Function:
    def update(x1: Array, x2: Array) -> Array:
        return write(x1, _apart(x1, x2))

    return update


def written(function: Function) -> Function:
    """Write the result of a function with a fix into its first operand."""

    def update(x1: Array, x2: Array) -> Array:
        x1[...] = function(x1, x2)
        return x1

    return update
