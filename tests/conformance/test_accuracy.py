"""Errors of elementwise and other functions: what is beyond its bound fails the command."""

from __future__ import annotations

import pytest

from conformance import accuracy


@pytest.mark.parametrize(("distance", "status"), [(0.0, 0), (99.0, 1)])
def test_a_bound_that_does_not_hold_fails(
    distance: float,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = {"sin": {"float64": {"numpy": distance}}}
    monkeypatch.setattr(accuracy, "measure", lambda backends: found)
    monkeypatch.setattr(accuracy, "page", lambda record: "")
    assert accuracy.main(["--backend", "numpy"]) == status
    told = "sin of float64 on numpy: 99.0 ulp" in capsys.readouterr().err
    assert told == bool(status)
