"""Manipulation functions.

https://data-apis.org/array-api/2025.12/API_specification/manipulation_functions.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from corepy import _dtypes
from corepy._errors import bad_argument, bad_type, broadcast_mismatch
from corepy.array_api._arguments import (
    ADDRESSABLE,
    addressable,
    arrays_of,
    axes_of,
    axis_of,
    copy_argument,
    ints_of,
    one_device,
    optional_axes,
    optional_axis,
    repeated_axes,
    shape_of,
    size_of,
)
from corepy.dispatch import (
    Operand,
    as_companion,
    as_operand,
    cast_to,
    known_sizes,
    operation,
    run,
    run_in,
    same,
    same_sizes,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array


@operation()
def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """Broadcast arrays against each other.

    Parameters
    ----------
    *arrays : Array
        Of shapes that broadcast.

    Returns
    -------
    tuple of Array
        Of one shape, each with its own dtype.

    Raises
    ------
    TypeError
        If an argument is no array.
    ValueError
        If the shapes do not broadcast.
    """
    found = [as_operand("broadcast_arrays", f"arrays[{i}]", x) for i, x in enumerate(arrays)]
    shape: Any = _common("broadcast_arrays", [x.shape for x in found])
    if None in shape and any(x.shape != shape for x in found):
        shape = _common("broadcast_arrays", [known_sizes(x) for x in found])
    if None in shape:
        return tuple(cast("Array", run("broadcast_to", x, shape)) for x in found)
    return tuple(broadcast_to(x, shape) for x in found)


def broadcast_shapes(*shapes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Broadcast shapes against each other.

    Parameters
    ----------
    *shapes : tuple of int or None
        None stands for a size that is not known.

    Returns
    -------
    tuple of int or None
        The shape that arrays of those shapes broadcast to; () for none.

    Raises
    ------
    TypeError
        If a shape is no tuple, or holds anything but ints and None.
    ValueError
        If the shapes do not broadcast.
    """
    checked = []
    for i, shape in enumerate(shapes):
        if not isinstance(shape, (tuple, list)):
            raise bad_type("broadcast_shapes", f"shapes[{i}]", shape, "a tuple of int")
        checked.append(
            tuple(n if n is None else size_of("broadcast_shapes", f"shapes[{i}]", n) for n in shape)
        )
    return _common("broadcast_shapes", checked)


def _common(function: str, shapes: Sequence[tuple[int | None, ...]]) -> tuple[int | None, ...]:
    """Return the shape that all broadcast to; () for none."""
    width = max(map(len, shapes), default=0)
    result: list[int | None] = []
    for column in zip(*((1,) * (width - len(s)) + s for s in shapes), strict=True):
        known = {n for n in column if n is not None and n != 1}
        if len(known) > 1:
            raise broadcast_mismatch(function, shapes)
        # A known size beside an unknown one decides; ones beside an unknown one do not.
        result.append(known.pop() if known else None if None in column else 1)
    return tuple(result)


@operation(result=same)
def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """Broadcast an array to a shape.

    Parameters
    ----------
    x : Array
    shape : tuple of int

    Returns
    -------
    Array
        Of that shape; its memory may be shared with `x` and read-only.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If a size is negative, or `x` does not broadcast to `shape`.
    MemoryError
        If memory does not hold the result.
    """
    x = as_operand("broadcast_to", "x", x)
    target = shape_of("broadcast_to", shape)
    given = known_sizes(x)
    ending = target[len(target) - len(given) :]
    fits = len(given) <= len(target) and (
        given == ending or all(n in (1, m) for n, m in zip(given, ending, strict=True))
    )
    if not fits:
        raise bad_argument("broadcast_to", "shape", shape, f"one that {given} broadcasts to")
    return cast("Array", run("broadcast_to", x, target))


