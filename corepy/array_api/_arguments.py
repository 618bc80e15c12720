"""Checks of the arguments that many functions share.

Axes, shapes, counts, keywords, matrices; ``dtype=`` and ``device=``, and the table that they
choose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from corepy._dtypes import ANY, DType, as_dtype, describe, float64
from corepy._errors import bad_argument, bad_type, out_of_range
from corepy.devices._device import Device, as_device
from corepy.dispatch import (
    STRICT,
    Operand,
    Table,
    as_companion,
    as_operand,
    cast_to,
    creation_table,
    default_table,
    fitting,
    gathered,
    index_value,
    is_numpys_scalar,
    promoted_of,
    same_sizes,
    table_of,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array

#: Elements that no machine of today can address, so that absurd sizes fail at once and alike on
#: every backend instead of filling its memory first.
ADDRESSABLE: Final = 2**47


def axis_of(function: str, axis: Any, ndim: int, argument: str = "axis") -> int:
    """Return an axis as a non-negative int.

    Raises
    ------
    TypeError
        If it is no int.
    IndexError
        If it is out of range.
    """
    if axis.__class__ is int and -ndim <= axis < ndim:  # what most programs write
        return axis if axis >= 0 else axis + ndim
    number = index_value(function, argument, axis)
    if not -ndim <= number < ndim:
        valid = f"{-ndim} to {ndim - 1} for a {ndim}-D array"
        raise out_of_range(function, argument, axis, valid if ndim else "at least one dimension")
    return number + ndim if number < 0 else number


def axes_of(function: str, axes: Any, ndim: int, argument: str = "axis") -> tuple[int, ...]:
    """Return one axis or a tuple of them as non-negative, distinct ints."""
    if axes.__class__ is int:
        return (axis_of(function, axes, ndim, argument),)
    if isinstance(axes, (tuple, list)):
        found = tuple([axis_of(function, axis, ndim, argument) for axis in axes])
        if len(set(found)) < len(found):
            raise bad_argument(function, argument, axes, "distinct axes")
        return found
    return (axis_of(function, axes, ndim, argument),)


def repeated_axes(function: str, axes: Any, ndim: int) -> tuple[int, ...]:
    """Return axes that may come more than once."""
    if not isinstance(axes, (tuple, list)):
        return (axis_of(function, axes, ndim),)
    return tuple([axis_of(function, axis, ndim) for axis in axes])


def optional_axes(function: str, axes: Any, ndim: int) -> tuple[int, ...] | None:
    """Return axes of a reduction; None stays None."""
    return None if axes is None else axes_of(function, axes, ndim)


def optional_axis(function: str, axis: Any, ndim: int) -> int | None:
    """Return one axis; None stays None."""
    return None if axis is None else axis_of(function, axis, ndim)


def size_of(function: str, argument: str, value: Any) -> int:
    """Return a size or count as a non-negative int.

    Raises
    ------
    TypeError
        If it is no int.
    ValueError
        If it is negative, or more than memory can address.
    """
    number = value if value.__class__ is int else index_value(function, argument, value)
    if not 0 <= number < 2**63:
        raise bad_argument(function, argument, value, "an int of at least 0 and below 2**63")
    return number


def shape_of(function: str, shape: Any, argument: str = "shape") -> tuple[int, ...]:
    """Return a shape, given as an int or a sequence of ints, as a tuple."""
    if shape.__class__ is int and 0 <= shape < ADDRESSABLE:  # what most programs write
        return (shape,)
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    sizes = tuple([size_of(function, argument, n) for n in given])
    addressable(function, *sizes)
    return sizes


def addressable(function: str, *sizes: int | None, holder: str = "the result has") -> None:
    """Refuse a result of more elements than any memory holds: the product of some sizes.

    And one that would have so many but for sizes of 0: libraries multiply the others, which
    overflows, or takes them for chunks; XLA ends the process.

    Raises
    ------
    MemoryError
        If there are too many.
    """
    count = math.prod([size for size in sizes if size])
    if count >= ADDRESSABLE:
        aside = ", sizes of 0 aside" if 0 in sizes else ""
        raise MemoryError(
            f"{function}: {holder} {count} elements{aside}; expected fewer than 2**47"
        )


def ints_of(function: str, argument: str, values: Any) -> tuple[int, ...]:
    """Return an int or a sequence of ints as a tuple of ints of any sign."""
    if isinstance(values, (tuple, list)):
        return tuple([index_value(function, argument, value) for value in values])
    return (index_value(function, argument, values),)


def number_of(function: str, argument: str, value: Any) -> int | float:
    """Return a real number, of Python's type where it is a scalar of NumPy's.

    An int beyond 64 bits, which libraries do not take, is returned as a float.

    Raises
    ------
    TypeError
        If it is no int or float.
    OverflowError
        If it is an int beyond the range of float64.
    """
    kind = value.__class__
    if kind is float or (kind is int and -(2**63) <= value < 2**63):  # what most programs write
        return cast("float", value)
    number = value.item() if is_numpys_scalar(value) else value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise bad_type(function, argument, value, "an int or float")
    if isinstance(number, float) or -(2**63) <= number < 2**63:
        return number
    return cast("float", fitting(function, argument, number, float64))


def flag_of(function: str, argument: str, value: Any) -> bool:
    """Return a switch; anything but a bool is refused."""
    if not isinstance(value, bool):
        raise bad_type(function, argument, value, "a bool")
    return value


def choice_of(function: str, argument: str, value: Any, choices: Sequence[str]) -> str:
    """Return one of a few words."""
    if not isinstance(value, str):
        raise bad_type(function, argument, value, f"one of {tuple(choices)}")
    if value not in choices:
        raise bad_argument(function, argument, value, f"one of {tuple(choices)}")
    return value


def dtype_argument(function: str, dtype: Any, argument: str = "dtype") -> DType:
    """Return a dtype argument; strict mode takes the namespace's own objects only."""
    if dtype.__class__ is DType:
        return dtype
    if STRICT.get():
        raise bad_type(function, argument, dtype, "a dtype of corepy.array_api (strict mode)")
    return as_dtype(dtype, function, argument)


