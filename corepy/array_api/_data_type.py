"""Data type functions.

https://data-apis.org/array-api/2025.12/API_specification/data_type_functions.html
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from corepy import _dtypes
from corepy._dtypes import PROMOTION, DType, Scalar
from corepy._errors import bad_argument, bad_type
from corepy.array_api._arguments import device_argument, dtype_argument, flag_of
from corepy.devices._device import Device
from corepy.dispatch import (
    Operand,
    Table,
    as_operand,
    creation_table,
    dtypes_on,
    is_scalar,
    operation,
    owner_of,
    plain,
    promoted_of,
    run,
    scalar_dtype,
    shortened,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array


@dataclass(frozen=True, slots=True)
class finfo_object:
    """Machine limits of a floating-point dtype, as Python floats.

    Attributes
    ----------
    bits : int
        Bits of one real component.
    eps : float
        Distance of 1 and the next greater number.
    max, min : float
        Greatest and least finite number.
    smallest_normal : float
        Smallest positive number with full precision.
    dtype : DType
        The real dtype.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class iinfo_object:
    """Machine limits of an integer dtype.

    Attributes
    ----------
    bits : int
    max, min : int
    dtype : DType
    """

    bits: int
    max: int
    min: int
    dtype: DType


def _float_limits(dtype: DType, digits: int, greatest: int) -> finfo_object:
    """Compute the limits of an IEEE 754 format from its digits and greatest exponent."""
    largest = (2.0 - 2.0 ** (1 - digits)) * 2.0**greatest
    smallest = 2.0 ** (1 - greatest)
    return finfo_object(dtype.bits, 2.0 ** (1 - digits), largest, -largest, smallest, dtype)


_SINGLE: Final = _float_limits(_dtypes.float32, 24, 127)
_DOUBLE: Final = _float_limits(_dtypes.float64, 53, 1023)
_FINFO: Final = {
    _dtypes.float32: _SINGLE,
    _dtypes.float64: _DOUBLE,
    _dtypes.complex64: _SINGLE,
    _dtypes.complex128: _DOUBLE,
}


def _integer_limits(dtype: DType) -> iinfo_object:
    low, high = _dtypes.integer_range(dtype)
    return iinfo_object(dtype.bits, high, low, dtype)


_IINFO: Final = {dtype: _integer_limits(dtype) for dtype in _dtypes.INTEGER}


@operation()
def astype(
    x: Array, dtype: DType, /, *, copy: bool = True, device: Device | str | None = None
) -> Array:
    """Copy an array to a dtype.

    Parameters
    ----------
    x : Array
    dtype : DType
    copy : bool
        Whether to copy even if the dtype is the same.
    device : Device or None
        By default that of `x`.

    Returns
    -------
    Array
        Of the shape of `x`. Floats are truncated towards zero; NaN, infinities and values out of
        range become arbitrary integers.

    Raises
    ------
    TypeError
        If an argument is of another type, or `x` is complex and `dtype` real: take ``xp.real`` or
        ``xp.imag`` first.
    ValueError
        If a name is of no dtype or device.
    BackendUnavailableError
        If the device is not present.
    UnsupportedOperationError
        If no backend has the dtype on that device.
    """
    x = as_operand("astype", "x", x)
    target = dtype_argument("astype", dtype)
    copying = flag_of("astype", "copy", copy)
    cast_allowed("astype", "x", x.dtype, target, CASTS)
    moved: Array = x
    if device is not None:
        place = device_argument("astype", device)
        if place is not x.device:
            creation_table("astype", place, target)  # which says so if there is no such device
            if x.dtype not in dtypes_on(place):
                moved, copying = cast("Array", run("astype", x, target, copy=True)), False
        moved = moved.to_device(place)
    if moved.dtype is target and (not copying or moved is not x):
        return moved
    moved._table.sibling(target, "astype")  # the device may lack it
    return cast("Array", run("astype", moved, target, copy=True))


#: What ``astype`` converts: everything but complex to real (complex to bool is allowed).
CASTS: Final = frozenset(
    (a, b)
    for a in _dtypes.ANY
    for b in _dtypes.ANY
    if a.rank < 3 or b.rank == 3 or b is _dtypes.bool
)
#: What converts without being told to: nothing to a lower kind, where values would be lost.
CONVERSIONS: Final = frozenset((a, b) for a in _dtypes.ANY for b in _dtypes.ANY if a.rank <= b.rank)


def cast_allowed(
    function: str,
    argument: str,
    source: DType,
    target: DType,
    allowed: frozenset[tuple[DType, DType]],
) -> None:
    """Raise ``TypeError`` for a conversion that would drop a part of the values."""
    if (source, target) not in allowed:
        hint = "take xp.real or xp.imag first" if source.rank == 3 else "use xp.astype"
        raise TypeError(
            f"{function}: {argument} has dtype {source}; expected one that converts to {target}: "
            f"{hint}"
        )


def can_cast(from_: DType | Array, to: DType, /) -> bool:
    """Say whether promotion can turn one dtype into another.

    Parameters
    ----------
    from_ : DType or Array
    to : DType

    Returns
    -------
    bool
        Whether the two promote to `to` by the standard's table; of an array, among the dtypes that
        its device has.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If a name is of no dtype.
    """
    source, table = _source_of("can_cast", "from_", from_)
    target = dtype_argument("can_cast", to, "to")
    if table is not None and target not in table.dtypes:
        return False
    return PROMOTION.get((source, target)) is target


