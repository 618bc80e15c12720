"""What the stand-in for CuPy has in ``cupy.cuda``: devices, streams, graphs, and pools of memory.

Streams put work off once ``GPU.defers``, and memory runs out at ``GPU.capacity`` bytes
(`tests.backends.gpu_on_host`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from tests.backends import gpu_on_host
from tests.backends.gpu_on_host import GPU, Arena, CaptureError, Current, Pool


class CUDARuntimeError(RuntimeError):
    """What CuPy raises where the driver is missing."""

    __module__ = "cupy_backends.cuda.api.runtime"


#: What the runtime returns of an event that is not done, and of one that was recorded in a graph.
_NOT_READY, _CAPTURED = 600, 907
#: What it returns of all that is asked of a device which is lost; for `GPU.lost`.
UNAVAILABLE = 46
_NAMES = {UNAVAILABLE: "cudaErrorDevicesUnavailable", _CAPTURED: "cudaErrorCapturedEvent"}


def _check_status(status: int) -> None:
    if status:
        raise CUDARuntimeError(f"{_NAMES[status]}: the driver's words")


def _event_query(event: Event) -> int:
    """Return a status as it is, and raise nothing (runtime.pyx)."""
    if GPU.lost:
        return GPU.lost
    try:
        return 0 if event.mark.query() else _NOT_READY
    except CaptureError:
        return _CAPTURED


class OutOfMemoryError(MemoryError):
    """What CuPy raises where its pool cannot grow."""

    def __init__(self, size: int) -> None:
        super().__init__(f"Out of memory allocating {size:,} bytes")


class _Place(threading.local):
    """The devices that a thread is in, the current one last, and its stream on each."""

    def __init__(self) -> None:
        self.numbers = [0]
        self.streams: dict[int, int] = {}


class _OfDevice(Current):
    """The stream that is current on the current device."""

    @property
    def address(self) -> int:
        return PLACE.streams.get(PLACE.numbers[-1], 0)

    @address.setter
    def address(self, value: int) -> None:
        PLACE.streams[PLACE.numbers[-1]] = value


PLACE = _Place()
CURRENT = _OfDevice()
POOL = Pool(OutOfMemoryError)


class Device:
    """As CuPy's. All devices have the one memory."""

    def __init__(self, number: int | None = None) -> None:
        self.id = PLACE.numbers[-1] if number is None else number

    def __enter__(self) -> Device:
        PLACE.numbers.append(self.id)
        return self

    def __exit__(self, *error: object) -> None:
        PLACE.numbers.pop()

    @property
    def mem_info(self) -> tuple[int, int]:
        _check_status(GPU.lost)
        total = GPU.capacity or 1 << 40
        return total - sum(pool.used + pool.cached for pool in GPU.pools), total

    def synchronize(self) -> None:
        _check_status(GPU.lost)
        if GPU.recording:  # of any stream of the device
            raise CaptureError("cudaErrorStreamCaptureUnsupported: operation not permitted")
        for address in list(GPU.queues):
            GPU.drain(address)


class Event:
    """As CuPy's; a mark in the GPU's queue."""

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.timed = not disable_timing
        self.mark: Any = None

    @property
    def ptr(self) -> Event:
        return self

    @property
    def done(self) -> bool:
        """Compare whatever the driver says with success (stream.pyx)."""
        return _event_query(self) == 0

    def synchronize(self) -> None:
        _check_status(GPU.lost)
        GPU.finish(self.mark)


class Stream:
    """As CuPy's, with what the adapter calls."""

    null: Stream

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        _check_status(0 if null else GPU.lost)
        self.ptr = 0 if null else GPU.create()
        self.device_id = -1 if null else PLACE.numbers[-1]

    @classmethod
    def from_external(cls, obj: Any) -> Stream:
        version, address = obj.__cuda_stream__()
        assert version == 0
        made = cls(null=True)
        made.ptr = address
        return made

    def use(self) -> Stream:
        if self.device_id not in (-1, PLACE.numbers[-1]):
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id}) does not match with "
                f"the current device ({PLACE.numbers[-1]})"
            )
        CURRENT.address = self.ptr
        return self

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        _check_status(GPU.lost)
        event.mark = GPU.record(self.ptr)
        return event

    def wait_event(self, event: Event) -> None:
        _check_status(GPU.lost)
        GPU.wait(self.ptr, event.mark)

    def is_capturing(self) -> bool:
        _check_status(GPU.lost)
        return self.ptr in GPU.recording

    def begin_capture(self, mode: int | None = None) -> None:
        if self.ptr in (0, 1):
            raise RuntimeError("cannot capture on the default (legacy) stream")
        GPU.begin(self.ptr)

    def end_capture(self) -> Graph:
        return Graph(GPU.end(self.ptr))


Stream.null = Stream(null=True)


class Graph:
    """What was recorded."""

    def __init__(self, work: list[Any]) -> None:
        self.work = work

    def launch(self, stream: Stream | None = None) -> None:
        _check_status(GPU.lost)
        for each in self.work:
            GPU.ask(CURRENT.address if stream is None else stream.ptr, each)


