"""The grid of operations and sizes: all peers answer the same, and its figures are right."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corepy
from benchmarks import _grid_peers, _grid_report, _measure, grid
from benchmarks._grid_operations import ELEMENTWISE, LINALG, OPERATIONS, Operation, one
from benchmarks._grid_peers import AGAIN, COREPY, FAST
from benchmarks._grid_report import Cell
from benchmarks.dispatch import NUMPY
from tests.benchmarks.timings import SAME

# ---------------------------------------------------------------------------- answers


def operation_named(name: str) -> Operation:
    return next(operation for operation in OPERATIONS if operation.name == name)


@pytest.fixture
def wide_jax() -> Iterator[None]:
    """Let JAX have 64 bits, as the grid does, and no longer than here."""
    if not find_spec("jax"):
        yield
        return
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.usefixtures("wide_jax")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_peer_answers_the_same(operation: Operation) -> None:
    for dtype in operation.dtypes:
        peers = [p for p in _grid_peers.present() if p.takes(operation, dtype, operation.sizes[0])]
        if dtype != operation.dtypes[0]:  # which JAX would compile anew
            peers = [peer for peer in peers if peer.library != "jax"]
        errors: list[str] = []
        found = grid.prepared(operation, dtype, operation.sizes[0], peers, errors)
        assert errors == []
        assert list(found) == [peer.name for peer in peers]
        assert {NUMPY, AGAIN, COREPY} <= found.keys()


def test_every_library_has_arrays_of_its_own_in_one_memory() -> None:
    peers = [peer for peer in _grid_peers.present() if peer.library != "jax"]
    found = grid.prepared(operation_named("sqrt"), "float64", 10, peers, [])
    kinds = {name: type(statement.names["a"]).__module__ for name, statement in found.items()}
    expected = {
        NUMPY: "numpy",
        AGAIN: "numpy",
        "array_api_compat": "numpy",
        "torch": "torch",
        "array_api_strict": "array_api_strict._array_object",
        "numba": corepy.Array.__module__,
        COREPY: corepy.Array.__module__,
        FAST: corepy.Array.__module__,
    }
    assert kinds == {name: expected[name] for name in kinds}
    backends = {name: found[name].names["a"].backend for name in ("numba", COREPY) if name in found}
    assert backends.get("numba", "numba") == "numba"
    native = found[COREPY].names["a"].unwrap()  # in the same memory, so in the same caches
    assert np.may_share_memory(np.asarray(native), found[NUMPY].names["a"])


def test_an_unequal_answer_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Operation(
        "wrong", ELEMENTWISE, "xp.sqrt(a)", one(1, 9), ("float64",), spelled={"corepy": "xp.exp(a)"}
    )
    monkeypatch.setattr(grid, "OPERATIONS", (wrong,))
    assert grid.main(["--only", "wrong", "--sizes", "10", "--peers", "torch"]) == 1
    out = capsys.readouterr().out
    assert "- wrong, float64, 10: corepy: UnequalError: differs from NumPy's by " in out


def test_a_peer_that_raises_is_an_error() -> None:
    broken = replace(operation_named("sqrt"), spelled={"corepy": "xp.no_such_function(a)"})
    errors: list[str] = []
    found = grid.prepared(broken, "float64", 10, peers_named(NUMPY, COREPY), errors)
    assert list(found) == [NUMPY]
    assert errors[0].startswith("sqrt, float64, 10: corepy: AttributeError: ")


@pytest.mark.parametrize(
    ("want", "have", "message"),
    [
        ([1.0, 2.0], [1.0, 2.0 + 1e-10], None),
        ([1.0, 2.0], [1.0, 2.0 + 1e-8], "differs from NumPy's by 1e-08, more than 2e-09"),
        ([1.0, 2.0], [1.0, math.nan], "differs from NumPy's by nan"),
        ([1, 2], [1, 3], "differs from NumPy's by 1, more than 0"),
        ([True, False], [True, True], "differs from NumPy's by 1, more than 0"),
        ([1.0, 2.0], [[1.0, 2.0]], r"got float64 of shape \(1, 2\), expected float64 of \(2,\)"),
        ([1.0, 2.0], [1, 2], "got int64"),
    ],
)
def test_holds_answers_equal(want: Any, have: Any, message: str | None) -> None:
    pair = ((np.asarray(want),), (np.asarray(have),))
    if message is None:
        grid.hold_equal(*pair, tolerance=1e-9)
    else:
        with pytest.raises(grid.UnequalError, match=message):
            grid.hold_equal(*pair, tolerance=1e-9)


def test_compares_every_element() -> None:
    want = np.zeros(3 * grid.BLOCK + 1)
    want[0] = 1
    have = want.copy()
    have[-1] = 1e-3
    with pytest.raises(grid.UnequalError, match="by 0.001, more than 1e-09"):
        grid.hold_equal((want,), (have,), 1e-9)


# ---------------------------------------------------------------------------- figures


def peers_named(*names: str) -> list[_grid_peers.Peer]:
    return [peer for peer in _grid_peers.PEERS if peer.name in names]


def cell(
    ratio: float,
    *,
    operation: str = "sqrt",
    dtype: str = "float64",
    size: int = 10,
    behind: float = 1.0,
    fast: float | None = None,
) -> Cell:
    """Make a cell in which corepy takes `ratio` times NumPy's time, `behind` the best's."""
    timings = {NUMPY: 1.0, AGAIN: 1.02, "torch": ratio / behind, COREPY: ratio}
    beside = {COREPY: behind}
    if fast is not None:
        timings[FAST], beside[FAST] = fast, behind
    made = {name: replace(SAME, ratio=value) for name, value in timings.items()}
    group = operation_named(operation).group
    return Cell(operation, group, dtype, size, 5, made, "torch", beside)


def test_cell_of_times() -> None:
    times = {
        NUMPY: [10.0, 100.0, 10.0],
        AGAIN: [11.0, 110.0, 11.0],
        "torch": [5.0, 50.0, 5.0],
        "jax": [20.0, 90.0, 20.0],
        COREPY: [8.0, 80.0, 4.0],
    }
    found = Cell.of(operation_named("sqrt"), "float32", 1000, times)
    assert found.title == "sqrt float32 1e3"
    assert found.rounds == 3
    assert found.best == "torch"
    assert found.speed(COREPY) == pytest.approx(1.25)
    assert found.speed("torch") == 2
    assert found.beside_best == {COREPY: pytest.approx(1.6)}
    assert found.noise == pytest.approx(0.1)


def test_the_best_is_another_library() -> None:
    times = {NUMPY: [3.0], AGAIN: [2.0], COREPY: [1.0], FAST: [0.5]}
    found = Cell.of(operation_named("solve"), "float32", 512, times)
    assert found.best == NUMPY
    assert found.beside_best == {COREPY: pytest.approx(1 / 3), FAST: pytest.approx(1 / 6)}


@pytest.mark.parametrize(
    ("cells", "held"),
    [
        # Means on 10 and 1,000 elements, and the slowest of the small ones.
        ([cell(0.4)], [True, True]),
        ([cell(0.41)], [False, True]),
        ([cell(0.2), cell(0.8)], [True, True]),  # 2.5 in geometric mean
        ([cell(0.2), cell(0.81)], [False, True]),
        ([cell(0.5, size=1000)], [True, True]),
        ([cell(0.51, size=1000)], [False, True]),
        ([cell(1.1, operation="where")], [True]),  # no reduction, so of no mean
        ([cell(1.11, operation="where")], [False]),
        ([cell(1.11, operation="solve", size=32)], [False]),
        ([cell(9.9, operation="solve", size=128)], []),  # nothing is promised
        # The mean, the slowest, and the one furthest behind the best of the large ones.
        ([cell(0.5, size=100_000)], [True, True, True]),
        ([cell(0.51, size=100_000)], [False, True, True]),
        ([cell(0.1, size=10**6), cell(1.05, operation="where", size=10**7)], [True] * 3),
        ([cell(0.1, size=10**6), cell(1.06, operation="where", size=10**7)], [True, False, True]),
        ([cell(0.5, size=100_000, behind=1.1)], [True, True, True]),
        ([cell(0.5, size=100_000, behind=1.11)], [True, True, False]),
        ([cell(0.5, operation="solve", size=512)], [True, True, True]),
        ([cell(9.9, operation="solve", size=512, dtype="float32")], []),
        ([cell(9.9, operation="solve", size=512, dtype="float32", fast=0.5)], [True, True, True]),
        ([cell(0.1, operation="solve", size=512, dtype="float32", fast=1.2)], [False, False, True]),
    ],
)
def test_claims(cells: list[Cell], held: list[bool]) -> None:
    assert [claim.holds for claim in _grid_report.claims(cells)] == held


def test_claims_name_the_worst_first() -> None:
    cells = [cell(0.1), cell(1.2), cell(3.0, operation="where"), cell(1.11, dtype="float32")]
    mean, slowest = _grid_report.claims(cells)
    assert "1.96 times as fast as NumPy in geometric mean (limit 2.5)" in mean.text
    assert slowest.text.endswith("NumPy's time: 3 of 4, 1 of them by less than the noise")
    assert [entry.partition(":")[0] for entry in slowest.entries] == [
        "where float64 10",
        "sqrt float64 10",
        "sqrt float32 10",
    ]
    assert slowest.entries[0] == "where float64 10: 3.00 times NumPy's time"


@pytest.mark.parametrize(
    ("found", "again"),
    [
        (cell(1.0), False),
        (cell(1.2), True),
        (cell(2.0), True),
        (cell(1.2, operation="solve", size=128), False),
        (cell(1.1, size=100_000), True),
        (cell(0.5, size=100_000, behind=1.2), True),
        (cell(0.5, size=100_000, behind=2.0), True),
    ],
)
def test_measures_again_what_breaks_a_limit(found: Cell, again: bool) -> None:
    assert _grid_report.breaks_a_limit(found) is again


def test_leaves_out_what_would_take_too_long() -> None:
    sort, pace = operation_named("sort"), grid.Pace()
    peers = peers_named(NUMPY, "torch", "array_api_compat", COREPY)

    def chosen(size: int) -> tuple[list[str], list[str]]:
        effort = grid.Effort(seconds=1, limit=5)
        left, slow = grid.candidates(sort, "float64", size, peers, pace, effort)
        return [peer.name for peer in left], slow

    everyone = [peer.name for peer in peers]
    assert chosen(10**6) == (everyone, [])
    pace.note(sort, "float64", "torch", 10**5, 0.6)
    assert chosen(10**6) == ([NUMPY, "array_api_compat", COREPY], ["torch"])
    pace.note(sort, "float64", NUMPY, 10**5, 0.3)  # a round takes over two seconds
    assert chosen(10**6) == ([NUMPY, COREPY], ["torch"])
    assert chosen(10**7) == ([], everyone)


def test_work_grows_with_the_cube_of_an_order() -> None:
    solve, pace = operation_named("solve"), grid.Pace()
    pace.note(solve, "float64", NUMPY, 512, 0.06)
    assert pace.expected(solve, "float64", NUMPY, 1024) == pytest.approx(0.48)
    pace.note(solve, "float64", NUMPY, 512, 0.04)  # much of it may be overhead
    assert pace.expected(solve, "float64", NUMPY, 1024) == 0


@pytest.mark.parametrize(
    ("size", "text"), [(8, "8"), (10, "10"), (512, "512"), (1000, "1e3"), (10**7, "1e7")]
)
def test_sizes_are_written_shortly(size: int, text: str) -> None:
    assert _grid_report.size_text(size) == text


def test_names_every_operation_once() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    assert sum(operation.group != LINALG for operation in OPERATIONS) >= 60
    assert sum(operation.group == LINALG for operation in OPERATIONS) == 8


# ---------------------------------------------------------------------------- the command


def test_runs_and_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(grid, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(_measure, "processor", lambda: "Some CPU")
    argv = ["--only", "qr", "--sizes", "10", "8", "--peers", "torch", "--rounds", "2", "--save"]
    assert grid.main(argv) == 0
    stem = f"grid-some-cpu-{date.today().isoformat()[:4]}"
    files = {file.suffix: file for file in (tmp_path / "results").iterdir()}
    assert all(file.name.startswith(stem) for file in files.values())
    expected = {".json", ".md"} | ({".svg"} if find_spec("matplotlib") else set())
    assert set(files) == expected

    record = json.loads(files[".json"].read_text())
    found = [(row["operation"], row["dtype"], row["size"]) for row in record["cells"]]
    assert found == [
        ("sqrt", "float32", 10),
        ("sqrt", "float64", 10),
        ("qr", "float32", 8),
        ("qr", "float64", 8),
    ]
    for row in record["cells"]:
        assert {NUMPY, AGAIN, COREPY} <= row["timings"].keys() <= {NUMPY, AGAIN, COREPY, "torch"}
        assert row["timings"][NUMPY]["ratio"] == 1
        assert row["timings"][COREPY]["median_ns"] > 0
        assert row["best"] in {NUMPY, "torch"} & row["timings"].keys()
    assert record["errors"] == []
    text = files[".md"].read_text()
    assert "## What it must show" in text
    assert "| `qr`      | float32 |" in text
    assert "in the median cell" in text
    out = capsys.readouterr().out
    assert out.startswith(text.partition("\n\n![Speed")[0])


@pytest.mark.parametrize(
    ("ratio", "argv", "status"), [(0.3, ["--check"], 0), (0.5, ["--check"], 1), (0.5, [], 0)]
)
def test_check_decides_the_status(
    ratio: float,
    argv: list[str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = [cell(ratio), cell(0.3, size=1000), cell(0.3, size=10**6)]
    shown.append(cell(0.3, operation="solve", size=512, dtype="float32", fast=0.3))
    monkeypatch.setattr(grid, "run", lambda *arguments: grid.Grid(shown))
    assert grid.main(argv) == status
    assert ("- FAILS: elementwise" in capsys.readouterr().out) is (ratio == 0.5)


def test_check_fails_where_a_claim_was_not_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(grid, "run", lambda *arguments: grid.Grid([cell(0.3)]))
    assert grid.main(["--only", "sqrt", "--check"]) == 1
    assert "--check: 7 of the claims were not measured" in capsys.readouterr().err
    assert grid.main(["--only", "sqrt"]) == 0


def test_refuses_what_it_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, message in (
        (["--rounds", "0"], "--rounds is 0; expected 1 up"),
        (["--sizes", "11"], "argument --sizes: invalid choice: "),
        (["--peers", "pandas"], "argument --peers: invalid choice: "),
        (["--only", "nosuchop", "--check"], "--only is 'nosuchop'"),
    ):
        with pytest.raises(SystemExit, match="2"):
            grid.main(argv)
        assert message in capsys.readouterr().err
