"""Products of a few vectors with a matrix of integers, in compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from corepy._loops._simd import number
from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import DEEP, scratch, sum_of_products
from corepy.kernels._tiles import BYTES, lanes_of, weighed

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
def _sum_of_products(left: Array, right: Array) -> float:
    total = 0.0
    for begin in range(0, left.size, DEEP):
        total += sum_of_products(left[begin : begin + DEEP], right[begin : begin + DEEP])
    return total


@kernel
def _rows_of_8(x: Array, values: Array, scales: Array, out: Array, start: int, stop: int) -> None:
    row = scratch(x, values.shape[1])
    for r in range(start, stop):
        _widen(values[r], scales[r], row)
        for t in range(len(x)):
            out[t, r] = _sum_of_products(x[t], row)


@kernel
def _rows_of_4(x: Array, values: Array, scales: Array, out: Array, start: int, stop: int) -> None:
    half = values.shape[1]
    row = scratch(x, 2 * half)
    for r in range(start, stop):
        _widen_half(values[r], 0, scales[r], row[:half])
        _widen_half(values[r], 4, scales[r], row[half:])
        for t in range(len(x)):
            out[t, r] = _sum_of_products(x[t], row)


# ---------------------------------------------------------------------------- very few vectors

#: Rows that are multiplied by one at once, so that its elements are read as seldom.
_TOGETHER = 4
#: Vectors up to which that takes less time than to widen each row once, by the bits of an integer.
_VERY_FEW = {8: 4, 4: 8}

_by_words, _by_halves = weighed(_TOGETHER, halves=False), weighed(_TOGETHER, halves=True)


@kernel
def _by_fours(
    x: Array, values: Array, scales: Array, halves: bool, out: Array, start: int, stop: int
) -> None:
    """Multiply vectors by some fours of rows, the last of which may share rows with another."""
    size, groups = values.shape[1], scales.shape[1]
    words, factors, step = values.reshape(-1), scales.reshape(-1), size // groups
    deep = DEEP // 2 if halves else DEEP
    most, part = max(deep // step, 1), min(deep, step)  # groups of a stretch, or what of one
    sums, totals = scratch(x, _TOGETHER * lanes_of(out)), np.empty(_TOGETHER)
    for four in range(start, stop):
        first = min(four * _TOGETHER, len(values) - _TOGETHER)
        for t in range(len(x)):
            g = j = 0
            while j < size:
                many, some = min(most, groups - g), min(part, (g + 1) * step - j)
                at, scale = first * size + j, first * groups + g
                if halves:
                    _by_halves(
                        sums, 0, x[t], j, size + j, words, at, size, factors, scale, groups, many,
                        some,
                    )  # fmt: skip
                else:
                    _by_words(
                        sums, 0, x[t], j, 0, words, at, size, factors, scale, groups, many, some
                    )
                for r in range(_TOGETHER):
                    found = _sum_of_lanes(sums, r)
                    totals[r] = found if j == 0 else totals[r] + found
                j += many * some
                g += many if j == (g + many) * step else 0
            for r in range(max(first, four * _TOGETHER), first + _TOGETHER):
                out[t, r] = totals[r - first]


@kernel
def _sum_of_lanes(sums: Array, row: int) -> Any:
    total = sums.dtype.type(0)
    for lane in range(lanes_of(sums)):
        total += sums[row * lanes_of(sums) + lane]
    return total


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
    halves = values.dtype != np.int8
    if halves:
        x = np.concatenate((x[:, 0::2], x[:, 1::2]), axis=1)  # as the halves of a byte are
    step = values.shape[1] // scales.shape[1]
    whole = step > 0 and step % (BYTES // out.itemsize) == 0  # groups fill registers
    few = len(x) <= _VERY_FEW[4 if halves else 8]
    if few and whole and len(values) >= _TOGETHER:
        launch(_by_fours, (x, values, scales, halves, out), -(-len(values) // _TOGETHER), work)
        return
    rows = _rows_of_4 if halves else _rows_of_8
    launch(rows, (x, values, scales, out), len(values), work)
