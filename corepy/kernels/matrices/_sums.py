"""Sums of weighted rows of 16-bit floats, which are the products of matrices that lie by columns.

Rows are read as they lie, several at a time, and widened in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import fetch, from_brain, from_half, put, scratch

Array = npt.NDArray[Any]

#: Columns whose sums are kept at once, in the first-level cache, and those that a thread takes.
_WIDE, _STRIP = 2048, 512
#: Rows whose sum is taken in float32; the sums of such blocks are added in float64.
_BLOCK = 256
#: Rows that are added in one go.
_TOGETHER = 8


@kernel
def _add_eight(rows: Array, at: int, step: int, x: Array, sums: Array, brain: bool) -> None:
    size = sums.size
    a, b, c, d = x[0], x[1], x[2], x[3]
    e, f, g, h = x[4], x[5], x[6], x[7]
    ra = rows[at : at + size]
    rb = rows[at + step : at + step + size]
    rc = rows[at + 2 * step : at + 2 * step + size]
    rd = rows[at + 3 * step : at + 3 * step + size]
    re = rows[at + 4 * step : at + 4 * step + size]
    rf = rows[at + 5 * step : at + 5 * step + size]
    rg = rows[at + 6 * step : at + 6 * step + size]
    rh = rows[at + 7 * step : at + 7 * step + size]
    if brain:
        for j in range(size):
            first = a * from_brain(ra[j]) + b * from_brain(rb[j])
            second = c * from_brain(rc[j]) + d * from_brain(rd[j])
            third = e * from_brain(re[j]) + f * from_brain(rf[j])
            fourth = g * from_brain(rg[j]) + h * from_brain(rh[j])
            sums[j] += (first + second) + (third + fourth)
    else:
        for j in range(size):
            first = a * from_half(ra[j]) + b * from_half(rb[j])
            second = c * from_half(rc[j]) + d * from_half(rd[j])
            third = e * from_half(re[j]) + f * from_half(rf[j])
            fourth = g * from_half(rg[j]) + h * from_half(rh[j])
            sums[j] += (first + second) + (third + fourth)


@kernel
def _add_one(row: Array, x: float, sums: Array, brain: bool) -> None:
    if brain:
        for j in range(sums.size):
            sums[j] += x * from_brain(row[j])
    else:
        for j in range(sums.size):
            sums[j] += x * from_half(row[j])


@kernel
def _sums(
    x: Array,
    rows: Array,
    step: int,
    places: Array,
    shape: tuple[int, int, int],
    alpha: float,
    beta: float,
    added: Array,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    vectors, depth, columns = shape
    most = min(_WIDE, columns)
    factors, more = scratch(x, vectors * depth), scratch(x, most)
    sums, line = scratch(x, vectors * most), scratch(x, most)
    totals = np.zeros(vectors * most, np.float64)
    strips = -(-columns // _STRIP)
    n, known = start, -1
    while n < stop:
        pair = n // strips
        last = min(n - n % strips + strips, stop, n + _WIDE // _STRIP)
        begin, end = n % strips * _STRIP, min((last - pair * strips) * _STRIP, columns)
        n, width = last, end - begin
        if pair != known:
            at = places[pair, 0]
            fetch(x[at : at + vectors * depth], factors, brain)
            known = pair
        totals[:] = 0.0
        for block in range(0, depth, _BLOCK):
            sums[:] = 0
            deep = min(block + _BLOCK, depth)
            eights = deep - (deep - block) % _TOGETHER
            at = places[pair, 1] + block * step + begin
            for i in range(block, eights, _TOGETHER):
                for t in range(vectors):
                    some = factors[t * depth + i : t * depth + i + _TOGETHER]
                    _add_eight(rows, at, step, some, sums[t * most : t * most + width], brain)
                at += _TOGETHER * step
            for i in range(eights, deep):
                for t in range(vectors):
                    some = sums[t * most : t * most + width]
                    _add_one(rows[at : at + width], factors[t * depth + i], some, brain)
                at += step
            for j in range(vectors * most):
                totals[j] += sums[j]
        for t in range(vectors):
            at = places[pair, 2] + t * columns + begin
            if beta != 0.0:
                other = fetch(added[at : at + width], more[:width], brain)
                for j in range(width):
                    line[j] = alpha * totals[t * most + j] + beta * other[j]
            else:
                for j in range(width):
                    line[j] = alpha * totals[t * most + j]
            put(line[:width], out[at : at + width], brain)


def sums(
    x: Array,
    rows: Array,
    step: int,
    places: Array,
    shape: tuple[int, int, int],
    alpha: float,
    beta: float,
    added: Array,
    brain: bool,
    out: Array,
) -> None:
    """Put ``alpha * x @ rows + beta * added`` into `out`, for each pair of some vectors and rows.

    Parameters
    ----------
    x : array
        Flat, the vectors of a pair one after the other, of uint16: the bits of float16, or of
        bfloat16 if `brain`. So are all arrays.
    rows : array
        Flat; elements of a row lie side by side.
    step : int
        Elements from the beginning of one row to that of the next.
    places : array of int64 (pairs, 3)
        Where the vectors, the rows and the results of a pair begin.
    shape : (vectors, rows, columns)
        Of a pair; none of them zero.
    added : array
        Like `out`; not read with a `beta` of zero.
    """
    vectors, depth, columns = shape
    tasks = len(places) * -(-columns // _STRIP)
    work = len(places) * (1 + vectors) * depth * columns // 4
    launch(_sums, (x, rows, step, places, shape, alpha, beta, added, brain, out), tasks, work)
