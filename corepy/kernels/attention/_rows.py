"""Attention of few queries in compiled loops, as in decoding: rows of scores.

There all time goes to reading K and V, each row of which is read once for all queries of its head,
and the keys may be shared among threads. Memory does not wait for sums of several queries: where
no cache holds K and V, rows of V are on their way while K's are multiplied. A single query goes
through them so fast that the processor foresees it, which takes rows that are read in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import overload

from corepy._loops._simd import decay, number
from corepy.kernels._compiled import kernel
from corepy.kernels._simd import fetch, foresee_row, key, put, scratch, sum_of_weights, unkey
from corepy.kernels._tiles import FEW, dots, dots_in_order, fused, lanes_of
from corepy.kernels.attention._spans import span

Array = npt.NDArray[Any]

#: Keys of a block, each of whose rows is read once for all queries.
_BLOCK = 512
#: Keys of one whose rows are widened from 16 bits, or asked of memory ahead: they and their scores
#: fit in the second-level cache.
_WIDENED_BLOCK = 128
_FAR_BLOCK = 256
#: Keys before theirs that memory is asked for.
_AHEAD = 32

#: Vectors of a row of V that one query takes at a time: a whole row, as a rule. With some left for
#: another time memory is not read in order, which takes a Xeon 8 % longer.
_WHOLE = 8

_dots_of_four = dots(4)
_four_wide, _four_narrow = fused(4, FEW, "add"), fused(4, 1, "add")
_one_whole, _one_narrow = fused(1, _WHOLE, "add"), fused(1, 1, "add")
_one_half = fused(1, _WHOLE // 2, "add")


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


def block_of(rows: int, widened: bool, far: bool) -> int:
    """Return how many keys are taken at a time.

    Parameters
    ----------
    rows : int
        Queries that look at each.
    widened : bool
        Whether K and V have 16 bits.
    far : bool
        Whether no cache holds them.
    """
    if widened:
        return _WIDENED_BLOCK
    return _FAR_BLOCK if far and rows > 1 else _BLOCK


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
def attend_in_rows(
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
    block: int,
    ahead: bool,
    parts: Array,
    tops: Array,
    totals: Array,
    start: int,
    stop: int,
) -> None:
    """Attend with all queries of some heads of keys, each to some chunks of `chunk_size` keys.

    They are taken by blocks; `ahead` has memory asked for rows before theirs. Sums go into `parts`,
    `tops` and `totals`, for `merge`. The other parameters are those of
    `corepy.kernels.attention.numba.attention`.
    """
    heads, kv_heads, length, size = shape
    group = heads // kv_heads
    rows = group * length
    tall = 1 if rows == 1 else -(-rows // 4) * 4
    held = scratch(q, size * _WIDENED_BLOCK)  # of 16 bits no block is larger
    lanes = lanes_of(held)
    full = size // lanes * lanes
    padded = -(-size // lanes) * lanes
    together = max(1, lanes // (1 if rows == 1 else 4))
    queries, sums = scratch(q, tall * padded), scratch(q, tall * padded)
    weights = scratch(q, tall * block)
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
            low, high = span(i, spans[b, 0], spans[b, 1], reach[0], reach[1], top_left)
            first[r], last[r] = low, high
            if low < high:
                least, most = min(least, max(low, begin)), max(most, min(high, finish))

        j = least
        while j < most:
            end = min(j + block, most, (j // page + 1) * page)
            keys = end - j
            first_at = (
                table[b, j // page] * k_strides[0] + g * k_strides[1] + j % page * k_strides[2]
            )
            lines, at, step = rows_of(k, first_at, k_strides[2], keys, size, held, brain)
            next_at = (
                table[b, j // page] * v_strides[0] + g * v_strides[1] + j % page * v_strides[2]
            )
            n = 0
            if full:
                while n + together <= keys:
                    line = at + n * step
                    if rows == 1:
                        dots_in_order(weights, n, queries, 0, lines, line, step, full)
                    else:
                        for m in range(n, n + together if ahead else n):
                            foresee_row(k, first_at + (m + _AHEAD) * k_strides[2], size)
                            foresee_row(v, next_at + m * v_strides[2], size)
                        for r in range(0, tall, 4):
                            _dots_of_four(
                                weights, r * block + n, block,
                                queries, r * padded, padded, lines, line, step, full,
                            )  # fmt: skip
                    n += together
            for r in range(rows):
                for rest in range(keys):
                    done = full if rest < n else 0
                    if done < size:
                        score = weights[r * block + rest] if done else zero
                        line = at + rest * step
                        for d in range(done, size):
                            score += queries[r * padded + d] * lines[line + d]
                        weights[r * block + rest] = score
            for r in range(rows):
                h, i = g * group + r // length, r % length
                scores = weights[r * block : r * block + keys]
                if bias.size:
                    place = b * bias_strides[0] + h * bias_strides[1] + i * bias_strides[2]
                    for n in range(keys):
                        more = bias[place + (j + n) * bias_strides[3]]
                        scores[n] = nothing if more == nothing else scores[n] + more
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
            _add_values(weights, block, lines, at, step, keys, size, rows, padded, sums)
            j = end
        for i in range(rows * padded):
            parts[task, i] = sums[i]


@kernel
def _add_values(
    weights: Array,
    block: int,
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
    d = 0
    while d + lanes <= size:
        vectors = (size - d) // lanes
        if rows == 1:
            vectors = _WHOLE if vectors >= _WHOLE else _WHOLE // 2 if vectors >= _WHOLE // 2 else 1
            if vectors == _WHOLE:
                _one_whole(
                    sums, d, padded, weights, 0, block, 1,
                    lines, at + d, step, keys, weights, 0,
                )  # fmt: skip
            elif vectors > 1:
                _one_half(
                    sums, d, padded, weights, 0, block, 1,
                    lines, at + d, step, keys, weights, 0,
                )  # fmt: skip
            else:
                _one_narrow(
                    sums, d, padded, weights, 0, block, 1,
                    lines, at + d, step, keys, weights, 0,
                )  # fmt: skip
        else:
            vectors = FEW if vectors >= FEW else 1
            for r in range(0, rows, 4):
                if vectors > 1:
                    _four_wide(
                        sums, r * padded + d, padded, weights, r * block, block, 1,
                        lines, at + d, step, keys, weights, 0,
                    )  # fmt: skip
                else:
                    _four_narrow(
                        sums, r * padded + d, padded, weights, r * block, block, 1,
                        lines, at + d, step, keys, weights, 0,
                    )  # fmt: skip
        d += vectors * lanes
    for r in range(rows):
        for n in range(keys):
            weight = weights[r * block + n]
            for rest in range(d, size):
                sums[r * padded + rest] += weight * lines[at + n * step + rest]


@kernel
def merge(
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
