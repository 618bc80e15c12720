"""The floats next to a float."""

from __future__ import annotations

from typing import Any

import numpy as np

from corepy._loops._simd import bits, by_type, for_floats

_f4, _i4 = np.float32, np.int32


def _neighbour_32(x: Any, y: Any) -> Any:
    away = (y > x) == (x > _f4(0))
    word = bits(x)
    found = bits(_i4(word + _i4(1) if away else word - _i4(1)))
    found = np.copysign(bits(_i4(1)), y) if x == _f4(0) else found
    return y if x == y else found


def _neighbour_64(x: Any, y: Any) -> Any:
    away = (y > x) == (x > 0.0)
    word = bits(x)
    found = bits(word + 1 if away else word - 1)
    found = np.copysign(bits(np.int64(1)), y) if x == 0.0 else found
    return y if x == y else found


def neighbour(x: Any, y: Any) -> Any:
    """Return the number after `x` in the direction of `y`, neither of them NaN."""
    raise NotImplementedError("compiled code only")


by_type(neighbour)(for_floats(_neighbour_64, _neighbour_32))
