"""Attention by JAX's own function, which has cuDNN's kernels on GPUs, and by XLA."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from corepy.kernels._arguments import Given
from corepy.kernels._formulas import by_reference, jax_takes

if TYPE_CHECKING:
    from corepy.kernels.attention._problem import Problem


def takes(q: Given, *others: Given) -> bool:
    """Say whether JAX's function takes some arrays, in the dtype that they are computed in.

    It weighs float64 in float32, and on the host XLA has no product of float16 that adds up in
    float32.
    """
    if q.dtype == "float64" or (q.dtype == "float16" and not _on_gpu(q)):
        return False
    return jax_takes(q, *others)


def _on_gpu(x: Given) -> bool:
    return x.device is not None and x.device.kind in ("cuda", "rocm")


def attention(problem: Problem) -> Any:
    """Compute what `corepy.kernels.attention.torch.serves` allows, which is all alike here."""
    p = problem
    one = p.q.shape[2] == 1 and not p.top_left  # sees every key
    # What cuDNN has, says jax._src.cudnn.fused_attention_stablehlo.check_is_flash_attention.
    flash = _on_gpu(p.q) and p.q.dtype in ("float16", "bfloat16") and p.q.shape[3] % 8 == 0
    return by_reference(
        _attention,
        p.q,
        (p.k, p.v),
        (p.out,),
        reason="JAX has a function of its own for it",
        scale=p.scale,
        causal=p.right == 0 and not one,
        implementation="cudnn" if flash and p.q.shape[3] <= 128 else "xla",
    )


def _attention(
    xp: Any,
    q: Any,
    k: Any,
    v: Any,
    *,
    wide: Any,
    scale: float,
    causal: bool,
    implementation: str,
) -> Any:
    import jax

    # `setting` says how products are computed; 16-bit floats are multiplied as they are.
    with jax.default_matmul_precision(None) if q.dtype.itemsize == 2 else nullcontext():
        if implementation == "xla":
            return _by_xla(xp, q, k, v, wide=wide, scale=scale, causal=causal)
        q, k, v = (xp.swapaxes(x, 1, 2) for x in (q, k, v))  # (batch, length, heads, head_dim)
        found = jax.nn.dot_product_attention(
            *(q, k, v), scale=scale, is_causal=causal, implementation=implementation
        )
    return xp.swapaxes(found, 1, 2)


def _by_xla(xp: Any, q: Any, k: Any, v: Any, *, wide: Any, scale: float, causal: bool) -> Any:
    """Compute as JAX's function does, but hide keys by minus infinity.

    It hides them by a large number, which is greater than the scores of a query that are all minus
    infinity, or nearly: such a query is given the mean of what it must not see.
    """
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]
    grouped = xp.reshape(q, (batch, kv_heads, heads // kv_heads, queries, size))
    scores = scale * xp.einsum("bhgqd,bhkd->bhgqk", grouped, k, preferred_element_type=wide)
    if causal:
        scores = xp.where(xp.tri(queries, keys, dtype=bool), scores, -math.inf)
    top = xp.max(scores, axis=-1, keepdims=True)
    weights = xp.exp(scores - xp.where(top == -math.inf, 0, top))
    total = xp.sum(weights, axis=-1, keepdims=True)
    weights = weights / xp.where(total == 0, 1, total)  # no score is greater: zero, not 0 / 0
    found = xp.einsum("bhgqk,bhkd->bhgqd", weights.astype(v.dtype), v, preferred_element_type=wide)
    return xp.reshape(found.astype(q.dtype), q.shape)
