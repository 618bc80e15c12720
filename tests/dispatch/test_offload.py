"""Offload: what goes to an accelerator, what stays, and that nobody can tell by the values."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import warnings
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import corepy
import corepy.array_api as xp
from corepy._dtypes import ANY, int64, uint64
from corepy.devices._device import CPU, as_device
from corepy.dispatch import _offload, load
from corepy.dispatch import _offload_places as places
from corepy.dispatch._offload_costs import Curve
from corepy.dispatch._offload_work import STARTS, Load
from corepy.kernels import softmax
from corepy.testing import FakeBackend
from tests.calls import Call, calls
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
from tests.helpers import FUNCTIONS, function

#: Functions that take no arrays, or give none.
WITHOUT_ARRAYS = {
    *("__array_namespace_info__", "broadcast_shapes", "can_cast", "finfo", "from_dlpack"),
    *("iinfo", "isdtype", "result_type"),
}

# ---------------------------------------------------------------------------- what goes where


def test_a_large_product_goes_and_a_small_one_stays(fake: FakeBackend) -> None:
    x = matrix()
    y = x @ x
    assert is_resident(y)
    assert (fake.arrived, fake.bytes_arrived, fake.left) == (1, x.nbytes, 0)
    assert (y.device, y.backend, y.dtype, y.shape) == (CPU, "numpy", xp.float64, (200, 200))
    small = xp.asarray([1.0, 2.0, 3.0], dtype=xp.float32)  # 12 bytes
    assert float(small @ small) == 14.0
    assert fake.arrived == 1
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x) @ np.asarray(x))
    assert (fake.left, fake.bytes_left) == (1, y.nbytes)


def test_what_does_not_pay_stays() -> None:
    with accelerator(moving=line(2e-5, 1e-7)) as fake:  # 10 MB/s
        x = matrix()
        assert not is_resident(x @ x)
        assert fake.arrived == 0


def test_a_gain_that_is_small_is_none() -> None:
    for here, goes in ((1.1, False), (1.2, True)):
        with accelerator(moving=NOTHING, there=SLOW, here=Curve(((1.0, here),))) as fake:
            x = matrix()
            assert is_resident(x @ x) is goes
            assert fake.arrived == goes


def test_where_operands_are_resident_any_gain_is_enough() -> None:
    for here, stays in ((0.9, False), (1.1, True)):
        with accelerator(moving=NOTHING, there=SLOW, here=Curve(((1.0, here),))):
            x = resident(np.ones(1))
            assert is_resident(x + x) is stays


def test_operands_on_another_accelerator_come_by_way_of_the_host(fake: FakeBackend) -> None:
    x = resident(np.ones(1000))._native
    (place,) = places.accelerators()
    x.accelerator = replace(place, device=as_device("fake:1"), down=line(3.0, 0.0))
    found = _offload.Choice("add", load("numpy"), xp.float64, np.add)._reckoned(
        place, Load(1000, 1000), [x]
    )
    assert (found.moved, found.fetch) == (8000, pytest.approx(3.0))
    assert found.up == pytest.approx(3.0 + place.up(8000))


def test_elementwise_operations_alone_never_start() -> None:
    assert not {"add", "exp", "sum", "__getitem__", "reshape"} & STARTS.keys()
    with accelerator(moving=NOTHING, here=SLOW, there=NOTHING) as fake:
        assert not is_resident(xp.exp(matrix()) + 1)
        assert fake.arrived == 0


def test_a_chain_stays_where_it_is() -> None:
    with accelerator(here=line(1e-4, 1e-9)) as fake:
        x = matrix()
        y = xp.tanh(x @ x * 0.01) + 1.0
        z = xp.where(y > 1.0, y, -y).T @ x
        total = xp.sum(z[:, :100])
        for part in (y, z, total):
            assert is_resident(part)
        assert (fake.arrived, fake.left) == (2, 0)  # x, twice: it is the user's
        found = float(total)
        assert fake.left == 0  # one number came, by itself
    y = np.tanh(np.asarray(x) @ np.asarray(x) * 0.01) + 1.0
    assert found == pytest.approx((np.where(y > 1.0, y, -y).T @ np.asarray(x))[:, :100].sum())


def test_a_write_at_home_leaves_the_memory_that_a_library_lends(
    fake: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "to_numpy", lambda native, *, copy=None: native._values[:])
    monkeypatch.setattr(fake, "shares_memory", lambda *_: True)
    x = resident([1.0, 2.0])
    there = x._native.there
    x.unwrap()[0] = 9.0
    assert x.tolist() == [9.0, 2.0]
    assert there._values.tolist() == [1.0, 2.0]


def test_who_asks_while_values_come_home_has_the_same_memory(
    fake: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a signal's handler may, or another thread: no lock is held through a transfer."""
    x = resident([1.0, 2.0])
    usual, inner = fake.to_numpy, []

    def asked(native: Any, *, copy: bool | None = None) -> Any:
        if not inner:
            inner.append(None)
            inner[0] = x.unwrap()
            inner[0][0] = 9.0
        return usual(native, copy=copy)

    monkeypatch.setattr(fake, "to_numpy", asked)
    assert np.shares_memory(x.unwrap(), inner[0])
    assert x.tolist() == [9.0, 2.0]


