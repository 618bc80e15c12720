"""Devices: what hardware and memory there is, and moving data between devices."""

from corepy.devices._capabilities import (
    DeviceInfo,
    GpuInfo,
    OperationProperties,
    detect_devices,
)
from corepy.devices._device import Device, as_device
from corepy.devices._memory import (
    InferenceMemory,
    MemoryInfo,
    estimate_inference_memory,
    memory_info,
    require_memory,
)

__all__ = [
    "Device",
    "DeviceInfo",
    "GpuInfo",
    "InferenceMemory",
    "MemoryInfo",
    "OperationProperties",
    "as_device",
    "detect_devices",
    "estimate_inference_memory",
    "memory_info",
    "require_memory",
]
