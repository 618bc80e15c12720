"""MLX on the host, or on Apple's GPU through Metal: `mlx.core`, and what it leaves wrong.

MLX is lazy, and a thread cannot evaluate what another one left unevaluated
(`RuntimeError: There is no Stream(cpu, 0) in current thread`). So every result is sent to the
device at once, without waiting for it. Inside MLX's own transformations (``mx.grad``,
``mx.compile``) it stays symbolic, and what NumPy would have to compute is refused there.

An allocation that fails ends the process, as does every error of a result that was sent without
waiting for it (ml-explore/mlx#4329). So NumPy is asked first whether there is room for a large
result, and arrays of the user's are waited for.

MLX has no complex128. On the host, where the standard wants every dtype, arrays of it are NumPy's,
and so are their operations. Metal has no float64 either.

The host build is where this backend is measured. Metal is served by the same code, which has not
been run there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

# Or MLX computes products of float32 in TF32 where the hardware has it. It asks once, at the first
# (https://github.com/ml-explore/mlx/issues/3534).
os.environ.setdefault("MLX_ENABLE_TF32", "0")

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from corepy import _dtypes
from corepy._dtypes import DTYPES, DType, Scalar
from corepy.backends._base import Backend, Capabilities
from corepy.backends._kinds import dtypes_on
from corepy.devices._device import CPU, Device, as_device

#: An mx.array.
Array: TypeAlias = Any
#: What complex128 is held in.
HostArray = npt.NDArray[Any]


class MLXBackend(Backend):
    """MLX on ``mps`` where Metal is present, else on ``cpu``."""

    name = "mlx"

    def is_available(self) -> bool:
        # In the CUDA build arrays live where NumPy cannot look, which nobody has tried yet.
        return not mx.cuda.is_available()

    def devices(self) -> tuple[Device, ...]:
        return (as_device("mps"),) if mx.metal.is_available() else (CPU,)

    def capabilities(self, device: Device) -> Capabilities:
        return _ON_HOST if device is CPU else _ON_METAL

    def operation(self, name: str) -> Callable[..., Any] | None:
        return _OPERATIONS.get(name)

    def rounded(self, native: Array, dtype: str) -> Array:
        return _sent(native.astype(getattr(mx, dtype)).astype(mx.float32))

    def allow_tf32(self, allowed: bool) -> str | None:
        os.environ["MLX_ENABLE_TF32"] = str(int(allowed))
        if self.devices()[0] is CPU:
            return None
        return "MLX asks for MLX_ENABLE_TF32 once, at its first product"

    def supports(self, name: str, dtype: DType, device: Device) -> bool:
        if dtype in _LEFT.get(name, ()):
            return False
        if device is CPU and dtype in _LEFT_ON_HOST.get(name, ()):
            return False
        return super().supports(name, dtype, device)

    def owns(self, obj: object) -> bool:
        return isinstance(obj, mx.array) or (isinstance(obj, np.ndarray) and obj.dtype == _WIDE)

    def dtype_of(self, native: Array | HostArray) -> DType:
        dtype = _BY_NATIVE.get(native.dtype)
        if dtype is None:
            raise TypeError(f"its dtype is {native.dtype}; expected one of {', '.join(DTYPES)}")
        return dtype

    def native_dtype(self, dtype: DType) -> mx.Dtype | np.dtype[Any]:
        return _NATIVE[dtype]

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> Array | HostArray:
        # MLX reads a Python int as int32 or int64, and refuses the upper half of uint64.
        return _from_host(np.array(value, dtype.name))

    def item(self, native: Array | HostArray) -> Scalar:
        value: Scalar = _seen(native).item()  # mx.array.item fails in the upper half of uint64
        return value

    def to_numpy(self, native: Array | HostArray, *, copy: bool | None = None) -> HostArray:
        host = _host(native)
        return host.copy() if copy else host

    def peek(self, native: Array | HostArray) -> HostArray:
        return _seen(native)

    def from_numpy(
        self, array: HostArray, device: Device, *, copy: bool | None = None
    ) -> Array | HostArray:
        if array.dtype == _WIDE:
            return array.copy() if copy else array
        if copy is False:
            raise ValueError("mlx takes no memory of others; expected copy other than False")
        return _from_host(array)

    def adopt(self, native: Array) -> Array:
        _FOREIGN[id(native)] = native
        try:
            mx.eval(native)  # mx.async_eval ends the process where this raises (mlx#4329)
        except RuntimeError as error:
            raise RuntimeError(f"mlx cannot evaluate it in this thread ({error})") from error
        except ValueError as error:
            if "function transformations" not in str(error):  # mx.compile
                raise
        fresh = _sent(mx.expand_dims(native, 0))  # not evaluated yet: shows whether it is traced
        if id(fresh) in _TRACED:
            _TRACED[id(native)] = native
        else:
            _TRACED.pop(id(native), None)
        return native

    def is_writable(self, native: Array | HostArray) -> bool:
        return isinstance(native, mx.array) or native.flags.writeable

    def exporter(self, native: Array | HostArray) -> Any:
        shared = isinstance(native, mx.array) and self.device_of(native) is CPU
        return _Exporter(native) if shared else native

    def synchronize(self, device: Device) -> None:
        mx.synchronize()


_WIDE: Final = np.dtype("complex128")
_COMPLEX128: Final = frozenset({_dtypes.complex128})
_NATIVE: Final[dict[DType, Any]] = {
    **{d: getattr(mx, name) for name, d in DTYPES.items() if d.bits < 128 and d.rank > 0},
    _dtypes.bool: mx.bool_,
    _dtypes.complex128: _WIDE,
}
_BY_NATIVE: Final[dict[Any, DType]] = {native: d for d, native in _NATIVE.items()}

_ON_HOST: Final = Capabilities(max_dimensions=64)
_ON_METAL: Final = Capabilities(dtypes=dtypes_on("mlx", "mps"), max_dimensions=64)


#: Arrays that users brought, by their ids. To write replaces what an mx.array refers to, and
#: frees it under the memoryviews of it that the user may hold.
_FOREIGN: Final[WeakValueDictionary[int, Array]] = WeakValueDictionary()
#: Arrays that a transformation of MLX traces, by their ids. Evaluated ones do not show it.
_TRACED: Final[WeakValueDictionary[int, Array]] = WeakValueDictionary()


# ---------------------------------------------------------------------------- memory


def _seen(x: Array | HostArray) -> HostArray:
    """Return the values, read-only, in the memory of `x`.

    A DLPack export keeps that memory alive; a memoryview is left dangling when something is
    written to its mx.array, which then refers to other memory.
    """
    return np.from_dlpack(x) if isinstance(x, mx.array) else x


class _Exporter:
    """Gives memory of MLX away when nothing there uses it, and read-only.

    MLX does not wait, and speaks DLPack of before version 1, which says nothing of read-only
    memory. Other arrays may share it; and torch writes to it whatever is said.
    """

    def __init__(self, native: Array) -> None:
        self.native = native

    def __dlpack_device__(self) -> tuple[int, int]:
        place: tuple[int, int] = self.native.__dlpack_device__()
        return place

    def __dlpack__(
        self, *, max_version: tuple[int, int] | None, copy: bool | None, **params: Any
    ) -> Any:
        mx.synchronize()
        host = _host(self.native)
        backwards = min(host.strides, default=0) < 0  # where torch ends the process
        if backwards and copy is False:
            raise BufferError("x has a negative stride; expected none for copy=False")
        if max_version is None and copy is False:  # who says so shares, and must not write
            return self.native.__dlpack__(**params)
        if max_version is None or backwards:
            host = host.copy()
        return host.__dlpack__(max_version=max_version, copy=copy, **params)


def _host(x: Array | HostArray) -> HostArray:
    """Return the values to be computed with outside of MLX.

    ``mx.grad`` would take what comes of them for constants, and answer 0.
    """
    if _TRACED and _TRACED.get(id(x)) is x:
        raise ValueError(
            "the operand is traced by a transformation of MLX such as mx.grad; expected an array "
            "with values, for NumPy computes this function"
        )
    return _seen(x)


def _from_host(array: HostArray) -> Array | HostArray:
    if array.dtype == _WIDE:
        return array
    # Without a dtype float64 becomes float32; negative strides are refused.
    values = np.asarray(array, order="C")
    if min(values.strides, default=0) < 0:  # of an axis of one element, which has no order
        values = values.copy()
    _check_room(values)
    return mx.array(values, _NATIVE[DTYPES[values.dtype.name]])


#: Bytes below which an allocation can be trusted to succeed.
_LARGE: Final = 2**30


def _check_room(x: Array | HostArray) -> None:
    if x.nbytes > _LARGE:
        np.empty(x.nbytes, np.int8)  # takes no memory before it is written; raises MemoryError


def _sent(result: Any) -> Any:
    """Send an array, or a sequence of them, to the device without waiting for the values."""
    try:
        mx.async_eval(result)
    except ValueError as error:
        if "graph transformation" not in str(error):  # mx.grad and mx.compile want it symbolic
            raise
        for part in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(part, mx.array):
                _TRACED[id(part)] = part
    return result


def _sending(function: Callable[..., Any]) -> Callable[..., Any]:
    def native(*args: Any, **kwargs: Any) -> Any:
        try:
            made = function(*args, **kwargs)
        except TypeError as error:
            if "incompatible function arguments" not in str(error):
                raise
            # The dispatcher has checked everything else.
            raise OverflowError("expected sizes and steps of 32 bits, as MLX has them") from error
        if function is not mx.broadcast_to:  # whose result takes no memory
            for part in made if isinstance(made, (list, tuple)) else (made,):
                _check_room(part)
        return _sent(made)

    return native


def _astype(x: Array, dtype: mx.Dtype | np.dtype[Any], *, copy: bool = True) -> Array | HostArray:
    if isinstance(dtype, np.dtype):
        return _host(x).astype(dtype)
    if x.dtype != dtype:
        return x.astype(dtype)
    return mx.array(x) if copy else x


# ---------------------------------------------------------------------------- creation


def _full(shape: tuple[int, ...], value: Scalar, *, dtype: mx.Dtype, device: Device) -> Array:
    return mx.full(shape, _from_host(np.array(value, _BY_NATIVE[dtype].name)), dtype)


def _zeros(shape: tuple[int, ...], *, dtype: mx.Dtype, device: Device) -> Array:
    return mx.zeros(shape, dtype)


def _ones(shape: tuple[int, ...], *, dtype: mx.Dtype, device: Device) -> Array:
    return mx.ones(shape, dtype)


def _eye(n_rows: int, n_cols: int, *, k: int, dtype: mx.Dtype, device: Device) -> Array:
    return mx.eye(n_rows, n_cols, k, dtype)


# ---------------------------------------------------------------------------- indexing

#: Bounds of slices that are surely small enough, with room to add two.
_SMALL: Final = 2**30


def _getitem(x: Array, key: Any) -> Array:
    parts = key if isinstance(key, tuple) else (key,)
    arrays = [part for part in parts if isinstance(part, mx.array)]
    if not arrays:
        return x[_checked(x, parts)]
    if len(parts) == 1 and arrays[0].dtype != mx.bool_ and x.ndim:
        return _take(x, arrays[0], axis=0)
    # Boolean masks are missing in MLX, and arrays beside slices go unchecked.
    return _from_host(_host(x)[_host_key(key)])


def _setitem(x: Array, key: Any, value: Array) -> Array:
    parts = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(part, mx.array) for part in parts):
        if id(x) in _FOREIGN:
            x = x.astype(x.dtype)  # an mx.array of our own, on the same memory until it is written
        x[_checked(x, parts)] = value
        return x
    host = _host(x).copy()
    host[_host_key(key)] = _host(value)
    return _from_host(host)


def _host_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_host_key(part) for part in key)
    return _host(key) if isinstance(key, mx.array) else key


def _checked(x: Array, parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return a key without arrays in a form that MLX survives.

    Integers out of bounds read and write whatever lies there, and a step of 0 ends the process.
    """
    used = sum(part is not None and part is not Ellipsis for part in parts)
    found: list[Any] = []
    axis = 0
    for part in parts:
        if part is Ellipsis:
            axis += x.ndim - used
        elif isinstance(part, slice):
            part = _checked_slice(part, x.shape[axis])
            axis += 1
        elif part is not None:
            if not -x.shape[axis] <= part < x.shape[axis]:
                raise IndexError(f"{part} is out of bounds for axis {axis} of size {x.shape[axis]}")
            axis += 1
        found.append(part)
    return tuple(found)


