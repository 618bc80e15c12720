"""`corepy tune`: what it measures, how it decides, and what it keeps; `corepy routes`."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import corepy
from conformance.accuracy import bound as published
from corepy import _budget
from corepy._cli import main
from corepy.backends._extents import EXTENTS
from corepy.dispatch import _registry, _route_libraries, _routes
from corepy.dispatch import _route_table as files
from corepy.dispatch._admitted import ADMITTED
from corepy.dispatch._crossings import bound
from corepy.dispatch._route_table import Option, RouteTable, parse
from corepy.tuning import _alone, _calls, _cases, _check, _clock, _kernels, _tune, tune
from corepy.tuning._cases import NUMPY, Case, cases, operands
from corepy.tuning._cells import ADMITTED as YES
from corepy.tuning._cells import Cell, Cells, Entrant
from corepy.tuning._clock import Comparison, Usage, after, compare, take_turns
from corepy.tuning._kernels import kernel_cases
from tests.test_tune_cells import cell, entrant, routes_of

CASES = list(cases())

# ---------------------------------------------------------------------------- the same meaning


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_what_is_admitted_means_the_same(case: Case) -> None:
    for name in case.candidates:
        found = _check.deviation(
            case, bound(case.operation, NUMPY), bound(case.operation, corepy.dispatch.load(name))
        )
        assert found is None, name


def test_the_bounds_are_the_published_ones() -> None:
    for operation in ADMITTED:
        bounds = {published(operation, "torch", dtype) for dtype in ("float32", "float64")}
        bounds |= {published(operation, "numba")}
        if operation not in ("__getitem__", "matmul", "tensordot"):
            assert bounds == {_check.ULP.get(operation, 0.0)}, operation


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: np.sin(x).astype(np.float32), "float32 .*; expected float64"),
        (lambda x: np.sin(x)[:-1], r"float64 .*; expected float64 \("),
        (lambda x: np.sin(x) * (1 + 1e-14), "ulp apart; expected at most 8"),
        (lambda x: np.nan_to_num(np.sin(x)), "one nan: other infinities or NaN"),
        (lambda x: np.sin(x) + 0.0, "minus zeros: zeros of other signs"),
        (lambda x: np.where(np.abs(x) > 1e100, np.nan, np.sin(x)), "special values: infinities"),
    ],
)
def test_a_candidate_that_means_something_else_is_found(
    wrong: Callable[[Any], Any], words: str
) -> None:
    case = Case("sin", "float64", "", ())
    found = _check.deviation(
        case, lambda args, params: np.sin(*args), lambda args, params: wrong(*args)
    )
    assert found is not None
    assert re.search(words, found), found


def test_cases_are_what_libraries_have_of_their_own() -> None:
    labels = {case.label: case.candidates for case in CASES}
    assert {case.operation for case in CASES} <= ADMITTED.keys()
    if "numba" in corepy.usable_backends():
        assert "numba" in labels["sqrt float64"]
        assert "numba" not in labels.get("linalg.inv float64", ())
    with pytest.raises(ValueError, match="'rm' is no operation that can be routed"):
        list(cases(["rm"]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_operands_have_the_form_that_the_router_recognizes(case: Case) -> None:
    args, params = operands(case, 4096, np.random.default_rng(0))
    admission = ADMITTED[case.operation]
    assert admission.former(args, params) == case.form
    of = EXTENTS.get(case.operation)
    size = max(np.size(x) for x in args) if of is None else of(*args)
    if "irfft" in case.operation:  # of a number of points that is a product of small ones
        assert 3072 < size <= 4096
    else:
        assert size == 4096


def test_calls_are_written_as_users_write_them() -> None:
    rng = np.random.default_rng(0)
    for case in CASES:
        args, params = operands(case, 1 << 16 if case.form == "inner" else 1024, rng)
        with np.errstate(all="ignore"):
            wanted = case.home(args, params)
            for backend in (None, *case.candidates):
                made = case.work(backend, args, params)()
                native = [unwrapped(x) for x in (made if isinstance(made, tuple) else [made])]
                wanted_ = list(wanted) if isinstance(wanted, tuple) else [wanted]
                assert [(x.dtype, x.shape) for x in native] == [
                    (np.asarray(x).dtype, np.shape(x)) for x in wanted_
                ], (case.label, backend)


def unwrapped(made: Any) -> Any:
    """Return NumPy's array, of an `Array` or as it is."""
    return made.unwrap() if isinstance(made, corepy.Array) else np.asarray(made)


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *(
            pytest.param(name, "numba", marks=pytest.mark.backend("numba"))
            for name in ("sqrt", "sum", "where", "__getitem__", "take", "searchsorted")
        ),
        # Of real operands it converts them, and asks the table of another dtype.
        pytest.param("fft.fft", "torch", marks=pytest.mark.backend("torch")),
    ],
)
def test_a_call_goes_the_way_that_it_is_to_be_measured_on(
    name: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[str] = []
    cross = _routes.crossing

    def watched(operation: str, *rest: Any) -> Any:
        call = cross(operation, *rest)

        def crossed(args: Any, params: Any) -> Any:
            gone.append(operation)
            return call(args, params)

        return crossed

    monkeypatch.setattr(_routes, "crossing", watched)
    monkeypatch.setattr(_routes.NEIGHBOURS, "until", math.inf)  # a call lost time: routes wait
    # A library that nobody has imported waits for its price.
    library = _route_libraries.LIBRARIES[backend]
    monkeypatch.setattr(library, "backend", None)
    monkeypatch.setattr(library, "price", 1e9)
    nowhere = replace(_registry.records()[backend], modules=("not_imported",))
    monkeypatch.setitem(_registry._records, backend, nowhere)
    _calls._home.cache_clear()
    mine = [case for case in CASES if case.operation == name and backend in case.candidates]
    for case in mine:
        if case.form != mine[0].form:
            continue
        args, params = operands(case, 1024, np.random.default_rng(0))
        case.work(None, args, params)()
        assert gone == []
        work = case.work(backend, args, params)
        gone.clear()
        work()
        assert gone == [name], case.label
        gone.clear()
    with corepy.set_routes("off"):  # which empties all tables
        case.work(backend, args, params)()
    assert gone == [name, name]
    _calls._home.cache_clear()


# ---------------------------------------------------------------------------- comparing


def test_rounds_in_which_something_came_between_do_not_count() -> None:
    base = [2.0] * 20
    times = [1.0] * 9 + [1.01] * 9 + [50.0, 80.0]
    found = compare(base, times)
    assert found.gain == pytest.approx(1.99, abs=0.02)
    assert found.noise < 0.02


@pytest.mark.parametrize(
    ("gain", "noise", "wins", "is_open"),
    [
        (1.20, 0.01, True, False),
        (1.15, 0.01, False, False),
        (1.20, 0.045, False, False),  # by less than the noise, which is small
        (1.30, 0.20, False, True),
        (3.00, 0.20, True, False),
        (0.80, 0.20, False, False),
    ],
)
def test_a_gain_has_to_exceed_the_margin_by_more_than_the_noise(
    gain: float, noise: float, wins: bool, is_open: bool
) -> None:
    found = Comparison(gain, noise)
    assert found.wins(1.15) is wins
    assert found.is_open(1.15) is is_open


def test_turns_are_interleaved() -> None:
    order: list[str] = []
    times = take_turns({name: lambda name=name: order.append(name) for name in "ab"}, 0.0)  # type: ignore[misc]
    assert {name: len(taken) for name, taken in times.items()} == {"a": 7, "b": 7}
    changes = sum(a != b for a, b in itertools.pairwise(order))
    assert changes > 7


def test_company_comes_right_before_each_run() -> None:
    order: list[str] = []
    after(lambda: order.append("x"), {"a": lambda: order.append("a")}, 3)
    assert order == ["x", "a"] * 3


def test_usage_counts_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from corepy.tuning import _clock

    seconds, now, own = 10.0, 0.0, 1.0
    monkeypatch.setattr(_clock, "busy_seconds", lambda: seconds)
    monkeypatch.setattr(_clock, "perf_counter", lambda: now)
    monkeypatch.setattr(_clock.os, "times", lambda: (own, 0.0, 0.0, 0.0, 0.0))
    usage = Usage()
    seconds, now, own = seconds + 5.0, now + 4.0, own + 3.0
    assert usage.cores() == 0.5
    monkeypatch.setattr(_clock, "busy_seconds", lambda: None)
    assert usage.cores() is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no groups of processes")
def test_an_interrupt_is_told_once_where_cores_are_busy() -> None:
    code = """
from corepy.tuning import _clock
with _clock.busy_cores(2):
    import time; time.sleep(0.3); print("ready", flush=True)
    try:
        time.sleep(60)
    finally:
        time.sleep(0.3)  # for others to say what they have to
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        parent.stdout.readline()
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stderr.read().count(b"KeyboardInterrupt") == 1


def test_no_core_stays_busy_where_another_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    class Process:
        def __init__(self, command: object, **options: Any) -> None:
            if next(number) == 3:
                raise BlockingIOError("no more processes")

        def kill(self) -> None:
            ended.append("killed")

        def wait(self) -> None:
            ended.append("gone")

    number = itertools.count(1)
    monkeypatch.setattr(subprocess, "Popen", Process)
    with pytest.raises(BlockingIOError), _clock.busy_cores(3):
        pass
    assert ended == ["killed"] * 2 + ["gone"] * 2


@pytest.mark.skipif(sys.platform == "win32", reason="Windows gives no orphan another parent")
def test_cores_do_not_stay_busy_where_a_tuning_was_killed() -> None:
    code = """
from corepy.tuning import _clock
spawn = _clock.subprocess.Popen
def told(command, **options):
    made = spawn(command, stdout=-1, **options)
    print(made.pid, flush=True)
    return made
_clock.subprocess.Popen = told
with _clock.busy_cores(1):
    import time; time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        other = int(parent.stdout.readline())
        assert is_running(other)
        parent.kill()
    for _ in range(200):
        if not is_running(other):
            return
        time.sleep(0.05)
    os.kill(other, 9)
    pytest.fail("it still runs")


def is_running(pid: int) -> bool:
    """Say whether a process runs: one that has ended may still wait for whoever asks after it."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    return found.stdout.strip()[:1] not in (b"", b"Z")


# ---------------------------------------------------------------------------- judging


class Clockwork:
    """Callables whose times follow from what ran before, by a clock of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, disturbed: float) -> None:
        from corepy.tuning import _clock

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


