"""What `corepy tune` found, cell by cell, and the routes that follow from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from corepy.dispatch._machine import machine_key
from corepy.dispatch._route_table import Option, RouteTable, parse
from corepy.dispatch._sites import HOST, MARGIN
from corepy.tuning._cells import ADMITTED as YES
from corepy.tuning._cells import Cell, Cells, Entrant, UnkeptError
from tests.tuning.cells import cell, entrant, routes_of


def test_routes_follow_from_cells() -> None:
    found = routes_of(
        cell(4096, entrant(5.0, company=1.2, busy=3.0)),
        cell(1024, entrant(0.5, verdict="no faster")),
        cell(16384, entrant(4.0, company=1.1, busy=2.0)),
        cell(65536, entrant(1.0, verdict="no faster")),
        cell(262144, entrant(1.5), entrant(1.4, "numba")),
    )
    assert [(r.least, [o.backend for o in r.options]) for r in found] == [
        (1936, ["torch"]),  # where times that grow evenly differ by the margin
        (43067, []),
        (131072, ["numba", "torch"]),  # torch is better by less than the margin
    ]
    assert found[0].options == (Option("torch", 4.0, 1.2, 2.0),)  # what holds for both sizes
    assert found[0].seconds == pytest.approx(1.936e-4, rel=1e-2)


def grown(size: int, backend: str, offset: float, slope: float) -> Cell:
    """Return a cell in which NumPy takes a microsecond an element, another so much, and so long."""
    gain = size / (offset + slope * size)
    verdict = YES if gain > MARGIN else "no faster"
    found = cell(size, entrant(gain, backend, verdict=verdict))
    return replace(found, seconds=size * 1e-6)


def test_a_route_begins_where_times_that_grow_evenly_differ_by_the_margin() -> None:
    (found,) = routes_of(*(grown(size, "numba", 1000.0, 0.5) for size in (1024, 4096, 16384)))
    where = MARGIN * 1000 / (1 - MARGIN * 0.5)
    assert 1024 < where < 4096
    assert found.least == pytest.approx(where, abs=1)
    assert found.seconds == pytest.approx(where * 1e-6, rel=1e-2)


def test_a_route_ends_likewise() -> None:
    begun, ended = routes_of(*(grown(size, "numba", -300.0, 1.0) for size in (1024, 4096, 16384)))
    assert (begun.least, ended.options) == (1024, ())
    assert ended.least == pytest.approx(MARGIN * 300 / (MARGIN - 1), abs=1)


def test_where_one_route_follows_another_it_begins_half_way() -> None:
    found = routes_of(
        cell(4096, entrant(2.0, "numba")),
        cell(16384, entrant(5.0), entrant(2.0, "numba")),
    )
    assert [r.least for r in found] == [4096, 8192]


def test_a_stretch_that_is_rounded_away_leaves_no_route() -> None:
    """So that no two begin at one size, which nobody could read back."""
    hardly = grown(4096, "numba", 4096 * (1 / MARGIN - 0.5) + 1e-3, 0.5)
    found = routes_of(
        grown(1024, "numba", 100.0, 0.5), hardly, grown(16384, "numba", 4096 * 0.2, 0.5)
    )
    assert len({r.least for r in found}) == len(found)
    assert [r.least for r in found] == sorted(r.least for r in found)
    assert hardly.entrants[0].verdict == "no faster"


def test_threads_of_other_libraries_are_not_woken_for_little() -> None:
    quick = replace(cell(4096, entrant(2.0), entrant(1.5, "numba")), seconds=HOST.least_seconds / 2)
    slow = replace(cell(16384, entrant(2.0), entrant(1.5, "numba")), seconds=HOST.least_seconds)
    # It saves what waking takes beside Numba's with its margin, which leaves 1 / 1.5 / 1.15.
    least = HOST.waking / (1 / 1.5 / HOST.margin - 1 / 2)
    before = replace(slow, size=65536, seconds=least * 0.99)
    after = replace(slow, size=262144, seconds=least * 1.01)
    assert [[o.backend for o in r.options] for r in routes_of(quick, slow, before, after)] == [
        ["numba"],
        ["numba", "torch"],
        ["torch", "numba"],
    ]


def test_numbas_loops_are_admitted_between_two_sizes_at_which_they_are() -> None:
    def steps(*entrants: tuple[str, float, str]) -> list[tuple[int, list[str]]]:
        found = {}
        for size, (name, gain, verdict) in zip((10_000, 30_000, 100_000), entrants, strict=True):
            entrant = Entrant(name, gain, 0.01, 1.0, 1.0 if name == "torch" else None, verdict)
            cell = Cell("sin", "float64", "", size, size * 1e-8, (entrant,), False)
            found[cell.key] = cell
        routes = Cells(Path("unused"), {}, found).routes()
        return [(route.least, [option.backend for option in route.options]) for route in routes]

    won, lost = ("numba", 2.0, "admitted"), ("numba", 2.0, "3.7x its time right after numpy")
    assert steps(won, lost, won) == [(10_000, ["numba"])]
    assert steps(won, ("numba", 1.1, "no faster"), won)[1][1] == []
    assert steps(lost, lost, won)[0][0] > 30_000
    assert steps(won, lost, lost)[1][1] == []
    torch = ("torch", 2.0, "admitted"), ("torch", 2.0, "too noisy to decide")
    assert len(steps(torch[0], torch[1], torch[0])) == 3


def test_nothing_is_routed_where_nobody_wins() -> None:
    assert routes_of(cell(1024, entrant(1.0, verdict="no faster"))) == ()


def test_cells_that_cannot_be_kept_say_so(tmp_path: Path) -> None:
    (tmp_path / "no folder").touch()
    with pytest.raises(UnkeptError) as caught:
        Cells(tmp_path / "no folder" / "cells.json", {}).write()
    assert isinstance(caught.value, OSError)
    assert "no folder" in str(caught.value)


def test_cells_are_read_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "cells.json"
    written = Cells(path, {"cpu": "a"}, start={"torch": 1.0})
    written.add(cell(1024, entrant(2.0)))
    again = Cells(path, {"cpu": "a"})
    assert again.read() is None
    assert (again.found, again.start) == (written.found, written.start)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text[:-20], "is damaged"),
        (lambda text: "null", "is damaged"),
        (lambda text: text.replace('"gain"', '"pain"'), "is damaged"),
        (lambda text: text.replace('"size": 1024', '"size": "x"'), "is damaged"),
        (lambda text: text.replace('"size": 1024', '"size": 0'), "is damaged"),
        (lambda text: text.replace('"size": 1024', '"size": 1024.5'), "is damaged"),
        (lambda text: re.sub('"seconds": [^,]+', '"seconds": null', text), "is damaged"),
        (lambda text: re.sub('"seconds": [^,]+', '"seconds": NaN', text), "is damaged"),
        (lambda text: re.sub('"seconds": [^,]+', f'"seconds": 1{"0" * 400}', text), "is damaged"),
        (lambda text: text.replace('"gain": 2.0', '"gain": true'), "is damaged"),
        (lambda text: text.replace('"gain": 2.0', '"gain": 0'), "is damaged"),
        (lambda text: text.replace('"busy": null', '"busy": "x"'), "is damaged"),
        (lambda text: text.replace('"single": null', '"single": []'), "is damaged"),
        (lambda text: text.replace('"verdict": "admitted"', '"verdict": null'), "is damaged"),
        (lambda text: text.replace('"dtype": "float64"', '"dtype": 64'), "is damaged"),
        (lambda text: text.replace('"undecided": false', '"undecided": "no"'), "is damaged"),
        (lambda text: text.replace('"start": {}', '"start": {"torch": Infinity}'), "is damaged"),
        (lambda text: text.replace('"start": {}', '"start": {"torch": 1e300}'), "is damaged"),
        (lambda text: text.replace('"alone": {}', '"alone": {"matmul": 1e999}'), "is damaged"),
        (lambda text: text.replace('"alone": {}', '"alone": {"matmul": 1e30}'), "is damaged"),
        (lambda text: text.replace('"alone": {}', '"alone": {"matmul": 1.5}'), "is damaged"),
        (lambda text: text.replace('"cpu": "a"', '"cpu": "b"'), "another version or machine"),
        (lambda text: text.replace('"format": 1', '"format": 9'), "another version or machine"),
    ],
)
def test_cells_that_are_damaged_or_of_another_machine_do_not_count(
    tmp_path: Path, spoil: Callable[[str], str], message: str
) -> None:
    path = tmp_path / "cells.json"
    Cells(path, {"cpu": "a"}).add(cell(1024, entrant(2.0)))
    path.write_text(spoil(path.read_text()))
    again = Cells(path, {"cpu": "a"})
    found = again.read()
    assert found is not None
    assert message in found
    assert again.found == {}


def test_what_is_no_longer_measured_leads_nowhere_and_is_kept() -> None:
    sin, cos = cell(1024, entrant(5.0)), cell(1024, entrant(5.0), operation="cos")
    kept = Cells(Path("unused"), {}, {each.key: each for each in (sin, cos)})
    counting = kept.of([cos])
    assert list(counting.found.values()) == [cos]
    assert [route.operation for route in counting.routes()] == ["cos"]
    assert list(kept.found.values()) == [sin, cos]


@pytest.mark.parametrize(
    "former",
    [
        entrant(3.0, "nobody"),  # no library of this version's
        entrant(3.0, "jax"),  # one that is not admitted for it
        entrant(0.4),  # it beat somebody else
    ],
)
def test_what_no_table_may_have_leads_nowhere(former: Entrant) -> None:
    routes = routes_of(cell(1024, former), cell(1 << 20, former, entrant(2.0, "numba")))
    assert [(route.least, route.options[0].backend) for route in routes] == [(1 << 15, "numba")]
    table = RouteTable(machine_key(), {}, {}, routes)
    assert parse(table.dump()).routes == routes


def test_two_tunings_at_once_keep_what_each_of_them_finds(tmp_path: Path) -> None:
    path, machine = tmp_path / "cells.json", {"cpu": "a"}
    Cells(path, machine).add(cell(1024, entrant(2.0), operation="exp"))
    first, second = Cells(path, machine), Cells(path, machine)
    assert first.read() is second.read() is None
    del first.found["exp/float64//1024"]  # to be measured again, as by --again
    sin, cos = (cell(1024, entrant(3.0), operation=name) for name in ("sin", "cos"))
    second.alone["matmul"] = 64
    second.add(cos)
    first.add(sin)
    second.add(replace(cos, size=4096))
    assert first.read() is None
    expected = ["cos/float64//1024", "cos/float64//4096", "sin/float64//1024"]
    assert sorted(set(first.found) - {"exp/float64//1024"}) == expected
    assert first.alone == {"matmul": 64}


def test_what_was_measured_here_is_newer_than_what_another_tuning_stored(tmp_path: Path) -> None:
    path = tmp_path / "cells.json"
    first, second = Cells(path, {}), Cells(path, {})
    second.add(cell(1024, entrant(2.0)))
    first.add(cell(1024, entrant(3.0)))
    again = Cells(path, {})
    assert again.read() is None
    assert again.found["sin/float64//1024"] == cell(1024, entrant(3.0))
    again.found.clear()  # as --again does: what was known does not come back
    again.write()
    assert again.read() is None
    assert again.found == {}
