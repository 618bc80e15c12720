"""Offload: what is reckoned up, by which numbers, and what is never asked of an accelerator."""

from __future__ import annotations

import operator
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import ANY, int64, uint64
from corepy.devices._device import CPU, as_device
from corepy.dispatch import _offload, load
from corepy.dispatch import _offload_places as places
from corepy.dispatch._offload_costs import Curve
from corepy.dispatch._offload_values import Resident
from corepy.dispatch._offload_work import Load
from corepy.testing import FakeBackend
from tests.dispatch.fake import DEVICE, registered
from tests.dispatch.offloading import (
    NOTHING,
    SLOW,
    accelerator,
    costs,
    is_resident,
    line,
    matrix,
    resident,
    use_costs,
)

# ---------------------------------------------------------------------------- the gate


@pytest.fixture
def reckoned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the operations that are reckoned up."""
    names: list[str] = []
    usual = _offload.Choice.__call__

    def call(self: _offload.Choice, *args: Any, **params: Any) -> Any:
        names.append(self.name)
        return usual(self, *args, **params)

    monkeypatch.setattr(_offload.Choice, "__call__", call)
    return names


def test_only_what_takes_longer_than_two_latencies_and_20_us_is_reckoned_up(
    fake: FakeBackend, reckoned: list[str]
) -> None:
    """Here 60 us, in which the host multiplies 599,000 times: 84 ** 3 is less, 85 ** 3 is more."""
    for side, count in ((84, 0), (85, 1)):
        x = matrix(side)
        np.testing.assert_allclose(np.asarray(x @ x), np.asarray(x) @ np.asarray(x), atol=1e-12)
        assert len(reckoned) == count
    tall = xp.asarray(np.ones((4000, 4)))  # more elements, and fewer products
    assert float((tall @ xp.ones((4, 4)))[0, 0]) == 4.0
    assert reckoned == ["matmul"]


def test_compiled_code_need_not_ask_below_what_the_gate_says(fake: FakeBackend) -> None:
    def native(*args: Any) -> None:
        """Compute nothing."""

    def gate() -> Any:
        return _offload.gated(native, "matmul", load("numpy"), CPU, xp.float64)

    assert 84**2 < gate().least < 85**2
    native.least = 5  # type: ignore[attr-defined]  # of a router
    assert gate().least == 5


def test_the_quickest_way_of_several_opens_the_gate(fake: FakeBackend, reckoned: list[str]) -> None:
    found = costs(fake)
    (device,) = found.devices
    far = line(1e-2, 1e-10)
    second = FakeBackend(devices={"fake:1": ANY})
    second.name = "second"  # type: ignore[misc]
    corepy.register_backend("second", second)
    try:
        version = places.version_of(second, second.devices()[0])
        other = replace(
            device, backend="second", device="fake:1", version=version, up=far, down=far
        )
        use_costs(replace(found, devices=(device, other)))
        matrix(85) @ matrix(85)
    finally:
        corepy.unregister_backend("second")
    assert reckoned == ["matmul"]


# ---------------------------------------------------------------------------- the reckoning


def choice(name: str) -> _offload.Choice:
    return _offload.Choice(name, load("numpy"), xp.float64, lambda *args, **params: None)


def test_narrow_dtypes_take_their_part_of_the_time_and_of_the_way(fake: FakeBackend) -> None:
    (place,) = places.accelerators()
    found = _offload.Choice("add", load("numpy"), xp.uint8, np.add)._reckoned(
        place, Load(1e6, 1e6), [resident(np.ones(1_000_000, np.uint8))._native]
    )
    assert found.compute == pytest.approx(place.work["multiply/float32"](0.25e6))
    assert found.here == pytest.approx(place.host["multiply/float32"](0.25e6))
    assert (found.moved, found.up, found.down) == (0, 0.0, pytest.approx(place.down(1e6)))
    flags = choice("less")._reckoned(place, Load(1e6, 1e6), [])
    assert flags.down == pytest.approx(place.down(1e6))  # a byte each
    assert flags.compute == pytest.approx(place.work["multiply/float64"](1e6))


def test_values_that_came_home_have_to_be_sent_again(fake: FakeBackend) -> None:
    x = resident(np.ones(1000))._native
    x.fetch()
    (place,) = places.accelerators()
    found = choice("add")._reckoned(place, Load(1000, 1000), [x])
    assert (found.moved, found.fetch) == (8000, 0.0)
    assert found.up == pytest.approx(place.up(8000))


def test_words_of_a_reckoning() -> None:
    with accelerator(moving=line(2e-3, 1e-10)):
        (place,) = places.accelerators()
        found = _offload.Reckoning(place, 8, 2e-3, 5e-7, 1e-3, 0.25e-3, 0.5e-3)
    assert str(found) == (
        "fake:0 takes 3 ms (8 bytes there 2 ms, compute 0.5 us, back 1 ms), "
        "the host 750 us (250 us of it to fetch operands)"
    )


#: Half a second for a number, a second for two.
BY_BYTES = Curve(((8.0, 0.5), (16.0, 1.0)))


def test_an_operand_that_comes_twice_pays_its_rent_once() -> None:
    with accelerator(moving=BY_BYTES, here=Curve(((1.0, 0.1),)), there=Curve(((1.0, 0.2),))):
        x = resident([1.0, 2.0])
        for paid in (0.7, 1.4):  # 0.4 for two numbers and the way home of one, less 0.2
            assert float(xp.vecdot(x, x)) == 5.0
            assert x._native.lost == pytest.approx(paid)
            assert is_resident(x) is (paid < 1.0)


def test_the_operand_that_has_paid_most_decides() -> None:
    with accelerator(moving=BY_BYTES, here=NOTHING, there=NOTHING):
        x, y = resident([1.0, 2.0]), resident([3.0, 4.0])
        y._native.lost = 2.5  # more than both ways home
        assert is_resident(xp.vecdot(x, x))
        assert not is_resident(xp.vecdot(x, y))
        assert not is_resident(x)
        assert not is_resident(y)


def test_values_that_came_home_are_no_reason_to_go_there_again(eager: FakeBackend) -> None:
    y = resident(np.ones(3))
    values = np.asarray(y)
    assert not is_resident(y + 1.0)
    assert eager.arrived == 1  # by the test itself
    values[0] = 5.0
    z = y @ y  # which may start by itself, and is sent what is written here
    assert float(z) == 27.0
    assert (float(y[0]), y.tolist(), repr(y)[:10]) == (5.0, [5.0, 1.0, 1.0], "Array([5.,")


# ---------------------------------------------------------------------------- who is asked


@contextmanager
def one_of(made: FakeBackend, **keys: Any) -> Iterator[FakeBackend]:
    """Offer an accelerator on which nothing takes any time, with its costs changed."""
    with registered(made):
        found = costs(made, moving=NOTHING, here=SLOW, there=NOTHING)
        (device,) = found.devices
        work = {k: curve for k, curve in device.work.items() if k not in keys.get("work", ())}
        host = {k: curve for k, curve in found.host.items() if k not in keys.get("host", ())}
        use_costs(replace(found, host=host, devices=(replace(device, work=work),)))
        try:
            with corepy.offload("auto"):
                yield made
        finally:
            use_costs(None)


@pytest.mark.parametrize("lacking", ["work", "host"])
def test_what_was_not_measured_stays(lacking: str) -> None:
    with one_of(FakeBackend(devices={DEVICE.name: ANY}), **{lacking: ["matmul/float64"]}) as fake:
        x = matrix(20)
        np.testing.assert_array_equal(np.asarray(x @ x), np.asarray(x) @ np.asarray(x))
        assert fake.arrived == 0
        assert is_resident(xp.sort(x))


def test_what_a_backend_does_not_support_for_a_dtype_stays() -> None:
    class Partial(FakeBackend):
        def supports(self, name: str, dtype: Any, device: Any) -> bool:
            return name != "matmul" and super().supports(name, dtype, device)

    with one_of(Partial(devices={DEVICE.name: ANY})) as fake:
        x = matrix(20)
        assert not is_resident(x @ x)
        assert fake.arrived == 0
        assert is_resident(xp.sort(x))


@pytest.mark.parametrize("dtype", ["int64", "uint8", "complex128"])
def test_dtypes_that_are_not_measured_stay(eager: FakeBackend, dtype: str) -> None:
    values = np.arange(12).reshape(3, 4).astype(dtype)
    x = xp.asarray(values)
    np.testing.assert_array_equal(np.asarray(x @ x.T), values @ values.T)
    if dtype != "complex128":
        np.testing.assert_array_equal(np.asarray(xp.sort(x, descending=True)), values[:, ::-1])
    assert eager.arrived == 0
    whole = resident(np.asarray([2, 3]))
    assert ((whole**2).tolist(), (6 / whole).tolist()) == ([4, 9], [3.0, 2.0])


def test_arrays_without_elements_stay(eager: FakeBackend) -> None:
    x, empty = matrix(8), xp.zeros((8, 0))
    for made, shape in ((empty @ xp.matrix_transpose(empty), (8, 8)), (x @ empty, (8, 0))):
        assert made.shape == shape
        assert not is_resident(made)
    assert xp.sort(empty).shape == (8, 0)
    assert eager.arrived == 0
    assert (resident(np.ones((0, 3))) + 1.0).shape == (0, 3)


def test_a_dtype_that_the_device_gives_in_the_place_of_the_wanted_one_is_refused() -> None:
    with accelerator(ANY - {int64, uint64}, moving=NOTHING, here=SLOW, there=NOTHING):
        y = matrix(3) @ matrix(3)
        assert is_resident(y)
        for dtype in (xp.int64, xp.uint64):  # which would be int32 and uint32
            assert xp.astype(y * 0 + 7, dtype).dtype is dtype
        assert xp.sum(xp.astype(y, xp.int32), dtype=xp.int64).dtype is xp.int64
        assert is_resident(xp.astype(y, xp.int32))


def test_several_results_stay(eager: FakeBackend) -> None:
    x = matrix(6)
    found = xp.linalg.qr(x)
    assert type(found).__name__ == "QRResult"
    assert all(map(is_resident, found))
    np.testing.assert_allclose(np.asarray(found.Q @ found.R), np.asarray(x), atol=1e-12)


def test_products_there_round_their_operands_where_autocast_says_so(eager: FakeBackend) -> None:
    x = xp.asarray(np.full((4, 4), 1.001, np.float32))
    with corepy.autocast("bfloat16"):
        y = x @ x
        assert is_resident(y)
        z = xp.vecdot(y, x)
    assert is_resident(z)
    assert (y.tolist(), z.tolist()) == ([[4.0] * 4] * 4, [16.0] * 4)
    assert float((x @ x)[0, 0]) == pytest.approx(4 * 1.001**2)


class Particular(FakeBackend):
    """A library that takes nothing of NumPy's, as most do."""

    def operation(self, name: str) -> Callable[..., Any] | None:
        native = super().operation(name)

        def run(*args: Any, **params: Any) -> Any:
            for value in (*args, *params.values()):
                assert not isinstance(value, (np.ndarray, np.generic, np.dtype))
            plain = [self._plain(x) for x in args]
            assert native is not None
            return native(*plain, **{key: self._plain(x) for key, x in params.items()})

        return None if native is None else run

    def native_dtype(self, dtype: Any) -> Any:
        return dtype.name, "of the library"

    def _plain(self, value: Any) -> Any:
        named = isinstance(value, tuple) and value[1:] == ("of the library",)
        return np.dtype(value[0]) if named else value


