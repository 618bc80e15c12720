"""What offload reckons with: curves, loads, and the file of costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corepy.dispatch import _machine
from corepy.dispatch import _offload_places as places
from corepy.dispatch import _route_files as files
from corepy.dispatch._offload_costs import Costs, Curve, Device, costs_file, parse, read_costs
from corepy.dispatch._offload_work import WORK, Load, key_of
from corepy.dispatch._operations import OPERATIONS
from tests.dispatch.fake import DEVICE
from tests.dispatch.offloading import (
    MOVING,
    accelerator,
    costs,
    is_resident,
    matrix,
    use_costs,
)


def test_curves() -> None:
    curve = Curve(((10.0, 1.0), (1000.0, 100.0)))
    assert [curve(n) for n in (0, 10, 100, 1000, 5000)] == pytest.approx([1, 1, 10, 100, 500])
    assert [curve.within(t) for t in (0.5, 1.0, 7.0, 1e3)] == pytest.approx([0, 10, 70, 1e4])
    flat = Curve(((10.0, 1.0), (1000.0, 10.0)))
    assert [flat.within(t) for t in (1.0, 10**0.5, 10.0, 20.0)] == pytest.approx(
        [10, 100, 1e3, 2e3]
    )
    assert curve.with_point(100.0, 7.0)(100) == 7.0
    assert curve.with_point(10.0, 7.0).points == ((10.0, 7.0), (1000.0, 100.0))
    for points in ((), ((2.0, 1.0), (1.0, 1.0)), ((1.0, 0.0),), ((0.0, 1.0),)):
        with pytest.raises(ValueError, match="a curve"):
            Curve(points)


def test_loads_are_counted_from_shapes() -> None:
    def load(name: str, *args: Any, **params: Any) -> Load | None:
        return WORK[name].load(args, params)

    x, y = np.empty((4, 2, 3)), np.empty((3, 5))
    assert load("matmul", x, y) == Load(4 * 2 * 3 * 5, 4 * 2 * 5)
    assert load("matmul", y[:, 0], y) == Load(15, 5)
    assert load("tensordot", x, y, axes=((2,), (0,))) == Load(120, 40)
    assert load("linalg.solve", np.empty((6, 6)), np.empty((6, 2))) == Load(216 + 72, 12)
    assert load("linalg.qr", np.empty((8, 2))) == Load(32, 32)
    assert load("fft.rfft", np.empty(8), n=16, axis=0) == Load(0.5 * 16 * 4, 16)
    assert load("sort", np.empty((2, 8)), axis=1) == Load(48, 16)
    assert load("add", np.empty((4, 1)), np.empty(3)) == Load(12, 12)
    assert load("sum", x, axis=(0, 2)) == Load(24, 2)
    assert load("vecdot", x, np.empty(3), axis=-1) == Load(24, 8)
    assert load("__getitem__", x, (0, slice(None, None, 2))) == Load(3, 3)
    assert load("__getitem__", x, (Ellipsis, 1, None)) == Load(8, 8)
    assert load("__getitem__", x, (0, 2)) is None
    assert load("__getitem__", x, np.ones(4, bool)) is None
    assert load("reshape", x, (24,), copy=False) is None
    assert load("reshape", x, (24,)) == Load(1, 24)
    assert load("matmul", y, y[0]) == Load(15, 3)
    assert load("linalg.eigh", np.empty((8, 8))) == Load(512, 128)
    assert load("linalg.svdvals", np.empty((8, 2))) == Load(32, 0)
    assert load("fft.fft", np.empty((4, 8)), n=8, axis=-1) == Load(96, 32)
    assert load("fft.fftn", np.empty((4, 8, 3)), s=(4, 16), axes=(0, 1)) == Load(192 * 6, 192)
    assert load("sum", x, axis=1) == Load(24, 12)
    assert load("sum", x, axis=None) == Load(24, 1)
    assert load("__getitem__", x, (slice(None), Ellipsis, 0)) == Load(8, 8)
    assert load("__getitem__", x, -4) == Load(6, 6)
    assert load("__getitem__", x, -5) is None


def test_costs_are_those_of_the_hardware_they_were_measured_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with accelerator() as fake:
        assert len(places.accelerators()) == 1
        measured = costs(fake)
        assert places.version_of(fake, DEVICE) == "FakeBackend"
        monkeypatch.setattr(type(fake), "hardware", lambda self, device: f"Arc on {device}, 1.6")
        assert places.version_of(fake, DEVICE) == f"FakeBackend Arc on {DEVICE}, 1.6"
        found, why = places._usable(measured)
        assert (found, why) == ((), [f"fake on {DEVICE} was measured as FakeBackend"])


def test_every_operation_is_likened_to_a_measured_one() -> None:
    assert set(WORK) <= set(OPERATIONS)
    for name in WORK:
        key = key_of(name, "float64")
        assert key is not None, name
    assert key_of("add", "uint8") == ("multiply/float32", 0.25)
    assert key_of("add", "float32") == ("multiply/float32", 1.0)
    assert key_of("add", "bool") == ("multiply/float32", 0.25)
    assert key_of("sum", "int64") == ("sum/float64", 1.0)
    assert key_of("exp", "complex128") == ("exp/float64", 2.0)
    assert key_of("fft.rfft", "float32") == ("fft.fft/complex64", 1.0)
    assert key_of("pow", "int64") is None
    assert key_of("matmul", "int64") is None
    assert key_of("floor_divide", "float64") is None


# ---------------------------------------------------------------------------- the file


def test_costs_survive_their_file() -> None:
    device = Device("b", "cuda:0", "1", MOVING, None, {"exp/float32": MOVING}, {"sort/x": "why"})
    whole = Costs({"cpu": "x"}, {"date": "d"}, {"exp/float32": MOVING}, (device,))
    assert parse(whole.dump()) == whole
    assert whole.of("b", "cuda:0", "1") == device
    assert whole.of("b", "cuda:1", "1") is None
    assert whole.of("b", "cuda:0", "2") is None
    assert whole.with_device(replace(device, down=MOVING)).devices == (
        replace(device, down=MOVING),
    )
    for text, words in (
        ("x", "it is no JSON"),
        ("[]", "its format is None; expected 1"),
        ('{"format": 2}', "its format is 2; expected 1"),
        (whole.dump().replace('"host"', '"hosts"'), "it is damaged"),
        (whole.dump().replace('"up": [', '"up": [[1, -1],', 1), "it is damaged .* a curve has"),
        (whole.dump().replace('"up": [', f'"up": [[1, 1{"0" * 400}],', 1), "it is damaged .Overfl"),
        (whole.dump().replace('"cuda:0"', '"cuda 0"'), "it is damaged .* a device is 'cuda 0'"),
        (whole.dump().replace('"cuda:0"', "0"), "it is damaged .* a device is 0"),
    ):
        with pytest.raises(ValueError, match=words):
            parse(text)


def test_costs_of_this_machine_are_found_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine = _machine.machine_key()
    assert read_costs() == (None, "nothing was measured on this machine")
    whole = Costs(machine, {}, {}, ())
    other = {**machine, "cpu": "another", "versions": {**machine["versions"], "numpy": "1"}}
    path, environment = costs_file(other), _machine.environment()
    found = f"cpu 'another' then, {machine['cpu']!r} now; numpy 1 then, {np.__version__} now"
    for made, words in (
        ({"environment": "/elsewhere"}, "is kept for another environment is not used here"),
        ({"environment": environment}, "was measured does not fit any more"),
        ({}, "is kept for another environment is not used here"),
    ):
        files.write(path, Costs(other, made, {}, ()).dump())
        assert read_costs() == (None, f"what {words} ({found})")
    files.write(path, "{")
    assert read_costs() == (None, "what was measured cannot be read")
    files.write(costs_file(machine), whole.dump())
    assert read_costs() == (whole, "")
    files.write(costs_file(machine), Costs(other, {}, {}, ()).dump())  # by another one's name
    assert read_costs() == (None, f"{costs_file(machine)} was measured elsewhere")
    files.write(costs_file(machine), "{")
    assert "cannot be used: it is no JSON" in read_costs()[1]
    assert not list(files.cache_folder().glob("*.json"))  # where routes are looked for


def test_accelerators_that_are_not_as_measured_are_passed_over() -> None:
    with accelerator() as fake:
        check_accelerators(fake)


def check_accelerators(fake: Any) -> None:
    found = costs(fake)
    (device,) = found.devices
    for changed, words in (
        (replace(device, version="0"), "fake on fake:0 was measured as 0"),
        (replace(device, device="fake:7"), "fake on fake:7 is not there"),
        (replace(device, up=None), "no transfers to fake on fake:0 were measured"),
        (replace(device, down=None), "no transfers to fake on fake:0 were measured"),
        (replace(device, backend="gone"), "gone"),
    ):
        usable, reasons = places._usable(replace(found, devices=(changed,)))
        assert usable == ()
        assert words in reasons[0]
    refused = replace(device, refused={"matmul/float64": "other values"})
    use_costs(replace(found, devices=(refused,)))
    x = matrix()
    assert not is_resident(x @ x)
    assert fake.arrived == 0
