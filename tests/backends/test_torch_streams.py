"""Streams, events, recordings, copies and memory of a GPU in torch's words, on a stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from corepy.devices import MemoryInfo
from corepy.devices._device import as_device
from tests.backends.gpu_on_host import GPU, Current

pytestmark = pytest.mark.backend("torch")


@pytest.fixture
def torch_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Put the GPU of the tests behind the names of `torch.cuda` that the adapter uses.

    It has those parameters of torch that the adapter gives. What torch does with them only a GPU
    shows.
    """
    import torch

    current = Current()

    class Stream:
        def __init__(self, device: Any = None) -> None:
            assert device == torch.device("cuda", 0)
            self.cuda_stream = GPU.create()

        def record_event(self, event: Any = None) -> Any:
            event.mark = GPU.record(self.cuda_stream)
            return event

        def wait_event(self, event: Any) -> None:
            GPU.wait(self.cuda_stream, event.mark)

    class ExternalStream(Stream):
        def __init__(self, stream_ptr: int, device: Any = None) -> None:
            assert stream_ptr != 0  # which torch takes for another stream than its default
            super().__init__(device)
            self.cuda_stream = stream_ptr

    class Event:
        def __init__(self, enable_timing: bool = False) -> None:
            self.timed = enable_timing

        def query(self) -> bool:
            return bool(self.mark.query())  # type: ignore[attr-defined]

        def synchronize(self) -> None:
            GPU.finish(self.mark)  # type: ignore[attr-defined]

        def elapsed_time(self, end: Any) -> float:
            assert self.timed
            assert end.timed
            return 3.5

    def at(address: int) -> Any:
        made = Stream(torch.device("cuda", 0))
        made.cuda_stream = address
        return made

    @contextmanager
    def stream(chosen: Any) -> Iterator[None]:
        before, current.address = current.address, chosen.cuda_stream
        yield
        current.address = before

    named = {"Stream": Stream, "ExternalStream": ExternalStream, "Event": Event, "stream": stream}
    for name, value in named.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: at(current.address))
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device: at(0))
    raw = "_cuda_getCurrentRawStream"  # of builds with CUDA alone
    monkeypatch.setattr(torch._C, raw, lambda number: current.address, raising=False)
    from corepy.backends.torch._streams import TorchStreams

    GPU.defers = True
    yield TorchStreams(as_device("cuda:0"))
    GPU.defers = False
    GPU.queues.clear()


def test_torchs_streams_and_events(torch_cuda: Any) -> None:
    held = torch_cuda
    address, owner = held.create()
    assert (owner.cuda_stream, held.current()) == (address, 0)
    done = []
    GPU.ask(0, lambda: done.append("before"))
    held.wait(address, held.record(0))
    with held.using(address):
        assert held.current() == address
        GPU.ask(held.current(), lambda: done.append("inside"))
    assert held.current() == 0
    start, end = (held.record(address, timing=True) for _ in range(2))
    assert not held.is_done(end)
    held.finish(end)
    assert (done, held.is_done(end), held.elapsed(start, end)) == (["before", "inside"], True, 3.5)


def test_marks_of_a_recording_are_forgotten(torch_cuda: Any) -> None:
    from corepy.devices import _pinned

    address, _ = torch_cuda.create()
    GPU.begin(address)
    with torch_cuda.using(address):
        _pinned.keep(torch_cuda, "of a recording")
    GPU.end(address)
    _pinned.keep(torch_cuda, "of a copy")
    with pytest.raises(RuntimeError, match="cudaErrorCapturedEvent"):
        torch_cuda.is_done(_pinned._on_their_way[0][1])
    _pinned.let_go()
    assert [kept for _, _, kept in _pinned._on_their_way] == ["of a copy"]
    GPU.drain(0)
    _pinned.let_go()
    assert _pinned._on_their_way == []


