"""JAX by `jax.numpy`, and what it leaves wrong.

Three properties of JAX shape the adapter:

* It computes in 32 bits unless told otherwise, for the whole process. Here every call enters a
  context of 64 bits (0.4 us), so that the user's setting neither matters nor changes.
* Its arrays are immutable. ``__setitem__`` and the in-place operators make new ones, which the
  dispatcher puts in the place of the old; exports are read-only.
* It traces. Inside ``jax.jit``, ``jax.grad`` and ``jax.vmap`` operands are tracers, which have a
  shape and a dtype but no values, and no device.

Subnormal numbers flush to zero in XLA's compiled code on the host.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from corepy._dtypes import DTYPES, DType, Scalar
from corepy._errors import (
    BackendUnavailableError,
    divided_by_zero,
    foreign_dtype,
    negative_power,
)
from corepy._signals import let_through
from corepy.backends._base import Backend, Capabilities, native_function
from corepy.backends._descending import in_both_orders
from corepy.backends._kinds import dtypes_on, left_out
from corepy.backends.jax import (
    IMPORTED_BEFORE,
    TORCH_FIRST,
    _indexing,
    _linear_algebra,
    _searching,
    _special,
    _values,
)
from corepy.devices._device import CPU, Device, as_device
from corepy.devices._pool import MemoryStats
from corepy.devices._probe import MemoryInfo

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = Any
Host: TypeAlias = "npt.NDArray[Any]"
Function: TypeAlias = Callable[..., Any]

#: JAX's platforms and the kinds of device they are; "gpu" is CUDA or ROCm.
_KINDS: Final = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}


class JaxBackend(Backend):
    """JAX on ``cpu``, ``cuda``, ``rocm`` and ``tpu``."""

    name = "jax"
    repeats = True

    def is_available(self) -> bool:
        return True

    def devices(self) -> tuple[Device, ...]:
        return tuple(_native_devices())

    def unserved(self) -> tuple[str, ...]:
        if CPU not in _native_devices():
            return (f"cpu: {_host_devices()[1]}",)
        return _no_gpu()

    def capabilities(self, device: Device) -> Capabilities:
        return Capabilities(dtypes=dtypes_on("jax", device.kind))

    def supports(self, name: str, dtype: DType, device: Device) -> bool:
        if dtype in left_out("jax", device.kind).get(name, ()):
            return False
        return super().supports(name, dtype, device)

    def operation(self, name: str) -> Function | None:
        return _operation(name)

    def operation_on(self, name: str, device: Device) -> Function | None:
        if name == "linalg.qr" and device.kind != "cpu":
            return _in_64_bits(_exact(_linear_algebra.scaled_qr))
        return _operation(name, device.kind == "cpu")

    def owns(self, obj: object) -> bool:
        # Tracers are instances of jax.Array; `scalar` makes NumPy's scalars.
        return isinstance(obj, (jax.Array, np.generic))

    def dtype_of(self, native: Array) -> DType:
        dtype = DTYPES.get(native.dtype.name)
        if dtype is None:
            raise foreign_dtype(self.name, native.dtype)
        return dtype

    def native_dtype(self, dtype: DType) -> np.dtype[Any]:
        return _NATIVE[dtype]

    def device_of(self, native: Array) -> Device:
        if isinstance(native, jax.core.Tracer):
            return self.devices()[0]  # where compiled code will run unless its caller says else
        if isinstance(native, np.generic):  # one of `scalar`
            return CPU
        places = native.devices()
        if len(places) != 1:
            raise ValueError(f"its elements are on {len(places)} devices; expected one device")
        return _device_of(next(iter(places)))

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> np.generic:
        # JAX takes a NumPy scalar as a 0-D operand; making an array of its own costs 11 us more.
        scalar: np.generic = _NATIVE[dtype].type(value)
        return scalar

    def item(self, native: Array) -> Scalar:
        value: Scalar = native.item()
        return value

    def to_numpy(self, native: Array, *, copy: bool | None = None) -> Host:
        if copy is False and not _values.is_on_host(native):
            raise ValueError(f"its elements are on {self.device_of(native)}; expected host memory")
        return np.array(native) if copy else np.asarray(native)

    def from_numpy(self, array: Host, device: Device, *, copy: bool | None = None) -> Array:
        place = _native_devices()[device]
        if not copy and device is CPU and (copy is False or _is_frozen(array)):
            # Aliases the memory where it lies at a multiple of 64 bytes, row by row.
            made = _put(array, place)
            if copy is None or _shares(made, array):
                return made
        if copy is False:
            raise ValueError(_refusal(array, device))
        # JAX relies on memory that never changes, so what may still be written to is copied.
        return _copy(array, place)

    def import_(self, exporter: Any, device: Device) -> tuple[Array, bool]:
        with _values.wide(True):  # a copy: JAX relies on memory that never changes
            made = jnp.array(jax.dlpack.from_dlpack(exporter), copy=True)
        # JAX makes it in a stream of its own, which nobody else waits for: until it is made, the
        # exporter may neither write into its memory nor use it again.
        return made.block_until_ready(), True

    def outline(self, native: Array) -> str | None:
        return str(native) if isinstance(native, jax.core.Tracer) else None

    def shares_memory(self, native: Array, array: Host) -> bool:
        if isinstance(native, jax.core.Tracer):
            return False  # what traced code makes of an array has no memory yet
        return _values.is_on_host(native) and _shares(native, array)

    def exporter(self, native: Array) -> Any:
        # Traced code has no memory yet, and JAX a message of its own that it cannot make.
        return None if isinstance(native, jax.core.Tracer) else super().exporter(native)

    def legacy_exporter(self, native: Array, *, copy: bool | None) -> Array:
        # JAX exports its immutable memory to consumers that will take it for writable. They get a
        # copy, unless they want none: who says copy=False shares, and must not write.
        return native if copy is False else _duplicate(native)

    def limit_threads(self, count: int) -> str | None:
        # XLA makes its pool once, on the first look at its devices, of the size told here.
        os.environ["PJRT_NPROC"] = str(count)
        if IMPORTED_BEFORE or _native_devices.cache_info().currsize:
            return "XLA's pool of threads is fixed once JAX has been used"
        return None

    def is_out_of_memory(self, error: BaseException) -> bool:
        # XLA's own status (absl::ResourceExhaustedError) begins the message.
        return isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" in str(error)

    def memory_stats(self, device: Device) -> MemoryStats | None:
        found = _native_devices()[device].memory_stats()  # None on the host
        if not found:
            return None
        used = int(found.get("bytes_in_use", 0))
        return MemoryStats(
            allocated_bytes=used,
            peak_allocated_bytes=int(found.get("peak_bytes_in_use", 0)),
            cached_bytes=max(0, int(found.get("pool_bytes", used)) - used),
            limit_bytes=int(found.get("bytes_limit", 0)),
        )

    def memory_info(self, device: Device) -> MemoryInfo | None:
        if device.kind != "tpu":  # of a GPU JAX may take but a part, which it tells as the whole
            return None
        stats = self.memory_stats(device)
        if stats is None or not stats.limit_bytes:
            return None
        return MemoryInfo(stats.limit_bytes, max(0, stats.limit_bytes - stats.allocated_bytes))

    def hardware(self, device: Device) -> str | None:
        return str(_native_devices()[device].device_kind)

    def limit_memory(self, device: Device, limit: int | None) -> str | None:
        return "XLA_PYTHON_CLIENT_MEM_FRACTION limits it before JAX is first used"

    def autocast(self, operation: str, dtype: str) -> Function | None:
        function, low = getattr(jnp, operation), jnp.dtype(dtype)

        def product(x1: Array, x2: Array, /, **params: Any) -> Array:
            a, b = jnp.astype(x1, low), jnp.astype(x2, low)
            return function(a, b, preferred_element_type=jnp.float32, **params)

        return _in_64_bits(_exact(product))

    def allow_tf32(self, allowed: bool) -> str | None:
        gpu = any(device.kind in ("cuda", "rocm") for device in self.devices())
        _values.precision = "tensorfloat32" if allowed and gpu else "highest"
        return None

    def synchronize(self, device: Device) -> None:
        for array in jax.live_arrays(_native_devices()[device].platform):
            if not array.is_deleted():
                array.block_until_ready()


_NATIVE: Final[dict[DType, np.dtype[Any]]] = {d: np.dtype(d.name) for d in DTYPES.values()}


# ---------------------------------------------------------------------------- 64 bits


def _in_64_bits(function: Function) -> Function:
    """Let a function see and make 64-bit arrays, whatever the user's setting."""

    def call(*args: Any, **params: Any) -> Any:
        with _values.wide(True):
            return function(*args, **params)

    return call


