"""Products of matrices as their formulas read, in the functions of any library."""

from __future__ import annotations

from typing import Any

from corepy.kernels._casts import cast


def gemm(xp: Any, a: Any, b: Any, c: Any, *, wide: Any, alpha: float, beta: float) -> Any:
    """Return ``alpha * a @ b + beta * c``, for matrices or a matrix and a vector."""
    found = xp.matmul(cast(xp, a, wide), cast(xp, b, wide))
    if alpha != 1.0:
        found = found * alpha
    if c is not None and beta != 0.0:
        found = found + cast(xp, c, wide) * beta
    return cast(xp, found, a.dtype)


def matmul_vec(xp: Any, x: Any, matrix: Any, *, wide: Any) -> Any:
    """Return ``matrix @ x`` for each vector along the last axis of `x`."""
    turned = xp.matrix_transpose(cast(xp, matrix, wide))
    return cast(xp, xp.matmul(cast(xp, x, wide), turned), x.dtype)


def weighted_sum_rows(xp: Any, weights: Any, rows: Any, *, wide: Any) -> Any:
    """Return ``sum(weights[..., i] * rows[..., i, :])`` over i."""
    found = xp.matmul(cast(xp, weights, wide)[..., None, :], cast(xp, rows, wide))
    return cast(xp, found[..., 0, :], weights.dtype)


def attention_scores(xp: Any, q: Any, k: Any, *, wide: Any, scale: float) -> Any:
    """Return ``scale * q @ k.mT``, neighbouring heads of `q` sharing one of `k`."""
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]
    together = (batch, kv_heads, heads // kv_heads * queries if kv_heads else 0, size)
    y = xp.reshape(cast(xp, q, wide) * scale, together)
    found = xp.matmul(y, xp.matrix_transpose(cast(xp, k, wide)))
    return cast(xp, xp.reshape(found, (batch, heads, queries, keys)), q.dtype)
