"""Sets and searching."""

from __future__ import annotations

import torch
from torch import Tensor

from corepy.backends.torch._layout import is_batched


def isin(x1: Tensor, x2: Tensor, /, *, invert: bool = False) -> Tensor:
    """Look for elements among others, of which torch flattens few without a copy, or fails."""
    return torch.isin(x1, x2.contiguous(), invert=invert)


def unique_all(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Find unique elements by a stable sort.

    torch.unique gives no indices (https://github.com/pytorch/pytorch/issues/36748).
    """
    flat = x.reshape(-1)
    ordered, order = torch.sort(flat, stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]  # NaN differs from NaN
    starts = torch.nonzero(first)[:, 0]
    inverse = torch.empty_like(order)
    inverse[order] = torch.cumsum(first, 0) - 1
    counts = torch.diff(starts, append=starts.new_tensor([flat.numel()]))
    return ordered[starts], order[starts], inverse.reshape(x.shape), counts


def searchsorted(x1: Tensor, x2: Tensor, *, side: str, sorter: Tensor | None) -> Tensor:
    order = None if sorter is None else sorter.to(torch.int64)
    if is_batched(x1) or is_batched(x2):
        return _searched_unseen(x1 if order is None else x1[order], x2, side)
    if x1.is_floating_point() and bool(torch.isnan(x1).any()):
        # torch looks to the right of NaN, which comes last: no number lies there.
        haystack = x1 if order is None else x1[order]
        numbers = int((~torch.isnan(haystack)).sum())
        found = torch.searchsorted(haystack[:numbers].contiguous(), x2.contiguous(), side=side)
        last = numbers if side == "left" else haystack.numel()
        return torch.where(torch.isnan(x2), last, found)
    return torch.searchsorted(x1.contiguous(), x2.contiguous(), side=side, sorter=order)


def _searched_unseen(haystack: Tensor, x2: Tensor, side: str) -> Tensor:
    """Do the same where nobody sees whether there are NaN: as infinities, of which none counts."""
    lost = torch.isnan(haystack)
    numbers = (~lost).sum()
    sorted_ = torch.where(lost, torch.inf, haystack) if haystack.is_floating_point() else haystack
    found = torch.searchsorted(sorted_.contiguous(), x2.contiguous(), side=side)
    last = numbers if side == "left" else haystack.shape[0]
    return torch.where(torch.isnan(x2), last, torch.minimum(found, numbers))