def _checked_slice(part: slice, size: int) -> slice:
    if all(
        bound is None or 0 < abs(bound) <= _SMALL for bound in (part.start, part.stop, part.step)
    ):
        return part
    # MLX takes bounds of 32 bits, and adds them up in 32 bits. Python raises for a step of 0.
    start, stop, step = part.indices(size)
    reach = max(size, 1)
    return slice(start, None if stop < 0 else stop, max(-reach, min(step, reach)))


def _check_indices(indices: Array, size: int, axis: int) -> None:
    """Refuse arrays of indices that hold one out of bounds, for the same reason."""
    found = _seen(indices)
    if found.size and not (-size <= int(found.min()) and int(found.max()) < size):
        raise IndexError(f"an index is out of bounds for axis {axis} of size {size}")


def _take(x: Array, indices: Array, *, axis: int) -> Array:
    _check_indices(indices, x.shape[axis], axis)
    return mx.take(x, indices, axis)


def _take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    _check_indices(indices, x.shape[axis], axis)
    return mx.take_along_axis(x, indices, axis)


# ---------------------------------------------------------------------------- elementwise


def _log1p(x: Array) -> Array:
    made = mx.log1p(x)
    if x.dtype != mx.complex64 or mx.metal.is_available():  # which has no float64
        return made
    # MLX rounds in between, and loses every digit of log(abs(1 + x)) where that is near 0.
    real, imag = (part(x).astype(mx.float64) for part in (mx.real, mx.imag))
    beyond = real * (2 + real) + imag * imag  # abs(1 + x)**2 - 1
    near_0 = mx.log(mx.square(1 + real) + mx.square(imag))
    size = (mx.where(beyond < -0.5, near_0, mx.log1p(beyond)) / 2).astype(mx.float32)
    parts = mx.stack([mx.where(mx.isfinite(size), size, mx.real(made)), mx.imag(made)], -1)
    return mx.squeeze(mx.view(parts, mx.complex64), -1)


