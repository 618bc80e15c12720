"""Streams, copies and graphs on a GPU that puts its work off: CuPy's stand-in and two others.

`tests/test_streams.py` runs this file in a process of its own, where they are installed. Each test
of an order also runs with the wait taken out, and is then wrong: so it would find it missing.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from threading import Thread
from typing import Any

import cupy
import numpy as np
import pytest

import corepy
from corepy import array_api as xp
from corepy.backends.cupy._backend import CuPyBackend
from corepy.backends.cupy._streams import CuPyStreams
from corepy.devices import _pinned
from corepy.devices._device import as_device
from corepy.devices._transfer import convert
from corepy.dispatch import _explain, _streams, load
from tests.backends import stand_in_gpu
from tests.backends.cupy_devices import CURRENT
from tests.backends.cupy_on_numpy import _PINNED
from tests.backends.gpu_on_host import GPU
from tests.backends.stand_in_gpu import CUDA, values
from tests.backends.stand_ins import Alone, Held, Second

second, alone = stand_in_gpu.second, stand_in_gpu.alone  # fixtures
NAN = float("nan")


def without(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, instead: Any) -> None:
    monkeypatch.setattr(owner, name, instead)


def no_wait(self: Any, address: int, mark: Any) -> None:
    """Take out every wait of one stream for another."""


# ---------------------------------------------------------------------------- the stand-in itself


def test_work_is_put_off_until_somebody_waits(second: Second) -> None:
    x = cupy.add(cupy.asarray([1.0]), cupy.asarray([2.0]))
    assert np.isnan(x.view(np.ndarray)[0])
    assert x.get().tolist() == [3.0]


# ---------------------------------------------------------------------------- streams


def read_inside() -> Any:
    """Read in a block what depends on the default stream, in two libraries."""
    a = xp.ones(3) + 1.0  # in the default stream, and not done yet
    with corepy.stream("cuda:0") as stream:
        b = corepy.to(a * 3.0, backend="second") + corepy.to(a, backend="second")
        assert b._table.backend.streams(CUDA).current() == stream.address
        return values(b)


def read_after() -> Any:
    """Read in the default stream what two libraries made in a block."""
    with corepy.stream("cuda:0"):
        a = xp.ones(3) + 1.0
        b = corepy.to(a, backend="second") * 4.0
        c = corepy.to(b, backend="cupy") * 1.0
    return values(c + 0.0)


def test_a_block_is_ordered_in_every_library(second: Second) -> None:
    assert (read_inside(), read_after()) == ([8.0] * 3, [8.0] * 3)


@pytest.mark.parametrize(
    ("dropped", "read"), [("enter", read_inside), ("leave", read_after), ("take", read_after)]
)
def test_a_dependency_that_is_dropped_is_found(
    second: Second, monkeypatch: pytest.MonkeyPatch, dropped: str, read: Callable[[], Any]
) -> None:
    run = getattr(_streams.Block, dropped)

    def careless(self: Any, *args: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for owner in (CuPyStreams, Held):
                without(patch, owner, "wait", no_wait)
            run(self, *args)

    def forgotten(self: Any, backend: Any) -> None:
        if backend is not second:
            run(self, backend)

    if dropped == "take":  # the second library goes on in its own stream, and DLPack orders nothing
        without(monkeypatch, _streams.Block, "take", forgotten)
        without(monkeypatch, second, "lend", lambda stream: None)
        without(monkeypatch, second, "import_", lambda x, device: (_shared(second, x), False))
    else:
        without(monkeypatch, _streams.Block, dropped, careless)
    assert read() != [8.0] * 3


def _shared(second: Second, exporter: Any) -> Any:
    return second._array(exporter.native.view(np.ndarray))


def test_dlpack_orders_libraries_in_different_streams(
    second: Second, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exchanged() -> Any:
        second.current.address = GPU.create()  # as a user of that library would
        a = xp.ones(2) + 1.0
        b = corepy.to(a, backend="second") * 2.0
        return values(corepy.to(b, backend="cupy") + a)

    assert exchanged() == [6.0, 6.0]
    without(monkeypatch, second, "lend", lambda stream: None)
    assert exchanged() != [6.0, 6.0]


def test_memory_stays_as_it_is_until_the_other_library_has_read_it(second: Second) -> None:
    second.current.address = GPU.create()
    b = corepy.to(xp.ones(4) + 1.0, backend="second") * 2.0
    reused = xp.ones(4) * 7.0  # in memory of the sum, which is gone
    assert (values(reused), values(b)) == ([7.0] * 4, [4.0] * 4)
    c = corepy.to(b + 1.0, backend="cupy") * 2.0
    again = b * 10.0
    assert (values(again), values(c)) == ([40.0] * 4, [10.0] * 4)


def test_libraries_in_one_stream_share_their_memory(second: Second) -> None:
    x = xp.ones(4) + 1.0
    for enter in (True, False):
        if not enter:
            CURRENT.address, second.current.address = 1, 0  # two words for the default stream
        y = corepy.to(x, backend="second")
        assert np.may_share_memory(y.unwrap()._values, x.unwrap())
    second.current.address = GPU.create()
    y = corepy.to(x, backend="second", copy=False)
    assert np.may_share_memory(y.unwrap()._values, x.unwrap())


def test_a_library_that_nobody_waits_for_gets_its_memory_back_unread(
    second: Second, alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken() -> Any:
        native = alone._array(np.asarray([1.0, 2.0]))
        made, new = convert(native, alone, load("cupy"), CUDA)
        assert new
        native._values[...] = NAN  # the library uses its memory again, as soon as it can
        return made.get().tolist()

    assert taken() == [1.0, 2.0]
    without(monkeypatch, CuPyStreams, "finish", lambda self, mark: None)
    assert taken() != [1.0, 2.0]


def test_values_come_from_a_library_without_streams_and_go_there(
    second: Second, alone: Alone
) -> None:
    a = xp.ones(2) + 1.0
    with corepy.stream("cuda:0"):
        b = corepy.to(a * 2.0, backend="alone") + 1.0
        c = corepy.to(b, backend="cupy") * 10.0
    assert values(c + 0.0) == [50.0, 50.0]


@pytest.mark.parametrize("given", [lambda stream: stream, lambda stream: stream.address])
def test_to_device_copies_in_the_stream_that_it_is_given(
    second: Second, monkeypatch: pytest.MonkeyPatch, given: Callable[[Any], Any]
) -> None:
    seen: list[int] = []
    backend = load("cupy")
    plain = type(backend).from_numpy, type(backend).to_numpy

    def arriving(self: Any, *args: Any, **params: Any) -> Any:
        seen.append(CURRENT.address)
        return plain[0](self, *args, **params)

    def leaving(self: Any, *args: Any, **params: Any) -> Any:
        seen.append(CURRENT.address)
        return plain[1](self, *args, **params)

    monkeypatch.setattr(type(backend), "from_numpy", arriving)
    monkeypatch.setattr(type(backend), "to_numpy", leaving)
    stream = corepy.stream("cuda:0")
    x = xp.asarray([1.0, 2.0], device="cpu").to_device("cuda:0", stream=given(stream))
    assert (x.device, seen) == (CUDA, [stream.address])
    home = (x + 1.0).to_device("cpu", stream=given(stream))
    assert (home.tolist(), seen, CURRENT.address) == ([2.0, 3.0], [stream.address] * 2, 0)
    assert x.to_device("cuda:0", stream=given(stream)) is x
    for wrong, error, message in (
        ("s", TypeError, "stream is of type str; expected None, a stream of .* or its address$"),
        (True, TypeError, "stream is of type bool"),
        (-3, ValueError, "stream is -3; expected"),
        (corepy.stream("cpu"), ValueError, "stream is .*; expected None, or one of cuda:0"),
    ):
        with pytest.raises(error, match=f"^to_device: {message}"):
            x.to_device("cpu", stream=wrong)


def test_an_event_waits_for_libraries_without_streams_too(second: Second, alone: Alone) -> None:
    waited: list[str] = []
    alone.synchronize = lambda device: waited.append(device.name)  # type: ignore[method-assign]
    stream = corepy.stream("cuda:0")
    with stream:
        xp.ones(2) + 1.0
        event = stream.record()
    assert (event.query(), waited) == (False, [])  # CuPy is not done, so nobody has to wait
    event.synchronize()
    assert waited == ["cuda:0"]
    assert (event.query(), waited) == (True, ["cuda:0"] * 2)
    stream.synchronize()
    assert waited == ["cuda:0"] * 3


def test_cupy_13_takes_streams_by_their_addresses(
    second: Second, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(cupy.cuda.Stream, "from_external")
    assert (read_inside(), read_after()) == ([8.0] * 3, [8.0] * 3)


def test_each_device_has_its_own_arrays_and_streams(
    second: Second, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 2)
    backend, there = CuPyBackend(), as_device("cuda:1")
    assert backend.devices() == (CUDA, there)
    made = [
        backend.from_numpy(np.asarray([1.0, 2.0]), there),
        backend.from_numpy(np.asarray(1.0), there),
        backend.scalar(3.0, xp.float64, there),
        backend.execute("ones", [(2,)], dtype=np.dtype(float), device=there),
    ]
    made.append(backend.execute("add", [made[0], made[3]]))
    made.append(backend.execute("concat", [(made[0], made[4])], axis=0))
    assert [backend.device_of(x) for x in made] == [there] * 6
    assert backend.to_numpy(made[5]).tolist() == [1.0, 2.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="different from the current device"):
        cupy.add(made[0], made[0])
    held, first = CuPyStreams(there), CuPyStreams(CUDA)
    address, _ = held.create()
    with held.using(address):
        assert (held.current(), first.current()) == (address, 0)
        assert backend.to_numpy(backend.execute("add", [made[0]] * 2)).tolist() == [2.0, 4.0]
    assert (held.current(), first.current()) == (0, 0)
    held.finish(held.record(address))


def test_blocks_that_are_not_ordered_wait_by_events(
    second: Second, monkeypatch: pytest.MonkeyPatch
) -> None:
    def joined() -> Any:
        one, two = (corepy.stream("cuda:0", ordered=False) for _ in range(2))
        with one:
            a = xp.ones(2) + 1.0
            event = one.record()
        assert not event.query()
        two.wait(event)
        with two:
            b = a * 5.0
            return values(b)

    assert joined() == [10.0, 10.0]
    without(monkeypatch, CuPyStreams, "wait", no_wait)
    without(monkeypatch, Held, "wait", no_wait)
    assert joined() != [10.0, 10.0]


def test_a_library_that_is_loaded_inside_a_block_joins_it(second: Second) -> None:
    corepy.unregister_backend("second")
    with corepy.stream("cuda:0") as stream:
        with corepy.stream("cuda:0") as inner:
            corepy.register_backend("second", second, modules=["tests"])
            load("second")
            assert second.current.address == inner.address
        assert second.current.address == stream.address
    assert second.current.address == 0


def test_streams_and_events_say_how_far_they_are(second: Second) -> None:
    stream = corepy.stream()
    assert stream.device is CUDA
    assert stream.__cuda_stream__() == (0, stream.address)
    assert repr(stream) == f"corepy.Stream('cuda:0', at {stream.address:#x})"
    with stream:
        start = stream.record(timing=True)
        x = xp.ones(2) + 1.0
        end = stream.record(timing=True)
    assert not stream.query()
    assert start.elapsed_time(end) == 1.5
    assert end.query()
    stream.synchronize()
    assert np.asarray(x.unwrap()).tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="^elapsed_time: an event has no time; expected record"):
        stream.record().elapsed_time(end)
    with pytest.raises(TypeError, match="^wait: other is of type int; expected an Event or a St"):
        stream.wait(1)  # type: ignore[arg-type]


def test_an_error_inside_a_block_leaves_no_stream_behind(second: Second) -> None:
    with pytest.raises(ZeroDivisionError), corepy.stream("cuda:0"):
        raise ZeroDivisionError
    assert (CURRENT.address, second.current.address) == (0, 0)


# ---------------------------------------------------------------------------- copies


def test_pinned_memory_is_copied_while_the_host_goes_on(second: Second) -> None:
    x = corepy.pin_memory(xp.asarray([1.0, 2.0], device="cpu"))
    assert (x.backend, x.unwrap().ctypes.data in _PINNED) == ("numpy", True)
    stream = corepy.stream("cuda:0")
    with stream:
        y = corepy.to(x, device="cuda:0", non_blocking=True)
        z = y + 1.0
        assert np.isnan(np.asarray(y.unwrap())).all()  # on its way
        home = corepy.to(z, device="cpu", non_blocking=True)
    assert home.tolist() != [2.0, 3.0]
    stream.synchronize()
    assert (home.tolist(), values(y)) == ([2.0, 3.0], [1.0, 2.0])
    assert home.unwrap().ctypes.data in _PINNED


def test_other_memory_may_be_written_to_at_once(second: Second) -> None:
    source = np.asarray([1.0, 2.0])
    x = corepy.to(source, device="cuda:0", non_blocking=True)
    source[...] = 9.0
    assert values(x) == [1.0, 2.0]
    source[...] = 3.0
    y = corepy.to(source, device="cuda:0")  # blocking is the default, pinned or not
    pinned = corepy.pin_memory(source)
    z = corepy.to(pinned, device="cuda:0")
    source[...] = 9.0
    pinned[...] = 9.0
    assert (values(y), values(z)) == ([3.0, 3.0], [3.0, 3.0])


def test_kernels_take_pinned_memory_as_it_is_now(second: Second) -> None:
    from corepy.kernels._device._cupy import CuPyArrays

    host = corepy.pin_memory(np.ones(2)).unwrap()
    made = CuPyArrays().from_numpy(host, CUDA)
    host[...] = 9.0
    assert made.get().tolist() == [1.0, 1.0]


def test_kernels_take_what_cupy_changes(second: Second) -> None:
    from corepy.kernels._device._cupy import CuPyArrays

    for host in (np.asarray(-0.0), np.asarray([1.0, -0.0], ">f4")):
        made = CuPyArrays().from_numpy(host, CUDA)
        assert made.dtype == host.dtype.newbyteorder("=")
        assert made.dtype.isnative
        assert str(made.get().tolist()) == str(host.tolist())


def test_memory_is_kept_until_its_copy_is_done(second: Second) -> None:
    from corepy.devices import _pinned

    corepy.to(corepy.pin_memory(np.ones(2)), device="cuda:0", non_blocking=True)
    assert len(_pinned._on_their_way) == 1
    corepy.synchronize("cuda:0")
    corepy.to(np.ones(2), device="cuda:0", non_blocking=True)
    assert len(_pinned._on_their_way) == 1
    corepy.synchronize()


@pytest.mark.parametrize(
    "wait",
    [
        lambda stream: corepy.synchronize(),
        lambda stream: corepy.synchronize("cuda:0"),
        lambda stream: stream.synchronize(),
        lambda stream: stream.record().synchronize(),
    ],
)
def test_memory_of_copies_that_were_waited_for_is_free(
    second: Second, wait: Callable[[Any], None]
) -> None:
    from corepy.devices import _pinned

    stream = corepy.stream("cuda:0")
    with stream:
        corepy.to(np.ones(10), device="cuda:0", non_blocking=True)
        corepy.to(xp.ones(10), device="cpu", backend="numpy", non_blocking=True)
    assert _pinned._on_their_way
    wait(stream)
    assert _pinned._on_their_way == []


def test_memory_of_copies_that_are_done_is_found_where_it_lacks(second: Second) -> None:
    gc.collect()
    GPU.capacity = 2000
    corepy.to(xp.ones(100), device="cpu", backend="numpy", non_blocking=True)
    for address in list(GPU.queues):
        GPU.drain(address)
    with corepy.set_fallback("raise"):
        assert values(xp.ones(200)) == [1.0] * 200
    corepy.to(xp.ones(10), device="cpu", backend="numpy", non_blocking=True)
    for address in list(GPU.queues):
        GPU.drain(address)
    gc.collect()
    corepy.empty_cache("cuda:0")
    assert corepy.memory_stats("cuda:0").allocated_bytes == 0


def test_a_copy_that_nobody_waits_for_is_not_recorded(second: Second) -> None:
    host = corepy.pin_memory(np.ones(2))
    for function in (
        lambda x: x + corepy.to(host, device="cuda:0", non_blocking=True),
        lambda x: corepy.to(x, device="cpu", non_blocking=True),
    ):
        with pytest.raises(
            corepy.UnsupportedOperationError, match="to: a copy from .* cannot be recorded; expec"
        ):
            corepy.graph(function, xp.zeros(2))
        corepy.synchronize()
        _pinned.let_go()
        assert _pinned._on_their_way == []
    assert values(corepy.to(host, device="cuda:0", non_blocking=True)) == [1.0, 1.0]
    corepy.synchronize()


# ---------------------------------------------------------------------------- graphs


def test_a_graph_replays_on_new_operands(second: Second) -> None:
    calls = []

    def step(x: Any, y: Any) -> Any:
        calls.append(1)
        total = x + y
        return total * 2.0, [total]

    recorded = corepy.graph(step, xp.zeros(2), xp.zeros(2))
    assert (recorded.is_captured, len(calls)) == (True, 2)
    first, (kept,) = recorded(xp.ones(2), xp.asarray([1.0, 2.0]))
    doubled, _ = recorded(xp.ones(2), xp.asarray([5.0, 6.0]))
    assert (values(first), values(kept), values(doubled)) == ([4.0, 6.0], [2.0, 3.0], [12.0, 14.0])
    assert len(calls) == 2
    assert second.kept == ["apart"]


def test_a_graph_writes_into_no_memory_that_others_have_by_now(second: Second) -> None:
    recorded = corepy.graph(lambda x: x * 2.0 + 1.0, xp.zeros(4))
    ones = recorded(xp.ones(4))
    tens = recorded(xp.full(4, 10.0))
    assert (values(ones), values(tens)) == ([3.0] * 4, [21.0] * 4)
    held = recorded._replay.memory
    assert [pointer.mem.size for pointer in held] == [32, 32]


def test_a_graph_keeps_what_it_reads_besides_its_operands(second: Second) -> None:
    weights = [xp.asarray([2.0, 3.0]) + 0.0, xp.asarray([1.0, 1.0]) + 0.0]
    recorded = corepy.graph(lambda x: (x * weights[0] + weights[1]) * 2.0, xp.zeros(2))
    kept = [weights[0].unwrap(), recorded._operands[0].unwrap(), weights[1].unwrap()]
    assert all(any(x is each for each in recorded._read) for x in kept)
    arrays = [x for x in recorded._read if isinstance(x, cupy.ndarray)]  # whose bases are NumPy's
    assert len(arrays) == 3  # and nothing that it makes by itself
    del kept, arrays
    weights[0] = weights[0] + 5.0
    ones = xp.ones(2)
    others = [ones * 7.0, ones * 9.0]  # in memory that would be free by now
    assert values(recorded(ones)) == [6.0, 8.0]
    weights[1] += 1.0  # in the memory that it reads
    assert values(recorded(ones)) == [8.0, 10.0]
    assert [values(x) for x in others] == [[7.0] * 2, [9.0] * 2]


@pytest.mark.parametrize(
    "given",
    [
        lambda weight: weight,  # the other library lends it to the one that records
        lambda weight: corepy.to(weight, backend="cupy"),
        lambda weight: corepy.to(weight, backend="cupy", copy=False),
    ],
)
def test_a_graph_keeps_what_another_library_lends(
    second: Second, given: Callable[[Any], Any]
) -> None:
    weights = [corepy.to(xp.asarray([2.0, 4.0]), backend="second") + 0.0]
    recorded = corepy.graph(lambda x: x * given(weights[0]), xp.zeros(2))
    weights.clear()
    gc.collect()
    others = [corepy.to(xp.ones(2), backend="second") * 7.0 for _ in range(2)]
    assert values(recorded(xp.ones(2))) == [2.0, 4.0]
    assert [values(x) for x in others] == [[7.0] * 2] * 2


def test_a_graph_keeps_what_views_are_of(second: Second) -> None:
    weights = [(xp.asarray([[2.0, 4.0], [3.0, 5.0]]) + 0.0).unwrap()]
    recorded = corepy.graph(lambda x: x * weights[0].T, xp.zeros((2, 2)))
    weights.clear()
    gc.collect()
    others = [xp.ones((2, 2)) * 7.0, xp.ones((2, 2)) * 9.0]
    assert values(recorded(xp.ones((2, 2)))) == [[2.0, 3.0], [4.0, 5.0]]
    assert values(others[0]) == [[7.0] * 2] * 2


def test_a_graph_keeps_what_kernels_read(second: Second) -> None:
    kernel = _explain.one_operation(lambda x, *, weight: x * weight)
    weight = xp.asarray([2.0, 4.0]) + 0.0
    recorded = corepy.graph(lambda x: kernel(x, weight=weight), xp.zeros(2))
    weight = weight + 1.0
    ones = xp.ones(2)
    others = [ones * 7.0, ones * 9.0]
    assert values(recorded(ones)) == [2.0, 4.0]
    assert [values(x) for x in others] == [[7.0] * 2, [9.0] * 2]


def test_a_graph_is_recorded_while_somebody_listens(second: Second) -> None:
    """Who measures waits for the device after each operation, which would end the recording."""
    there, made = xp.ones(2), []

    def step(x: Any) -> Any:
        thread = Thread(target=lambda: made.append(there + 1.0), daemon=True)
        thread.start()
        thread.join(60)
        return x * 2.0

    with corepy.profile() as found:
        recorded = corepy.graph(step, xp.zeros(2))
    assert {"add", "multiply"} <= {operation for operation, *_ in found.by_operation()}
    assert (values(recorded(there)), values(made[1])) == ([2.0, 2.0], [2.0, 2.0])
    told = corepy.explain(recorded, there)
    assert values(told.result) == [2.0, 2.0]


def test_a_graph_may_be_called_while_it_is_being_replayed(second: Second) -> None:
    """As by a signal's handler, which runs in the thread that it interrupts."""
    recorded = corepy.graph(lambda x: x * 2.0 + 1.0, xp.zeros(2))
    ones, tens, found = xp.ones(2), xp.full(2, 10.0), []
    replay = recorded._replay

    def interrupted() -> None:
        recorded._replay = replay
        found.append(recorded(tens))  # its operands take the place of the outer ones
        replay()

    recorded._replay = interrupted
    thread = Thread(target=lambda: found.append(recorded(ones)), daemon=True)
    thread.start()
    thread.join(60)
    assert list(map(values, found)) == [[21.0] * 2, [3.0] * 2]