def _dtype_of(function: str, argument: str, value: Any) -> DType:
    """Return the dtype of an array, or the dtype itself."""
    return _source_of(function, argument, value)[0]


def _source_of(function: str, argument: str, value: Any) -> tuple[DType, Table | None]:
    """Return the dtype of an array and its table, or the dtype itself and None."""
    if isinstance(value, DType):
        return value, None
    if isinstance(value, Operand) or owner_of(value) is not None:
        table: Table = as_operand(function, argument, value)._table
        return table.dtype, table
    return dtype_argument(function, value, argument), None


def finfo(type: DType | Array, /) -> finfo_object:
    """Machine limits of a floating-point dtype.

    Parameters
    ----------
    type : DType or Array
        Complex dtypes give the limits of their components.

    Returns
    -------
    finfo_object

    Raises
    ------
    TypeError
        If `type` is neither a dtype nor an array.
    ValueError
        If the dtype is not a floating-point one.
    """
    dtype = _dtype_of("finfo", "type", type)
    found = _FINFO.get(dtype)
    if found is None:
        raise bad_argument("finfo", "type", dtype.name, _dtypes.describe(_dtypes.FLOATING))
    return found


def iinfo(type: DType | Array, /) -> iinfo_object:
    """Machine limits of an integer dtype.

    Parameters
    ----------
    type : DType or Array

    Returns
    -------
    iinfo_object

    Raises
    ------
    TypeError
        If `type` is neither a dtype nor an array.
    ValueError
        If the dtype is not an integer one.
    """
    dtype = _dtype_of("iinfo", "type", type)
    found = _IINFO.get(dtype)
    if found is None:
        raise bad_argument("iinfo", "type", dtype.name, _dtypes.describe(_dtypes.INTEGER))
    return found


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Say whether a dtype is of a kind.

    Parameters
    ----------
    dtype : DType
    kind : DType, str or tuple of them
        A dtype; ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``,
        ``"real floating"``, ``"complex floating"`` or ``"numeric"``; or any of several.

    Returns
    -------
    bool

    Raises
    ------
    TypeError
        If `dtype` is no dtype, or `kind` of another type.
    ValueError
        If `kind` is another word.
    """
    subject = dtype_argument("isdtype", dtype)
    return builtins.any(subject in _kind("isdtype", part) for part in _parts(kind))


def _parts(kind: Any) -> tuple[Any, ...]:
    return kind if isinstance(kind, tuple) else (kind,)


def _kind(function: str, kind: Any) -> frozenset[DType]:
    if isinstance(kind, str):
        found = _dtypes.KINDS.get(kind)
        if found is None:
            raise bad_argument(function, "kind", kind, f"one of {tuple(_dtypes.KINDS)}")
        return found
    if isinstance(kind, list):
        raise bad_type(function, "kind", kind, "a dtype, a kind, or a tuple of them")
    if isinstance(kind, tuple):
        raise bad_type(function, "kind", kind, "a dtype or str in the tuple")
    return frozenset({dtype_argument(function, kind, "kind")})


def kind_dtypes(kind: str | tuple[str, ...] | None) -> dict[str, DType]:
    """Return the dtypes of a kind by name, in the standard's order; None for all."""
    wanted = _dtypes.ANY
    if kind is not None:
        wanted = frozenset().union(*(_kind("dtypes", part) for part in _parts(kind)))
    return {name: dtype for name, dtype in _dtypes.DTYPES.items() if dtype in wanted}


@partial(shortened, "result_type")
def result_type(*arrays_and_dtypes: Array | Scalar | DType) -> DType:
    """Dtype that an operation on arrays, scalars and dtypes gives.

    Parameters
    ----------
    *arrays_and_dtypes : Array, scalar or DType
        At least one is an array or a dtype.

    Returns
    -------
    DType
        Beside an array on a device without the default dtype of a scalar of a higher kind, that of
        single precision.

    Raises
    ------
    TypeError
        If an argument is of another type, or there is no common dtype.
    ValueError
        If there is no array and no dtype, or a name is of none.
    """
    function = "result_type"
    scalars: list[tuple[int, Any]] = []
    dtypes: list[DType] = []
    home: Table | None = None  # of the first array
    for i, value in enumerate(arrays_and_dtypes):
        if isinstance(value, DType):
            dtypes.append(value)
            continue
        number = value if isinstance(value, Operand) else plain(value)
        if is_scalar(number):
            scalars.append((i, number))
            continue
        dtype, table = _source_of(function, f"arrays_and_dtypes[{i}]", value)
        dtypes.append(dtype)
        if home is None:
            home = table
    if not dtypes:
        raise ValueError("result_type: there is no array and no dtype; expected at least one")
    result = promoted_of(function, dtypes)
    for i, value in scalars:
        name = f"arrays_and_dtypes[{i}]"
        wide = scalar_dtype(function, name, cast("Scalar", value), result)
        result = wide if wide is result or home is None else home.narrowed(wide)
    return result