def _sign(x: Array) -> Array:
    return mx.where(mx.isnan(x), x, mx.sign(x))  # MLX: 0


def _clip(x: Array, min: Array | None = None, max: Array | None = None) -> Array:
    if min is None and max is None:
        return x.astype(x.dtype)
    return mx.clip(x, min, max)


# ---------------------------------------------------------------------------- manipulation


def _reshape(x: Array, shape: tuple[int, ...], *, copy: bool | None) -> Array:
    if copy is False:  # MLX copies where it has to, and does not say so, as NumPy does
        _host(x).reshape(shape, copy=False)
    made = mx.reshape(x, shape)
    return mx.array(made) if copy else made


def _permute_dims(x: Array, *, axes: tuple[int, ...]) -> Array:
    return mx.transpose(x, axes)


def _moveaxis(x: Array, source: Any, destination: Any) -> Array:
    # MLX moves one axis only.
    moved = dict(zip(_axes(destination), _axes(source), strict=True))
    rest = iter(axis for axis in range(x.ndim) if axis not in moved.values())
    return mx.transpose(x, [moved[i] if i in moved else next(rest) for i in range(x.ndim)])


def _axes(axis: int | Sequence[int]) -> Sequence[int]:
    return (axis,) if isinstance(axis, int) else axis


