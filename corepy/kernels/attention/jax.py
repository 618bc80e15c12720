"""Attention by JAX's own function, which has cuDNN's kernels on GPUs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from corepy.kernels._arguments import Given
from corepy.kernels._choice import by_jax, jax_takes

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
    return by_jax(
        p.q,
        _attention,
        p.k,
        p.v,
        outs=(p.out,),
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

    q, k, v = (xp.swapaxes(x, 1, 2) for x in (q, k, v))  # (batch, length, heads, head_dim) there
    # `setting` says how products are computed; 16-bit floats are multiplied as they are.
    with jax.default_matmul_precision(None) if q.dtype.itemsize == 2 else nullcontext():
        found = jax.nn.dot_product_attention(
            *(q, k, v), scale=scale, is_causal=causal, implementation=implementation
        )
    return xp.swapaxes(found, 1, 2)
