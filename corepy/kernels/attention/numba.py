"""Attention in compiled loops: an online softmax over blocks of keys that stay in the cache.

Many queries are taken in panels whose columns are queries: with scores and sums transposed, rows of
K and V are read just as they lie, and maxima, exponentials and sums need no sum across lanes. Few
queries, as in decoding, are rows: there all time goes to reading K and V, each row of which is read
once for all queries of its head, and the keys may be shared among threads. Memory does not wait for
sums of several queries: rows of V are on their way while K's are multiplied.

Keys come in pages, block ``table[b, j // page]`` of K and V holding those of sequence b from
``j // page * page`` on; arrays that are not paged are pages of their whole length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import overload

from corepy._loops._simd import decay, inlined, number
from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import expect_row, fetch, key, put, scratch, sum_of_weights, unkey
from corepy.kernels._tiles import BYTES, FEW, ROWS, VECTORS, dots, flip, fused, height, lanes_of

Array = npt.NDArray[Any]

#: Keys of a block: those of K and V, and their scores, fit in the second-level cache.
_BLOCK = 64
_LONG_BLOCK = 128
#: Bytes of queries side by side in a panel: with more, keys are packed less often. What is held of
#: a panel, its queries and their sums, has to stay in the second-level cache, and there have to be
#: some panels for threads to share.
_WIDTHS = (1024, 512, 256)
_HELD = 1 << 18
_PANELS = 8

_scores, _values = fused(ROWS, VECTORS, "zero"), fused(ROWS, VECTORS, "scale")
_scores_of_four, _values_of_four = fused(4, VECTORS, "zero"), fused(4, VECTORS, "scale")
_scores_of_one, _values_of_one = fused(1, VECTORS, "zero"), fused(1, VECTORS, "scale")
_dots_of_four, _dots_of_one = dots(4), dots(1)
_four_wide, _four_narrow = fused(4, FEW, "add"), fused(4, 1, "add")
_one_wide, _one_narrow = fused(1, FEW, "add"), fused(1, 1, "add")


def rows_of(
    x: Array, at: int, stride: int, rows: int, size: int, held: Array, brain: bool
) -> tuple[Array, int, int]:
    """Return where some rows are in the dtype in which they are computed: array, place, stride."""
    raise NotImplementedError("compiled code only")


@overload(rows_of, strict=False)  # type: ignore[untyped-decorator]
def _rows_of(
    x: Any, at: Any, stride: Any, rows: Any, size: Any, held: Any, brain: Any
) -> Callable[..., Any]:
    if x.dtype != types.uint16:
        return lambda x, at, stride, rows, size, held, brain: (x, at, stride)

    def widen(
        x: Array, at: int, stride: int, rows: int, size: int, held: Array, brain: bool
    ) -> tuple[Array, int, int]:
        for n in range(rows):
            start = at + n * stride
            fetch(x[start : start + size], held[n * size : (n + 1) * size], brain)
        return held, 0, size

    return widen


@kernel
def _span(
    i: int, queries: int, keys: int, left: int, right: int, top_left: bool
) -> tuple[int, int]:
    """Return the first key that a query sees, and the first beyond those."""
    if i >= queries:
        return 0, 0
    place = i if top_left else i + keys - queries
    first = max(0, place - left)
    return first, max(first, min(keys, place + right + 1))


# ---------------------------------------------------------------------------- many queries


@kernel
def _pack(
    x: Array, at: int, stride: int, rows: int, size: int, held: Array, wide: int, brain: bool
) -> None:
    """Put rows into `held` in the dtype in which they are computed, `wide` elements apart."""
    for n in range(rows):
        start = at + n * stride
        line = held[n * wide : n * wide + size]
        values = fetch(x[start : start + size], line, brain)
        if x.itemsize == line.itemsize:  # else they are there
            for d in range(size):
                line[d] = values[d]


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
def _panels(
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
    first, last = np.zeros(stride, np.int32), np.zeros(stride, np.int32)
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
                low, high = _span(i, spans[b, 0], spans[b, 1], reach[0], reach[1], top_left)
                first[c], last[c] = low, high
                all_from, all_to = max(all_from, low), min(all_to, high)
                if low < high:
                    least, most = min(least, low), max(most, high)
                    seen_from[c // strip] = min(seen_from[c // strip], low)
                    seen_to[c // strip] = max(seen_to[c // strip], high)
            place = some // strip * strip * padded + some % strip
            for d in range(0, padded, lanes):
                flip(turned, place + d * strip, strip, straight, d, padded)

        j = least
        while j < most:
            end = min(j + _BLOCK, most, (j // page + 1) * page)
            keys = end - j
            at = table[b, j // page] * k_strides[0] + g * k_strides[1] + j % page * k_strides[2]
            _pack(k, at, k_strides[2], keys, size, held, wide, brain)
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
                        weights[n * stride + c] += bias[place + (j + n) * bias_strides[3]]
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
                for n in range(keys):
                    line_of = weights[n * stride + left : n * stride + right]
                    begun, ended, place32 = first[left:right], last[left:right], np.int32(j + n)
                    for c in range(right - left):
                        seen = (begun[c] <= place32) & (place32 < ended[c])
                        line_of[c] = line_of[c] + zero if seen else nothing
            _weigh_columns(weights, keys, left, right, stride, columns, tops, totals)
            at = table[b, j // page] * v_strides[0] + g * v_strides[1] + j % page * v_strides[2]
            _pack(v, at, v_strides[2], keys, size, held, wide, brain)
            shares = columns[0]
            d = 0
            while d < size:
                rows_of_tile = height(size - d)
                for c in range(0, width, strip):
                    if not _overlap(seen_from[c // strip], seen_to[c // strip], j, end):
                        continue  # to sums without a top nothing is added, and none is rescaled
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


# ---------------------------------------------------------------------------- few queries


@kernel
def _weigh_row(scores: Array, top: Any) -> tuple[Any, Any, float]:
    """Replace scores by weights; return the top, the share of former sums, and the sum."""
    best = key(top)
    for j in range(scores.size):
        best = max(best, key(scores[j]))
    found = unkey(best)
    zero = number(0.0, top)
    base = zero if found == number(-np.inf, top) else found
    for j in range(scores.size):
        scores[j] = decay(scores[j] - base)
    return found, decay(top - base), sum_of_weights(scores)


@kernel
def _rows(
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
    chunks: int,
    chunk_size: int,
    parts: Array,
    tops: Array,
    totals: Array,
    start: int,
    stop: int,
) -> None:
    heads, kv_heads, length, size = shape
    group = heads // kv_heads
    rows = group * length
    tall = 1 if rows == 1 else -(-rows // 4) * 4
    held = scratch(q, size * _LONG_BLOCK)
    lanes = lanes_of(held)
    full = size // lanes * lanes
    padded = -(-size // lanes) * lanes
    together = max(1, lanes // (1 if rows == 1 else 4))
    queries, sums = scratch(q, tall * padded), scratch(q, tall * padded)
    weights = scratch(q, tall * _LONG_BLOCK)
    row = scratch(q, size)
    first, last = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    factor = number(scale, held[0])
    nothing, zero = number(-np.inf, held[0]), number(0.0, held[0])
    for task in range(start, stop):
        pair, chunk = task // chunks, task % chunks
        b, g = pair // kv_heads, pair % kv_heads
        queries[:] = zero
        sums[:] = zero
        top, total = tops[task], totals[task]
        top[:] = nothing
        total[:] = zero
        begin, finish = chunk * chunk_size, (chunk + 1) * chunk_size
        least, most = finish, begin
        for r in range(rows):
            h, i = g * group + r // length, r % length
            at = b * q_strides[0] + h * q_strides[1] + i * q_strides[2]
            values = fetch(q[at : at + size], row, brain)
            for d in range(size):
                queries[r * padded + d] = values[d] * factor
            low, high = _span(i, spans[b, 0], spans[b, 1], reach[0], reach[1], top_left)
            first[r], last[r] = low, high
            if low < high:
                least, most = min(least, max(low, begin)), max(most, min(high, finish))

        j = least
        while j < most:
            end = min(j + _LONG_BLOCK, most, (j // page + 1) * page)
            keys = end - j
            at = table[b, j // page] * k_strides[0] + g * k_strides[1] + j % page * k_strides[2]
            lines, at, step = rows_of(k, at, k_strides[2], keys, size, held, brain)
            next_at = (
                table[b, j // page] * v_strides[0] + g * v_strides[1] + j % page * v_strides[2]
            )
            n = 0
            if full:
                while n + together <= keys:
                    line = at + n * step
                    if rows == 1:
                        _dots_of_one(
                            weights, n, _LONG_BLOCK, queries, 0, padded, lines, line, step, full
                        )
                    else:
                        for m in range(n, n + together):
                            expect_row(v, next_at + m * v_strides[2], size)
                        for r in range(0, tall, 4):
                            _dots_of_four(
                                weights, r * _LONG_BLOCK + n, _LONG_BLOCK,
                                queries, r * padded, padded, lines, line, step, full,
                            )  # fmt: skip
                    n += together
            for r in range(rows):
                for rest in range(keys):
                    done = full if rest < n else 0
                    if done < size:
                        score = weights[r * _LONG_BLOCK + rest] if done else zero
                        line = at + rest * step
                        for d in range(done, size):
                            score += queries[r * padded + d] * lines[line + d]
                        weights[r * _LONG_BLOCK + rest] = score
            for r in range(rows):
                h, i = g * group + r // length, r % length
                scores = weights[r * _LONG_BLOCK : r * _LONG_BLOCK + keys]
                if bias.size:
                    place = b * bias_strides[0] + h * bias_strides[1] + i * bias_strides[2]
                    for n in range(keys):
                        scores[n] += bias[place + (j + n) * bias_strides[3]]
                if mask.size:
                    place = b * mask_strides[0] + h * mask_strides[1] + i * mask_strides[2]
                    for n in range(keys):
                        taken = mask[place + (j + n) * mask_strides[3]]
                        scores[n] = scores[n] if taken else nothing
                for n in range(min(keys, first[r] - j)):
                    scores[n] = nothing
                for n in range(max(0, last[r] - j), keys):
                    scores[n] = nothing
                top[r], share, part = _weigh_row(scores, top[r])
                total[r] = total[r] * share + number(part, zero)
                for d in range(padded):
                    sums[r * padded + d] *= share
            lines, at, step = rows_of(v, next_at, v_strides[2], keys, size, held, brain)
            _add_values(weights, lines, at, step, keys, size, rows, padded, sums)
            j = end
        parts[task] = sums[: rows * padded]


@kernel
def _add_values(
    weights: Array,
    lines: Array,
    at: int,
    step: int,
    keys: int,
    size: int,
    rows: int,
    padded: int,
    sums: Array,
) -> None:
    lanes = lanes_of(weights)
    wide = FEW * lanes
    d = 0
    while d + lanes <= size:
        is_wide = d + wide <= size
        if rows == 1:
            if is_wide:
                _one_wide(
                    sums, d, padded, weights, 0, _LONG_BLOCK, 1,
                    lines, at + d, step, keys, weights, 0,
                )  # fmt: skip
            else:
                _one_narrow(
                    sums, d, padded, weights, 0, _LONG_BLOCK, 1,
                    lines, at + d, step, keys, weights, 0,
                )  # fmt: skip
        else:
            for r in range(0, rows, 4):
                if is_wide:
                    _four_wide(
                        sums, r * padded + d, padded, weights, r * _LONG_BLOCK, _LONG_BLOCK, 1,
                        lines, at + d, step, keys, weights, 0,
                    )  # fmt: skip
                else:
                    _four_narrow(
                        sums, r * padded + d, padded, weights, r * _LONG_BLOCK, _LONG_BLOCK, 1,
                        lines, at + d, step, keys, weights, 0,
                    )  # fmt: skip
        d += wide if is_wide else lanes
    for r in range(rows):
        for n in range(keys):
            weight = weights[r * _LONG_BLOCK + n]
            for rest in range(d, size):
                sums[r * padded + rest] += weight * lines[at + n * step + rest]


@kernel
def _merge(
    parts: Array,
    tops: Array,
    totals: Array,
    chunks: int,
    shape: tuple[int, int, int, int],
    brain: bool,
    out: Array,
    lse: Array,
    start: int,
    stop: int,
) -> None:
    """Put together what chunks of the keys gave."""
    heads, kv_heads, length, size = shape
    rows = heads // kv_heads * length
    padded = parts.shape[1] // rows
    zero, one = number(0.0, tops[0, 0]), number(1.0, tops[0, 0])
    values = np.empty(size, tops.dtype)
    for n in range(start, stop):
        pair, r = n // rows, n % rows
        top = tops[pair * chunks, r]
        for chunk in range(1, chunks):
            found = tops[pair * chunks + chunk, r]
            top = top if found <= top else found  # a NaN too
        base = zero if top == number(-np.inf, zero) else top
        values[:] = zero
        total = zero
        for chunk in range(chunks):
            task = pair * chunks + chunk
            share = decay(tops[task, r] - base)
            total += totals[task, r] * share
            part = parts[task, r * padded : r * padded + size]
            for d in range(size):
                values[d] += part[d] * share
        share = zero if total == zero else one / total
        for d in range(size):
            values[d] *= share
        put(values, out[n], brain)
        lse[n] = top + np.log(total)


# ---------------------------------------------------------------------------- launching

#: Queries of a head of K and V up to which they are rows.
FEW_ROWS = 16
#: Keys that one thread takes alone; it depends on no number of threads, so that results do not.
_CHUNK = 1024

Flat = tuple[Array, tuple[int, ...]]


def _queries(rows: int, pairs: int, size: int, lanes: int, itemsize: int) -> int:
    """Return how many queries stand side by side, which depends on shapes alone, as results do."""
    padded = -(-size // lanes) * lanes
    for width in _WIDTHS:
        panels = pairs * -(-rows * itemsize // width)
        filled = 2 * rows * itemsize > width
        if filled and 2 * padded * width <= _HELD and panels >= _PANELS:
            break
    return max(1, width // (VECTORS * BYTES)) * VECTORS * lanes


def attention(
    q: Flat,
    k: Flat,
    v: Flat,
    table: Array,
    page: int,
    spans: Array,
    shape: tuple[int, int, int, int],
    reach: tuple[int, int],
    top_left: bool,
    scale: float,
    mask: Flat,
    bias: Flat,
    brain: bool,
    out: Array,
    lse: Array,
) -> None:
    """Put attention into `out (rows, head_dim)` and the logarithms of its sums into `lse (rows)`.

    Parameters
    ----------
    q : pair of flat array and strides (batch, head, row)
    k, v : pair of flat array and strides (page, head, row)
    table : array of int64 (batch, pages)
        The block of K and V of each page.
    page : int
        Keys of a page.
    spans : array of int64 (batch, 2)
        Queries and keys of each sequence.
    shape : tuple of int
        Heads, heads of K and V, queries, head_dim.
    reach : tuple of int
        Keys that a query sees to its left and right.
    mask, bias : pair of flat array and strides (batch, head, row, key)
        Flat arrays without elements where there is none.
    brain : bool
        Whether 16-bit words are bfloat16.
    """
    heads, kv_heads, length, size = shape
    rows = heads // kv_heads * length
    pairs = len(spans) * kv_heads
    lanes = BYTES // lse.itemsize
    longest = int(spans[:, 1].max())
    common = (*q, *k, *v, table, page, spans, shape, reach, top_left, scale, *mask, *bias, brain)
    if rows > FEW_ROWS:
        stride = _queries(rows, pairs, size, lanes, lse.itemsize)
        work = pairs * rows * longest * size // 2
        launch(_panels, (*common, stride, out, lse), pairs * -(-rows // stride), work)
        return
    chunks = max(1, -(-longest // _CHUNK))
    parts = np.empty((pairs * chunks, rows * (-(-size // lanes) * lanes)), lse.dtype)
    tops, totals = (np.empty((pairs * chunks, rows), lse.dtype) for _ in range(2))
    work = 2 * pairs * longest * size * max(1, rows // 4)
    launch(_rows, (*common, chunks, _CHUNK, parts, tops, totals), pairs * chunks, work)
    launch(_merge, (parts, tops, totals, chunks, shape, brain, out, lse), pairs * rows, parts.size)
