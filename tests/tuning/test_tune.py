"""A whole tuning: what it keeps, goes on with, refuses and leaves out; `corepy tune`."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from corepy._cli import main
from corepy.dispatch import _machine, _registry
from corepy.dispatch import _route_files as files
from corepy.dispatch._route_table import parse
from corepy.tuning import _alone, _cases, _check, _kernels, _tune, tune
from corepy.tuning._cases import Case, cases
from corepy.tuning._cells import Cell, Entrant
from corepy.tuning._clock import Usage
from corepy.tuning._kernels import kernel_cases
from tests.tuning.cells import entrant


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


@pytest.mark.needs("threadpoolctl")
@pytest.mark.usefixtures("quick")
def test_threads_of_blas_are_judged_where_there_are_cores_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, crowded = 640, True
    monkeypatch.setattr(_alone, "wanted", lambda only: ["linalg.inv"])
    monkeypatch.setattr(_alone, "rows_alone", lambda name, seconds: rows)
    monkeypatch.setattr(Usage, "is_crowded", lambda self, threads: crowded)
    path = tmp_path / "cells.json"
    found = tune(["linalg.inv"], seconds=0.0, cells=path)
    assert found.table.alone == {}
    assert "linalg.inv in one thread" in found.undecided
    rows, crowded = 128, False
    assert tune(["linalg.inv"], seconds=0.0, cells=path).table.alone == {"linalg.inv": 128}
    rows, crowded = 640, True
    found = tune(["linalg.inv"], seconds=0.0, cells=path, again=True)
    assert found.table.alone == {"linalg.inv": 128}


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
    assert outcome.table.machine == _machine.machine_key()


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
    with pytest.raises(ValueError, match="^nothing to compare with; install numba or torch$"):
        tune(["acos"], seconds=0.0, cells=tmp_path / "other.json", notice=said.append)
    assert "numba is left out: ImportError: Numba needs another NumPy" in said
    assert not (tmp_path / "other.json").exists()
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
    with pytest.raises(ValueError, match="^nothing to compare with; install numba$"):
        tune(["sqrt"], seconds=0.0, cells=tmp_path / "cells.json", notice=said.append)
    assert "numba is left out: it cannot be imported" in said


def test_nothing_is_written_where_there_is_nothing_to_compare_with(
    route_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where no other library is installed."""
    monkeypatch.setattr(_cases, "load_each", lambda names: iter(()))
    monkeypatch.setattr(_kernels, "load_each", lambda names: iter(()))
    monkeypatch.setattr(_alone, "wanted", lambda only: [])
    for words, expected in (([], "numba, torch or jax"), (["sign"], "numba")):
        assert main(["tune", *words]) == 2
        told = capsys.readouterr().err.splitlines()[-1]
        assert told == f"corepy: tune: nothing to compare with; install {expected}"
    assert not route_cache.exists()
    # How many threads BLAS is to have can be found out without.
    monkeypatch.setattr(_alone, "wanted", lambda only: ["linalg.inv"])
    monkeypatch.setattr(_alone, "rows_alone", lambda name, seconds: 128)
    assert main(["tune", "linalg.inv"]) == 0
    assert files.cache_file(_machine.machine_key()).is_file()


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
@pytest.mark.usefixtures("quick")
def test_the_command_tunes_and_tells(route_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "sign"]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines()[0].startswith("0/")
    path = files.cache_file(_machine.machine_key())
    assert out.endswith(f"wrote {path}\n")
    assert parse(path.read_text()).made["command"] == "corepy tune"
    assert main(["tune", "rm"]) == 2
    assert "'rm' is no operation that can be routed" in capsys.readouterr().err


def test_libraries_are_not_those_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit(3)")
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert _tune._start("json") >= 0
    with pytest.raises(ValueError, match=r"^no_such cannot be imported in .*: ModuleNotFoundError"):
        _tune._start("no_such")


def test_libraries_may_print_while_they_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "talkative.py").write_text("print('3 devices', end='')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert 0 <= _tune._start("talkative") < 3
