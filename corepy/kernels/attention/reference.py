"""Attention as its formula reads, in the functions of any library."""

from __future__ import annotations

import math
from typing import Any

from corepy.kernels._casts import cast


def attention(
    xp: Any,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    bias: Any,
    i: Any,
    j: Any,
    lengths: Any,
    query_lengths: Any,
    table: Any,
    *,
    wide: Any,
    scale: float,
    left: int | None,
    right: int | None,
    top_left: bool,
    return_lse: bool,
) -> Any:
    """Return ``softmax(scale * q @ k.mT + bias) @ v`` over the keys that each query sees.

    `i` and `j` are the numbers of the queries, (queries, 1), and of the keys, (1, keys), None where
    neither lengths nor places hide any.
    """
    if table is not None:
        k, v = _gathered(xp, k, table), _gathered(xp, v, table)
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]
    together = (batch, kv_heads, heads // kv_heads * queries)  # of one head of k and v

    # Beyond lengths may be anything, and zero times that is no zero: in the sum of values, and for
    # the others in gradients.
    if lengths is not None:
        k, v = (_within(xp, x, j, lengths) for x in (k, v))
    if query_lengths is not None:
        q = _within(xp, q, i, query_lengths)

    seen = _seen(xp, i, j, lengths, query_lengths, left, right, top_left)
    if mask is not None:
        seen = mask if seen is None else seen & mask
    y = xp.reshape(cast(xp, q, wide) * scale, (*together, size))
    scores = xp.matmul(y, xp.matrix_transpose(cast(xp, k, wide)))
    scores = xp.reshape(scores, (batch, heads, queries, keys))
    if bias is not None:
        more = cast(xp, bias, wide)
        scores = xp.where(more == -math.inf, more, scores + more)  # it hides a NaN too
    if seen is not None:
        scores = xp.where(seen, scores, xp.full_like(scores, -math.inf))

    # A row of which nothing is seen has no greatest score and no sum: it is zero.
    top = xp.max(scores, axis=-1, keepdims=True)
    top = xp.where(top > -math.inf, top, xp.zeros_like(top))
    weights = xp.exp(scores - top)
    total = xp.sum(weights, axis=-1, keepdims=True)
    nothing = total == 0
    out = xp.matmul(xp.reshape(weights, (*together, keys)), cast(xp, v, wide))
    out = xp.reshape(out, q.shape) / xp.where(nothing, xp.ones_like(total), total)
    out = cast(xp, xp.where(nothing, xp.zeros_like(out), out), q.dtype)
    if not return_lse:
        return out
    some = xp.log(xp.where(nothing, xp.ones_like(total), total)) + top
    lse = xp.where(nothing, xp.full_like(some, -math.inf), some)
    return out, lse[..., 0]


def _seen(
    xp: Any,
    i: Any,
    j: Any,
    lengths: Any,
    query_lengths: Any,
    left: int | None,
    right: int | None,
    top_left: bool,
) -> Any:
    """Return where a query sees a key, or None if every one sees all."""
    parts = []
    if lengths is not None:
        parts.append(_each(xp, j, lengths, (1, 1, -1)))
    if query_lengths is not None:
        parts.append(_each(xp, i, query_lengths, (1, -1, 1)))
    if left is not None or right is not None:
        place = i
        if not top_left:  # the last query is where the last key is
            last_key = j.shape[1] if lengths is None else _sizes(xp, lengths, j)
            last_query = i.shape[0] if query_lengths is None else _sizes(xp, query_lengths, i)
            place = i + (last_key - last_query)
        if left is not None:
            parts.append(j >= place - left)
        if right is not None:
            parts.append(j <= place + right)
    seen = None
    for part in parts:
        seen = part if seen is None else seen & part
    return seen


def _sizes(xp: Any, lengths: Any, like: Any) -> Any:
    """Return the length of each sequence, to stand beside (batch, heads, queries, keys)."""
    return xp.reshape(cast(xp, lengths, like.dtype), (-1, 1, 1, 1))


def _each(xp: Any, numbers: Any, lengths: Any, shape: tuple[int, ...]) -> Any:
    """Return which numbers are below the length of each sequence, along some axis."""
    return xp.reshape(numbers, (1, *shape)) < _sizes(xp, lengths, numbers)


def _within(xp: Any, x: Any, numbers: Any, lengths: Any) -> Any:
    """Return queries, keys or values with zeros beyond the length of each sequence."""
    return xp.where(_each(xp, numbers, lengths, (1, -1, 1)), x, xp.zeros_like(x))


def _gathered(xp: Any, pool: Any, table: Any) -> Any:
    """Return the pages of each sequence one after the other, (batch, kv_heads, keys, head_dim)."""
    batch, pages = table.shape
    _, kv_heads, page, size = pool.shape
    found = xp.take(pool, xp.reshape(table, (-1,)), axis=0)
    found = xp.reshape(found, (batch, pages, kv_heads, page, size))
    found = xp.permute_dims(found, (0, 2, 1, 3, 4))
    return xp.reshape(found, (batch, kv_heads, pages * page, size))


def of_nothing(xp: Any, q: Any, k: Any, v: Any, *, wide: Any, return_lse: bool) -> Any:
    """Return what queries give where there are no keys: zeros, and logarithms of sums of nothing.

    They are sums over the keys, through which gradients pass as through those of some. Without `k`
    and `v` (keys in blocks have none to give) no queries stand for them.
    """
    if k is None:
        k = v = q[:, :, :0, :]
    batch, heads, queries, size = q.shape
    kv_heads = k.shape[1]
    y = xp.reshape(cast(xp, q, wide), (batch, kv_heads, heads // kv_heads * queries, size))
    scores = xp.matmul(y, xp.matrix_transpose(cast(xp, k, wide)))
    out = cast(xp, xp.reshape(xp.matmul(scores, cast(xp, v, wide)), q.shape), q.dtype)
    if not return_lse:
        return out
    return out, xp.reshape(xp.sum(scores, axis=-1), (batch, heads, queries)) - math.inf