def _exact(function: Function) -> Function:
    """Compute products in the dtype of their operands, unless `corepy.enable_tf32` allows less."""

    def call(*args: Any, **params: Any) -> Any:
        with jax.default_matmul_precision(_values.precision):
            return function(*args, **params)

    return call


@cache
def _operation(name: str, on_host: bool = False) -> Function | None:
    fixed = (_FIXES_ON_HOST if on_host else _FIXES).get(name)
    function = fixed or native_function(jnp, name)
    if function is None:
        return None
    products = name.startswith("linalg.") or name in ("matmul", "tensordot", "vecdot")
    return _in_64_bits(_exact(function) if products else function)


# ---------------------------------------------------------------------------- devices and memory


@cache
def _native_devices() -> dict[Device, Any]:
    """Return JAX's devices that this process computes on, its default one first."""
    try:
        local = jax.local_devices()
    except AssertionError:  # so it ends, without a word, where it found no platform that was asked
        wish = jax.config.jax_platforms
        raise BackendUnavailableError(
            f"jax: JAX_PLATFORMS is {wish!r}, of which JAX finds nothing; expected a list that "
            f"ends in cpu"
        ) from None
    places = [*local, *_host_devices()[0]]
    return {_device_of(place): place for place in places if place.platform in _KINDS}


