"""Which backend would run an operation, and what is refused with which reason."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import corepy
from corepy import _selection
from corepy._selection import (
    best_available_backend,
    init_backend,
    list_devices,
    select_backend,
    synchronize,
)
from corepy.backends._numpy import NumPyBackend
from corepy.devices import Device, MemoryInfo, OperationProperties, as_device
from corepy.dispatch import load
from corepy.dispatch._settings import PRIORITY
from tests.conftest import required

CPU, GPU, REMOTE = as_device("cpu"), as_device("cuda:0"), as_device("remote:0")
PETABYTE = 2**50


class Fake(NumPyBackend):
    """NumPy under another name, on other devices, with the operations that a test wants."""

    name = "fake"

    def __init__(self, *devices: Device, offers: Callable[[str], bool] = lambda name: True) -> None:
        self._devices = devices
        self._offers = offers
        self.waited: list[Device] = []

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def operation(self, name: str) -> Callable[..., Any] | None:
        return super().operation(name) if self._offers(name) else None

    def synchronize(self, device: Device) -> None:
        self.waited.append(device)


@pytest.fixture
def register() -> Iterator[Callable[[Fake], Fake]]:
    """Register a backend as ``fake`` for one test."""
    used = []

    def add(backend: Fake) -> Fake:
        corepy.register_backend("fake", backend)
        used.append(backend)
        return backend

    yield add
    if used:
        corepy.unregister_backend("fake")


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> dict[Device, int]:
    """The free bytes of each device, for a test to fill."""
    figures: dict[Device, int] = {}

    def memory_info(device: Device) -> MemoryInfo:
        if device not in figures:
            raise corepy.BackendUnavailableError("memory_info: cannot be read")
        return MemoryInfo(figures[device], figures[device])

    monkeypatch.setattr(_selection, "memory_info", memory_info)
    return figures


@pytest.fixture
def reference_first(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start with the reference as priority, and undo whatever the test sets."""
    # Set on the main thread a priority holds for the process, beyond the end of the block.
    monkeypatch.setattr(PRIORITY, "_default", None)
    with corepy.backend_priority(["reference"]):
        yield


# ---------------------------------------------------------------------------- select_backend


@pytest.mark.parametrize(
    "operation",
    [None, "add", "linalg.diagonal", "__iadd__", OperationProperties("multiply", 800)],
    ids=str,
)
def test_selects_the_first_of_the_priority(operation: Any, backend: str) -> None:
    if (operation, backend) == ("linalg.diagonal", "reference"):
        required("mpmath")
    assert select_backend(operation) == backend
    assert select_backend(operation, priority=["numpy"]) == "numpy"
    assert corepy.get_backend_priority() == (backend,)  # asking changed nothing


def test_passes_over_a_backend_without_the_operation(register: Any) -> None:
    register(Fake(CPU, offers=lambda name: name != "sum"))
    assert select_backend("prod", ["fake", "numpy"]) == "fake"
    assert select_backend("sum", ["fake", "numpy"]) == "numpy"
    # The other backends follow the priority, as they do when arrays are created.
    assert select_backend("sum", ["fake"]) == "numpy"


def test_counts_the_plain_form_of_an_inplace_operator(register: Any) -> None:
    register(Fake(CPU, offers=lambda name: name == "add"))
    assert select_backend("__iadd__", ["fake"]) == "fake"
    assert select_backend("__isub__", ["fake"]) == "numpy"


def test_what_is_told_of_no_gpu_is_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = load("reference")
    monkeypatch.setattr(type(reference), "unserved", lambda self: ("linalg needs mpmath",))
    assert _selection._no_gpu(reference) == "reference has no GPU, only cpu"


def test_selects_a_gpu_only_where_one_is_required(register: Any, free: dict[Device, int]) -> None:
    register(Fake(CPU, GPU))
    properties = OperationProperties("add", 0, requires_gpu=True)
    assert select_backend(properties, ["numpy"]) == "fake"
    assert select_backend("add", ["numpy"]) == "numpy"
    free[GPU] = 79
    free[CPU] = PETABYTE
    with pytest.raises(corepy.InsufficientMemoryError, match="fake has 79 bytes free on cuda:0"):
        select_backend(OperationProperties("add", 80, requires_gpu=True))


@pytest.mark.parametrize("kind", ["cuda", "rocm", "mps", "xpu"])
def test_every_kind_of_gpu_is_one(register: Any, free: dict[Device, int], kind: str) -> None:
    register(Fake(CPU, as_device(kind)))
    assert select_backend(OperationProperties("add", 0, requires_gpu=True), ["fake"]) == "fake"


def test_no_gpu_names_every_backend_and_its_reason() -> None:
    if any(device.kind in ("cuda", "rocm", "mps", "xpu") for device in list_devices()):
        pytest.skip("this machine has a GPU that a backend can use")
    with pytest.raises(corepy.BackendUnavailableError) as caught:
        select_backend(OperationProperties("add", 8, requires_gpu=True))
    message = str(caught.value)
    assert message.startswith("select_backend: operation is OperationProperties(op_type='add'")
    assert "expected a usable backend with a cuda, rocm, mps or xpu device" in message
    for row in corepy.backend_status():
        assert f"{row.name} has no GPU" in message or f"{row.name} is not usable" in message


def test_fits_the_operands_into_memory(register: Any, free: dict[Device, int]) -> None:
    register(Fake(REMOTE))
    free |= {CPU: 100, REMOTE: 1000}
    order = ["numpy", "fake"]
    assert select_backend(OperationProperties("add", 100), order) == "numpy"
    assert select_backend(OperationProperties("add", 101), order) == "fake"
    with pytest.raises(corepy.InsufficientMemoryError) as caught:
        select_backend(OperationProperties("add", 1001), order)
    assert "numpy has 100 bytes free on cpu; fake has 1000 bytes free on remote:0" in str(
        caught.value
    )


