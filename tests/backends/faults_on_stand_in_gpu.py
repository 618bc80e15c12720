"""A GPU that is lost, memory that cannot be pinned, a second GPU, and offload in streams.

`tests/test_streams.py` runs this file in a process of its own, beside `on_stand_in_gpu.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Thread
from typing import Any

import cupy
import cupyx
import numpy as np
import pytest

import corepy
from corepy import array_api as xp
from corepy.backends.cupy._backend import CuPyBackend
from corepy.backends.cupy._streams import CuPyStreams
from corepy.devices._device import as_device
from corepy.dispatch import _offload_places as places
from corepy.dispatch import load
from corepy.kernels._device._cupy import CuPyArrays
from tests.backends import stand_in_gpu
from tests.backends.cupy_devices import CURRENT, PLACE, UNAVAILABLE, CUDARuntimeError
from tests.backends.gpu_on_host import GPU
from tests.backends.stand_in_gpu import CUDA, values
from tests.backends.stand_ins import Second
from tests.dispatch.offloading import costs, is_resident, use_costs

second = stand_in_gpu.second  # a fixture

# ---------------------------------------------------------------------------- a device is lost


def lost(*args: Any, **params: Any) -> Any:
    raise CUDARuntimeError("cudaErrorDevicesUnavailable: the device is busy or unavailable")


STREAMS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("stream", lambda stream, event: corepy.stream("cuda:0")),
    ("record", lambda stream, event: stream.record()),
    ("record", lambda stream, event: stream.query()),
    ("record", lambda stream, event: stream.synchronize()),
    ("stream", lambda stream, event: stream.__enter__()),
    ("wait", lambda stream, event: stream.wait(event)),
    ("query", lambda stream, event: event.query()),
    ("synchronize", lambda stream, event: event.synchronize()),
    ("synchronize", lambda stream, event: event.elapsed_time(event)),
]


@pytest.mark.parametrize(("function", "call"), STREAMS)
def test_streams_of_a_device_that_is_lost_say_so(
    second: Second, function: str, call: Callable[[Any, Any], Any]
) -> None:
    stream = corepy.stream("cuda:0")
    event = stream.record(timing=True)
    GPU.lost = UNAVAILABLE
    with pytest.raises(
        corepy.BackendError, match=f"^{function}: CUDARuntimeError on cuda:0: cudaErrorDevicesUn"
    ):
        call(stream, event)
    GPU.lost = 0
    assert (CURRENT.address, second.current.address) == (0, 0)
    with stream:
        assert values(xp.ones(2) + 1.0) == [2.0, 2.0]


def test_a_device_that_is_lost_before_it_tells_a_time_says_so(
    second: Second, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = corepy.stream("cuda:0").record(timing=True)
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lost)
    with pytest.raises(corepy.BackendError, match="^elapsed_time: CUDARuntimeError on cuda:0: cud"):
        event.elapsed_time(event)


def test_what_is_raised_in_a_block_comes_also_where_the_block_cannot_end(
    second: Second, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used(error: type[Exception] | None) -> None:
        with corepy.stream("cuda:0"):
            monkeypatch.setattr(CuPyStreams, "record", lost)
            if error is not None:
                raise error

    with pytest.raises(ZeroDivisionError):
        used(ZeroDivisionError)
    monkeypatch.undo()
    with pytest.raises(corepy.BackendError, match="^stream: CUDARuntimeError on cuda:0: "):
        used(None)
    assert (CURRENT.address, second.current.address) == (0, 0)


def test_a_graph_of_a_device_that_is_lost_says_so(
    second: Second, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = corepy.graph(lambda x: x + 1.0, xp.zeros(2))
    x = xp.ones(2)
    replay = recorded._replay
    monkeypatch.setattr(recorded, "_replay", lambda: (setattr(GPU, "lost", UNAVAILABLE), replay()))
    with pytest.raises(corepy.BackendError, match="^graph: CUDARuntimeError on cuda:0: cudaErr"):
        recorded(x)
    GPU.lost = 0
    monkeypatch.undo()
    assert (values(x), values(recorded(x))) == ([1.0, 1.0], [2.0, 2.0])


@pytest.mark.parametrize("apart", [False, True])
def test_copies_of_a_device_that_is_lost_say_so(second: Second, apart: bool) -> None:
    x, pinned = xp.ones(2) + 1.0, corepy.pin_memory(np.ones(2))
    if apart:  # libraries in different streams copy what passes between them
        second.current.address = GPU.create()
    calls: list[Callable[[], Any]] = [
        lambda: corepy.to(np.ones(2), device="cuda:0", non_blocking=True),
        lambda: corepy.to(pinned, device="cuda:0", non_blocking=True),
        lambda: corepy.to(x, device="cpu", non_blocking=True),
        lambda: corepy.to(x, backend="second"),
        x.tolist,
        lambda: xp.exp(x),
    ]
    held = CuPyStreams(CUDA)
    for address in (0, held.create()[0]):
        for call in calls:
            with held.using(address):
                GPU.lost = UNAVAILABLE
                try:
                    with pytest.raises(corepy.BackendError, match=r"^(to|transfer|exp): "):
                        call()
                finally:
                    GPU.lost = 0
    assert values(x) == [2.0, 2.0]


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("to_device", lambda x: x.to_device("cpu", stream=0x1000)),
        ("to_device", lambda x: xp.ones(2, device="cpu").to_device("cuda:0", stream=0x1000)),
        ("__setitem__", lambda x: x.__setitem__(0, 5.0)),
        ("atan2", lambda x: xp.atan2(x, 5.0)),
        ("pow", lambda x: 5.0**x),
    ],
)
def test_streams_and_scalars_for_a_device_that_is_lost_say_so(
    second: Second, function: str, call: Callable[[Any], Any]
) -> None:
    x = xp.ones(2) + 1.0
    GPU.lost = UNAVAILABLE
    with pytest.raises(corepy.BackendError, match=f"^{function}: (CUDAR|R)untimeError"):
        call(x)
    GPU.lost = 0
    assert (CURRENT.address, second.current.address, values(x)) == (0, 0, [2.0, 2.0])


# ---------------------------------------------------------------------------- pinned memory


def no_room(shape: Any, dtype: Any = float, order: str = "C") -> Any:
    raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")


def test_without_memory_to_pin_the_host_waits(
    second: Second, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = np.asarray([1.0, 2.0])
    monkeypatch.setattr(cupyx, "empty_pinned", no_room)
    x = corepy.to(source, device="cuda:0", backend="cupy", non_blocking=True)
    home = corepy.to(x + 1.0, device="cpu", backend="numpy", non_blocking=True)
    assert (home.tolist(), source.tolist()) == ([2.0, 3.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("pinned", "error", "message"),
    [
        (
            no_room,
            corepy.InsufficientMemoryError,
            "^pin_memory: the host has no more memory to pin, and the array is untouched .CUDARunt",
        ),
        (lost, corepy.BackendError, "^pin_memory: no memory could be pinned; the array is untouch"),
    ],
)
def test_memory_that_cannot_be_pinned_is_told(
    second: Second,
    monkeypatch: pytest.MonkeyPatch,
    pinned: Callable[..., Any],
    error: type[Exception],
    message: str,
) -> None:
    x = xp.ones(2)
    monkeypatch.setattr(cupyx, "empty_pinned", pinned)
    with pytest.raises(error, match=message):
        corepy.pin_memory(x)
    assert values(x) == [1.0, 1.0]


# ---------------------------------------------------------------------------- a second GPU


@pytest.fixture
def two(second: Second, monkeypatch: pytest.MonkeyPatch) -> CuPyBackend:
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 2)
    return CuPyBackend()


def test_what_is_made_of_an_array_is_on_its_device(two: CuPyBackend) -> None:
    """Whichever is current: CuPy copies to that one, and its kernels refuse others' arrays."""
    there = as_device("cuda:1")
    x = two.from_numpy(np.asarray([1.0, 2.0], np.float32), there)
    select: Any = two.operation("__getitem__")
    backwards: Any = two.legacy_exporter(two.exporter(select(x, slice(None, None, -1))), copy=None)
    made = [
        select(x, 1),
        select.plain(x, 1),
        backwards.native,
        *(two.rounded(x, dtype) for dtype in ("bfloat16", "float16")),
    ]
    assert [two.device_of(y) for y in made] == [there] * 5
    assert [two.to_numpy(y).tolist() for y in made] == [
        *(2.0, 2.0, [2.0, 1.0]),
        *([1.0, 2.0], [1.0, 2.0]),
    ]


