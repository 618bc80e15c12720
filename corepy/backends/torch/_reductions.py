"""Statistical functions and other reductions."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import array_api_compat.torch as compat
import torch
from torch import Tensor

from corepy.backends.torch._layout import is_plain


def _axes(x: Tensor, axis: tuple[int, ...] | None) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else axis


def unreduced(x: Tensor, axis: tuple[int, ...] | None) -> bool:
    """Say whether there is no axis to reduce: torch takes () for all of them.

    https://github.com/pytorch/pytorch/issues/29137
    """
    return axis == () and x.ndim > 0


def truth(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
        if unreduced(x, axis):
            return x.to(torch.bool, copy=True)
        # any and all of uint8 are uint8 in torch.
        return function(x.to(torch.bool), _axes(x, axis), keepdims)

    return reduce


def _accumulated(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the operand of a sum or product in the dtype to compute in.

    That is int64 for every integer result: torch has no sums of unsigned integers, and those of
    int64 have the same bits.
    """
    is_integer = not (dtype.is_floating_point or dtype.is_complex)
    return x.to(torch.int64 if is_integer else dtype)


#: Of which torch has sums of the same dtype.
_SUMMED: Final = frozenset(
    {torch.int64, torch.float32, torch.float64, torch.complex64, torch.complex128}
)


def sum_(x: Tensor, *, axis: Any, dtype: torch.dtype, keepdims: bool) -> Tensor:
    if x.dtype is dtype and dtype in _SUMMED and (axis is None or len(axis) == 1):
        if axis is None and not keepdims and x.is_contiguous():
            return torch.sum(x)
        if axis is not None:
            return torch.sum(x, axis, keepdims)
    terms = _accumulated(x, dtype)
    if unreduced(x, axis):
        return terms.to(dtype, copy=True)
    axes = _axes(x, axis)
    if _goes_astray(terms, axes):
        for place in sorted(axes, reverse=True):
            terms = torch.sum(terms, place, keepdims)
        return terms.to(dtype)
    return torch.sum(terms, axes, keepdims).to(dtype)


def _goes_astray(x: Tensor, axes: tuple[int, ...]) -> bool:
    """Say whether torch adds one element after the other over several axes, and loses digits.

    It adds in pairs along each axis alone, and along those that lie in memory as one.
    """
    if not (x.is_floating_point() or x.is_complex()) or x.device.type != "cpu":
        return False
    order = sorted((x.stride(place), x.shape[place]) for place in axes if x.shape[place] != 1)
    return any(stride * size != following for (stride, size), (following, _) in pairwise(order))


def mean(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    axes = _axes(x, axis)
    if len(axes) < 2 or not _goes_astray(x, axes):
        return compat.mean(x, axis=axis, keepdims=keepdims)
    total = sum_(x, axis=axis, dtype=x.dtype, keepdims=keepdims)
    return total / math.prod(x.shape[place] for place in axes)


def prod(x: Tensor, *, axis: Any, dtype: torch.dtype, keepdims: bool) -> Tensor:
    # torch multiplies along one axis (https://github.com/pytorch/pytorch/issues/56586).
    product = _accumulated(x, dtype)
    for place in sorted(_axes(x, axis), reverse=True):
        product = torch.prod(product, place, keepdims)
    return product.to(dtype, copy=product is x)


def cumulate(function: Callable[..., Tensor], initial: int) -> Callable[..., Tensor]:
    def cumulate(x: Tensor, *, axis: int, dtype: torch.dtype, include_initial: bool) -> Tensor:
        terms = _accumulated(x, dtype)
        found = function(terms, axis)
        if include_initial:
            shape = list(x.shape)
            shape[axis] = 1
            found = torch.concat([found.new_full(shape, initial), found], axis)
        return found.to(dtype)

    return cumulate


#: Elements whose deviations from the mean are taken at once, in memory that the next ones reuse.
_AT_ONCE: Final = 1 << 17


def var(x: Tensor, *, axis: Any, correction: float, keepdims: bool) -> Tensor:
    # torch.var loses more digits, takes longer but for all of an array, and warns where no degree
    # of freedom is left.
    axes = _axes(x, axis)
    freedom = math.prod(x.shape[place] for place in axes) - correction
    middle = mean(x, axis=axis, keepdims=True)
    if x.device.type == "cpu" and x.numel() > 2 * _AT_ONCE and is_plain(x):
        total = _squares(x, middle, axes, keepdims)
    else:
        deviations = x - middle
        total = sum_(deviations * deviations, axis=axis, dtype=x.dtype, keepdims=keepdims)
    return total / freedom if freedom > 0 else torch.full_like(total, torch.nan)


def _squares(x: Tensor, middle: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Add up squares of deviations, of some elements at a time.

    New memory for those of all would take the system several times as long as they take.
    """
    place = max(range(x.ndim), key=x.shape.__getitem__)
    parts = x.split(max(1, _AT_ONCE * x.shape[place] // x.numel()), place)
    middles = (middle,) if place in axes else middle.split(parts[0].shape[place], place)
    memory, totals = torch.empty_like(parts[0]), []
    for i, part in enumerate(parts):
        deviations = memory.narrow(place, 0, part.shape[place])
        torch.sub(part, middles[i % len(middles)], out=deviations)
        deviations *= deviations
        totals.append(sum_(deviations, axis=axes, dtype=x.dtype, keepdims=True))
    total = torch.cat(totals, place)
    if place in axes:
        total = torch.sum(total, place, True)
    return total if keepdims else total.squeeze(axes)


def std(x: Tensor, *, axis: Any, correction: float, keepdims: bool) -> Tensor:
    return torch.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def count_nonzero(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    # torch.count_nonzero has no keepdims, and takes () for all axes.
    return sum_(x != 0, axis=axis, dtype=torch.int64, keepdims=keepdims)
