"""Compiled loops are kept in no folder that the working directory decides on."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.conftest import required

numba = required("numba")

from corepy._loops import _jobs  # noqa: E402
from corepy._loops._compile import kept  # noqa: E402


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, where no folder beside a source can be written."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    source = tmp_path / "source"
    source.mkdir()
    (source / "source.py").write_text("def loop(x):\n    return x + 1\n")
    (source / "__pycache__").write_text("")  # no folder
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def loop() -> Any:
    """Return the loop as a new process has it."""
    return kept(runpy.run_path(str(Path.cwd().parent / "source" / "source.py"))["loop"])


@pytest.mark.skipif(os.name == "nt", reason="Windows names the folder itself")
def test_a_user_without_a_home_keeps_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    def unknown(number: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for _ in range(2):
        found = loop()
        assert found(1) == 2
        assert not found.stats.cache_hits
    assert list(here.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such variable")
def test_a_relative_folder_for_caches_counts_for_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert loop()(1) == 2
    assert list(here.iterdir()) == []
    with pytest.raises(RuntimeError, match="no locator available"):
        _jobs._Cache(loop().py_func)  # as what C calls is kept


@pytest.mark.skipif(os.name == "nt", reason="Windows names the folder itself")
def test_the_user_s_folder_is_where_it_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = here.parent / "caches"
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches))
    assert [loop()(1) for _ in range(2)] == [2, 2]
    assert len(list(caches.rglob("*.nbc"))) == 1


def test_who_names_a_folder_has_it_where_it_is(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "mine")
    assert loop()(1) == 2
    assert len(list(here.glob("mine/*/*.nbc"))) == 1
