"""NumPy on the host: `array_api_compat.numpy`, and what it leaves wrong."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final, Literal, cast

import array_api_compat.numpy as compat
import numpy as np
import numpy.typing as npt

from corepy._dtypes import DTYPES, DType, Scalar
from corepy.backends._base import Backend, Capabilities, Loop
from corepy.backends._numpy_loops import LOOPS
from corepy.backends._rounding import rounded
from corepy.devices._device import Device

Array = npt.NDArray[Any]

_ndarray, _asarray = np.ndarray, np.asarray  # for what every small operation passes

#: Elements so few that sorting them is no work.
_FEW: Final = 16384
#: Elements that fit the first-level cache together with their results.
_BLOCK: Final = 8192


class NumPyBackend(Backend):
    """NumPy on ``cpu``."""

    name = "numpy"
    promotes = True
    recycles = True

    def is_available(self) -> bool:
        return True

    def capabilities(self, device: Device) -> Capabilities:
        return Capabilities(max_dimensions=64)

    def operation(self, name: str) -> Callable[..., Any] | None:
        fixed = _FIXES.get(name)
        if fixed is not None:
            return fixed
        extension, _, function = name.rpartition(".")
        namespace = getattr(compat, extension) if extension else compat
        found: Callable[..., Any] | None = getattr(namespace, function, None)
        return found

    def loop(self, name: str) -> Loop | None:
        special = LOOPS.get(name)
        if special is not None:
            return special
        native = NumPyBackend.operation(self, name)
        return Loop(native) if isinstance(native, np.ufunc) and not native.signature else None

    def owns(self, obj: object) -> bool:
        # A masked array is refused rather than robbed of its mask.
        masked = type(obj).__module__.startswith("numpy.ma")
        return isinstance(obj, (np.ndarray, np.generic)) and not masked

    def dtype_of(self, native: Array) -> DType:
        dtype = _BY_NATIVE.get(native.dtype)
        if dtype is None:
            return _foreign_dtype(native)
        return dtype

    def native_dtype(self, dtype: DType) -> np.dtype[Any]:
        return _NATIVE[dtype]

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> Array:
        # A NumPy scalar is a 0-D operand to every function, and much cheaper to make.
        scalar: Array = _NATIVE[dtype].type(value)
        return scalar

    def item(self, native: Array) -> Scalar:
        value: Scalar = native.item()
        return value

    def to_numpy(self, native: Array, *, copy: bool | None = None) -> Array:
        return native.copy() if copy else native

    def from_numpy(self, array: Array, device: Device, *, copy: bool | None = None) -> Array:
        return array.copy() if copy else array

    def rounded(self, native: Array, dtype: str) -> Array:
        return cast("Array", rounded(np, native, dtype))

    def limit_threads(self, count: int) -> str | None:
        # Only BLAS has threads here; NumPy itself has no setting for them.
        if find_spec("threadpoolctl") is None:
            return "threadpoolctl is not installed, and NumPy has no setting for those of its BLAS"
        from threadpoolctl import ThreadpoolController

        ThreadpoolController().limit(limits=count)
        return None

    def normalize(self, native: Any) -> Array:
        # 0-D results of ufuncs and full indexing arrive as NumPy scalars; subclasses, which have
        # operators of their own (numpy.matrix), become plain arrays.
        return native if native.__class__ is _ndarray else _asarray(native)

    def adopt(self, native: Any) -> Array:
        array = self.normalize(native)
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))

    def is_writable(self, native: Array) -> bool:
        return native.flags.writeable

    def shares_memory(self, native: Array, array: Array) -> bool:
        return bool(np.may_share_memory(native, array)) or native.size == 0


_NATIVE: Final[dict[DType, np.dtype[Any]]] = {d: np.dtype(d.name) for d in DTYPES.values()}
_BY_NATIVE: Final[dict[np.dtype[Any], DType]] = {native: d for d, native in _NATIVE.items()}


def _foreign_dtype(native: Array) -> DType:
    # Byte order is no part of the standard's dtypes; long and longlong share a name.
    dtype = DTYPES.get(native.dtype.newbyteorder("=").name)
    if dtype is None:
        raise TypeError(f"its dtype is numpy's {native.dtype}; expected one of {', '.join(DTYPES)}")
    return dtype


# ---------------------------------------------------------------------------- creation


# Without the device, of which there is one; compat refuses any name but its own for it. NumPy's
# functions are called by position, and its Python layer is left out: on few elements it takes most
# of the time.


def _empty(shape: tuple[int, ...], *, dtype: Any, device: Device) -> Array:
    return np.empty(shape, dtype)


def _zeros(shape: tuple[int, ...], *, dtype: Any, device: Device) -> Array:
    return np.zeros(shape, dtype)


def _ones(shape: tuple[int, ...], *, dtype: Any, device: Device) -> Array:
    result = np.empty(shape, dtype)
    result.fill(1)
    return result


def _full(shape: tuple[int, ...], value: Scalar, *, dtype: Any, device: Device) -> Array:
    result = np.empty(shape, dtype)
    result.fill(value)
    return result


def _linspace(
    start: Any, stop: Any, num: int, *, dtype: Any, device: Device, endpoint: bool
) -> Array:
    # As numpy.linspace does, whose preparations for arrays as ends take most of its time.
    if not (is_exact(start) and is_exact(stop) and math.isfinite(stop - start)):
        return np.linspace(start, stop, num, endpoint=endpoint, dtype=dtype)
    parts, length = num - endpoint, float(stop) - float(start)

    def spread(values: Array) -> Array:
        if parts > 0 and length / parts == 0:  # the step is too small, the result need not be
            values /= parts
            values *= length
        else:
            values *= length / parts if parts > 0 else length
        values += start
        return values

    if num <= _STRETCH:
        result = spread(np.arange(num, dtype=np.float64)).astype(dtype, copy=False)
    else:  # a stretch at a time, which stays in the cache from one step to the next
        result = np.empty(num, dtype)
        counted = np.arange(_STRETCH, dtype=np.float64)
        for first in range(0, num, _STRETCH):
            part = result[first : first + _STRETCH]
            part[...] = spread(counted[: part.size] + first)
    if endpoint and num > 1:
        result[-1] = stop
    return result


def _arange(first: Any, last: Any, pace: Any, *, dtype: Any, device: Device) -> Array:
    # NumPy multiplies for each element, without SIMD. Where all values are exact, sums are equal.
    if first.__class__ is int and last.__class__ is int and pace.__class__ is int:
        start, stop, step = first, last, pace
        count = -((start - stop) // step)
        exact = EXACT.get(dtype) if count > 2 * _STRETCH else None
        if exact is not None and max(abs(start), abs(stop), abs(step)) < exact:
            result = np.empty(count, dtype)
            steps = np.arange(start, start + _STRETCH * step, step, dtype=dtype)
            for begin in range(0, count, _STRETCH):
                part = result[begin : begin + _STRETCH]
                np.add(steps[: part.size], dtype.type(begin * step), out=part)
            return result
    return np.arange(first, last, pace, dtype)  # type: ignore[call-overload,no-any-return]


#: Elements that stay in the second-level cache while something is computed of them.
_STRETCH: Final = 32_768
#: Up to where all integers are numbers of a dtype, and their sums and differences are too.
EXACT: Final = {
    np.dtype(np.float32): 2**23,
    np.dtype(np.float64): 2**52,
    np.dtype(np.int64): 2**62,
}


def is_exact(value: Any) -> bool:
    """Say whether a number is the same as a float."""
    return value.__class__ is float or (value.__class__ is int and -(2**53) <= value <= 2**53)


def _eye(n_rows: int, n_cols: int | None, *, k: int, dtype: Any, device: Device) -> Array:
    return np.eye(n_rows, n_cols, k, dtype)


# fftfreq and rfftfreq take no dtype in NumPy; float32 is rounded once from float64.
def _fftfreq(n: int, *, d: float, dtype: Any, device: Device) -> Array:
    return np.fft.fftfreq(n, d).astype(dtype, copy=False)


def _rfftfreq(n: int, *, d: float, dtype: Any, device: Device) -> Array:
    return np.fft.rfftfreq(n, d).astype(dtype, copy=False)


# ---------------------------------------------------------------------------- indexing


def _setitem(x: Array, key: Any, value: Array) -> Array:
    x[key] = value
    return x


def _astype(x: Array, dtype: np.dtype[Any], *, copy: bool = True) -> Array:
    if dtype.kind in "iu" and x.dtype.kind == "f":
        # The standard leaves NaN and infinities to integers open, and no warning is part of it.
        with np.errstate(invalid="ignore"):
            return x.astype(dtype, copy=copy)
    return x.astype(dtype, "K", "unsafe", True, copy)  # by keyword it would take longer


# ---------------------------------------------------------------------------- elementwise


_WRITE: Final[list[Literal["writeonly", "allocate"]]] = ["writeonly", "allocate"]
_READ: Final[list[Literal["readonly"]]] = ["readonly"]


def _in_blocks(kernel: Callable[..., None], *operands: Array) -> Array:
    """Call ``kernel(out, *operands)`` on blocks that stay in the cache from one step to the next.

    So a fix may look at what it has just computed without another pass over memory.
    """
    dtype = np.result_type(*operands)
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    if math.prod(shape) <= _BLOCK:
        out = np.empty(shape, dtype)
        kernel(out, *operands)
        return out
    count = len(operands)
    with np.nditer(
        [None, *operands],
        flags=["external_loop", "buffered", "delay_bufalloc"],
        op_flags=[_WRITE, *[_READ] * count],
        op_dtypes=[dtype] * (count + 1),
        buffersize=_BLOCK,
        order="K",
    ) as blocks:
        blocks.reset()
        for out, *parts in blocks:
            kernel(out, *parts)
        result: Array = blocks.operands[0]
    return result


def _floor_divide(x1: Array, x2: Array) -> Array:
    if x1.dtype.kind != "f" and x2.dtype.kind != "f":
        return _by_zero_raises("floor_divide", np.floor_divide, x1, x2)
    with np.errstate(all="ignore"):
        return _in_blocks(_floor_divide_block, x1, x2)


def _floor_divide_block(out: Array, x1: Array, x2: Array) -> None:
    # NumPy answers as Python's divmod does: nan for inf // 2 and -1 for 1 // -inf, where the
    # standard wants inf and -0 (https://github.com/numpy/numpy/issues/23860).
    np.floor_divide(x1, x2, out=out)
    special = np.isinf(x1) ^ np.isinf(x2)
    if special.any():
        np.copyto(out, np.floor(np.true_divide(x1, x2)), where=special)


def _ifloor_divide(x1: Array, x2: Array) -> Array:
    x1[...] = _floor_divide(x1, x2)
    return x1


def _remainder(x1: Array, x2: Array) -> Array:
    if x1.dtype.kind != "f" and x2.dtype.kind != "f":
        return _by_zero_raises("remainder", np.remainder, x1, x2)
    return np.asarray(np.remainder(x1, x2))


def _iremainder(x1: Array, x2: Array) -> Array:
    x1[...] = _remainder(x1, x2)
    return x1


def _by_zero_raises(name: str, ufunc: np.ufunc, x1: Array, x2: Array) -> Array:
    # NumPy answers 0 and warns. The flag it sets anyway becomes the exception, at no extra pass.
    try:
        with np.errstate(divide="raise", over="ignore"):
            return np.asarray(ufunc(x1, x2))
    except FloatingPointError:
        raise ZeroDivisionError(f"{name}: x2 holds 0; expected no zero among integers") from None


def _expm1(x: Array) -> Array:
    if x.dtype.kind != "c":
        return np.asarray(np.expm1(x))
    with np.errstate(all="ignore"):
        return _in_blocks(_expm1_block, x)


def _expm1_block(out: Array, x: Array) -> None:
    # NumPy multiplies infinities by zeros and keeps the sign of a real -0 where the standard has
    # +0 (https://github.com/numpy/numpy/issues/21746). exp has the special cases right, and
    # differs by one in the real part, which no special value notices.
    np.expm1(x, out=out)
    special = ~np.isfinite(out) | (x == 0)
    if special.any():
        there = x[special]
        right = np.exp(there) - 1
        zero = there == 0
        right.real[zero] = 0
        right.imag[zero] = there.imag[zero]
        out[special] = right


def _log1p(x: Array) -> Array:
    if x.dtype.kind != "c":
        return np.asarray(np.log1p(x))
    with np.errstate(invalid="ignore"):  # of NaN, compared
        return _in_blocks(_log1p_block, x)


def _log1p_block(out: Array, x: Array) -> None:
    # NumPy adds the one and takes the logarithm, which loses what the one rounds away. Near zero
    # |1 + x|**2 - 1 is found without it, exactly enough beside the imaginary part.
    np.log1p(x, out=out)
    near = np.abs(x) < 0.5
    if near.any():
        real, imag = x.real[near], x.imag[near]
        out.real[near] = np.log1p(real * (2 + real) + imag * imag) / 2
        out.imag[near] = np.arctan2(imag, 1 + real)


def _sign(x: Array) -> Array:
    return compat.sign(x) if x.dtype.kind == "c" else np.sign(x)


def _tanh(x: Array) -> Array:
    return _in_blocks(_tanh_block, x) if x.dtype.kind == "c" else np.asarray(np.tanh(x))


def _tanh_block(out: Array, x: Array) -> None:
    # C99 leaves the sign of the zero at infinity to sin(2 y); the standard takes that of y.
    np.tanh(x, out=out)
    special = np.isinf(x.real) & np.isfinite(x.imag)
    if special.any():
        out.imag[special] = np.copysign(0, x.imag[special])


def _clip(x: Array, min: Any = None, max: Any = None) -> Array:
    # compat casts bounds by value and writes into array-valued ones; ours have x's dtype already.
    if min is None and max is None:
        return x.copy()
    return np.asarray(x.clip(min, max))


def _ipow(x1: Array, x2: Array) -> Array:
    x1[...] = np.power(x1, x2)
    return x1


# ---------------------------------------------------------------------------- methods
#
# NumPy's functions of these names look for the array's method, and then call it with the same
# arguments: on small arrays, most of their time goes there.


_SUM: Final[Callable[..., Any]] = np.add.reduce


def _mean(x: Array, *, axis: tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    # In NumPy's own steps: the quotient is computed in double precision, and rounded once.
    if x.size == 0:
        return np.asarray(compat.mean(x, axis=axis, keepdims=keepdims))  # it warns
    total: Any = _SUM(x, axis, None, None, keepdims)
    if total.__class__ is not np.ndarray:
        return np.asarray(total.dtype.type(total / np.intp(x.size)))
    count = np.intp(x.size // total.size)
    return np.true_divide(total, count, out=total, casting="unsafe")


def _count_nonzero(
    x: Array, *, axis: tuple[int, ...] | None = None, keepdims: bool = False
) -> Array:
    if axis is None and not keepdims:
        return np.asarray(np.count_nonzero(x))
    return np.asarray(compat.count_nonzero(x, axis=axis, keepdims=keepdims))


def _argmax(x: Array, *, axis: int | None = None, keepdims: bool = False) -> Array:
    found = x.argmax(axis, keepdims=keepdims)  # type: ignore[arg-type]  # None is every axis
    return np.asarray(found)


def _argmin(x: Array, *, axis: int | None = None, keepdims: bool = False) -> Array:
    found = x.argmin(axis, keepdims=keepdims)  # type: ignore[arg-type]
    return np.asarray(found)


def _argsort(x: Array, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    if descending:
        return cast("Array", compat.argsort(x, axis=axis, descending=True, stable=stable))
    return x.argsort(axis, "stable" if stable else None)


def _sort(x: Array, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    if descending:
        return cast("Array", compat.sort(x, axis=axis, descending=True, stable=stable))
    result = x.copy("K")
    if stable and x.ndim == 1 and x.size > _FEW and x.dtype.char in "fd":
        result.sort()
        restore_order(x, result)
        return result
    result.sort(axis, None if not stable or x.dtype.num in _ANY_ORDER else "stable")
    return result


def restore_order(x: Array, values: Array) -> None:
    """Put the zeros and NaN of sorted floats in the order in which they came.

    All other equal floats are the same bits, so NumPy need not keep them in order, which takes it
    up to twenty times as long.
    """
    zero, nan = x.dtype.type(0), x.dtype.type(np.nan)  # for others the array would be converted
    first, last = values.searchsorted(zero), values.searchsorted(zero, "right")
    if last - first > 1:  # of minima and maxima in vector registers some change their signs
        values[first:last] = x[x == 0]
    numbers = values.searchsorted(nan)
    if numbers < values.size:
        values[numbers:] = x[np.isnan(x)]


#: Numbers of the dtypes of which nobody can tell equal elements apart, but for those of one and
#: two bytes, which NumPy sorts best in stable order.
_ANY_ORDER: Final = frozenset(np.dtype(c).num for c in "iIlLqQ")


def _unique_values(x: Array) -> Array:
    # NumPy looks elements up, and sorts what it has found: more work unless they are many, and few
    # of them distinct.
    if not 0 < x.size < _FEW or x.dtype.kind == "c":
        return cast("Array", compat.unique_values(x))
    values = x.flatten()
    values.sort(kind=None if values.dtype.num in _ANY_ORDER else "stable")
    first = np.empty(values.size, np.bool_)
    first[0] = True
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values[first]


def _searchsorted(
    x1: Array, x2: Array, *, side: Any = "left", sorter: Array | None = None
) -> Array:
    return np.asarray(x1.searchsorted(x2, side, sorter))


def _take(x: Array, indices: Array, *, axis: int | None = None) -> Array:
    return np.asarray(x.take(indices, axis))


def _permute_dims(x: Array, *, axes: tuple[int, ...]) -> Array:
    return x.transpose(axes)


def _expand_dims(x: Array, *, axis: tuple[int, ...]) -> Array:
    sizes = iter(x.shape)
    places = range(x.ndim + len(axis))
    return x.reshape([1 if place in axis else next(sizes) for place in places])


def _squeeze(x: Array, *, axis: tuple[int, ...]) -> Array:
    return x.squeeze(axis)


def _matrix_transpose(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def _reshape(x: Array, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    return x.reshape(shape) if copy is None else x.reshape(shape, copy=copy)


def _roll(x: Array, shift: Any, *, axis: Any = None) -> Array:
    if shift.__class__ is not int or (axis is not None and x.ndim > 1) or x.size == 0:
        return np.roll(x, shift, axis)
    flat = x.reshape(-1)
    cut = -shift % flat.size
    return np.concatenate((flat[cut:], flat[:cut])).reshape(x.shape)


def _tensordot(x1: Array, x2: Array, *, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> Array:
    if axes == ((1,), (0,)) and x1.ndim == x2.ndim == 2:
        return cast("Array", np.dot(x1, x2))
    return cast("Array", compat.tensordot(x1, x2, axes=axes))


def _stack(arrays: tuple[Array, ...], *, axis: int = 0) -> Array:
    place = (slice(None),) * axis + (None,)
    return np.concatenate([x[place] for x in arrays], axis)


def _cumulative_sum(
    x: Array, *, axis: int, dtype: Any = None, include_initial: bool = False
) -> Array:
    return _cumulate(compat.cumulative_sum, np.add, x, axis, dtype, include_initial)


def _cumulative_prod(
    x: Array, *, axis: int, dtype: Any = None, include_initial: bool = False
) -> Array:
    return _cumulate(compat.cumulative_prod, np.multiply, x, axis, dtype, include_initial)


def _cumulate(
    function: Callable[..., Any], ufunc: np.ufunc, x: Array, axis: int, dtype: Any, initial: bool
) -> Array:
    if initial:
        return cast("Array", function(x, axis=axis, dtype=dtype, include_initial=True))
    return ufunc.accumulate(x, axis, dtype)


# ---------------------------------------------------------------------------- others


def _eig(x: Array) -> tuple[Array, Array]:
    # NumPy drops the imaginary part where every eigenvalue is real; the standard wants complex.
    values, vectors = np.linalg.eig(x)
    return _complex(values), _complex(vectors)


def _eigvals(x: Array) -> Array:
    return _complex(np.linalg.eigvals(x))


def _complex(x: Array) -> Array:
    return x.astype(np.result_type(x.dtype, np.complex64), copy=False)


_FIXES: Final[dict[str, Callable[..., Any]]] = {
    "empty": _empty,
    "full": _full,
    "ones": _ones,
    "zeros": _zeros,
    "arange": _arange,
    "eye": _eye,
    "linspace": _linspace,
    "fft.fftfreq": _fftfreq,
    "fft.rfftfreq": _rfftfreq,
    "__getitem__": operator.getitem,
    "__setitem__": _setitem,
    "astype": _astype,
    # The ufuncs' own reductions, past NumPy's Python layer.
    "all": np.logical_and.reduce,
    "any": np.logical_or.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
    "prod": np.multiply.reduce,
    "sum": np.add.reduce,
    "mean": _mean,
    "cumulative_prod": _cumulative_prod,
    "cumulative_sum": _cumulative_sum,
    # The arrays' methods, likewise.
    "argmax": _argmax,
    "argmin": _argmin,
    "argsort": _argsort,
    "count_nonzero": _count_nonzero,
    "expand_dims": _expand_dims,
    "matrix_transpose": _matrix_transpose,
    "permute_dims": _permute_dims,
    "reshape": _reshape,
    "roll": _roll,
    "searchsorted": _searchsorted,
    "sort": _sort,
    "squeeze": _squeeze,
    "stack": _stack,
    "take": _take,
    "tensordot": _tensordot,
    "unique_values": _unique_values,
    "matmul": np.matmul,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "expm1": _expm1,
    "log1p": _log1p,
    "sign": _sign,
    "tanh": _tanh,
    "clip": _clip,
    # compat converts what NumPy 1 left in double precision, and asks of `solve` what is known here.
    **{
        f"fft.{name}": getattr(np.fft, name)
        for name in (
            *("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"),
            *("fftn", "ifftn", "rfftn", "irfftn"),
        )
    },
    "linalg.solve": np.linalg.solve,
    "linalg.eig": _eig,
    "linalg.eigvals": _eigvals,
    # Python's own operators write in place; the three with fixes above write their result back.
    "__iadd__": operator.iadd,
    "__isub__": operator.isub,
    "__imul__": operator.imul,
    "__itruediv__": operator.itruediv,
    "__ifloordiv__": _ifloor_divide,
    "__imod__": _iremainder,
    "__ipow__": _ipow,
    "__iand__": operator.iand,
    "__ior__": operator.ior,
    "__ixor__": operator.ixor,
    "__ilshift__": operator.ilshift,
    "__irshift__": operator.irshift,
}
