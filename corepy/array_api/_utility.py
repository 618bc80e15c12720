"""Utility functions.

https://data-apis.org/array-api/2025.12/API_specification/utility_functions.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from corepy import _dtypes
from corepy._errors import bad_argument
from corepy.array_api._arguments import axis_of, flag_of, one_device, optional_axes, size_of
from corepy.array_api._elementwise import not_equal, subtract
from corepy.array_api._manipulation import concat
from corepy.dispatch import (
    as_companion,
    as_operand,
    known_size,
    operation,
    promoted,
    run,
    same_sizes,
    to_bool,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array


def _truth(function: str, x: Any, axis: Any, keepdims: bool) -> Array:
    x = as_operand(function, "x", x)
    axes = optional_axes(function, axis, x.ndim)
    keep = flag_of(function, "keepdims", keepdims)
    return cast("Array", run(function, x, axis=axes, keepdims=keep))


@operation(result=to_bool)
def all(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Whether all elements are true, that is not zero.

    Parameters
    ----------
    x : Array
    axis : int, tuple of int or None
        None reduces over all axes.
    keepdims : bool
        Whether the axes stay, with size one.

    Returns
    -------
    Array
        Of dtype bool; true where there is no element.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If an axis comes twice.
    IndexError
        If an axis is out of range.
    """
    return _truth("all", x, axis, keepdims)


@operation(result=to_bool)
def any(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Whether any element is true, that is not zero.

    Parameters
    ----------
    x : Array
    axis : int, tuple of int or None
        None reduces over all axes.
    keepdims : bool
        Whether the axes stay, with size one.

    Returns
    -------
    Array
        Of dtype bool; false where there is no element.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If an axis comes twice.
    IndexError
        If an axis is out of range.
    """
    return _truth("any", x, axis, keepdims)


def diff(
    x: Array,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Array:
    """Differences of neighbours along an axis, taken `n` times.

    Parameters
    ----------
    x : Array
        Of at least one dimension.
    axis : int
    n : int
        How often; 0 copies `x`.
    prepend, append : Array or None
        Joined to `x` along `axis` first; of the shape of `x` but for `axis`.

    Returns
    -------
    Array
        With `n` fewer elements along `axis`, none at least; of the dtype of `x`. Booleans differ
        where they are not equal.

    Raises
    ------
    TypeError
        If an argument is of another type, or the dtypes do not promote.
    ValueError
        If `x` is 0-D, `n` is negative, or a shape does not fit.
    IndexError
        If `axis` is out of range.
    DeviceMismatchError
        If the operands live on different devices.
    """
    x = as_operand("diff", "x", x, prepend=prepend, append=append)
    if x.ndim == 0:
        raise bad_argument("diff", "x.shape", x.shape, "at least one dimension")
    place = axis_of("diff", axis, x.ndim)
    times = size_of("diff", "n", n)
    if prepend is not None or append is not None:
        before, after = (
            None if part is None else _edge(name, part, x, place)
            for name, part in (("prepend", prepend), ("append", append))
        )
        x = concat([part for part in (before, x, after) if part is not None], axis=place)
    elif times == 0:  # else who writes into the result writes into `x`
        return cast("Array", run("astype", x, x.dtype, copy=True))
    step = not_equal if x.dtype is _dtypes.bool else subtract
    later, earlier = _neighbours(place, x.ndim)
    for _ in range(min(times, known_size(x, place))):
        x = step(x[later], x[earlier])
    return x


def _neighbours(place: int, ndim: int) -> tuple[Any, Any]:
    """Return the keys of all elements along an axis but the first, and of all but the last."""
    later, earlier = slice(1, None), slice(None, -1)
    if ndim == 1:
        return later, earlier
    rows, rest = (slice(None),) * place, (slice(None),) * (ndim - 1 - place)
    return (*rows, later, *rest), (*rows, earlier, *rest)


def _edge(name: str, part: Any, x: Array, place: int) -> Array:
    """Check an array that is joined to another along an axis."""
    part = as_companion("diff", name, part, x._table)
    promoted("diff", x.dtype, part.dtype)
    one_device("diff", "x", x, name, part)
    around = [(axis, axis) for axis in range(x.ndim) if axis != place]
    if part.ndim != x.ndim or not same_sizes(part, x, around):
        raise bad_argument("diff", f"{name}.shape", part.shape, f"{x.shape} but for axis {place}")
    return cast("Array", part)
