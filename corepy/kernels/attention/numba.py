"""Attention in compiled loops: an online softmax over blocks of keys that stay in the cache.

Many queries are taken in panels (`_panels.py`), few ones as rows (`_rows.py`).

Keys come in pages, block ``table[b, j // page]`` of K and V holding those of sequence b from
``j // page * page`` on; arrays that are not paged are pages of their whole length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from corepy._loops._streaming import HELD
from corepy.kernels._compiled import Loop, in_turn, launch
from corepy.kernels._memory import passing
from corepy.kernels._tiles import BYTES
from corepy.kernels.attention._panels import attend_in_panels, width_of
from corepy.kernels.attention._rows import attend_in_rows, block_of, merge

Array = npt.NDArray[Any]
Flat = tuple[Array, tuple[int, ...]]

#: Queries of a head of K and V up to which they are rows.
_FEW_ROWS = 16
#: Keys that one thread takes alone; it depends on no number of threads, so that results do not.
_CHUNK = 1024


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
    if rows > _FEW_ROWS:
        stride = width_of(rows, pairs, size, lanes, lse.itemsize)
        work = pairs * rows * longest * size // 2
        launch(attend_in_panels, (*common, stride, out, lse), pairs * -(-rows // stride), work)
        return
    chunks = max(1, -(-longest // _CHUNK))
    parts = passing((pairs * chunks, rows * (-(-size // lanes) * lanes)), lse.dtype)
    tops, totals = (passing((pairs * chunks, rows), lse.dtype) for _ in range(2))
    work = 2 * pairs * longest * size * max(1, rows // 4)
    far = 4 * pairs * longest * size * k[0].itemsize > HELD
    block = block_of(rows, k[0].dtype == np.uint16, far)
    parted = (chunks, _CHUNK, block, far, parts, tops, totals)
    merged = parts, tops, totals, chunks, shape, brain, out, lse
    in_turn(
        Loop(attend_in_rows, (*common, *parted), pairs * chunks, work),
        Loop(merge, merged, pairs * rows, parts.size),
    )
