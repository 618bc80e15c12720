"""The devices that torch sees, in corepy's words and in its own."""

from __future__ import annotations

from functools import cache
from typing import Final

import torch

from corepy.devices._device import CPU, Device, as_device

#: torch calls an accelerator of AMD "cuda" as well.
_CUDA_KIND: Final = "rocm" if getattr(torch.version, "hip", None) else "cuda"


@cache
def present() -> tuple[Device, ...]:
    found = [CPU]
    found += [as_device(f"{_CUDA_KIND}:{i}") for i in range(torch.cuda.device_count())]
    found += [as_device(f"xpu:{i}") for i in range(torch.xpu.device_count())]
    if torch.backends.mps.is_available():
        found.append(as_device("mps"))
    return tuple(found)


@cache
def place_of(device: Device) -> torch.device:
    """Return torch's own object for a device."""
    return torch.device("cuda" if device.kind == "rocm" else device.kind, device.index)


@cache
def device_of(place: torch.device) -> Device:
    """Return the device of one of torch's own objects."""
    kind = _CUDA_KIND if place.type == "cuda" else place.type
    if kind in ("cpu", "mps") or place.index is None:
        return as_device(kind)
    return as_device(f"{kind}:{place.index}")
