"""NumPy on the host, and what it leaves wrong.

It has the standard's names itself. `array_api_compat.numpy` would give the same functions, but
takes longer to import than all that is needed here: it looks at each of NumPy's names, upon which
NumPy imports `numpy.f2py`, `numpy.ma` and `numpy.testing`.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from corepy import _blas
from corepy._dtypes import DTYPES, DType, Scalar
from corepy._errors import foreign_dtype
from corepy._extensions import is_there
from corepy._signals import let_through
from corepy.backends import _numpy_creation as creation
from corepy.backends import _numpy_elementwise as elementwise
from corepy.backends import _numpy_set as sets
from corepy.backends._base import Backend, Capabilities, native_function
from corepy.backends._exports import runs_backwards
from corepy.backends._inplace import in_place
from corepy.backends._loop import Loop
from corepy.backends._numpy_factors import OPERATIONS as FACTORS
from corepy.backends._numpy_fft import OPERATIONS as FFT
from corepy.backends._numpy_linalg import OPERATIONS as LINALG
from corepy.backends._numpy_loops import LOOPS, WIDE, accumulated
from corepy.backends._numpy_manipulation import OPERATIONS as MANIPULATION
from corepy.backends._numpy_manipulation import rolled
from corepy.backends._numpy_order import SORTS_WIDE, ordered
from corepy.backends._numpy_rows import ROW_LOOPS, reduced, spread
from corepy.backends._numpy_single import OPERATIONS as SINGLE
from corepy.backends._rounding import rounded
from corepy.devices._device import Device

Array = npt.NDArray[Any]

_ndarray = np.ndarray  # for what every small operation passes

_CAPABILITIES: Final = Capabilities(max_dimensions=64)
#: Elements so few that sorting them is no work.
_FEW: Final = 16384
#: Floats so few that they are in stable order before `restore_order` has looked: of one row, and of
#: several, which take more calls.
_FEW_FLOATS: Final = 64
_FEW_IN_ROWS: Final = 1024


class NumPyBackend(Backend):
    """NumPy on ``cpu``."""

    name = "numpy"
    promotes = True
    placed = False
    recycles = True
    # 0-D results of ufuncs and full indexing arrive as NumPy scalars; subclasses, which have
    # operators of their own (numpy.matrix), become plain arrays. A method of Python would take
    # 20 ns longer than this function of C, for each 0-D result.
    normalize: Callable[[Any], Array] = staticmethod(np.asarray)  # type: ignore[assignment]

    def is_available(self) -> bool:
        return True

    def capabilities(self, device: Device) -> Capabilities:
        return _CAPABILITIES

    def operation(self, name: str) -> Callable[..., Any] | None:
        return _FIXES.get(name) or native_function(np, name)

    def loop(self, name: str) -> Loop | None:
        special = LOOPS.get(name)
        if special is not None:
            return special
        native = NumPyBackend.operation(self, name)
        if isinstance(native, np.ufunc) and not native.signature:
            return Loop(native, wide=WIDE.get(name, {}))
        return None

    def single(self, name: str) -> Callable[..., Any] | None:
        return SINGLE.get(name)

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, ValueError) and str(error).startswith(_BEYOND_ADDRESSES)

    def owns(self, obj: object) -> bool:
        if obj.__class__ is _ndarray:
            return True
        # A masked array is refused rather than robbed of its mask. NumPy loads its class on use.
        masked = "numpy.ma" in sys.modules and isinstance(obj, np.ma.MaskedArray)
        # So is a quantity (of astropy's, of unyt's), whose ufuncs know of its unit.
        plain = (
            isinstance(obj, np.ndarray) and type(obj).__array_ufunc__ is _ndarray.__array_ufunc__
        )
        return (plain or isinstance(obj, np.generic)) and not masked

    def dtype_of(self, native: Array) -> DType:
        dtype = _BY_NATIVE.get(native.dtype)
        if dtype is None:
            # Byte order is no part of the standard's dtypes, nor of the names, of which long and
            # longlong share one.
            dtype = DTYPES.get(native.dtype.name)
        if dtype is None:
            raise foreign_dtype("numpy", native.dtype)
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

    def threads(self) -> int | None:
        return _blas.threads()

    def limit_threads(self, count: int) -> str | None:
        # Only BLAS has threads here; NumPy itself has no setting for them.
        if not is_there("threadpoolctl"):
            return "threadpoolctl is not installed, and NumPy has no setting for those of its BLAS"
        try:
            from threadpoolctl import ThreadpoolController

            controller = ThreadpoolController()
            controller.limit(limits=count)
            found = any(library["user_api"] == "blas" for library in controller.info())
        except Exception as error:  # it is too old or broken
            let_through(error)
            return f"threadpoolctl fails ({type(error).__name__}: {error})"
        # Of Apple's, or before 3.5 of those that NumPy's own wheels bring.
        return None if found else "threadpoolctl does not know the BLAS of this NumPy"

    def adopt(self, native: Any) -> Array:
        array = self.normalize(native)
        if not array.dtype.isnative:
            return array.astype(array.dtype.newbyteorder("="))
        # Whoever has the array may give it another shape or dtype in place.
        return array.view() if array is native else array

    def adopts_by_copy(self, native: Any) -> str | None:
        if native.dtype.isnative:
            return None
        return "has another byte order; expected the machine's own"

    def unwrapped(self, native: Array) -> Array:
        # As `__array__`: the caller may give it another shape or dtype in place, and loops take the
        # elements for those of the dtype that the `Array` was made with.
        return native.view()

    def is_writable(self, native: Array) -> bool:
        return native.flags.writeable

    def exporter(self, native: Array) -> Any:
        return _Backwards(native) if runs_backwards(native) else native

    def shares_memory(self, native: Array, array: Array) -> bool:
        return bool(np.may_share_memory(native, array)) or native.size == 0


class _Backwards:
    """Exports a copy of an array with a negative stride."""

    def __init__(self, native: Array) -> None:
        self._native = native

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._native.__dlpack_device__()

    def __dlpack__(self, *, copy: bool | None = None, **params: Any) -> Any:
        runs_backwards(self._native, copy)  # raises where a copy is refused
        return self._native.__dlpack__(copy=True, **params)  # and says that it is one


#: What NumPy says of results whose bytes or elements no integer of 64 bits counts (ctors.c,
#: nditer_constr.c): of others that memory does not hold it raises ``MemoryError``.
_BEYOND_ADDRESSES: Final = (
    *("array is too big", "iterator is too large", "maximum supported dimension"),
    *("negative dimensions are not allowed", "Maximum allowed dimension exceeded"),
)

_NATIVE: Final[dict[DType, np.dtype[Any]]] = {d: np.dtype(d.name) for d in DTYPES.values()}
_BY_NATIVE: Final[dict[np.dtype[Any], DType]] = {native: d for d, native in _NATIVE.items()}


# ---------------------------------------------------------------------------- indexing


def _setitem(x: Array, key: Any, value: Array) -> Array:
    # NumPy writes a vector into one of another stride that it overlaps element by element
    # (raw_array_assign_array), and so reads what it has just written.
    if value.ndim and value.base is not None and np.may_share_memory(x, value):
        value = value.copy()
    # And masks as it writes over them.
    masks = key.__class__ is np.ndarray and key is not x and key.dtype == np.bool_
    if masks and np.may_share_memory(x, key):
        key = key.copy()
    x[key] = value
    return x


def _astype(x: Array, dtype: np.dtype[Any], *, copy: bool = True) -> Array:
    if dtype.kind in "iu" and x.dtype.kind == "f":
        # The standard leaves NaN and infinities to integers open, and no warning is part of it.
        with np.errstate(invalid="ignore"):
            return x.astype(dtype, copy=copy)
    return x.astype(dtype, "K", "unsafe", True, copy)  # by keyword it would take longer


# ---------------------------------------------------------------------------- methods
#
# NumPy's functions of these names look for the array's method, and then call it with the same
# arguments: on small arrays, most of their time goes there.


def _by_rows(name: str, ufunc: np.ufunc) -> Callable[..., Any]:
    """Return the reduction of a ufunc, which long rows have a loop of their own for."""
    whole: Callable[..., Any] = ufunc.reduce
    if name not in ROW_LOOPS and name != "prod":
        return whole

    def reduce(
        x: Array,
        axis: tuple[int, ...] | None = None,
        dtype: np.dtype[Any] | None = None,
        keepdims: bool = False,
    ) -> Any:
        if dtype is None or dtype == x.dtype:
            found = reduced(name, x, axis, keepdims)
            if found is not None:
                return found.astype(x.dtype, copy=False)
        elif name == "sum" and dtype.char == "d":
            found = reduced("sum in float64", x, axis, keepdims)
            if found is not None:
                return found
        return whole(x, axis, dtype, None, keepdims)

    return reduce


_sum: Final = _by_rows("sum", np.add)


def _mean(x: Array, *, axis: tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    # In NumPy's own steps: the quotient is computed in double precision, and rounded once.
    if x.size == 0:
        return np.asarray(np.mean(x, axis=axis, keepdims=keepdims))  # it warns
    total: Any = _sum(x, axis=axis, keepdims=keepdims)
    if total.__class__ is not np.ndarray:
        return np.asarray(total.dtype.type(total / np.intp(x.size)))
    count = np.intp(x.size // total.size)
    return np.true_divide(total, count, out=total, casting="unsafe")


def _var(
    x: Array,
    *,
    axis: tuple[int, ...] | None = None,
    correction: float = 0.0,
    keepdims: bool = False,
    roots: bool = False,
) -> Array:
    found = spread(x, axis, correction, keepdims, roots=roots)
    if found is not None:
        return found
    found = _var_by_numpy(x, axis, correction, keepdims)
    return np.sqrt(found, out=found) if roots else found


def _var_by_numpy(
    x: Array, axis: tuple[int, ...] | None, correction: float, keepdims: bool
) -> Array:
    plain = x.ndim and x.size and x.dtype.kind == "f"
    total: Any = _sum(x, axis=axis, keepdims=True) if plain else None
    count = 0 if total is None else x.size // total.size
    if total is None or count <= correction:
        found = np.asarray(np.var(x, axis=axis, correction=correction, keepdims=keepdims))
        if found.size and x.size // found.size <= correction:
            found[...] = np.nan  # NumPy divides by zero, and warns
        return found
    np.true_divide(total, np.intp(count), out=total, casting="unsafe")
    apart = np.subtract(x, total)
    total = _sum(np.multiply(apart, apart, out=apart), axis=axis, keepdims=keepdims)
    rest = np.float64(count - correction)
    if total.__class__ is not np.ndarray:
        return np.asarray(total.dtype.type(total / rest))
    return np.true_divide(total, rest, out=total, casting="unsafe")


def _std(
    x: Array,
    *,
    axis: tuple[int, ...] | None = None,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Array:
    return _var(x, axis=axis, correction=correction, keepdims=keepdims, roots=True)


def _count_nonzero(
    x: Array, *, axis: tuple[int, ...] | None = None, keepdims: bool = False
) -> Array:
    found = reduced("count_nonzero", x, axis, keepdims)
    if found is not None:
        return found.astype(np.intp)
    if axis is None and not keepdims:
        return np.asarray(np.count_nonzero(x))
    whole: Any = np.add.reduce  # whose annotations know no keyword by position
    return np.asarray(whole(x.astype(np.bool_, copy=False), axis, np.intp, None, keepdims))


# NumPy's annotations know no axis that may be None, which is every axis.
def _argmax(x: Any, *, axis: int | None = None, keepdims: bool = False) -> Array:
    return np.asarray(x.argmax(axis, keepdims=keepdims))


def _argmin(x: Any, *, axis: int | None = None, keepdims: bool = False) -> Array:
    return np.asarray(x.argmin(axis, keepdims=keepdims))


def _argsort(x: Array, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    found = ordered(x, axis, descending)
    if found is not None:
        return found
    if descending:  # equal elements in the order in which they came
        turned = _turned(x, axis)
        found = x[turned].argsort(axis, "stable" if stable else None)[turned]
        return cast("Array", np.subtract(x.shape[axis] - 1, found))
    return x.argsort(axis, "stable" if stable else None)


def _turned(x: Array, axis: int) -> tuple[slice, ...]:
    """Return the key that turns an axis round."""
    return (slice(None),) * (axis % x.ndim) + (slice(None, None, -1),)


def _sort(
    x: Array,
    *,
    axis: int = -1,
    descending: bool = False,
    stable: bool = True,  # as it always is: NumPy's other sort changes signs of zeros, and NaN
) -> Array:
    if descending:
        # As `in_both_orders` has it, which would cost ascending order a call.
        turned = _turned(x, axis)
        return _sort(x[turned], axis=axis)[turned]
    result = x.copy("K")
    quickly = x.dtype.num in _ANY_ORDER
    if x.ndim == 1 and x.size > _FEW_FLOATS and x.dtype.char in "fd":
        result.sort()
        restore_order(x, result)
        return result
    if x.size > _FEW_IN_ROWS and x.dtype.char in "fd":
        # Without zeros below 0 and NaN equal floats are the same bits.
        minus = np.count_nonzero(x) < x.size and np.signbit(x[x == 0]).any()
        quickly = not (minus or np.isnan(x).any())
    result.sort(axis, None if quickly else "stable")
    return result


def restore_order(x: Array, values: Array) -> None:
    """Put the zeros and NaN of sorted floats in the order in which they came.

    All other equal floats are the same bits, so NumPy need not keep them in order, which takes it
    up to twenty times as long.
    """
    # One search for all: what is called for the first time in a while takes longer than it works.
    first, last, numbers = values.searchsorted(_PROBES[x.dtype.char]).tolist()
    if last - first > 1:  # of minima and maxima in vector registers some change their signs
        values[first:last] = x[x == 0]
    if numbers < values.size:
        values[numbers:] = x[np.isnan(x)]


#: By dtype: zero, the least number above it, and NaN, which NumPy sorts behind all numbers.
_PROBES: Final = {
    char: np.array([0, np.finfo(char).smallest_subnormal, np.nan], char) for char in "fd"
}
#: Numbers of the dtypes of which nobody can tell equal elements apart, but for those of one and
#: two bytes, which NumPy sorts best in stable order.
_ANY_ORDER: Final = frozenset(np.dtype(c).num for c in "iIlLqQ")


def _unique_values(x: Array) -> Array:
    # NumPy looks all but floats up, and sorts what it has found: more work unless they are many,
    # and few of them distinct, or where it sorts in vector registers; of complex numbers always.
    floats = x.dtype.char in "fd"
    sorts_soon = floats or (SORTS_WIDE and x.dtype.num in _ANY_ORDER)
    pairs = x.dtype.kind == "c"
    if x.size == 0 or (x.size >= _FEW and not sorts_soon and not pairs):
        return np.unique_values(x)
    values = x.flatten()
    some = x.size > (_FEW_FLOATS if floats else _FEW)
    quickly = not pairs and (some or x.dtype.num in _ANY_ORDER)
    values.sort(kind=None if quickly else "stable")
    if some and floats:
        restore_order(x.reshape(-1), values)
    first = sets.firsts(values)
    # To take them one by one takes a sixth of the time of sorting, and often there is no need to.
    return values if np.count_nonzero(first) == values.size else values[first]


def _searchsorted(
    x1: Array, x2: Array, *, side: Any = "left", sorter: Array | None = None
) -> Array:
    return np.asarray(x1.searchsorted(x2, side, sorter))


#: Elements of an axis, for each index, from which taking them one by one is quicker than a copy.
_SOME_OF: Final = 8


def _take(x: Array, indices: Array, *, axis: int | None = None) -> Array:
    # NumPy copies all of an array with gaps, or in another order, before it takes a few elements.
    if not x.flags.c_contiguous and indices.size < x.shape[axis or 0] // _SOME_OF:
        return np.asarray(x[(slice(None),) * (axis or 0) + (indices,)])
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
    if x.size == 0:
        return x.copy("K")
    if axis is not None and x.ndim > 1:
        axes = (axis,) if axis.__class__ is int else axis
        return rolled(x, (shift,) if shift.__class__ is int else shift, axes)
    if shift.__class__ is not int:
        shift = sum(shift)
    flat = x.reshape(-1)
    cut = -shift % flat.size
    return np.concatenate((flat[cut:], flat[:cut])).reshape(x.shape)


def _tensordot(x1: Array, x2: Array, *, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> Array:
    if axes == ((1,), (0,)) and x1.ndim == x2.ndim == 2:
        return cast("Array", np.dot(x1, x2))
    count = len(axes[0])
    if count and axes == (tuple(range(x1.ndim - count, x1.ndim)), tuple(range(count))):
        # As NumPy does in the end, which takes three times as long to find that out.
        outer, length, inner = x1.shape[:-count], math.prod(x2.shape[:count]), x2.shape[count:]
        a = x1.reshape(math.prod(outer), length)
        b = x2.reshape(length, math.prod(inner))
        return cast("Array", np.dot(a, b)).reshape(outer + inner)
    return np.tensordot(x1, x2, axes)


def _stack(arrays: tuple[Array, ...], *, axis: int = 0) -> Array:
    place = (slice(None),) * axis + (None,)
    return np.concatenate([x[place] for x in arrays], axis)


def _running(name: str, ufunc: np.ufunc) -> Callable[..., Array]:
    """Return the operation of running sums or products, by NumPy's ufunc."""
    whole: Callable[..., Array] = getattr(np, name)

    def accumulate(
        x: Array, *, axis: int, dtype: Any = None, include_initial: bool = False
    ) -> Array:
        if include_initial:
            return whole(x, axis=axis, dtype=dtype, include_initial=True)
        found = accumulated(name, x, axis) if dtype is None or dtype == x.dtype else None
        return ufunc.accumulate(x, axis, dtype) if found is None else found

    return accumulate


