"""Operations that add up: reductions, and products of matrices."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from tinygrad import dtypes as tiny
from tinygrad.uop.ops import Ops

from corepy.backends._base import LeftToOthersError
from corepy.backends.tinygrad._arrays import distinct, upload
from corepy.backends.tinygrad._graphs import (
    Array,
    Function,
    alu,
    astype,
    axes_of,
    choose,
    constant,
    equal,
    is_float,
    isnan,
    moveaxis,
    opaque,
)

#: Elements that are added up one after the other, each of whose errors may count.
_RUN: Final = 128
#: Likewise of a product of matrices, for runs take a kernel more.
_PRODUCTS: Final = 1024


def _reduced(x: Array, axis: Any, keepdims: bool) -> tuple[Array, tuple[int, ...]]:
    """Return an array whose last axis is to be reduced, and the shape of what comes of it."""
    gone = tuple(range(x.ndim)) if axis is None else tuple(axes_of(axis))
    kept = [i for i in range(x.ndim) if i not in gone]
    shape = tuple(x.shape[i] for i in kept)
    count = math.prod(x.shape[i] for i in gone)
    flat = x.permute((*kept, *gone)).reshape((*shape, count))
    if keepdims:
        shape = tuple(1 if i in gone else n for i, n in enumerate(x.shape))
    return flat, shape


def _summed(x: Array, operation: Function, run: int = _RUN) -> Array:
    """Add up, or multiply, along the last axis, in runs if it is long."""
    while is_float(x) and x.shape[-1] > 4 * run:
        count = x.shape[-1]
        runs = -(-count // run)
        if count % run:
            head, tail = x[..., : (runs - 1) * run], x[..., (runs - 1) * run :]
            first = operation(opaque(head.reshape((*x.shape[:-1], runs - 1, run)))).contiguous()
            x = first.cat(operation(opaque(tail)).unsqueeze(-1).contiguous(), dim=-1)
        else:
            x = operation(opaque(x.reshape((*x.shape[:-1], runs, run)))).contiguous()
    return operation(opaque(x))


def _accumulating(initial: int, operation: Function) -> Function:
    def accumulate(x: Array, *, axis: Any, dtype: Any, keepdims: bool) -> Array:
        x = astype(x, dtype)
        flat, shape = _reduced(x, axis, keepdims)
        if 0 in flat.shape:
            return constant(shape, initial, x)
        return _summed(flat, operation).cast(dtype).reshape(shape)

    return accumulate


def _plus(x: Array) -> Array:
    return x.sum(-1, dtype=x.dtype)


def _times(x: Array) -> Array:
    return x.prod(-1, dtype=x.dtype)


def _mean(x: Array, *, axis: Any, keepdims: bool) -> Array:
    flat, shape = _reduced(x, axis, keepdims)
    if 0 in flat.shape:
        return constant(shape, math.nan, x)
    return _averaged(flat).reshape(shape)


def _averaged(flat: Array) -> Array:
    total = _summed(flat, _plus)
    return alu(Ops.FDIV, total, total.const_like(flat.shape[-1]))


def _var(x: Array, *, axis: Any, correction: float, keepdims: bool) -> Array:
    flat, shape = _reduced(x, axis, keepdims)
    count = flat.shape[-1] - correction
    if 0 in flat.shape or count <= 0:
        raise LeftToOthersError
    rest = alu(Ops.SUB, flat, _averaged(flat).unsqueeze(-1))
    total = _summed(alu(Ops.MUL, rest, rest), _plus)
    return alu(Ops.FDIV, total, total.const_like(count)).reshape(shape)


def _std(x: Array, *, axis: Any, correction: float, keepdims: bool) -> Array:
    return _var(x, axis=axis, correction=correction, keepdims=keepdims).sqrt()


def _extreme(greatest: bool) -> Function:
    def find(x: Array, *, axis: Any, keepdims: bool) -> Array:
        flat, shape = _reduced(x, axis, keepdims)
        if 0 in flat.shape:
            return constant(shape, 0, x)  # the caller has seen that no axis of the reduced is empty
        found = (flat.max(-1) if greatest else flat.min(-1)).cast(x.dtype)
        if is_float(x):  # tinygrad loses NaN
            # From memory, for tinygrad finds bounds for what is chosen from a constant, and no NaN.
            odd = isnan(flat).max(-1)
            found = choose(odd, constant(odd.shape, math.nan, x), found)
        return found.reshape(shape)

    return find


def _truth(x: Array) -> Array:
    return x if x.dtype == tiny.bool else x.ne(x.const_like(0))


def _any(x: Array, *, axis: Any, keepdims: bool) -> Array:
    flat, shape = _reduced(_truth(x), axis, keepdims)
    return flat.max(-1).reshape(shape) if 0 not in flat.shape else constant(shape, False, flat)


def _all(x: Array, *, axis: Any, keepdims: bool) -> Array:
    flat, shape = _reduced(_truth(x), axis, keepdims)
    if 0 in flat.shape:
        return constant(shape, True, flat)
    return flat.logical_not().max(-1).logical_not().reshape(shape)


def _count_nonzero(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return _accumulating(0, _plus)(_truth(x), axis=axis, dtype=tiny.int64, keepdims=keepdims)


def _position(greatest: bool) -> Function:
    def find(x: Array, *, axis: int | None, keepdims: bool) -> Array:
        flat, shape = _reduced(x, axis, keepdims)
        if 0 in flat.shape:
            return constant(shape, 0, x, tiny.int64)
        ends = (flat.max(-1) if greatest else flat.min(-1)).cast(x.dtype).unsqueeze(-1)
        chosen = equal(flat, ends)
        if is_float(x):
            odd = isnan(flat)
            chosen = choose(odd.max(-1).unsqueeze(-1), odd, chosen)
        count = flat.shape[-1]
        # The first one has most after it.
        left = upload(np.arange(count, 0, -1), x.device).reshape((1,) * (flat.ndim - 1) + (count,))
        most = choose(chosen, left, left.const_like(0)).max(-1).cast(tiny.int64)
        return (most.const_like(count) - most).reshape(shape)

    return find


# ---------------------------------------------------------------------------- linear algebra


def _matmul(x1: Array, x2: Array) -> Array:
    left = x1.reshape(1, -1) if x1.ndim == 1 else x1
    right = x2.reshape(-1, 1) if x2.ndim == 1 else x2
    stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    shape = (
        *stack,
        *((left.shape[-2],) if x1.ndim > 1 else ()),
        *((right.shape[-1],) if x2.ndim > 1 else ()),
    )
    if 0 in left.shape or 0 in right.shape:
        return constant(shape, 0, x1)
    # The sums of runs take half of the larger operand's memory.
    larger = max(math.prod(left.shape), math.prod(right.shape))
    run = max(_PRODUCTS, 2 * math.prod(shape) * left.shape[-1] // larger)
    a, b = left.unsqueeze(-2), right.transpose(-1, -2).unsqueeze(-3)
    return _plus_products(a, b, run).reshape(shape)


def _vecdot(x1: Array, x2: Array, *, axis: int) -> Array:
    # The axis counts from the end, for operands may have fewer dimensions.
    return _plus_products(*(moveaxis(x, axis % x.ndim, x.ndim - 1) for x in (x1, x2)))


def _plus_products(a: Array, b: Array, run: int = _RUN) -> Array:
    """Add up products along the last axis of two arrays that broadcast."""
    products = distinct(a) * distinct(b)  # which takes fewer nodes than `alu`
    if 0 in products.shape:
        return constant(products.shape[:-1], 0, products)
    return _summed(products, _plus, run).cast(a.dtype)


def _tensordot(x1: Array, x2: Array, *, axes: Any) -> Array:
    first, second = (tuple(part) for part in axes)
    keep1 = [i for i in range(x1.ndim) if i not in first]
    keep2 = [i for i in range(x2.ndim) if i not in second]
    count = math.prod(x1.shape[i] for i in first)
    shape = (*(x1.shape[i] for i in keep1), *(x2.shape[i] for i in keep2))
    if 0 in shape or not count:
        return constant(shape, 0, x1)
    left = x1.permute((*keep1, *first)).reshape(-1, count)
    right = x2.permute((*second, *keep2)).reshape(count, -1)
    return _matmul(left, right).reshape(shape)


def _outer(x1: Array, x2: Array) -> Array:
    return alu(Ops.MUL, x1.reshape(-1, 1), x2.reshape(1, -1))


REDUCTIONS: Final[dict[str, Function]] = {
    "all": _all,
    "any": _any,
    "argmax": _position(greatest=True),
    "argmin": _position(greatest=False),
    "count_nonzero": _count_nonzero,
    "max": _extreme(greatest=True),
    "mean": _mean,
    "min": _extreme(greatest=False),
    "prod": _accumulating(1, _times),
    "std": _std,
    "sum": _accumulating(0, _plus),
    "var": _var,
    "matmul": _matmul,
    "tensordot": _tensordot,
    "vecdot": _vecdot,
    "linalg.outer": _outer,
}
