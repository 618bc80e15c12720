"""The hot path in Python: the operations of arrays that need no conversion.

Two arrays with one table need one identity check, one native call and one new object. Whatever
else comes (scalars, other dtypes, native arrays, other backends) goes to the functions that `bind`
was given. ``_hot_compiled.pyx`` has the same names and means the same; `corepy.dispatch._hot`
chooses. No rule stands here or there: both only find out that none is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from sys import maxsize
from typing import TYPE_CHECKING, Any

from corepy._dtypes import DType
from corepy.backends._base import Backend, Native
from corepy.devices._device import Device
from corepy.dispatch import _short_python
from corepy.dispatch._short_creation import forget_homes, homes
from corepy.dispatch._short_python import item, product, reflected_product, shortened
from corepy.dispatch._short_scalars import SHIFTS, held, squares

if TYPE_CHECKING:
    from corepy._crew import Crew
    from corepy.backends._loop import Loop
    from corepy.dispatch._table import Table

__all__ = [
    "Operand",
    "Slots",
    "adopts",
    "binary_function",
    "bind",
    "forget_homes",
    "guard",
    "helped_by",
    "home",
    "homes",
    "item",
    "let_go",
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
    _short_python.bind(cls)


def helped_by(find: Callable[[float], Crew | None] | None) -> None:
    """Say who knows of threads that help with large elementwise operations; None forgets them all.

    Nobody is asked here: what calls NumPy's inner loops is the compiled form alone.

    Parameters
    ----------
    find : callable
        ``find(seconds)`` returns a `Crew`, or None as long as that does not pay. It is told for how
        long loops have run since it was last asked.
    """


def adopts(native: Native, table: Slots, stays: bool) -> None:
    """Tell the hot path that an array was wrapped as others of its dtype will be.

    Nobody takes note of it here: what wraps arrays of NumPy's at once is the compiled form alone.

    Parameters
    ----------
    native : native array
        As the caller gave it.
    table : Slots
        What it was bound to.
    stays : bool
        Whether `asarray` left it there under the wish in force; else as an operand it went there.
    """


class Slots(dict[str, Any]):
    """The base of tables. The compiled one also keeps NumPy's inner loops.

    Attributes
    ----------
    entries : dict
        What the table holds, in a dict of Python's own class, which answers in 20 ns less.
    """

    __slots__ = (
        "backend",
        "calls",
        "device",
        "dtype",
        "dtypes",
        "entries",
        "native_dtype",
        "repeats",
        "scalars_first",
        "scalars_second",
        "siblings",
    )

    backend: Backend
    device: Device
    dtype: DType
    dtypes: frozenset[DType]
    native_dtype: Any
    siblings: dict[DType, Any]
    short: dict[Any, Any]
    calls: dict[Any, Any]
    scalars_first: frozenset[str]
    scalars_second: frozenset[str]
    repeats: bool
    entries: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.entries = {}

    def __setitem__(self, name: str, entry: Any) -> None:
        super().__setitem__(name, entry)
        self.entries[name] = entry

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        del self.entries[name]

    def clear(self) -> None:
        """Forget every entry."""
        self.entries = {}  # a new one, as of `short`: whoever is about to read sees what was
        super().clear()

    def settle(
        self, name: str, native: Callable[..., Any], result: Slots | None, loop: Any
    ) -> None:
        """Take note of an entry that was stored.

        Parameters
        ----------
        name : str
        native : callable
            With attributes ``small`` and ``least``, if it chooses among several callables: what it
            calls where no operand has so many elements. That may have an attribute ``plain``, which
            takes its place where an array is made of a shape and a native dtype.
        result : Slots or None
        loop : Loop or None
            There is one where the native arrays are NumPy's.
        """
        if loop is None:
            self.short[name] = None  # which is found sooner than that there is nothing
        else:
            # `maxsize` says that there is nothing to choose: nobody asks for sizes, 12 ns each.
            small, least = getattr(native, "small", native), getattr(native, "least", maxsize)
            self.short[name] = getattr(small, "plain", small), least, result


def guard(
    small: Callable[..., Any],
    least: int,
    choice: Callable[[tuple[Any, ...], dict[str, Any]], Any],
    kind: type,
    size: Callable[[Any], int],
) -> Callable[..., Any]:
    """Make the router of an operation on arrays of a library other than NumPy.

    Parameters
    ----------
    small : callable
        Runs operands of which none has so many elements as `least`.
    least : int
    choice : callable
        Runs the others: takes the operands, and the keyword arguments.
    kind : type
        The class of the arrays; what is of another one counts as small.
    size : callable
        Counts the elements of an array.

    Returns
    -------
    callable
        With these as attributes, and ``around``, which makes the same of another `small` and
        `choice`, for one array alone.
    """

    def call(*args: Any, **params: Any) -> Any:
        for x in args:
            if x.__class__ is kind and size(x) >= least:
                return choice(args, params)
        return small(*args, **params)

    def around(small: Callable[[Any], Any], choice: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda x: small(x) if size(x) < least else choice((x,), {})

    vars(call).update(small=small, least=least, choice=choice, around=around)
    return call


def home(
    table: Slots,
    name: str,
    native: Callable[..., Any],
    result: Slots | None,
    loop: Loop | None,
) -> Callable[..., Any]:
    """Return what computes an operation in its own backend, on arrays of any size.

    In Python that is the backend's callable; compiled, the loops beside the tables come first.

    Parameters
    ----------
    table : Slots
        Of the operands.
    name : str
    native : callable
        The backend's.
    result : Slots or None
        As of `Slots.settle`.
    loop : Loop or None
        As of `Slots.settle`.
    """
    return native


def operator(name: str) -> Callable[[Any, Any], Any]:
    """Make the method of a binary operator, such as ``Array.__add__`` of ``"add"``."""
    beyond = name in SHIFTS
    kept: tuple[Any, Any] = None, None  # the last float, mostly a constant, as an array

    def method(self: Any, other: Any, /) -> Any:
        nonlocal kept
        table = self._table
        a = self._native
        if other.__class__ is _Array:
            if table is not other._table:
                return _beside(name, self, other)
            b = other._native
            try:
                native, out = table.entries[name]
            except KeyError:
                native, out = table[name]
        else:
            known: Any = table.short.get(name)
            few = known is not None and (known[1] is maxsize or a.size < known[1])
            if other.__class__ is float and table.of_float is not None:
                if few:
                    number, b = kept
                    if number is not other:
                        b = table.of_few(other)
                        kept = other, b
                else:
                    b = table.of_float(other)
            else:
                b = None if beyond else held(table, other, name, table.scalars_second)
                if b is None:
                    return _beside(name, self, other)
            native, out = (known[0], known[2]) if few else table[name]
        try:
            made = native(a, b)
        except Exception as error:
            made = _recover(name, table, (self, other), error, native, a, b)
        if made.__class__ is not a.__class__:
            backend = table.backend
            if backend.home is not None:
                return _wrap(made, table, out)
            made = backend.normalize(made)
        array = _Array()
        array._native = made
        array._table = out
        return array

    return _squaring(method) if name == "pow" else method


def _squaring(power: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Put squares before powers to a Python scalar."""
    square = unary_function("square")

    @wraps(power)  # for its signature
    def function(x1: Any, x2: Any, /) -> Any:
        if x1.__class__ is _Array and squares(x1._table.dtype, x2):
            return square(x1)
        return power(x1, x2)

    return function


