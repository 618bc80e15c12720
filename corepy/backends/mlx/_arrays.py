"""Arrays of MLX, and those of NumPy that stand beside them: how they come, go and are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from corepy import _dtypes
from corepy._dtypes import DTYPES, DType
from corepy.backends._exports import runs_backwards

#: An mx.array.
Array: TypeAlias = Any
#: What complex128 is held in.
HostArray = npt.NDArray[Any]

WIDE: Final = np.dtype("complex128")
NATIVE: Final[dict[DType, Any]] = {
    **{d: getattr(mx, name) for name, d in DTYPES.items() if d.bits < 128 and d.rank > 0},
    _dtypes.bool: mx.bool_,
    _dtypes.complex128: WIDE,
}
BY_NATIVE: Final[dict[Any, DType]] = {native: d for d, native in NATIVE.items()}

#: Arrays that users brought, by their ids. To write replaces what an mx.array refers to, and
#: frees it under the memoryviews of it that the user may hold.
FOREIGN: Final[WeakValueDictionary[int, Array]] = WeakValueDictionary()
#: Arrays that a transformation of MLX traces, by their ids. Evaluated ones do not show it.
TRACED: Final[WeakValueDictionary[int, Array]] = WeakValueDictionary()


def seen(x: Array | HostArray) -> HostArray:
    """Return the values, read-only, in the memory of `x`.

    A DLPack export keeps that memory alive; a memoryview is left dangling when something is
    written to its mx.array, which then refers to other memory.
    """
    return np.from_dlpack(x) if isinstance(x, mx.array) else x


class Exporter:
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
        host = values_of(self.native)
        backwards = runs_backwards(host, copy)
        if max_version is None and copy is False:  # who says so shares, and must not write
            return self.native.__dlpack__(**params)
        if max_version is None or backwards:
            host = host.copy()
        return host.__dlpack__(max_version=max_version, copy=copy, **params)


def values_of(x: Array | HostArray) -> HostArray:
    """Return the values to be computed with outside of MLX.

    ``mx.grad`` would take what comes of them for constants, and answer 0.
    """
    if TRACED and TRACED.get(id(x)) is x:
        raise ValueError(
            "the operand is traced by a transformation of MLX such as mx.grad; expected an array "
            "with values, for NumPy computes this function"
        )
    return seen(x)


def from_host(array: HostArray) -> Array | HostArray:
    if array.dtype == WIDE:
        return array
    # Without a dtype float64 becomes float32; negative strides are refused.
    values = np.asarray(array, order="C")
    if min(values.strides, default=0) < 0:  # of an axis of one element, which has no order
        values = values.copy()
    _check_room(values)
    return mx.array(values, NATIVE[DTYPES[values.dtype.name]])


#: Bytes below which an allocation can be trusted to succeed.
LARGE: Final = 2**30


def _check_room(x: Array | HostArray) -> None:
    if x.nbytes > LARGE:
        np.empty(x.nbytes, np.int8)  # takes no memory before it is written; raises MemoryError


def sent(result: Any) -> Any:
    """Send an array, or a sequence of them, to the device without waiting for the values."""
    try:
        mx.async_eval(result)
    except ValueError as error:
        if "graph transformation" not in str(error):  # mx.grad and mx.compile want it symbolic
            raise
        for part in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(part, mx.array):
                TRACED[id(part)] = part
    return result


def sending(function: Callable[..., Any]) -> Callable[..., Any]:
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
        return sent(made)

    return native