def _roll(x: Array, shift: Any, *, axis: Any) -> Array:
    # MLX takes shifts of 32 bits.
    if axis is None:
        return mx.roll(x, shift % max(x.size, 1))
    places = _axes(axis)
    shifts = (shift,) * len(places) if isinstance(shift, int) else shift
    steps = tuple(n % max(x.shape[i], 1) for n, i in zip(shifts, places, strict=True))
    return mx.roll(x, steps, tuple(places))


def _repeat(x: Array, repeats: Any, *, axis: int | None) -> Array:
    if not isinstance(repeats, mx.array):
        return mx.repeat(x, repeats, axis)
    flat = mx.reshape(x, (-1,)) if axis is None else x  # MLX takes no arrays of counts
    place = axis or 0
    counts = np.broadcast_to(_seen(repeats), (flat.shape[place],))
    chosen = np.repeat(np.arange(flat.shape[place]), counts)
    return mx.take(flat, mx.array(chosen), place)


# ---------------------------------------------------------------------------- searching, sorting


def _to_index(function: Callable[..., Array], on_host: Callable[..., Any]) -> Callable[..., Array]:
    reduce = _reducing(function, on_host)

    def counted(x: Array, *, axis: Any, keepdims: bool) -> Array:
        # MLX counts in int32 and uint32, and fails to keep the dimensions where there are none.
        return reduce(x, axis=axis, keepdims=keepdims and x.ndim > 0).astype(mx.int64)

    return counted


