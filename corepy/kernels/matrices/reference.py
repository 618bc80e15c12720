"""Products of matrices as their formulas read, in the functions of any library."""

from __future__ import annotations

from typing import Any


def gemm(xp: Any, a: Any, b: Any, c: Any, *, wide: Any, alpha: float, beta: float) -> Any:
    """Return ``alpha * a @ b + beta * c``, for matrices or a matrix and a vector."""
    found = xp.matmul(xp.astype(a, wide, copy=False), xp.astype(b, wide, copy=False))
    if alpha != 1.0:
        found = found * alpha
    if c is not None and beta != 0.0:
        found = found + xp.astype(c, wide, copy=False) * beta
    return xp.astype(found, a.dtype, copy=False)


def matmul_vec(xp: Any, x: Any, matrix: Any, *, wide: Any) -> Any:
    """Return ``matrix @ x`` for each vector along the last axis of `x`."""
    turned = xp.matrix_transpose(xp.astype(matrix, wide, copy=False))
    return xp.astype(xp.matmul(xp.astype(x, wide, copy=False), turned), x.dtype, copy=False)


def weighted_sum_rows(xp: Any, weights: Any, rows: Any, *, wide: Any) -> Any:
    """Return ``sum(weights[..., i] * rows[..., i, :])`` over i."""
    found = xp.matmul(
        xp.astype(weights, wide, copy=False)[..., None, :], xp.astype(rows, wide, copy=False)
    )
    return xp.astype(found[..., 0, :], weights.dtype, copy=False)


def attention_scores(xp: Any, q: Any, k: Any, *, wide: Any, scale: float) -> Any:
    """Return ``scale * q @ k.mT``, neighbouring heads of `q` sharing one of `k`."""
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]
    together = (batch, kv_heads, heads // kv_heads * queries if kv_heads else 0, size)
    y = xp.reshape(xp.astype(q, wide, copy=False) * scale, together)
    found = xp.matmul(y, xp.matrix_transpose(xp.astype(k, wide, copy=False)))
    return xp.astype(xp.reshape(found, (batch, heads, queries, keys)), q.dtype, copy=False)
