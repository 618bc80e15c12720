"""Attention over heads that may share keys, with an online softmax."""

from __future__ import annotations

from typing import Any, Literal

from corepy.dispatch import one_operation
from corepy.kernels._arguments import beside, choice, destination, misshapen
from corepy.kernels._replay import replayed
from corepy.kernels.attention._at_once import at_once
from corepy.kernels.attention._cache import KVCache, PagedKVCache
from corepy.kernels.attention._problem import (
    Problem,
    flag,
    over_scores,
    queries_and_keys,
    reach,
    scale_of,
    sizes,
)

__all__ = ["KVCache", "PagedKVCache", "attention"]


@one_operation
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    causal_align: Literal["bottom-right", "top-left"] = "bottom-right",
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    window: int | tuple[int | None, int | None] | None = None,
    lengths: Any = None,
    query_lengths: Any = None,
    return_lse: bool = False,
    out: Any = None,
) -> Any:
    """Return ``softmax(scale * q @ k.mT + bias) @ v`` over the keys that each query sees.

    Parameters
    ----------
    q : array (batch, heads, queries, head_dim)
        Of float16, bfloat16, float32 or float64.
    k, v : array (batch, kv_heads, keys, head_dim)
        Of the dtype of `q`. Where `kv_heads` is less than `heads` it divides it, and head h of `q`
        takes head ``h // (heads // kv_heads)``: grouped-query attention.
    causal : bool
        Whether a query sees no key beyond its own position.
    causal_align : {"bottom-right", "top-left"}
        Where the queries are, for `causal` and `window`. ``"bottom-right"``: the last query is
        where the last key is, as when a sequence goes on from keys in a cache. ``"top-left"``: the
        first query is where the first key is, as torch and JAX have it. One for equal lengths.
    mask : array of bool or None
        True where a query sees a key; broadcast to (batch, heads, queries, keys).
    bias : array or None
        Added to the scores; broadcast like `mask`. Of the dtype of `q`, or float32 beside 16-bit
        floats. Minus infinity hides a key as a mask does.
    scale : float or None
        Multiplies `q`. None: ``1 / sqrt(head_dim)``.
    window : int, pair of int or None, or None
        How many keys a query sees to the left and right of its position, beside that one itself;
        one number stands for both, None for all.
    lengths : array of int32 or int64 (batch,), or None
        How many keys of each sequence count; those beyond may be anything. None: all.
    query_lengths : array of int32 or int64 (batch,), or None
        How many queries of each sequence count; the others see nothing. None: all. Sequences that
        were filled up on the right need both, and with "bottom-right" the last ones meet.
    return_lse : bool
        Whether to return the logarithms of the sums as well.
    out : array or None
        Where to put the result, which may be `q` itself. None: new memory.

    Returns
    -------
    array (batch, heads, queries, head_dim) or tuple of two
        In the library, dtype and device of `q`; zero for a query that sees no key. With
        `return_lse` also ``log(sum(exp(scores)))``, (batch, heads, queries), of float32, or
        float64 where `q` has that; minus infinity for a query that sees no key.

    Raises
    ------
    TypeError
        If an argument is of another type, library or dtype; a mask of numbers is no mask.
    ValueError
        If a shape does not fit, heads are no multiple, `window` is negative, `scale` is not
        finite, a length is negative or too great, or `out` is read-only. Lengths without values, as
        inside ``jax.jit`` and ``torch.func.grad``, are not looked at.
    DeviceMismatchError
        If an array lives on another device than `q`.

    Notes
    -----
    16-bit floats are widened to float32; ``scale * q``, scores, weights and sums are computed in
    float32, or float64 where `q` has that, and the result is rounded once; NVIDIA's tensor cores
    take weights rounded to the dtype of `v`. A scale beyond the greatest number of the dtype that
    is computed in counts as it. A NaN or positive infinity among the scores that a query sees gives
    NaN. What it does not see in `k` may be anything; in `v` it has to be finite, unless it is
    beyond the `lengths`, for it may be multiplied by a weight of zero. Where torch's own function
    serves, it has no second derivatives on the host.

    References
    ----------
    Vaswani et al., Attention Is All You Need, 2017, section 3.2.1, https://arxiv.org/abs/1706.03762;
    Dao et al., FlashAttention, 2022, https://arxiv.org/abs/2205.14135; Ainslie et al., GQA, 2023,
    https://arxiv.org/abs/2305.13245

    Examples
    --------
    >>> import numpy as np
    >>> q, k = np.zeros((1, 1, 2, 1)), np.zeros((1, 1, 4, 1))
    >>> v = np.asarray([1.0, 2.0, 3.0, 6.0]).reshape(1, 1, 4, 1)
    >>> attention(q, k, v).ravel().tolist()
    [3.0, 3.0]
    >>> attention(q, k, v, causal=True).ravel().tolist()  # the first query is at the third key
    [2.0, 3.0]
    """
    if mask is bias is window is lengths is query_lengths is out is None and return_lse is False:
        found = at_once(q, k, v, causal, causal_align, scale)
        if found is not None:
            return found
    looks = causal, causal_align, mask, bias, scale, window, lengths, query_lengths
    return _attention(q, k, v, *looks, return_lse, out)


@replayed
def _attention(
    q: Any,
    k: Any,
    v: Any,
    causal: bool,
    causal_align: str,
    mask: Any,
    bias: Any,
    scale: float | None,
    window: int | tuple[int | None, int | None] | None,
    lengths: Any,
    query_lengths: Any,
    return_lse: bool,
    out: Any,
) -> Any:
    """Look at all arguments of `attention`, unless a call with such ones is repeated."""
    name = "attention"
    g, keys = queries_and_keys(name, q, k)
    values = beside("v", v, g, (g.dtype,))
    if values.shape != keys.shape:
        raise misshapen(values, f"{keys.shape}, that of k")
    length = keys.shape[2]
    choice(name, "causal_align", causal_align, ("bottom-right", "top-left"))
    flag(name, "causal", causal)
    flag(name, "return_lse", return_lse)
    left, right = reach(name, window, causal)
    return Problem(
        g,
        keys,
        values,
        scale_of(g, scale),
        mask=over_scores("mask", mask, g, length, ("bool",)),
        bias=over_scores("bias", bias, g, length, tuple(dict.fromkeys((g.dtype, g.wide)))),
        lengths=sizes("lengths", lengths, g, length),
        query_lengths=sizes("query_lengths", query_lengths, g, g.shape[2]),
        left=left,
        right=right,
        top_left=causal_align == "top-left",
        return_lse=return_lse,
        out=destination("out", out, g),
    ).solve()
