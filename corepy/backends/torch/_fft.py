"""Transforms of no rows, which the library behind torch's refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from array_api_compat.torch import fft
from torch import Tensor


def _transform(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(x: Tensor, **params: Any) -> Tensor:
        if x.numel():
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
    f"fft.{name}": _transform(getattr(fft, name))
    for name in (
        *("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"),
        *("fftn", "ifftn", "rfftn", "irfftn"),
    )
}
