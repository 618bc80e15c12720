"""Short ways of one array, in Python: a call that was seen before calls the library at once.

The first time the function runs it, and `corepy.dispatch._lessons` tells what the library was given
in the end. Arguments go into keys only where equal ones mean the same: 1, 1.0 and True are equal,
too. The sizes of an array do where the function looks at them; that there are elements is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import maxsize
from threading import get_ident
from typing import Any, Final, NamedTuple

from corepy._dtypes import DType
from corepy._signals import let_through
from corepy.backends._base import Native
from corepy.dispatch._lessons import LEARNING, Lesson

Function = Callable[..., Any]

#: Calls that a table remembers; then it starts anew.
_MOST: Final = 512
#: The class whose instances results are.
_Array: Any = None


def bind(cls: type) -> None:
    """Tell the short ways which class the results have."""
    global _Array
    _Array = cls


# ---------------------------------------------------------------------------- what is learned


class _Known(NamedTuple):
    """A call of the library that was seen: on an array, for how few elements, into which table."""

    call: Callable[[Native], Any]
    least: int | None  # None where arrays do not tell their number by an attribute
    result: Any


#: Calls by the names of what comes after the array: unpacking these would take longer than all the
#: rest. Others are unpacked.
_CALLS: Final[dict[tuple[int, tuple[str, ...]], Function]] = {
    (0, ()): lambda f: f,
    (0, ("axis",)): lambda f, axis: lambda a: f(a, axis=axis),
    (0, ("axes",)): lambda f, axes: lambda a: f(a, axes=axes),
    (0, ("axis", "keepdims")): lambda f, axis, keepdims: (
        lambda a: f(a, axis=axis, keepdims=keepdims)
    ),
    (0, ("axis", "keepdims", "dtype")): lambda f, axis, keepdims, dtype: (
        lambda a: f(a, axis=axis, keepdims=keepdims, dtype=dtype)
    ),
    (0, ("axis", "descending", "stable")): lambda f, axis, descending, stable: (
        lambda a: f(a, axis=axis, descending=descending, stable=stable)
    ),
    (1, ("copy",)): lambda f, value, copy: lambda a: f(a, value, copy=copy),
}


def _call(small: Any, x: Native, rest: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return a call of a library again, of the array alone.

    Its function may have an attribute ``bound``, which makes a quicker one for arrays of a dtype. A
    guard goes on looking at their sizes.
    """
    around = getattr(small, "around", None)
    if around is not None:
        choice = small.choice
        own = _call(small.small, x, rest, params)
        return around(own, lambda args, _: choice((*args, *rest), params))
    bound = getattr(small, "bound", None)
    if bound is not None:
        return bound(x, *rest, **params)
    make = _CALLS.get((len(rest), tuple(params)))
    if make is None:
        return lambda a: small(a, *rest, **params)
    return make(small, *rest, **params)


def _again(key: Any, x: Any) -> Any:
    """Call the library as it was called before; None where the function has to be asked."""
    known = x._table.calls.get(key)
    if known is None:
        return None
    call, least, result = known
    a = x._native
    if 0 in a.shape if least is None else not 0 < a.size < least:
        return None
    try:
        made = call(a)
    except Exception as error:  # the function raises it again, in its own words
        let_through(error)
        return None
    if made.__class__ is not a.__class__:
        made = result.backend.normalize(made)
    array = _Array()
    array._native = made
    array._table = result
    return array


def _learn(key: Any, function: Function, x: Any, *args: Any, **params: Any) -> Any:
    """Call the function, and keep what it passes to the library for calls that are written alike.

    Only if that is one operation on the array, whose result the function returns as it is.
    """
    thread, calls = get_ident(), x._table.calls
    if key in calls or thread in LEARNING:  # the latter within a function that is being learned
        return function(x, *args, **params)
    lessons: list[Lesson] = []
    LEARNING[thread] = lessons
    try:
        made = function(x, *args, **params)
    finally:
        del LEARNING[thread]
    if len(lessons) == 1 and lessons[0].first is x and made.__class__ is _Array:
        name, _, rest, given = lessons[0]
        entry = calls.get(name)
        if entry is not None:
            if len(calls) > _MOST:
                for old in list(calls):
                    if old.__class__ is tuple:
                        calls.pop(old, None)
            call = _call(entry[0], x._native, rest, given)
            calls[key] = _Known(call, _least(entry[1], x._native), made._table)
    return made


def _least(least: int | None, x: Native) -> int | None:
    """Return a number beyond any size instead of None where a size is there to look at.

    CuPy makes a shape anew each time, which takes as long as all the rest.
    """
    return maxsize if least is None and x.size.__class__ is int else least


# ---------------------------------------------------------------------------- by signature


def plain(name: str, function: Function) -> Function:
    def way(x: Any, /) -> Any:
        if x.__class__ is _Array and x._table.calls:
            key = name, x._native.ndim
            made = _again(key, x)
            return _learn(key, function, x) if made is None else made
        return function(x)

    return way


