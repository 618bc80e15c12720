"""Products of a few vectors with a matrix of integers, in compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from corepy._loops._simd import number
from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import scratch, sum_of_products

Array = npt.NDArray[Any]


@kernel
def _widen(words: Array, scales: Array, row: Array) -> None:
    step = words.size // scales.size
    for g in range(scales.size):
        scale = scales[g]
        part, into = words[g * step : (g + 1) * step], row[g * step : (g + 1) * step]
        for j in range(part.size):
            into[j] = number(part[j], scale) * scale


@kernel
def _widen_half(words: Array, shift: int, scales: Array, row: Array) -> None:
    step = words.size // scales.size
    for g in range(scales.size):
        scale = scales[g]
        part, into = words[g * step : (g + 1) * step], row[g * step : (g + 1) * step]
        for j in range(part.size):
            # In 32 bits throughout: vectors of 64 hold half as many.
            digit = np.int32((np.int32(part[j]) >> np.int32(shift)) & np.int32(15))
            into[j] = number(np.int32(digit - np.int32(8)), scale) * scale


@kernel
def _rows_of_8(x: Array, values: Array, scales: Array, out: Array, start: int, stop: int) -> None:
    row = scratch(x, values.shape[1])
    for r in range(start, stop):
        _widen(values[r], scales[r], row)
        for t in range(len(x)):
            out[t, r] = sum_of_products(x[t], row)


@kernel
def _rows_of_4(x: Array, values: Array, scales: Array, out: Array, start: int, stop: int) -> None:
    half = values.shape[1]
    row = scratch(x, 2 * half)
    for r in range(start, stop):
        _widen_half(values[r], 0, scales[r], row[:half])
        _widen_half(values[r], 4, scales[r], row[half:])
        for t in range(len(x)):
            out[t, r] = sum_of_products(x[t], row)


def matmul(x: Array, values: Array, scales: Array, out: Array) -> None:
    """Put the products of vectors with the rows of a matrix into `out (vectors, rows)`.

    Parameters
    ----------
    x : array (vectors, size)
        Of the dtype of `scales` and `out`.
    values : array of int8 (rows, size), or of uint8 (rows, size // 2)
    scales : array (rows, groups)
    """
    work = (1 + len(x)) * len(values) * x.shape[1] // 4
    if values.dtype == np.int8:
        launch(_rows_of_8, (x, values, scales, out), len(values), work)
        return
    apart = np.concatenate((x[:, 0::2], x[:, 1::2]), axis=1)  # as the halves of a byte are
    launch(_rows_of_4, (apart, values, scales, out), len(values), work)
