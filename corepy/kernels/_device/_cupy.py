"""CUDA and HIP: kernels built and launched by CuPy, on its arrays and on torch's tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import cupy
import numpy as np

from corepy.backends._base import Native
from corepy.devices._device import Device, as_device
from corepy.kernels._arguments import Given
from corepy.kernels._device._runtime import ITEM_SIZE, Memory, Program, Target, numpy_dtype
from corepy.kernels._libraries import DeviceLibrary
from corepy.kernels._memory import is_plain

#: Static local memory of a work-group; more has to be asked for.
_STATIC = 48 << 10


class CuPyArrays(DeviceLibrary):
    """Arrays of CuPy."""

    name = "cupy"

    def owns(self, obj: object) -> bool:
        return isinstance(obj, cupy.ndarray)

    def devices(self) -> tuple[Device, ...]:
        return tuple(_place(n) for n in range(cupy.cuda.runtime.getDeviceCount()))

    def device_of(self, native: Native) -> Device:
        return _place(native.device.id)

    def to_numpy(self, native: Native, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("the memory of a GPU is not the host's")
        values: np.ndarray[Any, Any] = cupy.asnumpy(native)
        return values

    def from_numpy(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None
    ) -> Native:
        if copy is False:
            raise ValueError("the memory of a GPU is not the host's")
        with cupy.cuda.Device(device.index):
            return cupy.asarray(array)

    def like(self, array: np.ndarray[Any, Any], native: Native) -> Native:
        return self.from_numpy(array, self.device_of(native))

    def synchronize(self, device: Device) -> None:
        cupy.cuda.Device(device.index).synchronize()


@cache
def _place(number: int) -> Device:
    return as_device(f"{'rocm' if cupy.cuda.runtime.is_hip else 'cuda'}:{number}")


class CuPy(Target):
    """Kernels compiled by NVRTC or hipRTC."""

    name = "cupy"

    def takes(self, x: Given) -> bool:
        return x.library == "cupy" or is_plain(x.native)

    def memory(self, x: Given) -> Memory:
        return _torch_memory(x.native, x) if x.library == "torch" else _cupy_memory(x.native, x)

    def empty(self, x: Given, shape: tuple[int, ...], dtype: str) -> tuple[Any, Memory]:
        if x.library == "torch":
            torch, like = sys.modules["torch"], x.native
            kind = like.dtype if dtype == x.dtype else getattr(torch, dtype)
            native = torch.empty(shape, dtype=kind, device=like.device)
            return native, _torch_memory(native, x, dtype)
        with x.native.device:
            native = cupy.empty(shape, x.native.dtype if dtype == x.dtype else numpy_dtype(dtype))
        return native, _cupy_memory(native, x, dtype)

    def units(self, x: Given) -> int:
        return _units(_index(x))

    def has_tensor_cores(self, x: Given) -> bool:
        return not cupy.cuda.runtime.is_hip and _capability(_index(x)) >= 80

    def run(
        self,
        x: Given,
        program: Program,
        name: str,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: Sequence[Any],
        memories: Sequence[Memory],
        defines: tuple[tuple[str, object], ...],
        shared: int,
    ) -> None:
        number = _index(x)
        kernel = _built(number, program, name, block, defines)
        with cupy.cuda.Device(number):
            if shared > _STATIC:
                kernel.max_dynamic_shared_size_bytes = shared
            if x.library == "torch":
                address = torch_stream(number)
                if address != cupy.cuda.get_current_stream().ptr:  # both the default one, mostly
                    with _shared(number, address):
                        kernel(grid, block, tuple(arguments), shared_mem=shared)
                    return
            kernel(grid, block, tuple(arguments), shared_mem=shared)


def _index(x: Given) -> int:
    assert x.device is not None
    return x.device.index or 0


def torch_stream(number: int) -> int:
    """Return the address of torch's current stream on a device."""
    torch = sys.modules["torch"]
    look = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a tenth of the public way's time
    if look is not None:
        return int(look(number))
    return int(torch.cuda.current_stream(number).cuda_stream)


class _Stream:
    """A stream as libraries hand them over."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._pointer


@lru_cache(maxsize=64)
def _shared(number: int, pointer: int) -> Any:
    """Return another library's stream on a device, which is the current one, as one of CuPy's."""
    if hasattr(cupy.cuda.Stream, "from_external"):  # since CuPy 14
        return cupy.cuda.Stream.from_external(_Stream(pointer))
    return cupy.cuda.ExternalStream(pointer)


def _cupy_memory(native: Any, x: Given, dtype: str | None = None) -> Memory:
    name, data = dtype or x.dtype, native.data
    size = ITEM_SIZE[name]
    strides = tuple([stride // size for stride in native.strides])
    return Memory(name, native.shape, strides, data, 0, (_index(x), data.ptr), native)


def _torch_memory(native: Any, x: Given, dtype: str | None = None) -> Memory:
    pointer = native.data_ptr()
    address = (_index(x), pointer)
    base = np.uint64(pointer)
    return Memory(dtype or x.dtype, tuple(native.shape), native.stride(), base, 0, address, native)


@cache
def _units(number: int) -> int:
    return int(cupy.cuda.Device(number).attributes["MultiProcessorCount"])


@cache
def _capability(number: int) -> int:
    return int(cupy.cuda.Device(number).compute_capability)


@lru_cache(maxsize=1024)
def _built(
    number: int,
    program: Program,
    name: str,
    block: tuple[int, ...],
    defines: tuple[tuple[str, object], ...],
) -> Any:
    """Build a kernel, for each device on its own; CuPy keeps its code on disk."""
    return cupy.RawKernel(program.text(block, tuple(sorted(defines))), name)
