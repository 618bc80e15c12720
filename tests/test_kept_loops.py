"""Compiled loops are kept on disk, and compute whatever becomes of what is there."""

from __future__ import annotations

import errno
import runpy
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.conftest import required

numba = required("numba")

from numba.core.caching import IndexDataCacheFile  # noqa: E402

from corepy._loops._compile import kept  # noqa: E402


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    path = tmp_path / "source.py"
    path.write_text("def loop(x):\n    return x + 1\n")
    return path


def loop(source: Path) -> Any:
    """Return the loop as a new process has it."""
    return kept(runpy.run_path(str(source))["loop"])


def is_loaded(source: Path) -> bool:
    found = loop(source)
    assert found(1) == 2
    return bool(found.stats.cache_hits)


def test_a_loop_is_compiled_once(source: Path) -> None:
    assert [is_loaded(source) for _ in range(3)] == [False, True, True]


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [b"", b"\x80", b"no pickle"])
def test_files_that_are_damaged_are_made_anew(source: Path, kind: str, damage: bytes) -> None:
    assert not is_loaded(source)
    (path,) = source.parent.glob(f"__pycache__/*.{kind}")
    path.write_bytes(damage)
    assert [is_loaded(source) for _ in range(2)] == [False, True]


def test_a_disk_that_is_full(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(IndexDataCacheFile, "_open_for_write", full)
        assert not is_loaded(source)
    assert [is_loaded(source) for _ in range(2)] == [False, True]
