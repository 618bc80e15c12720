"""Norms in compiled loops: a row stays in the first-level cache from its first look to its last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from corepy._loops._simd import by_type, number
from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import (
    apart,
    expect_rows,
    fetch,
    is_far,
    put,
    scratch,
    squares_of,
    sum_of,
    target,
)

Array = npt.NDArray[Any]

#: Elements of a channel of one image below which channels lie beside each other in one loop.
_SHORT = 256


@kernel
def _scaled(row: Array, scale: Any, weight: Array, into: Array) -> None:
    for j in range(row.size):
        into[j] = row[j] * scale * weight[j]


@kernel
def _rms_rows(
    x: Array,
    residual: Array,
    fused: bool,
    weight: Array,
    eps: float,
    brain: bool,
    summed: Array,
    out: Array,
    start: int,
    stop: int,
) -> None:
    size = x.shape[1]
    held, added, values = scratch(x, size), scratch(x, size), scratch(x, size)
    there = apart(out, x) and (not fused or (apart(out, residual) and apart(out, summed)))
    far = is_far(out)
    for i in range(start, stop):
        row = fetch(x[i], held, brain)
        if fused:
            other = fetch(residual[i], added, brain)
            for j in range(size):
                values[j] = row[j] + other[j]
            put(values, summed[i], brain)
            row = fetch(summed[i], held, brain)  # as it was rounded
        scale = number(1.0 / np.sqrt(squares_of(row) / size + eps), values[0])
        expect_rows(x, i + 1, i + 2)  # while this one is in the cache
        if far:
            expect_rows(out, i + 1, i + 2)
        into = target(out[i], values, there)
        _scaled(row, scale, weight, into)
        put(into, out[i], brain)


def _centre(row: Array, mean: float, values: Array) -> None:
    """Take their mean from the elements of a row, so that those far from zero lose nothing."""
    raise NotImplementedError("compiled code only")


def _centre_32(row: Array, mean: float, values: Array) -> None:
    high = number(mean, values[0])
    low = number(mean - high, values[0])  # what its rounding took away
    for j in range(row.size):
        values[j] = (row[j] - high) - low


def _centre_64(row: Array, mean: float, values: Array) -> None:
    for j in range(row.size):
        values[j] = row[j] - mean
    rest = sum_of(values) / row.size  # the mean has no more digits than the elements
    for j in range(row.size):
        values[j] -= rest


@by_type(_centre)
def _centre_by_type(row: Any, mean: Any, values: Any) -> Callable[..., Any]:
    return _centre_64 if values.dtype == types.float64 else _centre_32


@kernel
def _layer_rows(
    x: Array,
    weight: Array,
    bias: Array,
    eps: float,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    size = x.shape[1]
    held, values = scratch(x, size), scratch(x, size)
    there, far = apart(out, x), is_far(out)
    for i in range(start, stop):
        row = fetch(x[i], held, brain)
        if far:
            expect_rows(x, i + 1, i + 2)
            expect_rows(out, i + 1, i + 2)
        _centre(row, sum_of(row) / size, values)
        scale = number(1.0 / np.sqrt(squares_of(values) / size + eps), values[0])
        into = target(out[i], values, there)
        for j in range(size):
            into[j] = values[j] * scale * weight[j] + bias[j]
        put(into, out[i], brain)


@kernel
def _batch_rows(
    x: Array,
    mean: Array,
    scale: Array,
    bias: Array,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    _, channels, size = x.shape
    held, values = scratch(x[0], size), scratch(x[0], size)
    there = apart(out, x)
    for i in range(start, stop):
        image, channel = i // channels, i % channels
        row = fetch(x[image, channel], held, brain)
        m, s, b = mean[channel], scale[channel], bias[channel]
        into = target(out[image, channel], values, there)
        for j in range(size):
            into[j] = (row[j] - m) * s + b
        put(into, out[image, channel], brain)


@kernel
def _batch_columns(
    x: Array,
    mean: Array,
    scale: Array,
    bias: Array,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    size = x.shape[1]
    held, values = scratch(x, size), scratch(x, size)
    there = apart(out, x)
    for i in range(start, stop):
        row = fetch(x[i], held, brain)
        into = target(out[i], values, there)
        for j in range(size):
            into[j] = (row[j] - mean[j]) * scale[j] + bias[j]
        put(into, out[i], brain)


def rms_norm(
    x: Array,
    weight: Array,
    eps: float,
    brain: bool,
    residual: Array | None,
    summed: Array | None,
    out: Array,
) -> None:
    """Put the norms of ``x (rows, size)`` into `out`, and ``x + residual`` into `summed`."""
    fused = residual is not None and summed is not None
    arguments = (
        x,
        x if residual is None else residual,
        fused,
        weight,
        eps,
        brain,
        out if summed is None else summed,
        out,
    )
    launch(_rms_rows, arguments, len(x), x.nbytes // 8)


def layer_norm(x: Array, weight: Array, bias: Array, eps: float, brain: bool, out: Array) -> None:
    """Put the norms of ``x (rows, size)`` into `out`."""
    launch(_layer_rows, (x, weight, bias, eps, brain, out), len(x), x.size)


def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    weight: Array,
    bias: Array,
    eps: float,
    brain: bool,
    out: Array,
) -> None:
    """Put normalized channels of ``x (before, channels, after)`` into `out`."""
    with np.errstate(all="ignore"):
        scale = weight / np.sqrt(variance + mean.dtype.type(eps))
    before, channels, after = x.shape
    if after < _SHORT and before > 1:  # as columns, so that loops are long
        columns = tuple(np.repeat(values, after) for values in (mean, scale, bias))
        x, out = (array.reshape(before, channels * after) for array in (x, out))
        launch(_batch_columns, (x, *columns, brain, out), before, x.nbytes // 8)
    else:
        launch(_batch_rows, (x, mean, scale, bias, brain, out), before * channels, x.nbytes // 8)
