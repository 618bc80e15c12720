"""New arrays of NumPy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._dtypes import Scalar
from corepy.devices._device import CPU, Device

Array = npt.NDArray[Any]

# Without the device, of which there is one. NumPy's functions are called by position, and its
# Python layer is left out: on few elements it takes most of the time.


def empty(shape: tuple[int, ...], dtype: Any, device: Device = CPU) -> Array:
    return np.empty(shape, dtype)


empty.plain = np.empty  # type: ignore[attr-defined]


def zeros(shape: tuple[int, ...], dtype: Any, device: Device = CPU) -> Array:
    return np.zeros(shape, dtype)


zeros.plain = np.zeros  # type: ignore[attr-defined]


def ones(shape: tuple[int, ...], dtype: Any, device: Device = CPU) -> Array:
    result = np.empty(shape, dtype)
    result.fill(1)
    return result


def full(shape: tuple[int, ...], value: Scalar, *, dtype: Any, device: Device) -> Array:
    result = np.empty(shape, dtype)
    result.fill(value)
    return result


def linspace(
    start: Any, stop: Any, num: int, *, dtype: Any, device: Device, endpoint: bool
) -> Array:
    # As numpy.linspace does, whose preparations for arrays as ends take most of its time.
    if not (is_exact(start) and is_exact(stop) and abs(stop - start) < _FAR):
        with np.errstate(over="ignore"):  # of the last value, before the end takes its place
            return np.linspace(start, stop, num, endpoint=endpoint, dtype=dtype)
    parts, length = num - endpoint, float(stop) - float(start)

    def spread(values: Array) -> Array:
        if parts > 0 and length / parts == 0:  # the step is too small, the result need not be
            values /= parts
            values *= length
        else:
            values *= length / parts if parts > 0 else length
        values += start
        return values

    result = _counted(num, dtype, spread)
    if endpoint and num > 1:
        result[-1] = stop
    return result


def _counted(num: int, dtype: Any, spread: Callable[[Array], Array]) -> Array:
    """Make an array of float64 numbers from 0 on, which a function changes in place."""
    if num <= _STRETCH:
        return spread(np.arange(num, dtype=np.float64)).astype(dtype, copy=False)
    # A stretch at a time, which stays in the cache from one step to the next.
    result = np.empty(num, dtype)
    counted = np.arange(_STRETCH, dtype=np.float64)
    for first in range(0, num, _STRETCH):
        part = result[first : first + _STRETCH]
        if dtype == counted.dtype:
            spread(np.add(counted[: part.size], first, out=part))
        else:
            part[...] = spread(counted[: part.size] + first)
    return result


def arange(first: Any, last: Any, pace: Any, *, dtype: Any, device: Device) -> Array:
    # NumPy multiplies for each element, without SIMD. Where all values are exact, sums are equal.
    if first.__class__ is int and last.__class__ is int and pace.__class__ is int:
        start, stop, step = first, last, pace
        count = -((start - stop) // step)
        exact = EXACT.get(dtype) if count > _STRETCH else None
        if exact is not None and max(abs(start), abs(stop), abs(step)) < exact:
            result = np.empty(count, dtype)
            done = _BEGINNING
            result[:done] = np.arange(start, start + done * step, step, dtype=dtype)
            while done < count:  # as many more as there are
                more = result[done : 2 * done]
                np.add(result[: more.size], dtype.type(done * step), out=more)
                done += more.size
            return result
        if dtype == np.float32:  # which rounds a float64 once, and NumPy twice
            return _paced(first, last, pace, dtype)
    elif dtype.kind != "f":  # NumPy would make the ends and the step integers
        return _paced(first, last, pace, dtype)
    if dtype.kind == "f" and not keeps_pace(first, pace, dtype):
        return _paced(first, last, pace, dtype)
    return np.arange(first, last, pace, dtype)  # type: ignore[call-overload,no-any-return]


def keeps_pace(first: Any, pace: Any, dtype: Any) -> bool:
    """Say whether the second value of a range lies a step behind the first one.

    NumPy goes on by their distance (`fill` of its dtypes), which is that of rounded numbers. Beside
    a great start hardly anything of the step is left in it, and each value adds to the error.
    """
    number, most = _NUMBERS[dtype]
    if not abs(first) + abs(pace) < most:
        return False
    return bool(number(first + pace) - number(first) == number(pace))


#: By dtype: what rounds to it, and the greatest number.
_NUMBERS: Final[dict[np.dtype[Any], tuple[Any, float]]] = {
    np.dtype(np.float32): (np.float32, float(np.finfo(np.float32).max)),
    np.dtype(np.float64): (float, float(np.finfo(np.float64).max)),
}


def _paced(first: Any, last: Any, pace: Any, dtype: Any) -> Array:
    """Make a range of ``first + i * pace``, each computed in float64."""

    def spread(values: Array) -> Array:
        values *= pace
        values += first
        return values

    return _counted(max(0, math.ceil((last - first) / pace)), dtype, spread)


#: Elements that stay in the second-level cache while something is computed of them.
_STRETCH: Final = 32_768
#: Distance of two ends within which no rounded multiple of a step is beyond the greatest number.
_FAR: Final = float(np.finfo(np.float64).max) / 2
#: Elements that NumPy makes of a long range, the rest being sums of those.
_BEGINNING: Final = 1024
#: Up to where all integers are numbers of a dtype, and their sums and differences are too.
EXACT: Final = {
    np.dtype(np.float32): 2**23,
    np.dtype(np.float64): 2**52,
    np.dtype(np.int64): 2**62,
}


def is_exact(value: Any) -> bool:
    """Say whether a number is the same as a float."""
    return value.__class__ is float or (value.__class__ is int and -(2**53) <= value <= 2**53)


def eye(n_rows: int, n_cols: int | None, *, k: int, dtype: Any, device: Device) -> Array:
    return np.eye(n_rows, n_cols, k, dtype)


# As NumPy's functions of these names, which count in integers. They take no dtype: float32 is
# rounded once from float64.
def fftfreq(n: int, *, d: float, dtype: Any, device: Device) -> Array:
    found = np.arange(n, dtype=np.float64)
    found[(n + 1) // 2 :] -= n
    found *= 1.0 / (n * d)
    return found.astype(dtype, copy=False)


def rfftfreq(n: int, *, d: float, dtype: Any, device: Device) -> Array:
    found = np.arange(n // 2 + 1, dtype=np.float64)
    found *= 1.0 / (n * d)
    return found.astype(dtype, copy=False)
