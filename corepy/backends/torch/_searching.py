"""Sets and searching."""

from __future__ import annotations

import torch
from torch import Tensor


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
    if x1.is_floating_point() and bool(torch.isnan(x1).any()):
        # torch looks to the right of NaN, which comes last: no number lies there.
        haystack = x1 if sorter is None else x1[sorter.to(torch.int64)]
        numbers = int((~torch.isnan(haystack)).sum())
        found = torch.searchsorted(haystack[:numbers].contiguous(), x2.contiguous(), side=side)
        last = numbers if side == "left" else haystack.numel()
        return torch.where(torch.isnan(x2), last, found)
    order = None if sorter is None else sorter.to(torch.int64)
    return torch.searchsorted(x1.contiguous(), x2.contiguous(), side=side, sorter=order)
