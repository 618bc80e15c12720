"""Tables of routes on a GPU that is none: which are in force, and how they are tuned and shown.

`tests/dispatch/test_routes_devices.py` runs this file in a process of its own.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import _cli_routes
from corepy._cli import main
from corepy.devices import _libraries
from corepy.dispatch import _route_files as files
from corepy.dispatch import _route_gpus, _route_libraries, load
from corepy.dispatch import _route_sources as sources
from corepy.dispatch._route_table import Route, RouteTable, parse
from corepy.dispatch._sites import CUDA as SITE
from corepy.tuning import _device_cases, _tune, tune
from tests.dispatch import stand_in_routes
from tests.dispatch.stand_in_routes import CUDA, NAME, Use, array, both_ways, ran, route

alone, use = stand_in_routes.alone, stand_in_routes.use  # fixtures


def table(*routes: Route, **machine: Any) -> RouteTable:
    key = _route_gpus.gpu_key(NAME) | machine
    return RouteTable(key, {"command": "corepy tune --device cuda:0"}, {}, routes)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("machine", "gpu"), 3, "machine.gpu is 3; expected the name of a GPU"),
        (("machine", "gpu"), "", "machine.gpu is ''; expected the name of a GPU"),
        (("routes", 0, "operation"), "linalg.inv", "'linalg.inv' of 'float32' is no operation"),
        (("routes", 0, "dtype"), "complex64", "'sum' of 'complex64' is no operation"),
        (("routes", 0, "form"), "rows", "sum has no form 'rows'; expected .*'torch rows'"),
        (("routes", 0, "form"), "jax rows", "sum has no form 'jax rows'"),
        (("routes", 0, "options", 0, "backend"), "numba", "'numba' is not admitted"),
        (("routes", 0, "options", 0, "backend"), "torch", "'torch' is where the arrays live"),
        (("routes", 0, "options", 0, "gain"), 0.9, "sum: gain is 0.9; expected a number"),
    ],
)
def test_a_table_that_is_half_right_is_refused(
    place: tuple[Any, ...], value: Any, message: str
) -> None:
    content = json.loads(table(route("sum", "torch", "cupy", form="rows")).dump())
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(ValueError, match=message):
        parse(json.dumps(content))


def test_a_file_is_of_the_host_or_of_a_gpu(use: Use) -> None:
    before = corepy.routes()
    use(route("exp", "torch", "cupy"))
    assert corepy.routes() == before
    assert corepy.routes("cuda:0") == (route("exp", "torch", "cupy"),)
    with corepy.set_routes("off"):
        assert corepy.routes("cuda:0") == ()
    with corepy.set_routes("shipped"):
        assert corepy.routes("cuda:0") == ()
    with pytest.raises(TypeError, match="^routes: device is of type int"):
        corepy.routes(3)  # type: ignore[arg-type]


def test_what_was_measured_on_the_gpu_is_in_force_there() -> None:
    wanted = table(route("exp", "torch", "cupy"))
    files.write(files.cache_file(wanted.machine), wanted.dump())
    corepy.set_routes(None)
    assert corepy.routes("cuda:0") == wanted.routes
    assert sources.in_force(CUDA).origin.startswith("measured on this machine, in ")
    assert corepy.routes() == sources.shipped().routes  # type: ignore[union-attr]
    with pytest.raises(corepy.BackendUnavailableError, match="device is 'cuda:1'; expected one"):
        corepy.routes("cuda:1")


def test_what_was_measured_with_other_versions_is_told_of() -> None:
    files.keep(table(route("exp", "torch", "cupy"), versions={"torch": "1.0"}))
    corepy.set_routes(None)
    with pytest.warns(corepy.RouteWarning, match=f"measured on {NAME} do not fit .*torch 1.0 then"):
        assert corepy.routes("cuda:0") == ()


def test_of_another_gpu_nothing_is_said() -> None:
    wanted = table(route("exp", "torch", "cupy"), gpu="Another GPU")
    files.write(files.cache_file(wanted.machine), wanted.dump())
    corepy.set_routes(None)
    assert corepy.routes("cuda:0") == ()
    assert sources.in_force(CUDA).origin.endswith(f"none ship for {NAME}")


def test_what_ships_is_for_gpus_of_its_name(tmp_path: Path) -> None:
    wanted = table(route("exp", "torch", "cupy"), versions={"torch": "1.0"})
    path = tmp_path / "data" / "gpu-routes-a_gpu_of_the_tests.json"
    assert files.shipped_file(NAME) == path
    files.write(path, wanted.dump())
    corepy.set_routes(None)
    assert corepy.routes("cuda:0") == wanted.routes
    files.write(path, table(*wanted.routes, gpu="A GPU of the  tests").dump())
    corepy.set_routes(None)
    assert corepy.routes("cuda:0") == ()


@pytest.mark.parametrize("text", ["{", '{"format": 1}'])
def test_a_damaged_file_is_told_of(text: str) -> None:
    files.write(files.cache_file(table().machine), text)
    corepy.set_routes(None)
    with pytest.warns(corepy.RouteWarning, match="holds no table of routes"):
        assert corepy.routes("cuda:0") == ()


def test_a_gain_below_the_margin_is_no_way(use: Use) -> None:
    use(route("exp", "torch", "cupy", gain=SITE.margin - 0.01), route("log", "torch", "cupy"))
    x = array("torch", np.ones(200))
    assert ran(xp.exp, x)[0] == "torch"
    assert ran(xp.log, x)[0] == "cupy"


@both_ways
def test_a_library_is_imported_once_that_pays(
    use: Use, monkeypatch: pytest.MonkeyPatch, home: str, other: str
) -> None:
    library = _route_libraries.Library(other)
    monkeypatch.setitem(_route_libraries.LIBRARIES, other, library)
    monkeypatch.setattr(_route_libraries, "sys", type("sys", (), {"modules": {}}))
    use(route("exp", home, other))  # which saves a fifth of a millisecond
    library.price = 5.5e-4
    x = array(home, np.ones(200))
    x._table.clear()
    found = []
    for _ in range(5):
        xp.exp(x)
        found.append(library.backend is not None)
    # What the call itself would save, twice as much at twice the elements, counts with what others
    # have lost.
    assert found == [False, True, True, True, True]


# ---------------------------------------------------------------------------- tuning, commands


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_device_cases, "FIRST", 1 << 12)
    monkeypatch.setattr(_device_cases, "GREATER", (1 << 14,))
    monkeypatch.setattr(_device_cases, "SMALLER", (1 << 10,))
    monkeypatch.setattr(_device_cases, "DRAWN", 1 << 10)
    monkeypatch.setattr(_tune, "ATTEMPTS", 1)
    monkeypatch.setattr(_tune, "_start", lambda name: 0.5)


@pytest.mark.usefixtures("quick")
def test_tuning_measures_both_ways_and_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[str] = []
    for name in ("torch", "cupy"):
        monkeypatch.setattr(
            load(name), "synchronize", lambda device, name=name: waited.append(name)
        )
    seen: list[str] = []

    def interrupt(number: int, count: int, label: str) -> None:
        seen.append(label)
        if number == 1:
            raise KeyboardInterrupt

    path = tmp_path / "cells.json"
    with pytest.raises(KeyboardInterrupt):
        tune(["exp"], device=CUDA, seconds=1e-9, cells=path, progress=interrupt)
    assert seen == ["exp float32 torch", "exp float32 cupy"]
    rows = json.loads(path.read_text())["cells"]
    assert {row["form"] for row in rows} == {"torch"}
    assert set(waited) == {"torch"}
    measured: list[str] = []
    measure = _tune._measured

    def counted(case: Any, size: int, *rest: Any) -> Any:
        measured.append(case.label)
        return replace(measure(case, size, *rest), undecided=False)

    monkeypatch.setattr(_tune, "_measured", counted)
    outcome = tune(["exp"], device=CUDA, seconds=1e-9, cells=path)
    assert outcome.refused == ()
    assert {"exp float32 cupy", "exp float64 torch", "exp float64 cupy"} <= set(measured)
    assert outcome.table.gpu == NAME
    assert outcome.table.made["command"] == "corepy tune --device cuda:0"
    assert parse(outcome.table.dump()).routes == outcome.table.routes
    measured.clear()
    tune(["exp"], device=CUDA, seconds=1e-9, cells=path)
    assert measured == []


@pytest.mark.usefixtures("quick")
def test_who_means_something_else_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_device_cases, "deviation", lambda *_: "it is off by one")
    outcome = tune(["exp"], device=CUDA, seconds=1e-9, cells=tmp_path / "cells.json")
    assert "exp float32 torch: cupy: it is off by one" in outcome.refused
    assert outcome.table.routes == ()


@pytest.mark.usefixtures("quick")
def test_the_commands_tune_and_show(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["tune", "exp", "--device", "cuda:0"]) == 0
    path = files.cache_file(table().machine)
    assert capsys.readouterr().out.endswith(f"wrote {path}\n")
    files.write(path, table(route("exp", "torch", "cupy", gain=1.074)).dump())
    corepy.set_routes(None)
    assert main(["routes", "--device", "cuda:0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(f"made on {NAME}: corepy ")
    assert lines[-1].split(maxsplit=6)[:6] == ["exp", "float32", "torch", "100", "cupy", "1.07x"]
    mine = tmp_path / "mine.json"
    assert main(["routes", "--device", "cuda:0", "--export", str(mine)]) == 0
    assert parse(mine.read_text()).gpu == NAME
    path.unlink()
    assert main(["routes", "--import", str(mine)]) == 0
    assert path.is_file()
    assert main(["routes", "--device", "cuda:0", "--freeze"]) == 0
    path.unlink()
    corepy.set_routes(None)
    assert len(corepy.routes("cuda:0")) == 1
    assert sources.in_force(CUDA).origin.startswith("frozen in ")
    assert main(["routes", "--device", "cuda:0", "--thaw"]) == 0
    corepy.set_routes(None)
    assert corepy.routes("cuda:0") == ()
    mine.write_text(table(gpu="Another").dump())
    capsys.readouterr()
    assert main(["routes", "--import", str(mine)]) == 2
    assert f"measured elsewhere (gpu 'Another' then, '{NAME}' now)" in capsys.readouterr().err
    assert main(["routes", "--import", str(mine), "--force"]) == 0
    corepy.set_routes(None)
    assert sources.in_force(CUDA).origin.startswith("imported; measured on Another, in ")
    assert main(["routes", "--import", str(mine), "--device", "cuda:7"]) == 2
    assert "is for the GPU Another; this machine has no such GPU" in capsys.readouterr().err


def test_routes_of_all_devices_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = table(route("exp", "torch", "cupy"))
    files.write(files.cache_file(wanted.machine), wanted.dump())
    corepy.set_routes(None)
    gpu = type("Gpu", (), {"device": CUDA})()
    info = type("Info", (), {"gpus": (gpu,)})()
    monkeypatch.setattr(_cli_routes, "detect_devices", lambda: info)
    assert main(["routes"]) == 0
    out = capsys.readouterr().out
    assert "\n\ncuda:0: measured on this machine, in " in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tune", "--device", "cuda:7"], "device is cuda:7; expected one on which torch and cupy"),
        (["tune", "--device", "mps"], "device is mps; expected a GPU of CUDA, such as cuda:0"),
        (["tune", "--device", "a b"], "tune: device is 'a b'; expected a device name"),
        (["tune", "--device", "cuda:0", "linalg.inv"], "'linalg.inv' is no operation that can"),
        (["tune", "--device", "cuda:0", "--offload"], "--offload measures every device"),
        (["routes", "--device", "cuda:7", "--thaw"], "device is cuda:7; expected one of cpu"),
        (["routes", "--device", "cuda:0", "--export", "x"], "expected a table in force"),
    ],
)
def test_devices_that_are_none(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_a_gpu_without_a_name_is_not_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tune, "gpu_name", lambda device: None)
    with pytest.raises(ValueError, match="device is cuda:0; expected one whose name the driver"):
        tune(["exp"], device=CUDA)


def test_both_libraries_serve_the_device() -> None:
    assert {each.name for each in _libraries.serving(CUDA)} >= {"cupy", "torch"}
