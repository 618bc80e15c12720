"""Indexing functions.

https://data-apis.org/array-api/2025.12/API_specification/indexing_functions.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from corepy import _dtypes
from corepy._errors import bad_argument, beyond, broadcast_mismatch, wrong_dtype
from corepy.array_api._arguments import axis_of, one_device
from corepy.array_api._keys import signed
from corepy.dispatch import (
    as_companion,
    as_operand,
    broadcasts,
    known_sizes,
    operation,
    run,
    same,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array


def _indices(function: str, x: Array, indices: Any) -> Array:
    found = as_companion(function, "indices", indices, x._table)
    if found.dtype not in _dtypes.INTEGER:
        expected = _dtypes.describe(_dtypes.INTEGER)
        raise wrong_dtype(function, "indices", found.dtype, found.device, expected)
    one_device(function, "x", x, "indices", found)
    return cast("Array", signed(found))


@operation(result=same)
def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """Elements at indices along an axis.

    Parameters
    ----------
    x : Array
    indices : Array
        With an integer dtype; negative indices count from the end.
    axis : int or None
        May be left out for 1-D arrays only.

    Returns
    -------
    Array
        Of the dtype of `x`; the shape of `indices` stands where `axis` was.

    Raises
    ------
    IndexError
        If an index is out of bounds (where the library can tell), or `axis` is out of range.
    TypeError
        If an argument is of another type, or `indices` has no integer dtype.
    ValueError
        If `axis` is None and `x` is not 1-D.
    DeviceMismatchError
        If the operands live on different devices.
    """
    x = as_operand("take", "x", x, indices=indices)
    chosen = _indices("take", x, indices)
    if axis is None:
        if x.ndim != 1:
            raise bad_argument("take", "axis", axis, f"an int for {x.ndim} dimensions")
        axis = 0
    place = axis_of("take", axis, x.ndim)
    if 0 in x.shape and chosen.size:
        # Libraries that have nothing to copy look at no index.
        (length,) = known_sizes(x, (place,))
        for end in ("min", "max"):
            index = int(run(end, chosen, axis=None, keepdims=False))
            if not -length <= index < length:
                raise beyond(index, place, length, "take")
    return cast("Array", run("take", x, chosen, axis=place))


@operation(result=same)
def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """Elements at indices along an axis, with indices of their own for each position.

    Parameters
    ----------
    x : Array
        Of N dimensions.
    indices : Array
        Of N dimensions, broadcasting with `x` but for `axis`, with an integer dtype.
    axis : int

    Returns
    -------
    Array
        Of the dtype of `x` and the broadcast shape.

    Raises
    ------
    IndexError
        If an index is out of bounds (where the library can tell), or `axis` is out of range.
    TypeError
        If an argument is of another type, or `indices` has no integer dtype.
    ValueError
        If the shapes do not fit.
    DeviceMismatchError
        If the operands live on different devices.
    """
    x = as_operand("take_along_axis", "x", x, indices=indices)
    chosen = _indices("take_along_axis", x, indices)
    place = axis_of("take_along_axis", axis, x.ndim)
    if chosen.ndim != x.ndim:
        raise bad_argument(
            "take_along_axis", "indices.shape", chosen.shape, f"{x.ndim} dimensions, as x"
        )
    sizes, others = x.shape, chosen.shape
    around: list[tuple[Any, ...]] = [
        sizes[:place] + sizes[place + 1 :],
        others[:place] + others[place + 1 :],
    ]
    if around[0] != around[1] and not broadcasts(around):
        raise broadcast_mismatch("take_along_axis", (x.shape, chosen.shape))
    return cast("Array", run("take_along_axis", x, chosen, axis=place))
