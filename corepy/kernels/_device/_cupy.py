"""CUDA and HIP: kernels built and launched by CuPy, on its arrays and on torch's tensors."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import cupy
import numpy as np

from corepy._signals import let_through
from corepy.backends._base import Native
from corepy.backends.cupy._devices import KIND, from_host, to_host
from corepy.devices._device import Device, as_device
from corepy.kernels._arguments import Given, torch_layout
from corepy.kernels._device._runtime import (
    ITEM_SIZE,
    VECTOR_BYTES,
    Memory,
    Program,
    Target,
    numpy_dtype,
)
from corepy.kernels._libraries import DeviceLibrary
from corepy.kernels._replay import (
    LOOKS,
    NUMBERS,
    Launched,
    Plan,
    Seen,
    Unclear,
    is_of_numbers,
    note,
)

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
            raise self.apart()
        return to_host(native)

    def from_numpy(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None
    ) -> Native:
        if copy is False:
            raise self.apart()
        return from_host(array, device)

    def like(self, array: np.ndarray[Any, Any], native: Native) -> Native:
        return self.from_numpy(array, self.device_of(native))

    def synchronize(self, device: Device) -> None:
        cupy.cuda.Device(device.index).synchronize()


@cache
def _place(number: int) -> Device:
    return as_device(f"{KIND}:{number}")


class CuPy(Target):
    """Kernels compiled by NVRTC or hipRTC."""

    name = "cupy"

    def takes(self, x: Given) -> bool:
        if x.library == "cupy":
            LOOKS.setdefault(cupy.ndarray, _seen_arrays)
            return True
        if not torch_layout().is_memory(x.native):
            return False
        LOOKS.setdefault(x.native.__class__, _seen_tensors)
        return True

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
            address = torch_stream(number) if x.library == "torch" else None
            # Both libraries are on the default one, mostly.
            if address is None or address == cupy.cuda.get_current_stream().ptr:
                kernel(grid, block, tuple(arguments), shared_mem=shared)
            else:
                with _shared(number, address):
                    kernel(grid, block, tuple(arguments), shared_mem=shared)
        if shared <= _STATIC:  # more is a setting of the kernel, which other launches change
            kind = _OfArrays if address is None else _OfTensors
            settings = number, kernel, grid, block, arguments, shared
            note(lambda: _Launch(settings, memories, kind))


def _index(x: Given) -> int:
    assert x.device is not None
    return x.device.index or 0


def torch_stream(number: int) -> int:
    """Return the address of torch's current stream on a device."""
    return _current_address()(number)


@cache
def _current_address() -> Callable[[int], int]:
    from corepy.backends.torch._streams import current_address  # imports torch

    return current_address


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


# ---------------------------------------------------------------------------- launches again


def _seen_arrays(values: Sequence[Any], names: tuple[str, ...]) -> Seen | None:
    """Look at the arguments of a call on arrays of CuPy."""
    key: list[Any] = [names]
    arrays, bases = [], []
    array = cupy.ndarray
    for value in values:
        kind = value.__class__
        if kind is array:
            base = value.data
            fits = base.ptr % VECTOR_BYTES == 0
            key += (kind, value.dtype, value.shape, value.strides, base.device_id, fits)
            arrays.append(value)
            bases.append(base)
        elif kind in NUMBERS:
            key += (kind, value or repr(value))  # there are two zeros
        elif kind is tuple and is_of_numbers(value):
            key += (kind, repr(value))
        else:
            return None
    return Seen(tuple(key), arrays, bases)


def _seen_tensors(values: Sequence[Any], names: tuple[str, ...]) -> Seen | None:
    """Look at the arguments of a call on torch's tensors, by all that `is_memory` looks at."""
    torch, layout = sys.modules["torch"], torch_layout()
    if layout.is_heard() or layout.is_transformed():
        return None
    key: list[Any] = [names, torch.is_grad_enabled()]
    arrays, bases = [], []
    tensors = torch.Tensor, torch.nn.Parameter
    for value in values:
        kind = value.__class__
        if kind in tensors:
            if not value.is_cuda or value.is_neg() or value.layout is not torch.strided:
                return None
            try:
                base = value.data_ptr()
            except RuntimeError:  # it has no memory
                return None
            fits, passes = base % VECTOR_BYTES == 0, value.requires_grad
            place, strides = value.get_device(), value.stride()
            key += (kind, value.dtype, value.shape, strides, place, fits, passes)
            arrays.append(value)
            bases.append(base)
        elif kind in NUMBERS:
            key += (kind, value or repr(value))
        elif kind is tuple and is_of_numbers(value):
            key += (kind, repr(value))
        else:
            return None
    return Seen(tuple(key), arrays, bases)


#: A device, a kernel, its grid and block, its arguments, and its bytes of shared memory.
_Settings: TypeAlias = tuple[int, Any, tuple[int, ...], tuple[int, ...], Sequence[Any], int]


class _Results(NamedTuple):
    """What a call has made: arrays, and which arguments of the kernel they are."""

    arrays: list[Any]
    places: list[int]
    is_pair: bool


