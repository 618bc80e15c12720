"""The hot path in Python: the operations of arrays that need no conversion.

Two arrays with one table need one identity check, one native call and one new object. Whatever
else comes (scalars, other dtypes, native arrays, other backends) goes to the functions that `bind`
was given. ``_hot_compiled.pyx`` has the same names and means the same; `corepy.dispatch._hot`
chooses. No rule stands here or there: both only find out that none is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from corepy._dtypes import DType
from corepy.backends._base import Backend, Native
from corepy.devices._device import Device
from corepy.dispatch._settings import PRIORITY

if TYPE_CHECKING:
    from corepy.dispatch._table import Table

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "Operand",
    "Slots",
    "binary_function",
    "bind",
    "forget_homes",
    "homes",
    "item",
    "make",
    "operator",
    "product",
    "reflected",
    "reflected_product",
    "shortened",
    "unary_function",
    "unary_operator",
]

_mixed: Callable[..., Any]
_beside: Callable[..., Any]
_as_operand: Callable[..., Any]
_recover: Callable[..., Any]
_wrap: Callable[..., Any]


def bind(
    cls: type[Operand],
    mixed: Callable[..., Any],
    beside: Callable[..., Any],
    as_operand: Callable[..., Any],
    wrap: Callable[..., Any],
    recover: Callable[..., Any],
) -> None:
    """Tell the hot path which class the results have, and what handles everything else.

    Parameters
    ----------
    cls : type
    mixed : callable
        ``mixed(name, x1, x2)`` runs a binary operation on whatever came.
    beside : callable
        The same for the operator of an array; what is no operand gives NotImplemented.
    as_operand : callable
        ``as_operand(function, argument, value)`` wraps a native array.
    wrap : callable
        ``wrap(made, table, result)`` binds what a native callable returned to tables.
    recover : callable
        ``recover(name, table, operands, error, native, *args, **params)`` runs once more what
        lacked memory, and raises a library's other errors as those that are documented.
    """
    global _Array, _mixed, _beside, _as_operand, _wrap, _recover
    _Array, _mixed, _beside, _as_operand = cls, mixed, beside, as_operand
    _wrap, _recover = wrap, recover


class Slots(dict[str, Any]):
    """The base of tables. The compiled one also keeps NumPy's inner loops."""

    __slots__ = ("backend", "device", "dtype", "dtypes", "native_dtype", "siblings")

    backend: Backend
    device: Device
    dtype: DType
    dtypes: frozenset[DType]
    native_dtype: Any
    siblings: dict[DType, Any]

    def settle(
        self, name: str, native: Callable[..., Any], result: Slots | None, loop: Any
    ) -> None:
        """Take note of an entry that was stored: nothing to do without inner loops."""


def operator(name: str) -> Callable[[Any, Any], Any]:
    """Make the method of a binary operator, such as ``Array.__add__`` of ``"add"``."""

    def method(self: Any, other: Any, /) -> Any:
        if other.__class__ is _Array:
            table = self._table
            if table is other._table:
                native, out = table[name]
                a = self._native
                try:
                    made = native(a, other._native)
                except Exception as error:
                    operands = self, other
                    made = _recover(name, table, operands, error, native, a, other._native)
                if made.__class__ is not a.__class__:
                    backend = table.backend
                    if backend.home is not None:
                        return _wrap(made, table, out)
                    made = backend.normalize(made)
                array = _Array()
                array._native = made
                array._table = out
                return array
        return _beside(name, self, other)

    return method


def reflected(name: str) -> Callable[[Any, Any], Any]:
    """Make the method of a reflected operator, such as ``Array.__radd__`` of ``"add"``."""

    def method(self: Any, other: Any, /) -> Any:
        return _beside(name, other, self)

    return method


