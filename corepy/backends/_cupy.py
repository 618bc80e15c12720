"""CuPy on CUDA and ROCm: `array_api_compat.cupy`, and what it leaves wrong.

Written from CuPy's sources, 13 to 14.2, and run with 14.2 on an H100: the fixes say what was read.

CuPy answers where others raise, for a GPU cannot: integers divided by zero give 0, indices beyond
an axis wrap, singular matrices give NaN. Here such operands are looked at first, which waits for
the device, but only where integers are divided, raised or used as indices.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Final

import array_api_compat.cupy as compat
import cupy
import cupyx
import numpy as np
import numpy.typing as npt

from corepy._dtypes import DTYPES, DType, Scalar
from corepy._errors import BackendError
from corepy.backends import _cupy_streams
from corepy.backends._base import Allocator, Backend, Capabilities
from corepy.backends._rounding import rounded
from corepy.backends._streams import Streams
from corepy.devices._device import Device, as_device
from corepy.devices._pool import MemoryStats

Array = Any
Function = Callable[..., Any]

_KIND: Final = "rocm" if cupy.cuda.runtime.is_hip else "cuda"


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
            raise BackendError(f"no device of {_KIND}: {error}") from error
        if not count:
            raise BackendError(f"no device of {_KIND}: the runtime counts 0")
        self._devices = tuple(as_device(f"{_KIND}:{number}") for number in range(count))

    def is_available(self) -> bool:
        return True

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def capabilities(self, device: Device) -> Capabilities:
        return _EVERYTHING

    def rounded(self, native: Array, dtype: str) -> Array:
        return rounded(cupy, native, dtype)

    def allow_tf32(self, allowed: bool) -> str | None:
        if _KIND == "rocm":
            return None  # which has none
        # https://docs.cupy.dev/en/stable/reference/environment.html#envvar-CUPY_TF32 is read once,
        # at the first product; this is what it sets, and CuPy has no public name for it.
        from cupy._core import _routines_linalg as routines

        kind = routines.COMPUTE_TYPE_TF32 if allowed else routines.COMPUTE_TYPE_DEFAULT
        routines.set_compute_type(cupy.float32, kind)
        return None

    def operation(self, name: str) -> Function | None:
        if name in _GENERAL_EIGENVALUES and not _has_general_eigenvalues():
            return None
        found = _FIXES.get(name)
        if found is None:
            extension, _, function = name.rpartition(".")
            namespace = getattr(compat, extension) if extension else compat
            found = getattr(namespace, function, None)
        # CuPy works on the current device, whichever its operands are on.
        return found if found is None or len(self._devices) == 1 else _beside_operands(found)

    # ------------------------------------------------------------------ its native arrays

    def owns(self, obj: object) -> bool:
        return isinstance(obj, cupy.ndarray)

    def dtype_of(self, native: Array) -> DType:
        dtype = _BY_NATIVE.get(native.dtype)
        if dtype is None:
            raise TypeError(f"its dtype is {native.dtype}; expected one of {', '.join(DTYPES)}")
        return dtype

    def native_dtype(self, dtype: DType) -> np.dtype[Any]:
        return _NATIVE[dtype]

    def device_of(self, native: Array) -> Device:
        found: Device = self._devices[native.device.id]
        return found

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> Array:
        with _place(device):
            return cupy.full((), value, _NATIVE[dtype])

    def item(self, native: Array) -> Scalar:
        value: Scalar = native.item()
        return value

    def to_numpy(self, native: Array, *, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError(
                f"to_numpy: the array is on {self.device_of(native)}; expected one that shares its "
                f"memory with the host for copy=False"
            )
        values: npt.NDArray[Any] = cupy.asnumpy(native)
        return values

    def from_numpy(
        self, array: npt.NDArray[Any], device: Device, *, copy: bool | None = None
    ) -> Array:
        if copy is False:
            raise ValueError(
                f"from_numpy: the array is in the host's memory; expected one on {device} for "
                f"copy=False"
            )
        with _place(device):
            if not array.ndim:
                # CuPy fills an array with such a value (core.pyx), where zeros lose their sign.
                return cupy.full((), array[()], array.dtype.newbyteorder("="))
            # Pinned memory is copied later otherwise, when its values may be others.
            return cupy.asarray(
                array.astype(array.dtype.newbyteorder("="), copy=False), blocking=True
            )

    def exporter(self, native: Array) -> _Exporter:
        return _Exporter(native)

    def legacy_exporter(self, native: _Exporter, *, copy: bool | None) -> _Exporter:
        # torch ends the process where a stride is negative.
        if all(step >= 0 for step in native.native.strides):
            return native
        if copy is False:
            raise BufferError("the array has negative strides; expected none for copy=False")
        return _Exporter(cupy.ascontiguousarray(native.native))

    def import_(self, exporter: Any, device: Device) -> tuple[Array, bool]:
        with _place(device):
            return cupy.from_dlpack(exporter), False

    def normalize(self, native: Any) -> Array:
        return native if native.__class__ is cupy.ndarray else cupy.asarray(native)

    def is_writable(self, native: Array) -> bool:
        # What was broadcast has elements that share their memory; CuPy has no flag for that.
        return not any(
            step == 0 and n > 1 for step, n in zip(native.strides, native.shape, strict=True)
        )

    def synchronize(self, device: Device) -> None:
        _place(device).synchronize()

    # ------------------------------------------------------------------ memory and streams

    def is_out_of_memory(self, error: BaseException) -> bool:
        return _cupy_streams.is_out_of_memory(error)

    def empty_cache(self, device: Device) -> int:
        return _cupy_streams.empty_cache(_place(device))

    def memory_stats(self, device: Device) -> MemoryStats | None:
        return _cupy_streams.stats(_place(device))

    def limit_memory(self, device: Device, limit: int | None) -> str | None:
        _cupy_streams.limit(_place(device), limit)
        return None

    def use_allocator(self, allocator: Allocator | None) -> str | None:
        _cupy_streams.use_allocator(allocator)
        return None

    def streams(self, device: Device) -> Streams | None:
        return _streams(device)


#: Operations whose kernels take a Python scalar as a parameter, of the dtype of the operand beside
#: it (`CScalar.apply_dtype` in _scalar.pyx), and compute the same with it as with an element.
_SCALARS: Final = frozenset(
    {
        "add",
        "bitwise_and",
        "bitwise_left_shift",
        "bitwise_or",
        "bitwise_right_shift",
        "bitwise_xor",
        "divide",
        "equal",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "maximum",
        "minimum",
        "multiply",
        "not_equal",
        "subtract",
    }
)
_IN_PLACE: Final = frozenset(
    {
        "__iadd__",
        "__iand__",
        "__ilshift__",
        "__imul__",
        "__ior__",
        "__irshift__",
        "__isub__",
        "__itruediv__",
        "__ixor__",
    }
)
#: Before 14 the dtype depends on the scalar's value.
_TAKEN: Final = _SCALARS if int(cupy.__version__.partition(".")[0]) >= 14 else frozenset()
_EVERYTHING: Final = Capabilities(
    max_dimensions=64,
    scalars_first=_TAKEN,
    # These look at the divisor, or the exponent, and wait for the device if it is there.
    scalars_second=_TAKEN and _TAKEN | _IN_PLACE | {"floor_divide", "pow", "remainder"},
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
        if not copy or params.get("dl_device") not in (None, self.__dlpack_device__()):
            return self.native.__dlpack__(copy=copy, **params)
        with self.native.device:  # in its current stream, which that of the consumer waits for
            made = self.native.copy()
        return made.__dlpack__(**params)


@cache
def _streams(device: Device) -> _cupy_streams.CuPyStreams:
    return _cupy_streams.CuPyStreams(device)


@cache
def _place(device: Device) -> Any:
    """Return CuPy's own object for a device."""
    return cupy.cuda.Device(device.index)


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

    return run