class _Launch(Launched):
    """A launch, with the memories among its arguments in their order."""

    def __init__(self, settings: _Settings, memories: Sequence[Memory], kind: type[_Again]) -> None:
        self._settings, self._memories, self._kind = settings, memories, kind

    def plan(self, seen: Seen, made: list[Any], is_pair: bool) -> Plan | None:
        if len({getattr(base, "ptr", base) for base in seen.bases}) < len(seen.bases):
            raise Unclear
        given = [-1] * len(seen.arrays)
        places = [-1] * len(made)
        left = list(self._memories)
        for place, argument in enumerate(self._settings[4]):
            if not left or argument is not left[0].base:
                continue
            memory = left.pop(0)
            among, found = (made, places) if memory.written else (seen.arrays, given)
            number = next((n for n, array in enumerate(among) if array is memory.owner), -1)
            if number < 0 or found[number] >= 0 or (memory.written and not _is_plain(memory)):
                return None
            found[number] = place
        if left or min(places) < 0:
            return None
        try:
            return self._kind(self._settings, given, _Results(made, places, is_pair))
        except Exception as error:  # the call itself has succeeded; others are not shortened
            let_through(error)
            return None


def _is_plain(memory: Memory) -> bool:
    return memory.is_contiguous and memory.is_aligned()


class _Again(Plan):
    """A launch on other memory, with the numbers among its arguments made ready for CuPy."""

    def __init__(self, settings: _Settings, given: list[int], results: _Results) -> None:
        self._number, kernel, self._grid, self._block, arguments, self._bytes = settings
        # What CuPy looks up for the current device at each launch.
        with cupy.cuda.Device(self._number):
            self._kernel = kernel.kernel
        self._given = [(place, n) for n, place in enumerate(given) if place >= 0]
        pointers = {*given, *results.places}
        self._arguments = [
            None if n in pointers else _ready(argument) for n, argument in enumerate(arguments)
        ]
        self._is_pair = results.is_pair

    def run(self, seen: Seen) -> Any:
        number = self._number
        if cupy.cuda.runtime.getDevice() == number:
            return self._run(seen)
        with cupy.cuda.Device(number):
            return self._run(seen)

    @abstractmethod
    def _run(self, seen: Seen) -> Any:
        """Launch it on the current device."""


class _OfArrays(_Again):
    """On arrays of CuPy."""

    def __init__(self, settings: _Settings, given: list[int], results: _Results) -> None:
        super().__init__(settings, given, results)
        arrays = zip(results.places, results.arrays, strict=True)
        self._made = [(place, array.shape, array.dtype) for place, array in arrays]

    def _run(self, seen: Seen) -> Any:
        arguments, bases, made = self._arguments.copy(), seen.bases, []
        for place, n in self._given:
            arguments[place] = bases[n]
        for place, shape, dtype in self._made:
            new = cupy.empty(shape, dtype)
            arguments[place] = base = new.data
            _check(base.ptr)
            made.append(new)
        self._kernel(self._grid, self._block, arguments, self._bytes)
        return tuple(made) if self._is_pair else made[0]


class _OfTensors(_Again):
    """On torch's tensors, in torch's current stream."""

    def __init__(self, settings: _Settings, given: list[int], results: _Results) -> None:
        super().__init__(settings, given, results)
        tensors = zip(results.places, results.arrays, strict=True)
        self._made = [(place, tuple(t.shape), t.dtype, t.device) for place, t in tensors]

    def _run(self, seen: Seen) -> Any:
        arguments, bases, made = self._arguments.copy(), seen.bases, []
        torch = sys.modules["torch"]
        for place, n in self._given:
            arguments[place] = _pointer(bases[n])
        for place, shape, dtype, device in self._made:
            new = torch.empty(shape, dtype=dtype, device=device)
            base = new.data_ptr()
            _check(base)
            arguments[place] = _pointer(base)
            made.append(new)
        stream = _at(torch_stream(self._number))
        self._kernel(self._grid, self._block, arguments, self._bytes, stream)
        return tuple(made) if self._is_pair else made[0]


def _check(address: int) -> None:
    if address % VECTOR_BYTES:
        raise ValueError("the kernel was built for aligned results")


class _Address:
    """A stream as CuPy's launches look at it."""

    def __init__(self, pointer: int) -> None:
        self.ptr = pointer


_at = lru_cache(maxsize=64)(_Address)


def _ready(argument: Any) -> Any:
    """Return a number, or None, as what CuPy else makes of it at each launch."""
    if _scalar is None or (argument is None and _pointer is np.uint64):
        return argument
    return _pointer(0) if argument is None else _scalar(argument)


def _inside(module: str, name: str) -> Any:
    """Return what only CuPy's own modules use, None where a version has something else there."""
    if int(cupy.__version__.partition(".")[0]) < 14:
        return None
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


_scalar: Any = _inside("cupy._core._scalar", "CScalar")
_pointer: Any = _inside("cupy.cuda.function", "CIntptr") or np.uint64
