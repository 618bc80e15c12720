"""New arrays that are filled in several threads."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.backends._numpy_creation import EXACT, is_exact, keeps_pace
from corepy.backends.numba import _creation_loops as loops
from corepy.backends.numba._compiled import blocks, launch
from corepy.backends.numba._glue import Operation, operation
from corepy.backends.numba._layout import FLOATS, bits, flat

Array = npt.NDArray[Any]

#: Elements from which these loops are sooner than NumPy's.
_LEAST: Final = 8192


@operation("full", _LEAST)
def _full(shape: tuple[int, ...], value: Any, /, *, dtype: np.dtype[Any], device: Any) -> Array:
    out = np.empty(shape, dtype)
    arguments = bits(np.full(1, value, dtype)), bits(flat(out))
    launch(loops.fill, arguments, blocks(out.size), out.nbytes // 8)
    return out


@operation("ones", _LEAST)
def _ones(shape: tuple[int, ...], /, *, dtype: np.dtype[Any], device: Any) -> Array:
    made: Array = _full.own(shape, 1, dtype=dtype, device=device)
    return made


@operation("arange", _LEAST)
def _arange(
    first: Any, last: Any, pace: Any, /, *, dtype: np.dtype[Any], device: Any
) -> Array | None:
    ends = first, last, pace
    most = EXACT.get(dtype, 0)
    if any(end.__class__ is not int or abs(end) >= most for end in ends):
        if dtype not in FLOATS or not is_exact(first) or not is_exact(pace):
            return None
        if keeps_pace(first, pace, dtype):
            return None  # NumPy rounds as it does
        out = np.empty(max(0, math.ceil((last - first) / pace)), dtype)
        launch(loops.space, (float(first), float(pace), out), blocks(out.size), 2 * out.size)
        return out
    out = np.empty(-((first - last) // pace), dtype)
    launch(loops.count, (first, pace, out), blocks(out.size), out.nbytes // 8)
    return out


@operation("linspace", _LEAST)
def _linspace(
    start: Any, stop: Any, num: int, /, *, dtype: np.dtype[Any], device: Any, endpoint: bool
) -> Array | None:
    parts = num - endpoint
    if dtype not in FLOATS or parts < 1 or not (is_exact(start) and is_exact(stop)):
        return None
    first, last = float(start), float(stop)
    step = (last - first) / parts
    most = float(np.finfo(dtype).max)
    if not (step and math.isfinite(last - first) and max(abs(first), abs(last)) < most):
        return None
    out = np.empty(num, dtype)
    launch(loops.space, (first, step, out), blocks(num), 2 * num)
    if endpoint:
        out[-1] = last
    return out


OPERATIONS: Final[dict[str, Operation]] = {
    "arange": _arange,
    "full": _full,
    "linspace": _linspace,
    "ones": _ones,
}