def _on(place: Any) -> dict[str, Any]:
    """Return the keyword by which JAX makes an array on a device; none where there is but one.

    It takes JAX a tenth of a millisecond, and for each shape the time to compile a program.
    """
    return {"device": place} if len(_native_devices()) > 1 else {}


@cache
def _host_devices() -> tuple[list[Any], str]:
    """Return JAX's devices of the host, or why there are none."""
    try:
        return list(jax.local_devices(backend="cpu")), ""
    except RuntimeError as error:
        let_through(error)
        told, platforms = " ".join(str(error).split()), jax.config.jax_platforms
        if platforms and "cpu" not in platforms.split(","):
            told += "; JAX_PLATFORMS leaves it out; expected a list that ends in cpu"
        return [], told


@cache
def _no_gpu() -> tuple[str, ...]:
    """Say why there is no GPU, where JAX's plug-in for one is installed."""
    if not entry_points(group="jax_plugins") or any(d.kind != "cpu" for d in _native_devices()):
        return ()
    try:
        jax.devices("gpu")
    except RuntimeError as error:
        let_through(error)
        told = " ".join(str(error).split())
        hint = "; torch was imported before JAX, so import jax first" if TORCH_FIRST else ""
        return (f"{told}{hint}",)
    return ()


@cache
def _device_of(place: Any) -> Device:
    kind = _KINDS.get(place.platform)
    if kind is None:
        raise ValueError(f"jax's platform {place.platform} is none that corepy knows")
    if kind == "cuda" and "rocm" in place.client.platform_version.lower():
        kind = "rocm"
    # Of GPUs a process may be given some (jax.distributed, jax_cuda_visible_devices). DLPack, and
    # the other libraries, know them by the number that CUDA has for them.
    number = place.local_hardware_id if place.platform == "gpu" else None
    if number is None:
        number = jax.local_devices(backend=place.platform).index(place)
    return CPU if kind == "cpu" and number == 0 else as_device(f"{kind}:{number}")