def device_argument(function: str, device: Any) -> Device:
    """Return a device argument; strict mode takes `Device` objects only."""
    if STRICT.get() and not isinstance(device, Device):
        raise bad_type(function, "device", device, "a Device (strict mode)")
    return as_device(device, function)


def copy_argument(function: str, copy: Any) -> bool | None:
    """Return a ``copy`` argument: True, False or None."""
    return None if copy is None else flag_of(function, "copy", copy)


def new_table(
    function: str, dtype: Any, device: Any, default: DType, allowed: frozenset[DType] = ANY
) -> Table:
    """Choose backend, device and dtype of a new array."""
    if dtype is None:
        return default_table(function, device, default)
    chosen = dtype_argument(function, dtype)
    if chosen not in allowed:
        raise bad_argument(function, "dtype", chosen.name, describe(allowed))
    return creation_table(function, device, chosen)


def table_like(function: str, x: Array, dtype: Any, device: Any) -> Table:
    """Choose the table of an array that resembles another: same backend unless moved."""
    table = x._table
    if table.backend.home is not None:  # what is new lies at home
        table = table_of(table.backend.home, table.device, table.dtype)
    chosen = table.dtype if dtype is None else dtype_argument(function, dtype)
    if device is None or device_argument(function, device) is table.device:
        return table.sibling(chosen, function)
    return creation_table(function, device, chosen)


def one_device(function: str, first: str, x: Array, name: str, other: Array) -> None:
    """Refuse operands that live on two devices, and name them.

    Raises
    ------
    DeviceMismatchError
        If they do.
    """
    if other._table.device is not x._table.device:
        gathered(function, first, x._table, name, other)  # which says so


def arrays_of(function: str, arrays: Any) -> list[Array]:
    """Return a tuple or list of arrays in one dtype, on one device."""
    if not isinstance(arrays, (tuple, list)):
        raise bad_type(function, "arrays", arrays, "a tuple or list of arrays")
    if not arrays:
        raise bad_argument(function, "arrays", arrays, "at least one array")
    first, found = arrays[0], None
    if isinstance(first, Operand):
        table, mixed = first._table, False
        for x in arrays:
            if x.__class__ is not first.__class__:
                break
            if x._table is not table:
                if x._table.backend is not table.backend or x._table.device is not table.device:
                    break
                mixed = True
        else:  # nothing to move
            found = list(arrays)
            if not mixed:
                return found
    if found is None:
        leader = next((i for i, x in enumerate(arrays) if isinstance(x, Operand)), None)
        home = None if leader is None else arrays[leader]._table
        found = [as_companion(function, f"arrays[{i}]", x, home) for i, x in enumerate(arrays)]
        if home is not None:  # native arrays come to the first `Array`, as in `unify`
            found[0] = gathered(function, f"arrays[{leader}]", home, "arrays[0]", found[0])
    dtype = promoted_of(function, [x.dtype for x in found])
    for i, x in enumerate(found[1:], 1):
        one_device(function, "arrays[0]", found[0], f"arrays[{i}]", x)
    return [cast_to(x, dtype, function) for x in found]


def matrices_of(function: str, x: Any, argument: str = "x") -> Array:
    """Return an operand of matrices, which has two dimensions or more."""
    x = as_operand(function, argument, x)
    if x.ndim < 2:
        raise bad_argument(function, f"{argument}.shape", x.shape, "at least two dimensions")
    return cast("Array", x)


def square_of(function: str, x: Any, argument: str = "x") -> Array:
    """Return an operand of square matrices."""
    matrices = matrices_of(function, x, argument)
    *_, rows, columns = matrices.shape
    if rows != columns and not same_sizes(matrices, matrices, [(-1, -2)]):
        raise bad_argument(function, f"{argument}.shape", matrices.shape, "square matrices")
    return matrices
