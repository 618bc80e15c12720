"""Short ways of several arrays, of arrays and scalars, and of keys, in Python.

They need no argument converted, so they call the library with what came. What it refuses, shapes
that do not fit or indices out of bounds, the function words.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import maxsize
from typing import Any, Final

from corepy import _dtypes
from corepy._signals import let_through
from corepy.backends._base import Native
from corepy.dispatch._settings import STRICT
from corepy.dispatch._short_scalars import held

Function = Callable[..., Any]

#: The class whose instances results are.
_Array: Any = None


def bind(cls: type) -> None:
    """Tell the short ways which class the results have."""
    global _Array
    _Array = cls


def choice(name: str, function: Function) -> Function:
    def way(condition: Any, x1: Any, x2: Any, /) -> Any:
        if condition.__class__ is _Array and x1.__class__ is _Array:
            flags, table = condition._table, x1._table
            known = table.short.get(name)
            if (
                known is not None
                and flags.dtype is _dtypes.bool
                and flags.backend is table.backend
                and flags.device is table.device
            ):
                small, least, result = known
                c, a = condition._native, x1._native
                if x2.__class__ is not _Array:
                    b = held(table, x2)
                else:
                    b = x2._native if x2._table is table else None
                if b is not None and (
                    least is maxsize or (c.size < least and a.size < least and b.size < least)
                ):
                    try:
                        made = small(c, a, b)
                    except Exception as error:
                        let_through(error)
                        return function(condition, x1, x2)
                    if made.__class__ is not a.__class__:
                        made = table.normalize(made)
                    array = _Array()
                    array._native = made
                    array._table = result
                    return array
        return function(condition, x1, x2)

    return way


def _bound(made: Native, like: Native, table: Any) -> Any:
    if made.__class__ is not like.__class__:
        made = table.normalize(made)
    array = _Array()
    array._native = made
    array._table = table
    return array


def product(name: str, function: Function) -> Function:
    def way(x1: Any, x2: Any, /) -> Any:
        if x1.__class__ is _Array and x2.__class__ is _Array:
            table = x1._table
            if table is x2._table:
                try:
                    small, least, result = table.calls[name]
                except (KeyError, TypeError):  # of None: nothing is to be known
                    return function(x1, x2)
                a, b = x1._native, x2._native
                if least is None or (a.size < least and b.size < least):
                    try:
                        made = small(a, b)
                    except Exception as error:
                        let_through(error)
                        return function(x1, x2)
                    if made.__class__ is not a.__class__:
                        made = table.normalize(made)
                    array = _Array()
                    array._native = made
                    array._table = result
                    return array
        return function(x1, x2)

    return way


def joining(name: str, function: Function) -> Function:
    def way(arrays: Any, /, *, axis: Any = 0) -> Any:
        if (arrays.__class__ is tuple or arrays.__class__ is list) and arrays:
            first = arrays[0]
            if first.__class__ is _Array and axis.__class__ is int and axis == 0:
                table = first._table
                known = table.short.get(name)
                if known is not None:
                    small, least, result = known
                    natives = []
                    for x in arrays:
                        if x.__class__ is not _Array or x._table is not table:
                            break
                        a = x._native
                        if a.size >= least:
                            break
                        natives.append(a)
                    else:
                        try:
                            made = small(natives, axis=0)
                        except Exception as error:
                            let_through(error)
                            return function(arrays, axis=axis)
                        return _bound(made, a, result)
        return function(arrays, axis=axis)

    return way


def taking(name: str, function: Function) -> Function:
    def way(x: Any, indices: Any, /, *, axis: Any = None) -> Any:
        if (
            x.__class__ is _Array
            and indices.__class__ is _Array
            and (axis is None or axis.__class__ is int)
        ):
            table = x._table
            known = table.short.get(name)
            there = indices._table
            if (
                known is not None
                and there.dtype is _dtypes.int64
                and there.backend is table.backend
                and there.device is table.device
            ):
                small, least, result = known
                a, i = x._native, indices._native
                ndim = a.ndim
                if axis is None and ndim == 1:
                    axis = 0
                if axis is not None and 0 <= axis < ndim and 0 < a.size < least and i.size < least:
                    try:
                        made = small(a, i, axis=axis)
                    except Exception as error:
                        let_through(error)
                        return function(x, indices, axis=axis)
                    return _bound(made, a, result)
        return function(x, indices, axis=axis)

    return way


def clamp(name: str, function: Function) -> Function:
    def way(x: Any, /, min: Any = None, max: Any = None) -> Any:  # noqa: A002
        if x.__class__ is _Array:
            table = x._table
            known = table.short.get(name)
            if known is not None:
                small, least, _ = known
                a = x._native
                low, high = held(table, min), held(table, max)
                if low is not None and high is not None and a.size < least:
                    try:
                        made = small(a, min=low, max=high)
                    except Exception as error:
                        let_through(error)
                        return function(x, min, max)
                    return _bound(made, a, table)
        return function(x, min, max)

    return way


# ---------------------------------------------------------------------------- keys

_BOUNDS: Final = frozenset({int, type(None)})
_PARTS: Final = frozenset({int, type(None), type(...)})


def is_slice(key: slice) -> bool:
    """Say whether a slice's bounds and step are ints of Python's, or None."""
    return (
        key.start.__class__ in _BOUNDS
        and key.stop.__class__ in _BOUNDS
        and key.step.__class__ in _BOUNDS
    )


def _are_parts(key: tuple[Any, ...]) -> bool:
    filled = False
    for part in key:
        if part is ...:
            if filled:  # of which not every library says that there may be one
                return False
            filled = True
        elif part.__class__ not in _PARTS and not (part.__class__ is slice and is_slice(part)):
            return False
    return True


def item(function: Function) -> Function:
    """Make the short way of the method ``Array.__getitem__``."""

    def method(self: Any, key: Any, /) -> Any:
        table = self._table
        try:
            call, least, quicker = table.calls["__getitem__"]
        except (KeyError, TypeError):  # of None: nothing is to be known
            return function(self, key)
        if STRICT.touched:
            return function(self, key)
        a, place, kind = self._native, key, key.__class__
        if kind is int:
            call = quicker or call
        elif kind is slice:
            start, stop, step = key.start, key.stop, key.step
            if (  # `is_slice`, without a call
                (start is not None and start.__class__ is not int)
                or (stop is not None and stop.__class__ is not int)
                or (step is not None and step.__class__ is not int)
            ):
                return function(self, key)
            call = quicker or call
        elif kind is _Array:
            there, place = key._table, key._native
            if (
                there.backend is not table.backend
                or there.device is not table.device
                or there.dtype.rank > 1
                or there.dtype is _dtypes.uint64
                or 0 in a.shape
                or (least is not None and place.size >= least)
            ):
                return function(self, key)
        elif kind not in _PARTS and not (kind is tuple and _are_parts(key)):
            return function(self, key)
        try:
            made = call(a, place)
        except Exception as error:
            let_through(error)
            return function(self, key)
        if made.__class__ is not a.__class__:
            made = table.normalize(made)
        array = _Array()
        array._native = made
        array._table = table
        return array

    return method