def reflected(name: str) -> Callable[[Any, Any], Any]:
    """Make the method of a reflected operator, such as ``Array.__radd__`` of ``"add"``."""

    def method(self: Any, other: Any, /) -> Any:
        table = self._table
        if other.__class__ is float and table.of_float is not None:
            b = table.of_float(other)
        else:
            b = held(table, other, name, table.scalars_first)
            if b is None:
                return _beside(name, other, self)
        a = self._native
        known = table.short.get(name)
        if known is None:
            if name not in table:  # a refusal of its own would name x1
                return _beside(name, other, self)
            native, out = table[name]
        else:
            native, least, out = known
            if least is not maxsize and a.size >= least:
                native, out = table[name]
        try:
            made = native(b, a)
        except Exception as error:
            made = _recover(name, table, (self,), error, native, b, a)
        if made.__class__ is not a.__class__:
            return _wrap(made, table, out)
        array = _Array()
        array._native = made
        array._table = out
        return array

    return method


def binary_function(name: str) -> Callable[[Any, Any], Any]:
    """Make the function of a binary operation."""
    beyond = name in SHIFTS
    kept: tuple[Any, Any] = None, None  # the last float, mostly a constant, as an array

    def function(x1: Any, x2: Any, /) -> Any:
        nonlocal kept
        if x1.__class__ is not _Array:
            return _mixed(name, x1, x2)
        table = x1._table
        a = x1._native
        if x2.__class__ is _Array:
            if table is not x2._table:
                return _mixed(name, x1, x2)
            b = x2._native
            try:
                native, out = table.entries[name]
            except KeyError:
                native, out = table[name]
        else:
            known: Any = table.short.get(name)
            few = known is not None and (known[1] is maxsize or a.size < known[1])
            if x2.__class__ is float and table.of_float is not None:
                if few:
                    number, b = kept
                    if number is not x2:
                        b = table.of_few(x2)
                        kept = x2, b
                else:
                    b = table.of_float(x2)
            else:
                b = None if beyond else held(table, x2, name, table.scalars_second)
                if b is None:
                    return _mixed(name, x1, x2)
            native, out = (known[0], known[2]) if few else table[name]
        try:
            made = native(a, b)
        except Exception as error:
            made = _recover(name, table, (x1, x2), error, native, a, b)
        if made.__class__ is not a.__class__:
            backend = table.backend
            if backend.home is not None:
                return _wrap(made, table, out)
            made = backend.normalize(made)
        array = _Array()
        array._native = made
        array._table = out
        return array

    return _squaring(function) if name == "pow" else function


def unary_function(name: str) -> Callable[[Any], Any]:
    """Make the function of a unary operation."""

    def function(x: Any, /) -> Any:
        if x.__class__ is not _Array:
            x = _as_operand(name, "x", x)
        table = x._table
        a = x._native
        try:
            native, out = table.entries[name]
        except KeyError:
            native, out = table[name]
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
        a = self._native
        try:
            native, out = table.entries[name]
        except KeyError:
            native, out = table[name]
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


def let_go() -> None:
    """Let go of the small arrays that wait for the next results: here none do."""


def make(native: Native, table: Table) -> Any:
    """Bind a native array to its table."""
    result = _Array()
    result._native = native
    result._table = table
    return result
