"""Products of matrices and vectors in device kernels, for arrays whose library has no BLAS."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from corepy.kernels._arguments import Given
from corepy.kernels._device import (
    TILES,
    Memory,
    Program,
    Result,
    launch,
    memory,
    reals,
    rows,
    target_of,
)
from corepy.kernels._device._sharing import by_elements, by_rows, by_tiles, vector_of

_program = Program(__file__, headers=(TILES,))
#: Vectors up to which each row of a matrix is read again for each of them.
_FEW = 8


def gemm(a: Given, b: Given, c: Given | None, alpha: float, beta: float, out: Given | None) -> Any:
    """Return ``alpha * a @ b + beta * c``, for matrices or a matrix and a vector."""
    added = c if beta != 0.0 else None
    shape = (a.shape[0], *b.shape[1:])
    result = Result(a, out, added, read_again=(a, b), shape=shape)
    extra = None if added is None else memory(added)
    if len(b.shape) == 1:
        _dots(a, b, extra, alpha, beta, result)
        return result.array()
    left, right = _axes(a, 2), _axes(b, 2)
    sizes = 1, 1, 1, a.shape[0], b.shape[1], a.shape[1]
    _product(a, (left, right), extra, sizes, alpha, beta, result)
    return result.array()


def matmul_vec(x: Given, matrix: Given, out: Given | None) -> Any:
    """Return ``matrix @ x`` for each vector along the last axis of `x`."""
    shape = (*x.shape[:-1], matrix.shape[0])
    result = Result(x, out, read_again=(x, matrix), shape=shape)
    count = math.prod(x.shape[:-1])
    if count <= _FEW:
        _dots(matrix, x, None, 1.0, 0.0, result)
        return result.array()
    size = x.shape[-1]
    left = memory(x), (0, 0, size, 1)
    right, (*_, row, step) = _axes(matrix, 2)
    sizes = 1, 1, 1, count, matrix.shape[0], size
    _product(x, (left, (right, (0, 0, step, row))), None, sizes, 1.0, 0.0, result)
    return result.array()


def weighted_sum_rows(weights: Given, rows: Given, out: Given | None) -> Any:
    """Return ``sum(weights[..., i] * rows[..., i, :])`` over i."""
    *outer, count, size = rows.shape
    result = Result(weights, out, read_again=(weights, rows), shape=(*outer, size))
    shares, values = memory(weights), memory(rows)
    vector = vector_of(rows, size, values, result.memory)
    total = math.prod(outer) * (size // vector)
    grid, block, defines = by_elements(weights, total, 1)
    launch(
        *(weights, _program, "sums"),
        grid=grid,
        block=block,
        arguments=(shares, values, result.memory, *map(np.int64, (total, count, size))),
        X=weights.dtype,
        **{**defines, "VECTOR": vector},
    )
    return result.array()


def attention_scores(q: Given, k: Given, scale: float, out: Given | None) -> Any:
    """Return ``scale * q @ k.mT``, neighbouring heads of `q` sharing one of `k`."""
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]
    shape = (batch, heads, queries, keys)
    result = Result(q, out, read_again=(q, k), shape=shape)
    right, (outer, head, row, step) = _axes(k, 4)
    together = heads // kv_heads if kv_heads else 1
    sizes = batch * heads, heads, together, queries, keys, size
    operands = _axes(q, 4), (right, (outer, head, step, row))
    _product(q, operands, None, sizes, scale, 0.0, result)
    return result.array()


def _axes(x: Given, count: int) -> tuple[Memory, tuple[int, ...]]:
    """Return an argument's memory, and four strides of which those it lacks are 0."""
    found = target_of(x).memory(x)
    return found, (0,) * (4 - count) + found.strides


def _dots(
    matrix: Given,
    vectors: Given,
    added: Memory | None,
    alpha: float,
    beta: float,
    result: Result,
) -> None:
    """Fill a result with the products of each row of a matrix and each vector."""
    (source, places), other = rows(matrix), memory(vectors)
    m, size = matrix.shape
    count = math.prod(vectors.shape[:-1]) * m
    vector = vector_of(matrix, size, source, other, strides=places[2:])
    grid, block, defines = by_rows(matrix, count, size, vector)
    launch(
        *(matrix, _program, "dots"),
        grid=grid,
        block=block,
        arguments=(
            *(source, places, other, added, result.memory),
            *map(np.int64, (m, count, size)),
            *reals(matrix, alpha, beta),
        ),
        X=matrix.dtype,
        **{**defines, "HELD": 0},
    )


def _product(
    x: Given,
    operands: tuple[tuple[Memory, tuple[int, ...]], ...],
    added: Memory | None,
    sizes: tuple[int, ...],
    alpha: float,
    beta: float,
    result: Result,
) -> None:
    """Fill a result with the products of matrices, tile by tile."""
    (left, steps), (right, other_steps) = operands
    batch, _, _, m, n, _ = sizes
    grid, block = by_tiles(x, batch, m, n)
    launch(
        *(x, _program, "product_of_matrices"),
        grid=grid,
        block=block,
        arguments=(
            *(left, right, added, result.memory),
            *map(np.int64, (*sizes, *steps, *other_steps)),
            *reals(x, alpha, beta),
        ),
        X=x.dtype,
    )
