"""Norms in device kernels: a row stays in registers from its first look to its last."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from corepy.kernels._arguments import Given
from corepy.kernels._device import (
    Program,
    Result,
    launch,
    memory,
    reals,
    refuse_overlap_on_device,
    rows,
)
from corepy.kernels._device._sharing import HELD, by_elements, by_rows, held_of, vector_of

_program = Program(__file__)
_batch_program = Program(__file__, "batch.c")


def rms_norm(
    x: Given,
    weight: Given | None,
    eps: float,
    residual: Given | None,
    out: Given | None,
    out_sum: Given | None,
) -> tuple[Any, Any]:
    """Return the norms of the rows of `x`, and ``x + residual`` if there is one."""
    if out is not None and out_sum is not None:
        refuse_overlap_on_device(out, out_sum)
    result = Result(x, out, weight, residual, out_sum)
    # Not where the normed rows go, of which it would be part of the way, and not where the weight
    # is, which multiplies after the sum is there.
    summed = None
    if residual is not None:
        summed = Result(x, out_sum, residual, read_again=(out, weight))
    source, places = rows(x)
    added, other_places = (None, places) if residual is None else rows(residual)
    w = None if weight is None else memory(weight)
    to_sum = None if summed is None else summed.memory
    size = x.shape[-1]
    count = x.size // size
    vector = vector_of(
        *(x, size, source, added, w, to_sum, result.memory),
        strides=(*places[2:], *other_places[2:]),
    )
    most = held_of(x) if residual is None else HELD
    grid, block, defines = by_rows(x, count, size, vector, most)
    scalars = np.int64(count), np.int64(size), *reals(x, eps)
    launch(
        *(x, _program, "rms_norm"),
        grid=grid,
        block=block,
        arguments=(source, places, added, other_places, w, to_sum, result.memory, *scalars),
        X=x.dtype,
        W=x.dtype if weight is None else weight.dtype,
        B=x.dtype,
        RESIDUAL=int(residual is not None),
        WEIGHTED=int(weight is not None),
        **defines,
    )
    return result.array(), None if summed is None else summed.array()


def layer_norm(
    x: Given, weight: Given | None, bias: Given | None, eps: float, out: Given | None
) -> Any:
    """Return the norms of the rows of `x`."""
    result = Result(x, out, weight, bias)
    source, places = rows(x)
    w, b = (None if g is None else memory(g) for g in (weight, bias))
    size = x.shape[-1]
    count = x.size // size
    vector = vector_of(x, size, source, w, b, result.memory, strides=places[2:])
    grid, block, defines = by_rows(x, count, size, vector)
    scalars = np.int64(count), np.int64(size), *reals(x, eps)
    launch(
        *(x, _program, "layer_norm"),
        grid=grid,
        block=block,
        arguments=(source, places, w, b, result.memory, *scalars),
        X=x.dtype,
        W=x.dtype if weight is None else weight.dtype,
        B=x.dtype if bias is None else bias.dtype,
        RESIDUAL=0,
        WEIGHTED=0,
        **defines,
    )
    return result.array()


def batch_norm(
    x: Given,
    mean: Given,
    variance: Given,
    weight: Given | None,
    bias: Given | None,
    eps: float,
    axis: int,
    out: Given | None,
) -> Any:
    """Return `x` with the channels along an axis normalized."""
    parameters = mean, variance, weight, bias
    result = Result(x, out, read_again=parameters)
    source = memory(x)
    after = math.prod(x.shape[axis + 1 :])
    vector = vector_of(x, after, source, result.memory)
    grid, block, defines = by_elements(x, x.size, vector)
    sizes = map(np.int64, (x.size, x.shape[axis], after))
    given = (None if p is None else memory(p) for p in parameters)
    named = zip("MVWB", parameters, strict=True)
    dtypes: dict[str, Any] = {name: x.dtype if p is None else p.dtype for name, p in named}
    launch(
        x,
        _batch_program,
        "batch_norm",
        grid=grid,
        block=block,
        arguments=(source, *given, result.memory, *sizes, *reals(x, eps)),
        X=x.dtype,
        **dtypes,
        **defines,
    )
    return result.array()
