"""torch's pools of memory on CUDA, and on ROCm, where it has never run."""

from __future__ import annotations

import torch

from corepy.backends._base import Allocator
from corepy.backends.torch._devices import place_of, present
from corepy.devices._device import Device
from corepy.devices._pool import MemoryStats

#: Kinds of device whose allocator is that of `torch.cuda`.
CUDA_KINDS = ("cuda", "rocm")


def empty_cache(device: Device) -> int:
    """Give back what waits; for CUDA that of every device, as torch has it."""
    if device.kind in CUDA_KINDS:
        before = torch.cuda.memory_reserved(place_of(device))
        torch.cuda.empty_cache()
        return int(before - torch.cuda.memory_reserved(place_of(device)))
    if device.kind == "mps":
        reserved = torch.mps.driver_allocated_memory()
        torch.mps.empty_cache()
        return int(max(0, reserved - torch.mps.driver_allocated_memory()))
    return 0


def stats(device: Device) -> MemoryStats | None:
    if device.kind not in CUDA_KINDS:
        return None
    place = place_of(device)
    used = torch.cuda.memory_allocated(place)
    share = torch.cuda.get_per_process_memory_fraction(place)
    total = torch.cuda.get_device_properties(place).total_memory
    return MemoryStats(
        allocated_bytes=used,
        peak_allocated_bytes=torch.cuda.max_memory_allocated(place),
        cached_bytes=torch.cuda.memory_reserved(place) - used,
        limit_bytes=int(share * total) if share < 1 else 0,
    )


def limit(device: Device, bytes_: int | None) -> str | None:
    if device.kind not in CUDA_KINDS:
        return f"torch limits its memory on CUDA and ROCm alone, not on {device}"
    place = place_of(device)
    total = torch.cuda.get_device_properties(place).total_memory
    share = 1.0 if bytes_ is None else min(1.0, bytes_ / total)
    torch.cuda.set_per_process_memory_fraction(share, place)
    return None


def allocator() -> Allocator | None:
    """Return torch's caching allocator for others, None where it has no device of CUDA."""
    if not any(device.kind in CUDA_KINDS for device in present()):
        return None
    return Allocator(
        "torch",
        torch.cuda.caching_allocator_alloc,
        torch.cuda.caching_allocator_delete,
    )
