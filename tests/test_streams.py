"""Streams, events, graphs and asynchronous copies: on the host, and on a GPU.

A stand-in for a GPU, in a process of its own, has what they do to the order of work
(``tests/backends/on_stand_in_gpu.py``), where memory lacks (``memory_on_stand_in_gpu.py``), and
where the GPU is lost or one of two (``faults_on_stand_in_gpu.py``);
``tests/backends/test_torch_streams.py`` holds torch's.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.dispatch import _registry
from corepy.testing import fake_devices
from tests.processes import on_stand_in

on_gpu = [pytest.mark.gpu, pytest.mark.device("cuda")]


def test_on_a_stand_in_gpu() -> None:
    on_stand_in(
        "tests/backends/on_stand_in_gpu.py",
        "tests/backends/memory_on_stand_in_gpu.py",
        "tests/backends/faults_on_stand_in_gpu.py",
        COREPY_ROUTES="shipped",
    )


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


@pytest.mark.parametrize("timing", [1, None, "yes"])
def test_whether_an_event_takes_the_time_is_a_bool(timing: Any) -> None:
    with pytest.raises(TypeError, match="^record: timing is .*; expected a bool"):
        corepy.stream("cpu").record(timing=timing)


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


def test_what_streams_events_and_graphs_say_of_themselves() -> None:
    stream = corepy.stream("cpu")
    assert repr(stream) == "corepy.Stream('cpu', no stream of its own)"
    assert repr(stream.record()) == "corepy.Event('cpu')"
    assert repr(stream.record(timing=True)) == "corepy.Event('cpu', with its time)"
    assert repr(corepy.graph(abs, xp.zeros(2))) == "corepy.Graph(abs, not recorded)"


def test_a_stream_needs_a_device_that_is_there() -> None:
    with pytest.raises(corepy.BackendUnavailableError, match="^stream: device is 'cuda:7'; expect"):
        corepy.stream("cuda:7")
    with pytest.raises(TypeError, match="^stream: ordered is of type int; expected a bool"):
        corepy.stream("cpu", ordered=1)  # type: ignore[arg-type]


def test_the_stream_of_a_device_without_streams_copies_in_order(backend: str) -> None:
    x = xp.asarray([1.0, 2.0], device="cpu")
    assert x.to_device("cpu", stream=corepy.stream("cpu")) is x
    with fake_devices():
        away = x.to_device("fake:device1", stream=corepy.stream("fake:device1"))
        assert away.to_device("cpu", stream=corepy.stream("fake:device1")).tolist() == [1.0, 2.0]
        with pytest.raises(ValueError, match="^to_device: stream is .*fake:device1'.*; expected N"):
            x.to_device("cpu", stream=corepy.stream("fake:device1"))


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


def test_a_block_is_left_by_the_thread_that_entered_it() -> None:
    stream = corepy.stream("cpu")
    stream.__enter__()
    with ThreadPoolExecutor(1) as others:
        left = others.submit(stream.__exit__, None, None, None)
        with pytest.raises(corepy.UnsupportedOperationError, match="^stream: this thread is in no"):
            left.result()
    stream.__exit__(None, None, None)


def test_what_a_graph_writes_into_its_operands_on_the_host_is_its_own(backend: str) -> None:
    """As where it is recorded: the operands are copied into memory that the recording keeps."""
    x = xp.ones(2)

    def step(x: Any) -> Any:
        x += 1.0
        return x * 2.0

    recorded = corepy.graph(step, xp.zeros(2))
    for _ in range(2):
        assert recorded(x).tolist() == [4.0, 4.0]
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.backend("torch")
def test_what_a_graph_keeps_of_tensors_is_their_storage() -> None:
    import torch

    from corepy._graphs import _Read

    weight, read = torch.arange(4.0), _Read()
    read.see((weight.detach()[1:], {"fresh": weight * 2.0}, 1.0))
    gc.collect()
    kept = read.alive()
    assert [each.data_ptr() for each in kept] == [weight.data_ptr()]
    assert kept[0].nbytes() == 16
    torch.func.vmap(lambda x: read.see(x) or x)(torch.ones(2))  # which shows no storage


def test_the_copies_of_a_graph_count_for_the_line_that_calls_it() -> None:
    x = xp.ones(3, device="cpu")
    found = corepy.explain(corepy.graph(lambda x: x + 1, x), x)
    assert [record.operation for record in found.records] == ["astype", "add", "astype"]
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
    expected = r"expected more than 0 and less than 2\*\*63, or None"
    for limit in (0, 1 << 63, 1 << 2000):  # which no library takes, nor a float
        with pytest.raises(ValueError, match=f"^set_memory_limit: limit is {limit}; {expected}$"):
            corepy.set_memory_limit(limit, "cuda:0")
    with pytest.raises(TypeError, match="^set_memory_limit: limit is of type float"):
        corepy.set_memory_limit(1.5, "cuda:0")  # type: ignore[arg-type]
    calls: dict[str, Callable[[str], object]] = {
        "memory_stats": corepy.memory_stats,
        "empty_cache": corepy.empty_cache,
        "set_memory_limit": lambda device: corepy.set_memory_limit(100, device),
        "stream": corepy.stream,
    }
    for name, call in calls.items():
        message = f"^{name}: device is 'cuda:9'; expected one that is present: "
        with pytest.raises(corepy.BackendUnavailableError, match=message) as caught:
            call("cuda:9")
        assert str(caught.value).endswith(_registry.why_not("cuda"))


@pytest.mark.backend("torch")
def test_torch_lends_no_memory_without_a_gpu() -> None:
    if corepy.dispatch.load("torch").lend_allocator() is not None:
        pytest.skip("a GPU")
    with pytest.raises(
        corepy.UnsupportedOperationError, match="^share_memory_pool: owner is 'torch', which has"
    ):
        corepy.share_memory_pool()
    assert corepy.share_memory_pool(None) == {}


# ---------------------------------------------------------------------------- a GPU


def _gpu(test: Any) -> Any:
    for mark in on_gpu:
        test = mark(test)
    return test


def _late(x: Any) -> Any:
    """Return an array whose values take a while: a hundred products that keep it as it is."""
    eye = xp.eye(2000, dtype=xp.float32, device=x.device)
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
@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_gpu_graphs_keep_what_they_read(name: str) -> None:
    other = "torch" if name == "cupy" else "cupy"

    def made(value: float, backend: str = name) -> Any:
        return corepy.to(xp.full(64, value, device="cuda:0"), backend=backend) + 0.0

    with corepy.backend_priority([name]):
        weights = [made(2.0), made(3.0, other), made(4.0).unwrap()]
        recorded = corepy.graph(
            lambda x: x * weights[0] + corepy.to(weights[1], backend=name) + weights[2][:],
            made(0.0),
        )
        weights.clear()
        gc.collect()
        others = [made(7.0, backend) for backend in (name, other) * 8]
        assert recorded(made(1.0)).to_device("cpu").tolist() == [9.0] * 64
        assert all(x.to_device("cpu").tolist() == [7.0] * 64 for x in others)


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


@_gpu
def test_gpu_work_of_a_second_gpu_is_done_when_it_is_read() -> None:
    there = _registry.load("cupy").devices()[1:2]
    if not there:
        pytest.skip("one GPU")
    with corepy.backend_priority(["cupy"]):
        ones = xp.ones(1000, dtype=xp.float32, device=there[0])
        recorded = corepy.graph(lambda x: x * 2.0 + 1.0, xp.zeros_like(ones))
        with corepy.stream(there[0]):
            assert _late(ones).to_device("cpu").tolist() == [1.0] * 1000
            assert float(_late(ones[0])) == 1.0
            assert recorded(_late(ones)).to_device("cpu").tolist() == [3.0] * 1000
