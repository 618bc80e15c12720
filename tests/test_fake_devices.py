"""Rules of placement, held on fake devices: `corepy.testing` is under test here, and used."""

from __future__ import annotations

import gc
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.devices._device import CPU, as_device
from corepy.testing import DEVICES, FakeArray, FakeBackend, fake_devices

NO_FLOAT64, NO_X64, DEVICE1 = "fake:no_float64", "fake:no_x64", "fake:device1"


@pytest.fixture
def fake() -> Iterator[FakeBackend]:
    with fake_devices() as backend:
        yield backend


@pytest.fixture
def poor() -> Iterator[FakeBackend]:
    """Offer a backend that lacks what the tests call."""
    with fake_devices(lacks=["sqrt", "exp", "unique_counts", "__setitem__"]) as backend:
        yield backend


# ---------------------------------------------------------------------------- the devices


def test_the_devices_come_and_go(fake: FakeBackend) -> None:
    assert [device.name for device in fake.devices()] == list(DEVICES)
    assert {as_device(name) for name in DEVICES} <= set(corepy.list_devices())
    corepy.unregister_backend("fake")
    assert not {as_device(name) for name in DEVICES} & set(corepy.list_devices())
    with pytest.raises(corepy.BackendUnavailableError, match="device is 'fake:device1'; exp"):
        xp.ones(1, device=DEVICE1)
    corepy.register_backend("fake", fake)  # for the fixture to take away


def test_nothing_reads_the_memory_of_a_fake_array(fake: FakeBackend) -> None:
    values = np.ones(2)
    x = xp.asarray(values, device=DEVICE1)
    native = x.unwrap()
    assert type(native) is FakeArray
    for protocol in ("__array__", "__array_interface__", "__dlpack__", "__buffer__", "__len__"):
        assert not hasattr(native, protocol)
    with pytest.raises(TypeError):
        memoryview(native)
    values[0] = 5.0
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("lacks", [(), ("__setitem__", "__imul__", "astype")])
def test_what_repeats_elements_is_copied_before_it_is_written(lacks: tuple[str, ...]) -> None:
    with fake_devices(lacks=lacks), corepy.set_fallback("allow"):
        x = xp.asarray([1.0, 2.0], device=DEVICE1)
        repeated, written = xp.broadcast_to(x, (2, 2)), xp.broadcast_to(x, (2, 2))
        repeated *= 3.0
        written[0, :] = 7.0
        assert (repeated.device.name, written.device.name) == (DEVICE1, DEVICE1)
        assert repeated.tolist() == [[3.0, 6.0]] * 2
        assert written.tolist() == [[7.0, 7.0], [1.0, 2.0]]
        assert x.tolist() == [1.0, 2.0]


def test_transfers_are_counted_in_arrays_and_bytes(fake: FakeBackend) -> None:
    x = xp.asarray(np.ones((2, 3)), device=DEVICE1)
    assert (fake.arrived, fake.bytes_arrived) == (1, 48)
    y = xp.sum(x @ x.T + 1.0)
    assert (fake.arrived, fake.left) == (1, 0)
    assert float(xp.asarray(y, device="cpu")) == 16.0
    assert (fake.left, fake.bytes_left) == (1, 8)


# ---------------------------------------------------------------------------- data and devices


@pytest.mark.parametrize("device", DEVICES)
def test_computation_follows_data(fake: FakeBackend, device: str) -> None:
    x = xp.asarray([[3.0, 1.0], [2.0, 4.0]], device=device)
    before = (fake.arrived, fake.left)
    results = [
        x + x,
        2.0 * x,
        xp.sqrt(x),
        x @ x,
        xp.sum(x, axis=0),
        x[0, :],
        x[x > 1.5],
        xp.linalg.inv(x),
        xp.fft.fft(x),
        xp.sort(x),
        xp.argmax(x),
        xp.zeros_like(x),
        *xp.unique_all(x),
        xp.astype(x, xp.int32),
        x / xp.asarray(2, dtype=xp.int32, device=device),
    ]
    assert {y.device.name for y in results} == {device}
    assert {y.backend for y in results} == {"fake"}
    assert (fake.arrived - before[0], fake.left - before[1]) == (1, 0)  # the divisor came
    assert results[4].tolist() == [5.0, 5.0]
    assert results[6].tolist() == [3.0, 2.0, 4.0]


