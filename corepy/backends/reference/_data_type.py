"""Data type functions: casts, promotion and the limits of dtypes."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument, bad_type, wrong_dtype
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._operands import (
    ArrayLike,
    as_array,
    check_device,
    result_dtype,
    scalar_dtype,
)
from corepy.backends.reference._rounding import round_all, round_to
from corepy.devices._device import CPU, Device

__all__ = ["Finfo", "Iinfo", "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]


def astype(
    x: ArrayLike,
    dtype: DType,
    /,
    *,
    copy: bool = True,
    device: Device | str | None = None,
) -> ReferenceArray:
    """Convert to a dtype, whatever promotion says.

    Parameters
    ----------
    x : array
        Of any dtype.
    dtype : DType
        The dtype of the result. Floats become integers by truncation, infinities and numbers
        out of range the nearest limit of the integer dtype, and NaN becomes 0. Integers wrap
        into narrower ones modulo ``2**bits``.
    copy : bool
        False returns `x` itself if it has the dtype already.
    device : Device or str, optional
        The host, ``"cpu"``.

    Raises
    ------
    TypeError
        From a complex to a real-valued dtype: take `real` or `imag` first.
    """
    check_device("astype", device)
    x = as_array("astype", "x", x)
    dtype = _dtypes.as_dtype(dtype, "astype")
    if x.dtype is dtype:
        return ReferenceArray(list(x.values), x.shape, dtype) if copy else x
    if x.dtype.kind == "c" and dtype.rank in (1, 2):
        raise wrong_dtype("astype", "x", x.dtype, CPU, f"a real-valued dtype to cast to {dtype}")
    if dtype.kind == "b":
        values: list[Value] = [bool(value) for value in x.values]
    elif dtype.rank == 1:
        values = [_to_integer(value, dtype) for value in x.values]
    elif dtype.rank == 2:
        values = [round_to(_number(value), dtype) for value in x.values]
    else:
        part = _dtypes.real_of(dtype)
        values = [
            value
            if isinstance(value, complex)
            else complex(cast("float", round_to(_number(value), part)))
            for value in x.values
        ]
    return ReferenceArray(round_all(values, dtype), x.shape, dtype)


def _number(value: Value) -> Value:
    return int(value) if isinstance(value, bool) else value


def _to_integer(value: Value, dtype: DType) -> int:
    """Truncate; an integer is left for wrapping, a float saturates."""
    if not isinstance(value, float):
        return int(cast("int", value))
    if math.isnan(value):
        return 0
    low, high = _dtypes.integer_range(dtype)
    if value >= high:
        return high
    return low if value <= low else math.trunc(value)


# ------------------------------------------------------------------ promotion


def can_cast(from_: DType | ArrayLike, to: DType, /) -> bool:
    """Say whether one dtype converts to another by the standard's promotion."""
    source = from_ if isinstance(from_, DType) else as_array("can_cast", "from_", from_).dtype
    target = _dtypes.as_dtype(to, "can_cast", "to")
    return _dtypes.PROMOTION.get((source, target)) is target


def result_type(*arrays_and_dtypes: DType | ArrayLike) -> DType:
    """Return the dtype that arrays, dtypes and Python scalars promote to.

    Raises
    ------
    TypeError
        If they have no common dtype in the standard's table.
    ValueError
        If there is neither an array nor a dtype among them.
    """
    dtypes: list[DType] = []
    scalars: list[Value] = []
    for i, given in enumerate(arrays_and_dtypes):
        if isinstance(given, DType):
            dtypes.append(given)
        elif isinstance(given, bool | int | float | complex):
            scalars.append(given)
        else:
            dtypes.append(as_array("result_type", f"arrays_and_dtypes[{i}]", given).dtype)
    if not dtypes:
        raise bad_argument(
            "result_type", "arrays_and_dtypes", arrays_and_dtypes, "an array or a dtype among them"
        )
    dtype = result_dtype("result_type", dtypes)
    for value in scalars:
        dtype = scalar_dtype("result_type", "arrays_and_dtypes", value, dtype)
    return dtype


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Say whether a dtype is of a kind, or of one of several.

    Parameters
    ----------
    dtype : DType
    kind : DType, str or tuple of them
        A dtype, or ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``,
        ``"real floating"``, ``"complex floating"`` or ``"numeric"``.

    Raises
    ------
    ValueError
        If there is no such kind.
    TypeError
        If `kind` is none of these types.
    """
    found = _dtypes.as_dtype(dtype, "isdtype")
    if isinstance(kind, tuple):
        return any(isdtype(found, one) for one in kind)
    if isinstance(kind, DType):
        return found is kind
    if not isinstance(kind, str):
        raise bad_type("isdtype", "kind", kind, "a dtype, a kind's name or a tuple of them")
    if kind not in _dtypes.KINDS:
        raise bad_argument("isdtype", "kind", kind, f"one of {', '.join(_dtypes.KINDS)}")
    return found in _dtypes.KINDS[kind]


# ------------------------------------------------------------------ limits


@dataclass(frozen=True, slots=True)
class Finfo:
    """Limits of a floating dtype, as Python floats."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Iinfo:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: DType | ArrayLike, /) -> Finfo:
    """Return the limits of a floating dtype, for a complex one those of its components.

    Raises
    ------
    TypeError
        If the dtype is not floating.
    """
    dtype = _dtype_of("finfo", type)
    if dtype not in _dtypes.FLOATING:
        raise wrong_dtype("finfo", "type", dtype, CPU, _dtypes.describe(_dtypes.FLOATING))
    dtype = _dtypes.real_of(dtype)
    if dtype is _dtypes.float64:
        info = sys.float_info
        return Finfo(64, info.epsilon, info.max, -info.max, info.min, dtype)
    largest = math.ldexp(2.0 - 2.0**-23, 127)
    return Finfo(32, 2.0**-23, largest, -largest, 2.0**-126, dtype)


def iinfo(type: DType | ArrayLike, /) -> Iinfo:
    """Return the limits of an integer dtype.

    Raises
    ------
    TypeError
        If the dtype is no integer dtype.
    """
    dtype = _dtype_of("iinfo", type)
    if dtype not in _dtypes.INTEGER:
        raise wrong_dtype("iinfo", "type", dtype, CPU, _dtypes.describe(_dtypes.INTEGER))
    low, high = _dtypes.integer_range(dtype)
    return Iinfo(dtype.bits, high, low, dtype)


def _dtype_of(function: str, type: DType | ArrayLike) -> DType:
    if isinstance(type, ReferenceArray):
        return type.dtype
    return _dtypes.as_dtype(type, function, "type")
