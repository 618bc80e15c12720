"""Libraries whose arrays live on devices, with dtypes and queues beyond what backends have."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from corepy import _dtypes
from corepy._dtypes import DType, Scalar
from corepy.backends._base import Backend, Capabilities, Native
from corepy.devices._device import Device


class DeviceLibrary(Backend):
    """A library of arrays without operations of the standard, of which there is no namespace.

    It is not in the registry: `corepy.kernels` alone takes these arrays.
    """

    def is_available(self) -> bool:
        return bool(self.devices())

    def capabilities(self, device: Device) -> Capabilities:
        return Capabilities(dtypes=frozenset())

    def operation(self, name: str) -> Callable[..., Any] | None:
        return None

    def dtype_of(self, native: Native) -> DType:
        found: DType | None = _dtypes.DTYPES.get(native.dtype.name)
        if found is None:
            raise TypeError(f"the standard has no dtype {native.dtype}")
        return found

    def native_dtype(self, dtype: DType) -> Any:
        return np.dtype(dtype.name)

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> Native:
        return self.from_numpy(np.asarray(value, dtype.name), device)

    def item(self, native: Native) -> Scalar:
        found: Scalar = self.to_numpy(native).item()
        return found

    def apart(self) -> ValueError:
        """Values without a copy were asked for that are to come to the host, or from it."""
        return ValueError(f"the memory of {self.name}'s devices is not the host's")

    @abstractmethod
    def like(self, array: np.ndarray[Any, Any], native: Native) -> Native:
        """Make an array of host memory where another one lives, on its queue."""


def device_library(obj: object) -> DeviceLibrary | None:
    """Return the adapter whose array an object is, None if it is none's."""
    for name in _candidates(type(obj)):  # type: ignore[arg-type]  # mypy 2.4
        adapter = _load(name)
        if adapter.owns(obj):
            return adapter
    return None


@lru_cache(maxsize=256)
def _candidates(cls: type) -> tuple[str, ...]:
    roots = {base.__module__.partition(".")[0] for base in cls.__mro__}
    return tuple(name for name in ("pyopencl", "cupy") if name in roots)


@cache
def _load(name: str) -> DeviceLibrary:
    """Import an adapter, and with it the library that an array of it has imported before."""
    if name == "pyopencl":
        from corepy.kernels._device._opencl import PyOpenCL

        return PyOpenCL()
    from corepy.kernels._device._cupy import CuPyArrays

    return CuPyArrays()
