"""Streams, events, graphs and asynchronous copies: on the host, in torch's words, and on a GPU.

What they do to the order of work is held by ``tests/backends/on_stand_in_gpu.py``, on a stand-in
for a GPU in a process of its own.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.devices import MemoryInfo
from corepy.devices._device import as_device
from corepy.dispatch import _registry
from corepy.testing import fake_devices
from tests.backends.gpu_on_host import GPU, Current

ROOT = Path(__file__).resolve().parent.parent
on_gpu = [pytest.mark.gpu, pytest.mark.device("cuda")]


def test_on_a_stand_in_gpu() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.backends.cupy_on_numpy"),
            *("--noconftest", "-p", "no:cacheprovider", "-q", "-n", "0"),
            "tests/backends/on_stand_in_gpu.py",
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COREPY_ROUTES": "shipped"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout


# ---------------------------------------------------------------------------- the host


def test_a_stream_of_the_host_is_always_done() -> None:
    with corepy.stream("cpu") as stream:
        start = stream.record(timing=True)
        x = xp.ones(3) + 1.0
        end = stream.record(timing=True)
    assert (x.tolist(), stream.query(), end.query()) == ([2.0] * 3, True, True)
    stream.synchronize()
    stream.wait(start)
    stream.wait(corepy.stream("cpu"))
    assert 0.0 <= start.elapsed_time(end) < 10_000.0
    assert (stream.address, repr(stream)) == (
        None,
        "corepy.Stream('cpu', no stream of its own)",
    )
    with pytest.raises(corepy.UnsupportedOperationError, match="^__cuda_stream__: cpu has no st"):
        stream.__cuda_stream__()


def test_times_on_the_host_are_in_milliseconds() -> None:
    stream = corepy.stream("cpu")
    start = stream.record(timing=True)
    time.sleep(0.02)
    assert 15.0 < start.elapsed_time(stream.record(timing=True)) < 2000.0


def test_an_event_of_a_library_without_streams_is_done_when_its_work_is() -> None:
    with fake_devices() as fake:
        waited: list[str] = []
        fake.synchronize = lambda device: waited.append(device.name)  # type: ignore[method-assign]
        stream = corepy.stream("fake:device1")
        event = stream.record()
        assert waited == []
        assert event.query()  # it cannot be asked how far it is
        assert waited == ["fake:device1"]
        event.synchronize()
        stream.synchronize()
        assert stream.query()
        assert waited == ["fake:device1"] * 4


@pytest.mark.parametrize("function", [corepy.stream, corepy.synchronize])
def test_a_device_that_is_missing_for_want_of_a_library_is_said_to_be(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = _registry.BackendRecord("far", ("cuda",), lambda: "not installed: far", list, 1)
    monkeypatch.setitem(_registry._records, "far", far)
    with pytest.raises(corepy.BackendUnavailableError, match=r"\(.*far: not installed: far.*\)$"):
        function("cuda:7")


def test_a_stream_needs_a_device_that_is_there() -> None:
    with pytest.raises(corepy.BackendUnavailableError, match="^stream: device is 'cuda:7'; expect"):
        corepy.stream("cuda:7")
    with pytest.raises(TypeError, match="^stream: ordered is of type int; expected a bool"):
        corepy.stream("cpu", ordered=1)  # type: ignore[arg-type]


def test_copies_on_the_host_are_what_they_were(backend: str) -> None:
    x = xp.asarray([1.0, 2.0])
    y = corepy.to(x, device="cpu", non_blocking=True)
    assert y.tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="^to: non_blocking is of type int; expected a bool"):
        corepy.to(x, non_blocking=1)  # type: ignore[arg-type]
    pinned = corepy.pin_memory(x)
    assert (pinned.backend, pinned.device.name, pinned.tolist()) == ("numpy", "cpu", [1.0, 2.0])
    pinned[0] = 5.0
    assert x.tolist() == [1.0, 2.0]


def test_a_graph_on_the_host_calls_its_function(backend: str) -> None:
    calls = []

    def step(x: Any, y: Any) -> Any:
        calls.append(1)
        return x + y, (x * y,)

    recorded = corepy.graph(step, xp.zeros(2), xp.zeros(2))
    total, (product,) = recorded(xp.asarray([1.0, 2.0]), xp.asarray([3.0, 4.0]))
    assert (total.tolist(), product.tolist()) == ([4.0, 6.0], [3.0, 8.0])
    assert (recorded.is_captured, len(calls)) == (False, 1)


def test_what_a_graph_gives_on_the_host_has_memory_of_its_own(backend: str) -> None:
    x = xp.ones(2)
    both = corepy.graph(lambda x: [x, xp.reshape(x, (1, 2))], xp.zeros(2))(x)
    for made in both:
        made[..., 0] = 9.0
    assert x.tolist() == [1.0, 1.0]
    recorded = corepy.graph(lambda x: 1.0, xp.zeros(2))
    with pytest.raises(TypeError, match="^graph: the result is of type float; expected an Array"):
        recorded(x)


def test_the_copy_of_a_graphs_result_counts_for_the_line_that_calls_it() -> None:
    x = xp.ones(3, device="cpu")
    found = corepy.explain(corepy.graph(lambda x: x + 1, x), x)
    assert [record.operation for record in found.records] == ["add", "astype"]
    assert {record.caller.rpartition(":")[0] for record in found.records} == {__file__}


def test_a_graph_refuses_what_it_cannot_call() -> None:
    with pytest.raises(TypeError, match="^graph: function is of type int; expected a callable"):
        corepy.graph(1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^graph: examples is \(\); expected at least one array"):
        corepy.graph(lambda: 1)
    with pytest.raises(ValueError, match=r"^graph: operands\[0\] is float64 of shape \(3,\) on"):
        corepy.graph(lambda x: x, xp.ones(2))(xp.ones(3))


def test_limits_and_pools_without_a_gpu() -> None:
    with pytest.raises(corepy.UnsupportedOperationError, match="^set_memory_limit: device is cpu;"):
        corepy.set_memory_limit(100, "cpu")
    with pytest.raises(ValueError, match="^set_memory_limit: limit is 0; expected more than 0, or"):
        corepy.set_memory_limit(0, "cuda:0")
    with pytest.raises(TypeError, match="^set_memory_limit: limit is of type float"):
        corepy.set_memory_limit(1.5, "cuda:0")  # type: ignore[arg-type]
    with pytest.raises(
        corepy.UnsupportedOperationError, match="^memory_stats: device is cuda:9; e"
    ):
        corepy.memory_stats("cuda:9")
    with pytest.raises(
        corepy.UnsupportedOperationError, match="^empty_cache: device is cuda:9; ex"
    ):
        corepy.empty_cache("cuda:9")


@pytest.mark.backend("torch")
def test_torch_lends_no_memory_without_a_gpu() -> None:
    if corepy.dispatch.load("torch").lend_allocator() is not None:
        pytest.skip("a GPU")
    with pytest.raises(
        corepy.UnsupportedOperationError, match="^share_memory_pool: owner is 'torch'; expected a "
    ):
        corepy.share_memory_pool()
    assert corepy.share_memory_pool(None) == {}


# ---------------------------------------------------------------------------- torch's words


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


@pytest.mark.backend("torch")
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


@pytest.mark.backend("torch")
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


@pytest.mark.backend("torch")
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


@pytest.mark.backend("torch")
def test_torch_copies_by_pinned_memory(torch_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    asked: list[Any] = []
    empty = torch.empty

    def pinning(shape: Any, *, dtype: Any, pin_memory: bool) -> Any:
        asked.append((shape, dtype, pin_memory))
        return empty(shape, dtype=dtype)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", pinning)
        host = torch_cuda.pinned((2, 3), np.dtype(np.float32))
    assert (host.shape, host.dtype, asked) == ((2, 3), np.float32, [((2, 3), torch.float32, True)])
    host[...] = np.arange(6).reshape(2, 3)
    monkeypatch.setattr(torch_cuda, "_place", torch.device("cpu"))
    made = torch_cuda.send(host)
    torch_cuda.fetch(made * 2.0, host)
    assert host.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]


@pytest.mark.backend("torch")
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


@pytest.mark.backend("torch")
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


@pytest.mark.backend("torch")
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
    if kind == "xpu":  # torch before 2.9 has no limit there
        monkeypatch.delattr(torch.xpu, "set_per_process_memory_fraction")
        monkeypatch.delattr(torch.xpu, "get_per_process_memory_fraction")
        assert "no limit on xpu:0" in str(_memory.limit(device, 250))
        assert _memory.stats(device) == replace(stats, limit_bytes=0)
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


@pytest.mark.backend("jax")
def test_jax_tells_a_lack_of_memory() -> None:
    import jax

    from corepy.dispatch import load

    backend = load("jax")
    error = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.")
    assert backend.is_out_of_memory(error)
    assert not backend.is_out_of_memory(jax.errors.JaxRuntimeError("INTERNAL: no such"))
    with corepy.backend_priority(["jax"]), pytest.raises(corepy.InsufficientMemoryError):
        xp.ones(1 << 44) + 1.0
    assert backend.memory_stats(as_device("cpu")) is None


# ---------------------------------------------------------------------------- a GPU


def _gpu(test: Any) -> Any:
    for mark in on_gpu:
        test = mark(test)
    return test


def _late(x: Any) -> Any:
    """Return an array whose values take a while: a hundred products that keep it as it is."""
    eye = xp.eye(2000, dtype=xp.float32, device="cuda:0")
    for _ in range(100):
        eye = eye @ eye
    return x * eye[0, 0]


@_gpu
@pytest.mark.parametrize("first", ["cupy", "torch"])
@pytest.mark.parametrize("second", ["cupy", "torch", "jax"])
def test_gpu_streams_are_one_for_all_libraries(first: str, second: str) -> None:
    if second not in corepy.usable_backends():
        pytest.skip(f"no {second}")
    with corepy.backend_priority([first]):
        for _ in range(5):
            x = _late(xp.ones(1000, dtype=xp.float32, device="cuda:0"))
            with corepy.stream("cuda:0"):
                y = _late(x + 1.0)
                z = corepy.to(corepy.to(y, backend=second) * 3.0, backend=first)
            after = z - x
            assert after.to_device("cpu").tolist() == [5.0] * 1000


@_gpu
@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_gpu_events_copies_and_times(name: str) -> None:
    with corepy.backend_priority([name]):
        stream = corepy.stream("cuda:0")
        pinned = corepy.pin_memory(np.arange(1 << 20, dtype=np.float32))
        with stream:
            start = stream.record(timing=True)
            x = corepy.to(pinned, device="cuda:0", backend=name, non_blocking=True)
            home = corepy.to(_late(x) + 1.0, device="cpu", backend="numpy", non_blocking=True)
            end = stream.record(timing=True)
        stream.synchronize()
        assert end.query()
        assert start.elapsed_time(end) > 0.0
        np.testing.assert_array_equal(home.unwrap(), np.arange(1, (1 << 20) + 1, dtype=np.float32))


@_gpu
@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_gpu_graphs_replay(name: str) -> None:
    other = "torch" if name == "cupy" else "cupy"

    def total(y: Any) -> Any:
        return y @ y if name == "torch" else xp.sum(y, axis=0)  # CuPy records no products

    def step(x: Any) -> Any:
        y = x * 2.0 + 1.0
        return total(y), corepy.to(corepy.to(y, backend=other) + 1.0, backend=name)

    with corepy.backend_priority([name]):
        recorded = corepy.graph(step, xp.zeros((64, 64), device="cuda:0"))
        assert recorded.is_captured
        made = []
        for value in (1.0, 2.0):
            made.append((value, *recorded(xp.full((64, 64), value, device="cuda:0"))))
            xp.ones((512, 512), device="cuda:0") + 1.0  # memory that the recording must not share
        for value, first, after in made:  # which later calls have left as they were
            y = np.full((64, 64), 2 * value + 1)
            expected = y @ y if name == "torch" else y.sum(axis=0)
            np.testing.assert_allclose(first.to_device("cpu").unwrap(), expected)
            np.testing.assert_array_equal(after.to_device("cpu").unwrap(), y + 1)
        with pytest.raises(corepy.UnsupportedOperationError, match="^graph: function cannot be re"):
            corepy.graph(lambda x: x * float(x[0, 0]), xp.zeros((2, 2), device="cuda:0"))
        assert (xp.ones(2, device="cuda:0") + 1.0).tolist() == [2.0, 2.0]
    gc.collect()  # what failed to be recorded goes, and takes nothing with it
    corepy.empty_cache("cuda:0")


@_gpu
def test_gpu_memory_moves_between_libraries() -> None:
    total = corepy.memory_info("cuda:0").total_bytes
    size = int(0.6 * total)
    hoard = corepy.to(np.zeros(1, dtype=np.int8), device="cuda:0", backend="torch")
    import torch

    del hoard
    torch.empty(size, dtype=torch.int8, device="cuda")  # gone at once, and kept by torch
    assert corepy.memory_stats("cuda:0").cached_bytes >= size
    with corepy.backend_priority(["cupy"]), corepy.set_fallback("raise"):
        x = xp.zeros(size, dtype=xp.int8, device="cuda:0")
        with pytest.raises(corepy.InsufficientMemoryError, match="^ones: the memory of cuda:0"):
            xp.ones(size, dtype=xp.int8, device="cuda:0")
        assert int(x[-1]) == 0
        del x
    assert corepy.empty_cache("cuda:0") > 0


@_gpu
def test_gpu_limits_hold() -> None:
    with corepy.backend_priority(["cupy"]), corepy.set_fallback("raise"):
        xp.ones(1, device="cuda:0")
        corepy.empty_cache("cuda:0")
        corepy.set_memory_limit(1 << 28, "cuda:0")
        with pytest.raises(corepy.InsufficientMemoryError):
            xp.ones(1 << 26, device="cuda:0")
        corepy.set_memory_limit(None, "cuda:0")
        assert float(xp.sum(xp.ones(1 << 26, device="cuda:0"))) == 2.0**26


@_gpu
def test_gpu_pools_can_be_one() -> None:
    import torch

    with corepy.backend_priority(["cupy"]):
        before = torch.cuda.memory_allocated()
        corepy.share_memory_pool("torch")
        try:
            with corepy.stream("cuda:0"):
                x = xp.ones(1 << 20, device="cuda:0")
            assert torch.cuda.memory_allocated() - before >= 8 << 20
            assert float(xp.sum(x)) == 2.0**20
            del x
            assert torch.cuda.memory_allocated() - before < 8 << 20
        finally:
            corepy.share_memory_pool(None)
        now = torch.cuda.memory_allocated()
        y = xp.ones(1 << 20, device="cuda:0")
        assert (torch.cuda.memory_allocated(), y.shape) == (now, (1 << 20,))