def binary_function(name: str) -> Callable[[Any, Any], Any]:
    """Make the function of a binary operation."""

    def function(x1: Any, x2: Any, /) -> Any:
        if x1.__class__ is _Array and x2.__class__ is _Array:
            table = x1._table
            if table is x2._table:
                native, out = table[name]
                a = x1._native
                try:
                    made = native(a, x2._native)
                except Exception as error:
                    made = _recover(name, table, (x1, x2), error, native, a, x2._native)
                if made.__class__ is not a.__class__:
                    backend = table.backend
                    if backend.home is not None:
                        return _wrap(made, table, out)
                    made = backend.normalize(made)
                array = _Array()
                array._native = made
                array._table = out
                return array
        return _mixed(name, x1, x2)

    return function


def unary_function(name: str) -> Callable[[Any], Any]:
    """Make the function of a unary operation."""

    def function(x: Any, /) -> Any:
        if x.__class__ is not _Array:
            x = _as_operand(name, "x", x)
        table = x._table
        native, out = table[name]
        a = x._native
        try:
            made = native(a)
        except Exception as error:
            made = _recover(name, table, (x,), error, native, a)
        if made.__class__ is not a.__class__:
            backend = table.backend
            if backend.home is not None:
                return _wrap(made, table, out)
            made = backend.normalize(made)
        array = _Array()
        array._native = made
        array._table = out
        return array

    return function


def unary_operator(name: str) -> Callable[[Any], Any]:
    """Make the method of a unary operator, such as ``Array.__neg__`` of ``"negative"``."""

    def method(self: Any, /) -> Any:
        table = self._table
        native, out = table[name]
        a = self._native
        try:
            made = native(a)
        except Exception as error:
            made = _recover(name, table, (self,), error, native, a)
        if made.__class__ is not a.__class__:
            backend = table.backend
            if backend.home is not None:
                return _wrap(made, table, out)
            made = backend.normalize(made)
        return make(made, out)

    return method


def shortened(name: str, function: F, result: Callable[..., Any] | None = None) -> F:
    """Put a short way before the function of an operation: there is none without inner loops.

    Parameters
    ----------
    name : str
        The operation.
    function : callable
        Takes the calls that are not plain, and those that end in an error.
    result : callable, optional
        Makes one result of several arrays.
    """
    return function


def item(function: F) -> F:
    """Keep the method ``Array.__getitem__`` for a short way before it: there is none here."""
    return function


def product(function: F) -> F:
    """Keep the method ``Array.__matmul__`` likewise."""
    return function


def reflected_product(function: F) -> F:
    """Keep the method ``Array.__rmatmul__`` likewise."""
    return function


#: The wish that led to them, and tables of new arrays by the dtype that was named, or by the one
#: that is the default where a device has it.
_homes: tuple[Any, dict[DType, Any], dict[DType, Any]] = (None, {}, {})


def homes(named: bool) -> dict[DType, Any]:
    """Return the tables of new arrays under the wish in force, as far as anybody asked for them.

    Parameters
    ----------
    named : bool
        Whether the dtype was named; else it is a default that gives way where a device lacks it.
    """
    global _homes
    wish = PRIORITY.get()
    found = _homes
    if found[0] is not wish:
        found = _homes = (wish, {}, {})
    return found[1 if named else 2]


def forget_homes() -> None:
    """Forget where new arrays go: there are other backends now."""
    global _homes
    _homes = (_homes[0], {}, {})


class Operand:
    """What the dispatcher sees of an `Array`: a native array, bound to a table.

    Two slots, and no ``__init__``: making one is part of every operation, and calling a Python
    initialiser would cost as much as the rest of the dispatch.
    """

    __slots__ = ("__weakref__", "_native", "_table")

    _native: Native
    _table: Table

    @property
    def dtype(self) -> DType:
        """Data type of the elements."""
        return self._table.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions; None for those a lazy backend does not know yet."""
        shape: Any = self._table.backend.shape_of(self._native)
        return shape  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int | None:
        """Number of elements, None if a dimension is not known."""
        shape = self.shape
        return None if None in shape else math.prod(shape)


#: The class whose instances results are; `corepy.array_api` registers its `Array`.
_Array: type[Operand] = Operand


def make(native: Native, table: Table) -> Any:
    """Bind a native array to its table."""
    result = _Array()
    result._native = native
    result._table = table
    return result
