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
    if unreduced(x, axis):
        return _accumulated(x, dtype).to(dtype, copy=True)
    axes = _axes(x, axis)
    if _is_long(x) and not (x.dtype is torch.int64 or dtype.is_floating_point or dtype.is_complex):
        return _widened_sum(x, axes, keepdims).to(dtype)
    terms = _accumulated(x, dtype)
    if _goes_astray(terms, axes):
        for place in sorted(axes, reverse=True):
            terms = torch.sum(terms, place, keepdims)
        return terms.to(dtype)
    return torch.sum(terms, axes, keepdims).to(dtype)


#: Elements that are taken at once, in memory that the next ones reuse: of deviations from the mean,
#: or as wide as their sum.
_AT_ONCE: Final = 1 << 17


def _is_long(x: Tensor) -> bool:
    """Say whether an array is taken in parts: new memory for all of it would take much longer."""
    return x.device.type == "cpu" and x.numel() > 2 * _AT_ONCE and is_plain(x)


def _parts(x: Tensor) -> tuple[int, tuple[Tensor, ...]]:
    """Return an axis, and an array in parts along it."""
    place = max(range(x.ndim), key=x.shape.__getitem__)
    return place, x.split(max(1, _AT_ONCE * x.shape[place] // x.numel()), place)


def _joined(totals: list[Tensor], place: int, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return the sums over some axes of an array from those of its parts, which keep these axes."""
    total = torch.cat(totals, place)
    if place in axes:
        total = torch.sum(total, place, True)
    return total if keepdims else total.squeeze(axes)


def _widened_sum(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Add up integers of fewer bits than int64, of which torch would copy all into that first."""
    place, parts = _parts(x)
    memory, totals = torch.empty_like(parts[0], dtype=torch.int64), []
    for part in parts:
        terms = memory.narrow(place, 0, part.shape[place]).copy_(part)
        totals.append(torch.sum(terms, axes, True))
    return _joined(totals, place, axes, keepdims)


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


def var(x: Tensor, *, axis: Any, correction: float, keepdims: bool) -> Tensor:
    # torch.var loses more digits, takes longer but for all of an array, and warns where no degree
    # of freedom is left.
    axes = _axes(x, axis)
    freedom = math.prod(x.shape[place] for place in axes) - correction
    middle = mean(x, axis=axis, keepdims=True)
    if _is_long(x):
        total = _squares(x, middle, axes, keepdims)
    else:
        deviations = x - middle
        total = sum_(deviations * deviations, axis=axis, dtype=x.dtype, keepdims=keepdims)
    return total / freedom if freedom > 0 else torch.full_like(total, torch.nan)


def _squares(x: Tensor, middle: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Add up squares of deviations, of some elements at a time.

    New memory for those of all would take the system several times as long as they take.
    """
    place, parts = _parts(x)
    middles = (middle,) if place in axes else middle.split(parts[0].shape[place], place)
    memory, totals = torch.empty_like(parts[0]), []
    for i, part in enumerate(parts):
        deviations = memory.narrow(place, 0, part.shape[place])
        torch.sub(part, middles[i % len(middles)], out=deviations)
        deviations *= deviations
        totals.append(sum_(deviations, axis=axes, dtype=x.dtype, keepdims=True))
    return _joined(totals, place, axes, keepdims)


def std(x: Tensor, *, axis: Any, correction: float, keepdims: bool) -> Tensor:
    return torch.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


#: What torch counts; of unsigned integers bytes alone.
_COUNTED: Final = _SUMMED | {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32}


def count_nonzero(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    # torch.count_nonzero has no keepdims, takes () for all axes, and adds up copies along some.
    if x.dtype in _COUNTED and len(_axes(x, axis)) == x.ndim and _is_long(x):
        count = torch.count_nonzero(x)
        return count.reshape((1,) * x.ndim) if keepdims else count
    return sum_(x != 0, axis=axis, dtype=torch.int64, keepdims=keepdims)
