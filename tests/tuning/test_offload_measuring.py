"""`corepy tune --offload`: transfers that are such, and what cannot be measured or need not be."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corepy._dtypes import ANY, DType, float64
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