def _sort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    if not descending:
        return mx.sort(x, axis)
    return mx.flip(mx.sort(mx.flip(x, axis), axis), axis)  # as in `_argsort`


def _argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    if not descending:
        return mx.argsort(x, axis).astype(mx.int64)
    # Sorting backwards what is sorted backwards keeps equal elements in their order.
    order = mx.argsort(mx.flip(x, axis), axis).astype(mx.int64)
    return x.shape[axis] - 1 - mx.flip(order, axis)


# ---------------------------------------------------------------------------- statistics


def _reducing(function: Callable[..., Array], on_host: Callable[..., Any]) -> Callable[..., Array]:
    def reduce(x: Array, *, axis: Any, keepdims: bool) -> Array:
        if x.size:
            return function(x, axis=axis, keepdims=keepdims)
        # MLX loops for ever over some empty arrays: mx.all(mx.zeros((0, 3)).T, axis=1).
        return _from_host(np.asarray(on_host(_host(x), axis=axis, keepdims=keepdims)))

    return reduce


# The following have no dtype argument in MLX, and give 32 bits for fewer.


def _accumulating(
    function: Callable[..., Array], on_host: Callable[..., HostArray]
) -> Callable[..., Array | HostArray]:
    def reduce(x: Array, *, axis: Any, dtype: Any, keepdims: bool) -> Array | HostArray:
        if isinstance(dtype, np.dtype):
            return np.asarray(on_host(_host(x), axis, dtype, keepdims=keepdims))
        return plain(x.astype(dtype), axis=axis, keepdims=keepdims).astype(dtype)

    plain = _reducing(function, on_host)
    return reduce


def _cumulating(
    function: Callable[..., Array], on_host: Callable[..., HostArray], initial: int
) -> Callable[..., Array | HostArray]:
    def cumulate(x: Array, *, axis: int, dtype: Any, include_initial: bool) -> Array | HostArray:
        if isinstance(dtype, np.dtype):
            return on_host(_host(x), axis=axis, dtype=dtype, include_initial=include_initial)
        made = function(x.astype(dtype), axis=axis)
        if not include_initial:
            return made
        edge = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        return mx.concat([mx.full(edge, initial, dtype), made], axis)

    return cumulate


# ---------------------------------------------------------------------------- linear algebra


def _vecdot(x1: Array, x2: Array, *, axis: int) -> Array:
    # MLX counts the axis in the operand of fewer dimensions, and may not find it.
    return mx.vecdot(*mx.broadcast_arrays(x1, x2), axis=axis)


def _tensordot(x1: Array, x2: Array, *, axes: Any) -> Array:
    return mx.tensordot(x1, x2, [list(part) for part in axes])


def _diagonal(x: Array, *, offset: int) -> Array:
    return mx.diagonal(x, offset, x.ndim - 2, x.ndim - 1)


# ---------------------------------------------------------------------------- transforms


def _over_axes(function: Callable[..., Array]) -> Callable[..., Array]:
    def transform(x: Array, **params: Any) -> Array:
        return function(x, **params) if x.ndim else mx.array(x)  # MLX wants a dimension

    return transform


# ---------------------------------------------------------------------------- the table


#: Functions that MLX has under the standard's name, right and with its signature.
_SAME: Final = (
    *("abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and"),
    *("bitwise_invert", "bitwise_or", "bitwise_xor", "ceil", "conj", "cos", "cosh", "divide"),
    *("equal", "exp", "expm1", "floor", "greater", "greater_equal", "imag", "isfinite", "isinf"),
    *("isnan", "less", "less_equal", "log", "log10", "log2", "logaddexp", "logical_and"),
    *("logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative"),
    *("not_equal", "positive", "pow", "real", "reciprocal", "round", "sin", "sinh", "sqrt"),
    *("square", "subtract", "tan", "tanh", "trunc"),
    *("broadcast_to", "concat", "expand_dims", "flip", "squeeze", "stack", "tile", "unstack"),
    *("meshgrid", "tril", "triu", "where"),
    *("matmul", "matrix_transpose"),
    *("fft.fft", "fft.ifft", "fft.rfft", "fft.irfft", "fft.rfftn", "fft.irfftn"),
    *("fft.fftshift", "fft.ifftshift"),
)

