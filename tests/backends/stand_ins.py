"""Two more libraries on the GPU of `tests.backends.gpu_on_host`.

`Second` has streams that others may use, as torch has. `Alone` orders its work by itself, as JAX
does: nobody can choose its stream, DLPack's exchange apart, and it writes at once into memory that
comes back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from corepy.backends._base import Allocator, Capabilities
from corepy.backends._numpy import NumPyBackend
from corepy.backends._streams import Streams
from corepy.devices._device import Device, as_device
from corepy.devices._pool import MemoryStats
from corepy.testing import FakeArray, FakeBackend
from tests.backends.gpu_on_host import GPU, Arena, Current, Mark, Pool, later

CUDA = as_device("cuda:0")


class OutOfMemory(RuntimeError):
    """As torch's and XLA's, which are no ``MemoryError``."""


class Array(FakeArray):
    """Memory of the GPU, which is lent by DLPack."""

    __slots__ = ("__weakref__", "owner")

    owner: Second

    def __dlpack_device__(self) -> Any:
        return self._values.__dlpack_device__()

    def __dlpack__(self, *, stream: Any = None, **params: Any) -> Any:
        self.owner.lend(stream)
        return self._values.__dlpack__()


class Held(Streams):
    """The streams of `Second`."""

    def __init__(self, current: Current, kept: list[Any]) -> None:
        self._current = current
        self.kept = kept

    def create(self) -> tuple[int, object]:
        return GPU.create(), object()

    def current(self) -> int:
        return self._current.address

    @contextmanager
    def using(self, address: int) -> Iterator[None]:
        before, self._current.address = self._current.address, address
        try:
            yield
        finally:
            self._current.address = before

    def record(self, address: int, *, timing: bool = False) -> Mark:
        return GPU.record(address)

    def wait(self, address: int, mark: Mark) -> None:
        GPU.wait(address, mark)

    def is_done(self, mark: Mark) -> bool:
        return mark.query()

    def finish(self, mark: Mark) -> None:
        GPU.finish(mark)

    def elapsed(self, start: Mark, end: Mark) -> float:
        return 2.5

    @contextmanager
    def apart(self) -> Iterator[object]:
        self.kept.append("apart")
        yield self


class Second(FakeBackend):
    """A library on ``cuda:0`` with streams that others may use."""

    name = "second"
    error: Callable[[int], Exception] = staticmethod(
        lambda size: OutOfMemory(f"second: no {size} bytes")
    )

    def __init__(self) -> None:
        super().__init__(devices={"cuda:0": Capabilities().dtypes})
        self.current = Current()
        self.kept: list[Any] = []
        self.held = Held(self.current, self.kept)
        self.pool = Pool(self.error)
        self.arena = Arena()
        self.lent: list[tuple[int, int, int]] = []

    def streams(self, device: Device) -> Streams | None:
        return self.held

    def _array(self, values: Any) -> Array:
        made = Array(values, CUDA)
        made.owner = self
        return made

    def operation(self, name: str) -> Callable[..., Any] | None:
        native = NumPyBackend().operation(name)
        if native is None or name in self.lacks:
            return None

        def run(*args: Any, **params: Any) -> Any:
            inside = [arg._values if isinstance(arg, FakeArray) else arg for arg in args]
            arena = self.arena if GPU.defers else None
            made = later(native, inside, params, self.current.address, arena)
            return self._new(made if isinstance(made, np.ndarray) else np.asarray(made))

        return run

    def _new(self, values: Any) -> Array:
        made = self._array(values)
        self.pool.follow(made, values.nbytes)
        return made

    def scalar(self, value: Any, dtype: Any, device: Device) -> Array:
        return self._array(np.asarray(value, dtype.name))

    def to_numpy(self, native: FakeArray, *, copy: bool | None = None) -> Any:
        if GPU.defers:
            GPU.drain(self.current.address)
        return super().to_numpy(native, copy=copy)

    def from_numpy(self, array: Any, device: Device, *, copy: bool | None = None) -> Array:
        return self._new(super().from_numpy(array, device, copy=copy)._values)

    def lend(self, stream: Any) -> None:
        """Let the consumer's stream wait for this library's, as DLPack has it."""
        if stream != self.current.address:
            GPU.wait(1 if stream is None else stream, GPU.record(self.current.address))

    def import_(self, exporter: Any, device: Device) -> tuple[Array, bool]:
        capsule = exporter.__dlpack__(stream=self.current.address or 1)
        return self._array(np.from_dlpack(_Capsule(capsule))), False

    # ------------------------------------------------------------------ memory

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, OutOfMemory)

    def empty_cache(self, device: Device) -> int:
        return self.pool.empty()

    def memory_stats(self, device: Device) -> MemoryStats:
        return MemoryStats(allocated_bytes=self.pool.used, cached_bytes=self.pool.cached)

    def lend_allocator(self) -> Allocator:
        tokens: dict[int, object] = {}

        def allocate(size: int, number: int, stream: int) -> int:
            address = 0x5000 + len(self.lent)
            self.lent.append((size, number, stream))
            tokens[address] = self.pool.take(size)
            return address

        def free(address: int) -> None:
            self.pool.give(tokens.pop(address))

        return Allocator(self.name, allocate, free)


class Alone(Second):
    """A library on ``cuda:0`` whose stream is nobody else's affair."""

    name = "alone"

    def __init__(self) -> None:
        super().__init__()
        self.current.address = GPU.create()

    def streams(self, device: Device) -> Streams | None:
        return None

    def synchronize(self, device: Device) -> None:
        GPU.drain(self.current.address)

    def import_(self, exporter: Any, device: Device) -> tuple[Array, bool]:
        capsule = exporter.__dlpack__(stream=self.current.address)
        lent = np.from_dlpack(_Capsule(capsule))
        made = self._array(later(np.array, (lent,), {}, self.current.address))
        self.synchronize(device)
        return made, True

    def legacy_exporter(self, native: Any, *, copy: bool | None) -> Any:
        if copy is False:
            return native
        return self._array(later(np.array, (native._values,), {}, self.current.address))


class _Capsule:
    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack_device__(self) -> Any:
        return np.empty(0).__dlpack_device__()

    def __dlpack__(self, **params: Any) -> Any:
        return self.capsule
