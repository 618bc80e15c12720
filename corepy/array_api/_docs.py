"""Docstrings of the elementwise functions, worded once."""

from __future__ import annotations

from corepy._dtypes import DType, describe

_STANDARD = "https://data-apis.org/array-api/2025.12/API_specification/generated/array_api"

_BY_ZERO = """    ZeroDivisionError
        If an integer is divided by zero, where the library can tell.
"""


def source(name: str) -> str:
    """Return the address of a function's page in the standard."""
    return f"{_STANDARD}.{name}.html"


def unary_doc(name: str, summary: str, dtypes: frozenset[DType], returns: str, notes: str) -> str:
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
{_notes(notes)}
    References
    ----------
    {source(name)}
    """


def binary_doc(
    name: str, summary: str, dtypes: frozenset[DType], returns: str, notes: str, by_zero: bool
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
{_BY_ZERO if by_zero else ""}{_notes(notes)}
    References
    ----------
    {source(name)}
    """


def _notes(notes: str) -> str:
    return f"\n    Notes\n    -----\n    {notes}\n" if notes else ""
