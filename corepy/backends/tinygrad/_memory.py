"""Memory of OpenCL's and WebGPU's devices: how much there is, what tinygrad has of it, shortages.

tinygrad counts what it takes, and on OpenCL keeps what is free for later. How much a device has,
its driver tells, but not what other programs have taken.
"""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress
from functools import cache
from typing import Any, Final

from tinygrad import Device as Devices
from tinygrad.helpers import GlobalCounters

from corepy._errors import BackendUnavailableError
from corepy.devices._device import CPU
from corepy.devices._memory import MemoryInfo, memory_info
from corepy.devices._pool import MemoryStats


class ShortageError(MemoryError):
    """Memory of a device ran out, or there is more in an array than its kernels take."""


#: In what a shortage says: tinygrad's allocators, OpenCL's commands, and WebGPU's checks.
_TOLD: Final = re.compile(
    r"Allocation of .* failed on (CL|WEBGPU)\b|CL_MEM_OBJECT_ALLOCATION_FAILURE"
    r"|CL_OUT_OF_HOST_MEMORY|maximum storage buffer binding size"
)


def is_shortage(error: BaseException) -> bool:
    """Say whether an error of tinygrad's means that memory of a device ran out."""
    if isinstance(error, ShortageError):
        return True
    return isinstance(error, (MemoryError, RuntimeError)) and bool(_TOLD.search(str(error)))


def statistics(place: str) -> MemoryStats:
    """Tell what tinygrad has of a device's memory, and keeps for later."""
    kept = _kept(place)
    return MemoryStats(
        allocated_bytes=GlobalCounters.mem_used_per_device[place],
        cached_bytes=sum(size * count for size, count in kept),
        cached_blocks=sum(count for _, count in kept),
    )


def release(place: str) -> int:
    """Give back what is kept for later; return its bytes."""
    kept = sum(size * count for size, count in _kept(place))
    if kept:
        Devices[place].allocator.free_cache()
    return kept


def _kept(place: str) -> list[tuple[int, int]]:
    """Return sizes of blocks that wait, and how many there are of each."""
    blocks = getattr(Devices[place].allocator, "cache", {})  # WebGPU's has none
    return [(size, len(waiting)) for (size, _), waiting in blocks.items()]


def information(place: str) -> MemoryInfo | None:
    """Return a device's memory, less what tinygrad has of it; None where the driver tells nothing.

    Of a device that works in the host's memory no more is free than there.
    """
    total, unified = (_of_webgpu if _is_webgpu(place) else _of_opencl)(place)
    if not total:
        return None
    stats = statistics(place)
    free = max(0, total - stats.allocated_bytes - stats.cached_bytes)
    if unified:
        with suppress(BackendUnavailableError):  # the system does not tell what the host has
            host = memory_info(CPU)
            total, free = min(total, host.total_bytes), min(free, host.free_bytes)
    return MemoryInfo(total, free)


def hardware(place: str) -> str:
    """Name a device and the version of its driver."""
    if _is_webgpu(place):
        return _adapter(place)[0]
    opened = Devices[place]
    return f"{opened.device_name}, {opened.driver_version}"


def _is_webgpu(place: str) -> bool:
    return place.startswith("WEBGPU")


# ---------------------------------------------------------------------------- OpenCL


@cache
def _of_opencl(place: str) -> tuple[int, bool]:
    """Return the bytes of a device's memory, and whether it is the host's."""
    from tinygrad.runtime import ops_cl

    def ask(name: int, value: Any) -> int:
        found = ops_cl.cl.clGetDeviceInfo(
            Devices[place].cl_dev, name, ctypes.sizeof(value), ctypes.byref(value), None
        )
        return 0 if found else int(value.value)

    total = ask(ops_cl.cl.CL_DEVICE_GLOBAL_MEM_SIZE, ctypes.c_uint64())
    return total, bool(ask(ops_cl.cl.CL_DEVICE_HOST_UNIFIED_MEMORY, ctypes.c_uint32()))


# ---------------------------------------------------------------------------- WebGPU


def _of_webgpu(place: str) -> tuple[int, bool]:
    return _adapter(place)[1:]


@cache
def _adapter(place: str) -> tuple[str, int, bool]:
    """Return the name of WebGPU's device, the bytes of its memory, and whether it is the host's.

    WebGPU itself tells nothing of memory, but Dawn does: 0 where its driver does not.
    """
    from tinygrad.runtime import ops_webgpu

    webgpu = ops_webgpu.webgpu
    adapter = webgpu.wgpuDeviceGetAdapter(Devices[place].device_res)
    asked = webgpu.WGPUAdapterInfo()
    heaps = webgpu.WGPUAdapterPropertiesMemoryHeaps()
    if webgpu.wgpuAdapterHasFeature(adapter, webgpu.WGPUFeatureName_AdapterPropertiesMemoryHeaps):
        heaps.chain.sType = webgpu.WGPUSType_AdapterPropertiesMemoryHeaps
        asked.nextInChain = ctypes.cast(
            ctypes.pointer(heaps), ctypes.POINTER(webgpu.struct_WGPUChainedStructOut)
        )
    webgpu.wgpuAdapterGetInfo(adapter, ctypes.byref(asked))
    name = ", ".join(
        text
        for text in map(ops_webgpu.from_wgpu_str, (asked.vendor, asked.device, asked.description))
        if text
    )
    own = [
        heaps.heapInfo[i].size
        for i in range(heaps.heapCount)
        if heaps.heapInfo[i].properties & webgpu.WGPUHeapProperty_DeviceLocal
    ]
    unified = asked.adapterType in (
        webgpu.WGPUAdapterType_IntegratedGPU,
        webgpu.WGPUAdapterType_CPU,
    )
    webgpu.wgpuAdapterPropertiesMemoryHeapsFreeMembers(heaps)
    webgpu.wgpuAdapterInfoFreeMembers(asked)
    webgpu.wgpuAdapterRelease(adapter)
    return name, sum(own), unified


@cache
def largest(place: str) -> int:
    """Return how many bytes an array may have that a kernel of WebGPU takes or makes."""
    from tinygrad.runtime.autogen import webgpu

    found = webgpu.WGPUSupportedLimits()
    webgpu.wgpuDeviceGetLimits(Devices[place].device_res, ctypes.byref(found))
    return int(found.limits.maxStorageBufferBindingSize)


#: Bytes from which WebGPU is asked whether it gave them, which takes as long as some allocations.
_ASKED: Final = 1 << 16


def heed_refusals(place: str) -> None:
    """Have WebGPU's allocator raise where the device gives no memory.

    WebGPU always gives a buffer. One without memory swallows what is written, and reads as zeros.
    """
    from tinygrad.runtime.autogen import webgpu

    opened = Devices[place]
    plain = opened.allocator._alloc

    def allocate(size: int, options: Any) -> Any:
        if size < _ASKED:
            return plain(size, options)
        filters = (webgpu.WGPUErrorFilter_OutOfMemory, webgpu.WGPUErrorFilter_Validation)
        for kind in filters:
            webgpu.wgpuDevicePushErrorScope(opened.device_res, kind)
        made = plain(size, options)
        told = [error for _ in filters if (error := opened.pop_error())]
        if told:
            webgpu.wgpuBufferRelease(made)
            raise MemoryError(" ".join(told[0].split()))
        return made

    opened.allocator._alloc = allocate