def test_copies_are_on_their_way_also_while_nobody_may_ask(
    torch_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while another thread records a graph by `torch.cuda.graph` in the mode of its own."""
    from corepy.devices import _pinned

    def refuse(mark: Any) -> bool:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    GPU.ask(0, lambda: None)
    _pinned.keep(torch_cuda, "of a copy")
    with monkeypatch.context() as patch:
        patch.setattr(torch_cuda, "is_done", refuse)
        _pinned.let_go()
    assert [kept for _, _, kept in _pinned._on_their_way] == ["of a copy"]
    GPU.drain(0)
    _pinned.let_go()
    assert _pinned._on_their_way == []


def test_torch_takes_and_borrows_by_dlpack() -> None:
    import torch

    from corepy.dispatch import load

    asked: list[Any] = []

    class Exporter:
        def __dlpack_device__(self) -> Any:
            return tensor.__dlpack_device__()

        def __dlpack__(self, *, stream: Any = None, **params: Any) -> Any:
            asked.append(stream)
            return tensor.__dlpack__(stream=stream, **params)

    tensor, backend, cpu = torch.arange(3.0), load("torch"), as_device("cpu")
    taken, new = backend.import_(Exporter(), cpu)
    borrowed = backend.borrow(Exporter(), cpu)  # who borrows has seen to the order itself
    assert (new, asked) == (False, [None, -1])
    tensor[0] = 7.0
    assert (taken.tolist(), borrowed.tolist()) == ([7.0, 1.0, 2.0], [7.0, 1.0, 2.0])


def test_torch_copies_by_pinned_memory(torch_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    asked: list[Any] = []
    empty = torch.empty

    def pinning(shape: Any, *, pin_memory: bool, dtype: Any, **place: Any) -> Any:
        asked.append((shape, dtype, pin_memory))
        return empty(shape, dtype=dtype, **place)

    # Whatever device the user makes tensors on by default: memory of others is not pinned.
    with torch.device("meta"), monkeypatch.context() as patch:
        assert torch.empty(0).is_meta  # from then on torch knows which functions that concerns
        patch.setattr(torch, "empty", pinning)
        host = torch_cuda.pinned((2, 3), np.dtype(np.float32))
    assert (host.shape, host.dtype, asked) == ((2, 3), np.float32, [((2, 3), torch.float32, True)])
    host[...] = np.arange(6).reshape(2, 3)
    monkeypatch.setattr(torch_cuda, "_place", torch.device("cpu"))
    made = torch_cuda.send(host)
    torch_cuda.fetch(made * 2.0, host)
    assert host.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]


@pytest.mark.parametrize("fails", [None, "begin", "function", "driver"])
def test_torch_records_apart_and_forgets_what_failed(
    torch_cuda: Any, monkeypatch: pytest.MonkeyPatch, fails: str | None
) -> None:
    import torch

    address, _ = torch_cuda.create()
    done: list[str] = []

    class CUDAGraph:
        ended = False

        def replay(self) -> None:
            for work in self.work:  # type: ignore[attr-defined]
                GPU.ask(torch_cuda.current(), work)

        def pool(self) -> str:
            if not self.ended:
                raise RuntimeError("pool() can only be called on a finalized graph")
            return "pool"

    @contextmanager
    def recording(graph: Any, *, pool: str, stream: Any, capture_error_mode: str) -> Iterator[None]:
        assert (pool, stream.cuda_stream, capture_error_mode) == ("pool", address, "relaxed")
        if fails == "begin":
            raise RuntimeError("CUDA error: out of memory")
        GPU.begin(address)
        recorded.append(pool)
        with torch.cuda.stream(stream):
            try:
                yield
            finally:
                graph.work = GPU.end(address)
                if fails == "driver":
                    raise RuntimeError("CUDA error: operation failed due to a previous error")
                graph.ended = True

    def function() -> str:
        GPU.ask(torch_cuda.current(), lambda: done.append("work"))
        if fails == "function":
            raise ValueError("its own")
        return "result"

    named: dict[str, Any] = {
        "CUDAGraph": CUDAGraph,
        "graph": recording,
        "graph_pool_handle": lambda: "pool",
    }
    for name, value in named.items():
        monkeypatch.setattr(torch.cuda, name, value)
    freed: list[Any] = []
    recorded: list[str] = []

    def free(name: str, *told: Any) -> None:
        if not recorded:
            raise RuntimeError(f"{name}: not currently recording to mempool_id")
        freed.append((name, *told))

    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
        monkeypatch.setattr(torch._C, name, partial(free, name), raising=False)
    if fails is None:
        replay, made = torch_cuda.capture(address, function)
        assert (made, done) == ("result", [])
        for _ in range(2):
            replay()
        GPU.drain(0)
        assert (done, freed) == (["work", "work"], [])
        return
    errors = {"begin": "out of memory", "function": "its own", "driver": "operation failed"}
    with pytest.raises((RuntimeError, ValueError), match=errors[fails]):
        torch_cuda.capture(address, function)
    told = [("_cuda_endAllocateToPool", 0, "pool"), ("_cuda_releasePool", 0, "pool")]
    assert (done, freed) == ([], told if fails == "driver" else [])


def test_torchs_tensors_go_to_streams_that_each_thread_has(
    torch_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from corepy.dispatch import load

    entered: list[Any] = []

    class Tensor:
        """A tensor on the second GPU."""

        is_cuda, device = True, torch.device("cuda", 1)

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {"shape": (3,)}

        def __dlpack_device__(self) -> Any:
            return torch.utils.dlpack.DLDeviceType.kDLCUDA, 1

        def __dlpack__(self, *, stream: Any, **params: Any) -> Any:
            assert entered == [self.device]  # or torch refuses
            if stream == 2:
                raise BufferError("per-thread default stream is not supported.")
            return stream, params, list(done)

    @contextmanager
    def device(place: Any) -> Iterator[None]:
        entered.append(place)
        yield
        entered.remove(place)

    monkeypatch.setattr(torch.cuda, "device", device)
    current = type("", (), {"synchronize": lambda self: GPU.drain(0)})
    monkeypatch.setattr(torch.cuda, "current_stream", current)
    done: list[str] = []
    GPU.ask(0, lambda: done.append("before"))
    exporter = load("torch").exporter(Tensor())
    assert exporter.__dlpack_device__() == (2, 1)
    assert exporter.__dlpack__(stream=7, copy=False) == (7, {"copy": False}, [])
    assert exporter.__dlpack__(stream=2) == (-1, {}, ["before"])
    assert exporter.__cuda_array_interface__ == {"shape": (3,)}  # by which CuPy borrows


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_torchs_memory_is_asked_for_in_its_words(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from corepy.backends.torch import _memory
    from corepy.dispatch import load

    device, asked = as_device(f"{kind}:0"), []
    properties = type(
        "Properties", (), {"total_memory": 1000, "name": "Arc", "driver_version": "1.6"}
    )
    answers = {
        "memory_reserved": lambda place: 300,
        "memory_allocated": lambda place: 200,
        "max_memory_allocated": lambda place: 250,
        "mem_get_info": lambda place: (600, 1000),
        "get_per_process_memory_fraction": lambda place: 0.5,
        "get_device_properties": lambda place: properties,
        "set_per_process_memory_fraction": lambda share, place: asked.append((share, str(place))),
        "empty_cache": lambda: asked.append("emptied"),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(getattr(torch, kind), name, answer, raising=False)
    stats = _memory.stats(device)
    assert stats is not None
    assert (stats.allocated_bytes, stats.peak_allocated_bytes) == (200, 250)
    assert (stats.cached_bytes, stats.limit_bytes) == (100, 500)
    assert _memory.limit(device, 250) is None
    assert _memory.limit(device, None) is None
    assert _memory.empty_cache(device) == 0
    assert asked == [(0.25, f"{kind}:0"), (1.0, f"{kind}:0"), "emptied"]
    assert _memory.information(device) == MemoryInfo(1000, 600)
    assert _memory.information(as_device("mps")) is None
    assert _memory.hardware(device) == ("Arc, 1.6" if kind == "xpu" else None)
    backend = load("torch")
    assert backend.is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"))
    assert not backend.is_out_of_memory(RuntimeError("CUDA error: an illegal memory access"))
    for words in (
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "cuFFT error: CUFFT_ALLOC_FAILED",
    ):
        assert backend.is_out_of_memory(RuntimeError(words))
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60)
    assert backend.is_out_of_memory(caught.value)  # of the host
