"""Products of matrices of 16-bit floats, widened a panel at a time, in tiles of registers.

A matrix in float32 would be twice as much to write and to read once more, in memory that the system
has to give first: of 16.7 million elements that alone took 90 ms, their product with 16 vectors 5.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from corepy._loops._simd import number
from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import pack, scratch
from corepy.kernels._tiles import ROWS, VECTORS, flip, fused, height, lanes_of
from corepy.kernels.matrices.numba import finish

Array = npt.NDArray[Any]

#: Rows of A, columns of B, and the depth that are packed at once. The panels and their sums, a
#: quarter of a megabyte each, stay in the second-level cache; of B a strip as wide as a tile, 32
#: KiB, in the first.
_HIGH, _WIDE, _DEEP = 256, 256, 256
#: Elements between rows of sums: columns of them do not meet in the sets of the cache.
_STEP = _WIDE + 16

_tile, _tile_of_four = fused(ROWS, VECTORS, "add"), fused(4, VECTORS, "add")
_thin, _thin_of_four = fused(ROWS, 1, "add"), fused(4, 1, "add")


@kernel
def _pack_strips(
    b: Array,
    at: int,
    row: int,
    column: int,
    deep: int,
    columns: int,
    held: Array,
    straight: Array,
    strip: int,
    brain: bool,
) -> None:
    """Widen a part of B into strips, of which each has its rows side by side, `strip` wide."""
    lanes = lanes_of(held)
    for c in range(0, columns, strip):
        place, width = c * _DEEP, min(strip, columns - c)
        if column == 1:
            pack(b, at + c, row, deep, width, held[place:], strip, brain)
            continue
        for some in range(0, width, lanes):
            start = at + (c + some) * column
            pack(b, start, column, min(lanes, width - some), deep, straight, _DEEP, brain)
            for d in range(0, deep, lanes):
                flip(held, place + some + d * strip, strip, straight, d, _DEEP)


@kernel
def _multiply(
    sums: Array, left: Array, high: int, a_row: int, a_step: int, right: Array, columns: int,
    strip: int, deep: int,
) -> None:  # fmt: skip
    """Add the products of two panels to sums, whose rows are `_STEP` apart."""
    lanes = lanes_of(sums)
    for c in range(0, columns, strip):
        is_thin = columns - c <= lanes
        n = 0
        while n < high:
            rows, at = height(high - n), n * _STEP + c
            if is_thin:
                if rows == ROWS:
                    _thin(
                        sums, at, _STEP, left, n * a_row, a_row, a_step,
                        right, c * _DEEP, strip, deep, sums, 0,
                    )  # fmt: skip
                else:
                    _thin_of_four(
                        sums, at, _STEP, left, n * a_row, a_row, a_step,
                        right, c * _DEEP, strip, deep, sums, 0,
                    )  # fmt: skip
            elif rows == ROWS:
                _tile(
                    sums, at, _STEP, left, n * a_row, a_row, a_step,
                    right, c * _DEEP, strip, deep, sums, 0,
                )  # fmt: skip
            else:
                _tile_of_four(
                    sums, at, _STEP, left, n * a_row, a_row, a_step,
                    right, c * _DEEP, strip, deep, sums, 0,
                )  # fmt: skip
            n += rows


@kernel
def _panels(
    a: Array,
    a_strides: tuple[int, int],
    b: Array,
    b_strides: tuple[int, int],
    places: Array,
    shape: tuple[int, int, int],
    numbers: tuple[float, float, float],
    added: Array,
    turned: bool,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    rows, depth, columns = shape
    factor, alpha, beta = numbers
    a_row, a_step = a_strides
    b_row, b_column = b_strides
    held = scratch(a, 1)
    lanes = lanes_of(held)
    strip = VECTORS * lanes
    # A little more than a power of two, so that rows do not meet in the sets of the cache.
    most, deepest = min(_HIGH, -(-rows // 4) * 4), min(_DEEP, depth)
    by_rows = a_step == 1
    wide = (-(-deepest // lanes) * lanes if by_rows else most) + lanes // 2
    left = scratch(a, wide * (most if by_rows else deepest))
    right = scratch(a, _DEEP * min(_WIDE, -(-columns // strip) * strip))
    straight = scratch(a, lanes * _DEEP)
    sums, line = scratch(a, most * _STEP), scratch(a, max(_HIGH, _WIDE))
    more = scratch(a, max(_HIGH, _WIDE))
    left[:] = 0
    right[:] = 0
    straight[:] = 0
    down, across = -(-rows // _HIGH), -(-columns // _WIDE)
    for task in range(start, stop):
        pair, part = task // (down * across), task % (down * across)
        first, begin = part % down * _HIGH, part // down * _WIDE
        high, width = min(_HIGH, rows - first), min(_WIDE, columns - begin)
        padded = -(-high // 4) * 4
        for n in range(padded):
            for j in range(-(-width // strip) * strip):
                sums[n * _STEP + j] = 0
        a_at = places[pair, 0] + first * a_row
        b_at = places[pair, 1] + begin * b_column
        for d in range(0, depth, _DEEP):
            deep = min(_DEEP, depth - d)
            lines, size, stride = (high, deep, a_row) if by_rows else (deep, high, a_step)
            pack(a, a_at + d * a_step, stride, lines, size, left, wide, brain)
            if factor != 1.0:
                for n in range(lines):
                    some = left[n * wide : n * wide + size]
                    for j in range(size):
                        some[j] *= number(factor, some[j])
            _pack_strips(
                b, b_at + d * b_row, b_row, b_column, deep, width, right, straight, strip, brain
            )
            if by_rows:
                _multiply(sums, left, padded, wide, 1, right, width, strip, deep)
            else:
                _multiply(sums, left, padded, 1, wide, right, width, strip, deep)
        at = places[pair, 2]
        if turned:  # rows of the result are columns of the product
            for j in range(width):
                place = at + (begin + j) * rows + first
                for n in range(high):
                    line[n] = sums[n * _STEP + j]
                extra = added[place : place + high] if beta != 0.0 else added[:0]
                finish(line[:high], alpha, beta, extra, out[place : place + high], more, brain)
        else:
            for n in range(high):
                place = at + (first + n) * columns + begin
                row = sums[n * _STEP : n * _STEP + width]
                extra = added[place : place + width] if beta != 0.0 else added[:0]
                finish(row, alpha, beta, extra, out[place : place + width], more, brain)


def products(
    a: Array,
    a_strides: tuple[int, int],
    b: Array,
    b_strides: tuple[int, int],
    places: Array,
    shape: tuple[int, int, int],
    numbers: tuple[float, float, float],
    added: Array,
    turned: bool,
    brain: bool,
    out: Array,
) -> None:
    """Put ``alpha * (factor * a) @ b + beta * added`` into `out`, for each pair of matrices.

    Parameters
    ----------
    a, b : array
        Flat, of uint16: the bits of float16, or of bfloat16 if `brain`. So are all arrays.
    a_strides, b_strides : pair of int
        Of rows and columns, in elements; one of each pair is 1.
    places : array of int64 (pairs, 3)
        Where the matrices of a pair begin, and their result.
    shape : (rows, depth, columns)
        None of them zero.
    numbers : (factor, alpha, beta)
    added : array
        Like `out`; not read with a `beta` of zero.
    turned : bool
        Whether results lie by columns.
    """
    rows, depth, columns = shape
    pairs = len(places)
    tasks = pairs * -(-rows // _HIGH) * -(-columns // _WIDE)
    work = pairs * rows * depth * columns // 32
    arguments = (a, a_strides, b, b_strides, places, shape, numbers, added, turned, brain, out)
    launch(_panels, arguments, tasks, work)