@operation(result=same, argument="arrays[0]")
def concat(arrays: tuple[Array, ...] | list[Array], /, *, axis: int | None = 0) -> Array:
    """Join arrays along an existing axis.

    Parameters
    ----------
    arrays : tuple or list of Array
        Of equal shapes but for `axis`.
    axis : int or None
        None flattens the arrays first.

    Returns
    -------
    Array
        Of the promoted dtype.

    Raises
    ------
    TypeError
        If an argument is of another type, or the dtypes do not promote.
    ValueError
        If there is no array, or the shapes do not fit.
    IndexError
        If `axis` is out of range.
    MemoryError
        If memory does not hold the result.
    DeviceMismatchError
        If the operands live on different devices.
    """
    found = arrays_of("concat", arrays)
    if axis is None:
        found = [reshape(x, (-1,)) for x in found]
        axis = 0
    place = axis_of("concat", axis, found[0].ndim)
    first, shape = found[0], found[0].shape
    for i, x in enumerate(found):
        if x.shape == shape:
            continue
        around = [(axis, axis) for axis in range(len(shape)) if axis != place]
        if x.ndim != len(shape) or not same_sizes(x, first, around):
            raise bad_argument(
                "concat", f"arrays[{i}].shape", x.shape, f"{shape} but for axis {place}"
            )
    along = sum(x.shape[place] or 0 for x in found)  # which libraries let wrap around
    addressable("concat", *shape[:place], along, *shape[place + 1 :])
    return cast("Array", run_in(found[0]._table, "concat", tuple(found), axis=place))


