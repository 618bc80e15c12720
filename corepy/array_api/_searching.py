"""Searching functions.

https://data-apis.org/array-api/2025.12/API_specification/searching_functions.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from corepy import _dtypes
from corepy._dtypes import Scalar
from corepy._errors import bad_argument, broadcast_mismatch, wrong_dtype
from corepy.array_api._arguments import choice_of, flag_of, optional_axes, optional_axis
from corepy.array_api._keys import signed
from corepy.dispatch import (
    as_companion,
    as_operand,
    broadcasts,
    gathered,
    operation,
    run,
    run_in,
    same,
    same_sizes,
    to_index,
    unify,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array


def _arg_extreme(function: str, x: Array, axis: int | None, keepdims: bool) -> Array:
    x = as_operand(function, "x", x)
    place = optional_axis(function, axis, x.ndim)
    length = x.size if place is None else x.shape[place]
    if length == 0:
        raise bad_argument(function, "x.shape", x.shape, "at least one element along the axis")
    keep = flag_of(function, "keepdims", keepdims)
    return cast("Array", run(function, x, axis=place, keepdims=keep))


@operation(_dtypes.REAL, to_index)
def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Indices of the greatest elements, the first where there are several.

    Parameters
    ----------
    x : Array
        With a real-valued dtype.
    axis : int or None
        None searches the flattened array.
    keepdims : bool
        Whether the axis stays, with size one.

    Returns
    -------
    Array
        Of dtype int64. The first NaN, if there is one.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If there is nothing to search.
    IndexError
        If `axis` is out of range.
    """
    return _arg_extreme("argmax", x, axis, keepdims)


@operation(_dtypes.REAL, to_index)
def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Indices of the least elements, the first where there are several.

    Parameters
    ----------
    x : Array
        With a real-valued dtype.
    axis : int or None
        None searches the flattened array.
    keepdims : bool
        Whether the axis stays, with size one.

    Returns
    -------
    Array
        Of dtype int64. The first NaN, if there is one.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If there is nothing to search.
    IndexError
        If `axis` is out of range.
    """
    return _arg_extreme("argmin", x, axis, keepdims)


@operation(result=to_index)
def count_nonzero(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Array:
    """Number of elements that are not zero; NaN is not zero.

    Parameters
    ----------
    x : Array
    axis : int, tuple of int or None
        None counts over all axes.
    keepdims : bool
        Whether the axes stay, with size one.

    Returns
    -------
    Array
        Of dtype int64.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If an axis comes twice.
    IndexError
        If an axis is out of range.
    """
    x = as_operand("count_nonzero", "x", x)
    axes = optional_axes("count_nonzero", axis, x.ndim)
    keep = flag_of("count_nonzero", "keepdims", keepdims)
    return cast("Array", run("count_nonzero", x, axis=axes, keepdims=keep))


@operation(result=to_index)
def nonzero(x: Array, /) -> tuple[Array, ...]:
    """Indices of the elements that are not zero.

    Parameters
    ----------
    x : Array
        Of at least one dimension.

    Returns
    -------
    tuple of Array
        One 1-D int64 array for each dimension, in row-major order.

    Raises
    ------
    TypeError
        If `x` is no array.
    ValueError
        If `x` is 0-D.
    """
    x = as_operand("nonzero", "x", x)
    if x.ndim == 0:
        raise bad_argument("nonzero", "x.shape", x.shape, "at least one dimension")
    return cast("tuple[Array, ...]", run("nonzero", x))


@operation(_dtypes.REAL, to_index, argument="x1")
def searchsorted(
    x1: Array,
    x2: Array | int | float,
    /,
    *,
    side: str = "left",
    sorter: Array | None = None,
) -> Array:
    """Indices at which values would keep a sorted array sorted.

    Parameters
    ----------
    x1 : Array
        1-D, ascending (or sorted by `sorter`), with a real-valued dtype.
    x2 : Array, int or float
        The values.
    side : {"left", "right"}
        Whether equal elements of `x1` come after or before the index.
    sorter : Array or None
        Integer indices, of the shape of `x1`, that sort it.

    Returns
    -------
    Array
        Of the shape of `x2` and dtype int64.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If `x1` is not 1-D, `sorter` has another shape, or `side` is another word.
    IndexError
        If `sorter` points outside `x1` (where the library can tell).
    OverflowError
        If a scalar does not fit the dtype.
    DeviceMismatchError
        If the operands live on different devices.
    """
    edge = choice_of("searchsorted", "side", side, ("left", "right"))
    haystack, needles = unify("searchsorted", ("x1", "x2"), (x1, x2))
    if haystack.ndim != 1:
        raise bad_argument("searchsorted", "x1.shape", haystack.shape, "one dimension")
    if sorter is not None:
        order = as_operand("searchsorted", "sorter", sorter)
        if order.dtype not in _dtypes.INTEGER:
            expected = _dtypes.describe(_dtypes.INTEGER)
            raise wrong_dtype("searchsorted", "sorter", order.dtype, order.device, expected)
        shapes = order.shape, haystack.shape
        if shapes[0] != shapes[1] and not (
            order.ndim == 1 and same_sizes(order, haystack, [(0, 0)])
        ):
            raise bad_argument("searchsorted", "sorter.shape", order.shape, str(haystack.shape))
        order = signed(gathered("searchsorted", "x1", haystack._table, "sorter", order))
        try:
            # Of indices out of bounds libraries make what they like.
            haystack = run("take", haystack, order, axis=0)
        except IndexError as error:
            raise IndexError(f"searchsorted: sorter: {error}") from None
    return cast("Array", run("searchsorted", haystack, needles, side=edge, sorter=None))


@operation(result=same, argument="x1")
def where(condition: Array, x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Elements of one array or another, by a condition.

    Parameters
    ----------
    condition : Array
        Of dtype bool.
    x1, x2 : Array or scalar
        Where `condition` is true, and where it is not; at least one is an array.

    Returns
    -------
    Array
        Of the broadcast shape of all three and the promoted dtype of `x1` and `x2`.

    Raises
    ------
    TypeError
        If an argument is of another type, `condition` is not boolean, or the dtypes do not promote.
    ValueError
        If the shapes do not broadcast.
    OverflowError
        If a scalar does not fit the dtype.
    DeviceMismatchError
        If the arrays live on different devices.
    """
    a, b = unify("where", ("x1", "x2"), (x1, x2), condition=condition)
    mask = as_companion("where", "condition", condition, a._table)
    if mask.dtype is not _dtypes.bool:
        expected = _dtypes.describe(_dtypes.BOOLEAN)
        raise wrong_dtype("where", "condition", mask.dtype, mask.device, expected)
    shapes = [mask.shape, a.shape, b.shape]
    if not shapes[0] == shapes[1] == shapes[2] and not broadcasts(shapes):
        raise broadcast_mismatch("where", shapes)
    mask = gathered("where", "x1", a._table, "condition", mask)
    return cast("Array", run_in(a._table, "where", mask, a, b))
