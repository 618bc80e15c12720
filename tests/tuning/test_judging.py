"""Who is admitted at a size: alone, in company, in one thread and beside busy cores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import _budget
from corepy.dispatch import _routes
from corepy.dispatch._route_table import Option, RouteTable
from corepy.dispatch._sites import CUDA
from corepy.tuning import _clock, _tune
from corepy.tuning._cases import Case
from corepy.tuning._cells import ADMITTED as YES
from corepy.tuning._cells import Cell, Cells
from corepy.tuning._clock import Usage
from tests.tuning.cells import cell, entrant, routes_of


class Clockwork:
    """Callables whose times follow from what ran before, by a clock of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, disturbed: float) -> None:
        self.now, self.last, self.disturbed = 0.0, "", disturbed
        monkeypatch.setattr(_clock, "perf_counter", lambda: self.now)

    def work(self, name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            spun = name == "fast" and self.last == "company"
            self.now += seconds * (self.disturbed if spun else 1.0)
            self.last = name

        return run


@pytest.mark.parametrize(
    ("disturbed", "verdict", "company"),
    [
        (1.2, YES, 1.2),
        (1.6, YES, 1.6),  # longer than it may, and still twice as fast as NumPy
        (2.9, YES, 2.9),  # and still no slower
        (4.0, "4.0x its time right after blas", 4.0),
    ],
)
def test_who_loses_in_company_is_not_admitted(
    monkeypatch: pytest.MonkeyPatch, disturbed: float, verdict: str, company: float
) -> None:
    clock = Clockwork(monkeypatch, disturbed)
    works = {"home": clock.work("home", 0.03), "fast": clock.work("fast", 0.01)}
    case = Case("sin", "float64", "", ("fast",))
    cell = _tune._measured(case, 1000, works, {"blas": clock.work("company", 0.001)}, 0.1)
    (entrant,) = cell.entrants
    assert entrant.verdict == verdict
    assert entrant.company == pytest.approx(company)
    assert entrant.gain == pytest.approx(3.0)
    assert not cell.undecided


def test_what_is_less_precise_has_to_beat_what_the_home_can_do_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clockwork(monkeypatch, 1.0)
    seconds = {"home": 0.03, "home, fast": 0.02, "numba": 0.02, "torch": 0.019}
    works = {name: clock.work(name, taken) for name, taken in seconds.items()}
    case = Case("linalg.inv", "float32", "", ("numba", "torch"))
    cell = _tune._measured(case, 1000, works, {}, 0.1)
    assert [(e.backend, e.verdict) for e in cell.entrants] == [
        ("numba", YES),
        ("torch", "no faster"),
    ]
    # Gains are over the home as it is, so that candidates can be compared by them.
    assert [e.gain for e in cell.entrants] == pytest.approx([1.5, 0.03 / 0.019], abs=0.01)


def test_what_is_slower_than_the_home_is_not_admitted_whatever_else_it_beats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Among noise NumPy's own routines of float32 may seem slow; a table has no gain below one."""
    clock = Clockwork(monkeypatch, 1.0)
    seconds = {"home": 0.03, "home, fast": 0.3, "torch": 0.1}
    works = {name: clock.work(name, taken) for name, taken in seconds.items()}
    case = Case("linalg.svd", "float32", "", ("torch",))
    (found,) = _tune._measured(case, 4096, works, {}, 0.1).entrants
    assert (found.verdict, found.gain) == ("no faster", pytest.approx(0.3))


def test_who_loses_while_others_have_the_cores_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What shares its work among threads loses then to what does not, and may win next time."""
    clock = Clockwork(monkeypatch, 1.0)
    seconds = {"home": 0.03, "numba": 0.02, "torch": 0.3}
    works = {name: clock.work(name, taken) for name, taken in seconds.items()}
    case = Case("sin", "float64", "", ("numba", "torch"))
    assert not _tune._measured(case, 4096, works, {}, 0.1).undecided
    monkeypatch.setattr(Usage, "is_crowded", lambda self, threads: True)
    found = _tune._measured(case, 4096, works, {}, 0.1)
    assert found.undecided
    assert [e.verdict for e in found.entrants] == [YES, "too noisy to decide"]
    assert not _tune._measured(case, 4096, works, {}, 0.1, CUDA).undecided  # it waits for no core


def test_precisions_are_measured_where_there_is_a_choice() -> None:
    def levels(operation: str, dtype: str) -> dict[str, str]:
        case = Case(operation, dtype, "", ())
        seen: list[str] = []
        work = lambda *_: lambda: seen.append(corepy.get_precision())  # noqa: E731
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Case, "work", work)
            works = _tune._works(case, 4096, ["torch"])
        for call in works.values():
            call()
        return dict(zip(works, seen, strict=True))

    assert levels("linalg.inv", "float64") == {"home": "full", "torch": "full"}
    assert levels("linalg.inv", "float32") == {
        "home": "full",
        "torch": "fast",
        "home, fast": "fast",
    }


def test_a_machine_too_noisy_to_decide_leaves_the_cell_to_numpy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clockwork(monkeypatch, 1.0)
    rng = np.random.default_rng(0)

    def noisy() -> None:
        clock.now += 0.01 / rng.uniform(0.4, 2.0)

    works = {"home": clock.work("home", 0.01), "fast": noisy}
    case = Case("sin", "float64", "", ("fast",))
    cell = _tune._measured(case, 1000, works, {}, 0.1)
    assert cell.undecided
    assert cell.entrants[0].verdict == "too noisy to decide"
    cells = Cells(Path("unused"), {}, {cell.key: cell})
    assert cells.routes() == ()


@pytest.mark.backend("numba")
def test_who_wins_beside_busy_cores_alone_runs_there_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slower = entrant(0.8, "numba", verdict="no faster")
    case = Case("matmul", "float64", "inner", ("numba",))
    assert _tune._is_unmet(case, slower)
    assert not _tune._is_unmet(replace(case, form=""), slower)
    assert not _tune._is_unmet(case, replace(slower, backend="torch"))
    assert _tune._beside_busy(slower, 1.4) == replace(slower, busy=1.4)
    found = _tune._beside_busy(slower, 9.0)
    assert (found.verdict, found.gain, found.busy) == (YES, 1.0, 9.0)
    (route,) = routes_of(cell(1024, found))
    assert route.options == (Option("numba", 1.0, found.company, 9.0),)
    table = RouteTable({"threads": 1}, {}, {}, (route,))
    assert _routes._open_options(route.options, table) == list(route.options)
    assert _routes._open_options((replace(route.options[0], busy=1.4),), table) == []
    for busy in (False, True):
        monkeypatch.setattr(type(_routes.NEIGHBOURS), "busy", lambda *_, busy=busy: busy)
        assert _routes.is_worth(route.options[0], 1) is busy


def test_who_is_admitted_is_measured_in_one_thread_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def gain(case: Any, size: int, name: str, seconds: float) -> float:
        asked.append(name)
        return 2.5

    monkeypatch.setattr(_tune, "_gain", gain)
    monkeypatch.setattr(_tune, "get_num_threads", lambda: 2)
    settled: list[int] = []
    monkeypatch.setattr(_tune, "set_num_threads", settled.append)
    case = Case("sin", "float64", "", ("numba", "torch"))
    slower = entrant(0.8, verdict="no faster")
    found = cell(1024, entrant(3.0, "numba"), slower)
    kept = Cells(tmp_path / "cells.json", {}, {found.key: found})
    _tune._run_in_one_thread(case, [found], kept, 0.1)
    assert kept.found[found.key].entrants == (replace(found.entrants[0], single=2.5), slower)
    assert (asked, settled) == (["numba"], [1, 2])
    (route,) = kept.routes()
    assert [option.single for option in route.options] == [2.5]
    again = Cells(kept.path, {})
    assert again.read() is None
    assert again.found == kept.found
    _tune._run_in_one_thread(case, [found], again, 0.1)  # it is known
    assert settled == [1, 2]


@pytest.mark.parametrize("asked", [None, 2])
def test_what_was_asked_for_holds_after_one_thread(
    asked: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int | None] = []

    def gain(*_: Any) -> float:
        seen.append(_budget.budget())
        return 2.5

    monkeypatch.setattr(_tune, "_gain", gain)
    monkeypatch.setattr(_tune, "get_num_threads", lambda: 2)
    monkeypatch.setattr(_tune, "set_num_threads", _budget.settle)  # no library is told
    monkeypatch.setattr(_budget, "_budget", asked)
    monkeypatch.setattr(_budget, "_environment_read", True)
    found = cell(1024, entrant(3.0, "numba"))
    kept = Cells(tmp_path / "cells.json", {}, {found.key: found})
    _tune._run_in_one_thread(Case("sin", "float64", "", ("numba",)), [found], kept, 0.1)
    assert seen == [1]
    assert _budget.budget() == asked


def test_what_was_undecided_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, sizes = Cells(tmp_path / "cells.json", {}), list[int]()
    kept.add(replace(cell(1024, entrant(1.0)), undecided=True))

    def measured(case: Any, size: int, *_: Any) -> Cell:
        sizes.append(size)
        return cell(size, entrant(2.0))

    monkeypatch.setattr(_tune, "_works", lambda *_: {})
    monkeypatch.setattr(_tune, "_measured", measured)
    case = Case("sin", "float64", "", ("torch",))
    for _ in range(2):
        assert not _tune._cell(case, 1024, ["torch"], kept, {}, 0.0).undecided
    assert sizes == [1024]


def test_what_was_found_when_it_was_quiet_is_not_lost_among_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Cells(tmp_path / "cells.json", {})
    quiet = cell(1024, entrant(2.0))
    noisy = replace(cell(1024, entrant(0.5, verdict="too noisy to decide")), undecided=True)
    case = Case("sin", "float64", "", ("torch",))
    found = noisy
    monkeypatch.setattr(_tune, "_works", lambda *_: {})
    monkeypatch.setattr(_tune, "_measured", lambda *_: found)
    kept.add(quiet)
    kept.stale = {quiet.key}  # as by --again
    for _ in range(2):
        assert _tune._cell(case, 1024, ["torch"], kept, {}, 0.0).entrants == quiet.entrants
        assert kept.found[quiet.key].undecided  # so that it is measured once more
    found = cell(1024, entrant(1.5))
    assert _tune._cell(case, 1024, ["torch"], kept, {}, 0.0) == found
    # Of others, which were not candidates then, it tells nothing.
    found = replace(noisy, entrants=(*noisy.entrants, entrant(0.5, "numba", verdict="no faster")))
    kept.stale = {quiet.key}
    assert _tune._cell(case, 1024, ["torch"], kept, {}, 0.0) == found
