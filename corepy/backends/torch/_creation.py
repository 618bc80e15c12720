"""Creation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat.torch as compat
import torch
from torch import Tensor

from corepy.backends.torch._devices import device_of, has_float64, place_of
from corepy.backends.torch._memory import lacks
from corepy.devices._device import Device


def on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the device into torch's own."""

    def create(*args: Any, device: Device, **params: Any) -> Tensor:
        try:
            return function(*args, device=place_of(device), **params)
        except RuntimeError as error:
            if lacks(error):
                raise MemoryError(str(error).partition("\n")[0]) from error
            raise

    return create


def arange(first: float, last: float, pace: float, *, dtype: Any, device: Any) -> Tensor:
    if not dtype.is_floating_point and not all(isinstance(x, int) for x in (first, last, pace)):
        # torch truncates the arguments, a step of 0.5 to 0; here the values are.
        # They are computed in float64, which not every device has.
        place = device if has_float64(device_of(device)) else "cpu"
        made = compat.arange(first, last, pace, dtype=torch.float64, device=place).to(dtype)
        return made.to(device)
    whole = isinstance(first, int) and isinstance(last, int) and isinstance(pace, int)
    if whole and max(abs(first), abs(last), abs(pace)) > 2**53:
        return _far(int(first), int(last), int(pace), dtype, device)
    return compat.arange(first, last, pace, dtype=dtype, device=device)


def meshgrid(*arrays: Tensor, indexing: str) -> tuple[Tensor, ...]:
    """Return the grids in memory of their own, as elsewhere: those of torch see later writes."""
    grids = torch.meshgrid(*arrays, indexing=indexing)
    return tuple(grid.clone(memory_format=torch.contiguous_format) for grid in grids)


def _far(first: int, last: int, pace: int, dtype: torch.dtype, device: Any) -> Tensor:
    """Make a range of integers which torch refuses, or counts in floats that do not hold them."""
    count = len(range(first, last, pace))
    if dtype.is_floating_point:
        place = device if has_float64(device_of(device)) else "cpu"
        steps = torch.arange(count, dtype=torch.float64, device=place)
        return (steps * float(pace) + float(first)).to(dtype).to(device)
    # Of 64 bits, which wrap around as often as it takes; narrower ones hold the values.
    wide = torch.arange(count, device=device) * _wrapped(pace) + _wrapped(first)
    return wide.view(torch.uint64) if dtype is torch.uint64 else wide.to(dtype)


def _wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63
