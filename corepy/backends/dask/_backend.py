"""The backend's class, and the table of what differs from `array_api_compat.dask.array`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import array_api_compat.dask.array as compat
import dask
import dask.array as da
import numpy as np

from corepy._dtypes import DType, Scalar
from corepy.backends._base import Backend, Capabilities, native_function
from corepy.backends._exports import HostExporter
from corepy.backends._rounding import rounded
from corepy.backends.dask import _creation, _functions, _indexing, _linalg
from corepy.backends.dask._blocks import NUMPY, Array, automatic, elementwise, settling
from corepy.devices._device import Device, as_device

DASK: Final = as_device("dask")


class DaskBackend(Backend):
    """Dask on ``dask``: threads of this process, or the cluster that `corepy.connect` names."""

    name = "dask"
    promotes = True

    def threads(self) -> int | None:
        count: int | None = dask.config.get("num_workers", None)
        return count

    def limit_threads(self, count: int) -> str | None:
        # Of the local scheduler; the workers of a cluster have settings of their own.
        dask.config.set(num_workers=count)
        return None

    def is_available(self) -> bool:
        return True

    def capabilities(self, device: Device) -> Capabilities:
        # Boolean masks work; the shape of what they select is not known until it is computed.
        return Capabilities(data_dependent_shapes=False, max_dimensions=64)

    def operation(self, name: str) -> Callable[..., Any] | None:
        found = _FIXES[name] if name in _FIXES else native_function(compat, name)
        return None if found is None else settling(found)

    def devices(self) -> tuple[Device, ...]:
        return (DASK,)

    def owns(self, obj: object) -> bool:
        # Chunks may be of any library (CuPy, sparse, masked arrays); ours are NumPy's.
        return isinstance(obj, da.Array) and type(obj._meta) is np.ndarray

    def dtype_of(self, native: Array) -> DType:
        return NUMPY.dtype_of(native)

    def native_dtype(self, dtype: DType) -> np.dtype[Any]:
        return NUMPY.native_dtype(dtype)

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> Any:
        # A NumPy scalar is an operand to every function of Dask, and needs no task of its own.
        return NUMPY.scalar(value, dtype, device)

    def item(self, native: Array) -> Scalar:
        return NUMPY.item(native.compute())

    def to_numpy(self, native: Array, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("dask computes into new memory")
        return np.asarray(native)

    def from_numpy(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None
    ) -> Array:
        if copy is False:
            raise ValueError("dask keeps a copy")
        # A name of its own spares hashing the values. Dask copies them, so that what is computed
        # later does not depend on who has written into the host's memory since.
        return da.from_array(array, automatic(array.shape), name=False)

    def exporter(self, native: Array) -> HostExporter:
        return HostExporter(lambda: np.asarray(native))

    def rounded(self, native: Array, dtype: str) -> Array:
        return da.map_blocks(partial(rounded, np), native, dtype, dtype=native.dtype)

    def shares_memory(self, native: Array, array: np.ndarray[Any, Any]) -> bool:
        return False

    def shape_of(self, native: Array) -> tuple[int | None, ...]:
        return tuple(None if math.isnan(n) else int(n) for n in native.shape)

    def known_shape(self, native: Array) -> tuple[int, ...]:
        native.compute_chunk_sizes()  # which the array keeps
        shape: tuple[int, ...] = native.shape
        return shape

    def normalize(self, native: Any) -> Array:
        # An operation on scalars alone gives one of NumPy's.
        return native if isinstance(native, da.Array) else da.from_array(np.asarray(native))

    def adopt(self, native: Array) -> Array:
        dtype = native.dtype
        return native if dtype.isnative else native.astype(dtype.newbyteorder("="))

    def adopts_by_copy(self, native: Array) -> str | None:
        return NUMPY.adopts_by_copy(native)


#: What runs on chunks that are aligned and broadcast, exactly as the NumPy backend has it.
_ELEMENTWISE: Final = (
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
)

#: Dask has none of these, or none that is right; under these names compat has something else.
_MISSING: Final = ("linalg.matrix_rank",)

_FIXES: Final[dict[str, Callable[..., Any] | None]] = {
    **{name: elementwise(name) for name in _ELEMENTWISE},
    **dict.fromkeys(_MISSING),
    "arange": _creation.arange,
    # Lazy memory that is not set would be another one at each look.
    "empty": _creation.filled(da.zeros),
    "eye": _creation.eye,
    "full": _creation.filled(da.full),
    "linspace": _creation.linspace,
    "ones": _creation.filled(da.ones),
    "zeros": _creation.filled(da.zeros),
    "fft.fftfreq": _creation.fftfreq,
    "fft.rfftfreq": _creation.rfftfreq,
    "__getitem__": _indexing.getitem,
    "__setitem__": _indexing.setitem,
    "take": _indexing.take,
    "take_along_axis": _indexing.take_along_axis,
    "astype": _functions.astype,
    "clip": _functions.clip,
    "broadcast_to": _functions.broadcast_to,
    "expand_dims": _functions.expand_dims,
    "concat": _functions.concat,
    "meshgrid": _functions.meshgrid,
    "repeat": _functions.repeat,
    "reshape": _functions.reshape,
    "roll": _functions.roll,
    "tile": _functions.tile,
    "tril": _functions.triangle(lower=True),
    "triu": _functions.triangle(lower=False),
    "sort": _functions.sort,
    "argsort": _functions.argsort,
    "argmax": _functions.arg_extreme(da.argmax),
    "argmin": _functions.arg_extreme(da.argmin),
    "count_nonzero": _functions.count_nonzero,
    "searchsorted": _functions.searchsorted,
    "isin": _functions.isin,
    "unique_all": _functions.unique_all,
    "unique_counts": _functions.unique_counts,
    "unique_inverse": _functions.unique_inverse,
    "unique_values": _functions.unique_values,
    "cumulative_prod": _functions.cumulative(da.cumprod, 1),
    "cumulative_sum": _functions.cumulative(da.cumsum, 0),
    "max": _functions.extreme("max"),
    "min": _functions.extreme("min"),
    "std": _functions.spread(da.std),
    "var": _functions.spread(da.var),
    "matmul": _linalg.matmul,
    "tensordot": _linalg.tensordot,
    "vecdot": _linalg.vecdot,
    "linalg.cholesky": _linalg.cholesky,
    "linalg.cross": _linalg.cross,
    "linalg.diagonal": _linalg.diagonal,
    "linalg.inv": _linalg.inv,
    "linalg.matrix_norm": _linalg.matrix_norm,
    "linalg.qr": _linalg.qr,
    "linalg.solve": _linalg.solve,
    "linalg.svd": _linalg.svd,
    "linalg.svdvals": _linalg.svdvals,
    "linalg.trace": _linalg.trace,
    "linalg.vector_norm": _linalg.vector_norm,
    **{f"fft.{n}": _functions.fft(n) for n in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft.{n}": _functions.fftn(n) for n in ("fftn", "ifftn", "rfftn", "irfftn")},
}
