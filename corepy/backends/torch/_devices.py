"""The devices that torch sees, in corepy's words and in its own."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Final

import torch

from corepy.devices._device import CPU, Device, as_device

#: torch calls an accelerator of AMD "cuda" as well.
_CUDA_KIND: Final = "rocm" if getattr(torch.version, "hip", None) else "cuda"


@cache
def _cuda() -> tuple[int, str | None]:
    """Return how many devices CUDA or ROCm has for torch, and if none, why in torch's words."""
    if not (torch.backends.cuda.is_built() or torch.version.hip):
        return 0, f"version {torch.__version__} is built without CUDA and ROCm"
    # The count alone may be the driver's, also where torch cannot use it: only this asks CUDA.
    # What it finds wrong, such as a driver that is too old, it warns of.
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        usable = torch.cuda.is_available()
    if usable:
        return torch.cuda.device_count(), None
    words = "; ".join(str(warning.message) for warning in found) or "torch finds no device"
    return 0, " ".join(f"{_CUDA_KIND}: {words}".split())


def unserved() -> tuple[str, ...]:
    reason = _cuda()[1]
    return () if reason is None else (reason,)


@cache
def present() -> tuple[Device, ...]:
    found = [CPU]
    found += [as_device(f"{_CUDA_KIND}:{i}") for i in range(_cuda()[0])]
    found += [as_device(f"xpu:{i}") for i in range(torch.xpu.device_count())]
    if torch.backends.mps.is_available():
        found.append(as_device("mps"))
    return tuple(found)


@cache
def has_float64(device: Device) -> bool:
    """Say whether a device computes in float64: Apple's and some of Intel's GPUs do not."""
    if device.kind == "xpu":
        return bool(torch.xpu.get_device_properties(device.index).has_fp64)
    return device.kind != "mps"


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
