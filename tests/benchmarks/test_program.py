"""The benchmark of a whole program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks import program


def outcome(second: float, peak: int = 100, **found: Any) -> program.Outcome:
    made = program.Outcome(2 * second, second, peak, [0.5, 0.25], [600, 400])
    return replace(made, **found)


def test_compares_round_by_round() -> None:
    runs = {
        "numpy": [outcome(3.0, 100), outcome(30.0, 110), outcome(4.0, 100)],
        "corepy": [outcome(2.0, 120), outcome(10.0, 110), outcome(2.0, 130)],
    }
    found = program.compared("alone", runs)
    assert (found.speed, found.first_speed, found.memory) == (2, 2, 1.2)
    assert found.seconds == {"numpy": 4, "corepy": 2}
    assert found.peak == {"numpy": 100, "corepy": 120}


@pytest.mark.parametrize(
    ("speeds", "memory", "held"),
    [
        ((1.5, 1.5), 1.2, [True, True, True]),
        ((1.5, 1.49), 1.2, [True, False, True]),
        ((1.49, 1.5), 1.21, [False, True, False]),
    ],
)
def test_claims(speeds: tuple[float, float], memory: float, held: list[bool]) -> None:
    base = program.compared("", {"numpy": [outcome(1.0)], "corepy": [outcome(1.0)]})
    rows = [replace(base, speed=speed, memory=memory) for speed in speeds]
    assert [holds for _, holds in program.claims(rows)] == held


@pytest.mark.parametrize(
    ("change", "fails"),
    [
        ({}, False),
        ({"explained": [0.50005, 0.25]}, False),
        ({"explained": [0.5, 0.2498]}, True),
        ({"sizes": [601, 399]}, True),
    ],
)
def test_holds_answers_equal(change: dict[str, Any], fails: bool) -> None:
    def compare_them() -> None:
        program.hold_equal(outcome(1.0), outcome(1.0, **change), samples=1000)

    if fails:
        with pytest.raises(ValueError, match="expected the same"):
            compare_them()
    else:
        compare_them()


def test_runs_in_fresh_processes(capsys: pytest.CaptureFixture[str]) -> None:
    found = program.measure(samples=2000, features=32, rounds=1)
    for runs in found.values():
        assert runs[0].second > 0
        assert runs[0].peak > 2000 * 32 * 4
        assert sum(runs[0].sizes) == 2000
    with pytest.raises(SystemExit, match="2"):
        program.main(["--samples", "10"])
    assert "--samples is 10; expected 1000 up" in capsys.readouterr().err


def test_neighbour_ends_with_its_block() -> None:
    with program.neighbour() as process:
        assert process.poll() is None
    assert process.poll() is not None