PAIRS = [(DEVICE1, "cpu"), ("cpu", DEVICE1), (DEVICE1, NO_FLOAT64), (NO_X64, NO_FLOAT64)]
CALLS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    xp.add,
    lambda x, y: x @ y,
    lambda x, y: xp.concat([x, y]),
    lambda x, y: xp.where(x > 0, x, y),
    xp.searchsorted,
    lambda x, y: x.__iadd__(y),
    lambda x, y: x.__setitem__(..., y),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("call", CALLS)
def test_two_devices_raise_naming_both(
    fake: FakeBackend, first: str, second: str, call: Callable[[Any, Any], Any]
) -> None:
    x = xp.ones(2, dtype=xp.float32, device=first)
    y = xp.ones(2, dtype=xp.float32, device=second)
    with pytest.raises(corepy.DeviceMismatchError) as caught:
        call(x, y)
    assert first in str(caught.value)
    assert second in str(caught.value)
    assert (fake.left, x.tolist(), y.tolist()) == (0, [1.0, 1.0], [1.0, 1.0])


# ---------------------------------------------------------------------------- missing dtypes


def test_results_take_the_widest_dtype_of_the_device(fake: FakeBackend) -> None:
    ints = xp.asarray([3, 1, 1], dtype=xp.int32, device=NO_X64)
    small = xp.astype(ints, xp.uint8)
    for result, name in [
        (xp.argmax(ints), "int32"),
        (xp.argsort(ints), "int32"),
        (xp.nonzero(ints)[0], "int32"),
        (xp.count_nonzero(ints), "int32"),
        (xp.unique_counts(ints).counts, "int32"),
        (xp.searchsorted(ints, ints), "int32"),
        (xp.sum(ints), "int32"),
        (xp.prod(small), "uint32"),
        (xp.cumulative_sum(small), "uint32"),
        (ints + 1.5, "float32"),
        (ints / 2, "float32"),
        (ints * 1j, "complex64"),
    ]:
        assert (result.dtype.name, fake.dtype_of(result.unwrap()).name) == (name, name)
    assert (ints + 1.5).tolist() == [4.5, 2.5, 2.5]
    assert xp.repeat(ints, ints).tolist() == [3, 3, 3, 1, 1]


ASKING: list[Callable[[], Any]] = [
    lambda: xp.ones(2, dtype=xp.float64, device=NO_FLOAT64),
    lambda: xp.asarray([1.5], dtype=xp.float64, device=NO_FLOAT64),
    lambda: xp.asarray(np.ones(2), device=NO_FLOAT64),
    lambda: xp.ones(2, dtype=xp.float64).to_device(NO_FLOAT64),
    lambda: corepy.to(np.ones(2), device=NO_FLOAT64),
    lambda: corepy.to(np.ones(2), device=NO_FLOAT64, backend="fake"),
    lambda: xp.ones(2, dtype=xp.float64, device=DEVICE1).to_device(NO_FLOAT64),
    lambda: xp.astype(xp.ones(2, device=NO_FLOAT64), xp.float64),
    lambda: xp.asarray(xp.ones(2, device=NO_FLOAT64), dtype=xp.float64),
    lambda: xp.zeros_like(xp.ones(2, device=NO_FLOAT64), dtype=xp.float64),
    lambda: xp.sum(xp.ones(2, device=NO_FLOAT64), dtype=xp.float64),
]


