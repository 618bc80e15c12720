"""OpenCL on tinygrad's tensors: in their memory, and in the queue that tinygrad's kernels go to."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache
from typing import Any

import pyopencl as cl
import pyopencl.array as cla
from tinygrad import Device as Devices
from tinygrad import Tensor

from corepy._dtypes import DTYPES
from corepy.backends.tinygrad import _arrays
from corepy.kernels._arguments import Given
from corepy.kernels._device._opencl import OpenCL
from corepy.kernels._device._runtime import Memory, numpy_dtype


class Tinygrad(OpenCL):
    """Kernels in tinygrad's own context: pyopencl takes its objects by their handles.

    tinygrad's queue runs in order, so that a kernel comes after what computed its operands. Tensors
    that are equal may share a buffer, and none is ever written to.
    """

    writes = False

    def takes(self, x: Given) -> bool:
        # Complex ones and the like are held as bytes, and int8 and others have no kernels.
        usable = isinstance(x.native, Tensor) and x.dtype in DTYPES and x.size > 0
        return usable and super().takes(_seen(x))

    def memory(self, x: Given) -> Memory:
        return super().memory(_seen(x))

    def empty(self, x: Given, shape: tuple[int, ...], dtype: str) -> tuple[Any, Memory]:
        made = _arrays.empty(shape, DTYPES[dtype], x.native.device)
        return made, self.memory(replace(x, native=made, dtype=dtype, shape=shape))

    def queue(self, x: Given) -> Any:
        return _queue(x.native.device)


def _seen(x: Given) -> Given:
    """Return an argument as an array of pyopencl on its memory."""
    buffer = _arrays.buffer_of(x.native)
    memory = cl.MemoryObject.from_int_ptr(_handle(buffer._buf))
    found = cla.Array(_queue(x.native.device), x.shape, numpy_dtype(x.dtype), data=memory)
    found.buffer = buffer  # which gives its memory to others when it is gone
    return replace(x, native=found)


@cache
def _queue(place: str) -> Any:
    return cl.CommandQueue.from_int_ptr(_handle(Devices[place].queue))


def _handle(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0
