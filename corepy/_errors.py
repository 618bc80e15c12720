"""Exception types, and the one place that words their messages.

Every message names the function, the argument, what was expected and what came, in that
order where it reads well: ``add: x2 has dtype int64 on cpu; expected a floating-point dtype``.
"""

from __future__ import annotations

from collections.abc import Iterable

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
    "broadcast_mismatch",
    "named",
    "no_promotion",
    "out_of_range",
    "wrong_dtype",
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
    """A table of routes that was measured on this machine is not used, because it does not fit."""


def _kind(value: object) -> str:
    cls = type(value)
    module = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
    return f"{module}{cls.__qualname__}"


def listing(names: Iterable[object]) -> str:
    """Join names for a message: ``a, b or c``."""
    words = [str(name) for name in names]
    if len(words) < 2:
        return "".join(words) or "nothing"
    return f"{', '.join(words[:-1])} or {words[-1]}"


def wrong_dtype(
    function: str, argument: str, dtype: object, device: object, expected: str
) -> TypeError:
    """An array argument has a dtype outside the ones the function takes."""
    return TypeError(f"{function}: {argument} has dtype {dtype} on {device}; expected {expected}")


def bad_type(function: str, argument: str, value: object, expected: str) -> TypeError:
    """An argument is of the wrong Python type."""
    if isinstance(value, (list, tuple)) and expected.endswith(("rray", "array or a scalar")):
        expected += ": make one by xp.asarray(...)"
    return TypeError(f"{function}: {argument} is of type {_kind(value)}; expected {expected}")


def bad_argument(function: str, argument: str, value: object, expected: str) -> ValueError:
    """An argument has the right type and a value that cannot be used."""
    return ValueError(f"{function}: {argument} is {value!r}; expected {expected}")


def out_of_range(function: str, argument: str, value: object, expected: str) -> IndexError:
    """An index or axis lies outside the array."""
    return IndexError(f"{function}: {argument} is {value!r}; expected {expected}")


def broadcast_mismatch(function: str, shapes: Iterable[tuple[object, ...]]) -> ValueError:
    """Shapes of the operands do not broadcast."""
    got = " and ".join(str(tuple(shape)) for shape in shapes)
    return ValueError(
        f"{function}: operands have shapes {got}; expected shapes that broadcast together"
    )


def no_promotion(function: str, dtypes: Iterable[object], hint: str) -> TypeError:
    """The dtypes of the operands have no common dtype."""
    got = " and ".join(str(dtype) for dtype in dtypes)
    return TypeError(f"{function}: operands have dtypes {got}; expected {hint}")


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
            # The nearest documented type: numpy.linalg.LinAlgError arrives as ValueError.
            exact = type(error) if type(error).__module__ == "builtins" else kind
            if issubclass(exact, UnicodeError):  # which wants more than a message
                exact = ValueError
            text = f"{function}: {error}"
            if exact is ValueError and function in _OF_MATRICES and "expected" not in text:
                text += f"; expected {_OF_MATRICES[function]}"
            return exact(text)
    return None
