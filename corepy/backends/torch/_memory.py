"""torch's pools of memory on CUDA; on ROCm, Apple's and Intel's GPUs, where it has never run."""

from __future__ import annotations

import os
from typing import Any, Final

import torch

from corepy.backends._base import Allocator
from corepy.backends.torch._devices import place_of, present
from corepy.devices._device import Device
from corepy.devices._pool import MemoryStats
from corepy.devices._probe import MemoryInfo

#: Kinds of device whose allocator is that of `torch.cuda`.
CUDA_KINDS = ("cuda", "rocm")

#: What plain errors say: the host's and MPS's (c10/core/impl/alloc_cpu.cpp, MPSAllocator.mm), the
#: driver's where its own memory lacks (c10/cuda/CUDAException.cpp), and that of cuBLAS, cuSOLVER,
#: cuFFT and their like, such as CUBLAS_STATUS_ALLOC_FAILED. Last, what it says of results whose
#: bytes or elements no integer of 64 bits counts (c10/core/TensorImpl.h, ATen/EmptyTensor.cpp).
_SHORTAGES: Final = (
    *("DefaultCPUAllocator", "MPS backend out of memory", "Invalid buffer size"),
    *("CUDA error: out of memory", "HIP error: out of memory", "_ALLOC_FAILED"),
    *("Storage size calculation overflowed", "numel: integer multiplication overflow"),
)


def lacks(error: BaseException) -> bool:
    """Say whether torch raised an error for want of memory."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _SHORTAGES)


def _library(device: Device) -> Any:
    """Return torch's module for a device whose memory it counts, None where it does not."""
    if device.kind in CUDA_KINDS:
        return torch.cuda
    return torch.xpu if device.kind == "xpu" else None


def empty_cache(device: Device) -> int:
    """Give back what waits; for CUDA and Intel's GPUs that of every device, as torch has it."""
    library = _library(device)
    if library is not None:
        before = library.memory_reserved(place_of(device))
        library.empty_cache()
        return int(before - library.memory_reserved(place_of(device)))
    if device.kind == "mps":
        reserved = torch.mps.driver_allocated_memory()
        torch.mps.empty_cache()
        return int(max(0, reserved - torch.mps.driver_allocated_memory()))
    return 0


def stats(device: Device) -> MemoryStats | None:
    if device.kind == "mps":
        used = torch.mps.current_allocated_memory()
        waiting = max(0, torch.mps.driver_allocated_memory() - used)
        return MemoryStats(used, cached_bytes=waiting, limit_bytes=_limit_on_metal)
    library, place = _library(device), place_of(device)
    if library is None:
        return None
    used = library.memory_allocated(place)
    share = library.get_per_process_memory_fraction(place)
    total = library.get_device_properties(place).total_memory
    return MemoryStats(
        allocated_bytes=used,
        peak_allocated_bytes=library.max_memory_allocated(place),
        cached_bytes=library.memory_reserved(place) - used,
        limit_bytes=round(share * total) if share < 1 else 0,
    )


def limit(device: Device, bytes_: int | None) -> str | None:
    if device.kind == "mps":
        _limit_metal(bytes_)
        return None
    library, place = _library(device), place_of(device)
    if library is None:
        return f"torch has no limit on {device}"
    total = library.get_device_properties(place).total_memory
    share = 1.0 if bytes_ is None else min(1.0, bytes_ / total)
    library.set_per_process_memory_fraction(share, place)
    return None


#: The bytes to which Metal's memory is limited, which torch does not tell; 0 where it is not.
_limit_on_metal = 0


def _limit_metal(bytes_: int | None) -> None:
    """Limit torch to a part of what Metal recommends: to twice that at most, by itself to 1.7."""
    global _limit_on_metal
    if bytes_ is None:
        share, told = float(os.environ.get("PYTORCH_MPS_HIGH_WATERMARK_RATIO") or 1.7), 0
    else:
        total = torch.mps.recommended_max_memory()
        share = min(2.0, bytes_ / total)
        told = round(share * total)
    torch.mps.set_per_process_memory_fraction(share)
    _limit_on_metal = told


def information(device: Device) -> MemoryInfo | None:
    """Tell how much memory a device has and how much is free, None where torch does not say."""
    library = _library(device)
    if library is None:
        return None
    free, total = library.mem_get_info(place_of(device))
    return MemoryInfo(total, free)


def hardware(device: Device) -> str | None:
    """Name a GPU of Intel and its driver; corepy asks those of other vendors itself."""
    if device.kind != "xpu":
        return None
    found = torch.xpu.get_device_properties(place_of(device))
    return f"{found.name}, {found.driver_version}"


def allocator() -> Allocator | None:
    """Return torch's caching allocator for others, None where it has no device of CUDA."""
    if not any(device.kind in CUDA_KINDS for device in present()):
        return None
    return Allocator(
        "torch",
        torch.cuda.caching_allocator_alloc,
        torch.cuda.caching_allocator_delete,
    )
