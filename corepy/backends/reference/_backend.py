"""The adapter between the dispatcher and the reference functions."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from corepy._dtypes import DType, Scalar, as_dtype
from corepy.backends import reference
from corepy.backends._base import Backend, Capabilities
from corepy.backends.reference import _creation, _indexing
from corepy.backends.reference._array import ReferenceArray
from corepy.backends.reference._precise import lacking
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
        if extension not in _EXTENSIONS or self.unserved():
            return None
        module = importlib.import_module(f"corepy.backends.reference.{extension}")
        found: Callable[..., Any] | None = getattr(module, function, None)
        return found if function in module.__all__ else None

    def unserved(self) -> tuple[str, ...]:
        found = lacking()
        return (found,) if found else ()

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
            raise ValueError(_APART)
        return np.array(native.values, dtype=native.dtype.name).reshape(native.shape)

    def from_numpy(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None
    ) -> ReferenceArray:
        if copy is False:
            raise ValueError(_APART)
        values = array.ravel().tolist()
        return ReferenceArray(values, array.shape, as_dtype(array.dtype, "from_numpy", "array"))

    def shares_memory(self, native: ReferenceArray, array: np.ndarray[Any, Any]) -> bool:
        return False


_EXTENSIONS: Final = ("linalg", "fft")
#: Why its memory is not shared.
_APART: Final = "reference keeps lists, which share no memory"

#: The public functions by name, and those of the operator ``[]``.
_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    **{
        name: function
        for name in reference.__all__
        if isinstance(function := getattr(reference, name), FunctionType)
    },
    "__getitem__": _indexing.getitem,
    "__setitem__": _indexing.setitem,
}
