"""`corepy tune --offload`: transfers that are such, and what cannot be measured or need not be."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corepy._dtypes import ANY, DType, float64
from corepy.devices._device import Device, as_device
from corepy.dispatch import _machine
from corepy.dispatch import _route_files as files
from corepy.dispatch._offload_costs import Curve, costs_file, read_costs
from corepy.dispatch._settings import PRECISION
from corepy.testing import FakeBackend
from corepy.tuning import _clock, _offload, tune_offload
from corepy.tuning._cases import Case
from tests.dispatch.fake import registered


class Keeping(FakeBackend):
    """A library that keeps what it brought to the host, as JAX does (``Array._npy_value``)."""

    now = 0.0

    def __init__(self, dtypes: frozenset[DType] = ANY, lacks: tuple[str, ...] = ()) -> None:
        super().__init__(lacks=lacks, devices={"fake:0": dtypes})
        self.kept: dict[int, tuple[Any, Any]] = {}

    def to_numpy(self, native: Any, *, copy: bool | None = None) -> Any:
        if id(native) not in self.kept:
            self.now += 1e-3 + native._values.nbytes * 1e-6
            self.kept[id(native)] = native, super().to_numpy(native)
        return self.kept[id(native)][1]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Keeping], None]:
    """Return what makes a device the only accelerator, with small cells, timed by its clock."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(_offload, "BYTES", (8, 8000))
    monkeypatch.setattr(_offload, "SIDES", (4,))
    monkeypatch.setattr(_offload, "ELEMENTS", (16,))

    def offer(backend: Keeping) -> None:
        ticks = itertools.count(1)
        monkeypatch.setattr(_clock, "perf_counter", lambda: backend.now + next(ticks) * 1e-6)
        found = [(backend, backend.devices()[0])]
        monkeypatch.setattr(_offload, "found_accelerators", lambda: iter(found))

    return offer


def test_what_a_library_keeps_of_a_transfer_is_not_taken_for_the_way(
    offered: Callable[[Keeping], None],
) -> None:
    with registered(Keeping()) as backend:
        offered(backend)
        (device,) = tune_offload(["matmul"], seconds=0.0).costs.devices
    assert device.down is not None
    assert [t for _, t in device.down.points] == pytest.approx([1.008e-3, 9e-3], rel=0.01)


def test_what_a_device_lacks_is_passed_over(offered: Callable[[Keeping], None]) -> None:
    with registered(Keeping(ANY - {float64}, ("exp",))) as backend:
        offered(backend)
        (device,) = tune_offload(["matmul", "exp"], seconds=0.0).costs.devices
    assert (sorted(device.work), device.refused) == (["matmul/float32"], {})