@operation(result=same)
def expand_dims(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """Insert dimensions of size one.

    Parameters
    ----------
    x : Array
        Of N dimensions.
    axis : int or tuple of int
        Where the new dimensions stand in the result.

    Returns
    -------
    Array
        Of N dimensions and the new ones.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If an axis comes twice.
    IndexError
        If an axis is out of range.
    """
    x = as_operand("expand_dims", "x", x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    places = axes_of("expand_dims", axis, x.ndim + count)
    return cast("Array", run("expand_dims", x, axis=places))


@operation(result=same)
def flip(x: Array, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """Reverse the order of elements along axes.

    Parameters
    ----------
    x : Array
    axis : int, tuple of int or None
        None reverses every axis.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If an axis comes twice.
    IndexError
        If an axis is out of range.
    """
    x = as_operand("flip", "x", x)
    return cast("Array", run("flip", x, axis=optional_axes("flip", axis, x.ndim)))


@operation(result=same)
def moveaxis(
    x: Array, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> Array:
    """Move axes to new positions; the others keep their order.

    Parameters
    ----------
    x : Array
    source, destination : int or tuple of int
        As many of the one as of the other.

    Returns
    -------
    Array
        With the axes moved.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If there are not as many destinations as sources, or one comes twice.
    IndexError
        If an axis is out of range.
    """
    x = as_operand("moveaxis", "x", x)
    start = axes_of("moveaxis", source, x.ndim, "source")
    end = axes_of("moveaxis", destination, x.ndim, "destination")
    if len(start) != len(end):
        raise bad_argument("moveaxis", "destination", destination, f"{len(start)} axes, as source")
    return cast("Array", run("moveaxis", x, start, end))


@operation(result=same)
def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """Permute the dimensions.

    Parameters
    ----------
    x : Array
        Of N dimensions.
    axes : tuple of int
        A permutation of 0 to N - 1; negative axes count from the end.

    Returns
    -------
    Array
        Whose dimension i is dimension ``axes[i]`` of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If `axes` is no permutation.
    IndexError
        If an axis is out of range.
    """
    x = as_operand("permute_dims", "x", x)
    order = axes_of("permute_dims", axes, x.ndim, "axes")
    if len(order) != x.ndim:
        raise bad_argument("permute_dims", "axes", axes, f"a permutation of {x.ndim} axes")
    return cast("Array", run("permute_dims", x, axes=order))


@operation(result=same)
def repeat(x: Array, repeats: int | Array, /, *, axis: int | None = None) -> Array:
    """Repeat each element.

    Parameters
    ----------
    x : Array
    repeats : int or Array
        How often; an array has an integer dtype and one element, or one for each along `axis`.
    axis : int or None
        None flattens `x` first.

    Returns
    -------
    Array
        Of the dtype of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type, or `repeats` has no integer dtype.
    ValueError
        If a count is negative, or there are not as many as elements.
    IndexError
        If `axis` is out of range.
    MemoryError
        If memory does not hold the result.
    DeviceMismatchError
        If `x` and `repeats` live on different devices.
    """
    x = as_operand("repeat", "x", x, repeats=repeats)
    place = optional_axis("repeat", axis, x.ndim)
    if isinstance(repeats, int) or not (isinstance(repeats, Operand) or hasattr(repeats, "shape")):
        count = size_of("repeat", "repeats", repeats)
        addressable("repeat", *x.shape, count)
        return cast("Array", run("repeat", x, count, axis=place))
    counts = as_companion("repeat", "repeats", repeats, x._table)
    if counts.dtype not in _dtypes.INTEGER:
        from corepy._errors import wrong_dtype

        raise wrong_dtype(
            "repeat", "repeats", counts.dtype, counts.device, _dtypes.describe(_dtypes.INTEGER)
        )
    one_device("repeat", "x", x, "repeats", counts)
    length = math.prod(known_sizes(x, None if place is None else (place,)))
    if counts.ndim > 1 or counts.shape not in ((), (1,), (length,)):
        raise bad_argument("repeat", "repeats.shape", counts.shape, f"() or ({length},)")
    if counts.size:
        _countable(x, counts, place, length)
    counts = cast_to(counts, counts._table.narrowed(_dtypes.int64), "repeat")
    return cast("Array", run("repeat", x, counts, axis=place))


def _countable(x: Array, counts: Array, place: int | None, length: int) -> None:
    """Refuse counts that are negative, or whose sum libraries would let wrap around."""
    least, most = (int(run(bound, counts, axis=None, keepdims=False)) for bound in ("min", "max"))
    if least < 0:
        raise ValueError("repeat: repeats holds a negative number; expected counts of at least 0")
    if most >= 2**63:
        raise bad_argument("repeat", "repeats", most, "counts below 2**63")
    sizes = known_sizes(x)
    beside = () if place is None else (*sizes[:place], *sizes[place + 1 :])
    each = math.prod([size for size in beside if size])
    if most * length * each < ADDRESSABLE:  # however many of them there are
        return
    wide = cast_to(counts, counts._table.narrowed(_dtypes.float64), "repeat")
    kind = wide._table.native_dtype
    total = run("sum", wide, axis=None, dtype=kind, keepdims=False)
    addressable("repeat", int(float(total)) * (length if counts.size == 1 else 1), each)


@operation(result=same)
def reshape(x: Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """Give the elements another shape, in row-major order.

    Parameters
    ----------
    x : Array
    shape : tuple of int
        One size may be -1: it follows from the others.
    copy : bool or None
        True: always new memory. False: never. None: only if needed.

    Returns
    -------
    Array
        Of that shape.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If the number of elements differs, or ``copy=False`` cannot be had.
    MemoryError
        If the sizes beside one of 0 are those of more elements than memory can address.
    """
    x = as_operand("reshape", "x", x)
    sizes = ints_of("reshape", "shape", shape)
    copying = copy_argument("reshape", copy)
    total = x.size
    inferred = sizes.count(-1)
    if inferred > 1 or min(sizes, default=0) < -1:
        raise bad_argument("reshape", "shape", shape, "sizes of at least 0 and at most one -1")
    rest = abs(math.prod(sizes))  # a -1 counts as one
    if inferred:
        if total is not None:
            if rest == 0 or total % rest:
                raise bad_argument("reshape", "shape", shape, f"a shape of {total} elements")
            sizes = tuple(total // rest if n == -1 else n for n in sizes)
    elif total is not None and rest != total:
        raise bad_argument("reshape", "shape", shape, f"a shape of {total} elements")
    if rest == 0:
        addressable("reshape", *sizes)
    return cast("Array", run("reshape", x, sizes, copy=copying))


@operation(result=same)
def roll(
    x: Array,
    /,
    shift: int | tuple[int, ...],
    *,
    axis: int | tuple[int, ...] | None = None,
) -> Array:
    """Roll the elements along axes; those pushed out come in again at the other end.

    Parameters
    ----------
    x : Array
    shift : int or tuple of int
        By how many places; one for each axis, or one for all.
    axis : int, tuple of int or None
        None rolls the flattened array and restores the shape.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If there are not as many shifts as axes.
    IndexError
        If an axis is out of range.
    """
    x = as_operand("roll", "x", x)
    places = None if axis is None else repeated_axes("roll", axis, x.ndim)
    if places == ():  # nothing rolls along no axis; libraries refuse the empty tuple
        ints_of("roll", "shift", shift)
        return cast("Array", run("astype", x, x.dtype, copy=True))
    shifts = ints_of("roll", "shift", shift)
    if not isinstance(shift, (tuple, list)):
        if places is not None and len(places) > 1:
            shifts *= len(places)  # torch takes no other
    elif places is None or len(shifts) != len(places):
        raise bad_argument("roll", "shift", shift, "an int, or one for each axis")
    if min(shifts) <= -_FAR or max(shifts) >= _FAR:  # once around is nothing, some libraries fail
        sizes = known_sizes(x, places)
        rounds = (math.prod(sizes),) if places is None else sizes
        shifts = tuple(n % max(size, 1) for n, size in zip(shifts, rounds, strict=True))
    several = isinstance(shift, (tuple, list)) or len(shifts) > 1
    return cast("Array", run("roll", x, shifts if several else shifts[0], axis=places))


#: Beyond every size, and within the integers of 64 bits.
_FAR: Final = 2**62


@operation(result=same)
def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """Remove dimensions of size one.

    Parameters
    ----------
    x : Array
    axis : int or tuple of int

    Returns
    -------
    Array
        Without those dimensions.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If a dimension is not of size one.
    IndexError
        If an axis is out of range.
    """
    x = as_operand("squeeze", "x", x)
    places = axes_of("squeeze", axis, x.ndim)
    shape = x.shape
    for place in places:
        if shape[place] not in (1, None):
            raise bad_argument(
                "squeeze", "axis", axis, f"axes of size 1, but axis {place} has {shape[place]}"
            )
    return cast("Array", run("squeeze", x, axis=places))


@operation(result=same, argument="arrays[0]")
def stack(arrays: tuple[Array, ...] | list[Array], /, *, axis: int = 0) -> Array:
    """Join arrays along a new axis.

    Parameters
    ----------
    arrays : tuple or list of Array
        Of one shape.
    axis : int
        Where the new dimension stands in the result.

    Returns
    -------
    Array
        Of the promoted dtype and one more dimension.

    Raises
    ------
    TypeError
        If an argument is of another type, or the dtypes do not promote.
    ValueError
        If there is no array, or the shapes differ.
    IndexError
        If `axis` is out of range.
    MemoryError
        If memory does not hold the result.
    DeviceMismatchError
        If the operands live on different devices.
    """
    found = arrays_of("stack", arrays)
    first, shape = found[0], found[0].shape
    every = [(axis, axis) for axis in range(len(shape))]
    for i, x in enumerate(found):
        if x.shape != shape and (x.ndim != len(shape) or not same_sizes(x, first, every)):
            raise bad_argument("stack", f"arrays[{i}].shape", x.shape, str(shape))
    place = axis_of("stack", axis, len(shape) + 1)
    addressable("stack", len(found), *shape)
    return cast("Array", run_in(found[0]._table, "stack", tuple(found), axis=place))


@operation(result=same)
def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """Repeat a whole array along its axes.

    Parameters
    ----------
    x : Array
        Of N dimensions.
    repetitions : tuple of int
        Shorter ones, and shorter shapes, are filled with leading ones.

    Returns
    -------
    Array
        Of the longer of the two numbers of dimensions.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If a number is negative.
    MemoryError
        If memory does not hold the result.
    """
    x = as_operand("tile", "x", x)
    if not isinstance(repetitions, (tuple, list)):
        raise bad_type("tile", "repetitions", repetitions, "a tuple of int")
    times = shape_of("tile", repetitions, "repetitions")
    addressable("tile", *x.shape, *times)
    return cast("Array", run("tile", x, times))


@operation(result=same)
def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Split an array along an axis into arrays without that axis.

    Parameters
    ----------
    x : Array
        Of at least one dimension.
    axis : int

    Returns
    -------
    tuple of Array
        As many as `axis` has elements.

    Raises
    ------
    TypeError
        If an argument is of another type.
    IndexError
        If `axis` is out of range.
    """
    x = as_operand("unstack", "x", x)
    return cast("tuple[Array, ...]", run("unstack", x, axis=axis_of("unstack", axis, x.ndim)))