def _shares(native: Array, array: Host) -> bool:
    return array.size == 0 or bool(np.may_share_memory(np.asarray(native), array))


def _refusal(array: Host, device: Device) -> str:
    """Say why JAX did not take an array's memory."""
    if device is not CPU:
        return f"{device} has no memory of the host's"
    if not array.flags.c_contiguous:
        return "jax has no strides, and shares contiguous memory alone"
    return "jax shares memory at multiples of 64 bytes alone"


def _is_frozen(array: Host) -> bool:
    """Say whether it is certain that nobody writes to an array's memory.

    Neither through the array nor through what it is a view of. A library that lends its memory by
    DLPack may write to it for as long as it likes, whatever it lends it as.
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    if owner is None:
        return True
    try:
        return memoryview(owner).readonly
    except TypeError:  # DLPack's capsule, which is no buffer
        return False


@_in_64_bits
def _put(array: Host, place: Any) -> Array:
    return jax.device_put(array, place, may_alias=True)


@_in_64_bits
def _copy(array: Host, place: Any) -> Array:
    if _values.is_taken(array):
        return jax.dlpack.from_dlpack(np.array(array, order="C"))  # JAX keeps the order of axes
    return jnp.array(array, copy=True, **_on(place))


@_in_64_bits
def _duplicate(native: Array) -> Array:
    return jnp.array(native, copy=True)


def _created(function: Function) -> Function:
    """Give a creation function JAX's own object for the device."""

    def create(*args: Any, device: Device, **params: Any) -> Array:
        return function(*args, **_on(_native_devices()[device]), **params)

    return create


_GREATEST: Final = float(np.finfo(np.float32).max)


def _arange(start: float, stop: float, step: float, **params: Any) -> Array:
    if start == 0 and step == 1:  # which takes JAX a fourth of the time
        return jnp.arange(stop, **params)
    # JAX casts the step before it multiplies: it may be fractional, or beyond the dtype.
    whole = isinstance(start, int) and isinstance(step, int)
    fits = params["dtype"] != np.float32 or max(abs(stop - start), abs(step)) <= _GREATEST
    if not fits or not (whole or params["dtype"].kind == "f"):
        return jnp.arange(start, stop, step, **params | {"dtype": np.float64}).astype(
            params["dtype"]
        )
    return jnp.arange(start, stop, step, **params)


# ---------------------------------------------------------------------------- conversions


def _astype(x: Array, dtype: np.dtype[Any], *, copy: bool = True) -> Array:
    return jnp.astype(x, dtype, copy=copy)