def test_memory_that_is_new_is_not_copied_once_more(
    fake: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's owns a tensor, and NumPy's array only looks at it."""
    made = np.ones(3)
    monkeypatch.setattr(fake, "to_numpy", lambda native, *, copy=None: made[:])
    assert np.shares_memory(resident(np.ones(3)).unwrap(), made)
    made.flags.writeable = False
    assert not np.shares_memory(resident(np.ones(3)).unwrap(), made)


def test_what_is_used_bit_by_bit_goes_home_in_time(fake: FakeBackend) -> None:
    y = matrix() @ matrix()
    right = np.asarray(matrix()) @ np.asarray(matrix())
    for i in range(60):
        assert float(y[i, i]) == right[i, i]
    assert not is_resident(y)
    assert (fake.left, fake.bytes_left) == (1, y.nbytes)


def test_float32_decompositions_go_under_fast_precision_only(eager: FakeBackend) -> None:
    x = matrix(20, np.float32)
    assert not is_resident(xp.linalg.inv(x))
    assert is_resident(xp.linalg.inv(matrix(20)))
    assert is_resident(x @ x)
    with corepy.precision("fast"):
        assert is_resident(xp.linalg.inv(x))


def test_a_device_that_lacks_the_dtype_is_not_asked() -> None:
    with accelerator(ANY - {int64, uint64}, moving=NOTHING, here=SLOW, there=NOTHING) as fake:
        x = matrix(20)
        assert is_resident(x @ x)
        before = fake.arrived
        found = xp.argsort(x)  # its result would be int32 there
        assert (found.dtype, fake.arrived) == (xp.int64, before)
        assert xp.argmax(x @ x).dtype is xp.int64
        assert xp.sum(xp.astype(x @ x, xp.int32)).dtype is xp.int64


def test_the_best_of_several_accelerators(fake: FakeBackend) -> None:
    second = FakeBackend(devices={"fake:1": ANY})
    second.name = "second"  # type: ignore[misc]
    corepy.register_backend("second", second)
    try:
        found = costs(fake)
        (slow,) = found.devices
        name = places.version_of(second, second.devices()[0])
        fast = replace(slow, backend="second", device="fake:1", version=name, up=line(1e-6, 1e-11))
        use_costs(replace(found, devices=(slow, fast)))
        x = matrix()
        y = x @ x
        assert (second.arrived, fake.arrived) == (1, 0)
        z = y @ x  # stays beside its operand
        assert (second.arrived, fake.arrived, second.left) == (2, 0, 0)
        np.testing.assert_allclose(np.asarray(z), np.linalg.matrix_power(np.asarray(x), 3))
    finally:
        corepy.unregister_backend("second")


# ---------------------------------------------------------------------------- one set of values


def test_writes_are_seen_whichever_way_they_come(eager: FakeBackend) -> None:
    x = matrix(8)
    right = np.asarray(x) @ np.asarray(x)

    def write_array(y: Any) -> None:
        y[0, 0] = 5.0

    def write_numpy(y: Any) -> None:
        np.asarray(y)[0, 0] = 5.0

    def write_dlpack(y: Any) -> None:
        np.from_dlpack(y)[0, 0] = 5.0

    def write_unwrapped(y: Any) -> None:
        assert type(y.unwrap()) is np.ndarray
        y.unwrap()[0, 0] = 5.0

    def write_other(y: Any) -> None:
        corepy.to(y, backend="numba" if _has_numba() else "numpy")[0, 0] = 5.0

    right[0, 0] = 5.0
    for write in (write_array, write_numpy, write_dlpack, write_unwrapped, write_other):
        y = x @ x
        assert is_resident(y)
        write(y)
        assert not is_resident(y)
        np.testing.assert_array_equal(np.asarray(y @ y), right @ right, err_msg=write.__name__)
        assert y.tolist() == right.tolist()


def _has_numba() -> bool:
    return "numba" in corepy.usable_backends()


def test_a_view_that_was_taken_before_a_write_does_not_spoil_it(eager: FakeBackend) -> None:
    y = matrix(8) @ matrix(8)
    row, whole = y[0], xp.reshape(y, (64,))
    assert is_resident(row)
    held = np.asarray(whole)
    y[0, 0] = 5.0
    assert float(y[0, 0]) == 5.0
    held[1] = 7.0  # of a copy, as it happens: the standard lets views be either
    assert float(whole[1]) == 7.0


def test_operands_of_the_user_are_read_anew_each_time(eager: FakeBackend) -> None:
    values = np.eye(8)
    x = xp.asarray(values, copy=False)
    assert float((x @ x)[0, 0]) == 1.0
    values[0, 0] = 3.0
    assert float((x @ x)[0, 0]) == 9.0


def test_in_place_operators(eager: FakeBackend) -> None:
    x = matrix(8)
    right = np.asarray(x) @ np.asarray(x)
    y = x @ x
    alias = y
    y += 1.0
    y *= x
    assert alias is y
    np.testing.assert_array_equal(np.asarray(y), (right + 1.0) * np.asarray(x))
    values = np.ones((8, 8))
    mine = xp.asarray(values, copy=False)
    mine += x @ x  # into memory of the user's
    np.testing.assert_array_equal(values, right + 1.0)
    mine @= x
    mine[0, :] = (x @ x)[1, :]
    np.testing.assert_array_equal(values[0], right[1])
    assert np.shares_memory(mine.unwrap(), values)


def test_copies_pickles_and_words(eager: FakeBackend) -> None:
    y = matrix(3) @ matrix(3)
    right = np.asarray(matrix(3)) @ np.asarray(matrix(3))
    words = repr(y), str(y)
    again = [copy.copy(y), copy.deepcopy(y), xp.asarray(y, copy=True)]
    assert is_resident(y)
    assert words == (repr(xp.asarray(right)), str(right))
    for z in again:
        z[0, 0] = 0.0
    restored = pickle.loads(pickle.dumps(y))
    assert (restored.backend, restored.device) == ("numpy", CPU)
    np.testing.assert_array_equal(np.asarray(restored), right)
    np.testing.assert_array_equal(np.asarray(y), right)
    assert bool(xp.all(y @ y == y @ y))
    assert [x.shape for x in y] == [(3,)] * 3


def test_kernels_take_them(eager: FakeBackend) -> None:
    y = matrix(8) @ matrix(8)
    found = softmax(y, axis=-1)
    right = np.exp(np.asarray(y) - np.asarray(y).max(-1, keepdims=True))
    np.testing.assert_allclose(np.asarray(found), right / right.sum(-1, keepdims=True), 1e-12)


def test_results_that_lie_here_are_the_home_backends(eager: FakeBackend) -> None:
    y = matrix(8) @ matrix(8)
    for made in (xp.zeros_like(y), xp.cumulative_sum(y, axis=0), xp.unique_values(y), y[y > 0]):
        assert type(made._native) is np.ndarray
        assert made._table.backend.home is None


# ---------------------------------------------------------------------------- the same meaning


def resident_in(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return resident(value)
    if isinstance(value, (tuple, list)):
        return type(value)(resident_in(item) for item in value)
    return value


def here_in(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return xp.asarray(value, copy=True)
    if isinstance(value, (tuple, list)):
        return type(value)(here_in(item) for item in value)
    return value


def outcome(call: Call, place: Callable[[Any], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of infinities and NaN
        try:
            made = function(call.name)(
                *place(call.args), **{key: place(value) for key, value in call.kwargs.items()}
            )
        except Exception as error:  # its type and words are compared
            return type(error), str(error)
        parts = made if isinstance(made, tuple) else (made,)
        assert {(x.device, x.backend) for x in parts} <= {(CPU, "numpy")}
        return [(x.dtype, x.shape, np.asarray(x)) for x in parts]


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - WITHOUT_ARRAYS))
def test_every_function_means_the_same_on_values_that_lie_elsewhere(name: str) -> None:
    @settings(max_examples=4)
    @given(calls(name))
    def same(call: Call) -> None:
        got, right = outcome(call, resident_in), outcome(call, here_in)
        if isinstance(right, tuple) or isinstance(got, tuple):
            assert got == right
            return
        for (dtype, shape, values), (wanted_dtype, wanted_shape, wanted) in zip(
            got, right, strict=True
        ):
            assert (dtype, shape) == (wanted_dtype, wanted_shape)
            if name not in ("empty", "empty_like"):
                np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=1e-6)

    with accelerator(moving=NOTHING, here=SLOW, there=NOTHING):
        same()


@pytest.mark.parametrize("first", [resident_in, here_in])
@pytest.mark.parametrize("second", [resident_in, here_in])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_operands_in_two_places_and_of_two_dtypes(
    eager: FakeBackend, first: Callable[[Any], Any], second: Callable[[Any], Any], dtype: str
) -> None:
    a, b = np.arange(1.0, 10.0).reshape(3, 3), np.arange(1, 10).reshape(3, 3).astype(dtype)
    x, y = first(a), second(b)
    for name in ("add", "truediv", "matmul", "pow", "lt"):
        function = getattr(operator, name)
        np.testing.assert_allclose(np.asarray(function(x, y)), function(a, b))
    np.testing.assert_array_equal(np.asarray(xp.concat([x, xp.astype(y, xp.float64)])), [*a, *b])
    np.testing.assert_array_equal(np.asarray(x[y > 4]), a[b > 4])
    np.testing.assert_array_equal(np.asarray(xp.where(y > 4, x, 0.0)), np.where(b > 4, a, 0.0))
    assert (np.asarray(a) + y).tolist() == (a + b).tolist()
    assert (2.0 * x - 1).tolist() == (2.0 * a - 1).tolist()


def test_integers_raise_as_they_do_here(eager: FakeBackend) -> None:
    x, zero = resident(np.asarray([4, 5])), resident(np.asarray([2, 0]))
    with pytest.raises(ZeroDivisionError):
        x // zero
    with pytest.raises(IndexError):
        x[2]
    with pytest.raises(IndexError):
        x[xp.asarray([0, 7])]
    with pytest.raises(OverflowError):
        x + 2**80


def test_other_devices_are_refused_as_ever(eager: FakeBackend) -> None:
    y = matrix(8) @ matrix(8)
    there = xp.ones((8, 8), device="fake:0")
    for call in (lambda: y + there, lambda: there + y, lambda: y @ there):
        with pytest.raises(corepy.DeviceMismatchError, match="on cpu"):
            call()
    assert y.to_device("fake:0").device.name == "fake:0"


# ---------------------------------------------------------------------------- failures


def test_what_raises_there_is_done_here(eager: FakeBackend) -> None:
    class Failing(FakeBackend):
        def operation(self, name: str) -> Callable[..., Any] | None:
            def fail(*args: Any, **params: Any) -> Any:
                raise MemoryError("no memory left on the device")

            return fail if name == "matmul" else super().operation(name)

    corepy.unregister_backend("fake")
    failing = Failing(devices={"fake:0": ANY})
    corepy.register_backend("fake", failing, modules=["corepy"])
    use_costs(costs(failing, moving=NOTHING, here=SLOW, there=NOTHING))
    x = matrix(8)
    found = corepy.explain(operator.matmul, x, x)
    np.testing.assert_array_equal(np.asarray(found.result), np.asarray(x) @ np.asarray(x))
    assert "fake:0 failed (MemoryError)" in found.records[0].reason
    assert (found.records[0].backend, found.records[0].device) == ("numpy", "cpu")


def offer(backend: FakeBackend) -> None:
    """Let another accelerator be the only one, on which nothing takes any time."""
    corepy.unregister_backend("fake")
    corepy.register_backend("fake", backend, modules=["corepy"])
    use_costs(costs(backend, moving=NOTHING, here=SLOW, there=NOTHING))


def test_an_operation_is_the_one_of_its_device(eager: FakeBackend) -> None:
    """As torch's on mps, where strided operands are made contiguous first."""
    asked = []

    class Particular(FakeBackend):
        def operation_on(self, name: str, device: corepy.Device) -> Callable[..., Any] | None:
            asked.append((name, device.name))
            return super().operation(name)

        def operation(self, name: str) -> Callable[..., Any] | None:
            native = super().operation(name)

            def wrong(*args: Any, **params: Any) -> Any:
                assert native is not None
                made = native(*args, **params)
                made._values[...] = 0.0
                return made

            return None if native is None else wrong

    backend = Particular(devices={"fake:0": ANY})
    offer(backend)
    x = matrix(8)
    y = x @ x
    assert is_resident(y)
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x) @ np.asarray(x))
    assert ("matmul", "fake:0") in asked
    native = backend.from_numpy(np.ones(2), corepy.devices.as_device("fake:0"))
    assert backend.execute("negative", [native])._values.tolist() == [-1.0, -1.0]
    assert backend.execute("concat", [(native, native)])._values.tolist() == [1.0] * 4


