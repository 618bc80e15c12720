"""The adapter itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import mlx.core as mx
import numpy as np

from corepy._dtypes import DType, Scalar
from corepy._errors import foreign_dtype
from corepy.backends._base import Backend, Capabilities
from corepy.backends._kinds import dtypes_on
from corepy.backends._numpy import NumPyBackend
from corepy.backends.mlx._arrays import (
    BY_NATIVE,
    FOREIGN,
    NATIVE,
    TRACED,
    WIDE,
    Array,
    Exporter,
    HostArray,
    from_host,
    seen,
    sent,
    values_of,
)
from corepy.backends.mlx._tables import LEFT, LEFT_ON_HOST, OPERATIONS
from corepy.devices._device import CPU, Device, as_device
from corepy.devices._pool import MemoryStats


class MLXBackend(Backend):
    """MLX on ``mps`` where Metal is present, else on ``cpu``."""

    name = "mlx"
    #: MLX's limit of its memory, where somebody has set another.
    _own_limit: int | None = None

    def is_available(self) -> bool:
        # In the CUDA build arrays live where NumPy cannot look, which nobody has tried yet.
        return not mx.cuda.is_available()

    def devices(self) -> tuple[Device, ...]:
        return (as_device("mps"),) if mx.metal.is_available() else (CPU,)

    def capabilities(self, device: Device) -> Capabilities:
        return _ON_HOST if device is CPU else _ON_METAL

    def operation(self, name: str) -> Callable[..., Any] | None:
        return OPERATIONS.get(name)

    def rounded(self, native: Array, dtype: str) -> Array:
        return sent(native.astype(getattr(mx, dtype)).astype(mx.float32))

    def allow_tf32(self, allowed: bool) -> str | None:
        os.environ["MLX_ENABLE_TF32"] = str(int(allowed))
        if self.devices()[0] is CPU:
            return None
        return "MLX asks for MLX_ENABLE_TF32 once, at its first product"

    def supports(self, name: str, dtype: DType, device: Device) -> bool:
        if dtype in LEFT.get(name, ()):
            return False
        if device is CPU and dtype in LEFT_ON_HOST.get(name, ()):
            return False
        return super().supports(name, dtype, device)

    def owns(self, obj: object) -> bool:
        return isinstance(obj, mx.array) or (isinstance(obj, np.ndarray) and obj.dtype == WIDE)

    def dtype_of(self, native: Array | HostArray) -> DType:
        dtype = BY_NATIVE.get(native.dtype)
        if dtype is None:
            raise foreign_dtype(self.name, native.dtype)
        return dtype

    def native_dtype(self, dtype: DType) -> mx.Dtype | np.dtype[Any]:
        return NATIVE[dtype]

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> Array | HostArray:
        # MLX reads a Python int as int32 or int64, and refuses the upper half of uint64.
        return from_host(np.array(value, dtype.name))

    def item(self, native: Array | HostArray) -> Scalar:
        value: Scalar = seen(native).item()  # mx.array.item fails in the upper half of uint64
        return value

    def to_numpy(self, native: Array | HostArray, *, copy: bool | None = None) -> HostArray:
        host = values_of(native)
        return host.copy() if copy else host

    def peek(self, native: Array | HostArray) -> HostArray:
        return seen(native)

    def from_numpy(
        self, array: HostArray, device: Device, *, copy: bool | None = None
    ) -> Array | HostArray:
        if array.dtype == WIDE:
            return array.copy() if copy else array
        if copy is False:
            raise ValueError("mlx takes no memory of others")
        return from_host(array)

    def adopt(self, native: Array) -> Array:
        FOREIGN[id(native)] = native
        try:
            mx.eval(native)  # mx.async_eval ends the process where this raises (mlx#4329)
        except RuntimeError as error:
            raise RuntimeError(f"mlx cannot evaluate it in this thread ({error})") from error
        except ValueError as error:
            if "function transformations" not in str(error):  # mx.compile
                raise
        fresh = sent(mx.expand_dims(native, 0))  # not evaluated yet: shows whether it is traced
        if id(fresh) in TRACED:
            TRACED[id(native)] = native
        else:
            TRACED.pop(id(native), None)
        return native

    def is_writable(self, native: Array | HostArray) -> bool:
        return isinstance(native, mx.array) or native.flags.writeable

    def exporter(self, native: Array | HostArray) -> Any:
        if not isinstance(native, mx.array):
            return _NUMPY.exporter(native)
        return Exporter(native) if self.device_of(native) is CPU else native

    def synchronize(self, device: Device) -> None:
        mx.synchronize()

    # ------------------------------------------------------------------ memory

    def is_out_of_memory(self, error: BaseException) -> bool:
        # "[metal::malloc] Attempting to allocate ... greater than the maximum allowed buffer size"
        words = ("Unable to allocate", "Attempting to allocate")
        return isinstance(error, RuntimeError) and any(word in str(error) for word in words)

    def empty_cache(self, device: Device) -> int:
        before = mx.get_cache_memory()
        mx.clear_cache()
        return max(0, int(before - mx.get_cache_memory()))

    def memory_stats(self, device: Device) -> MemoryStats:
        return MemoryStats(
            allocated_bytes=mx.get_active_memory(),
            peak_allocated_bytes=mx.get_peak_memory(),
            cached_bytes=mx.get_cache_memory(),
            limit_bytes=0 if self._own_limit is None else mx.get_memory_limit(),
        )

    def limit_memory(self, device: Device, limit: int | None) -> str | None:
        if limit is None:
            if self._own_limit is not None:
                mx.set_memory_limit(self._own_limit)
                self._own_limit = None
            return None
        before = mx.set_memory_limit(limit)
        if self._own_limit is None:
            self._own_limit = before
        return "MLX waits for its work and gives back its cache at the limit, then goes beyond it"


#: What complex128 is held in belongs to it.
_NUMPY: Final = NumPyBackend()

_ON_HOST: Final = Capabilities(max_dimensions=64)
_ON_METAL: Final = Capabilities(dtypes=dtypes_on("mlx", "mps"), max_dimensions=64)
