"""`corepy tune --offload`: what it measures, keeps and refuses, and that it is reckoned with."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._cli import main
from corepy._dtypes import ANY, float64
from corepy.dispatch import _machine
from corepy.dispatch import _offload_places as places
from corepy.dispatch import _route_files as files
from corepy.dispatch._offload_costs import costs_file, parse, read_costs
from corepy.testing import FakeBackend
from corepy.tuning import _clock, _offload, tune_offload
from tests.dispatch.fake import registered
from tests.dispatch.offloading import is_resident, use_costs


class Accelerator(FakeBackend):
    """A device that computes by a clock of its own, which the host's operations do not move."""

    now = 0.0

    def synchronize(self, device: Any) -> None:
        self.now += 1e-4

    def from_numpy(self, array: Any, device: Any, *, copy: Any = None) -> Any:
        self.now += 1e-5 + array.nbytes * 1e-9
        return super().from_numpy(array, device, copy=copy)

    def to_numpy(self, native: Any, *, copy: Any = None) -> Any:
        self.now += 2e-5 + native._values.nbytes * 2e-9
        return super().to_numpy(native, copy=copy)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Accelerator]:
    """Offer an accelerator alone, and small cells, timed by its clock; each look at it costs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with registered(Accelerator(devices={"fake:0": ANY})) as backend:
        ticks = itertools.count(1)
        monkeypatch.setattr(_clock, "perf_counter", lambda: backend.now + next(ticks) * 1e-6)
        found = [(backend, backend.devices()[0])]
        monkeypatch.setattr(_offload, "found_accelerators", lambda: iter(found))
        monkeypatch.setattr(_offload, "BYTES", (8, 8000))
        monkeypatch.setattr(_offload, "SIDES", (4, 8))
        monkeypatch.setattr(_offload, "ELEMENTS", (16, 64))
        yield backend


def test_transfers_and_operations_are_measured(fake: Accelerator) -> None:
    labels: list[str] = []
    found = tune_offload(
        ["matmul", "exp"], seconds=0.0, progress=lambda number, count, label: labels.append(label)
    )
    assert found.undecided == ()
    assert labels[:3] == ["transfers fake:0", "matmul float32 fake:0", "matmul float64 fake:0"]
    assert labels[-1] == ""
    (device,) = found.costs.devices
    assert device.name == "fake on fake:0"
    assert device.up is not None
    assert device.down is not None
    # 1e-5 and 1e-9 a byte there, and 1e-4 to wait for it; twice as much back.
    assert [n for n, _ in device.up.points] == [8.0, 8000.0]
    assert [t for _, t in device.up.points] == pytest.approx([1.1e-4, 1.18e-4], rel=0.02)
    assert [t for _, t in device.down.points] == pytest.approx([2e-5, 3.6e-5], rel=0.06)
    assert sorted(device.work) == ["exp/float32", "exp/float64", "matmul/float32", "matmul/float64"]
    assert sorted(found.costs.host) == sorted(device.work)
    assert [n for n, _ in device.work["matmul/float64"].points] == [64.0, 512.0]
    assert device.work["matmul/float64"](64) == pytest.approx(1e-4, rel=0.02)
    assert found.costs.host["matmul/float64"](64) < 1e-5
    assert device.refused == {}
    assert read_costs() == (found.costs, "")


def test_it_goes_on_where_it_was_interrupted(fake: Accelerator) -> None:
    def interrupt(number: int, count: int, label: str) -> None:
        if label.startswith("matmul float64"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune_offload(["matmul"], seconds=0.0, progress=interrupt)
    kept, _ = read_costs()
    assert kept is not None
    assert list(kept.devices[0].work) == ["matmul/float32"]
    whole = tune_offload(["matmul"], seconds=0.0).costs
    assert whole.devices[0].work["matmul/float32"] == kept.devices[0].work["matmul/float32"]
    before = fake.arrived
    assert tune_offload(["matmul"], seconds=0.0).costs == whole
    assert fake.arrived == before  # nothing was left to do
    tune_offload(["matmul"], seconds=0.0, again=True)
    assert fake.arrived > before + 20


def test_two_at_once_keep_what_both_find(fake: Accelerator) -> None:
    def meanwhile(number: int, count: int, label: str) -> None:
        if label.startswith("matmul float64"):  # one has kept some cells, and will keep more
            tune_offload(["exp"], seconds=0.0)

    found = tune_offload(["matmul"], seconds=0.0, progress=meanwhile).costs
    (device,) = found.devices
    both = ["exp/float32", "exp/float64", "matmul/float32", "matmul/float64"]
    assert sorted(device.work) == sorted(found.host) == both
    assert {len(curve.points) for curve in device.work.values()} == {2}
    assert read_costs() == (found, "")


def test_what_another_one_replaces_by_less_is_kept_again(fake: Accelerator) -> None:
    first = tune_offload(["matmul"], seconds=0.0).costs

    def meanwhile(number: int, count: int, label: str) -> None:
        if label.startswith("exp float64"):
            files.write(costs_file(_machine.machine_key()), first.dump())

    tune_offload(["exp"], seconds=0.0, progress=meanwhile)
    kept, _ = read_costs()
    assert kept is not None
    assert {"exp/float32", "exp/float64", "matmul/float64"} <= set(kept.devices[0].work)


def test_measuring_again_loses_nothing_when_interrupted(fake: Accelerator) -> None:
    whole = tune_offload(["matmul", "exp"], seconds=0.0).costs

    def interrupt(number: int, count: int, label: str) -> None:
        if label.startswith("matmul float64"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune_offload(["matmul", "exp"], seconds=0.0, again=True, progress=interrupt)
    kept, _ = read_costs()
    assert kept is not None
    assert kept.host.keys() == whole.host.keys()
    (before,), (after,) = whole.devices, kept.devices
    assert {key: [n for n, _ in curve.points] for key, curve in after.work.items()} == {
        key: [n for n, _ in curve.points] for key, curve in before.work.items()
    }
    assert after.work["matmul/float64"] == before.work["matmul/float64"]


def test_what_is_measured_again_may_be_refused_then_and_no_longer(
    fake: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune_offload(["exp"], seconds=0.0)
    with monkeypatch.context() as rough:
        rough.setattr(_offload, "deviation", lambda *_: "rough")
        (device,) = tune_offload(["exp"], seconds=0.0, again=True).costs.devices
        assert (list(device.refused), dict(device.work)) == (["exp/float32", "exp/float64"], {})
    (device,) = tune_offload(["exp"], seconds=0.0, again=True).costs.devices
    assert (dict(device.refused), list(device.work)) == ({}, ["exp/float32", "exp/float64"])


def test_what_means_something_else_is_refused(
    fake: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = FakeBackend.operation

    def operation(self: Any, name: str) -> Callable[..., Any] | None:
        native = plain(self, name)
        if name != "matmul" or native is None:
            return native

        def rough(x1: Any, x2: Any) -> Any:  # as TF32 would be
            made = native(x1, x2)
            made._values *= 1 + 1e-4
            return made

        return rough

    monkeypatch.setattr(FakeBackend, "operation", operation)
    found = tune_offload(["matmul", "sort"], seconds=0.0)
    (device,) = found.costs.devices
    assert sorted(device.refused) == ["matmul/float32", "matmul/float64"]
    assert "ulp apart; expected at most 32" in device.refused["matmul/float32"]
    assert sorted(device.work) == ["sort/float32", "sort/float64"]


def test_what_runs_on_the_device_is_measured_and_computed(
    fake: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, asked = FakeBackend.operation, set()

    def operation_on(self: Any, name: str, device: Any) -> Callable[..., Any] | None:
        asked.add((name, device.name))
        return plain(self, name)

    def computed(self: Any, native: Any) -> Any:  # as a lazy library
        self.now += 1.0
        return native

    monkeypatch.setattr(FakeBackend, "operation_on", operation_on)
    monkeypatch.setattr(FakeBackend, "computed", computed)
    (device,) = tune_offload(["matmul"], seconds=0.0).costs.devices
    assert asked == {("matmul", "fake:0")}
    assert device.work["matmul/float64"](64) == pytest.approx(1.0, rel=0.02)


def test_a_dtype_that_the_device_lacks_is_not_measured(fake: Accelerator) -> None:
    fake._dtypes = {place: ANY - {float64} for place in fake._dtypes}
    found = tune_offload(["matmul"], seconds=0.0)
    assert list(found.costs.devices[0].work) == ["matmul/float32"]


def test_a_machine_that_is_too_noisy_keeps_nothing(
    fake: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0)
    monkeypatch.setattr(_clock, "perf_counter", lambda: fake.now + noise.random())
    found = tune_offload(["exp"], seconds=0.0)
    assert len(found.undecided) == 2 + 2 * 2
    assert found.undecided[0] == "transfer 8 on fake fake:0"
    assert found.costs.devices == ()


def test_files_that_do_not_fit_are_measured_anew(fake: Accelerator) -> None:
    path, said = costs_file(_machine.machine_key()), []
    files.write(path, "{")
    tune_offload(["exp"], seconds=0.0, notice=said.append)
    files.write(path, parse(path.read_text()).dump().replace('"cores"', '"seeds"'))
    tune_offload(["exp"], seconds=0.0, notice=said.append)
    assert "it is no JSON" in said[0]
    assert [text.rpartition(": ")[2] for text in said] == ["measuring anew"] * 2
    assert "is of another version or machine" in said[1]


def test_wrong_arguments(fake: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="^'add' is not measured; expected one of exp, "):
        tune_offload(["add"])
    monkeypatch.setattr(_offload, "found_accelerators", lambda: iter(()))
    with pytest.raises(ValueError, match="^no accelerator; expected a backend that serves"):
        tune_offload()


def test_accelerators_are_other_devices_than_the_host() -> None:
    with registered(FakeBackend(devices={"fake:0": ANY, "fake:1": ANY})):
        found = [(backend.name, device.name) for backend, device in _offload.found_accelerators()]
    assert {("fake", "fake:0"), ("fake", "fake:1")} <= set(found)
    assert not [device for _, device in found if device in ("cpu", "dask")]


def test_the_command_measures_and_offload_reckons_with_it(
    fake: Accelerator, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "--offload", "matmul"]) == 0
    shown = capsys.readouterr()
    assert "accelerator     there" in shown.out
    assert "fake on fake:0" in shown.out
    assert "matmul float64 fake:0" in shown.err
    assert main(["tune", "--offload", "add"]) != 0
    assert "tune: 'add' is not measured" in capsys.readouterr().err
    use_costs(None)
    try:
        with corepy.offload("auto"):
            (place,) = places.accelerators()
            assert (place.name, sorted(place.work)) == (
                "fake on fake:0",
                ["matmul/float32", "matmul/float64"],
            )
            x = xp.ones((8, 8))
            (record,) = corepy.explain(lambda: x @ x).records
            assert "no offload: fake:0 takes" in record.reason
    finally:
        use_costs(None)


@pytest.mark.gpu
def test_a_gpu_computes_what_it_is_measured_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_offload, "SIDES", (128, 1024))
    monkeypatch.setattr(_offload, "BYTES", (8, 1 << 20))
    found = tune_offload(["matmul"], seconds=0.05, path=tmp_path / "costs.json")
    assert not [key for device in found.costs.devices for key in device.refused]
    use_costs(found.costs)
    try:
        x = xp.asarray(np.random.default_rng(0).random((3000, 3000)), device="cpu")
        with corepy.offload("auto"):
            said = corepy.explain(lambda: x @ x)
        record = said.records[0]
        assert ("offload: " in record.reason) == (record.device != "cpu"), record
        assert is_resident(said.result) == (record.device != "cpu")
        np.testing.assert_allclose(np.asarray(said.result), np.asarray(x) @ np.asarray(x), 1e-12)
    finally:
        use_costs(None)


def test_what_was_measured_with_another_version_of_the_library_is_not_taken(
    fake: Accelerator, tmp_path: Path
) -> None:
    tune_offload(["exp"], seconds=0.0)
    device = fake.devices()[0]
    kept = _offload._Kept(None, lambda text: None)
    found = kept.device(fake, device)
    assert found.work
    kept.costs = replace(kept.costs, devices=(replace(found, version="old"),))
    now = kept.device(fake, device)
    assert (now.version, now.up, now.down, now.work) == (found.version, None, None, {})


def test_environments_with_other_versions_of_a_library_keep_their_costs(
    fake: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    (device,) = fake.devices()
    for version in ("1", "2"):  # in turns, as two environments that share the cache folder
        for module in (places, _offload):
            monkeypatch.setattr(module, "version_of", lambda *_, version=version: version)
        found = tune_offload(["exp"], seconds=0.0)
        assert [each.version for each in found.costs.devices] == [version]
    costs, why = read_costs()
    assert costs is not None, why
    assert [each.version for each in costs.devices] == ["1", "2"]
    for version in ("1", "2"):
        monkeypatch.setattr(places, "version_of", lambda *_, version=version: version)
        (usable,), _ = places._usable(costs)
        known = costs.of("fake", device.name, version)
        assert known is not None
        assert usable.work == known.work


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_read_first(tmp_path: Path) -> None:
    pipe, found, told = tmp_path / "pipe", [], []
    os.mkfifo(pipe)
    thread = Thread(target=lambda: found.append(_offload._Kept(pipe, told.append)), daemon=True)
    thread.start()
    thread.join(60)
    assert ([each.costs.devices for each in found], told) == ([()], [])