# ---------------------------------------------------------------------------- tuning


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure small arrays, once."""
    monkeypatch.setattr(_cases, "FIRST", 1 << 12)
    monkeypatch.setattr(_cases, "GREATER", (1 << 13,))
    monkeypatch.setattr(_cases, "SMALLER", (1 << 11, 1 << 10))
    monkeypatch.setattr(_tune, "ATTEMPTS", 1)
    monkeypatch.setattr(_alone, "SIDES", (100,))
    monkeypatch.setattr(_tune, "_start", lambda name: 0.5)
    monkeypatch.setattr(_tune, "get_num_threads", lambda: 1)  # no other core to keep busy


@pytest.mark.needs("threadpoolctl")
@pytest.mark.usefixtures("quick")
def test_tuning_finds_where_one_thread_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, said = tmp_path / "cells.json", list[str]()
    monkeypatch.setattr(_alone, "cores", lambda: 2)
    monkeypatch.setattr(_alone, "budget", lambda: None)

    def told(number: int, count: int, label: str) -> None:
        said.append(label)

    table = tune(["linalg.inv"], seconds=0.0, cells=path, progress=told).table
    assert set(table.alone) == {"linalg.inv"}
    assert "linalg.inv in one thread" in said
    assert parse(table.dump()).alone == table.alone
    said.clear()
    assert tune(["linalg.inv"], seconds=0.0, cells=path, progress=told).table.alone == table.alone
    assert "linalg.inv in one thread" not in said
    monkeypatch.setattr(_alone, "cores", lambda: 1)
    assert _alone.wanted(()) == []


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
def test_tuning_measures_and_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cells.json"
    seen: list[str] = []

    def interrupt(number: int, count: int, label: str) -> None:
        seen.append(f"{number}/{count} {label}")
        if number == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(["sqrt"], seconds=0.0, cells=path, progress=interrupt)
    assert seen == ["0/2 sqrt float32", "1/2 sqrt float64"]
    kept = json.loads(path.read_text())["cells"]
    assert {row["dtype"] for row in kept} == {"float32"}
    measured: list[str] = []
    measure = _tune._measured

    def counted(case: Case, size: int, *rest: Any) -> Cell:
        measured.append(case.dtype)
        return replace(measure(case, size, *rest), undecided=False)

    monkeypatch.setattr(_tune, "_measured", counted)
    outcome = tune(["sqrt"], seconds=0.0, cells=path)
    known = {row["dtype"] for row in kept if not row["undecided"]}
    assert "float64" in measured
    assert not known & set(measured) or any(row["undecided"] for row in kept)
    measured.clear()
    assert tune(["sqrt"], seconds=0.0, cells=path).table.routes == outcome.table.routes
    assert measured == []
    tune(["sqrt"], seconds=0.0, cells=path, again=True)
    assert {"float32", "float64"} <= set(measured)
    assert outcome.refused == ()
    assert parse(outcome.table.dump()).routes == outcome.table.routes
    assert outcome.table.machine == files.machine_key()


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
def test_what_is_measured_again_is_kept_until_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, measured = tmp_path / "cells.json", list[int]()
    stop = 0  # at which measurement the user interrupts; 0 for none

    def measure(case: Any, size: int, *_: Any) -> Cell:
        measured.append(size)
        if len(measured) == stop:
            raise KeyboardInterrupt
        loser = entrant(0.5, "numba", verdict="no faster")
        return Cell(case.operation, case.dtype, case.form, size, marked, (loser,), False)

    def stored() -> dict[str, float]:
        rows = json.loads(path.read_text())["cells"]
        return {f"{row['dtype']} {row['size']}": row["seconds"] for row in rows}

    monkeypatch.setattr(_tune, "_measured", measure)
    marked = 1e-4
    tune(["sign"], seconds=0.0, cells=path)
    before, count = stored(), len(measured)
    assert len(before) == count >= 4
    marked, stop = 2e-4, 2
    measured.clear()
    with pytest.raises(KeyboardInterrupt):
        tune(["sign"], seconds=0.0, cells=path, again=True)
    assert stored().keys() == before.keys()
    assert sorted(stored().values()) == [1e-4] * (count - 1) + [2e-4]
    stop = 0
    measured.clear()
    tune(["sign"], seconds=0.0, cells=path)  # with what there is
    assert measured == []
    tune(["sign"], seconds=0.0, cells=path, again=True)
    assert len(measured) == count
    assert stored() == dict.fromkeys(before, 2e-4)
    monkeypatch.setattr(_cases, "GREATER", ())
    tune(["sign"], seconds=0.0, cells=path, again=True)
    assert stored() == {key: 2e-4 for key in before if key.endswith(" 4096")}


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
def test_who_means_something_else_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_check, "deviation", lambda *_: "it is off by one")
    outcome = tune(["sign"], seconds=0.0, cells=tmp_path / "cells.json")
    assert "sign float64: numba: it is off by one" in outcome.refused
    assert outcome.table.routes == ()


def fail(*args: Any, **params: Any) -> NoReturn:
    raise RuntimeError("it fails")


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("operation", "label"),
    [("sign", "sign float64"), ("kernels.softmax", "kernels.softmax float64 numpy")],
)
def test_a_candidate_that_fails_is_not_measured(
    operation: str, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_check, "_difference", fail)
    monkeypatch.setattr(_kernels, "_difference", fail)
    outcome = tune([operation], seconds=0.0, cells=tmp_path / "cells.json")
    assert f"{label}: numba: RuntimeError: it fails" in outcome.refused
    assert outcome.table.routes == ()


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
def test_a_case_that_fails_while_it_is_measured_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = _tune._measured

    def measured(case: Case, size: int, *rest: Any) -> Cell:
        return fail() if case.dtype == "float32" else measure(case, size, *rest)

    monkeypatch.setattr(_tune, "_measured", measured)
    path = tmp_path / "cells.json"
    assert tune(["sqrt"], seconds=0.0, cells=path).refused == (
        "sqrt float32: RuntimeError: it fails",
    )
    assert {row["dtype"] for row in json.loads(path.read_text())["cells"]} == {"float64"}


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
def test_sizes_that_no_memory_holds_are_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, most = Case.operands, 1 << 12

    def operands(case: Case, size: int, rng: Any) -> Any:
        if size > most:
            raise MemoryError(f"{size} elements")
        return draw(case, size, rng)

    monkeypatch.setattr(Case, "operands", operands)
    monkeypatch.setattr(_tune, "_measured", lambda case, size, *_: won(case, size))
    path = tmp_path / "cells.json"
    assert tune(["sqrt"], seconds=0.0, cells=path).refused == ()
    sizes = {row["size"] for row in json.loads(path.read_text())["cells"]}
    assert sizes == {1 << 12, 1 << 11, 1 << 10}
    most = 0
    outcome = tune(["sqrt"], seconds=0.0, cells=path, again=True)
    assert "sqrt float64: MemoryError: 4096 elements" in outcome.refused


def won(case: Case, size: int) -> Cell:
    entrants = (entrant(2.0, "numba"),)
    return Cell(case.operation, case.dtype, case.form, size, 1e-4, entrants, False)


@pytest.mark.backend("numba")
@pytest.mark.backend("torch")
@pytest.mark.usefixtures("quick")
def test_libraries_that_are_broken_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setitem(_registry._broken, "torch", "OSError: libtorch_missing.so.2: no such file")
    monkeypatch.delitem(_registry._loaded, "torch", raising=False)
    tune(["acos"], seconds=0.0, cells=tmp_path / "cells.json", notice=said.append)
    assert said == ["torch is left out: OSError: libtorch_missing.so.2: no such file"]
    monkeypatch.setitem(_registry._broken, "numba", "ImportError: Numba needs another NumPy")
    monkeypatch.delitem(_registry._loaded, "numba", raising=False)
    outcome = tune(["acos"], seconds=0.0, cells=tmp_path / "other.json", notice=said.append)
    assert "numba is left out: ImportError: Numba needs another NumPy" in said
    assert outcome.table.routes == ()
    assert next(iter(kernel_cases(["kernels.softmax"]))).candidates == ()


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
def test_a_library_that_cannot_be_imported_in_a_process_of_its_own_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(name: str) -> float:
        raise ValueError("it cannot be imported")

    said: list[str] = []
    monkeypatch.setattr(_tune, "_start", start)
    outcome = tune(["sqrt"], seconds=0.0, cells=tmp_path / "cells.json", notice=said.append)
    assert "numba is left out: it cannot be imported" in said
    assert outcome.table.routes == ()
    assert outcome.refused == ()


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("seconds", "sizes"), [(0.0, [1 << 12, 1 << 13]), (9.0, [1 << 12, 1 << 14])]
)
def test_where_memory_decides_is_measured_for_what_is_quick(
    seconds: float, sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cases, "GREATER", (1 << 13, 1 << 14))
    monkeypatch.setattr(_cases, "SMALLER", ())
    monkeypatch.setattr(_tune, "QUICK", seconds)
    path = tmp_path / "cells.json"
    tune(["sqrt"], seconds=0.0, cells=path)
    found = [row["size"] for row in json.loads(path.read_text())["cells"]]
    assert [min(found), max(found)] == sizes


@pytest.mark.backend("torch")
def test_between_who_loses_and_who_wins_is_measured_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(case: Any, size: int, *rest: Any) -> Cell:
        verdict = "admitted" if size >= 20_000 else "1.9x its time right after numpy"
        entrants = (Entrant("torch", 2.0, 0.01, 1.0, 2.0, verdict),)
        return Cell(case.operation, case.dtype, case.form, size, size * 1e-9, entrants, False)

    monkeypatch.setattr(_tune, "_measured", measured)
    monkeypatch.setattr(_tune, "_start", lambda name: 0.5)
    monkeypatch.setattr(_tune, "_gain", lambda *_: 1.5)
    monkeypatch.setattr(_check, "deviation", lambda *_: None)
    path = tmp_path / "cells.json"
    outcome = tune(["linalg.eigh"], seconds=0.0, cells=path)
    rows = json.loads(path.read_text())["cells"]
    found = {row["size"] for row in rows if row["dtype"] == "float64"}
    assert {128**2, 181**2, 256**2} <= found
    assert not {90**2, 362**2} & found
    least = {route.least for route in outcome.table.routes if route.dtype == "float64"}
    assert least == {round(math.sqrt(128**2 * 181**2))}


@pytest.mark.backend("torch")
def test_the_middle_of_matrices_is_a_square() -> None:
    whole = next(case for case in cases(["linalg.inv"]) if case.squares)
    assert _tune._between(whole, 64**2, 128**2) == 90**2
    assert _tune._between(whole, 96**2, 112**2) is None


@pytest.mark.backend("numba")
def test_sizes_of_arrays_are_no_powers_of_two() -> None:
    """There stretches of two threads fall on the same lines of caches, and gains look smaller."""
    first, greater, smaller = next(cases(["sqrt"])).sizes()
    sizes = sorted([first, *greater, *smaller])
    assert not [n for n in sizes if n & (n - 1) == 0]
    assert all(b <= 4 * a for a, b in itertools.pairwise(sizes))


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


@pytest.mark.backend("numba")
@pytest.mark.usefixtures("quick")
def test_the_command_tunes_and_tells(route_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "sign"]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines()[0].startswith("0/")
    path = files.cache_file(files.machine_key())
    assert out.endswith(f"wrote {path}\n")
    assert parse(path.read_text()).made["command"] == "corepy tune"
    assert main(["tune", "rm"]) == 2
    assert "'rm' is no operation that can be routed" in capsys.readouterr().err