def test_who_imports_an_array_waits_for_the_stream_of_its_device(two: CuPyBackend) -> None:
    there, held = as_device("cuda:1"), CuPyStreams(as_device("cuda:1"))
    x = two.from_numpy(np.asarray([1.0, 2.0]), there)
    address, _ = held.create()
    consumer, _ = held.create()
    with held.using(address):
        y = two.execute("add", [x, x])
        assert PLACE.numbers[-1] == 0
        capsule = two.exporter(y).__dlpack__(stream=consumer)
    GPU.drain(consumer)
    assert capsule is not None
    assert y.view(np.ndarray).tolist() == [2.0, 4.0]


def test_values_are_read_in_the_stream_of_their_device(two: CuPyBackend) -> None:
    """CuPy itself reads in that of the device which is current, where nothing waits for them."""
    there, held = as_device("cuda:1"), CuPyStreams(as_device("cuda:1"))
    x, wanted = two.from_numpy(np.asarray([3.0]), there), 3.0
    address, _ = held.create()
    pinned = held.pinned((1,), np.dtype(float))

    def fetched(y: Any) -> Any:
        held.fetch(y, pinned)
        held.finish(held.record(address))
        return pinned[0]

    with held.using(address):
        for read in (two.item, two.to_numpy, two.peek, CuPyArrays().to_numpy, fetched):
            x = two.execute("add", [x, x])
            wanted *= 2.0
            assert (PLACE.numbers[-1], CURRENT.address) == (0, 0)
            assert x.view(np.ndarray) != wanted  # not done yet
            assert read(x) == wanted