def test_a_lazy_library_computes_before_the_host_is_done_with_it(eager: FakeBackend) -> None:
    """Or what fails would fail where nobody can run it at home any more."""

    class Lazy(FakeBackend):
        failing = True

        def computed(self, native: Any) -> Any:
            if self.failing:
                raise RuntimeError("CL_DEVICE_NOT_AVAILABLE")
            return native

    backend = Lazy(devices={"fake:0": ANY})
    offer(backend)
    x = matrix(8)
    found = corepy.explain(operator.matmul, x, x)
    assert not is_resident(found.result)
    assert "fake:0 failed (RuntimeError)" in found.records[0].reason
    np.testing.assert_array_equal(np.asarray(found.result), np.asarray(x) @ np.asarray(x))
    backend.failing = False
    assert is_resident(x @ x)


def test_errors_are_those_of_the_host(eager: FakeBackend) -> None:
    singular = xp.zeros((4, 4))
    with pytest.raises(ValueError, match="inv: Singular matrix") as there:
        xp.linalg.inv(singular)
    with corepy.offload("off"), pytest.raises(ValueError, match="Singular") as here:
        xp.linalg.inv(singular)
    assert str(there.value) == str(here.value)
    assert eager.arrived == 1
    with pytest.raises(ValueError, match="operands have shapes"):
        matrix(4) @ matrix(5)


