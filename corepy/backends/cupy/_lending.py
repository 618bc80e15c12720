"""Which of CuPy's arrays another library may read, and when it may take part."""

from __future__ import annotations

import math
from typing import Any, Final

import cupy

from corepy.backends._streams import ALIGNMENT

#: Addresses that mean the default stream, of which nothing is recorded.
DEFAULT: Final = (0, 1)


def is_capturing(number: int) -> bool:
    """Say whether what is asked of the current stream of a device is recorded, and not done."""
    stream = cupy.cuda.get_current_stream(number)
    return stream.ptr not in DEFAULT and bool(stream.is_capturing())


#: Memory that is the host's too, of which other libraries take none.
_UNIFIED: Final = ("ManagedMemory", "SystemMemory")


def is_plain(native: Any) -> bool:
    """Say whether an array lies in memory of its device alone, and begins where vectors may."""
    place = native.data
    memory = place.mem
    kind = getattr(memory, "identity", None) or memory.__class__.__name__
    return place.ptr % ALIGNMENT == 0 and kind not in _UNIFIED


def view(
    address: int,
    shape: tuple[int, ...],
    dtype: Any,
    strides: tuple[int, ...] | None,
    owner: Any,
    number: int,
) -> Any:
    """Return memory of another library on a device as an array, which keeps its owner alive.

    Parameters
    ----------
    address : int
        Of the first element.
    strides : tuple of int or None
        In bytes, none of them negative; None for C's order.
    """
    size: int = dtype.itemsize
    if strides is None:
        size *= math.prod(shape)
    else:
        for n, step in zip(shape, strides, strict=True):
            size += (n - 1) * step
    memory = cupy.cuda.UnownedMemory(address, size, owner, number)
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0), strides)
