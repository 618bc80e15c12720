"""Sorting functions.

https://data-apis.org/array-api/2025.12/API_specification/sorting_functions.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from corepy import _dtypes
from corepy.array_api._arguments import axis_of, flag_of
from corepy.dispatch import (
    as_operand,
    operation,
    run,
    same,
    to_index,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array


def _ordered(function: str, x: Array, axis: int, descending: bool, stable: bool) -> Array:
    x = as_operand(function, "x", x)
    return cast(
        "Array",
        run(
            function,
            x,
            axis=axis_of(function, axis, x.ndim),
            descending=flag_of(function, "descending", descending),
            stable=flag_of(function, "stable", stable),
        ),
    )


@operation(_dtypes.REAL, to_index)
def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Indices that sort an array along an axis.

    Parameters
    ----------
    x : Array
        Of at least one dimension, with a real-valued dtype.
    axis : int
    descending : bool
        Whether the greatest comes first. NaN counts as the greatest.
    stable : bool
        Whether equal elements keep their order.

    Returns
    -------
    Array
        Of the shape of `x` and dtype int64.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    IndexError
        If `axis` is out of range.
    """
    return _ordered("argsort", x, axis, descending, stable)


@operation(_dtypes.REAL, same)
def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Sorted copy of an array along an axis.

    Parameters
    ----------
    x : Array
        Of at least one dimension, with a real-valued dtype.
    axis : int
    descending : bool
        Whether the greatest comes first. NaN counts as the greatest.
    stable : bool
        Whether equal elements keep their order.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    IndexError
        If `axis` is out of range.
    """
    return _ordered("sort", x, axis, descending, stable)
