"""Tables of routes: their files, those that ship, and the cache of what was tuned here."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

import corepy
from corepy.devices._device import as_device
from corepy.dispatch import _machine, _offload_costs
from corepy.dispatch import _route_files as files
from corepy.dispatch import _route_sources as sources
from corepy.dispatch._admitted import admits
from corepy.dispatch._route_table import UNHURRIED, Option, Route, RouteTable, common, parse
from corepy.dispatch._sites import MARGIN
from tests.dispatch.fake import FakeBackend, registered

HERE = {"cpu": "this one", "cores": 2, "threads": 2}
SIN = Route("sin", "float64", "", 100, 1e-3, (Option("torch", 9.0, busy=9.0),))
#: A number that JSON can hold, and no float.
HUGE = 10**400
GOOD: dict[str, Any] = json.loads(RouteTable(HERE, {}, {"torch": 1.0}, (SIN,)).dump())


def test_a_table_is_what_its_file_says() -> None:
    made = parse(json.dumps(GOOD))
    assert made == parse(made.dump())
    assert made.routes == (SIN,)
    assert (made.threads, made.start) == (2, {"torch": 1.0})


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("format",), 99, "its format is 99; expected 1"),
        (("machine",), None, "machine is None; expected an object"),
        (("machine", "threads"), 0, "machine.threads is 0; expected a number of threads"),
        (("machine", "threads"), HUGE, "machine.threads is 10*; expected a number of threads"),
        (("machine", "versions"), None, "machine.versions is None; expected an object of strings"),
        (("machine", "versions"), {"numpy": 2}, "machine.versions is .*; expected an object of st"),
        (("kept",), 3, "kept is 3; expected an object"),
        (("kept",), {"machine": 3}, "kept.machine is 3; expected an object"),
        (("start", "torch"), "soon", "start.torch is 'soon'; expected a number of at least 0"),
        (("routes",), {}, "routes is missing; expected a list"),
        (("routes", 0), 3, "a route is 3; expected an object with options"),
        (("routes", 0, "operation"), "rm", "'rm' of 'float64' is no operation that can be routed"),
        (("routes", 0, "form"), "rows", "sin has no form 'rows'"),
        (("routes", 0, "from"), 0, "sin: from is 0; expected a number of elements"),
        (("routes", 0, "from"), 1.5, "sin: from is 1.5; expected a number of elements"),
        (("routes", 0, "from"), HUGE, "sin: from is 10*; expected a number of elements"),
        (("routes", 0, "seconds"), None, "sin: seconds is None; expected a number"),
        (("routes", 0, "seconds"), HUGE, "sin: seconds is 10*; expected a number of at least 0"),
        (("routes", 0, "seconds"), math.inf, "sin: seconds is inf; expected a number"),
        (("routes", 0, "options", 0, "backend"), "jax", "sin of float64: 'jax' is not admitted"),
        (("routes", 0, "operation"), "sign", "sign of float64: 'torch' is not admitted"),
        (("routes", 0, "dtype"), "int64", "sin of int64: 'torch' is not admitted"),
        (("routes", 0, "options", 0, "gain"), 0.5, "sin: gain is 0.5; expected a number"),
        (("routes", 0, "options", 0, "gain"), math.nan, "sin: gain is nan; expected a number"),
        (("routes", 0, "options", 0, "gain"), HUGE, "sin: gain is 10*; expected a number"),
        (("routes", 0, "options", 0, "company"), HUGE, "sin: company is 10*; expected a number"),
    ],
    ids=lambda value: "huge" if value == HUGE else None,
)
def test_a_table_that_is_half_right_is_refused(
    place: tuple[Any, ...], value: Any, message: str
) -> None:
    content = json.loads(json.dumps(GOOD))
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(ValueError, match=message):
        parse(json.dumps(content))


def test_rows_for_one_thread_of_blas_are_read_and_checked() -> None:
    made = parse(json.dumps({**GOOD, "alone": {"linalg.inv": 100}}))
    assert made.alone == {"linalg.inv": 100}
    assert parse(made.dump()) == made
    assert parse(json.dumps(GOOD)).alone == {}
    for value in (-1, 1.5, True, "many"):
        with pytest.raises(ValueError, match="alone.linalg.inv is .*; expected a number of rows"):
            parse(json.dumps({**GOOD, "alone": {"linalg.inv": value}}))


def test_a_table_without_json_or_with_a_route_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="it is no JSON"):
        parse('{"format": 1, "rou')
    with pytest.raises(ValueError, match="it is no JSON"):
        parse("[" * 200_000)
    with pytest.raises(ValueError, match="two routes are for the same operation"):
        parse(json.dumps({**GOOD, "routes": GOOD["routes"] * 2}))


SHIPPED = sorted(files.DATA.glob("routes-*.json"))


def generation(table: RouteTable) -> str:
    """The generation of the processor that a table was made on."""
    _, said = table.machine["cpu"].split(" (")
    return said.removesuffix(")")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_table_is_whole_and_says_how_it_was_made(path: Path) -> None:
    shipped = parse(path.read_text(encoding="utf-8"))
    assert path.stem == f"routes-{shipped.machine['vectors']}-{files._words(generation(shipped))}"
    assert "corepy tune" in shipped.made["command"]
    assert shipped.routes
    for each in shipped.routes:
        assert all(admits(each.operation, each.dtype, o.backend) for o in each.options)
        for o in each.options:
            assert o.gain >= MARGIN or (o.busy or 0.0) >= UNHURRIED
        assert each.least >= 1000


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_elsewhere_only_great_gains_are_believed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = parse(path.read_text(encoding="utf-8"))
    monkeypatch.setattr(_machine, "vectors", lambda: shipped.machine["vectors"])
    monkeypatch.setattr(_machine, "generation", lambda: generation(shipped))
    monkeypatch.setattr(_machine, "processor", lambda: shipped.machine["cpu"])
    monkeypatch.setattr(_machine, "cores", lambda: shipped.machine["cores"])
    assert sources.shipped() == shipped
    monkeypatch.setattr(_machine, "processor", lambda: "another one")
    believed = sources.shipped()
    assert believed is not None
    gains = [option.gain for each in believed.routes for option in each.options]
    assert gains
    assert min(gains) >= sources.ELSEWHERE
    assert len(gains) < sum(len(each.options) for each in shipped.routes)


@pytest.mark.parametrize(
    ("instructions", "of"), [("neon", SHIPPED), ("avx512", [p for p in SHIPPED if "512" in p.stem])]
)
def test_on_a_generation_that_was_not_measured_all_tables_of_its_kind_have_to_agree(
    instructions: str, of: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_machine, "vectors", lambda: instructions)
    monkeypatch.setattr(_machine, "generation", lambda: "family 99, model 1")
    assert files.shipped_files() == of
    assert len(of) >= 2
    found = sources.shipped()
    assert found is not None
    assert any(each.options for each in found.routes)
    tables = [parse(path.read_text(encoding="utf-8")) for path in of]
    for each in found.routes:
        for option in each.options:
            assert option.gain >= sources.ELSEWHERE
            for table in tables:
                ways = table.forms(each.operation, each.dtype)[each.form]
                there = [route for route in ways if route.least <= each.least][-1]
                assert option.gain <= {o.backend: o.gain for o in there.options}[option.backend]


def test_what_tables_have_in_common_is_each_route_at_its_worst() -> None:
    def table(*routes: tuple[int, tuple[Option, ...]], threads: int) -> RouteTable:
        made = tuple(Route("sin", "float64", "", n, n * 1e-9, options) for n, options in routes)
        return RouteTable({"cpu": "a", "threads": threads}, {}, {"torch": threads / 4}, made)

    numba, torch = Option("numba", 3.0, 1.2, single=2.0), Option("torch", 2.0, 1.5, busy=1.1)
    first = table((1000, (numba, torch)), (9000, (torch,)), threads=2)
    second = table(
        (4000, (replace(torch, gain=5.0, busy=0.9, single=2.0), replace(numba, single=1.5))),
        (20000, ()),
        threads=4,
    )
    found = common([first, second])
    assert [(each.least, [o.backend for o in each.options]) for each in found.routes] == [
        (4000, ["numba", "torch"]),
        (9000, ["torch"]),
        (20000, []),
    ]
    # Of who was not measured in one thread everywhere, that is not known.
    assert found.routes[0].options == (replace(numba, single=1.5), replace(torch, busy=0.9))
    assert (found.threads, found.start) == (4, {"torch": 1.0})
    assert found.machine["cpu"] == "a, and a"
    assert common([first]) is first


def test_set_routes_refuses_what_is_none_and_changes_nothing(tmp_path: Path) -> None:
    before = corepy.routes()
    with pytest.raises(TypeError, match='^set_routes: source is of type int; expected "off"'):
        corepy.set_routes(3)  # type: ignore[arg-type]
    message = (
        '^set_routes: source: .*missing: No such file .*; expected "off", "shipped" or the path'
    )
    with pytest.raises(ValueError, match=message):
        corepy.set_routes(tmp_path / "missing")
    (tmp_path / "bad").write_text("{}")
    with pytest.raises(ValueError, match="^set_routes: source: .* holds no table of routes"):
        corepy.set_routes(tmp_path / "bad")
    assert corepy.routes() == before
    with corepy.set_routes("off"):
        assert corepy.routes() == ()
    assert corepy.routes() == before


def test_a_path_of_bytes_is_none() -> None:
    class Bytes(os.PathLike[bytes]):
        def __fspath__(self) -> bytes:
            return b"r.json"

    with pytest.raises(TypeError, match='^set_routes: source is of type bytes; expected "off", '):
        corepy.set_routes(Bytes())  # type: ignore[arg-type]


def test_a_block_leads_back_to_a_file_that_is_no_more(
    route_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.json").write_text(json.dumps(GOOD))
    corepy.set_routes("r.json")
    with corepy.set_routes("off"):
        Path("r.json").unlink()
        assert corepy.routes() == ()
    assert corepy.routes() == (SIN,)
    assert sources.in_force().origin == "the file r.json"
    assert sources.in_force(as_device("cuda:7")).table is None  # which does not read it either


def test_routes_of_what_is_no_device_are_refused() -> None:
    for wrong in ("nope", "nope:0", "cuda:x", "cpu:0", "gpu:0"):
        with pytest.raises(ValueError, match=f"^routes: device is '{wrong}'; expected "):
            corepy.routes(wrong)
    with registered(FakeBackend({"add"})):
        assert corepy.routes("fake:0") == ()


def test_routes_of_a_device_that_is_not_present_are_refused(tmp_path: Path) -> None:
    message = r"^routes: device is 'cuda:77'; expected one that is present: cpu.* \(.*cupy: "
    for wish in (None, "off", "shipped"):
        with (
            corepy.set_routes(wish),
            pytest.raises(corepy.BackendUnavailableError, match=message),
        ):
            corepy.routes("cuda:77")
    # Whoever names a table for such a device asks to see it.
    path = files.DATA / "gpu-routes-nvidia_h200.json"
    with corepy.set_routes(path):
        assert corepy.routes("cuda:77") == parse(path.read_text()).routes


# ---------------------------------------------------------------------------- the cache


def tuned() -> RouteTable:
    return RouteTable(_machine.machine_key(), {}, {}, parse(json.dumps(GOOD)).routes)


def test_what_was_tuned_here_is_in_force(route_cache: Path) -> None:
    files.write(files.cache_file(_machine.machine_key()), tuned().dump())
    assert corepy.routes() == tuned().routes
    assert sources.in_force().origin.startswith("measured on this machine")


def test_a_full_disk_names_the_file_and_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "routes.json"
    files.write(path, "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=re.escape(f"'{path}'")):
        files.write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_without_any_table_there_are_no_routes(
    route_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an archive, or a frozen program, that has corepy's code alone."""
    monkeypatch.setattr(files, "DATA", route_cache / "nowhere")
    assert sources.shipped() is None
    assert sources.in_force().origin == "no routes were measured on cpu, and none ship"
    assert corepy.routes() == ()


