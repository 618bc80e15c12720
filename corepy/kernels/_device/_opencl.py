"""OpenCL: kernels built and launched by pyopencl, on its arrays and their queues."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from corepy._errors import (
    DeviceMismatchError,
    UnsupportedOperationError,
    refused,
    wrong_dtype,
)
from corepy.backends._base import Native
from corepy.devices._device import Device, as_device
from corepy.kernels._arguments import Given, unusable
from corepy.kernels._device._runtime import ITEM_SIZE, Memory, Program, Target, numpy_dtype
from corepy.kernels._libraries import DeviceLibrary


class PyOpenCL(DeviceLibrary):
    """Arrays of ``pyopencl.array``."""

    name = "pyopencl"

    def __init__(self) -> None:
        #: The queue used last on each device, on which to wait for it.
        self._queues: dict[Device, Any] = {}

    def owns(self, obj: object) -> bool:
        return isinstance(obj, cla.Array)

    def devices(self) -> tuple[Device, ...]:
        return tuple(as_device(f"opencl:{n}") for n in range(len(_devices())))

    def device_of(self, native: Native) -> Device:
        queue = native.queue
        device = native.context.devices[0] if queue is None else queue.device
        place = as_device(f"opencl:{_devices().index(device)}")
        if queue is not None:
            self._queues[place] = queue
        return place

    def to_numpy(self, native: Native, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise self.apart()
        values: np.ndarray[Any, Any]
        values = native.get() if native.flags.c_contiguous else _values_of_view(native)
        return values

    def from_numpy(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None
    ) -> Native:
        if copy is False:
            raise self.apart()
        queue = self._queues.get(device)
        if queue is None:
            found = _devices()[device.index or 0]
            queue = self._queues[device] = cl.CommandQueue(cl.Context([found]))
        return cla.to_device(queue, np.ascontiguousarray(array))

    def like(self, array: np.ndarray[Any, Any], native: Native) -> Native:
        return cla.to_device(native.queue, np.ascontiguousarray(array))

    def synchronize(self, device: Device) -> None:
        if device in self._queues:
            self._queues[device].finish()


def _values_of_view(native: Native) -> np.ndarray[Any, Any]:
    """Read what does not lie side by side, with all that lies between its first and last byte."""
    if native.size == 0:
        return np.empty(native.shape, native.dtype)
    size = native.dtype.itemsize
    ends = [(n - 1) * stride for n, stride in zip(native.shape, native.strides, strict=True)]
    below = -sum(end for end in ends if end < 0)
    whole = cla.Array(
        native.queue,
        1 + sum(map(abs, ends)) // size,
        native.dtype,
        data=native.base_data,
        offset=native.offset - below,
        events=native.events,
    ).get()
    return np.lib.stride_tricks.as_strided(whole[below // size :], native.shape, native.strides)


@cache
def _devices() -> list[Any]:
    return [device for platform in cl.get_platforms() for device in platform.get_devices()]


class OpenCL(Target):
    """Kernels on devices of OpenCL 1.2 and later."""

    name = "opencl"

    def takes(self, x: Given) -> bool:
        queue = x.native.queue
        if queue is None:
            raise unusable(x, "has no queue", "one, from Array.with_queue")
        offset, size = x.native.offset, ITEM_SIZE[x.dtype]
        if offset % size:
            expected = f"a multiple of the {size} bytes of an element"
            raise unusable(x, f"begins {offset} bytes into its buffer", expected)
        if x.dtype == "float64" and not queue.device.double_fp_config:
            expected = "float16, bfloat16 or float32, for this device lacks float64"
            raise wrong_dtype(x.function, x.argument, x.dtype, x.device, expected)
        return True

    def memory(self, x: Given) -> Memory:
        return _memory(x.native, x.dtype, x.shape)

    def empty(self, x: Given, shape: tuple[int, ...], dtype: str) -> tuple[Any, Memory]:
        made = numpy_dtype(dtype)
        try:
            native = cla.empty(x.native.queue, shape, made, allocator=x.native.allocator)
        except (cl.MemoryError, cl.LogicError) as error:  # neither is Python's
            too_large = error.code == cl.status_code.INVALID_BUFFER_SIZE  # for the device
            if isinstance(error, cl.LogicError) and not too_large:
                raise
            raise MemoryError(str(error)) from error
        return native, _memory(native, dtype, shape)

    def units(self, x: Given) -> int:
        return int(self.queue(x).device.max_compute_units)

    def queue(self, x: Given) -> Any:
        """Return the queue that kernels on an argument go to."""
        return x.native.queue

    def run(
        self,
        x: Given,
        program: Program,
        name: str,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: Sequence[Any],
        memories: Sequence[Memory],
        defines: tuple[tuple[str, object], ...],
        shared: int,
    ) -> None:
        queue = self.queue(x)
        for memory in memories:
            if memory.owner.context != queue.context:
                found, expected = (
                    f"belongs to another context of {x.device}",
                    f"that of {x.argument}",
                )
                raise refused(DeviceMismatchError, x.function, "an array", found, expected)
        if (most := queue.device.max_work_group_size) < math.prod(block):
            found = f"is on {x.device}, whose groups have up to {most} work-items"
            expected = f"a device of at least {math.prod(block)}"
            raise refused(UnsupportedOperationError, x.function, x.argument, found, expected)
        built, idle = _built(queue.context, queue.device, program, name, block, defines)
        total = tuple(n * size for n, size in zip(grid, block, strict=True))
        # Of arrays on other queues, or on one that runs out of order.
        before = [event for memory in memories for event in memory.owner.events]
        # To set arguments and to launch are two calls: meanwhile no other has this kernel, be it a
        # thread's or, between them, a signal's handler's, for which a lock would never be free.
        try:
            kernel = idle.pop()
        except IndexError:
            kernel = cl.Kernel(built, name)
        kernel.set_args(*arguments)
        event = cl.enqueue_nd_range_kernel(queue, kernel, total, block, wait_for=before)
        idle.append(kernel)
        for memory in memories:
            if memory.written:
                memory.owner.add_event(event)


def _memory(native: Native, dtype: str, shape: tuple[int, ...]) -> Memory:
    size = ITEM_SIZE[dtype]
    strides = tuple(stride // size for stride in native.strides)
    place = native.base_data, native.offset // size, _address(native)
    return Memory(dtype, shape, strides, *place, native)


def _address(native: Native) -> tuple[Any, int]:
    """Return which buffer an array is part of, and at which of its bytes it begins."""
    buffer, start = native.base_data, native.offset
    if buffer is None:  # of an array without elements
        return None, 0
    if not isinstance(buffer, cl.Buffer):
        return native.context.int_ptr, buffer.svm_ptr + start  # shared virtual memory
    whole = buffer.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
    if whole is not None:  # a part of another buffer
        return whole.int_ptr, start + buffer.get_info(cl.mem_info.OFFSET)
    return buffer.int_ptr, start


@lru_cache(maxsize=1024)
def _built(
    context: Any,
    device: Any,
    program: Program,
    name: str,
    block: tuple[int, ...],
    defines: tuple[tuple[str, object], ...],
) -> tuple[Any, list[Any]]:
    """Build a program, whose code the driver or pyopencl keeps on disk; its idle kernels beside it.

    As many as there ever were at once.
    """
    options = ["-cl-std=CL1.2"]
    if ("WIDE", "float32") in defines:  # devices without float64 have no such constants
        options.append("-cl-single-precision-constant")
    text = program.text(block, tuple(sorted(defines)))
    return cl.Program(context, text).build(options, devices=[device]), []
