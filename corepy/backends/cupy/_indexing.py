"""Reading and writing by keys and by indices, and operators that write in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy

from corepy.backends._keys import axes, broadcast_together, check, is_element, within

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
    if key.__class__ is int:
        return _by_int_or_slice(x, key)
    _look_at_key(x, key)
    try:
        chosen = x[key]
    except ValueError as error:
        raise _refusal(key, error) from error
    parts = key if isinstance(key, tuple) else (key,)
    return chosen.copy() if is_element(chosen, parts) else chosen


def _by_int_or_slice(x: Array, key: int | slice) -> Array:
    chosen = x[key]
    return chosen.copy() if is_element(chosen, (key,)) else chosen


#: What selects by an int or a slice alone, unless it raises an exception.
getitem.plain = _by_int_or_slice  # type: ignore[attr-defined]


def setitem(x: Array, key: Any, value: Array) -> Array:
    _look_at_key(x, key)
    several = isinstance(key, tuple)
    where = tuple(_elsewhere(x, part) for part in key) if several else _elsewhere(x, key)
    try:
        x[where] = _elsewhere(x, value)
    except ValueError as error:
        raise (error if value.shape else _refusal(key, error)) from error  # a scalar fits any key
    return x


def _refusal(key: Any, error: ValueError) -> Exception:
    """Return what to raise of a key that CuPy refuses: arrays beside masks of other lengths."""
    parts = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, slice) and part.step == 0 for part in parts):
        return error
    return IndexError(str(error))


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
    shapes = []
    for part, indexed in zip(parts, axes(parts, x.ndim), strict=True):
        if isinstance(part, cupy.ndarray) and part.dtype.kind in "iu" and indexed.start < x.ndim:
            _check(part, indexed.start, x.shape[indexed.start])
            shapes.append(part.shape)
    broadcast_together(shapes)


def _check(indices: Array, axis: int, size: int) -> None:
    if indices.size:
        check(axis, size, int(indices.min()), int(indices.max()))


def _apart(x: Array, other: Array) -> Array:
    """Return an operand in memory of its own if what is written into `x` could change it.

    CuPy's kernels read what others of their threads have just written.
    """
    if not isinstance(other, cupy.ndarray):
        return other  # a Python scalar, or a part of a key
    return other.copy() if other is not x and cupy.may_share_memory(x, other) else other


def take(x: Array, indices: Array, *, axis: int) -> Array:
    _check(indices, axis, x.shape[axis])
    return cupy.take(x, indices, axis)


def take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    _check(indices, axis, x.shape[axis])
    return cupy.take_along_axis(x, indices, axis)


def repeat(x: Array, repeats: Any, *, axis: int | None) -> Array:
    # An array of counts is taken since CuPy 14 only; the shape needs them on the host anyway.
    counts = repeats.tolist() if isinstance(repeats, cupy.ndarray) else repeats
    return cupy.repeat(x, counts, axis)


def inplace(write: Function) -> Function:
    def update(x1: Array, x2: Array) -> Array:
        return write(x1, _apart(x1, x2))

    return update
