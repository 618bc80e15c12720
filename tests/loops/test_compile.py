"""Compiled loops are kept on disk, and compute whatever becomes of what is there."""

from __future__ import annotations

import errno
import runpy
import sys
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from tests.conftest import required

numba = required("numba")

from numba.core.caching import IndexDataCacheFile  # noqa: E402

from corepy._loops import _jobs  # noqa: E402
from corepy._loops._compile import OPTIONS, kept  # noqa: E402


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


def fill(*args: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


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
    with monkeypatch.context() as patch:
        patch.setattr(IndexDataCacheFile, "_open_for_write", fill)
        assert not is_loaded(source)
    assert [is_loaded(source) for _ in range(2)] == [False, True]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what C calls is kept here, as nobody else has it."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    return tmp_path


def is_entrance_loaded() -> bool:
    made = _jobs._entered.__wrapped__()  # as a new process has it
    assert made.address
    return bool(made.cache_hits)


def test_what_c_calls_is_compiled_once(folder: Path) -> None:
    assert [is_entrance_loaded() for _ in range(3)] == [False, True, True]


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [b"", b"\x80", b"no pickle"])
def test_what_c_calls_is_compiled_anew_where_it_is_damaged(
    folder: Path, kind: str, damage: bytes
) -> None:
    assert not is_entrance_loaded()
    (path,) = folder.rglob(f"_jobs._enter_*.{kind}")
    path.write_bytes(damage)
    assert [is_entrance_loaded() for _ in range(2)] == [False, True]


def test_what_c_calls_on_a_disk_that_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(IndexDataCacheFile, "_open_for_write", fill)
        assert not is_entrance_loaded()
    assert [is_entrance_loaded() for _ in range(2)] == [False, True]


def test_nobody_counts_the_arguments_of_a_loop() -> None:
    def chosen(x: Any, y: Any, out: Any, start: int, stop: int) -> None:
        row = x[0]
        for i in range(start, stop):
            row = (y[i] if out[i] > 0 else x[i]) if out[i] else row
            out[i] = row[0]
        x = y  # nobody lets go of what it was
        out[0] += x[0, 0]

    loop = numba.njit(**OPTIONS)(chosen)
    x, y, out = np.ones((4, 3)), np.full((4, 3), 2.0), np.array([0.0, 1.0, -1.0, 0.0])
    held = [sys.getrefcount(array) for array in (x, y, out)]
    loop(x, y, out, 0, 4)
    assert out.tolist() == [3.0, 2.0, 1.0, 1.0]
    assert [sys.getrefcount(array) for array in (x, y, out)] == held
    (code,) = loop.inspect_llvm().values()
    assert "call void @NRT_incref" not in code


def test_arrays_that_a_loop_makes_or_returns_are_counted() -> None:
    def made(x: Any) -> Any:
        row = x[0]
        for i in range(3):
            row = row + x[i]
        return x[1], row

    x = np.arange(12.0).reshape(4, 3)
    part, total = numba.njit(**OPTIONS)(made)(x)
    assert np.shares_memory(part, x)
    del x
    assert part.tolist() == [3.0, 4.0, 5.0]
    assert total.tolist() == [9.0, 13.0, 17.0]
