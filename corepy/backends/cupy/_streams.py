"""CuPy's streams and pools of memory; without a GPU tried on a stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import cupy
import cupyx
import numpy as np

from corepy.backends._base import Allocator
from corepy.backends._streams import Streams
from corepy.backends.cupy._lending import is_capturing
from corepy.devices._device import Device
from corepy.devices._pool import MemoryStats


class _Lent:
    """A stream that another library made, by the protocol that CuPy 14 takes it by."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


def _at(address: int) -> Any:
    """Return CuPy's object for an address; 0 is the default stream."""
    if address == 0:
        return cupy.cuda.Stream.null
    if hasattr(cupy.cuda.Stream, "from_external"):  # since 14, where the other is deprecated
        return cupy.cuda.Stream.from_external(_Lent(address))
    return cupy.cuda.ExternalStream(address)


class _Replay:
    """A recording, with the memory that it writes to."""

    def __init__(self, place: Any, graph: Any, memory: object) -> None:
        self._place = place
        self._graph = graph
        self.memory = memory

    def __call__(self) -> None:
        with self._place:  # in whose current stream, not in that of whichever device is current
            self._graph.launch()


#: cudaErrorNotReady and hipErrorNotReady, which CuPy has no name for.
_NOT_READY: Final = 600


class CuPyStreams(Streams):
    """CuPy on one device."""

    def __init__(self, device: Device) -> None:
        self._place = cupy.cuda.Device(device.index)

    def create(self) -> tuple[int, object]:
        with self._place:
            made = cupy.cuda.Stream(non_blocking=True)
        return made.ptr, made

    def current(self) -> int:
        return int(cupy.cuda.get_current_stream(self._place.id).ptr)

    @contextmanager
    def using(self, address: int) -> Iterator[None]:
        # A stream is current for one device of the thread, and that is not left changed.
        with self._place:
            before, stream = cupy.cuda.get_current_stream(), _at(address)
            stream.use()
        try:
            yield
        finally:
            with self._place:
                before.use()

    def record(self, address: int, *, timing: bool = False) -> Any:
        with self._place:
            return _at(address).record(cupy.cuda.Event(disable_timing=not timing))

    def wait(self, address: int, mark: Any) -> None:
        with self._place:
            _at(address).wait_event(mark)

    def is_done(self, mark: Any) -> bool:
        # `done` is False whatever else the runtime says, of a device that is lost too.
        runtime = cupy.cuda.runtime
        status = runtime.eventQuery(mark.ptr)
        if status != _NOT_READY:
            runtime.check_status(status)
        return bool(status == 0)

    def finish(self, mark: Any) -> None:
        mark.synchronize()

    def elapsed(self, start: Any, end: Any) -> float:
        return float(cupy.cuda.get_elapsed_time(start, end))

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        made: np.ndarray[Any, Any] = cupyx.empty_pinned(shape, dtype)
        return made

    def send(self, array: np.ndarray[Any, Any]) -> Any:
        with self._place:
            if array.ndim:
                return cupy.asarray(array)
            # CuPy would fill an array with such a value (core.pyx), where zeros lose their sign.
            return cupy.asarray(array.reshape(1)).reshape(())

    def fetch(self, native: Any, out: np.ndarray[Any, Any]) -> None:
        with self._place:  # whose current stream it is, see `to_host`
            native.get(out=out, blocking=False)

    def is_capturing(self) -> bool:
        return is_capturing(self._place.id)

    def capture(self, address: int, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        with self._place:
            stream = _at(address)
            with self.apart() as memory:
                stream.begin_capture()  # in the relaxed mode, in which pools may grow
                try:
                    made = run()
                finally:
                    graph = stream.end_capture()
        return _Replay(self._place, graph, memory), made

    @contextmanager
    def apart(self) -> Iterator[object]:
        # Not the pool is kept but its memory: a pool that cannot grow gives what no array uses back
        # to the device, and a recording writes there later.
        memory = []

        def grow(size: int) -> Any:
            made = cupy.cuda.MemoryPointer(cupy.cuda.Memory(size), 0)
            memory.append(made)
            return made

        with cupy.cuda.using_allocator(cupy.cuda.MemoryPool(grow).malloc):
            yield memory


# ---------------------------------------------------------------------------- memory


def is_out_of_memory(error: BaseException) -> bool:
    # The pool has an error of its own. What lies beneath has the runtime's, the driver's, or that
    # of cuBLAS, cuSOLVER and cuFFT, which have no class in common but RuntimeError.
    if isinstance(error, cupy.cuda.memory.OutOfMemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    owner = type(error).__module__.partition(".")[0]
    return owner in ("cupy", "cupy_backends") and any(word in str(error) for word in _WORDS)


#: Of cudaErrorMemoryAllocation, hipErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY and the like of
#: CUBLAS_STATUS_ALLOC_FAILED.
_WORDS: Final = ("MemoryAllocation", "OutOfMemory", "OUT_OF_MEMORY", "ALLOC_FAILED")


def empty_cache(place: Any) -> int:
    pool = cupy.get_default_memory_pool()
    with place:
        before = int(pool.total_bytes())
        pool.free_all_blocks()
        return before - int(pool.total_bytes())


def stats(place: Any) -> MemoryStats:
    pool = cupy.get_default_memory_pool()
    with place:
        return MemoryStats(
            allocated_bytes=int(pool.used_bytes()),
            cached_bytes=int(pool.free_bytes()),
            cached_blocks=int(pool.n_free_blocks()),
            limit_bytes=int(pool.get_limit()),
        )


def limit(place: Any, bytes_: int | None) -> None:
    with place:
        cupy.get_default_memory_pool().set_limit(size=bytes_ or 0)  # 0 is none


_before: Any = None


def use_allocator(allocator: Allocator | None) -> None:
    """Let all devices allocate by another library, or by what CuPy used before."""
    global _before
    if allocator is None:
        if _before is not None:
            cupy.cuda.set_allocator(_before)
            _before = None
        return
    if _before is None:
        _before = cupy.cuda.get_allocator()

    def allocate(size: int, number: int) -> int:
        # For the stream that the memory is asked for in, or the pool gives it away too soon.
        return allocator.allocate(size, number, cupy.cuda.get_current_stream().ptr)

    def free(address: int, number: int) -> None:
        allocator.free(address)

    cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(allocate, free).malloc)
