"""New arrays in Python, where the user's wish has led before.

What the library refuses, the function words, or frees memory for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._signals import let_through
from corepy.backends._base import Native
from corepy.devices._device import Device
from corepy.dispatch._settings import PRIORITY
from corepy.dispatch._short_calls import are_ints
from corepy.dispatch._short_scalars import fitted

Function = Callable[..., Any]

_float64: Final = _dtypes.float64
#: The class whose instances results are.
_Array: Any = None


def bind(cls: type) -> None:
    """Tell the short ways which class the results have."""
    global _Array
    _Array = cls


_Tables = dict[DType, Any]
#: The wish that led to them, and tables of new arrays by the dtype that was named, or by the one
#: that is the default where a device has it; and, by device, these two where that was named.
_homes: tuple[Any, _Tables, _Tables, dict[Device, tuple[_Tables, _Tables]]] = (None, {}, {}, {})
_local_wish: Final = PRIORITY._local.get


def homes(named: bool, device: Device | None = None) -> _Tables:
    """Return the tables of new arrays under the wish in force, as far as anybody asked for them.

    Parameters
    ----------
    named : bool
        Whether the dtype was named; else it is a default that gives way where a device lacks it.
    device : Device or None
        The one that was named.
    """
    global _homes
    wish = PRIORITY.get()
    found = _homes
    if found[0] is not wish:
        found = _homes = (wish, {}, {}, {})
    _, *both, placed = found
    tables = both if device is None else placed.setdefault(device, ({}, {}))
    return tables[0 if named else 1]


def forget_homes() -> None:
    """Forget where new arrays go: there are other backends now."""
    global _homes
    _homes = (_homes[0], {}, {}, {})


#: Of which dtype new arrays of a scalar are.
_DEFAULTS: Final = {int: _dtypes.int64, float: _float64}


def _home(dtype: Any, device: Any, default: DType) -> Any:
    """Return the table of a new array, None where nobody asked for it under the wish in force."""
    wish, named, defaults, placed = _homes
    if wish is not _local_wish(PRIORITY._default):
        return None
    if device is not None:
        if device.__class__ is not Device or device not in placed:
            return None
        named, defaults = placed[device]
    if dtype is None:
        return defaults.get(default)
    return named.get(dtype) if dtype.__class__ is DType else None


def creation(name: str, function: Function) -> Function:
    def way(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
        sizes = (shape,) if shape.__class__ is int else shape if are_ints(shape) else None
        if sizes is not None and device is None:
            wish, named, defaults, _ = _homes
            if wish is _local_wish(PRIORITY._default):
                if dtype is not None and dtype.__class__ is not DType:
                    return function(shape, dtype=dtype)
                try:
                    table: Any = defaults[_float64] if dtype is None else named[dtype]
                    made = table.short[name][0](sizes, table.native_dtype)
                except Exception as error:  # of what is not known as well
                    let_through(error)
                    return function(shape, dtype=dtype)
                array = _Array()
                array._native = made
                array._table = table
                return array
        elif sizes is not None:
            table = _home(dtype, device, _float64)
            known = None if table is None else table.short.get(name)
            if known is not None:
                try:
                    made = known[0](sizes, table.native_dtype)
                except Exception as error:
                    let_through(error)
                    return function(shape, dtype=dtype, device=device)
                return _bound(made, table)
        return function(shape, dtype=dtype, device=device)

    return way


def filling(name: str, function: Function) -> Function:
    def way(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
        if shape.__class__ is int or are_ints(shape):
            default = _DEFAULTS.get(fill_value.__class__)
            table: Any = None if default is None else _home(dtype, device, default)
            known = None if table is None else table.short.get(name)
            if known is not None:
                sizes = shape if shape.__class__ is tuple else (shape,)
                value = fitted(table.dtype, fill_value)
                if value is not None:
                    try:
                        made = known[0](sizes, value, dtype=table.native_dtype, device=table.device)
                    except Exception as error:
                        let_through(error)
                        return function(shape, fill_value, dtype=dtype, device=device)
                    return _bound(made, table)
        return function(shape, fill_value, dtype=dtype, device=device)

    return way


def likeness(name: str, function: Function) -> Function:
    made_by = name.removesuffix("_like")

    def way(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
        if x.__class__ is _Array and dtype is None and device in (None, x._table.device):
            table = x._table
            known = table.short.get(made_by)
            if known is not None:
                a = x._native
                try:
                    made = known[0](a.shape, table.native_dtype)
                except Exception as error:
                    let_through(error)
                    return function(x)
                return _bound(made, table)
        return function(x, dtype=dtype, device=device)

    return way


def filled_likeness(name: str, function: Function) -> Function:
    made_by = name.removesuffix("_like")

    def way(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
        if x.__class__ is _Array and dtype is None and device in (None, x._table.device):
            table = x._table
            known = table.short.get(made_by)
            value = fitted(table.dtype, fill_value)
            if known is not None and value is not None:
                a = x._native
                try:
                    made = known[0](a.shape, value, dtype=table.native_dtype, device=table.device)
                except Exception as error:
                    let_through(error)
                    return function(x, fill_value)
                return _bound(made, table)
        return function(x, fill_value, dtype=dtype, device=device)

    return way


#: What ranges of ints may have as ends, which both dtypes hold.
_END: Final = 2**31


def progression(name: str, function: Function) -> Function:
    def way(
        start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
    ) -> Any:
        if (
            start.__class__ is int
            and (stop is None or stop.__class__ is int)
            and step.__class__ is int
            and step
        ):
            table = _home(dtype, device, _dtypes.int64)
            known = None if table is None else table.short.get(name)
            if (
                known is not None
                and (table.dtype is _dtypes.int64 or table.dtype is _float64)
                and -_END < start < _END
                and (stop is None or -_END < stop < _END)
                and (step == 1 or -_END < step < _END)
            ):
                first, last = (0, start) if stop is None else (start, stop)
                try:
                    made = known[0](
                        first, last, step, dtype=table.native_dtype, device=table.device
                    )
                except Exception as error:
                    let_through(error)
                    return function(start, stop, step, dtype=dtype, device=device)
                return _bound(made, table)
        return function(start, stop, step, dtype=dtype, device=device)

    return way


def _bound(made: Native, table: Any) -> Any:
    array = _Array()
    array._native = made
    array._table = table
    return array
