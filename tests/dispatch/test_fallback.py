"""Operations that a backend lacks: on its device first, then across, under the user's policy."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.backends._base import LeftToOthersError
from corepy.devices._device import CPU, Device
from tests.dispatch.fake import DEVICE, FakeBackend, Tensor, registered


@pytest.fixture
def fake() -> Iterator[FakeBackend]:
    with registered(FakeBackend({"add", "multiply", "astype"})) as backend:
        yield backend


def on_fake(values: Any) -> corepy.Array:
    return xp.asarray(values, device="fake:0")


def test_what_a_backend_offers_runs_there_and_moves_nothing(fake: FakeBackend) -> None:
    x = on_fake([1.0, 2.0])
    assert (x.device, x.backend, fake.arrived) == (DEVICE, "fake", 1)
    y = x + x
    assert (y.device, y.backend) == (DEVICE, "fake")
    assert (fake.arrived, fake.left) == (1, 0)
    assert y.tolist() == [2.0, 4.0]
    assert fake.left == 1


def test_what_it_lacks_crosses_to_the_host_and_back_with_a_warning(fake: FakeBackend) -> None:
    x = on_fake([4.0, 9.0])
    with pytest.warns(
        corepy.FallbackWarning,
        match=r"^sqrt: fake on fake:0 does not offer it; numpy on cpu runs it and 16 bytes cross, "
        "besides the result$",
    ) as caught:
        y = xp.sqrt(x)
    first = test_what_it_lacks_crosses_to_the_host_and_back_with_a_warning.__code__.co_firstlineno
    assert (caught[0].filename, caught[0].lineno) == (__file__, first + 7)
    assert (y.device, y.backend) == (DEVICE, "fake")
    assert (fake.arrived, fake.left) == (2, 1)
    assert y.tolist() == [2.0, 3.0]


def test_what_is_lacking_is_said_as_it_is() -> None:
    class Choosy(FakeBackend):
        partly = frozenset({"exp"})

        def supports(self, name: str, dtype: corepy.DType, device: Device) -> bool:
            lacks = name == "sqrt" and dtype is xp.float64
            return super().supports(name, dtype, device) and not lacks

        def operation(self, name: str) -> Any:
            return _leave if name == "exp" else super().operation(name)

    def _leave(*args: Any, **kwargs: Any) -> Any:
        raise LeftToOthersError

    def why(function: Any, dtype: corepy.DType) -> str:
        x = xp.asarray([1.0], dtype=dtype, device="fake:0")
        return corepy.explain(function, x).records[-1].reason

    with registered(Choosy({"sqrt", "exp"})), corepy.set_fallback("allow"):
        assert why(xp.sin, xp.float64) == "fake does not offer it"
        assert why(xp.sqrt, xp.float64) == "fake does not offer it for this dtype"
        assert why(xp.sqrt, xp.float32) == "the operands live in it"
        assert why(xp.exp, xp.float64) == "fake does not offer it for these arguments"


def test_nothing_keeps_the_operands_of_what_crossed(
    fake: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[weakref.ref[Any]] = []
    plain = FakeBackend.to_numpy

    def to_numpy(self: Any, native: Any, *, copy: bool | None = None) -> Any:
        made = plain(self, native, copy=copy)
        copies.append(weakref.ref(made))
        return made

    monkeypatch.setattr(FakeBackend, "to_numpy", to_numpy)
    x = on_fake([4.0, 9.0])
    held = weakref.ref(x.unwrap()._values)
    gc.disable()  # which would find what is in a circle, sooner or later
    try:
        with corepy.set_fallback("allow"):
            xp.sqrt(x), xp.concat([x, x]), xp.unstack(x)
        del x
        assert len(copies) == 3
        assert all(values() is None for values in (held, *copies))
    finally:
        gc.enable()


def test_an_operand_that_is_two_goes_once(fake: FakeBackend) -> None:
    x = on_fake([3.0, 4.0])
    before = fake.bytes_left
    with pytest.warns(corepy.FallbackWarning, match=r"^hypot: .* and 16 bytes cross"):
        y = xp.hypot(x, x)
    assert fake.bytes_left - before == 16
    np.testing.assert_allclose(np.asarray(y.tolist()), [18**0.5, 32**0.5])


def test_the_warning_comes_once_a_call_site(fake: FakeBackend) -> None:
    x = on_fake([1.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            xp.exp(x)
        xp.exp(x)
    lines = [warning.lineno for warning in caught]
    assert len(lines) == 2
    assert lines[1] - lines[0] == 1


def test_a_warning_that_is_an_error_comes_each_time(fake: FakeBackend) -> None:
    x = on_fake([1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(corepy.FallbackWarning):
                xp.exp(x)


def test_allow_is_silent(fake: FakeBackend) -> None:
    x = on_fake([1.0])
    with corepy.set_fallback("allow"):
        assert xp.exp(x).tolist() == [2.718281828459045]


def test_raise_refuses_and_moves_nothing(fake: FakeBackend) -> None:
    x = on_fake([1.0])
    message = (
        "^exp: fake on fake:0 does not offer it; .* 8 bytes cross, besides the result, which fa"
    )
    with corepy.set_fallback("raise"), pytest.raises(corepy.FallbackError, match=message):
        xp.exp(x)
    assert fake.left == 0
    assert xp.asarray(x, copy=False) is not None


def test_the_policy_is_restored_and_checked() -> None:
    with pytest.raises(ValueError, match="^set_fallback: policy is 'never'; expected \"warn\", "):
        corepy.set_fallback("never")  # type: ignore[arg-type]


def test_another_backend_on_the_same_device_comes_first() -> None:
    both = Sharing({"add"}), Sharing({"exp", "astype"})
    both[1].name = "other"  # type: ignore[misc]
    with registered(both[0]), registered(both[1], "other"), corepy.set_fallback("raise"):
        x = on_fake([0.0])
        assert x.backend == "fake"
        y = xp.exp(x)
        assert (y.device, y.backend, y.tolist()) == (DEVICE, "fake", [1.0])
        assert [backend.left for backend in both] == [1, 0]  # for the list


def test_a_backend_that_does_not_answer_is_passed_over() -> None:
    both = Sharing({"add"}), Sharing({"exp"}, available=False)
    both[1].name = "other"  # type: ignore[misc]
    with registered(both[0]), registered(both[1], "other"), corepy.set_fallback("allow"):
        report = corepy.explain(xp.exp, on_fake([0.0]))
        assert report.result.tolist() == [1.0]
        assert report.records[-1].backend == "numpy"


def test_what_another_backend_runs_in_place_is_seen_by_views() -> None:
    class Choosy(FakeBackend):
        """Adds into its arrays, but not those of this dtype."""

        def supports(self, name: str, dtype: corepy.DType, device: Device) -> bool:
            lacks = name in ("add", "__iadd__") and dtype is xp.float64
            return super().supports(name, dtype, device) and not lacks

    offered = {"add", "__iadd__", "__getitem__", "__setitem__"}
    with registered(Choosy(offered)), corepy.set_fallback("allow"):
        x = on_fake([1.0, 2.0, 3.0])
        view = x[1:]
        x += on_fake([10.0, 20.0, 30.0])
        assert (x.tolist(), view.tolist()) == ([11.0, 22.0, 33.0], [22.0, 33.0])


def test_another_backend_on_the_same_device_that_shares_nothing_crosses_the_host() -> None:
    both = FakeBackend({"add"}), FakeBackend({"exp", "linspace"})
    both[1].name = "other"  # type: ignore[misc]
    with registered(both[0]), registered(both[1], "other"):
        x = on_fake([0.0])
        message = (
            "exp: fake on fake:0 does not offer it; other on fake:0 runs it, whose memory it does "
            "not share, and 8 bytes cross the host, besides the result"
        )
        with (
            corepy.set_fallback("raise"),
            pytest.raises(corepy.FallbackError, match=f'^{message}, which fallback="raise" forb'),
        ):
            xp.exp(x)
        assert both[0].left == 0
        with pytest.warns(corepy.FallbackWarning, match=f"^{message}$") as caught:
            assert xp.exp(x).tolist() == [1.0]
        assert len(caught) == 1
        with corepy.set_fallback("raise"), pytest.raises(corepy.FallbackError, match="^linspace: "):
            xp.linspace(0, 1, 3, device="fake:0")
        assert both[1].left == 1
        with corepy.set_fallback("allow"):
            assert corepy.explain(xp.exp, x).bytes_moved == 16  # there and back


class Sharing(FakeBackend):
    """A library that takes the arrays of others, and gives its own."""

    refusal: Exception | None = None

    def exporter(self, native: Tensor) -> Any:
        return native

    def import_(self, exporter: Any, device: Device) -> tuple[Tensor, bool]:
        if self.refusal is not None:
            raise self.refusal
        return exporter, False


@pytest.mark.parametrize(
    "refusal",
    [
        BufferError("Can't export tensors that require gradient"),
        TypeError("bool is not supported"),
        RuntimeError("Unsupported dtype in DLTensor."),
        RuntimeError("UNIMPLEMENTED: DLPack of S4"),
        NotImplementedError("no such device"),
    ],
)
def test_what_libraries_do_not_exchange_goes_by_the_host(refusal: Exception) -> None:
    both = Sharing({"add"}), Sharing({"exp"})
    both[1].name = "other"  # type: ignore[misc]
    both[1].refusal = refusal
    with registered(both[0]), registered(both[1], "other"), corepy.set_fallback("allow"):
        assert xp.exp(on_fake([0.0])).tolist() == [1.0]
        assert both[0].left == 2


def test_what_breaks_as_libraries_exchange_memory_is_told() -> None:
    both = Sharing({"add"}), Sharing({"exp"})
    both[1].name = "other"  # type: ignore[misc]
    with registered(both[0]), registered(both[1], "other"), corepy.set_fallback("allow"):
        x = on_fake([0.0])
        both[1].refusal = RuntimeError("CUDA error: an illegal memory access was encountered")
        with pytest.raises(corepy.BackendError, match="failed to move an array .* illegal memory"):
            xp.exp(x)
        both[1].refusal = MemoryError("no more")
        with pytest.raises(corepy.InsufficientMemoryError, match="^transfer: the memory of fake:0"):
            xp.exp(x)
        assert both[0].left == 0


def test_dtypes_among_arguments_are_those_of_the_library_that_runs_it() -> None:
    class Named(FakeBackend):
        """A library whose dtypes have names of its own."""

        def native_dtype(self, dtype: corepy.DType) -> Any:
            return f"tensor.{dtype.name}"

    with registered(Named({"add"})), corepy.set_fallback("allow"):
        x = on_fake([1, 2])
        assert xp.sum(x, dtype=xp.int16).dtype is xp.int16
        made = xp.astype(x, xp.float32)
        assert (made.dtype, made.backend, made.tolist()) == (xp.float32, "fake", [1.0, 2.0])
        assert xp.zeros(2, dtype=xp.uint8, device="fake:0").dtype is xp.uint8


def test_the_bytes_that_cross_are_those_of_all_operands(fake: FakeBackend) -> None:
    x, y = on_fake([1.0, 2.0]), on_fake([3.0])
    for call, told in (
        (lambda: xp.concat([x, y, x]), "24 bytes cross, besides the result"),
        (lambda: xp.clip(x, y, x), "24 bytes cross, besides the result"),
        (lambda: x[xp.asarray([True, False], device="fake:0")], "18 bytes cross, besides the r"),
        (lambda: xp.arange(1_000, device="fake:0"), "numpy on cpu runs it and the result crosses"),
    ):
        with pytest.warns(corepy.FallbackWarning, match=f" {told}"):
            call()


def test_an_operation_nobody_offers_names_who_was_asked(fake: FakeBackend) -> None:
    table = on_fake([1.0])._table
    corepy.dispatch.declare("frobnicate", frozenset(DTYPES.values()))
    try:
        with pytest.raises(
            corepy.UnsupportedOperationError,
            match="^frobnicate: no backend offers it for float64 on fake:0; tried fake, numpy",
        ):
            table["frobnicate"]
    finally:
        del corepy.dispatch.OPERATIONS["frobnicate"]


def test_in_place_falls_back_to_the_plain_operation(fake: FakeBackend) -> None:
    x = alias = on_fake([1.0, 2.0])
    x += on_fake([10.0, 10.0])
    assert x is alias
    assert x.backend == "fake"
    assert x.tolist() == [11.0, 12.0]


def test_reductions_and_indexing_cross_with_their_arguments(fake: FakeBackend) -> None:
    x = on_fake([[1, 2], [3, 4]])
    with corepy.set_fallback("allow"):
        total = xp.sum(x, axis=0, dtype=xp.float32)
        assert (total.dtype, total.backend, total.tolist()) == (xp.float32, "fake", [4.0, 6.0])
        assert x[1, :].tolist() == [3, 4]
        assert xp.concat([x, x], axis=1).tolist() == [[1, 2, 1, 2], [3, 4, 3, 4]]
        x[0, 0] = 9
        assert (x.backend, x.tolist()) == ("fake", [[9, 2], [3, 4]])
        values, counts = xp.unique_counts(x)
        assert (values.backend, counts.tolist()) == ("fake", [1, 1, 1, 1])


def test_creation_on_the_device_is_no_crossing_of_data(fake: FakeBackend) -> None:
    with corepy.set_fallback("allow"):
        x = xp.zeros((2,), device="fake:0")
    assert (x.device, x.tolist()) == (DEVICE, [0.0, 0.0])


def test_operands_on_two_devices_raise_and_name_both(fake: FakeBackend) -> None:
    x, y = on_fake([1.0]), xp.asarray([1.0])
    for call in (lambda: x + y, lambda: xp.add(x, y), lambda: xp.concat([x, y])):
        with pytest.raises(
            corepy.DeviceMismatchError, match="is on fake:0 and .* on cpu; expected"
        ):
            call()
    with pytest.raises(
        corepy.DeviceMismatchError, match=r"^subtract: x1 is on cpu and x2 on fake:"
    ):
        y - x
    with pytest.raises(corepy.DeviceMismatchError):
        y += x
    assert y.tolist() == [1.0]
    assert fake.left == 0


def test_to_device_moves_and_counts(fake: FakeBackend) -> None:
    x = on_fake([1.0, 2.0])
    home = x.to_device("cpu")
    assert (home.device, home.backend, fake.left) == (CPU, "numpy", 1)
    away = home.to_device(DEVICE)
    assert (away.device, away.backend, fake.arrived) == (DEVICE, "fake", 2)
    assert away.to_device("fake:0") is away
    assert (away + x).tolist() == [2.0, 4.0]


def test_scalars_follow_the_array_to_its_device(fake: FakeBackend) -> None:
    x = on_fake([1.0])
    assert (x + 2.5).tolist() == (2.5 + x).tolist() == [3.5]
    assert fake.left == 2  # of the two tolist


def test_a_device_without_float64_takes_the_narrow_default() -> None:
    narrow = frozenset(DTYPES[n] for n in ("bool", "int32", "int64", "float32"))
    with registered(FakeBackend({"add", "astype"}, dtypes=narrow)):
        assert on_fake([1.5]).dtype is xp.float32
        assert on_fake([1]).dtype is xp.int64
        with pytest.raises(corepy.UnsupportedOperationError, match="^asarray: dtype is float64, w"):
            xp.asarray([1.5], device="fake:0", dtype=xp.float64)


def test_host_memory_is_not_exported_from_another_device(fake: FakeBackend) -> None:
    x = on_fake([1.0, 2.0])
    with pytest.raises(BufferError, match="^__dlpack__: fake on fake:0 exports no DLPack"):
        x.__dlpack__()
    with pytest.raises(BufferError, match="^buffer: x is on fake:0; expected host memory"):
        x.__buffer__(0)
    with pytest.raises(
        ValueError, match="^__array__: x is on fake:0; expected copy other than Fal"
    ):
        np.array(x, copy=False)
    assert np.array(x).tolist() == [1.0, 2.0]


def test_a_backend_is_given_arrays_and_never_scalars_of_numpy() -> None:
    class Strict(FakeBackend):
        def from_numpy(self, array: Any, device: Device, *, copy: bool | None = None) -> Tensor:
            assert type(array) is np.ndarray
            return super().from_numpy(array, device, copy=copy)

    with registered(Strict({"astype"})), corepy.set_fallback("allow"):
        x = on_fake(1.5)
        assert (x + x).tolist() == 3.0
        assert xp.equal(x, x).tolist() is True
