"""Transforms that the library behind torch's refuses, of no rows, and those it does roughly."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
import torch
from array_api_compat.torch import fft
from torch import Tensor

from corepy.backends.torch._layout import is_plain
from corepy.backends.torch._linalg import HAS_MKL

#: What remains of lengths without 2, 3, 5 and 7 where MKL keeps its digits; 11 and 13 lose some.
_RESTS: Final = (1, 11, 13, 11 * 11, 11 * 13, 13 * 13)


@lru_cache(maxsize=256)
def _is_rough(points: tuple[int, ...]) -> bool:
    """Say whether MKL would lose digits: in factors from 17 on up to 250 ulp, NumPy 4."""
    for rest in points:
        for prime in (2, 3, 5, 7):
            while rest % prime == 0:
                rest //= prime
        if rest not in _RESTS:
            return True
    return False


def _transform(name: str) -> Callable[..., Tensor]:
    exact, lazy = getattr(np.fft, name), getattr(fft, name)

    def function(x: Tensor, **params: Any) -> Tensor:
        # ihfft sets a bit in the place of conjugating, which no other library reads.
        return lazy(x, **params).resolve_conj()

    def run(x: Tensor, **params: Any) -> Tensor:
        if x.numel():
            x = x.resolve_conj().resolve_neg()
            # Sizes that are traced are tensors, which `//=` would change.
            points = tuple(map(int, params["s"] if "s" in params else (params["n"],)))
            if HAS_MKL and _is_rough(points) and x.device.type == "cpu" and is_plain(x):
                with np.errstate(all="ignore"):
                    return torch.from_numpy(exact(x.numpy(), **params))
            return function(x, **params)
        axes = params["axis"] if "axis" in params else params.get("axes")
        along = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
        none = [axis for axis, size in enumerate(x.shape) if not size and axis not in along]
        if not none:
            return function(x, **params)
        # MKL fails ("Inconsistent configuration parameters"). One row of zeros has the right dtype
        # and sizes, and is left out.
        shape = [1 if axis in none else size for axis, size in enumerate(x.shape)]
        made = function(x.new_zeros(shape), **params)
        for axis in none:
            made = made.narrow(axis, 0, 0)
        return made

    return run


OPERATIONS: Final = {
    f"fft.{name}": _transform(name)
    for name in (
        *("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"),
        *("fftn", "ifftn", "rfftn", "irfftn"),
    )
}
