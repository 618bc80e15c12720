"""CuPy's devices, and its own objects for them."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import cupy

from corepy.devices._device import Device

#: Of all its devices.
KIND: Final = "rocm" if cupy.cuda.runtime.is_hip else "cuda"


@cache
def place(device: Device) -> Any:
    """Return CuPy's own object for a device."""
    return cupy.cuda.Device(device.index)