def test_a_graph_takes_what_is_not_done_yet_and_is_waited_for(
    second: Second, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = corepy.graph(lambda x: x + 1.0, xp.zeros(2))
    operand = xp.ones(2) * 4.0
    assert values(recorded(operand) * 2.0) == [10.0, 10.0]
    without(monkeypatch, CuPyStreams, "wait", no_wait)
    without(monkeypatch, Held, "wait", no_wait)
    assert values(recorded(xp.ones(2) * 7.0) * 2.0) != [16.0, 16.0]


def test_a_graph_spans_libraries(second: Second) -> None:
    def step(x: Any) -> Any:
        return corepy.to(corepy.to(x * 2.0, backend="second") + 1.0, backend="cupy")

    recorded = corepy.graph(step, xp.zeros(2))
    assert values(recorded(xp.asarray([1.0, 2.0]))) == [3.0, 5.0]


def test_a_graph_refuses_what_it_cannot_record(second: Second) -> None:
    x = xp.ones(2)
    with pytest.raises(corepy.UnsupportedOperationError, match="^graph: function cannot be recor"):
        corepy.graph(lambda x: x * float(x[0]), x)
    assert values(x + 1.0) == [2.0, 2.0]  # and all goes on
    recorded = corepy.graph(lambda x: x + 1.0, x)
    for operands, error, message in (
        ((), TypeError, "^graph: 0 operands came; expected 1"),
        ((xp.ones(3),), ValueError, r"^graph: operands\[0\] is float64 of shape \(3,\) on cuda:0"),
        ((xp.ones(2, dtype=xp.float32),), ValueError, "is float32 of shape"),
        ((xp.ones(2, device="cpu"),), ValueError, r"on cpu; expected float64 of shape \(2,\) on"),
    ):
        with pytest.raises(error, match=message):
            recorded(*operands)
    with pytest.raises(TypeError, match="^graph: the result is of type int; expected an Array"):
        corepy.graph(lambda x: 1, x)
