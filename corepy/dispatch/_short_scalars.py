"""Python scalars beside arrays, in Python: those of which nobody has to ask whether they fit."""

from __future__ import annotations

from typing import Any, Final

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._signals import let_through
from corepy.backends._base import Native

_float64: Final = _dtypes.float64
_WIDE: Final = 2**53
#: Integers from the first to the second are numbers of a dtype.
WHOLE: Final[dict[DType, tuple[int, int]]] = {
    _dtypes.int8: (-(2**7), 2**7 - 1),
    _dtypes.int16: (-(2**15), 2**15 - 1),
    _dtypes.int32: (-(2**31), 2**31 - 1),
    _dtypes.int64: (-_WIDE, _WIDE),
    _dtypes.uint8: (0, 2**8 - 1),
    _dtypes.uint16: (0, 2**16 - 1),
    _dtypes.uint32: (0, 2**32 - 1),
    _dtypes.uint64: (0, _WIDE),
    _dtypes.float32: (-_WIDE, _WIDE),  # finite there, if rounded
    _dtypes.float64: (-_WIDE, _WIDE),
}
_NONE: Final = (1, 0)
LARGE: Final = 2.0**53
_FLOATS: Final = frozenset({_dtypes.float32, _dtypes.float64})
#: Operations of which a scalar on the right is refused where it is negative.
SHIFTS: Final = ("bitwise_left_shift", "bitwise_right_shift")


def fitted(dtype: DType, value: Any) -> int | float | None:
    """Return a Python scalar as the dtype's, None unless that surely holds it."""
    if value.__class__ is float:
        if dtype is _float64 or (dtype is _dtypes.float32 and -LARGE <= value <= LARGE):
            return value
    elif value.__class__ is int:
        least, most = WHOLE.get(dtype, _NONE)
        if least <= value <= most:
            return float(value) if dtype in _FLOATS else value
    return None


#: Dtypes of which the powers to a Python scalar are of the same one.
_KEPT: Final = {int: _dtypes.NUMERIC, float: _dtypes.FLOATING}


def squares(dtype: DType, exponent: Any) -> bool:
    """Say whether powers of a dtype are its squares, which are one multiplication each."""
    return dtype in _KEPT.get(exponent.__class__, ()) and exponent == 2


def held(
    table: Any, value: Any, name: str = "", taken: frozenset[str] = frozenset()
) -> Native | None:
    """Return a Python scalar as the library's, None unless the dtype surely holds it.

    None, too, where the library cannot make it. It stays one where it is an operand of an operation
    `name` of those in `taken`, whose callables take Python scalars.
    """
    if value.__class__ is int:
        if table.of_int is not None and -_WIDE <= value <= _WIDE:
            return table.of_int(value)
    elif value.__class__ is float:
        if table.of_float is not None:
            return table.of_float(value)
    else:
        return None
    dtype = table.dtype
    number = fitted(dtype, value)
    if number is None or name in taken:
        return number
    try:
        return table.backend.scalar(number, dtype, table.device)
    except Exception as error:  # of a device without memory, or that is lost: who is slower says so
        let_through(error)
        return None
