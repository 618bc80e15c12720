"""Creation: what depends on the position is computed chunk by chunk from the positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from dask.array.core import elemwise

from corepy.backends.dask._blocks import Array, automatic
from corepy.devices._device import Device


def filled(function: Callable[..., Any]) -> Callable[..., Array]:
    """Drop the device of a creation function: there is one."""

    def create(shape: tuple[Any, ...], *value: Any, dtype: Any, device: Device) -> Array:
        if None in shape:
            raise ValueError(f"shape is {shape}; expected sizes that are known")
        return function(shape, *value, dtype=dtype, chunks=automatic(shape))

    return create


def positions(count: int) -> Array:
    """Return 0, 1, ... up to a count."""
    return da.arange(count, dtype=np.int64, chunks=automatic((count,)))


def arange(start: Any, stop: Any, step: Any, *, dtype: Any, device: Device) -> Array:
    # Dask adds up the start of each chunk, so rounding changes values and even their number.
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        count = max(0, -((start - stop) // step))
        if dtype.kind in "iu":
            return elemwise(_count_up, positions(count), start, step, dtype, dtype=dtype)
        if max(abs(start), abs(stop)) > 2**53:  # which may be beyond the positions' int64
            start, step = float(start), float(step)
    else:
        count = max(0, math.ceil((stop - start) / step))
    return elemwise(_step_up, positions(count), start, step, dtype, dtype=dtype)


def _count_up(i: Any, start: int, step: int, dtype: Any) -> Any:
    # Modulo 2**64, where every integer dtype counts right, also from and to beyond int64.
    wrap = 2**64 - 1
    values = i.astype(np.uint64) * np.uint64(step & wrap) + np.uint64(start & wrap)
    return values.astype(dtype)


def _step_up(i: Any, start: float, step: float, dtype: Any) -> Any:
    return (start + i * step).astype(dtype)


def linspace(
    start: Any, stop: Any, num: int, *, dtype: Any, device: Device, endpoint: bool
) -> Array:
    # Dask's takes no complex ends, and its last value may miss `stop`.
    steps = num - 1 if endpoint else num
    last = num - 1 if endpoint and num > 1 else -1
    wide = np.result_type(dtype, np.float64)
    return elemwise(
        _spread, positions(num), wide.type(start), wide.type(stop), steps, last, dtype, dtype=dtype
    )


def _spread(i: Any, start: Any, stop: Any, steps: int, last: int, dtype: Any) -> Any:
    # As numpy.linspace does it, which for a step that underflows to zero divides first.
    with np.errstate(over="ignore"):  # of the last value, which is `stop`
        delta = stop - start
        step = delta / max(steps, 1)
        part = i / max(steps, 1) * delta if step == 0 else i * step
        return np.where(i == last, stop, part + start).astype(dtype)


def eye(n_rows: int, n_cols: int, *, k: int, dtype: Any, device: Device) -> Array:
    # Dask's takes the chunk sizes of the rows for the columns.
    return (positions(n_rows)[:, None] + k == positions(n_cols)).astype(dtype)


def fftfreq(n: int, *, d: float, dtype: Any, device: Device) -> Array:
    return elemwise(_frequency, positions(n), n, d, dtype, dtype=dtype)


def rfftfreq(n: int, *, d: float, dtype: Any, device: Device) -> Array:
    return elemwise(_scale, positions(n // 2 + 1), n, d, dtype, dtype=dtype)


def _frequency(i: Any, n: int, d: float, dtype: Any) -> Any:
    return _scale(np.where(i < (n + 1) // 2, i, i - n), n, d, dtype)


def _scale(i: Any, n: int, d: float, dtype: Any) -> Any:
    return (i * (1.0 / (n * d))).astype(dtype)