@pytest.mark.parametrize("ask", ASKING)
def test_a_dtype_that_the_device_lacks_is_refused(
    fake: FakeBackend, ask: Callable[[], Any]
) -> None:
    with pytest.raises(corepy.UnsupportedOperationError) as caught:
        ask()
    message = str(caught.value)
    assert re.match("(asarray|astype|ones|sum|to|to_device|zeros_like): ", message)
    assert "float64, which" in message
    assert NO_FLOAT64 in message
    assert "expected one of bool, int8" in message


def test_a_promotion_that_the_device_cannot_hold_is_refused(fake: FakeBackend) -> None:
    x = xp.ones(2, dtype=xp.int32, device=NO_X64)
    y = xp.ones(2, dtype=xp.uint32, device=NO_X64)
    for call in (lambda: x + y, lambda: xp.where(x > 0, x, y), lambda: xp.concat([x, y])):
        with pytest.raises(
            corepy.UnsupportedOperationError,
            match="^(add|where|concat|dtype): the dtype would be int64, which fake lacks on fake:",
        ):
            call()


# ---------------------------------------------------------------------------- fallback


def test_another_backend_on_the_device_comes_before_the_host(poor: FakeBackend) -> None:
    class Second(FakeBackend):
        name = "second"

        def import_(self, exporter: Any, device: corepy.Device) -> tuple[FakeArray, bool]:
            return exporter, False  # it has the same arrays

    poor.exporter = lambda native: native  # type: ignore[method-assign]
    second = Second(devices={DEVICE1: DEVICES[DEVICE1]})
    second.exporter = lambda native: native  # type: ignore[method-assign]
    poor.import_ = lambda exporter, device: (exporter, False)  # type: ignore[method-assign]
    corepy.register_backend("second", second)
    try:
        x = xp.asarray([4.0, 9.0], device=DEVICE1)
        with corepy.set_fallback("raise"):
            found = corepy.explain(xp.sqrt, x)
        record = found.records[0]
        assert (record.backend, record.device) == ("second", DEVICE1)
        assert (found.result.backend, found.result.device.name) == ("fake", DEVICE1)
        assert found.result.tolist() == [2.0, 3.0]
    finally:
        corepy.unregister_backend("second")


def test_crossing_warns_once_a_call_site_with_operation_devices_and_bytes(
    poor: FakeBackend,
) -> None:
    x = xp.asarray([4.0, 9.0], dtype=xp.float32, device=NO_FLOAT64)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            y = xp.sqrt(x)
        z = xp.sqrt(x)
    assert [warning.category for warning in caught] == [corepy.FallbackWarning] * 2
    assert {warning.filename for warning in caught} == {__file__}
    message = str(caught[0].message)
    for part in ("sqrt:", "fake on fake:no_float64", "numpy on cpu", "8 bytes"):
        assert part in message
    assert (y.dtype, y.device.name, y.tolist(), z.tolist()) == (
        xp.float32,
        NO_FLOAT64,
        [2.0, 3.0],
        [2.0, 3.0],
    )
    assert poor.bytes_left == 4 * 8 + 16  # four calls, and the two tolist


def test_allow_is_silent_and_raise_moves_nothing(poor: FakeBackend) -> None:
    x = xp.asarray([4.0], device=DEVICE1)
    with corepy.set_fallback("allow"):
        assert xp.sqrt(x).tolist() == [2.0]
    before = (poor.arrived, poor.left)
    with (
        corepy.set_fallback("raise"),
        pytest.raises(
            corepy.FallbackError, match=r"^sqrt: .* 8 bytes cross, besides the result, whi"
        ),
    ):
        xp.sqrt(x)
    assert (poor.arrived, poor.left) == before


# ---------------------------------------------------------------------------- failing transfers

LOST = "transfer: fake failed to move an array from {} to {}; the array is untouched (DeviceLost: "


def lost(start: str, end: str) -> str:
    return LOST.format(start, end)