_FIXES: Final[dict[str, Callable[..., Any]]] = {
    "__getitem__": _getitem,
    "__setitem__": _setitem,
    "astype": _astype,
    "empty": _zeros,
    "eye": _eye,
    "full": _full,
    "ones": _ones,
    "zeros": _zeros,
    "take": _take,
    "take_along_axis": _take_along_axis,
    "clip": _clip,
    "log1p": _log1p,
    "sign": _sign,
    "moveaxis": _moveaxis,
    "permute_dims": _permute_dims,
    "repeat": _repeat,
    "reshape": _reshape,
    "roll": _roll,
    "argmax": _to_index(mx.argmax, np.argmax),
    "argmin": _to_index(mx.argmin, np.argmin),
    "count_nonzero": _to_index(mx.count_nonzero, np.count_nonzero),
    "argsort": _argsort,
    "sort": _sort,
    "all": _reducing(mx.all, np.all),
    "any": _reducing(mx.any, np.any),
    "max": _reducing(mx.max, np.max),
    "min": _reducing(mx.min, np.min),
    "cumulative_prod": _cumulating(mx.cumprod, np.cumulative_prod, 1),
    "cumulative_sum": _cumulating(mx.cumsum, np.cumulative_sum, 0),
    "prod": _accumulating(mx.prod, np.prod),
    "sum": _accumulating(mx.sum, np.sum),
    "tensordot": _tensordot,
    "vecdot": _vecdot,
    "fft.fftn": _over_axes(mx.fft.fftn),
    "fft.ifftn": _over_axes(mx.fft.ifftn),
    "linalg.diagonal": _diagonal,
    "linalg.outer": mx.outer,
}


def _found(name: str) -> Callable[..., Any]:
    extension, _, function = name.rpartition(".")
    found: Callable[..., Any] = getattr(getattr(mx, extension) if extension else mx, function)
    return found


_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    name: _sending(function)
    for name, function in ({n: _found(n) for n in _SAME if n not in _FIXES} | _FIXES).items()
}

_DOUBLE: Final = frozenset({_dtypes.float64})

#: Functions that MLX has, but not or not rightly for these dtypes.
_WITHOUT: Final[dict[str, frozenset[DType]]] = {
    # No special cases of C's Annex G, and products of the parts that overflow.
    **dict.fromkeys(("divide", "reciprocal", "sign"), _dtypes.COMPLEX),
    "expm1": _dtypes.COMPLEX,
    "pow": _dtypes.COMPLEX | _dtypes.INTEGER,  # negative powers of integers give 0
    **dict.fromkeys(("matmul", "tensordot", "vecdot"), _dtypes.INTEGER),
    # Computed in complex64 whatever comes.
    **dict.fromkeys((n for n in _OPERATIONS if n[:4] == "fft." and "shift" not in n), _DOUBLE),
}

_LEFT: Final = {name: _COMPLEX128 | _WITHOUT.get(name, frozenset()) for name in _OPERATIONS}

#: The same for the host's kernels.
_LEFT_ON_HOST: Final[dict[str, frozenset[DType]]] = {
    # Float32 is off by 1e4 ulp near the underflow; float64 ends at the bounds of float32.
    "exp": _dtypes.REAL_FLOATING,
    "logaddexp": _dtypes.REAL_FLOATING,
    # Float32 is off by 1e3 ulp far from 0, and loses the sign of sin(-0.); float64 ends in NaN.
    **dict.fromkeys(("cos", "sin"), _dtypes.REAL_FLOATING),
    # Added one after the other: a million float32 are off by a hundredth, a thousand ulp in
    # products of matrices, which NumPy also computes 25 times as fast.
    **dict.fromkeys(("sum", "prod", "matmul", "tensordot", "vecdot"), _dtypes.FLOATING),
}
