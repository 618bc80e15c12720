"""What is published of several backends is written only where all of them were measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import corepy
from conformance import accuracy, interop, native


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Redirect what is written, and see that nothing is."""
    results = tmp_path / "accuracy.json"
    results.write_text(json.dumps({"versions": {"numpy": "2", "torch": "2"}}))
    monkeypatch.setattr(accuracy, "RESULTS", results)
    for module in (accuracy, interop, native):
        page = tmp_path / module.PAGE.name
        page.write_text("as it was")
        monkeypatch.setattr(module, "PAGE", page)
    before = {path: path.read_text() for path in tmp_path.iterdir()}
    yield tmp_path
    assert {path: path.read_text() for path in tmp_path.iterdir()} == before


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize(
    ("main", "argv"),
    [
        (accuracy.main, ["--backend", "numpy", "--write"]),
        (interop.main, ["--write"]),
        (native.main, ["--write"]),
    ],
    ids=["accuracy", "interop", "native"],
)
def test_a_part_is_not_written_over_the_whole(
    main: Callable[[list[str]], Any],
    argv: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(accuracy, "measure", lambda backends: {})
    monkeypatch.setattr(interop, "page", lambda names: "")
    monkeypatch.setattr(native, "page", lambda names: "")
    monkeypatch.setattr(interop, "usable", lambda: ["numpy"])
    rows = corepy.backend_status()
    alone = [row if row.name == "numpy" else replace(row, devices=()) for row in rows]
    monkeypatch.setattr(corepy, "backend_status", lambda: alone)
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    assert "--write would lose what is published of" in capsys.readouterr().err
