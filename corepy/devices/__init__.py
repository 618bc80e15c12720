"""Devices: what hardware and memory there is, and moving data between devices."""

from corepy.devices._capabilities import (
    DeviceInfo,
    GpuInfo,
    OperationProperties,
    detect_devices,
)
from corepy.devices._device import Device, as_device
from corepy.devices._libraries import empty_cache, memory_stats, set_memory_limit
from corepy.devices._memory import (
    InferenceMemory,
    MemoryInfo,
    estimate_inference_memory,
    memory_info,
    require_memory,
)
from corepy.devices._pool import MemoryStats, set_memory_pool

__all__ = [
    "Device",
    "DeviceInfo",
    "GpuInfo",
    "InferenceMemory",
    "MemoryInfo",
    "MemoryStats",
    "OperationProperties",
    "as_device",
    "detect_devices",
    "empty_cache",
    "estimate_inference_memory",
    "memory_info",
    "memory_stats",
    "require_memory",
    "set_memory_limit",
    "set_memory_pool",
]
