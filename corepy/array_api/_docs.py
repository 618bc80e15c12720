"""What docstrings have in common, worded once, and the pages of the standard that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from corepy._dtypes import DType, describe

F = TypeVar("F", bound=Callable[..., Any])

_STANDARD: Final = "https://data-apis.org/array-api/2025.12"

#: Attributes and methods of arrays that have a page each. Reflected operators and those in place
#: have none, and nobody changes the docstrings of what `Operand` has.
OF_ARRAYS: Final = (
    *("T", "device", "mT", "to_device", "__array_namespace__", "__dlpack__", "__dlpack_device__"),
    *("__abs__", "__add__", "__and__", "__bool__", "__complex__", "__eq__", "__float__"),
    *("__floordiv__", "__ge__", "__getitem__", "__gt__", "__index__", "__int__", "__invert__"),
    *("__le__", "__lshift__", "__lt__", "__matmul__", "__mod__", "__mul__", "__ne__", "__neg__"),
    *("__or__", "__pos__", "__pow__", "__rshift__", "__setitem__", "__sub__", "__truediv__"),
    "__xor__",
)
OF_INFO: Final = ("capabilities", "default_device", "default_dtypes", "devices", "dtypes")


def cite(part: str, named: Mapping[str, Any]) -> None:
    """Let docstrings end with the pages of the standard that describe the same.

    Parameters
    ----------
    part : str
        Where the standard has them: ``"fft"``, ``"linalg"``, ``"info"``, ``"array"``, or ``""`` for
        the main namespace.
    named : mapping of str to object
        Functions, methods and properties by name. Constants and dtypes, which have no docstrings of
        their own, are passed over; so is what names its page already.
    """
    folder = "extensions" if part in ("fft", "linalg") else "API_specification"
    start = f"{_STANDARD}/{folder}/generated/array_api.{part and f'{part}.'}"
    for name, value in named.items():
        doc = value.__doc__ if callable(value) or isinstance(value, property) else None
        if doc and "References\n" not in doc:  # None with -OO
            # As far in as the last line is: from Python 3.13 on literals have no margin.
            last = doc.rfind("\n") + 1
            line = "\n" + (doc[last:] if last else "")
            page = f"{start}{name}.html"
            value.__doc__ = f"{doc.rstrip()}\n{line}References{line}----------{line}{page}{line}"


# ---------------------------------------------------------------------------- elementwise functions

_BY_ZERO = """    ZeroDivisionError
        If an integer is divided by zero, where the library can tell.
"""


def unary_doc(summary: str, dtypes: frozenset[DType], returns: str, notes: str) -> str:
    """Word the docstring of a function of one array."""
    return f"""{summary}

    Parameters
    ----------
    x : Array
        Input of any shape, with {describe(dtypes)}.

    Returns
    -------
    Array
        {returns}

    Raises
    ------
    TypeError
        If `x` is no array or has another dtype.
{_notes(notes)}    """


def binary_doc(
    summary: str, dtypes: frozenset[DType], returns: str, notes: str, by_zero: bool
) -> str:
    """Word the docstring of a function of two arrays."""
    return f"""{summary}

    Parameters
    ----------
    x1, x2 : Array or scalar
        Operands whose shapes broadcast and whose promoted dtype is {describe(dtypes)}. At least
        one is an array.

    Returns
    -------
    Array
        {returns}

    Raises
    ------
    TypeError
        If an operand is of another type or dtype.
    ValueError
        If the shapes do not broadcast.
    OverflowError
        If a scalar does not fit the dtype.
    DeviceMismatchError
        If the operands live on different devices.
{_BY_ZERO if by_zero else ""}{_notes(notes)}    """


def _notes(notes: str) -> str:
    return f"\n    Notes\n    -----\n    {notes}\n" if notes else ""


# ---------------------------------------------------------------------------- below a summary


def _below_summary(parameters: str, returns: str, raises: str) -> Callable[[F], F]:
    """Make the decorator of functions whose own docstring is the summary."""
    text = f"""

    Parameters
    ----------
    {parameters}

    Returns
    -------
    Array
        {returns}

    Raises
    ------
    {raises}
    """

    def decorate(function: F) -> F:
        if function.__doc__:  # None with -OO
            function.__doc__ += text
        return function

    return decorate


_NORM: Final = """norm : {"backward", "ortho", "forward"}
        Which direction is scaled by ``1 / n``, or both by ``1 / sqrt(n)``."""
_TOO_LARGE: Final = """MemoryError
        If memory does not hold the result."""


def transform_doc(dtypes: frozenset[DType], returns: str) -> Callable[[F], F]:
    """Describe a transform along one axis, below its summary."""
    parameters = f"""x : Array
        Of at least one dimension, with {describe(dtypes)}.
    n : int or None
        Points of the transform: the input is cut or filled with zeros to fit.
    axis : int
    {_NORM}"""
    raises = f"""TypeError
        If an argument is of another type or dtype.
    ValueError
        If there is no point to transform, or `norm` is another word.
    IndexError
        If `axis` is out of range.
    {_TOO_LARGE}"""
    return _below_summary(parameters, returns, raises)


def transforms_doc(dtypes: frozenset[DType], returns: str) -> Callable[[F], F]:
    """Describe a transform along several axes, below its summary."""
    parameters = f"""x : Array
        With {describe(dtypes)}.
    s : sequence of int or None
        Points along each axis: the input is cut or filled with zeros to fit; -1 leaves it.
    axes : sequence of int or None
        By default the last ``len(s)``, or all.
    {_NORM}"""
    raises = f"""TypeError
        If an argument is of another type or dtype.
    ValueError
        If there is no point to transform, `s` and `axes` do not fit, or `norm` is another word.
    IndexError
        If an axis is out of range.
    {_TOO_LARGE}"""
    return _below_summary(parameters, returns, raises)


_ABSENT: Final = """BackendUnavailableError
        If the device is not present.
    UnsupportedOperationError
        If no backend has the dtype on that device."""


def new_array_doc(returns: str) -> Callable[[F], F]:
    """Describe the function of a shape that makes an array, below its summary."""
    parameters = """shape : int or tuple of int
    dtype : DType or None
        By default float64.
    device : Device or None
        None for the default device."""
    raises = f"""TypeError
        If an argument is of another type.
    ValueError
        If a size is negative, or a name is of no dtype or device.
    {_TOO_LARGE}
    {_ABSENT}"""
    return _below_summary(parameters, returns, raises)


def likeness_doc(returns: str) -> Callable[[F], F]:
    """Describe the function of an array that makes another of its shape, below its summary."""
    parameters = """x : Array
    dtype : DType or None
        By default that of `x`.
    device : Device or None
        By default that of `x`."""
    raises = f"""TypeError
        If an argument is of another type.
    ValueError
        If a name is of no dtype or device.
    {_ABSENT}"""
    return _below_summary(parameters, returns, raises)