def test_a_recording_is_replayed_in_the_stream_of_its_device(two: CuPyBackend) -> None:
    there, held = as_device("cuda:1"), CuPyStreams(as_device("cuda:1"))
    x = two.from_numpy(np.asarray([1.0, 2.0]), there)
    address, _ = held.create()
    with held.using(address):
        replay, made = held.capture(address, lambda: two.execute("add", [x, x]))
        assert PLACE.numbers[-1] == 0
        replay()
        assert two.to_numpy(made).tolist() == [2.0, 4.0]


# ---------------------------------------------------------------------------- offload


@pytest.fixture
def offload(second: Second) -> Iterator[Any]:
    """Let large products of host arrays run in CuPy."""
    backend = load("cupy")
    found = costs(backend)
    (device,) = found.devices
    device = replace(device, device=CUDA.name, version=places.version_of(backend, CUDA))
    use_costs(replace(found, devices=(device,)))
    try:
        with corepy.offload("auto"):
            yield xp.asarray(np.eye(200) * 2.0, device="cpu", copy=True)
    finally:
        use_costs(None)


@pytest.mark.parametrize("look", [np.asarray, lambda y: y.tolist(), lambda y: [[float(y[0, 0])]]])
def test_values_that_were_offloaded_in_a_stream_are_waited_for(
    offload: Any, look: Callable[[Any], Any]
) -> None:
    """Who holds a host array knows of no stream: neither that of the block, nor of a thread."""
    with corepy.stream("cuda:0", ordered=False):
        y = offload @ offload
        assert is_resident(y)
    assert look(y)[0][0] == 4.0
    found = []

    def elsewhere() -> None:
        with corepy.backend_priority(["cupy"]), corepy.stream("cuda:0", ordered=False):
            found.append(offload @ offload)

    thread = Thread(target=elsewhere, daemon=True)
    with corepy.stream("cuda:0", ordered=False) as stream:
        thread.start()
        thread.join(60)
        z = found[0] @ offload
        assert (is_resident(found[0]), is_resident(z)) == (True, True)
        assert CURRENT.address == stream.address
    assert look(z)[0][0] == 8.0
