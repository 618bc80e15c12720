"""New arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from corepy.backends.cupy._devices import place
from corepy.backends.cupy._elementwise import complex_of
from corepy.devices._device import Device

Array = Any
Function = Callable[..., Any]


def on_device(function: Function) -> Function:
    """Enter the device; compat takes one of CuPy's, and its own names for it."""

    def create(*args: Any, dtype: Any, device: Device, **params: Any) -> Array:
        with place(device):
            return function(*args, dtype=dtype, **params)

    return create


def eye(n_rows: int, n_cols: int | None, *, k: int, dtype: Any) -> Array:
    return cupy.eye(n_rows, n_cols, k, dtype)


def arange(first: float, last: float, pace: float, *, dtype: Any) -> Array:
    dtype = np.dtype(dtype)
    whole = all(isinstance(x, int) for x in (first, last, pace))
    if dtype.kind not in "iu" or not whole:
        # CuPy casts ends and step before it multiplies: they may be fractions, or beyond the dtype.
        great = max(abs(last - first), abs(pace)) > np.finfo(np.float32).max
        if dtype.kind in "iu" or (dtype == np.float32 and great):
            return cupy.arange(first, last, pace, np.float64).astype(dtype)
        return cupy.arange(first, last, pace, dtype)
    limits = np.iinfo(dtype)
    if limits.min <= pace <= limits.max and abs(last - first) < 2**53:
        return cupy.arange(first, last, pace, dtype)
    # CuPy counts in floats, and wants a step that the dtype holds, as -1 is none of uint8. Unsigned
    # integers wrap around as often as it takes.
    unsigned, wrap = np.dtype(f"u{dtype.itemsize}"), 2 ** (8 * dtype.itemsize)
    count = len(range(int(first), int(last), int(pace)))
    steps = cupy.arange(0, count, 1, unsigned) * unsigned.type(pace % wrap)
    return (steps + unsigned.type(first % wrap)).view(dtype)


def linspace(start: Any, stop: Any, num: int, *, dtype: Any, endpoint: bool) -> Array:
    dtype = np.dtype(dtype)
    if dtype.kind == "c":  # whose ends CuPy makes floats (ranges.py)
        part = np.finfo(dtype).dtype
        return complex_of(
            linspace(start.real, stop.real, num, dtype=part, endpoint=endpoint),
            linspace(start.imag, stop.imag, num, dtype=part, endpoint=endpoint),
        )
    made = cupy.linspace(start, stop, num, endpoint, dtype=dtype)
    if endpoint and num > 1 and stop == 0 and math.copysign(1, stop) < 0:
        made[-1] = cupy.full((), stop, dtype)  # of numbers that are written zeros lose their sign
    return made