_FIXES: Final[dict[str, Callable[..., Any]]] = {
    "empty": creation.empty,
    "full": creation.full,
    "ones": creation.ones,
    "zeros": creation.zeros,
    "arange": creation.arange,
    "eye": creation.eye,
    "linspace": creation.linspace,
    "fft.fftfreq": creation.fftfreq,
    "fft.rfftfreq": creation.rfftfreq,
    "__getitem__": operator.getitem,
    "__setitem__": _setitem,
    "astype": _astype,
    # Past NumPy's question whether an operand has a way of its own, which arrays never have; the
    # attribute is what NumPy's own `ndarray.__array_function__` calls.
    "where": getattr(np.where, "_implementation", np.where),
    # The ufuncs' own reductions, past NumPy's Python layer.
    "all": np.logical_and.reduce,
    "any": np.logical_or.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
    "prod": _by_rows("prod", np.multiply),
    "sum": _sum,
    "mean": _mean,
    "std": _std,
    "var": _var,
    "cumulative_prod": _running("cumulative_prod", np.multiply),
    "cumulative_sum": _running("cumulative_sum", np.add),
    # The arrays' methods, likewise.
    "argmax": _argmax,
    "argmin": _argmin,
    "argsort": _argsort,
    "count_nonzero": _count_nonzero,
    "expand_dims": _expand_dims,
    "imag": operator.attrgetter("imag"),
    "matrix_transpose": _matrix_transpose,
    "permute_dims": _permute_dims,
    "real": operator.attrgetter("real"),
    "reshape": _reshape,
    "roll": _roll,
    "searchsorted": _searchsorted,
    "sort": _sort,
    "squeeze": _squeeze,
    "stack": _stack,
    "take": _take,
    "tensordot": _tensordot,
    "unique_all": sets.unique_all,
    "unique_counts": sets.unique_counts,
    "unique_inverse": sets.unique_inverse,
    "unique_values": _unique_values,
    "matmul": np.matmul,
    "acosh": elementwise.acosh if elementwise.OWN_ACOSH else np.arccosh,
    "floor_divide": elementwise.floor_divide,
    "remainder": elementwise.remainder,
    "expm1": elementwise.expm1,
    "log1p": elementwise.log1p,
    "pow": elementwise.pow,
    "sign": elementwise.sign,
    "tan": elementwise.tan,
    "tanh": elementwise.tanh,
    "clip": elementwise.clip,
    **FFT,
    **MANIPULATION,
    **LINALG,
    **FACTORS,
    **in_place(elementwise.floor_divide, elementwise.remainder, elementwise.pow),
}
