"""The adapter itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from operator import attrgetter
from typing import Any, Final

import array_api_compat.cupy as compat
import cupy
import numpy as np
import numpy.typing as npt

from corepy._dtypes import DTYPES, DType, Scalar
from corepy._errors import BackendError, foreign_dtype
from corepy.backends._base import Allocator, Backend, Capabilities, native_function
from corepy.backends._exports import runs_backwards
from corepy.backends._inplace import OPERATORS
from corepy.backends._rounding import rounded
from corepy.backends._streams import Streams
from corepy.backends.cupy import _streams
from corepy.backends.cupy._devices import KIND, from_host, place, to_host
from corepy.backends.cupy._lending import is_plain, view
from corepy.backends.cupy._linalg import GENERAL_EIGENVALUES, has_general_eigenvalues
from corepy.backends.cupy._tables import FIXES, TAKEN
from corepy.devices._device import Device, as_device
from corepy.devices._pool import MemoryStats
from corepy.devices._probe import MemoryInfo

Array = Any
Function = Callable[..., Any]


class CuPyBackend(Backend):
    """CuPy on every ``cuda`` or ``rocm`` device that its runtime sees.

    Raises
    ------
    BackendError
        If there is none; the message has the runtime's own words.
    """

    name = "cupy"
    repeats = True

    def __init__(self) -> None:
        runtime = cupy.cuda.runtime
        try:
            count = runtime.getDeviceCount()
        except runtime.CUDARuntimeError as error:  # of a driver that is missing, or too old
            raise BackendError(f"no device of {KIND}: {error}") from error
        if not count:
            raise BackendError(f"no device of {KIND}: the runtime counts 0")
        self._devices = tuple(as_device(f"{KIND}:{number}") for number in range(count))

    def is_available(self) -> bool:
        return True

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def capabilities(self, device: Device) -> Capabilities:
        return _EVERYTHING

    def rounded(self, native: Array, dtype: str) -> Array:
        with native.device:
            return rounded(cupy, native, dtype)

    def allow_tf32(self, allowed: bool) -> str | None:
        if KIND == "rocm":
            return None  # which has none
        # https://docs.cupy.dev/en/stable/reference/environment.html#envvar-CUPY_TF32 is read once,
        # at the first product; this is what it sets, and CuPy has no public name for it.
        from cupy._core import _routines_linalg as routines

        kind = routines.COMPUTE_TYPE_TF32 if allowed else routines.COMPUTE_TYPE_DEFAULT
        routines.set_compute_type(cupy.float32, kind)
        return None

    def operation(self, name: str) -> Function | None:
        if name in GENERAL_EIGENVALUES and not has_general_eigenvalues():
            return None
        found = FIXES.get(name) or native_function(compat, name)
        # CuPy works on the current device, whichever its operands are on.
        return found if found is None or len(self._devices) == 1 else _beside_operands(found)

    # ------------------------------------------------------------------ its native arrays

    def owns(self, obj: object) -> bool:
        return isinstance(obj, cupy.ndarray)

    def dtype_of(self, native: Array) -> DType:
        dtype = _BY_NATIVE.get(native.dtype)
        if dtype is None:
            raise foreign_dtype(self.name, native.dtype)
        return dtype

    def native_dtype(self, dtype: DType) -> np.dtype[Any]:
        return _NATIVE[dtype]

    def device_of(self, native: Array) -> Device:
        found: Device = self._devices[native.device.id]
        return found

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> Array:
        with place(device):
            return cupy.full((), value, _NATIVE[dtype])

    def item(self, native: Array) -> Scalar:
        value: Scalar = to_host(native).item()
        return value

    def to_numpy(self, native: Array, *, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError(f"{self.device_of(native)} has no memory of the host's")
        return to_host(native)

    def from_numpy(
        self, array: npt.NDArray[Any], device: Device, *, copy: bool | None = None
    ) -> Array:
        if copy is False:
            raise ValueError(f"{device} has no memory of the host's")
        return from_host(array, device)

    def exporter(self, native: Array) -> _Exporter:
        return _Exporter(native)

    def legacy_exporter(self, native: _Exporter, *, copy: bool | None) -> _Exporter:
        if not runs_backwards(native.native, copy):
            return native
        with native.native.device:
            return _Exporter(cupy.ascontiguousarray(native.native))

    def import_(self, exporter: Any, device: Device) -> tuple[Array, bool]:
        with place(device):
            return cupy.from_dlpack(exporter), False

    def borrow(self, exporter: Any, device: Device) -> Array:
        # https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
        told = getattr(exporter, "__cuda_array_interface__", None)
        if told is None:
            return super().borrow(exporter, device)
        shape, dtype, strides = told["shape"], np.dtype(told["typestr"]), told.get("strides")
        return view(told["data"][0], shape, dtype, strides, exporter, device.index or 0)

    def normalize(self, native: Any) -> Array:
        return native if native.__class__ is cupy.ndarray else cupy.asarray(native)

    def is_writable(self, native: Array) -> bool:
        # What was broadcast has elements that share their memory; CuPy has no flag for that. Where
        # there are no elements all strides are 0 too.
        return native.size == 0 or not any(
            step == 0 and n > 1 for step, n in zip(native.strides, native.shape, strict=True)
        )

    def synchronize(self, device: Device) -> None:
        place(device).synchronize()

    def counting(self) -> tuple[type, Callable[[Array], int]]:
        return cupy.ndarray, _size

    def lends(self, native: Array) -> bool:
        return native.__class__ is cupy.ndarray and is_plain(native)

    # ------------------------------------------------------------------ memory and streams

    def is_out_of_memory(self, error: BaseException) -> bool:
        return _streams.is_out_of_memory(error)

    def empty_cache(self, device: Device) -> int:
        return _streams.empty_cache(place(device))

    def memory_stats(self, device: Device) -> MemoryStats | None:
        return _streams.stats(place(device))

    def memory_info(self, device: Device) -> MemoryInfo | None:
        free, total = place(device).mem_info
        return MemoryInfo(int(total), int(free))

    def limit_memory(self, device: Device, limit: int | None) -> str | None:
        _streams.limit(place(device), limit)
        return None

    def use_allocator(self, allocator: Allocator | None) -> str | None:
        _streams.use_allocator(allocator)
        return None

    def streams(self, device: Device) -> Streams | None:
        return _streams_of(device)


_size: Final = attrgetter("size")
_EVERYTHING: Final = Capabilities(
    max_dimensions=64,
    scalars_first=TAKEN,
    # These look at the divisor, or the exponent, and wait for the device if it is there.
    scalars_second=TAKEN and TAKEN | {*OPERATORS} | {"floor_divide", "pow", "remainder"},
)
_NATIVE: Final[dict[DType, np.dtype[Any]]] = {d: np.dtype(d.name) for d in DTYPES.values()}
_BY_NATIVE: Final[dict[np.dtype[Any], DType]] = {native: d for d, native in _NATIVE.items()}


class _Exporter:
    """A native array as DLPack knows it; CuPy itself copies to the host alone (core.pyx)."""

    def __init__(self, native: Array) -> None:
        self.native = native

    def __dlpack_device__(self) -> tuple[int, int]:
        found: tuple[int, int] = self.native.__dlpack_device__()
        return found

    def __dlpack__(self, *, copy: bool | None = None, **params: Any) -> Any:
        if runs_backwards(self.native, copy):
            copy = True
        # The consumer waits for the current stream of the current device, and copies are made there
        # (core.pyx): that has to be the array's.
        with self.native.device:
            if not copy or params.get("dl_device") not in (None, self.__dlpack_device__()):
                return self.native.__dlpack__(copy=copy, **params)
            return self.native.copy().__dlpack__(**params)


@cache
def _streams_of(device: Device) -> _streams.CuPyStreams:
    return _streams.CuPyStreams(device)


def _beside_operands(function: Function) -> Function:
    """Run a function on the device of its first array."""

    @wraps(function)
    def run(*args: Any, **params: Any) -> Any:
        for arg in args:
            first = arg[0] if isinstance(arg, tuple) and arg else arg
            if isinstance(first, cupy.ndarray):
                with first.device:
                    return function(*args, **params)
        return function(*args, **params)  # creation, which enters the device that it is given

    plain = getattr(function, "plain", None)
    if plain is not None:
        vars(run)["plain"] = _beside_operands(plain)
    return run
