"""Attention of many queries in compiled loops: panels whose columns are queries.

With scores and sums transposed, rows of K and V are read just as they lie, and maxima, exponentials
and sums need no sum across lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from corepy._loops._simd import decay, inlined, number
from corepy.kernels._compiled import kernel
from corepy.kernels._simd import fetch, pack, put, scratch
from corepy.kernels._tiles import BYTES, ROWS, VECTORS, flip, fused, height, lanes_of
from corepy.kernels.attention._spans import span

Array = npt.NDArray[Any]

#: Keys of a block: those of K and V, and their scores, fit in the second-level cache.
_BLOCK = 64
#: Keys of which sums are taken on their own, and added to those of all, where there are more than
#: `_LONG`: else sums grow until each further weight is rounded to its last bits.
_SUMMED, _LONG = 512, 2048
#: Bytes of queries side by side in a panel: with more, keys are packed less often. What is held of
#: a panel, its queries and their sums, has to stay in the second-level cache, and there have to be
#: some panels for threads to share.
_WIDTHS = (1024, 512, 256)
_HELD = 1 << 18
_PANELS = 8

_scores, _values = fused(ROWS, VECTORS, "zero"), fused(ROWS, VECTORS, "scale")
_scores_of_four, _values_of_four = fused(4, VECTORS, "zero"), fused(4, VECTORS, "scale")
_scores_of_one, _values_of_one = fused(1, VECTORS, "zero"), fused(1, VECTORS, "scale")


def width_of(rows: int, pairs: int, size: int, lanes: int, itemsize: int) -> int:
    """Return how many queries stand side by side, which depends on shapes alone, as results do."""
    padded = -(-size // lanes) * lanes
    for width in _WIDTHS:
        panels = pairs * -(-rows * itemsize // width)
        filled = 2 * rows * itemsize > width
        if filled and 2 * padded * width <= _HELD and panels >= _PANELS:
            break
    return max(1, width // (VECTORS * BYTES)) * VECTORS * lanes


@inlined
def _larger(a: Any, b: Any) -> Any:
    """Return the larger number, `b` where `a` is NaN."""
    return a if a > b else b


@inlined
def _overlap(first: int, last: int, start: int, stop: int) -> bool:
    return first < stop and start < last


@kernel
def _find_tops(
    scores: Array, keys: int, left: int, right: int, stride: int, tops: Array, found: Array
) -> None:
    """Put the largest of some columns' scores and their former tops into `found`.

    Several rows at a time: what may stay as it is in memory would be stored by a mask, which takes
    some processors fifteen times as long.
    """
    width, tops, found = right - left, tops[left:right], found[left:right]
    for c in range(width):
        found[c] = tops[c]
    last = (keys - 1) * stride + left
    for at in range(left, keys * stride + left, 4 * stride):
        first = scores[at : at + width]
        second = scores[min(at + stride, last) : min(at + stride, last) + width]
        third = scores[min(at + 2 * stride, last) : min(at + 2 * stride, last) + width]
        fourth = scores[min(at + 3 * stride, last) : min(at + 3 * stride, last) + width]
        for c in range(width):
            best = _larger(second[c], _larger(first[c], found[c]))
            found[c] = _larger(fourth[c], _larger(third[c], best))


@kernel
def _weigh_columns(
    scores: Array,
    keys: int,
    left: int,
    right: int,
    stride: int,
    held: Array,
    tops: Array,
    totals: Array,
) -> None:
    """Replace scores by weights, column by column from `left` to `right`.

    ``held[0]`` is left with what each column's former sums have to be multiplied by.
    """
    nothing, zero = number(-np.inf, tops[0]), number(0.0, tops[0])
    _find_tops(scores, keys, left, right, stride, tops, held[2])  # a NaN comes in again below
    shares, bases, found = held[0, left:right], held[1, left:right], held[2, left:right]
    tops, totals, width = tops[left:right], totals[left:right], right - left
    for c in range(width):
        bases[c] = found[c] if found[c] > nothing else zero
        shares[c] = decay(tops[c] - bases[c])
        totals[c] *= shares[c]
        tops[c] = found[c]
    for j in range(keys):
        line = scores[j * stride + left : j * stride + right]
        for c in range(width):
            line[c] = decay(line[c] - bases[c])
        for c in range(width):
            totals[c] += line[c]


@kernel
def _settle(sums: Array, shares: Array, some: Array) -> None:
    """Multiply sums by shares, and add some; what rounding takes off stays in `some`."""
    zero, most = number(0.0, sums[0]), number(np.inf, sums[0])
    for c in range(some.size):
        former = sums[c] * shares[c]
        found = former + some[c]
        left = some[c] - (found - former)
        sums[c] = found
        some[c] = left if abs(found) < most else zero


@kernel
def attend_in_panels(
    q: Array,
    q_strides: tuple[int, int, int],
    k: Array,
    k_strides: tuple[int, int, int],
    v: Array,
    v_strides: tuple[int, int, int],
    table: Array,
    page: int,
    spans: Array,
    shape: tuple[int, int, int, int],
    reach: tuple[int, int],
    top_left: bool,
    scale: float,
    mask: Array,
    mask_strides: tuple[int, int, int, int],
    bias: Array,
    bias_strides: tuple[int, int, int, int],
    brain: bool,
    stride: int,
    out: Array,
    lse: Array,
    start: int,
    stop: int,
) -> None:
    """Attend with the queries of some panels, of `stride` each, as `width_of` has it.

    The other parameters are those of `corepy.kernels.attention.numba.attention`. What a bias and a
    mask hide `_rows.py` says once more: as a function for both, a mask takes twice as long here.
    """
    heads, kv_heads, length, size = shape
    group = heads // kv_heads
    rows = group * length
    row = scratch(q, size)
    lanes = lanes_of(row)
    strip = VECTORS * lanes
    padded = -(-size // lanes) * lanes
    # Rows of K and V begin in different sets of the cache, and different banks of it.
    wide = padded + lanes // 2
    held = scratch(q, wide * _BLOCK)
    turned, sums = scratch(q, padded * stride), scratch(q, padded * stride)
    straight = scratch(q, lanes * padded)  # as many rows as are flipped at once
    weights = scratch(q, _BLOCK * stride)
    columns = scratch(q, 3 * stride).reshape(3, stride)
    tops, totals = scratch(q, stride), scratch(q, stride)
    # Of many keys: the sums of all before some, and what these have to be multiplied by since.
    all_sums, all_totals = scratch(q, padded * stride), scratch(q, stride)
    decayed = scratch(q, stride)
    first, last = np.zeros(stride, np.int64), np.zeros(stride, np.int64)
    # The same counted from a block of keys on, in as many bits as a score has at the most.
    begun, ended = np.zeros(stride, np.int32), np.zeros(stride, np.int32)
    strips = stride // strip
    seen_from, seen_to = np.zeros(strips, np.int64), np.zeros(strips, np.int64)
    factor = number(scale, held[0])
    nothing, zero, one = (
        number(-np.inf, held[0]),
        number(0.0, held[0]),
        number(1.0, held[0]),
    )
    panels = -(-rows // stride)
    for task in range(start, stop):
        pair, panel = task // panels, task % panels
        b, g = pair // kv_heads, pair % kv_heads
        begin = panel * stride
        count = min(stride, rows - begin)
        width = -(-count // strip) * strip
        sums[:] = zero
        tops[:] = nothing
        totals[:] = zero
        first[:] = 0
        last[:] = 0
        seen_from[:] = 1 << 40
        seen_to[:] = 0
        least, most, all_from, all_to = 1 << 40, 0, 0, 1 << 40
        for some in range(0, width, lanes):
            straight[:] = zero
            for c in range(some, min(some + lanes, count)):
                h, i = g * group + (begin + c) // length, (begin + c) % length
                at = b * q_strides[0] + h * q_strides[1] + i * q_strides[2]
                values = fetch(q[at : at + size], row, brain)
                scaled = straight[(c - some) * padded : (c - some) * padded + size]
                for d in range(size):
                    scaled[d] = values[d] * factor
                low, high = span(i, spans[b, 0], spans[b, 1], reach[0], reach[1], top_left)
                first[c], last[c] = low, high
                all_from, all_to = max(all_from, low), min(all_to, high)
                if low < high:
                    least, most = min(least, low), max(most, high)
                    seen_from[c // strip] = min(seen_from[c // strip], low)
                    seen_to[c // strip] = max(seen_to[c // strip], high)
            place = some // strip * strip * padded + some % strip
            for d in range(0, padded, lanes):
                flip(turned, place + d * strip, strip, straight, d, padded)

        is_long, settled = most - least > _LONG, least
        if is_long:
            all_sums[:] = zero
            all_totals[:] = zero
            decayed[:] = one
        j = least
        while j < most:
            end = min(j + _BLOCK, most, (j // page + 1) * page)
            keys = end - j
            at = table[b, j // page] * k_strides[0] + g * k_strides[1] + j % page * k_strides[2]
            pack(k, at, k_strides[2], keys, size, held, wide, brain)
            left, right = width, 0
            for c in range(0, width, strip):
                if not _overlap(seen_from[c // strip], seen_to[c // strip], j, end):
                    continue  # what weights hold is replaced below
                left, right = min(left, c), c + strip
                n = 0
                while n < keys:
                    rows_of_tile = height(keys - n)
                    if rows_of_tile == ROWS:
                        _scores(
                            weights, n * stride + c, stride, held, n * wide, wide, 1,
                            turned, c * padded, strip, size, tops, 0,
                        )  # fmt: skip
                    elif rows_of_tile == 4:
                        _scores_of_four(
                            weights, n * stride + c, stride, held, n * wide, wide, 1,
                            turned, c * padded, strip, size, tops, 0,
                        )  # fmt: skip
                    else:
                        _scores_of_one(
                            weights, n * stride + c, stride, held, n * wide, wide, 1,
                            turned, c * padded, strip, size, tops, 0,
                        )  # fmt: skip
                    n += rows_of_tile
            if bias.size:
                for c in range(count):
                    h, i = g * group + (begin + c) // length, (begin + c) % length
                    place = b * bias_strides[0] + h * bias_strides[1] + i * bias_strides[2]
                    for n in range(keys):
                        more = bias[place + (j + n) * bias_strides[3]]
                        score = weights[n * stride + c]
                        weights[n * stride + c] = nothing if more == nothing else score + more
            if mask.size:
                for c in range(count):
                    h, i = g * group + (begin + c) // length, (begin + c) % length
                    place = b * mask_strides[0] + h * mask_strides[1] + i * mask_strides[2]
                    for n in range(keys):
                        taken = mask[place + (j + n) * mask_strides[3]]
                        score = weights[n * stride + c]
                        weights[n * stride + c] = score if taken else nothing
            # Zero is added so that all is stored, and not by a mask; see `_find_tops`.
            if j < all_from or end > all_to:
                for c in range(left, right):
                    begun[c - left] = min(max(first[c] - j, 0), keys)
                    ended[c - left] = min(max(last[c] - j, 0), keys)
                for n in range(keys):
                    line_of = weights[n * stride + left : n * stride + right]
                    place32 = np.int32(n)
                    for c in range(right - left):
                        seen = (begun[c] <= place32) & (place32 < ended[c])
                        line_of[c] = line_of[c] + zero if seen else nothing
            _weigh_columns(weights, keys, left, right, stride, columns, tops, totals)
            at = table[b, j // page] * v_strides[0] + g * v_strides[1] + j % page * v_strides[2]
            pack(v, at, v_strides[2], keys, size, held, wide, brain)
            shares = columns[0]
            for c in range(0, width, strip):
                if not _overlap(seen_from[c // strip], seen_to[c // strip], j, end):
                    continue  # to sums without a top nothing is added, and none is rescaled
                d = 0
                while d < size:  # the weights of these columns stay in the first-level cache
                    rows_of_tile = height(size - d)
                    if rows_of_tile == ROWS:
                        _values(
                            sums, d * stride + c, stride, held, d, 1, wide,
                            weights, c, stride, keys, shares, c,
                        )  # fmt: skip
                    elif rows_of_tile == 4:
                        _values_of_four(
                            sums, d * stride + c, stride, held, d, 1, wide,
                            weights, c, stride, keys, shares, c,
                        )  # fmt: skip
                    else:
                        _values_of_one(
                            sums, d * stride + c, stride, held, d, 1, wide,
                            weights, c, stride, keys, shares, c,
                        )  # fmt: skip
                    d += rows_of_tile
            j = end
            if is_long:
                for c in range(left, right):
                    decayed[c] *= shares[c]
                if j - settled >= _SUMMED or j >= most:
                    _settle(all_totals, decayed, totals)
                    for d in range(size):
                        line_of = sums[d * stride : (d + 1) * stride]
                        _settle(all_sums[d * stride : (d + 1) * stride], decayed, line_of)
                    decayed[:] = one
                    settled = j
        if is_long:
            totals[:] = all_totals
            sums[:] = all_sums

        for some in range(0, width, lanes):
            for d in range(0, padded, lanes):
                flip(straight, d, padded, sums, d * stride + some, stride)
            for c in range(some, min(some + lanes, count)):
                n = (b * heads + g * group) * length + begin + c
                share = zero if totals[c] == zero else one / totals[c]
                result = straight[(c - some) * padded : (c - some) * padded + size]
                for d in range(size):
                    result[d] *= share
                put(result, out[n], brain)
                lse[n] = tops[c] + np.log(totals[c])