def test_nothing_keeps_what_was_sent(eager: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[weakref.ref[Any]] = []
    plain = FakeBackend.from_numpy

    def from_numpy(self: Any, array: Any, device: Any, *, copy: bool | None = None) -> Any:
        made = plain(self, array, device, copy=copy)
        sent.append(weakref.ref(made._values))
        return made

    monkeypatch.setattr(FakeBackend, "from_numpy", from_numpy)
    x = matrix(8)
    gc.disable()  # which would find what is in a circle, sooner or later
    try:
        y = x @ x
        assert is_resident(y)
        assert [there() is None for there in sent] == [True]
    finally:
        gc.enable()


def test_a_transfer_that_fails_leaves_everything_as_it_was(eager: FakeBackend) -> None:
    x = matrix(8)
    right = np.asarray(x) @ np.asarray(x)
    with eager.fail_transfers():
        np.testing.assert_array_equal(np.asarray(x @ x), right)  # here, then
    y = x @ x
    with (
        eager.fail_transfers(),
        pytest.raises(corepy.BackendError, match="fake failed to move an array from fake:0 to cpu"),
    ):
        np.asarray(y)
    assert is_resident(y)
    np.testing.assert_array_equal(np.asarray(y), right)


# ---------------------------------------------------------------------------- the reckoning


def test_explain_shows_the_reckoning(fake: FakeBackend) -> None:
    x = matrix()
    found = corepy.explain(lambda: np.asarray(xp.sum(x @ x, axis=0)))
    product, total, home = found.records
    assert (product.operation, product.backend, product.device) == ("matmul", "fake", "fake:0")
    assert product.bytes_moved == x.nbytes
    assert product.reason == (
        "offload: fake:0 takes 140 us (320000 bytes there 60.4 us, compute 18.9 us, back 60.4 us), "
        "the host 800 us"
    )
    assert (total.operation, total.device, total.bytes_moved) == ("sum", "fake:0", 0)
    assert "(60.4 us of it to fetch operands)" in total.reason
    assert (home.operation, home.bytes_moved, home.reason) == ("transfer", 1600, "home from fake:0")
    assert home.caller.startswith(f"{__file__}:")
    small = xp.ones(3, dtype=xp.float32)
    (stays,) = corepy.explain(operator.matmul, small, small).records
    assert (stays.backend, stays.bytes_moved) == ("numpy", 0)
    assert "no offload: fake:0 takes 50 us (12 bytes there 20 us" in stays.reason
    assert "the host 0.1" in stays.reason
