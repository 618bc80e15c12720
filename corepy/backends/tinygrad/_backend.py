"""The adapter of tinygrad: which devices it serves, and how its arrays come and go."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
from tinygrad import Device as Devices
from tinygrad import Tensor

from corepy._dtypes import DTYPES, DType, Scalar
from corepy._errors import BackendError, UnsupportedOperationError, foreign_dtype
from corepy._signals import let_through
from corepy.backends._base import Backend, Capabilities
from corepy.backends._exports import HostExporter
from corepy.backends.tinygrad import _arrays, _functions, _libraries, _memory
from corepy.backends.tinygrad._arrays import Array, Held, HostArray
from corepy.backends.tinygrad._graphs import KINDS, place_of
from corepy.backends.tinygrad._renderers import RENDERERS, number_arguments
from corepy.devices._device import Device, as_device
from corepy.devices._pool import MemoryStats
from corepy.devices._probe import MemoryInfo


class TinygradBackend(Backend):
    """tinygrad on every ``opencl`` and ``webgpu`` device that it finds.

    Raises
    ------
    BackendError
        If there is none; the message says why, and what to install.
    """

    name = "tinygrad"
    partly = _functions.PARTLY

    def __init__(self) -> None:
        _arrays.share_cache()
        self._missing: list[str] = []
        self._devices = self._found("opencl") + self._found("webgpu")
        if not self._devices:
            raise BackendError("no device: " + "; ".join(self._missing))

    def _found(self, kind: str) -> tuple[Device, ...]:
        place = KINDS[kind]
        try:
            {"opencl": _libraries.name_opencl, "webgpu": _libraries.name_webgpu}[kind]()
            count = int(Devices[place].count())
            names = [place + (f":{number}" if number else "") for number in range(count)]
            for name in names:
                Devices[name].renderers = [RENDERERS[place]]
                if kind == "webgpu":
                    _memory.heed_refusals(name)
                else:
                    number_arguments(name)
            _arrays.try_kernel(place)
        except Exception as error:  # of a library, a driver, or tinygrad: kept for `corepy info`
            let_through(error)
            reason = str(error) or type(error).__name__
            self._missing.append(f"{kind}: {reason}: {_libraries.HINTS[kind]}")
            return ()
        return tuple(as_device(f"{kind}:{number}") for number in range(count))

    def is_available(self) -> bool:
        return True

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def unserved(self) -> tuple[str, ...]:
        return tuple(self._missing)

    def capabilities(self, device: Device) -> Capabilities:
        return _capabilities(device)

    def operation(self, name: str) -> Callable[..., Any] | None:
        return _functions.OPERATIONS.get(name)

    def supports(self, name: str, dtype: DType, device: Device) -> bool:
        if dtype in self.capabilities(device).held:
            return False
        if device.kind == "webgpu" and name in _LEFT_ON_WEBGPU:
            return False
        return super().supports(name, dtype, device)

    def rounded(self, native: Array, dtype: str) -> Array:
        return _functions.ROUNDED[dtype](native)

    # ------------------------------------------------------------------ its native arrays

    def owns(self, obj: object) -> bool:
        return isinstance(obj, (Held, Tensor))

    def dtype_of(self, native: Array) -> DType:
        if isinstance(native, Held):
            return native.dtype
        dtype = _arrays.BY_NATIVE.get(native.dtype)
        if dtype is None:
            raise foreign_dtype(self.name, native.dtype)
        return dtype

    def native_dtype(self, dtype: DType) -> Any:
        return _arrays.NATIVE.get(dtype, dtype)

    def device_of(self, native: Array) -> Device:
        place = (native.words if isinstance(native, Held) else native).device
        name, _, number = str(place).partition(":")
        for kind, its_name in KINDS.items():
            if its_name == name:
                return as_device(f"{kind}:{number or 0}")
        raise BackendError(
            f"a tinygrad.Tensor is on its device {place}; expected one on CL or WEBGPU"
        )

    def unwrapped(self, native: Array) -> Array:
        if isinstance(native, Held):
            raise UnsupportedOperationError(
                f"unwrap: x has dtype {native.dtype}, which is only stored on "
                f"{self.device_of(native)}; expected one that tinygrad computes with there: "
                f"np.asarray(x) copies the values"
            )
        return native

    def shape_of(self, native: Array) -> tuple[int | None, ...]:
        return tuple(native.shape)

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> Array:
        return self.from_numpy(np.array(value, dtype.name), device)

    def item(self, native: Array) -> Scalar:
        value: Scalar = _arrays.look_at(native).item()
        return value

    def to_numpy(self, native: Array, *, copy: bool | None = None) -> HostArray:
        if copy is False:
            raise ValueError(f"{self.device_of(native)} has no memory of the host's")
        return _arrays.look_at(native)

    def from_numpy(self, array: HostArray, device: Device, *, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"{device} has no memory of the host's")
        if DTYPES[array.dtype.name] in self.capabilities(device).held:
            return _arrays.hold(array, place_of(device))
        return _arrays.upload(array, place_of(device))

    def adopt(self, native: Array) -> Array:
        # Of a tensor of the user's, which an assignment of his may change later.
        return Tensor(_arrays.compute(native).uop) if isinstance(native, Tensor) else native

    def exporter(self, native: Array) -> HostExporter:
        # tinygrad does not speak DLPack: values go in new memory of the host.
        return HostExporter(lambda: _arrays.look_at(native))

    def computed(self, native: Array) -> Array:
        if isinstance(native, Tensor):
            _arrays.compute(native)
        return native

    def synchronize(self, device: Device) -> None:
        Devices[place_of(device)].synchronize()

    # ------------------------------------------------------------------ memory

    def is_out_of_memory(self, error: BaseException) -> bool:
        return _memory.is_shortage(error)

    def empty_cache(self, device: Device) -> int:
        with _arrays.LOCK:
            return _memory.release(place_of(device))

    def memory_stats(self, device: Device) -> MemoryStats:
        with _arrays.LOCK:
            return _memory.statistics(place_of(device))

    def memory_info(self, device: Device) -> MemoryInfo | None:
        with _arrays.LOCK:
            return _memory.information(place_of(device))

    def hardware(self, device: Device) -> str:
        return _memory.hardware(place_of(device))


@cache
def _capabilities(device: Device) -> Capabilities:
    there = _arrays.computed(place_of(device))
    held = [d for d in DTYPES.values() if _arrays.NATIVE.get(d) not in there]
    return Capabilities(held=frozenset(held))


#: What WebGPU's devices lack: integers of 64 bits, and functions as accurate as everywhere
#: (https://www.w3.org/TR/WGSL/#floating-point-accuracy).
_LEFT_ON_WEBGPU: Final = frozenset(
    {"argmax", "argmin", "count_nonzero", "exp", "log", "log10", "log2", "sin"}
)
