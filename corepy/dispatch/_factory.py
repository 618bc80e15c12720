"""Functions and operators of one and two arrays.

Two arrays with one table take the hot path (`corepy.dispatch._hot`). Whatever else comes (scalars,
other dtypes, native arrays, other backends) goes the slow way, which checks and converts and then
makes the same native call. It is written once, here, for both forms of the hot path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, cast

from corepy import _dtypes
from corepy._dtypes import PROMOTION, DType, Scalar
from corepy._errors import bad_argument, bad_type, broadcast_mismatch, wrong_dtype
from corepy.backends._base import Native
from corepy.dispatch import _hot
from corepy.dispatch._fallback import INPLACE
from corepy.dispatch._hot import Operand, make
from corepy.dispatch._operands import (
    SCALARS,
    as_companion,
    as_operand,
    cast_to,
    converted,
    fitting,
    gathered,
    is_operand,
    plain,
    promoted,
    scalar_dtype,
    scalar_of,
    unify,
)
from corepy.dispatch._operations import OPERATIONS, declare, same
from corepy.dispatch._run import _BROADCASTING, rebound, recover, wrap
from corepy.dispatch._settings import STRICT
from corepy.dispatch._short_scalars import SHIFTS
from corepy.dispatch._table import Entry, Table

F = TypeVar("F", bound=Callable[..., Any])
X = TypeVar("X", bound=Operand)
X_co = TypeVar("X_co", bound=Operand, covariant=True)

#: What powers to a Python scalar of 2 are: every way to them rounds alike.
_square: Final = _hot.unary_function("square")


def register_array_class(cls: type[Operand]) -> None:
    """Tell the dispatcher which class the results have."""
    _hot.bind(cls, mixed, beside, as_operand, wrap, recover)


class UnaryFunction(Protocol[X_co]):
    """A function of one array."""

    def __call__(self, x: Any, /) -> X_co: ...


class BinaryFunction(Protocol[X_co]):
    """A function of two arrays, or of an array and a scalar."""

    def __call__(self, x1: Any, x2: Any, /) -> X_co: ...


# ---------------------------------------------------------------------------- two operands


def binary(
    name: str,
    dtypes: frozenset[DType],
    doc: str,
    result: Callable[[DType], DType] = same,
    widened: frozenset[DType] = frozenset(),
) -> BinaryFunction[Any]:
    """Declare an elementwise operation of two operands and make its function.

    Parameters
    ----------
    name : str
        The standard's name.
    dtypes : frozenset of DType
        What the promoted operands may be.
    doc : str
        Its docstring.
    result : callable
        Dtype of the result by that of the promoted operands.
    widened : frozenset of DType
        Dtypes that become the default floating-point one first, outside strict mode.
    """
    declare(name, dtypes, result, "x1", widened)
    _BROADCASTING.add(name)

    return _named(_hot.binary_function(name), name, doc)


def operator(name: str) -> Callable[[X, Any], X]:
    """Make the method of a binary operator, such as ``Array.__add__`` of ``"add"``."""
    return _named(_hot.operator(name), name, f"Operator form of ``{name}``.")


def reflected(name: str) -> Callable[[X, Any], X]:
    """Make the method of a reflected operator, such as ``Array.__radd__`` of ``"add"``."""
    return _named(_hot.reflected(name), name, f"Operator form of ``{name}``, the operands swapped.")


def beside(name: str, x1: Any, x2: Any) -> Any:
    """Run the operator of an array beside whatever came; what is no operand, Python decides on."""
    if x2.__class__ in SCALARS:
        return _with_scalar(name, x1, x2, "x2")
    x, other, argument = (x1, x2, "x2") if isinstance(x1, Operand) else (x2, x1, "x1")
    if is_operand(other):
        return mixed(name, x1, x2)
    if isinstance(other, _MISTAKEN.get(name, ())) or (
        name in _EQUALITY and (STRICT.get() or _leaves_it(other, x))
    ):
        raise bad_type(name, argument, other, "an array or a scalar")
    return NotImplemented


#: By operation, what Python would take: repeat as often as an integer of no dimensions says, or
#: find to be another object, and so unequal, whatever the values are.
_MISTAKEN: Final = {
    "multiply": (list, tuple, str, bytes, bytearray),
    **dict.fromkeys(("equal", "not_equal"), (list, tuple)),
}
_EQUALITY: Final = frozenset({"equal", "not_equal"})


def _leaves_it(other: Any, x: Any) -> bool:
    """Say whether an array of NumPy's that is no operand leaves comparisons to an `Array`.

    Those do whose class has ufuncs of its own, as for units, and no higher priority.
    """
    if len(type(other).__mro__) < 3:  # at once of None and strings: it is no subclass
        return False
    import numpy as np

    if not isinstance(other, np.ndarray) or isinstance(other, np.ma.MaskedArray):
        return False
    return bool(other.__array_priority__ < x.__array_priority__)


def mixed(name: str, x1: Any, x2: Any) -> Any:
    """Run a binary operation on whatever came: the slow way."""
    x1, x2 = plain(x1), plain(x2)
    scalars = x1.__class__ in SCALARS, x2.__class__ in SCALARS
    if scalars == (False, True):
        return _with_scalar(name, as_operand(name, "x1", x1), x2, "x2")
    if scalars == (True, False):
        return _with_scalar(name, as_operand(name, "x2", x2), x1, "x1")
    if scalars == (False, False):
        first, second = isinstance(x1, Operand), isinstance(x2, Operand)
        if not (first and second):
            home = x1._table if first else x2._table if second else None
            x1, x2 = as_companion(name, "x1", x1, home), as_companion(name, "x2", x2, home)
            if second and home is not None:  # the `Array` leads, as in `unify`
                x1 = gathered(name, "x2", home, "x1", x1)
        done = _unconverted(name, x1, x2)
        if done is not None:
            return done
    a, b = unify(name, ("x1", "x2"), (x1, x2))
    return _call(name, a._table, (a, b), (x1, x2))


def _with_scalar(name: str, x: Operand, value: Any, argument: str) -> Any:
    """Run a binary operation on an array and a Python scalar, which `argument` names."""
    first = argument == "x1"
    wide, other = _beside(name, x, value, argument)
    if not first and name == "pow" and value == 2:
        return _square(wide)
    table = wide._table
    native, out = _entry(name, table, (value, x) if first else (x, value))
    a = wide._native
    try:
        made = native(other, a) if first else native(a, other)
    except Exception as error:
        args = (other, a) if first else (a, other)
        made = recover(name, table, (wide,), error, native, *args)
    if made.__class__ is not a.__class__:
        return wrap(made, table, table if out is None else out)
    return make(made, table if out is None else out)


def _beside(name: str, x: Operand, value: Any, argument: str) -> tuple[Operand, Native]:
    """Return an array and a scalar of one dtype: its native form, or as the operation takes it."""
    dtype = x._table.dtype
    if value.__class__ is not float or dtype is not _dtypes.float64:  # what most programs write
        if name in SHIFTS and argument == "x2" and value.__class__ is int and value < 0:
            raise bad_argument(name, argument, value, "a shift of at least 0")
        wide = scalar_dtype(name, argument, value, dtype)
        dtype = wide if wide is dtype else x._table.narrowed(wide)
        value = fitting(name, argument, value, dtype)
        x = cast_to(x, dtype, name)
    table = x._table
    if name in (table.scalars_second if argument == "x2" else table.scalars_first):
        return x, value
    return x, scalar_of(table, value, name)


def _unconverted(name: str, x1: Operand, x2: Operand) -> Any:
    """Run on two dtypes of one kind without converting, where the backend promotes by itself."""
    home = x1._table
    if x2._table.backend.home is None:
        x2 = gathered(name, "x1", home, "x2", x2)
    elif x2._table.backend is not home.backend:
        return None  # its values are resident: `unify` brings the other operand to it
    other = x2._table
    if home is other:
        return _call(name, home, (x1, x2), (x1, x2))
    if home.backend.promotes and (home.dtype, other.dtype) in PROMOTION:
        table = home.sibling(promoted(name, home.dtype, other.dtype), name)
        return _call(name, table, (x1, x2), (x1, x2))
    return None


def _call(name: str, table: Table, operands: tuple[Any, Any], given: tuple[Any, Any]) -> Any:
    """Run a binary operation on converted operands; errors name those that were `given`."""
    native, out = _entry(name, table, given)
    args = [x._native for x in operands]
    try:
        made = native(*args)
    except Exception as error:
        made = recover(name, table, operands, error, native, *args)
    return wrap(made, table, out)


def _entry(name: str, table: Table, given: tuple[Any, Any]) -> Entry:
    """Return the entry of a binary operation for the dtype that its operands have in common.

    Raises
    ------
    TypeError
        If the operation is not for that dtype; it names the operand that brings it.
    """
    try:
        entry: Entry = table[name]
    except TypeError:
        dtypes = OPERATIONS[name].dtypes
        if table.dtype in dtypes:
            raise
        expected = _dtypes.describe(dtypes)
        operands = list(zip(("x1", "x2"), given, strict=True))
        for argument, x in operands:
            if x.__class__ not in SCALARS:
                there = as_operand(name, argument, x)._table
                if there.dtype not in dtypes:
                    raise wrong_dtype(name, argument, there.dtype, there.device, expected) from None
        for argument, x in operands:
            if x.__class__ in SCALARS:
                raise bad_type(name, argument, x, f"a scalar of {expected}") from None
        raise
    return entry


# ---------------------------------------------------------------------------- in place


_SIGNS: Final = dict(
    zip(INPLACE, ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>"), strict=True)
)


def inplace(symbol: str) -> Callable[[X, Any], X]:
    """Make the method of an in-place operator, such as ``"__iadd__"``.

    The result has the dtype and shape of the left operand, or the operator raises. It is written
    into the left operand's memory where the library can, else the `Array` takes a new one.
    """
    name = INPLACE[symbol]

    def method(self: Any, other: Any, /) -> Any:
        if not is_operand(other):
            return NotImplemented
        a, b = _inplace_operands(name, symbol, self, other)
        table = a._table
        native = _entry(symbol, table, (self, other))[0]
        if table is not self._table:
            raise TypeError(
                f"{symbol}: the result has dtype {table.dtype}; expected {self._table.dtype}, the "
                f"dtype of the left operand: x = x {_SIGNS[symbol]} y makes a new array"
            )
        y = b
        if b.__class__ not in SCALARS:
            y, shape_of = b._native, table.backend.shape_of
            shape, added = shape_of(self._native), shape_of(y)
            if added != shape and not _stretches(added, shape):
                raise broadcast_mismatch(symbol, (shape, added))
        if symbol == "__ipow__" and plain(other).__class__ in SCALARS and other == 2:
            is_writable(self, symbol)
            self[...] = _square(self)
            return self
        held = self._native
        x = writable(self, symbol)
        try:
            made = native(x, y)
        except Exception as error:
            made = recover(symbol, table, (self, b), error, native, x, y)
        return self if rebound(self, held, made) else method(self, other)

    declare(symbol, OPERATIONS[name].dtypes, same, "x1")
    return _named(method, symbol, f"In-place form of ``{name}``.")


def _inplace_operands(name: str, symbol: str, self: Operand, other: Any) -> tuple[Operand, Any]:
    """Return two operands of one dtype, the other one as a scalar where the operator takes one."""
    other = plain(other, written=True)
    if other.__class__ in SCALARS:
        a, native = _beside(name, self, other, "x2")
        table = a._table
        if native.__class__ in SCALARS:
            scalar = cast("Scalar", native)
            if symbol in table.scalars_second:
                return a, scalar
            native = scalar_of(table, scalar, name)
        return a, make(native, table)
    if other.__class__ is self.__class__ and other._table is self._table:
        return self, other
    beside = as_companion(name, "x2", other, self._table)
    if beside._table.backend.home is not None:  # values that are resident come, not the others go
        beside = gathered(name, "x1", self._table, "x2", beside)
    a, b = unify(name, ("x1", "x2"), (self, beside))
    return a, b


def _stretches(shape: tuple[Any, ...], target: tuple[Any, ...]) -> bool:
    """Say whether a shape broadcasts to a target without changing it."""
    if len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    return all(n in (1, m, None) or m is None for n, m in zip(shape, tail, strict=True))


def is_writable(x: Operand, function: str) -> bool:
    """Say whether the memory of an array may be written.

    Raises
    ------
    ValueError
        If not, in strict mode, which makes no silent copies.
    """
    if x._table.backend.is_writable(x._native):
        return True
    if STRICT.get():
        raise ValueError(
            f"{function}: x is read-only; expected writable memory: "
            f"xp.asarray(x, copy=True) makes some (strict mode)"
        )
    return False


def writable(x: Operand, function: str) -> Native:
    """Return what a write to an array goes to: its native array, or a copy of a read-only one.

    The array takes the copy by `rebound`, once it is written: what fails leaves the array as it is.

    Raises
    ------
    ValueError
        As `is_writable`.
    """
    if is_writable(x, function):
        return x._native
    return converted(x, function, x._table.native_dtype, copy=True)


# ---------------------------------------------------------------------------- one operand


def unary(
    name: str,
    dtypes: frozenset[DType],
    doc: str,
    result: Callable[[DType], DType] = same,
) -> UnaryFunction[Any]:
    """Declare an elementwise operation of one operand and make its function."""
    declare(name, dtypes, result)

    return _named(_hot.unary_function(name), name, doc)


def unary_operator(name: str) -> Callable[[X], X]:
    """Make the method of a unary operator, such as ``Array.__neg__`` of ``"negative"``."""
    return _named(_hot.unary_operator(name), name, f"Operator form of ``{name}``.")


def _named(function: F, name: str, doc: str) -> F:
    # Python's own messages about arguments take the name of the innermost function.
    for each in (function, getattr(function, "__wrapped__", function)):
        each.__name__ = each.__qualname__ = name
        each.__module__ = "corepy.array_api"
        each.__doc__ = doc
    return function