def test_without_a_cache_the_shipped_table_is_in_force(route_cache: Path) -> None:
    assert corepy.routes() == sources.shipped().routes


@pytest.mark.parametrize("text", ["", "{", '{"format": 1}', "null"])
def test_a_damaged_cache_is_told_of_and_not_used(route_cache: Path, text: str) -> None:
    files.write(files.cache_file(_machine.machine_key()), text)
    with pytest.warns(corepy.RouteWarning, match="holds no table of routes.*ship are used"):
        found = corepy.routes()
    assert found == sources.shipped().routes
    corepy.routes()  # it is said once


def test_a_table_of_another_machine_is_told_of_and_not_used(route_cache: Path) -> None:
    other = replace(tuned(), machine={**_machine.machine_key(), "cores": 99})
    files.write(files.cache_file(_machine.machine_key()), other.dump())
    with pytest.warns(corepy.RouteWarning, match="measured elsewhere: cores 99 then, "):
        assert corepy.routes() == sources.shipped().routes


def test_a_table_of_other_versions_is_told_of_and_not_used(route_cache: Path) -> None:
    key = _machine.machine_key()
    older = {**key, "versions": {**key["versions"], "numpy": "1.0"}}
    files.keep(replace(tuned(), machine=older))
    with pytest.warns(corepy.RouteWarning, match=r"do not fit any more \(numpy 1.0 then, "):
        assert corepy.routes() == sources.shipped().routes