class ExternalStream(Stream):
    """As that of CuPy 13, which has no `Stream.from_external`."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        super().__init__(null=True)
        self.ptr = ptr


def _current_stream(device_id: int = -1) -> Stream:
    number = PLACE.numbers[-1] if device_id < 0 else device_id
    return ExternalStream(PLACE.streams.get(number, 0))


class Memory:
    """Memory that no pool gives: the next to be allocated."""

    def __init__(self, size: int) -> None:
        self.size = size


class MemoryPointer:
    """As CuPy's."""

    def __init__(self, mem: Memory, offset: int) -> None:
        self.mem = mem


class MemoryPool:
    """As CuPy's, on the one pool that the stand-in counts in; each lends memory of its own."""

    def __init__(self, allocator: Any = None) -> None:
        self.arena = Arena(allocator)

    def malloc(self, size: int) -> Any:
        POOL.take(size)
        return size

    def used_bytes(self) -> int:
        return POOL.used

    def free_bytes(self) -> int:
        return POOL.cached

    def total_bytes(self) -> int:
        return POOL.used + POOL.cached

    def n_free_blocks(self) -> int:
        return int(POOL.cached > 0)

    def free_all_blocks(self, stream: Any = None) -> None:
        POOL.empty()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        POOL.limit = size or 0

    def get_limit(self) -> int:
        return POOL.limit


class PythonFunctionAllocator:
    """As CuPy's: memory of other people's functions."""

    def __init__(self, malloc_func: Any, free_func: Any) -> None:
        self.malloc_func, self.free_func = malloc_func, free_func

    def malloc(self, size: int) -> _Lent | None:
        return _Lent(self, size) if size else None


class _Lent:
    def __init__(self, allocator: PythonFunctionAllocator, size: int) -> None:
        self.address = allocator.malloc_func(size, 0)
        weakref.finalize(self, allocator.free_func, self.address, 0)


class _Mine(threading.local):
    """The allocator that a thread uses for a while."""

    allocator: Any = None


DEFAULT_POOL = MemoryPool()
_allocator: Any = DEFAULT_POOL.malloc
_mine = _Mine()


def _set_allocator(allocator: Any = None) -> None:
    global _allocator
    if _mine.allocator is not None:
        raise ValueError(
            "Can't change the global allocator inside `using_allocator` context manager"
        )
    _allocator = allocator


def _get_allocator() -> Any:
    return _allocator if _mine.allocator is None else _mine.allocator


@contextmanager
def _using_allocator(allocator: Any = None) -> Iterator[None]:
    before, _mine.allocator = _mine.allocator, allocator
    try:
        yield
    finally:
        _mine.allocator = before


def _pool() -> MemoryPool | None:
    """Return the pool that memory comes from, None where it is somebody else's."""
    owner = getattr(_get_allocator(), "__self__", None)
    return owner if isinstance(owner, MemoryPool) else None


def allocated(array: Any) -> Any:
    """Take memory for an array from the allocator in force, until the array is gone."""
    if GPU.capacity is not None:
        if _pool() is not None:
            POOL.follow(array, array.nbytes)
        else:
            array._memory = _get_allocator()(array.nbytes)
    return array


def later(function: Any, args: Any, params: Any, address: int) -> Any:
    """Do as `gpu_on_host.later`, in memory of the pool in force."""
    pool = _pool() if GPU.defers else None
    arena = pool and pool.arena
    return gpu_on_host.later(function, args, params, address, arena)


def ready() -> None:
    """Wait for the current stream, as whoever reads a value does."""
    if GPU.defers:
        GPU.drain(CURRENT.address)


def refuse_capturing(way: str) -> None:
    if CURRENT.address in GPU.recording:
        raise RuntimeError(f"the current stream is capturing, so {way} transfers are disallowed")


def cuda_of(devices: int) -> dict[str, Any]:
    """Return what ``cupy.cuda`` has on a machine with so many devices."""

    def count() -> int:
        if not devices:
            raise CUDARuntimeError(
                "cudaErrorInsufficientDriver: CUDA driver version is insufficient"
            )
        return devices

    def elapsed(start: Event, end: Event) -> float | None:
        _check_status(GPU.lost)
        return 1.5 if start.timed and end.timed else None

    runtime = SimpleNamespace(
        is_hip=False,
        getDeviceCount=count,
        eventQuery=_event_query,
        check_status=_check_status,
        CUDARuntimeError=CUDARuntimeError,
    )
    return {
        "Device": Device,
        "Stream": Stream,
        "ExternalStream": ExternalStream,
        "Event": Event,
        "Memory": Memory,
        "MemoryPointer": MemoryPointer,
        "MemoryPool": MemoryPool,
        "PythonFunctionAllocator": PythonFunctionAllocator,
        "get_current_stream": _current_stream,
        "get_elapsed_time": elapsed,
        "get_allocator": _get_allocator,
        "set_allocator": _set_allocator,
        "using_allocator": _using_allocator,
        "memory": SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        "runtime": runtime,
    }