def test_a_transfer_that_fails_leaves_both_sides_as_they_were(fake: FakeBackend) -> None:
    x = xp.asarray([1.0, 2.0], device=DEVICE1)
    host = xp.asarray([3.0])
    moves: list[tuple[Callable[[], Any], str]] = [
        (lambda: x.to_device("cpu"), lost(DEVICE1, "cpu")),
        (lambda: corepy.to(x, device="cpu"), lost(DEVICE1, "cpu")),
        (lambda: corepy.to(x, backend="numpy"), lost(DEVICE1, "cpu")),
        (lambda: xp.asarray(x, device="cpu"), lost(DEVICE1, "cpu")),
        (lambda: np.asarray(x), lost(DEVICE1, "cpu")),
        (x.tolist, lost(DEVICE1, "cpu")),
        (lambda: repr(x), lost(DEVICE1, "cpu")),
        (lambda: host.to_device(DEVICE1), lost("cpu", DEVICE1)),
        (lambda: corepy.to(host, backend="fake"), lost("cpu", NO_FLOAT64)),
        (lambda: xp.asarray([1.0, 2.0], device=DEVICE1), lost("cpu", DEVICE1)),
    ]
    for move, message in moves:
        if message == lost("cpu", NO_FLOAT64):
            host = xp.asarray([3.0], dtype=xp.float32)
        with fake.fail_transfers(), pytest.raises(corepy.BackendError) as caught:
            move()
        assert str(caught.value).startswith(message)
    assert (x.tolist(), host.tolist()) == ([1.0, 2.0], [3.0])


