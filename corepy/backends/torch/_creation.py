"""Creation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat.torch as compat
import torch
from torch import Tensor

from corepy.backends.torch._devices import device_of, has_float64, place_of
from corepy.devices._device import Device


def on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the device into torch's own."""

    def create(*args: Any, device: Device, **params: Any) -> Tensor:
        try:
            return function(*args, device=place_of(device), **params)
        except RuntimeError as error:
            # "Invalid buffer size", says Metal.
            lacking = any(words in str(error) for words in ("allocate", "Invalid buffer size"))
            if lacking or isinstance(error, torch.OutOfMemoryError):
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
    return compat.arange(first, last, pace, dtype=dtype, device=device)
