"""`corepy tune` of some operations, which keeps the routes of a table for all others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import corepy
from corepy._cli import main
from corepy.devices._device import CPU
from corepy.dispatch import _machine
from corepy.dispatch import _route_files as files
from corepy.dispatch import _route_sources as sources
from corepy.dispatch._route_table import Option, Route, RouteTable, parse
from corepy.tuning import _alone, _cases, _tune, tune
from corepy.tuning._cells import Cell, Cells, Entrant
from corepy.tuning._others import beside
from tests.tuning.cells import cell, entrant, routes_of


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure one small array, once, beside which nobody is faster."""
    monkeypatch.setattr(_cases, "FIRST", 1 << 10)
    monkeypatch.setattr(_cases, "GREATER", ())
    monkeypatch.setattr(_cases, "SMALLER", ())
    monkeypatch.setattr(_alone, "wanted", lambda only: [])
    monkeypatch.setattr(_tune, "_start", lambda name: 0.5)
    monkeypatch.setattr(
        _tune,
        "_measured",
        lambda case, size, *_: replace(
            cell(size, entrant(0.5, "numba", verdict="no faster")),
            **{name: getattr(case, name) for name in ("operation", "dtype", "form")},
        ),
    )


def of(routes: tuple[Route, ...], operation: str) -> list[Route]:
    return [route for route in routes if route.operation == operation]


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
def test_what_was_not_measured_keeps_the_routes_that_ship(
    route_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [route for route in corepy.routes() if route.operation != "sign"]
    assert main(["tune", "sign"]) == 0
    assert "keeps the routes of the table that ships with corepy" in capsys.readouterr().err
    corepy.set_routes(None)
    assert [route for route in corepy.routes() if route.operation != "sign"] == before
    assert of(corepy.routes(), "sign") == []  # measured: nobody is faster
    table = sources.in_force().table
    assert table is not None
    assert sources.in_force().origin.startswith("measured on this machine")
    assert table.made["others"] == "of the table that ships with corepy"
    assert {"numba", "torch"} <= table.start.keys()  # what importing the others costs
    assert main(["tune", "square"]) == 0  # and what was measured before stays too
    corepy.set_routes(None)
    assert of(corepy.routes(), "sign") == []
    assert main(["routes"]) == 0
    assert "others of the table that ships with corepy" in capsys.readouterr().out


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
def test_what_was_imported_stays_where_it_is_not_measured(route_cache: Path) -> None:
    key = _machine.machine_key()
    mine = RouteTable(key, {}, {}, routes_of(cell(1024, entrant(2.0))))
    files.write(files.cache_file(key), mine.dump())
    assert main(["tune", "sign"]) == 0
    corepy.set_routes(None)
    assert of(corepy.routes(), "sin") == list(mine.routes)
    assert "others" not in sources.in_force().table.made  # type: ignore[union-attr]


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
def test_a_whole_tuning_has_no_routes_of_others(tmp_path: Path) -> None:
    table = RouteTable({"threads": 2}, {}, {}, routes_of(cell(1024, entrant(2.0))))
    path = tmp_path / "cells.json"
    assert of(tune(["sign"], seconds=0.0, cells=path, others=table).table.routes, "sin")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tune, "_todo", lambda *_, todo=_tune._todo: todo(CPU, ["sign"]))
        assert not tune(seconds=0.0, cells=path, others=table).table.routes


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
def test_what_was_measured_by_half_keeps_its_routes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cases, "GREATER", (1 << 11,))
    path, measure = tmp_path / "cells.json", _tune._measured
    case = next(_cases.cases(["sign"]))
    route = Route("sign", case.dtype, case.form, 1000, 1e-3, (Option("numba", 4.0, single=3.0),))
    others = RouteTable(_machine.machine_key(), {}, {}, (route,))

    def interrupted(case: Any, size: int, *rest: Any) -> Cell:
        if size > 1 << 10:
            raise KeyboardInterrupt
        return measure(case, size, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tune, "_measured", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tune(["sign"], seconds=0.0, cells=path)
    assert len(json.loads(path.read_text())["cells"]) == 1
    found = tune(["square"], seconds=0.0, cells=path, others=others).table
    assert of(found.routes, "sign") == [route]
    tune(["sign"], seconds=0.0, cells=path)  # to its end: nobody is faster
    found = tune(["square"], seconds=0.0, cells=path, others=others).table
    assert of(found.routes, "sign") == []


@pytest.mark.usefixtures("quick")
def test_what_is_unknown_in_one_thread_or_beside_busy_cores_is_not_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_tune, "_is_realtime", lambda: False)
    monkeypatch.setattr(_tune, "get_num_threads", lambda: 2)
    case = _cases.Case("sin", "float64", "", ("torch",))

    def is_whole(winner: Entrant) -> bool:
        found = cell(1 << 10, winner)
        return _tune._is_whole(case, Cells(Path("unused"), {}, {found.key: found}))

    assert not is_whole(replace(entrant(2.0, busy=1.5), single=None))
    assert not is_whole(replace(entrant(2.0, busy=None), single=1.5))
    assert is_whole(replace(entrant(2.0, busy=1.5), single=1.5))
    monkeypatch.setattr(_tune, "get_num_threads", lambda: 1)  # nothing of that can be measured
    assert is_whole(entrant(2.0))


def test_routes_of_others_are_reckoned_for_the_threads_of_the_table() -> None:
    def routes(*options: Option) -> tuple[Route, ...]:
        return (Route("sin", "float64", "", 1000, 1e-3, options),)

    whole, half = Option("numba", 4.0, single=3.0), Option("torch", 2.0, busy=1.4)
    others = RouteTable({"threads": 2}, {}, {"torch": 1.0}, routes(whole, half), {"linalg.qr": 9})
    mine = RouteTable({"threads": 1}, {"date": "today"}, {"torch": 2.0}, ())
    found = beside(mine, (), others)
    assert found.routes == routes(replace(whole, gain=3.0))  # torch gained by threads alone
    assert (found.made, found.start) == ({"date": "today"}, {"torch": 2.0})
    assert found.alone == {"linalg.qr": 9}
    assert parse(found.dump()) == found
    assert beside(replace(mine, machine={"threads": 4}), (), others).routes == others.routes
    assert beside(mine, {("sin", "float64", "")}, others) is mine