@pytest.mark.parametrize("after", [0, 1])
def test_a_fallback_that_fails_on_its_way_leaves_the_operands(
    poor: FakeBackend, after: int
) -> None:
    x = xp.asarray([4.0, 9.0], device=DEVICE1)
    start, end = ((DEVICE1, "cpu"), ("cpu", DEVICE1))[after]
    calls: list[Callable[[], Any]] = [
        lambda: xp.sqrt(x),
        lambda: xp.unique_counts(x),
        lambda: x.__setitem__(slice(0, 1), 5.0),
    ]
    for i, call in enumerate(calls):
        # The value that is set crosses too, before anything comes back.
        succeed = after * (i // 2 + 1)
        with (
            corepy.set_fallback("allow"),
            poor.fail_transfers(after=succeed),
            pytest.raises(corepy.BackendError) as caught,
        ):
            call()
        assert str(caught.value).startswith(lost(start, end))
    assert x.tolist() == [4.0, 9.0]
    with corepy.set_fallback("allow"):  # and the device goes on
        assert xp.sqrt(x).tolist() == [2.0, 3.0]


def test_fail_transfers_counts_and_ends_with_its_block(fake: FakeBackend) -> None:
    x = xp.asarray([1.0], device=DEVICE1)
    with fake.fail_transfers(after=2):
        assert x.tolist() == x.tolist() == [1.0]
        with pytest.raises(corepy.BackendError, match="fake:device1 does not respond"):
            x.tolist()
    assert x.tolist() == [1.0]
    with pytest.raises(ValueError, match="^fail_transfers: after is -1; expected 0 or more"):
        fake.fail_transfers(after=-1).__enter__()


# ---------------------------------------------------------------------------- corepy.to


def test_to_another_device_moves_and_is_explained(fake: FakeBackend) -> None:
    x = xp.asarray([1.0, 2.0, 3.0])
    found = corepy.explain(corepy.to, x, device=DEVICE1)
    y = found.result
    assert (y.backend, y.device.name, y.tolist()) == ("fake", DEVICE1, [1.0, 2.0, 3.0])
    (record,) = found.records
    assert (record.operation, record.backend, record.device) == ("transfer", "fake", DEVICE1)
    assert record.bytes_moved == found.bytes_moved == 24
    assert corepy.to(y, device=DEVICE1) is y
    assert corepy.to(y, backend="fake") is y
    home = corepy.to(y, backend="numpy")
    assert (home.backend, home.device, home.tolist()) == ("numpy", CPU, [1.0, 2.0, 3.0])
    both = corepy.to(xp.astype(x, xp.float32), device=NO_X64, backend="fake")
    assert (both.backend, both.device.name) == ("fake", NO_X64)


def test_the_caller_of_to_is_where_it_was_called(fake: FakeBackend) -> None:
    found = corepy.explain(lambda: corepy.to(np.ones(1), device=DEVICE1))
    assert found.records[0].caller.startswith(f"{__file__}:")


def test_to_copies_when_it_is_told_to(fake: FakeBackend) -> None:
    for x in (xp.asarray([1.0]), xp.asarray([1.0], device=DEVICE1)):
        y = corepy.to(x, copy=True)
        y[0] = 5.0
        assert (x.tolist(), y.tolist(), y.device) == ([1.0], [5.0], x.device)
    with pytest.raises(
        ValueError, match="^to: copy is False; expected True or None, for x is on cpu and another d"
    ):
        corepy.to(np.ones(1), device=DEVICE1, copy=False)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"backend": "nympy"}, corepy.BackendUnavailableError, "to: name is 'nympy'; expected a k"),
        (
            {"backend": "numpy", "device": DEVICE1},
            corepy.BackendUnavailableError,
            "to: backend numpy has no device fake:device1; expected cpu",
        ),
        ({"device": "fake:2"}, corepy.BackendUnavailableError, "to: device is 'fake:2'; expect"),
        ({"device": "No Such"}, ValueError, "to: device is 'No Such'; expected a device name"),
        ({"device": 1}, TypeError, "to: device is of type int; expected a Device or its name"),
        ({"backend": 1}, TypeError, "to: backend is of type int; expected the name of a backend"),
        ({"copy": 1}, TypeError, "to: copy is of type int; expected a bool"),
    ],
)
def test_to_refuses(
    fake: FakeBackend, arguments: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        corepy.to(xp.ones(1), **arguments)
    assert str(caught.value).startswith(message)


def test_to_refuses_what_is_no_array_and_who_does_not_answer() -> None:
    for value in ([1.0], 1.0, "x", None):
        with pytest.raises(TypeError, match="^to: x is of type .*; expected an array of corepy or"):
            corepy.to(value)
    corepy.register_backend("fake", FakeBackend(available=False))
    try:
        why = "^to: backend fake is not usable: installed, but does not answer; expected numpy"
        with pytest.raises(corepy.BackendUnavailableError, match=why):
            corepy.to(np.ones(1), backend="fake")
    finally:
        corepy.unregister_backend("fake")


# ---------------------------------------------------------------------------- the fake itself


def test_operands_on_two_devices_are_the_fake_librarys_own_error(fake: FakeBackend) -> None:
    add = fake.operation("add")
    assert add is not None
    x, y = (xp.ones(1, dtype=xp.float32, device=name).unwrap() for name in (DEVICE1, NO_X64))
    with pytest.raises(RuntimeError, match="^add: operands are on 2 devices, expected one"):
        add(x, y)
    assert fake.operation("no such operation") is None


def test_offers_and_lacks() -> None:
    with fake_devices(offers=["add", "sqrt"], lacks=["sqrt"]) as backend:
        assert backend.operation("add") is not None
        assert backend.operation("sqrt") is None
        assert backend.operation("exp") is None


@pytest.mark.parametrize("argument", ["offers", "lacks"])
@pytest.mark.parametrize("wrong", ["sqr", "linalg.sqrt", 3])
def test_a_name_that_no_operation_has_is_refused(argument: str, wrong: object) -> None:
    message = f"^FakeBackend: {argument} is {wrong!r}; expected names of operations, such as "
    with pytest.raises(ValueError, match=message), fake_devices(**{argument: ["sqrt", wrong]}):
        pass


@pytest.mark.parametrize("argument", ["offers", "lacks"])
@pytest.mark.parametrize("wrong", ["sqrt", 3])
def test_a_single_name_is_no_collection(argument: str, wrong: Any) -> None:
    message = f"^FakeBackend: {argument} is of type {type(wrong).__name__}; expected a collection"
    with pytest.raises(TypeError, match=message):
        FakeBackend(**{argument: wrong})


def test_arrays_outlive_their_registration() -> None:
    with fake_devices():
        x = xp.asarray([1.0, 2.0], device=DEVICE1)
    gc.collect()
    assert (x + x).tolist() == [2.0, 4.0]
    assert DTYPES["float64"] is x.dtype


def test_astype_moves_what_a_device_has_no_dtype_for(fake: FakeBackend) -> None:
    x = xp.astype(xp.asarray([1.5, 2.5]), xp.float32, device=NO_FLOAT64)
    assert (x.dtype, x.device.name, x.tolist()) == (xp.float32, NO_FLOAT64, [1.5, 2.5])
    y = xp.astype(x, xp.float64, device="cpu")
    assert (y.dtype, y.device, y.tolist()) == (xp.float64, CPU, [1.5, 2.5])
    with pytest.raises(corepy.UnsupportedOperationError, match="^astype: dtype is float64, which"):
        xp.astype(y, xp.float64, device=NO_FLOAT64)


def test_a_device_that_is_gone_answers_nothing(fake: FakeBackend) -> None:
    x = xp.asarray([1.0, 2.0], device=DEVICE1)
    number, other = x[0], xp.ones(2, device=NO_X64)
    calls: list[Callable[[], Any]] = [
        lambda: x + x,
        lambda: float(number),
        lambda: x.to_device("cpu"),
        lambda: xp.asarray([1.0], device=DEVICE1),
        lambda: xp.ones(2, device=DEVICE1),
    ]
    with fake.lose_device(DEVICE1):
        with fake.lose_device(NO_X64), pytest.raises(corepy.BackendError, match="x64 is gone"):
            other + other
        assert (other + other).tolist() == [2.0, 2.0]
        with fake.lose_device(DEVICE1):  # as helpers of a test do, inside its own block
            pass
        for call in calls:
            with pytest.raises(corepy.BackendError, match=f"{DEVICE1} is gone"):
                call()
    assert (x + x).tolist() == [2.0, 4.0]
    assert float(number) == 1.0
    with (
        pytest.raises(ValueError, match="^lose_device: device is 'cpu'; expected one of the back"),
        fake.lose_device("cpu"),
    ):
        raise AssertionError


def test_transfers_fail_as_often_as_the_outer_block_says(fake: FakeBackend) -> None:
    x = xp.ones(2, device=DEVICE1)
    with fake.fail_transfers(after=1):
        with fake.fail_transfers(), pytest.raises(corepy.BackendError, match="does not respond"):
            x.to_device("cpu")
        assert x.to_device("cpu").tolist() == [1.0, 1.0]
        with pytest.raises(corepy.BackendError, match="does not respond"):
            x.to_device("cpu")


def test_the_fake_library_refuses_what_a_true_one_would(fake: FakeBackend) -> None:
    values, place = np.ones(2), as_device(NO_FLOAT64)
    with pytest.raises(TypeError, match="^fake:no_float64 does not support float64$"):
        fake.from_numpy(values, place)
    with pytest.raises(TypeError, match="^fake:no_float64 does not support float64$"):
        fake.scalar(1.0, xp.float64, place)
    there = fake.from_numpy(values, as_device(DEVICE1))
    for share in (
        lambda: fake.from_numpy(values, as_device(DEVICE1), copy=False),
        lambda: fake.to_numpy(there, copy=False),
    ):
        with pytest.raises(ValueError, match="^fake devices share no memory$"):
            share()


def test_fake_devices_are_gone_after_their_block_however_it_ends() -> None:
    with fake_devices():
        assert "fake" in corepy.usable_backends()
    assert "fake" not in corepy.usable_backends()
    with pytest.raises(ZeroDivisionError), fake_devices():
        raise ZeroDivisionError
    assert "fake" not in corepy.usable_backends()
