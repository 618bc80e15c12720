"""Set functions.

https://data-apis.org/array-api/2025.12/API_specification/set_functions.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from corepy.array_api._arguments import flag_of
from corepy.dispatch import (
    as_operand,
    operation,
    run,
    same,
    to_bool,
    unify,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array


class UniqueAllResult(NamedTuple):
    """What `unique_all` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` returns."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` returns."""

    values: Array
    inverse_indices: Array


@operation(result=to_bool, argument="x1")
def isin(x1: Array | int, x2: Array | int, /, *, invert: bool = False) -> Array:
    """Whether each element of one array is in another.

    Parameters
    ----------
    x1, x2 : Array or int
        The elements and the set; at least one is an array.
    invert : bool
        Whether to tell which elements are not.

    Returns
    -------
    Array
        Of the shape of `x1` (0-D for a scalar) and dtype bool. NaN is in no set.

    Raises
    ------
    TypeError
        If neither is an array, an argument is of another type, or the dtypes do not promote.
    OverflowError
        If a scalar does not fit the dtype.
    DeviceMismatchError
        If the operands live on different devices.
    """
    inverted = flag_of("isin", "invert", invert)
    a, b = unify("isin", ("x1", "x2"), (x1, x2))
    return cast("Array", run("isin", a, b, invert=inverted))


@operation()
def unique_all(x: Array, /) -> UniqueAllResult:
    """Distinct elements, with where each first stands, where each goes, and how often it comes.

    Parameters
    ----------
    x : Array
        Flattened if it has several dimensions. Each NaN is distinct.

    Returns
    -------
    UniqueAllResult
        ``values`` of the dtype of `x`, ascending; ``indices`` of their first occurrence and
        ``counts``, of the same length; ``inverse_indices`` of the shape of `x`. All but the first
        of dtype int64.

    Raises
    ------
    TypeError
        If `x` is no array.
    """
    return UniqueAllResult(*run("unique_all", as_operand("unique_all", "x", x)))


@operation()
def unique_counts(x: Array, /) -> UniqueCountsResult:
    """Distinct elements, and how often each comes.

    Parameters
    ----------
    x : Array
        Flattened if it has several dimensions. Each NaN is distinct.

    Returns
    -------
    UniqueCountsResult
        ``values`` of the dtype of `x`, ascending; ``counts`` of dtype int64.

    Raises
    ------
    TypeError
        If `x` is no array.
    """
    return UniqueCountsResult(*run("unique_counts", as_operand("unique_counts", "x", x)))


@operation()
def unique_inverse(x: Array, /) -> UniqueInverseResult:
    """Distinct elements, and the indices that rebuild the array from them.

    Parameters
    ----------
    x : Array
        Flattened if it has several dimensions. Each NaN is distinct.

    Returns
    -------
    UniqueInverseResult
        ``values`` of the dtype of `x`, ascending; ``inverse_indices`` of the shape of `x` and
        dtype int64.

    Raises
    ------
    TypeError
        If `x` is no array.
    """
    return UniqueInverseResult(*run("unique_inverse", as_operand("unique_inverse", "x", x)))


@operation(result=same)
def unique_values(x: Array, /) -> Array:
    """Distinct elements.

    Parameters
    ----------
    x : Array
        Flattened if it has several dimensions. Each NaN is distinct.

    Returns
    -------
    Array
        1-D, of the dtype of `x`, ascending.

    Raises
    ------
    TypeError
        If `x` is no array.
    """
    return cast("Array", run("unique_values", as_operand("unique_values", "x", x)))