def test_numbers_and_dtypes_become_the_librarys() -> None:
    with one_of(Particular(devices={DEVICE.name: ANY})):
        y = matrix(4) @ matrix(4)
        right = np.asarray(matrix(4)) @ np.asarray(matrix(4))
        z, total = 2.0 * y, xp.sum(y, dtype=xp.float64)
        small = xp.astype(y, xp.float32)
        assert [is_resident(x) for x in (z, total, small)] == [True] * 3
        np.testing.assert_array_equal(np.asarray(z), 2.0 * right)
        np.testing.assert_array_equal(np.asarray(small), right.astype(np.float32))
        assert float(total) == pytest.approx(right.sum())


def test_values_go_from_one_accelerator_to_a_better_one(eager: FakeBackend) -> None:
    second = FakeBackend(devices={"fake:1": ANY})
    second.name = "second"  # type: ignore[misc]
    corepy.register_backend("second", second)
    try:
        found = costs(eager, moving=NOTHING, here=SLOW, there=Curve(((1.0, 0.5),)))
        (slow,) = found.devices
        version = places.version_of(second, as_device("fake:1"))
        work = dict.fromkeys(slow.work, NOTHING)
        fast = replace(slow, backend="second", device="fake:1", version=version, work=work)
        use_costs(replace(found, devices=(slow,)))
        y = matrix(5) @ matrix(5)
        assert y._native.accelerator.backend is eager
        use_costs(replace(found, devices=(slow, fast)))
        z = y + y
        assert z._native.accelerator.backend is second
        assert (eager.left, second.arrived) == (1, 1)
        assert not is_resident(y)
        np.testing.assert_array_equal(np.asarray(z), 2 * np.asarray(y))
    finally:
        corepy.unregister_backend("second")


