"""CuPy's devices, and its own objects for them."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import cupy
import numpy as np

from corepy.devices._device import Device

#: Of all its devices.
KIND: Final = "rocm" if cupy.cuda.runtime.is_hip else "cuda"


@cache
def place(device: Device) -> Any:
    """Return CuPy's own object for a device."""
    return cupy.cuda.Device(device.index)


def from_host(array: np.ndarray[Any, Any], device: Device) -> Any:
    """Return the values of an array of NumPy's on a device, where CuPy alone may change some."""
    dtype = array.dtype.newbyteorder("=")
    with place(device):
        if not array.ndim:
            # CuPy fills an array with such a value (core.pyx), where zeros lose their sign.
            return cupy.full((), array[()], dtype)
        # Pinned memory is copied later otherwise, when its values may be others.
        return cupy.asarray(array.astype(dtype, copy=False), blocking=True)


def to_host(native: Any) -> np.ndarray[Any, Any]:
    """Return the values of an array, which what was asked of its device before has made.

    CuPy copies them in the stream of the device that is current (``get`` in core.pyx), where
    nothing waits for the work of another.
    """
    with native.device:
        values: np.ndarray[Any, Any] = cupy.asnumpy(native)
    return values