def reduction(name: str, function: Function) -> Function:
    def way(x: Any, /, *, axis: Any = None, keepdims: Any = False) -> Any:
        if (
            x.__class__ is _Array
            and (axis is None or axis.__class__ is int)
            and keepdims.__class__ is bool
            and x._table.calls
        ):
            key = name, x._native.ndim, axis, keepdims
            made = _again(key, x)
            return _learn(key, function, x, axis=axis, keepdims=keepdims) if made is None else made
        return function(x, axis=axis, keepdims=keepdims)

    return way


def accumulation(name: str, function: Function) -> Function:
    def way(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
        if (
            x.__class__ is _Array
            and (axis is None or axis.__class__ is int)
            and dtype is None
            and keepdims.__class__ is bool
            and x._table.calls
        ):
            key = name, x._native.ndim, axis, keepdims
            made = _again(key, x)
            return _learn(key, function, x, axis=axis, keepdims=keepdims) if made is None else made
        return function(x, axis=axis, dtype=dtype, keepdims=keepdims)

    return way


def spread(name: str, function: Function) -> Function:
    def way(x: Any, /, *, axis: Any = None, correction: Any = 0.0, keepdims: Any = False) -> Any:
        if (
            x.__class__ is _Array
            and (axis is None or axis.__class__ is int)
            and (correction.__class__ is float or correction.__class__ is int)
            and keepdims.__class__ is bool
            and x._table.calls
        ):
            key = name, x._native.ndim, axis, correction, keepdims
            made = _again(key, x)
            return (
                _learn(key, function, x, axis=axis, correction=correction, keepdims=keepdims)
                if made is None
                else made
            )
        return function(x, axis=axis, correction=correction, keepdims=keepdims)

    return way


def running(name: str, function: Function) -> Function:
    def way(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: Any = False) -> Any:
        if (
            x.__class__ is _Array
            and (axis is None or axis.__class__ is int)
            and dtype is None
            and include_initial is False
            and x._table.calls
        ):
            key = name, x._native.ndim, axis
            made = _again(key, x)
            return _learn(key, function, x, axis=axis) if made is None else made
        return function(x, axis=axis, dtype=dtype, include_initial=include_initial)

    return way


def ordering(name: str, function: Function) -> Function:
    def way(x: Any, /, *, axis: Any = -1, descending: Any = False, stable: Any = True) -> Any:
        if (
            x.__class__ is _Array
            and axis.__class__ is int
            and descending.__class__ is bool
            and stable.__class__ is bool
            and x._table.calls
        ):
            key = name, x._native.ndim, axis, descending, stable
            made = _again(key, x)
            return (
                _learn(key, function, x, axis=axis, descending=descending, stable=stable)
                if made is None
                else made
            )
        return function(x, axis=axis, descending=descending, stable=stable)

    return way


def reversal(name: str, function: Function) -> Function:
    def way(x: Any, /, *, axis: Any = None) -> Any:
        if x.__class__ is _Array and (axis is None or axis.__class__ is int) and x._table.calls:
            key = name, x._native.ndim, axis
            made = _again(key, x)
            return _learn(key, function, x, axis=axis) if made is None else made
        return function(x, axis=axis)

    return way


def along(name: str, function: Function) -> Function:
    def way(x: Any, /, axis: Any) -> Any:
        if x.__class__ is _Array and axis.__class__ is int and x._table.calls:
            key = name, x._native.shape, axis
            made = _again(key, x)
            return _learn(key, function, x, axis) if made is None else made
        return function(x, axis)

    return way


def are_ints(values: Any) -> bool:
    """Say whether a value is a tuple of ints and of nothing that is equal to one."""
    if values.__class__ is not tuple:
        return False
    for value in values:  # noqa: SIM110  `all` takes longer
        if value.__class__ is not int:
            return False
    return True


def permutation(name: str, function: Function) -> Function:
    def way(x: Any, /, axes: Any) -> Any:
        if x.__class__ is _Array and are_ints(axes) and x._table.calls:
            key = name, x._native.ndim, axes
            made = _again(key, x)
            return _learn(key, function, x, axes) if made is None else made
        return function(x, axes)

    return way


def reshaping(name: str, function: Function) -> Function:
    def way(x: Any, /, shape: Any, *, copy: Any = None) -> Any:
        if x.__class__ is _Array and copy is None and are_ints(shape) and x._table.calls:
            key = name, x._native.shape, shape
            made = _again(key, x)
            return _learn(key, function, x, shape) if made is None else made
        return function(x, shape, copy=copy)

    return way


def casting(name: str, function: Function) -> Function:
    def way(x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Any:
        if (
            x.__class__ is _Array
            and dtype.__class__ is DType
            and copy.__class__ is bool
            and device is None
            and x._table.calls
        ):
            key = name, dtype, copy
            made = _again(key, x)
            return _learn(key, function, x, dtype, copy=copy) if made is None else made
        return function(x, dtype, copy=copy, device=device)

    return way