# ---------------------------------------------------------------------------- creation


def _on_device(function: Function) -> Function:
    """Enter the device; compat takes one of CuPy's, and its own names for it."""

    def create(*args: Any, dtype: Any, device: Device, **params: Any) -> Array:
        with _place(device):
            return function(*args, dtype=dtype, **params)

    return create


def _eye(n_rows: int, n_cols: int | None, *, k: int, dtype: Any) -> Array:
    return cupy.eye(n_rows, n_cols, k, dtype)


def _arange(first: float, last: float, pace: float, *, dtype: Any) -> Array:
    dtype = np.dtype(dtype)
    whole = all(isinstance(x, int) for x in (first, last, pace))
    if dtype.kind not in "iu" or not whole:
        return cupy.arange(first, last, pace, dtype)
    limits = np.iinfo(dtype)
    if limits.min <= pace <= limits.max and abs(last - first) < 2**53:
        return cupy.arange(first, last, pace, dtype)
    # CuPy counts in floats, and wants a step that the dtype holds, as -1 is none of uint8. Unsigned
    # integers wrap around as often as it takes.
    unsigned, wrap = np.dtype(f"u{dtype.itemsize}"), 2 ** (8 * dtype.itemsize)
    count = len(range(int(first), int(last), int(pace)))
    steps = cupy.arange(0, count, 1, unsigned) * unsigned.type(pace % wrap)
    return (steps + unsigned.type(first % wrap)).view(dtype)