def test_what_was_refused_is_not_tried_anew_unasked(
    offered: Callable[[Keeping], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def deviation(case: Case, *_: object) -> str | None:
        tried.append(case.dtype)
        return "other values" if case.dtype == "float32" else None

    monkeypatch.setattr(_offload, "deviation", deviation)
    with registered(Keeping()) as backend:
        offered(backend)
        for _ in range(2):
            (device,) = tune_offload(["matmul"], seconds=0.0).costs.devices
            assert tried == ["float32", "float64"]
            assert device.refused == {"matmul/float32": "other values"}
        tune_offload(["matmul"], seconds=0.0, again=True)
    assert tried == ["float32", "float64"] * 2


def test_what_is_renewed_is_made_while_no_clock_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    now, made, used = [0.0], list[int](), list[int]()

    def make() -> int:
        now[0] += 1.0
        made.append(len(made))
        return made[-1]

    def use(x: int) -> None:
        now[0] += 2.5e-4
        used.append(x)

    monkeypatch.setattr(_clock, "perf_counter", lambda: now[0])
    times = _clock.take_turns({"it": _clock.Renewed(use, make)}, 0.0)["it"]
    assert times == pytest.approx([2.5e-4] * 7)
    assert sorted(used) == made
    assert len(used) == 2 + 7 * 4  # each once, four in a slice


class Watched(Keeping):
    """A library with dtypes of its own, of which a test sees what it is asked for."""

    def __init__(self, devices: int = 1) -> None:
        super().__init__()
        self._dtypes = {as_device(f"fake:{i}"): ANY for i in range(devices)}
        self.asked: set[tuple[str, str, tuple[tuple[str, str], ...]]] = set()

    def native_dtype(self, dtype: DType) -> Any:
        return f"its {dtype}"

    def operation_on(self, name: str, device: Device) -> Callable[..., Any] | None:
        native = self.operation(name)
        assert native is not None

        def watched(*args: Any, **params: Any) -> Any:
            told = tuple((key, str(value)) for key, value in params.items())
            self.asked.add((str(self.dtype_of(args[0])), PRECISION.get(), told))
            if "dtype" in params:
                params["dtype"] = np.dtype(params["dtype"].removeprefix("its "))
            return native(*args, **params)

        return watched


def test_progress_counts_each_case_of_each_accelerator(
    offered: Callable[[Keeping], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int, str]] = []
    with registered(Watched(2)) as backend:
        offered(backend)
        both = [(backend, device) for device in backend.devices()]
        monkeypatch.setattr(_offload, "found_accelerators", lambda: iter(both))
        tune_offload(["matmul"], seconds=0.0, progress=lambda *words: told.append(words))
    cases = ["transfers", "matmul float32", "matmul float64"]
    labels = [f"{case} fake:{i}" for i in (0, 1) for case in cases]
    assert told == [(i, 6, label) for i, label in enumerate([*labels, ""])]


def test_decompositions_of_float32_are_measured_as_they_go(
    offered: Callable[[Keeping], None],
) -> None:
    with registered(Watched()) as backend:
        offered(backend)
        tune_offload(["linalg.inv", "matmul"], seconds=0.0)
        assert {words[:2] for words in backend.asked} == {
            *(("float32", "fast"), ("float64", "full")),  # of inv
            ("float32", "full"),  # of matmul
        }


def test_sums_are_of_all_elements_in_the_librarys_dtype(
    offered: Callable[[Keeping], None],
) -> None:
    with registered(Watched()) as backend:
        offered(backend)
        (device,) = tune_offload(["sum"], seconds=0.0).costs.devices
        expected = [("axis", "None"), ("dtype", "its {}"), ("keepdims", "False")]
        assert backend.asked == {
            (dtype, "full", tuple((key, word.format(dtype)) for key, word in expected))
            for dtype in ("float32", "float64")
        }
    assert {key: [n for n, _ in curve.points] for key, curve in device.work.items()} == {
        "sum/float32": [16.0],
        "sum/float64": [16.0],
    }


@pytest.mark.parametrize(
    ("name", "longest", "sizes"),
    [
        # 1 and 8 us here and there by these clocks: the next size takes 8 times as long, of
        # elements 16 times.
        ("matmul", 7.9, 1),
        ("matmul", 8.1, 2),
        ("exp", 15.9, 1),
        ("exp", 16.1, 2),
    ],
)
def test_greater_sizes_are_left_out_that_would_take_too_long(
    name: str,
    longest: float,
    sizes: int,
    offered: Callable[[Keeping], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = {"host": 1.0, "there": 8.0, "up": 1.0, "down": 1.0}
    monkeypatch.setattr(
        _offload, "take_turns", lambda works, _: {work: [times[work]] for work in works}
    )
    monkeypatch.setattr(_offload, "LONGEST", longest)
    with registered(Keeping(ANY - {float64})) as backend:
        offered(backend)
        monkeypatch.setattr(_offload, "SIDES", (4, 8))
        monkeypatch.setattr(_offload, "ELEMENTS", (16, 64))
        (device,) = tune_offload([name], seconds=0.0).costs.devices
    assert len(device.work[f"{name}/float32"].points) == sizes


def test_what_the_host_takes_is_measured_where_it_is_not_known(
    offered: Callable[[Keeping], None],
) -> None:
    with registered(Keeping()) as backend:
        offered(backend)
        whole = tune_offload(["matmul"], seconds=0.0).costs
        old = {**whole.made, "date": "2020-01-01"}
        files.write(costs_file(_machine.machine_key()), replace(whole, made=old, host={}).dump())
        found = tune_offload(["matmul"], seconds=0.0).costs
    assert found.host.keys() == whole.host.keys()
    kept, why = read_costs()
    assert kept is not None, why
    assert kept.made == whole.made  # when it was made at last


@pytest.mark.parametrize("again", [False, True])
def test_again_measures_what_is_known(offered: Callable[[Keeping], None], again: bool) -> None:
    with registered(Keeping()) as backend:
        offered(backend)
        first = tune_offload(["matmul"], seconds=0.0).costs
        slow = {key: Curve(((curve.points[0][0], 9.0),)) for key, curve in first.host.items()}
        slowed = replace(first, host=slow)
        files.write(costs_file(_machine.machine_key()), slowed.dump())
        found = tune_offload(["matmul"], seconds=0.0, again=again).costs
    assert (found.host == slow) != again


def test_the_host_is_measured_as_routes_run_it(
    offered: Callable[[Keeping], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def routed(native: Any, name: str, *_: object) -> Any:
        seen.append(name)
        return native

    monkeypatch.setattr(_offload._routes, "routed", routed)
    with registered(Keeping()) as backend:
        offered(backend)
        tune_offload(["matmul"], seconds=0.0)
    assert seen == ["matmul"] * 2


@pytest.mark.parametrize(
    ("spread", "believed"),
    [(0.16, True), (0.18, False)],  # of which a standard deviation is 1.4826 times as much
)
def test_times_are_believed_if_all_of_them_spread_little(
    spread: float,
    believed: bool,
    offered: Callable[[Keeping], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lasted = []

    def take_turns(works: dict[str, object], seconds: float) -> dict[str, list[float]]:
        lasted.append(seconds)
        noisy = [1.0 - spread, 1.0, 1.0 + spread]
        return {work: noisy if work in ("there", "down") else [1.0] * 3 for work in works}

    monkeypatch.setattr(_offload, "take_turns", take_turns)
    monkeypatch.setattr(_offload, "LONGEST", 100.0)
    with registered(Keeping(ANY - {float64})) as backend:
        offered(backend)
        found = tune_offload(["matmul"], seconds=0.5)
    cells = 3  # two transfers and a product
    assert (len(found.undecided), len(found.costs.devices)) == ((0, 1) if believed else (cells, 0))
    longer = [0.5 * 2**i for i in range(_offload.ATTEMPTS)]  # where it is noisy
    assert lasted == ([0.5] if believed else longer) * cells
