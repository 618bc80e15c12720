"""How the benchmarks take and compare times."""

from __future__ import annotations

import time

import pytest

from benchmarks import _measure
from benchmarks._measure import Statement, Timing, compare, interleave, interleave_imports


def test_times_what_statements_take() -> None:
    statements = {
        "short": Statement("for _ in range(n): pass", {"n": 100}),
        "long": Statement("for _ in range(n): pass", {"n": 10_000}),
    }
    times = interleave(statements, rounds=9)
    assert {name: len(taken) for name, taken in times.items()} == {"short": 9, "long": 9}
    timings = compare(times, "short")
    assert timings["short"].ratio == timings["short"].least_ratio == 1
    assert timings["short"].over_ns == 0
    assert 20 < timings["long"].ratio < 500  # 100 in theory
    assert timings["long"].over_ns > timings["short"].median_ns


def test_compares_within_rounds() -> None:
    # The machine was ten times slower in the second round: both were, so the ratio is 2.
    times = {"base": [10.0, 100.0, 12.0], "other": [20.0, 200.0, 36.0]}
    found = compare(times, "base")["other"]
    assert found == Timing(median_ns=36, least_ns=20, ratio=2, least_ratio=2, over_ns=24)


def test_runs_as_often_as_it_is_told() -> None:
    ran: list[str] = []
    statements = {name: Statement("ran.append(name)", {"ran": ran, "name": name}) for name in "ab"}
    times = interleave(statements, rounds=3, counts={"a": 2, "b": 1})
    assert [len(times[name]) for name in "ab"] == [3, 3]
    assert (ran.count("a"), ran.count("b")) == (6, 3)
    ran.clear()
    interleave(statements, rounds=3, counts={"a": 2, "b": 1}, pause=1e-4, rehearse=1e-9)
    assert (ran.count("a"), ran.count("b")) == (9, 6)  # once more before each turn
    ran.clear()
    nap = {"a": Statement("ran.append('a'); sleep(0.01)", {"ran": ran, "sleep": time.sleep})}
    interleave(nap, rounds=1, counts={"a": 1}, rehearse=0.025)
    assert 2 <= len(ran) <= 4  # as often as it takes, and the one that counts


def test_pace_is_seconds_a_run() -> None:
    assert 0.01 < _measure.pace(Statement("sleep(0.01)", {"sleep": time.sleep})) < 0.1
    assert _measure.runs(1e-5) == 20
    assert _measure.runs(5.0) == 1


def test_times_imports_in_fresh_interpreters() -> None:
    times, modules = interleave_imports({"none": "pass", "json": "import json"}, rounds=2)
    assert [len(taken) for taken in times.values()] == [2, 2]
    assert min(times["json"]) > min(times["none"]) > 0
    assert "json" in modules["json"] - modules["none"]


def test_a_failing_import_is_an_error() -> None:
    with pytest.raises(Exception, match="non-zero exit status 1"):
        interleave_imports({"none": "import no_such_library"}, rounds=1)


def test_markdown_is_aligned() -> None:
    assert _measure.markdown([("op", "ns"), ("`a + b`", "5")]) == (
        "| op      | ns |\n| ------- | -: |\n| `a + b` |  5 |"
    )


def test_slug_is_a_file_name() -> None:
    assert _measure.slug("AMD EPYC(tm) 9-core @ 3/4 GHz ") == "amd-epyc-tm-9-core-3-4-ghz"