def test_takes_a_device_whose_memory_nobody_can_read(
    register: Any, free: dict[Device, int]
) -> None:
    register(Fake(REMOTE))
    assert REMOTE not in free
    assert select_backend(OperationProperties("add", PETABYTE), ["fake"]) == "fake"


def test_asks_the_machine_for_its_memory() -> None:
    with pytest.raises(corepy.InsufficientMemoryError, match=r"numpy has \d+ bytes free on cpu"):
        select_backend(OperationProperties("add", PETABYTE), ["numpy"])


def test_no_backend_with_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in corepy.usable_backends():
        monkeypatch.setattr(type(load(name)), "supports", lambda *args: False)
    with pytest.raises(corepy.UnsupportedOperationError, match="numpy does not offer it on cpu"):
        select_backend("add", ["numpy"])


@pytest.mark.parametrize(
    ("operation", "kind", "message"),
    [
        ("ad", ValueError, "select_backend: op_type is 'ad'; expected an operation .* add"),
        ("cholesky", ValueError, "such as linalg.cholesky"),
        ("", ValueError, "OperationProperties: op_type is ''"),
        (3, TypeError, "select_backend: operation is of type int; expected an Operation"),
    ],
)
def test_refuses_what_is_no_operation(operation: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        select_backend(operation)


def test_refuses_an_unknown_priority() -> None:
    with pytest.raises(corepy.BackendUnavailableError, match="select_backend: .*'tortch'"):
        select_backend("add", ["tortch"])
    with pytest.raises(TypeError, match="select_backend: priority is of type str"):
        select_backend("add", "numpy")


# ---------------------------------------------------------------------------- the others


def test_best_available_backend_is_where_arrays_are_made(backend: str) -> None:
    assert best_available_backend() == backend
    assert corepy.array_api.zeros(1).backend == backend


def test_lists_the_default_device_first(register: Any) -> None:
    register(Fake(REMOTE))
    assert list_devices()[0] is corepy.array_api.zeros(1).device
    with corepy.backend_priority(["fake"]):
        assert list_devices()[0] is REMOTE
        assert CPU in list_devices()


def test_synchronizes_every_backend_on_the_device(register: Any) -> None:
    fake = register(Fake(CPU, REMOTE))
    synchronize("cpu")
    assert fake.waited == [CPU]
    synchronize(REMOTE)
    assert fake.waited == [CPU, REMOTE]
    synchronize()
    assert fake.waited == [CPU, REMOTE, CPU, REMOTE]


def test_synchronize_refuses_a_device_that_is_absent() -> None:
    with pytest.raises(corepy.BackendUnavailableError, match="synchronize: device is 'opencl:7'"):
        synchronize("opencl:7")
    with pytest.raises(ValueError, match="synchronize: device is 'no such'"):
        synchronize("no such")
    with pytest.raises(TypeError, match="synchronize: device is of type int"):
        synchronize(3)  # type: ignore[arg-type]


@pytest.mark.usefixtures("reference_first")
@pytest.mark.parametrize("required", [None, 0, 4096])
def test_init_backend_sets_the_priority(required: int | None) -> None:
    assert init_backend(["numpy"], required) == "numpy"
    assert corepy.get_backend_priority() == ("numpy",)
    assert corepy.array_api.ones(2).backend == "numpy"


@pytest.mark.usefixtures("reference_first")
@pytest.mark.parametrize(
    ("priority", "required", "kind", "message"),
    [
        (["numpy"], PETABYTE, corepy.InsufficientMemoryError, "init_backend: required_bytes is "),
        (["numpy"], -1, ValueError, "init_backend: required_bytes is -1"),
        (["numpy"], 1.5, TypeError, "init_backend: required_bytes is of type float"),
        (["tortch"], None, corepy.BackendUnavailableError, "init_backend: priority has 'tortch'"),
        ("numpy", None, TypeError, "init_backend: priority is of type str"),
        (None, None, TypeError, "init_backend: priority is of type NoneType"),
    ],
)
def test_init_backend_changes_nothing_when_it_refuses(
    priority: Any, required: Any, kind: Any, message: str
) -> None:
    with pytest.raises(kind, match=message):
        init_backend(priority, required)
    assert corepy.get_backend_priority() == ("reference",)


@pytest.mark.usefixtures("reference_first")
def test_init_backend_lets_libraries_give_back_what_they_keep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from corepy import _selection

    happened = []

    def require(device: Any, size: int, function: str) -> None:
        happened.append(f"asked for {size}")
        if len(happened) == 1:
            raise corepy.InsufficientMemoryError(f"{function}: too little")

    def release(device: Any) -> int:
        happened.append(f"freed {device}")
        return 1

    monkeypatch.setattr(_selection, "require_memory", require)
    monkeypatch.setattr(_selection, "release", release)
    assert init_backend(["numpy"], 8) == "numpy"
    assert happened == ["asked for 8", "freed cpu", "asked for 8"]


@pytest.mark.parametrize(
    "kind",
    [corepy.CorepyError, *corepy.CorepyError.__subclasses__()],
    ids=lambda kind: kind.__name__,
)
def test_errors_travel_between_processes(kind: type[Exception]) -> None:
    # Either as Python pickles them, or made by `__new__` alone, as tblib does for Dask.
    for made in (pickle.loads(pickle.dumps(kind("text"))), kind.__new__(kind, "text")):
        assert (type(made), made.args) == (kind, ("text",))
