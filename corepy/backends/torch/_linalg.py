"""Linear algebra."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import array_api_compat.torch as compat
import torch
from torch import Tensor

from corepy.backends.torch._reductions import sum_, unreduced


def solvable(name: str) -> Callable[..., Any]:
    """Raise the error that a singular matrix has on every backend."""
    function = getattr(compat.linalg, name)

    def compute(*args: Any, **params: Any) -> Any:
        try:
            return function(*args, **params)
        except RuntimeError as error:
            # Of the eigenvalues of NaN torch says so in a plain RuntimeError.
            if isinstance(error, torch.linalg.LinAlgError) or "infs or NaNs" in str(error):
                raise ValueError(str(error).partition("\n")[0]) from error
            raise

    return compute


def trace(x: Tensor, *, offset: int, dtype: torch.dtype) -> Tensor:
    diagonal = torch.linalg.diagonal(x, offset=offset)
    return sum_(diagonal, axis=(diagonal.ndim - 1,), dtype=dtype, keepdims=False)


def vector_norm(x: Tensor, *, axis: Any, keepdims: bool, ord: float) -> Tensor:
    if ord == 0 or unreduced(x, axis):
        # torch casts complex numbers to real ones, with a warning, and takes () for all axes.
        size = torch.abs(x)
        return sum_(size != 0, axis=axis, dtype=size.dtype, keepdims=keepdims) if ord == 0 else size
    if x.numel() == 0 and ord in (math.inf, -math.inf):
        raise ValueError(f"x.shape is {tuple(x.shape)}; expected at least one element")
    return torch.linalg.vector_norm(x, ord, axis, keepdims)