def test_a_table_of_another_environment_is_no_fault(
    route_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = _machine.machine_key()
    more = {**key, "versions": {**key["versions"], "numba": "99.0"}}
    with monkeypatch.context() as there:
        there.setattr(_machine, "environment", lambda: "/another/environment")
        files.keep(replace(tuned(), machine=more))
    (route_cache / "routes-1.json").write_text("{")  # nor a damaged one that may be anybody's
    assert corepy.routes() == sources.shipped().routes  # warnings are errors
    found = sources.in_force()
    assert (found.origin, found.notice) == ("the table that ships with corepy", None)
    assert found.aside is not None
    assert "another environment is not used here (numba 99.0 then, " in found.aside
    files.keep(replace(tuned(), machine=more))
    corepy.set_routes(None)
    with pytest.warns(corepy.RouteWarning, match=r"do not fit any more \(numba 99.0 then, "):
        corepy.routes()


def test_an_imported_table_says_where_it_was_measured(route_cache: Path) -> None:
    key = _machine.machine_key()
    theirs = replace(tuned(), machine={**key, "cpu": "their processor", "threads": 99})
    path = files.keep(theirs, imported_for=key)
    found = sources.in_force()
    assert found.table is not None
    assert (found.table.machine, found.table.threads) == (theirs.machine, 99)
    assert found.table.routes == theirs.routes
    cores = f"their processor, {key['cores']} cores"
    assert found.origin == f"imported; measured on {cores}, in {path}"
    assert parse(found.table.dump()) == theirs  # as it came
    other = sources.otherwise()
    assert other is not None
    assert other.made["others"] == f"of a table that was imported, measured on {cores}"


def test_an_imported_table_of_other_versions_is_told_of(route_cache: Path) -> None:
    key = _machine.machine_key()
    older = {**key, "versions": {**key["versions"], "numpy": "1.0"}}
    files.keep(replace(tuned(), machine={**key, "cpu": "another"}), imported_for=older)
    message = r"that were imported do not fit any more \(numpy 1.0 then, [^;]*\): import them again"
    with pytest.warns(corepy.RouteWarning, match=message):
        corepy.routes()


def test_what_was_measured_in_more_threads_holds_in_fewer(
    route_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_machine, "cores", lambda: 8)
    monkeypatch.setattr(_machine, "get_num_threads", lambda: 4)
    key = _machine.machine_key()
    files.keep(RouteTable(key, {}, {}, tuned().routes))
    files.keep(RouteTable({**key, "threads": 8}, {}, {}, ()))
    for threads, measured in ((1, 4), (4, 4), (5, 8)):
        monkeypatch.setattr(_machine, "get_num_threads", lambda threads=threads: threads)
        corepy.set_routes(None)
        table = sources.in_force().table
        assert table is not None
        assert table.threads == measured
    monkeypatch.setattr(_machine, "get_num_threads", lambda: 9)
    corepy.set_routes(None)
    with pytest.warns(corepy.RouteWarning, match=r"fit any more \(threads \d then, 9 now"):
        corepy.routes()


@pytest.mark.parametrize("what", ["listed", "searched"])
def test_a_cache_that_cannot_be_read_is_told_of_and_not_used(
    what: str, route_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(route_cache / "routes-1.json", tuned().dump())
    refusal = PermissionError(13, "Permission denied", str(route_cache))
    scandir, stat = os.scandir, Path.stat

    def listed(path: Any = ".") -> Any:  # tables that ship are listed on machines of no known kind
        if Path(path) == route_cache:
            raise refusal
        return scandir(path)

    def searched(self: Path, **options: Any) -> Any:
        if route_cache in self.parents:
            raise refusal
        return stat(self, **options)

    owner, name, refused = (os, "scandir", listed) if what == "listed" else (Path, "stat", searched)
    monkeypatch.setattr(owner, name, refused)
    with pytest.warns(corepy.RouteWarning, match="cache folder cannot be read .*denied"):
        assert corepy.routes() == sources.shipped().routes
    assert sources.otherwise() is not None


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_without_a_home_nothing_is_cached(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> NoReturn:
        raise RuntimeError("Could not determine home directory.")

    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "COREPY_ROUTES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(
        FileNotFoundError, match="no folder for caches .*; expected \\$HOME to name"
    ):
        files.cache_folder()
    assert sources.cached() == (None, "")
    assert _offload_costs.read_costs() == (None, "nothing was measured on this machine")


def test_a_cache_folder_that_is_none_is_empty(route_cache: Path) -> None:
    route_cache.write_text("")
    assert corepy.routes() == sources.shipped().routes


def test_a_table_that_went_away_is_no_other_one(route_cache: Path) -> None:
    files.write(route_cache / "routes-1.json", tuned().dump())
    (route_cache / "routes-2.json").symlink_to(route_cache / "gone.json")
    assert files.others(None) == [route_cache / "routes-1.json"]


def test_a_frozen_table_holds_whatever_changes(route_cache: Path) -> None:
    older = replace(tuned(), machine={**_machine.machine_key(), "versions": {"numpy": "1.0"}})
    files.write(files.frozen_file(), older.dump())
    assert corepy.routes() == older.routes
