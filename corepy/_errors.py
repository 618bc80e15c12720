"""Exception types, and the one place that words their messages.

Every message names the function, the argument, what was expected and what came, in that
order where it reads well: ``add: x2 has dtype int64 on cpu; expected a floating-point dtype``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Final, TypeVar

__all__ = [
    "BackendError",
    "BackendUnavailableError",
    "CorepyError",
    "DeviceMismatchError",
    "FallbackError",
    "FallbackWarning",
    "InsufficientMemoryError",
    "RouteWarning",
    "UnsupportedOperationError",
    "bad_argument",
    "bad_type",
    "beyond",
    "broadcast_mismatch",
    "divided_by_zero",
    "foreign_dtype",
    "listing",
    "named",
    "negative_power",
    "no_promotion",
    "out_of_range",
    "refused",
    "told",
    "unfit",
    "unsolvable",
    "wrong_dtype",
    "wrong_shape",
]


class CorepyError(Exception):
    """Base of the exceptions that only corepy raises.

    Mistakes in arguments raise Python's own ``TypeError``, ``ValueError``, ``IndexError``,
    ``OverflowError``, ``ZeroDivisionError`` or ``BufferError`` instead.
    """


class DeviceMismatchError(CorepyError, ValueError):
    """Operands live on different devices and transfers were not asked for."""


class BackendUnavailableError(CorepyError, ValueError):
    """A backend or device was named that is unknown, not installed or broken."""


class BackendError(CorepyError, RuntimeError):
    """A backend failed while it ran an operation; the operands are untouched."""


class UnsupportedOperationError(CorepyError, NotImplementedError):
    """No usable backend offers the operation for this dtype and device."""


class FallbackError(CorepyError, RuntimeError):
    """An operation would have to leave its device and ``fallback="raise"`` forbids it."""


# MemoryError comes first, for it makes its objects itself: behind another base, `__new__` of the
# class would not be that of its objects, which what unpickles exceptions in their bases' way minds.
class InsufficientMemoryError(MemoryError, CorepyError):
    """A device has less free memory than was asked for."""


class FallbackWarning(UserWarning):
    """An operation left its device because no backend there offers it."""


class RouteWarning(UserWarning):
    """Measured routes or costs of offloading cannot be used: they do not fit, or there are none."""


def _kind(value: object) -> str:
    cls = type(value)
    module, name = cls.__module__, cls.__qualname__
    if module.startswith("corepy.") and vars(sys.modules["corepy"]).get(name) is cls:
        module = "corepy"  # as users know it, wherever it is
    return name if module == "builtins" else f"{module}.{name}"


def listing(names: Iterable[object]) -> str:
    """Join names for a message: ``a, b or c``."""
    words = [str(name) for name in names]
    if len(words) < 2:
        return "".join(words) or "nothing"
    return f"{', '.join(words[:-1])} or {words[-1]}"


_Error = TypeVar("_Error", bound=Exception)


def refused(error: type[_Error], function: str, argument: str, found: str, expected: str) -> _Error:
    """An argument cannot be used for what is found of it, such as ``is read-only``."""
    return error(f"{function}: {argument} {found}; expected {expected}")


def wrong_dtype(
    function: str, argument: str, dtype: object, device: object, expected: str
) -> TypeError:
    """An array argument has a dtype outside the ones the function takes."""
    return refused(TypeError, function, argument, f"has dtype {dtype} on {device}", expected)


def wrong_shape(function: str, argument: str, shape: Iterable[object], expected: str) -> ValueError:
    """An array argument has a shape that does not fit."""
    return refused(ValueError, function, argument, f"has shape {tuple(shape)}", expected)


def bad_type(function: str, argument: str, value: object, expected: str) -> TypeError:
    """An argument is of the wrong Python type."""
    if isinstance(value, (list, tuple)) and expected.endswith(("rray", "array or a scalar")):
        expected += ": make one by xp.asarray(...)"
    return refused(TypeError, function, argument, f"is of type {_kind(value)}", expected)


def bad_argument(function: str, argument: str, value: object, expected: str) -> ValueError:
    """An argument has the right type and a value that cannot be used."""
    return refused(ValueError, function, argument, f"is {value!r}", expected)


def out_of_range(function: str, argument: str, value: object, expected: str) -> IndexError:
    """An axis lies outside the array, or an index outside every one."""
    return refused(IndexError, function, argument, f"is {value!r}", expected)


def broadcast_mismatch(function: str, shapes: Iterable[tuple[object, ...]]) -> ValueError:
    """Shapes of the operands do not broadcast."""
    got = " and ".join(str(tuple(shape)) for shape in shapes)
    expected = "shapes that broadcast together"
    return refused(ValueError, function, "operands", f"have shapes {got}", expected)


def no_promotion(function: str, dtypes: Iterable[object], hint: str) -> TypeError:
    """The dtypes of the operands have no common dtype."""
    got = " and ".join(str(dtype) for dtype in dtypes)
    return refused(TypeError, function, "operands", f"have dtypes {got}", hint)


# What backends raise names no function, since one of theirs may be part of several operations (`//`
# and `//=`): `named` and `told` put the names before it.


def beyond(index: int, axis: int, size: int, function: str = "") -> IndexError:
    """An index lies outside its axis; the words are NumPy's, but for what was expected."""
    names = f"{function}: {_INDICES[function]}: " if function else ""
    expected = f"{-size} to {size - 1}" if size else "none"
    return IndexError(
        f"{names}index {index} is out of bounds for axis {axis} with size {size}; "
        f"expected {expected}"
    )


