"""torch's streams on CUDA and ROCm; without a GPU tried on a stand-in for `torch.cuda`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from corepy._signals import suppressed
from corepy.backends._streams import Streams
from corepy.backends.torch._devices import place_of
from corepy.backends.torch._memory import CUDA_KINDS
from corepy.devices._device import Device

if TYPE_CHECKING:
    import numpy as np


@cache
def streams_of(device: Device) -> Streams | None:
    return TorchStreams(device) if device.kind in CUDA_KINDS else None


def current_address(number: int) -> int:
    """Return the address of the current stream of a device."""
    look = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a tenth of the public way's time
    if look is not None:
        return int(look(number))
    return int(torch.cuda.current_stream(number).cuda_stream)


class TorchStreams(Streams):
    """`torch.cuda` on one device."""

    def __init__(self, device: Device) -> None:
        self._place = place_of(device)
        self._number = device.index or 0

    def create(self) -> tuple[int, object]:
        made = torch.cuda.Stream(self._place)
        return made.cuda_stream, made

    def current(self) -> int:
        return current_address(self._number)

    def _at(self, address: int) -> Any:
        if address == torch.cuda.default_stream(self._place).cuda_stream:
            return torch.cuda.default_stream(self._place)
        return torch.cuda.ExternalStream(address, self._place)

    def using(self, address: int) -> AbstractContextManager[object]:
        context: AbstractContextManager[object] = torch.cuda.stream(self._at(address))
        return context

    def record(self, address: int, *, timing: bool = False) -> Any:
        return self._at(address).record_event(torch.cuda.Event(enable_timing=timing))

    def wait(self, address: int, mark: Any) -> None:
        self._at(address).wait_event(mark)

    def is_done(self, mark: Any) -> bool:
        return bool(mark.query())

    def finish(self, mark: Any) -> None:
        mark.synchronize()

    def elapsed(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end))

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        # Of the host, whatever device torch makes tensors on by default.
        made: np.ndarray[Any, Any] = torch.empty(
            shape, dtype=getattr(torch, dtype.name), device="cpu", pin_memory=True
        ).numpy()
        return made

    def send(self, array: np.ndarray[Any, Any]) -> torch.Tensor:
        return torch.from_numpy(array).to(self._place, non_blocking=True)

    def fetch(self, native: torch.Tensor, out: np.ndarray[Any, Any]) -> None:
        torch.from_numpy(out).copy_(native, non_blocking=True)

    def is_capturing(self) -> bool:
        with torch.cuda.device(self._place):
            return bool(torch.cuda.is_current_stream_capturing())

    def capture(self, address: int, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        # Other libraries may allocate meanwhile, which the stricter modes forbid.
        recording = torch.cuda.graph(
            graph, pool=pool, stream=self._at(address), capture_error_mode="relaxed"
        )
        try:
            with recording:
                made = run()
        except BaseException:
            self._forget(graph, pool)
            raise
        return graph.replay, made

    def _forget(self, graph: Any, pool: Any) -> None:
        """Let torch allocate as before a recording that failed.

        Where the driver refuses to end it, torch's `capture_end` raises before it tells its
        allocator, which thinks of a recording from then on: the next pool that goes ends the
        process (`synchronize_and_free_events` in CUDACachingAllocator.cpp).
        """
        try:
            graph.pool()
        except RuntimeError:  # of a recording that did not end
            with suppressed(RuntimeError):  # it has not begun, so there is nothing to forget
                torch._C._cuda_endAllocateToPool(self._place.index, pool)
                torch._C._cuda_releasePool(self._place.index, pool)

    @contextmanager
    def apart(self) -> Iterator[object]:
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool, self._place):
            yield pool