def _linspace(start: Any, stop: Any, num: int, *, dtype: Any, endpoint: bool) -> Array:
    dtype = np.dtype(dtype)
    if dtype.kind == "c":  # whose ends CuPy makes floats (ranges.py)
        part = np.finfo(dtype).dtype
        return _complex_of(
            _linspace(start.real, stop.real, num, dtype=part, endpoint=endpoint),
            _linspace(start.imag, stop.imag, num, dtype=part, endpoint=endpoint),
        )
    made = cupy.linspace(start, stop, num, endpoint, dtype=dtype)
    if endpoint and num > 1 and stop == 0 and math.copysign(1, stop) < 0:
        made[-1] = cupy.full((), stop, dtype)  # of numbers that are written zeros lose their sign
    return made


# fftfreq and rfftfreq take no dtype in CuPy; float32 is rounded once from float64.
def _fftfreq(n: int, *, d: float, dtype: Any) -> Array:
    return cupy.fft.fftfreq(n, d).astype(dtype, copy=False)


def _rfftfreq(n: int, *, d: float, dtype: Any) -> Array:
    return cupy.fft.rfftfreq(n, d).astype(dtype, copy=False)


# CuPy puts axes in their order, and leaves sizes as they were given (_prep_fftn_axes in _fft.py).
def _fftn(function: Function) -> Function:
    def transform(x: Array, *, s: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Array:
        return function(x, norm=norm, **_in_order(s, axes))

    return transform


def _rfftn(x: Array, *, s: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Array:
    if sorted(axes) == list(axes):
        return cupy.fft.rfftn(x, s, axes, norm)
    half = cupy.fft.rfft(x, s[-1], axes[-1], norm)
    return cupy.fft.fftn(half, norm=norm, **_in_order(s[:-1], axes[:-1]))


def _irfftn(x: Array, *, s: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Array:
    if sorted(axes) == list(axes):
        return cupy.fft.irfftn(x, s, axes, norm)
    half = cupy.fft.ifftn(x, norm=norm, **_in_order(s[:-1], axes[:-1]))
    return cupy.fft.irfft(half, s[-1], axes[-1], norm)


def _in_order(s: tuple[int, ...], axes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    pairs = sorted(zip(axes, s, strict=True))
    return {"s": tuple(n for _, n in pairs), "axes": tuple(axis for axis, _ in pairs)}


# ---------------------------------------------------------------------------- indexing


def _getitem(x: Array, key: Any) -> Array:
    if key.__class__ is not slice and key.__class__ is not int:
        _look_at_key(x, key)
    try:
        return x[key]
    except (IndexError, OverflowError):
        near = _near(key)
        if near is key:
            raise
    return x[near]


def _setitem(x: Array, key: Any, value: Array) -> Array:
    _look_at_key(x, key)
    x[_near(key)] = _apart(x, value)
    return x


#: Beyond every axis, and within the integers of C, which is all that CuPy takes.
_FAR: Final = 1 << 62


def _near(key: Any) -> Any:
    """Return a key whose slices have bounds that CuPy takes, and the same meaning."""
    if isinstance(key, tuple):
        parts = tuple(map(_near, key))
        return key if all(map(operator.is_, parts, key)) else parts
    if key.__class__ is not slice:
        return key
    bounds = [
        n if n is None or -_FAR <= n <= _FAR else int(math.copysign(_FAR, n))
        for n in (key.start, key.stop, key.step)
    ]
    return key if bounds == [key.start, key.stop, key.step] else slice(*bounds)


def _look_at_key(x: Array, key: Any) -> None:
    """Refuse integers beyond their axis: in arrays CuPy wraps them.

    https://docs.cupy.dev/en/stable/user_guide/difference.html#out-of-bounds-indices
    """
    parts = key if isinstance(key, tuple) else (key,)
    for part in parts:  # `any` takes longer
        if isinstance(part, cupy.ndarray):
            break
    else:
        return
    axis, used = 0, sum(map(_width, parts))
    for part in parts:
        if part is Ellipsis:
            axis += x.ndim - used
            continue
        if isinstance(part, cupy.ndarray) and part.dtype.kind in "iu" and axis < x.ndim:
            _within(part, x.shape[axis], axis)
        axis += _width(part)


def _width(part: Any) -> int:
    """Return how many axes a part of a key indexes."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, cupy.ndarray) and part.dtype.kind == "b" else 1


def _within(indices: Array, length: int, axis: int) -> None:
    if indices.size and not (-length <= int(indices.min()) and int(indices.max()) < length):
        raise IndexError(f"indices reach beyond axis {axis} of size {length}")


def _apart(x: Array, other: Array) -> Array:
    """Return an operand in memory of its own if what is written into `x` could change it.

    CuPy's kernels read what others of their threads have just written.
    """
    if not isinstance(other, cupy.ndarray):
        return other  # a Python scalar
    return other.copy() if other is not x and cupy.may_share_memory(x, other) else other


def _take(x: Array, indices: Array, *, axis: int) -> Array:
    _within(indices, x.shape[axis], axis)
    return cupy.take(x, indices, axis)


def _take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    _within(indices, x.shape[axis], axis)
    return cupy.take_along_axis(x, indices, axis)


def _repeat(x: Array, repeats: Any, *, axis: int | None) -> Array:
    # An array of counts is taken since CuPy 14 only; the shape needs them on the host anyway.
    counts = repeats.tolist() if isinstance(repeats, cupy.ndarray) else repeats
    return cupy.repeat(x, counts, axis)


# ---------------------------------------------------------------------------- elementwise


def _floor_divide(x1: Array, x2: Array) -> Array:
    if x1.dtype.kind in "iu":
        _without_zero("floor_divide", x2)
        return cupy.floor_divide(x1, x2)
    x2 = _on_device_of(x1, x2)
    # CuPy rounds the quotient before it takes its floor (carray.cuh), so that 1 // 0.1 is 10. The
    # quotient of what is left by the exact remainder is a whole number but for rounding; where
    # something is infinite or zero, the standard wants the floor of what `divide` gives.
    quotient, rest = cupy.divide(x1, x2), cupy.fmod(x1, x2)
    whole = cupy.divide(x1 - rest, x2)
    whole = cupy.rint(cupy.where((rest != 0) & ((x2 < 0) != (rest < 0)), whole - 1, whole))
    whole = cupy.where(whole == 0, cupy.copysign(whole, quotient), whole)
    special = cupy.isinf(x1) | cupy.isinf(x2) | (x2 == 0)
    return cupy.where(special, cupy.floor(quotient), whole)


def _remainder(x1: Array, x2: Array) -> Array:
    if x1.dtype.kind in "iu":
        _without_zero("remainder", x2)
        return cupy.remainder(x1, x2)
    x2 = _on_device_of(x1, x2)
    # CuPy subtracts the floor of the rounded quotient times x2 (_routines_math.pyx): NaN beside an
    # infinite x2, and nothing left of the digits where the quotient is large. fmod is exact.
    rest = cupy.fmod(x1, x2)
    rest = cupy.where((rest != 0) & ((x2 < 0) != (rest < 0)), rest + x2, rest)
    return cupy.where(rest == 0, cupy.copysign(rest, x2), rest)


def _on_device_of(x: Array, value: Any) -> Array:
    """Return an operand that may be a Python scalar as an array."""
    return value if isinstance(value, cupy.ndarray) else cupy.full((), value, x.dtype)


def _without_zero(name: str, x2: Array) -> None:
    # CuPy answers 0.
    if bool((x2 == 0).any() if isinstance(x2, cupy.ndarray) else x2 == 0):
        raise ZeroDivisionError(f"{name}: x2 holds 0; expected no zero among integers")


def _pow(x1: Array, x2: Array) -> Array:
    # CuPy answers 0, 1 or -1 (integral_power in _routines_math.pyx).
    if x1.dtype.kind == "i" and bool((x2 < 0).any() if isinstance(x2, cupy.ndarray) else x2 < 0):
        raise ValueError("pow: x2 holds a negative integer; expected powers of at least 0")
    return cupy.power(x1, x2)


def _sign(x: Array) -> Array:
    if x.dtype.kind != "c":
        return cupy.sign(x)
    # Divided by a complex number (arithmetic.h), what is nearly zero becomes NaN.
    modulus = cupy.abs(x)
    result = _complex_of(x.real / modulus, x.imag / modulus)
    cupy.copyto(result, 0, where=modulus == 0)
    return result


def _expm1(x: Array) -> Array:
    if x.dtype.kind != "c":
        return cupy.expm1(x)
    special = cupy.exp(x) - 1
    # That is all that CuPy computes (complex.cuh): near zero nothing is left of the digits.
    real, imag = x.real, x.imag
    small = cupy.expm1(real) * cupy.cos(imag) - 2 * cupy.sin(imag / 2) ** 2
    result = _complex_of(small, cupy.exp(real) * cupy.sin(imag))
    result = cupy.where(cupy.isfinite(result), result, special)
    # The standard wants +0 for the real part at zero.
    return cupy.where(x == 0, _complex_of(cupy.zeros_like(real), imag), result)


def _log(x: Array) -> Array:
    return _infinite_at_infinity(cupy.log(x), x)


def _log10(x: Array) -> Array:
    return _infinite_at_infinity(cupy.log10(x), x)


def _log2(x: Array) -> Array:
    if x.dtype.kind != "c":
        return cupy.log2(x)
    # CuPy divides by a complex number (complex.cuh): infinities become NaN, zeros lose their sign.
    result = _log(x)
    for part in (result.real, result.imag):
        cupy.divide(part, math.log(2), part)
    return result


def _infinite_at_infinity(result: Array, x: Array) -> Array:
    if x.dtype.kind == "c":
        # Beside a NaN CuPy takes the logarithm of the sum of squares (clog.h), another NaN.
        cupy.copyto(result.real, math.inf, where=cupy.isinf(x))
    return result


def _log1p(x: Array) -> Array:
    if x.dtype.kind != "c":
        return cupy.log1p(x)
    # CuPy adds the one and takes the logarithm (complex.cuh), which loses what the one rounds
    # away, and the sign of a zero. Near zero |1 + x|**2 - 1 is found without it.
    real, imag = x.real, x.imag
    close = cupy.log1p(real * (2 + real) + imag * imag) / 2
    close = _complex_of(close, cupy.arctan2(imag, 1 + real))
    return cupy.where(cupy.abs(x) < 0.5, close, _log(_complex_of(real + 1, imag)))


def _complex_of(real: Array, imag: Array) -> Array:
    """Put two parts together; their sum would lose infinities and signs."""
    made = cupy.empty(real.shape, np.result_type(real.dtype, np.complex64))
    made.real, made.imag = real, imag
    return made


def _tanh(x: Array) -> Array:
    result = cupy.tanh(x)
    if x.dtype.kind != "c":
        return result
    real, imag = x.real, x.imag
    # C99 leaves the sign of the zero at infinity to sin(2 y); the standard takes that of y.
    limit = cupy.isinf(real) & cupy.isfinite(imag)
    cupy.copyto(result.imag, cupy.copysign(cupy.zeros_like(imag), imag), where=limit)
    # On the imaginary axis the real part is zero, also beside a NaN, which ctanh.h has there.
    cupy.copyto(result.real, real, where=(real == 0) & ~cupy.isfinite(imag))
    return result


def _tan(x: Array) -> Array:
    result = cupy.tan(x)
    if x.dtype.kind == "c":
        # It is that of tanh, turned.
        real, imag = x.real, x.imag
        cupy.copyto(result.imag, imag, where=(imag == 0) & ~cupy.isfinite(real))
    return result


def _acosh(x: Array) -> Array:
    result = cupy.arccosh(x)
    if x.dtype.kind == "c":
        # C99's first editions have NaN there for the imaginary part too, as has catrig.h.
        cupy.copyto(result.imag, math.pi / 2, where=(x.real == 0) & cupy.isnan(x.imag))
    return result


def _clip(x: Array, min: Array | None = None, max: Array | None = None) -> Array:
    # compat casts bounds by value, which waits for the device; ours have x's dtype already.
    if min is not None:
        x = cupy.maximum(x, min)
    if max is not None:
        return cupy.minimum(x, max)
    return x.copy() if min is None else x


# ---------------------------------------------------------------------------- reductions
# What compat and CuPy's own functions call in the end: on few elements their layers of Python take
# more time than all that corepy adds.


def _sum(x: Array, *, axis: Any, dtype: Any, keepdims: bool) -> Array:
    # A dtype that is named takes CuPy a while to look up.
    return x.sum(axis, None if dtype is x.dtype and dtype.kind in "fc" else dtype, None, keepdims)


def _prod(x: Array, *, axis: Any, dtype: Any, keepdims: bool) -> Array:
    return x.prod(axis, dtype, None, keepdims)


def _max(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return x.max(axis, None, keepdims)


def _min(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return x.min(axis, None, keepdims)


def _mean(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return x.mean(axis, None, None, keepdims)


def _all(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return x.all(axis, None, keepdims)


def _any(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return x.any(axis, None, keepdims)


def _astype(x: Array, dtype: Any, *, copy: bool) -> Array:
    return x.astype(dtype, copy=copy)


# ---------------------------------------------------------------------------- linear algebra


def _solvable(function: Function, failure: str) -> Function:
    """Raise NumPy's error for singular matrices, where CuPy by default fills results with NaN.

    CuPy's own words are the number that the routine of cuSOLVER has returned.

    https://docs.cupy.dev/en/stable/user_guide/difference.html#linear-algebra
    """

    def solve(*args: Any, **params: Any) -> Any:
        try:
            with cupyx.errstate(linalg="raise"):
                return function(*args, **params)
        except np.linalg.LinAlgError as error:
            if "devInfo" not in str(error):
                raise
            raise np.linalg.LinAlgError(failure) from error

    return solve


#: In NumPy's words.
_FAILURES: Final = {
    "cholesky": "Matrix is not positive definite",
    "eigh": "Eigenvalues did not converge",
    "eigvalsh": "Eigenvalues did not converge",
    "inv": "Singular matrix",
    "matrix_norm": "SVD did not converge",
    "matrix_power": "Singular matrix",
    "matrix_rank": "SVD did not converge",
    "pinv": "SVD did not converge",
    "svd": "SVD did not converge",
    "svdvals": "SVD did not converge",
}


def _solve(x1: Array, x2: Array) -> Array:
    # CuPy wants stacks of one shape, and takes a stack of vectors where the standard has matrices.
    right = x2[:, None] if x2.ndim == 1 else x2
    stack = np.broadcast_shapes(x1.shape[:-2], right.shape[:-2])
    if 0 in right.shape[-2:] or 0 in stack:  # CuPy divides by the number of columns
        return cupy.empty(stack + (right.shape[-2:] if x2.ndim > 1 else x2.shape), x1.dtype)
    left = cupy.broadcast_to(x1, stack + x1.shape[-2:])
    found = cupy.linalg.solve(left, cupy.broadcast_to(right, stack + right.shape[-2:]))
    return found[..., 0] if x2.ndim == 1 else found


def _qr(x: Array, *, mode: str) -> Any:
    if 0 in x.shape:
        return compat.linalg.qr(x, mode=mode)
    # cuSOLVER squares elements as they are: beyond the root of the greatest float R is NaN. By a
    # power of two nothing is rounded.
    top = cupy.maximum(cupy.abs(x.real), cupy.abs(x.imag)) if x.dtype.kind == "c" else cupy.abs(x)
    top = top.max(axis=(-2, -1), keepdims=True)
    most = 1000 if top.dtype.itemsize == 8 else 104
    power = cupy.clip(cupy.frexp(top)[1], -most, most)
    one = cupy.ones_like(top)
    q, r = compat.linalg.qr(x * cupy.ldexp(one, -power), mode=mode)
    return q, r * cupy.ldexp(one, power)


_GENERAL_EIGENVALUES: Final = ("linalg.eig", "linalg.eigvals")


@cache
def _has_general_eigenvalues() -> bool:
    """Say whether there are any: since CuPy 14, in cuSOLVER of CUDA 12.6, and not in ROCm."""
    from cupyx import cusolver

    there = hasattr(cupy.linalg, "eig") and _KIND == "cuda"
    return there and bool(cusolver.check_availability("geev"))


def _eig(x: Array) -> tuple[Array, Array]:
    values, vectors = cupy.linalg.eig(x)
    return _complex(values), _complex(vectors)


def _eigvals(x: Array) -> Array:
    return _complex(cupy.linalg.eigvals(x))


def _complex(x: Array) -> Array:
    return x.astype(np.result_type(x.dtype, np.complex64), copy=False)


# ---------------------------------------------------------------------------- in place


def _inplace(write: Function) -> Function:
    def update(x1: Array, x2: Array) -> Array:
        return write(x1, _apart(x1, x2))

    return update


def _written(function: Function) -> Function:
    """Write the result of a function with a fix into its first operand."""

    def update(x1: Array, x2: Array) -> Array:
        x1[...] = function(x1, x2)
        return x1

    return update


_FIXES: Final[dict[str, Function]] = {
    **{name: _on_device(getattr(cupy, name)) for name in ("empty", "full", "ones", "zeros")},
    "arange": _on_device(_arange),
    "linspace": _on_device(_linspace),
    "eye": _on_device(_eye),
    "fft.fftn": _fftn(cupy.fft.fftn),
    "fft.ifftn": _fftn(cupy.fft.ifftn),
    "fft.rfftn": _rfftn,
    "fft.irfftn": _irfftn,
    "fft.fftfreq": _on_device(_fftfreq),
    "fft.rfftfreq": _on_device(_rfftfreq),
    "__getitem__": _getitem,
    "__setitem__": _setitem,
    "take": _take,
    "take_along_axis": _take_along_axis,
    "repeat": _repeat,
    "sum": _sum,
    "prod": _prod,
    "max": _max,
    "min": _min,
    "mean": _mean,
    "all": _all,
    "any": _any,
    "astype": _astype,
    "matmul": cupy.matmul,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "pow": _pow,
    "acosh": _acosh,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "log2": _log2,
    "log10": _log10,
    "sign": _sign,
    "tan": _tan,
    "tanh": _tanh,
    "clip": _clip,
    **{
        f"linalg.{name}": _solvable(getattr(compat.linalg, name), failure)
        for name, failure in _FAILURES.items()
    },
    "linalg.qr": _qr,
    "linalg.solve": _solvable(_solve, "Singular matrix"),
    "linalg.eig": _solvable(_eig, "Eigenvalues did not converge"),
    "linalg.eigvals": _solvable(_eigvals, "Eigenvalues did not converge"),
    "__iadd__": _inplace(operator.iadd),
    "__isub__": _inplace(operator.isub),
    "__imul__": _inplace(operator.imul),
    "__itruediv__": _inplace(operator.itruediv),
    "__iand__": _inplace(operator.iand),
    "__ior__": _inplace(operator.ior),
    "__ixor__": _inplace(operator.ixor),
    "__ilshift__": _inplace(operator.ilshift),
    "__irshift__": _inplace(operator.irshift),
    "__ifloordiv__": _written(_floor_divide),
    "__imod__": _written(_remainder),
    "__ipow__": _written(_pow),
}
