"""The benchmark of dispatch: all peers compute the same, and its figures and claims are right."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corepy
from benchmarks import _measure, dispatch
from benchmarks.dispatch import NUMPY, PEERS, ROWS, Imports, Result
from tests.benchmarks.timings import SAME, timing

# ---------------------------------------------------------------------------- the rows


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.code)
def test_every_peer_computes_the_same(row: dispatch.Row) -> None:
    with corepy.backend_priority(["numpy"]):
        answers = {
            peer: np.asarray(eval(statement.code, dict(statement.names)))
            for peer, statement in dispatch.statements(row, 10, dispatch.present()).items()
        }
    assert {NUMPY, "corepy"} <= answers.keys()
    for peer, answer in answers.items():
        assert answer.dtype == answers[NUMPY].dtype, peer
        np.testing.assert_array_equal(answer, answers[NUMPY], err_msg=peer)


def test_corepy_wraps_and_the_others_do_not() -> None:
    row = next(row for row in ROWS if row.code == "xp.sin(a)")
    found = dispatch.statements(row, 10, dispatch.present())
    kinds = {peer: type(statement.names["a"]) for peer, statement in found.items()}
    assert kinds.pop("corepy") is corepy.Array
    kinds.pop("array_api_strict", None)
    assert set(kinds.values()) == {np.ndarray}


def test_missing_peers_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dispatch.PEERS, "autoray", "no_such_library")
    peers = dispatch.present()
    assert "autoray" not in peers
    assert {NUMPY, "corepy"} <= {*peers}
    machine = dispatch.describe_machine(peers)
    assert "autoray" in machine["missing"]
    result = Result("a + b", "10", {NUMPY: SAME, "corepy": timing(250, 2.5)})
    imports = Imports({"import numpy": SAME, "import corepy": SAME}, {"import numpy": []})
    imports.loaded["import corepy"] = []
    text = dispatch.report(machine, [result], imports, 3)
    assert text.endswith(f"Not installed, so not compared: {', '.join(machine['missing'])}.")
    cells = [cell.strip() for cell in text.partition("| `a + b`")[2].splitlines()[0].split("|")]
    assert cells == ["", "10", "100", "350", "250", "2.50 (2.50)", "-", "-", "-", ""]


@pytest.mark.parametrize(
    ("over", "ratio", "loaded", "held"),
    [
        (300.0, 1.3, [], [True, True, True]),
        (301.0, 1.3, [], [False, True, True]),
        (300.0, 1.31, [], [True, False, True]),
        (300.0, 1.3, ["torch"], [True, True, False]),
    ],
)
def test_claims(over: float, ratio: float, loaded: list[str], held: list[bool]) -> None:
    results = [
        Result("a + b", "1000", {NUMPY: SAME, "corepy": timing(9000, 9)}),  # nothing is claimed
        Result("a + b", "10", {NUMPY: SAME, "corepy": timing(over, 4)}),
    ]
    imports = Imports({"import corepy": timing(0, ratio)}, {"import corepy": loaded})
    assert [claim.holds for claim in dispatch.claims(results, imports)] == held


# ---------------------------------------------------------------------------- the command


def figures(monkeypatch: pytest.MonkeyPatch, over: float) -> None:
    """Let the command find these figures, at once."""
    result = Result("a + b", "10", {NUMPY: SAME, "corepy": timing(over, 2)})
    names = tuple(dispatch.IMPORTS)
    imports = Imports(dict.fromkeys(names, SAME), {name: [] for name in names})
    monkeypatch.setattr(dispatch, "measure", lambda *arguments: [result])
    monkeypatch.setattr(dispatch, "measure_in_python", lambda rounds, only: [result])
    monkeypatch.setattr(dispatch, "measure_imports", lambda rounds: imports)


def test_saves_json_and_markdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures(monkeypatch, over=250)
    monkeypatch.setattr(dispatch, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(_measure, "processor", lambda: "Some CPU")
    assert dispatch.main(["--save", "--rounds", "7"]) == 0
    files = sorted((tmp_path / "results").iterdir())
    assert [file.suffix for file in files] == [".json", ".md"]
    assert all(file.name.startswith("dispatch-some-cpu-2") for file in files)
    record: dict[str, Any] = json.loads(files[0].read_text())
    assert date.fromisoformat(record["date"]).isoformat() in files[0].name
    assert record["processor"] == "Some CPU"
    assert record["rounds"] == 7
    assert record["versions"]["numpy"] == np.__version__
    assert record["operations"][0]["timings"]["corepy"]["over_ns"] == 250
    assert record["in_python"] == record["operations"]
    assert [claim["holds"] for claim in record["claims"]] == [True, True, True]
    assert capsys.readouterr().out.startswith(files[1].read_text())


@pytest.mark.parametrize(
    ("over", "argv", "status"), [(250, ["--check"], 0), (350, ["--check"], 1), (350, [], 0)]
)
def test_check_decides_the_status(
    over: float,
    argv: list[str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures(monkeypatch, over)
    assert dispatch.main(argv) == status
    assert ("FAILS: a + b" in capsys.readouterr().out) is (over > 300)


def test_check_fails_where_a_claim_was_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    figures(monkeypatch, over=250)
    assert dispatch.main(["--only", "a * a", "--check"]) == 0
    monkeypatch.setattr(dispatch, "measure", lambda *arguments: [])
    assert dispatch.main(["--only", "a * a", "--check"]) == 1
    assert dispatch.main(["--only", "a * a"]) == 0


def test_refuses_to_measure_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        dispatch.main(["--only", "nosuch", "--check"])
    assert "--only is 'nosuch'" in capsys.readouterr().err


def test_measures_what_was_asked_for() -> None:
    rows = [row for row in ROWS if row.code in ("a * a", "xp.matmul(m, m)")]
    results = dispatch.measure(rows, [NUMPY, "corepy"], rounds=2)
    found = [(result.code, result.operands) for result in results]
    assert found == [("a * a", "10"), ("a * a", "1000"), ("xp.matmul(m, m)", "3 x 3")]
    for result in results:
        assert list(result.timings) == [NUMPY, "corepy"]
        assert result.timings["corepy"].median_ns > 0


def test_measures_the_form_in_python_beside_numpy() -> None:
    results = dispatch.measure_in_python(rounds=2)
    assert {(result.code, result.operands) for result in results} == {
        (row.code, row.operands or "10") for row in dispatch.ROWS
    }
    assert all(list(result.timings) == [NUMPY, "corepy"] for result in results)
    over = [result.timings["corepy"].over_ns for result in results]
    lines = dispatch.python_table(results).splitlines()[2:]
    assert [("holds" in line) for line in lines] == [ns <= dispatch.OVER_NS for ns in over]


@pytest.mark.parametrize("argv", [["--rounds", "0"], ["--import-rounds", "-1"]], ids=str)
def test_refuses_no_rounds(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        dispatch.main(argv)
    assert f"{argv[0]} is {argv[1]}; expected 1 up" in capsys.readouterr().err


def test_names_every_peer_once() -> None:
    assert list(PEERS)[:2] == [NUMPY, "corepy"]
    assert len({row.code for row in ROWS}) == len(ROWS)
