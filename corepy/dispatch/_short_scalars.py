"""Python scalars beside arrays, in Python: those of which nobody has to ask whether they fit."""

from __future__ import annotations

from typing import Any, Final

from corepy import _dtypes
from corepy._dtypes import DType
from corepy.backends._base import Native

_float64: Final = _dtypes.float64
#: Integers up to here, of either sign, are numbers of a dtype.
_WHOLE: Final[dict[DType, int]] = {
    _dtypes.int8: 2**7 - 1,
    _dtypes.int16: 2**15 - 1,
    _dtypes.int32: 2**31 - 1,
    _dtypes.int64: 2**53,
    _dtypes.float32: 2**53,  # finite there, if rounded
    _dtypes.float64: 2**53,
}
_LARGE: Final = 2.0**53
_WIDE: Final = 2**53
_FLOATS: Final = frozenset({_dtypes.float32, _dtypes.float64})


def fitted(dtype: DType, value: Any) -> int | float | None:
    """Return a Python scalar as the dtype's, None unless that surely holds it."""
    if value.__class__ is float:
        if dtype is _float64 or (dtype is _dtypes.float32 and -_LARGE <= value <= _LARGE):
            return value
    elif value.__class__ is int:
        most = _WHOLE.get(dtype, -1)
        if -most <= value <= most:
            return float(value) if dtype in _FLOATS else value
    return None


def held(table: Any, value: Any) -> Native | None:
    """Return a Python scalar as the library's, None unless the dtype surely holds it."""
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
    return None if number is None else table.backend.scalar(number, dtype, table.device)
