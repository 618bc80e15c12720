"""Softmax in device kernels, along rows and down columns."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from corepy.kernels._arguments import Given
from corepy.kernels._device import (
    Program,
    Result,
    broadcast,
    broadcast_rows,
    launch,
    memory,
    reals,
    rows,
)
from corepy.kernels._device._sharing import by_elements, by_rows, held_of, vector_of

_program = Program(__file__)
_Factors: TypeAlias = tuple[Any, ...]


def softmax(
    x: Given, axis: int, before: float, after: float, mask: Given | None, out: Given | None
) -> Any:
    """Return the exponentials along an axis, by their sum.

    Elements are multiplied before the greatest is taken away and after.
    """
    result = Result(x, out, read_again=(mask,))
    factors = reals(x, before, after)
    if axis == len(x.shape) - 1:
        _rows(x, factors, mask, result)
    else:
        _columns(x, axis, factors, mask, result)
    return result.array()


def _rows(x: Given, factors: _Factors, mask: Given | None, result: Result) -> None:
    size = x.shape[-1]
    count = x.size // size
    source, places = rows(x)
    taken, taken_places, step = None, places, np.int64(0)
    if mask is not None:
        taken, taken_places = broadcast_rows(mask, x.shape)
        step = np.int64(taken.strides[-1])
    vector = vector_of(x, size, source, result.memory, strides=places[2:])
    grid, block, defines = by_rows(x, count, size, vector, held_of(x))
    launch(
        *(x, _program, "softmax_rows"),
        grid=grid,
        block=block,
        arguments=(
            *(source, places, taken, taken_places, step, result.memory),
            *(np.int64(count), np.int64(size), *factors),
        ),
        X=x.dtype,
        MASKED=int(mask is not None),
        **defines,
    )


def _columns(x: Given, axis: int, factors: _Factors, mask: Given | None, result: Result) -> None:
    before, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    taken = None if mask is None else broadcast(mask, x.shape)
    grid, block, defines = by_elements(x, before * columns, 1)
    launch(
        *(x, _program, "softmax_columns"),
        grid=grid,
        block=block,
        arguments=(
            *(memory(x), taken, result.memory),
            *(np.int64(before), np.int64(x.shape[axis]), np.int64(columns)),
            *factors,
        ),
        X=x.dtype,
        MASKED=int(mask is not None),
        **defines,
    )