# ---------------------------------------------------------------------------- who looks


def test_explain_waits_for_the_device(eager: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    monkeypatch.setattr(eager, "synchronize", lambda device: waited.append(device.name))
    x = matrix(8)
    x @ x
    assert waited == []
    corepy.explain(operator.matmul, x, x)
    assert waited == ["fake:0"]


def test_explain_says_why_an_operation_on_resident_values_runs_here(eager: FakeBackend) -> None:
    y = matrix(3) @ matrix(3)
    home, total = corepy.explain(xp.cumulative_sum, y, axis=0).records
    assert (home.operation, home.reason, home.bytes_moved) == ("transfer", "home from fake:0", 72)
    assert (total.backend, total.reason) == ("numpy", "the operands live in it")


def test_what_came_home_is_shared_and_not_copied(eager: FakeBackend) -> None:
    y = matrix(3) @ matrix(3)
    found = corepy.explain(corepy.to, y, backend="numpy")
    assert [(r.operation, r.reason) for r in found.records] == [("transfer", "home from fake:0")]
    assert np.shares_memory(np.asarray(found.result), np.asarray(y))
    assert corepy.explain(corepy.to, y, backend="numpy").records == ()
    number = (matrix(3) @ matrix(3))[0, 0]
    assert is_resident(number)
    assert float(number) == float(np.asarray(number)) == float(number)


def test_strict_mode_writes_to_them_and_old_consumers_have_them(eager: FakeBackend) -> None:
    y = matrix(3) @ matrix(3)
    with corepy.strict():
        y[0, 0] = 5.0
    assert float(y[0, 0]) == 5.0
    z = matrix(3) @ matrix(3)
    assert type(z.__dlpack__()).__name__ == "PyCapsule"  # of a version before 1.0
    assert not is_resident(z)


class LateError(Exception):
    """What a time limit raises."""


def limit(*_: object) -> NoReturn:
    raise LateError


@pytest.fixture
def _limited() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, limit)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_limited")
def test_what_a_signals_handler_raises_is_no_failure_of_the_device(
    eager: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    from corepy.dispatch._offload_values import send_home

    x = matrix(8)
    y = x @ x

    def struck(*args: Any, **params: Any) -> NoReturn:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError

    monkeypatch.setattr(eager, "from_numpy", struck)
    monkeypatch.setattr(eager, "to_numpy", struck)
    with pytest.raises(LateError):
        x @ x
    with pytest.raises(LateError):
        send_home()
    monkeypatch.undo()
    assert y._native.__class__ is Resident
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x) @ np.asarray(x))
    send_home()  # it is not under way any more