def unfit(shape: Iterable[object], chosen: Iterable[object]) -> ValueError:
    """A value does not broadcast to what a key selects."""
    return ValueError(
        f"its shape is {tuple(shape)}; expected one that broadcasts to {tuple(chosen)}"
    )


def divided_by_zero() -> ZeroDivisionError:
    """An integer is divided by zero."""
    return ZeroDivisionError("x2 holds 0; expected no zero among integers")


def negative_power() -> ValueError:
    """An integer is raised to a negative integer."""
    return ValueError("x2 holds a negative integer; expected powers of at least 0")


def foreign_dtype(library: str, dtype: object) -> TypeError:
    """A library's array has a dtype that the standard does not have."""
    from corepy._dtypes import DTYPES  # which words its errors here

    name = str(dtype).removeprefix(f"{library}.").removeprefix("core.")
    return TypeError(f"its dtype is {library}'s {name}; expected one of {', '.join(DTYPES)}")


#: NumPy's words for an index beyond its axis, and those of CuPy and torch.
_BEYOND: Final = re.compile(
    r"index (-?\d+) is out of bounds for (?:axis|dimension) (\d+) with size (\d+)", re.IGNORECASE
)
#: The argument that holds the indices, by function.
_INDICES: Final = {
    **dict.fromkeys(("__getitem__", "__setitem__"), "key"),
    **dict.fromkeys(("take", "take_along_axis"), "indices"),
}


def worded(error: BaseException) -> str:
    """Return the class of an error and what it says, as messages quote those of libraries."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")  # of one without a text


def told(function: str, argument: str | None, error: Exception) -> str:
    """Return a library's message after the names, in our words where it lacks what was expected."""
    text, names = str(error), [f"{name}: " for name in (function, argument) if name]
    for name in names:
        text = text.removeprefix(name)
    if found := _BEYOND.fullmatch(text):
        index, axis, size = map(int, found.groups())
        text = str(beyond(index, axis, size))
    elif text == "Integers to negative integer powers are not allowed.":  # NumPy's
        text = str(negative_power())
    return "".join([*names, text])


#: Exceptions that mean the same on every backend and pass as they are.
_OWN = (CorepyError, Warning, RecursionError)
#: Exceptions whose type is right and whose message gets the function's name.
_NAMED = (
    ArithmeticError,
    BufferError,
    IndexError,
    NotImplementedError,
    TypeError,
    ValueError,
)


#: What to expect of matrices where a library only says what it could not do with one.
_OF_MATRICES = {
    "cholesky": "x to hold positive definite matrices",
    **dict.fromkeys(("inv", "matrix_power"), "x to hold matrices that have an inverse"),
    "solve": "x1 to hold matrices that have an inverse",
    **dict.fromkeys(
        (
            "eig",
            "eigh",
            "eigvals",
            "eigvalsh",
            "matrix_norm",
            "matrix_rank",
            "pinv",
            "svd",
            "svdvals",
        ),
        "x to hold finite elements",
    ),
}


def unsolvable(message: str) -> ValueError:
    """A matrix has no such answer: what NumPy's users catch there, which is a `ValueError`."""
    from numpy.linalg import LinAlgError

    return LinAlgError(message)


def named(function: str, error: Exception) -> Exception | None:
    """Return a library's error as Python's own type, its message beginning with a function's name.

    The error itself where it says enough already, and None where none of Python's types fits.
    """
    if isinstance(error, _OWN) or str(error).startswith(f"{function}:"):
        return error
    if isinstance(error, MemoryError):  # Python's own says nothing at all
        return MemoryError(f"{function}: {str(error) or 'not enough memory for the result'}")
    for kind in _NAMED:
        if isinstance(error, kind):
            # The nearest documented type.
            exact = type(error) if type(error).__module__ == "builtins" else kind
            if issubclass(exact, UnicodeError):  # which wants more than a message
                exact = ValueError
            argument = _INDICES.get(function) if issubclass(exact, IndexError) else None
            text = told(function, argument, error)
            if exact is ValueError and function in _OF_MATRICES and "expected" not in text:
                text += f"; expected {_OF_MATRICES[function]}"
            return unsolvable(text) if type(error).__name__ == "LinAlgError" else exact(text)
    return None
