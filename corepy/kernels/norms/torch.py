"""Norms by torch's own functions, which round as ours do: once, after the parameters."""

from __future__ import annotations

from typing import Any

from corepy.kernels._arguments import Given


def serves(x: Given, *parameters: Given | None) -> bool:
    """Say whether torch's functions take the parameters: of the dtype of `x` alone."""
    return all(p is None or p.dtype == x.dtype for p in parameters)


def rms_norm(x: Any, weight: Any, *, eps: float) -> Any:
    """Norm the rows of a tensor."""
    import torch

    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def layer_norm(x: Any, weight: Any, bias: Any, *, eps: float) -> Any:
    """Centre and norm the rows of a tensor."""
    import torch

    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)