def _reshape(x: Array, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    if copy is False and x.shape != shape and not isinstance(x, jax.core.Tracer):
        # JAX's own always copies; NumPy's view of the same memory comes back without.
        if not _values.is_on_host(x):
            raise ValueError("jax copies on this device; expected copy other than False")
        return _put(np.asarray(x).reshape(shape), next(iter(x.devices())))
    made = jnp.reshape(x, shape)
    return jnp.array(made, copy=True) if copy and made is x else made


# ---------------------------------------------------------------------------- integers
# JAX has an answer for everything: -1 or -2 for division by zero
# (https://github.com/jax-ml/jax/issues/11990), whatever the bits give for a negative power. It
# still does where it traces, and operands are not known.


def _floor_divide(x1: Array, x2: Array) -> Array:
    _no_zero(x1, x2)
    return _special.floor_divide(x1, x2)


def _remainder(x1: Array, x2: Array) -> Array:
    _no_zero(x1, x2)
    return _special.remainder(x1, x2)


def _pow(x1: Array, x2: Array) -> Array:
    # Without a sign an exponent is never refused: one on a device is not waited for.
    if x1.size and (x2.dtype.kind == "i" or (x2.dtype.kind == "u" and _values.is_known(x2))):
        values = _values.known(x2)
        if values is not None:
            # Without a sign a negative exponent is a large one: most calls take one look for both.
            if not (values.view(f"u{x2.dtype.itemsize}") > _special.LOW_EXPONENT).any():
                return _special.low_pow(x1, x2)
            if (values < 0).any():
                raise negative_power()
    return _special.pow(x1, x2)


def _no_zero(x1: Array, divisor: Array) -> None:
    if divisor.dtype.kind == "f" or not x1.size:
        return
    values = _values.known(divisor)
    if values is not None and not values.all():
        raise divided_by_zero()


# ---------------------------------------------------------------------------- others


def _truth(function: Function) -> Function:
    """Reduce truth values: of complex numbers JAX asks the real part alone."""

    def reduce(x: Array, *, axis: Any, keepdims: bool) -> Array:
        return function(x != 0 if x.dtype.kind == "c" else x, axis=axis, keepdims=keepdims)

    return reduce


def _spread(function: Function) -> Function:
    """Let ``std`` or ``var`` keep the digits of a correction that is no integer.

    JAX subtracts it from the number of elements in the dtype of these, which in single precision
    leaves few digits of a small difference.
    """

    def reduce(x: Array, *, axis: Any, correction: float, keepdims: bool) -> Array:
        count = math.prod(x.shape if axis is None else [x.shape[place] for place in axis])
        if not count > correction or float(correction).is_integer() or not count:
            return function(x, axis=axis, correction=correction, keepdims=keepdims)
        scale = count / (count - correction)
        found = function(x, axis=axis, correction=0, keepdims=keepdims)
        return found * (math.sqrt(scale) if function is jnp.std else scale)

    return reduce


_FIXES: Final[dict[str, Function]] = {
    **_special.FIXES,
    **{
        name: _created(getattr(jnp, name))
        for name in ("empty", "eye", "full", "linspace", "ones", "zeros")
    },
    "arange": _created(_arange),
    "fft.fftfreq": _created(jnp.fft.fftfreq),
    "fft.rfftfreq": _created(jnp.fft.rfftfreq),
    "__getitem__": _indexing.getitem,
    "__setitem__": _indexing.setitem,
    "take": _indexing.take,
    "take_along_axis": _indexing.take_along_axis,
    "astype": _astype,
    "reshape": _reshape,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "pow": _pow,
    "all": _truth(jnp.all),
    "any": _truth(jnp.any),
    "argmax": _searching.arg_extreme(jnp.argmax, jax.lax.argmax),
    "argmin": _searching.arg_extreme(jnp.argmin, jax.lax.argmin),
    "isin": _searching.isin,
    "searchsorted": _searching.searchsorted,
    "std": _spread(jnp.std),
    "var": _spread(jnp.var),
    # JAX turns the sorted array round, and with it the order of zeros of both signs and of NaN.
    "sort": in_both_orders(jnp.sort, jnp.flip),
    "linalg.cholesky": _linear_algebra.cholesky,
    "linalg.det": _linear_algebra.det,
    **{
        f"linalg.{name}": _linear_algebra.reading_one_triangle(getattr(jnp.linalg, name))
        for name in ("eigh", "eigvalsh")
    },
    "linalg.inv": _linear_algebra.inv,
    "linalg.matrix_power": _linear_algebra.matrix_power,
    **{
        f"linalg.{name}": _linear_algebra.of_finite(name, function)
        for name, function in (
            ("eig", jnp.linalg.eig),
            ("eigvals", jnp.linalg.eigvals),
            ("matrix_rank", jax.jit(_linear_algebra.matrix_rank)),
            ("pinv", _linear_algebra.pinv),
            ("svd", jnp.linalg.svd),
            ("svdvals", jnp.linalg.svdvals),
        )
    },
    "linalg.solve": _linear_algebra.solve,
}

_FIXES_ON_HOST: Final = _FIXES | {
    "max": _searching.greatest,
    "min": _searching.least,
    "linalg.matrix_norm": _linear_algebra.matrix_norm,
    "linalg.vector_norm": _linear_algebra.vector_norm,
    **{
        name: _values.by_numpy(name)
        for name in ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values")
    },
}
