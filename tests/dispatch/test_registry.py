"""Backends come, go and break, and everything else goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import corepy
import corepy.array_api as xp
from corepy.devices import as_device
from corepy.dispatch import _registry
from tests.dispatch.fake import FakeBackend, Tensor, registered, tensor


def row(name: str) -> corepy.BackendStatus:
    return next(status for status in corepy.backend_status() if status.name == name)


def test_a_registered_backend_is_usable_until_it_is_unregistered() -> None:
    backend = FakeBackend({"add", "astype"})
    corepy.register_backend("fake", backend)
    assert "fake" in corepy.usable_backends()
    assert row("fake") == corepy.BackendStatus("fake", True, backend.devices(), None)
    with corepy.backend_priority(["fake"]):
        x = xp.asarray([1.0])
    assert x.backend == "fake"
    corepy.unregister_backend("fake")
    assert "fake" not in corepy.usable_backends()
    assert (x + x).tolist() == [2.0]  # arrays that live in it go on working
    with pytest.raises(corepy.BackendUnavailableError, match="^unregister_backend: name is 'fake'"):
        corepy.unregister_backend("fake")
    with pytest.raises(TypeError, match="^unregister_backend: name is of type int; expected a str"):
        corepy.unregister_backend(3)  # type: ignore[arg-type]


def test_its_native_arrays_are_taken_as_arguments() -> None:
    with registered(FakeBackend({"add", "astype"})):
        x = xp.add(tensor([1.0, 2.0]), tensor([1.0, 1.0]))
        assert (x.backend, x.tolist()) == ("fake", [2.0, 3.0])
        assert xp.asarray(tensor([1])).backend == "fake"
        assert isinstance(x.unwrap(), Tensor)


def refused(name: str) -> str:
    with pytest.raises(ValueError, match="^zeros: device ") as caught:
        xp.zeros(3, device=name)
    return str(caught.value)


def test_who_takes_a_backend_for_a_device_is_told_so() -> None:
    served = {kind for name in _registry.BUILT_IN for kind in _registry.records()[name].kinds}
    backends = {*_registry.BUILT_IN} - served
    assert {"numpy", "torch", "mlx"} <= backends
    for name in backends:
        assert f'this is a backend, see corepy.to(x, backend="{name}")' in refused(name)
    assert as_device("dask").kind == "dask"  # which is both


class Boxes(FakeBackend):
    name = "boxes"


def test_a_registered_backend_is_told_from_its_device() -> None:
    with registered(Boxes({"add"}), "boxes"):
        assert 'this is a backend, see corepy.to(x, backend="boxes")' in refused("boxes")
        assert xp.asarray([1.0], device="fake:0").backend == "boxes"
    with registered(FakeBackend({"add"})):  # whose device is of a kind of its own name
        assert "device is 'fake'; expected one that is present: " in refused("fake")


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        (
            (1, FakeBackend(set())),
            TypeError,
            "register_backend: name is of type int; expected a st",
        ),
        (
            ("a b", FakeBackend(set())),
            ValueError,
            "register_backend: name is 'a b'; expected an id",
        ),
        (("fake", object()), TypeError, "register_backend: backend is of type object; expected an"),
        (("fake", FakeBackend), TypeError, "register_backend: backend is of type abc.ABCMeta; ex"),
    ],
)
def test_what_is_no_backend_is_refused(args: Any, error: type[Exception], message: str) -> None:
    before = corepy.usable_backends()
    with pytest.raises(error) as caught:
        corepy.register_backend(*args)
    assert str(caught.value).startswith(message)
    assert corepy.usable_backends() == before


def raises_import_error() -> Any:
    raise ImportError("libfoo.so.1: cannot open shared object file")


def raises_os_error() -> Any:
    raise OSError("driver version is insufficient")


def raises_at_the_worst() -> Any:
    raise RuntimeError("initialisation failed")


def returns_nonsense() -> Any:
    return "no backend"


BROKEN = [
    (raises_import_error, "ImportError: libfoo.so.1: cannot open shared object file"),
    (raises_os_error, "OSError: driver version is insufficient"),
    (raises_at_the_worst, "RuntimeError: initialisation failed"),
    (returns_nonsense, "TypeError: its loader returned a str, no Backend"),
]


@pytest.fixture
def broken(request: pytest.FixtureRequest) -> Iterator[str]:
    """Announce a backend whose loader fails, before all others in the order."""
    loader: Callable[[], Any] = request.param
    record = _registry.BackendRecord("broken", ("cpu", "cuda"), lambda: None, loader, 1, ("brk",))
    _registry._add(record)
    yield loader.__name__
    corepy.unregister_backend("broken")


@pytest.mark.parametrize(
    ("broken", "reason"), BROKEN, indirect=["broken"], ids=[b[0].__name__ for b in BROKEN]
)
def test_a_broken_backend_keeps_its_reason_and_stops_nobody(broken: str, reason: str) -> None:
    assert row("broken") == corepy.BackendStatus("broken", False, (), reason)
    assert "numpy" in corepy.usable_backends()
    assert (xp.ones(2) + 1.0).tolist() == [2.0, 2.0]
    for _ in range(2):
        with pytest.raises(corepy.BackendUnavailableError) as caught:
            corepy.set_backend_priority(["broken"])
        message = str(caught.value)
        assert message.startswith(f"set_backend_priority: backend broken is not usable: {reason}")
        assert "expected numpy" in message


def test_what_is_expected_instead_is_installed() -> None:
    missing = _registry.BackendRecord("far", ("cpu",), lambda: "not installed: far", list, 1)
    also = _registry.BackendRecord("away", ("cpu",), lambda: "not installed: away", list, 1)
    _registry._add(missing)
    _registry._add(also)
    try:
        with pytest.raises(corepy.BackendUnavailableError) as caught:
            corepy.set_backend_priority(["far"])
    finally:
        corepy.unregister_backend("far")
        corepy.unregister_backend("away")
    said, _, expected = str(caught.value).partition("; expected ")
    assert said == "set_backend_priority: backend far is not usable: not installed: far"
    assert "numpy" in expected
    assert "away" not in expected


def test_a_broken_backend_is_tried_once() -> None:
    tries = []

    def loader() -> Any:
        tries.append(1)
        raise ImportError("no")

    _registry._add(_registry.BackendRecord("broken", ("cpu",), lambda: None, loader, 1, ("brk",)))
    try:
        assert not row("broken").usable
        xp.ones(2) * 2.0
        assert not row("broken").usable
    finally:
        corepy.unregister_backend("broken")
    assert len(tries) == 1


def test_a_backend_that_does_not_answer_is_passed_over() -> None:
    with registered(FakeBackend({"add"}, available=False), priority=1):
        assert row("fake").reason == "installed, but does not answer"
        assert xp.ones(1).backend == "numpy"
        why = "^set_backend_priority: backend fake is not usable: installed, but does not answer; e"
        with pytest.raises(corepy.BackendUnavailableError, match=why):
            corepy.set_backend_priority(["fake"])


class Raising(FakeBackend):
    """A backend whose driver raises when it is asked."""

    error: Exception = RuntimeError("the driver is older than 12")

    def is_available(self) -> bool:
        raise self.error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Raising.error, "RuntimeError: the driver is older than 12"),
        (KeyError("TOKEN"), "KeyError: 'TOKEN'"),
        (TimeoutError(), "TimeoutError"),
        (corepy.BackendError("fake: no token is set"), "no token is set"),
    ],
)
def test_a_backend_that_raises_when_asked_is_passed_over_for_what_it_says(
    error: Exception, reason: str
) -> None:
    before = corepy.list_devices(), corepy.usable_backends()
    backend = Raising({"add"})
    backend.error = error
    with registered(backend, priority=1):
        status = row("fake")
        assert (status.usable, status.devices, status.reason) == (False, (), reason)
        assert (corepy.list_devices(), corepy.usable_backends()) == before
        assert corepy.select_backend("matmul") == "numpy"
        assert xp.ones(1).backend == "numpy"
        assert corepy.to(xp.ones(1), device="cpu").tolist() == [1.0]
        where: list[Callable[[], object]] = [
            lambda: xp.ones(2, device="fake:0"),
            lambda: corepy.to(xp.ones(2), device="fake:0"),
            lambda: xp.__array_namespace_info__().dtypes(device="fake:0"),
        ]
        for call in where:
            with pytest.raises(corepy.BackendUnavailableError) as caught:
                call()
            assert f"(fake: {reason})" in str(caught.value)
        absent: list[Callable[[], object]] = [
            lambda: corepy.set_backend_priority(["fake"]),
            lambda: corepy.to(xp.ones(2), backend="fake"),
        ]
        for call in absent:
            with pytest.raises(corepy.BackendUnavailableError) as caught:
                call()
        assert str(caught.value).startswith(f"to: backend fake is not usable: {reason}; expected ")


def test_a_backend_that_raises_when_asked_runs_nothing_for_others() -> None:
    home, other = FakeBackend({"add"}), Raising({"exp"})
    other.name = "other"  # type: ignore[misc]
    with registered(home), registered(other, "other"), corepy.set_fallback("allow"):
        found = corepy.explain(xp.exp, xp.asarray([0.0], device="fake:0"))
    assert found.records[-1].backend == "numpy"


class Failing(FakeBackend):
    """A backend whose library fails in the middle of an operation."""

    def operation(self, name: str) -> Callable[..., Any] | None:
        def fail(*args: Any, **kwargs: Any) -> Any:
            raise LookupError("device lost")

        return fail if name in self.offers else None


def test_a_private_error_of_a_library_becomes_a_backend_error() -> None:
    with registered(Failing({"add", "sqrt"})):
        x = xp.asarray([1.0], device="fake:0")
        for call in (lambda: x + x, lambda: xp.add(x, x), lambda: xp.sqrt(x)):
            with pytest.raises(
                corepy.BackendError, match="^(add|sqrt): LookupError in fake: device lost"
            ) as caught:
                call()
            assert isinstance(caught.value.__cause__, LookupError)
        assert x.tolist() == [1.0]


def test_status_names_every_backend_once() -> None:
    names = [status.name for status in corepy.backend_status()]
    assert len(names) == len(set(names))
    assert {"numpy", "reference"} <= set(names)
    for status in corepy.backend_status():
        assert status.usable is (status.reason is None)
        assert bool(status.devices) is status.usable
