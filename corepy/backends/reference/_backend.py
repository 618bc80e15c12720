"""The adapter between the dispatcher and the reference functions."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from corepy._dtypes import DType, Scalar, as_dtype
from corepy._errors import bad_argument
from corepy.backends._base import Backend, Capabilities
from corepy.backends.reference import (
    _creation,
    _data_type,
    _elementwise,
    _indexing,
    _linear_algebra,
    _manipulation,
    _searching,
    _set,
    _sorting,
    _statistical,
    _utility,
)
from corepy.backends.reference._array import ReferenceArray
from corepy.devices._device import Device

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ReferenceBackend"]


class ReferenceBackend(Backend):
    """Pure Python on ``cpu``: exact, slow, always there.

    The extensions ``linalg`` and ``fft`` need `mpmath` and are missing without it.
    """

    name = "reference"

    def is_available(self) -> bool:
        return True

    def capabilities(self, device: Device) -> Capabilities:
        return Capabilities()

    def operation(self, name: str) -> Callable[..., Any] | None:
        extension, _, function = name.rpartition(".")
        if not extension:
            return _OPERATIONS.get(name)
        if extension not in _EXTENSIONS or importlib.util.find_spec("mpmath") is None:
            return None
        module = importlib.import_module(f"corepy.backends.reference.{extension}")
        found: Callable[..., Any] | None = getattr(module, function, None)
        return found if function in module.__all__ else None

    # ------------------------------------------------------------------ its native arrays

    def owns(self, obj: object) -> bool:
        return isinstance(obj, ReferenceArray)

    def dtype_of(self, native: ReferenceArray) -> DType:
        return native.dtype

    def native_dtype(self, dtype: DType) -> DType:
        return dtype

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> ReferenceArray:
        return _creation.full((), value, dtype=dtype)

    def item(self, native: ReferenceArray) -> Scalar:
        return native.values[0]

    def to_numpy(self, native: ReferenceArray, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        import numpy as np

        if copy is False:
            raise bad_argument("to_numpy", "copy", copy, "True or None: lists share no memory")
        return np.array(native.values, dtype=native.dtype.name).reshape(native.shape)

    def from_numpy(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None
    ) -> ReferenceArray:
        if copy is False:
            raise bad_argument("from_numpy", "copy", copy, "True or None: lists share no memory")
        values = array.ravel().tolist()
        return ReferenceArray(values, array.shape, as_dtype(array.dtype, "from_numpy", "array"))

    def shares_memory(self, native: ReferenceArray, array: np.ndarray[Any, Any]) -> bool:
        return False


_EXTENSIONS: Final = ("linalg", "fft")

#: The standard's functions by name.
_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    # creation
    "arange": _creation.arange,
    "asarray": _creation.asarray,
    "empty": _creation.empty,
    "empty_like": _creation.empty_like,
    "eye": _creation.eye,
    "full": _creation.full,
    "full_like": _creation.full_like,
    "linspace": _creation.linspace,
    "meshgrid": _creation.meshgrid,
    "ones": _creation.ones,
    "ones_like": _creation.ones_like,
    "tril": _creation.tril,
    "triu": _creation.triu,
    "zeros": _creation.zeros,
    "zeros_like": _creation.zeros_like,
    # data types
    "astype": _data_type.astype,
    # elementwise
    "abs": _elementwise.abs,
    "acos": _elementwise.acos,
    "acosh": _elementwise.acosh,
    "add": _elementwise.add,
    "asin": _elementwise.asin,
    "asinh": _elementwise.asinh,
    "atan": _elementwise.atan,
    "atan2": _elementwise.atan2,
    "atanh": _elementwise.atanh,
    "bitwise_and": _elementwise.bitwise_and,
    "bitwise_invert": _elementwise.bitwise_invert,
    "bitwise_left_shift": _elementwise.bitwise_left_shift,
    "bitwise_or": _elementwise.bitwise_or,
    "bitwise_right_shift": _elementwise.bitwise_right_shift,
    "bitwise_xor": _elementwise.bitwise_xor,
    "ceil": _elementwise.ceil,
    "clip": _elementwise.clip,
    "conj": _elementwise.conj,
    "copysign": _elementwise.copysign,
    "cos": _elementwise.cos,
    "cosh": _elementwise.cosh,
    "divide": _elementwise.divide,
    "equal": _elementwise.equal,
    "exp": _elementwise.exp,
    "expm1": _elementwise.expm1,
    "floor": _elementwise.floor,
    "floor_divide": _elementwise.floor_divide,
    "greater": _elementwise.greater,
    "greater_equal": _elementwise.greater_equal,
    "hypot": _elementwise.hypot,
    "imag": _elementwise.imag,
    "isfinite": _elementwise.isfinite,
    "isinf": _elementwise.isinf,
    "isnan": _elementwise.isnan,
    "less": _elementwise.less,
    "less_equal": _elementwise.less_equal,
    "log": _elementwise.log,
    "log1p": _elementwise.log1p,
    "log2": _elementwise.log2,
    "log10": _elementwise.log10,
    "logaddexp": _elementwise.logaddexp,
    "logical_and": _elementwise.logical_and,
    "logical_not": _elementwise.logical_not,
    "logical_or": _elementwise.logical_or,
    "logical_xor": _elementwise.logical_xor,
    "maximum": _elementwise.maximum,
    "minimum": _elementwise.minimum,
    "multiply": _elementwise.multiply,
    "negative": _elementwise.negative,
    "nextafter": _elementwise.nextafter,
    "not_equal": _elementwise.not_equal,
    "positive": _elementwise.positive,
    "pow": _elementwise.pow,
    "real": _elementwise.real,
    "reciprocal": _elementwise.reciprocal,
    "remainder": _elementwise.remainder,
    "round": _elementwise.round,
    "sign": _elementwise.sign,
    "signbit": _elementwise.signbit,
    "sin": _elementwise.sin,
    "sinh": _elementwise.sinh,
    "sqrt": _elementwise.sqrt,
    "square": _elementwise.square,
    "subtract": _elementwise.subtract,
    "tan": _elementwise.tan,
    "tanh": _elementwise.tanh,
    "trunc": _elementwise.trunc,
    # indexing
    "__getitem__": _indexing.getitem,
    "__setitem__": _indexing.setitem,
    "take": _indexing.take,
    "take_along_axis": _indexing.take_along_axis,
    # linear algebra
    "matmul": _linear_algebra.matmul,
    "matrix_transpose": _linear_algebra.matrix_transpose,
    "tensordot": _linear_algebra.tensordot,
    "vecdot": _linear_algebra.vecdot,
    # manipulation
    "broadcast_arrays": _manipulation.broadcast_arrays,
    "broadcast_to": _manipulation.broadcast_to,
    "concat": _manipulation.concat,
    "expand_dims": _manipulation.expand_dims,
    "flip": _manipulation.flip,
    "moveaxis": _manipulation.moveaxis,
    "permute_dims": _manipulation.permute_dims,
    "repeat": _manipulation.repeat,
    "reshape": _manipulation.reshape,
    "roll": _manipulation.roll,
    "squeeze": _manipulation.squeeze,
    "stack": _manipulation.stack,
    "tile": _manipulation.tile,
    "unstack": _manipulation.unstack,
    # searching
    "argmax": _searching.argmax,
    "argmin": _searching.argmin,
    "count_nonzero": _searching.count_nonzero,
    "nonzero": _searching.nonzero,
    "searchsorted": _searching.searchsorted,
    "where": _searching.where,
    # sets
    "isin": _set.isin,
    "unique_all": _set.unique_all,
    "unique_counts": _set.unique_counts,
    "unique_inverse": _set.unique_inverse,
    "unique_values": _set.unique_values,
    # sorting
    "argsort": _sorting.argsort,
    "sort": _sorting.sort,
    # statistics
    "cumulative_prod": _statistical.cumulative_prod,
    "cumulative_sum": _statistical.cumulative_sum,
    "max": _statistical.max,
    "mean": _statistical.mean,
    "min": _statistical.min,
    "prod": _statistical.prod,
    "std": _statistical.std,
    "sum": _statistical.sum,
    "var": _statistical.var,
    # utilities
    "all": _utility.all,
    "any": _utility.any,
    "diff": _utility.diff,
}
