"""The files of what was measured: written whole, and kept where the system keeps caches."""

from __future__ import annotations

import errno
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest

from corepy._cli import main
from corepy.dispatch import _route_files as files
from corepy.dispatch import _route_sources as sources


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "routes.json"
    files.write(path, "one")
    with pytest.raises(UnicodeEncodeError):
        files.write(path, "\ud800")
    assert path.read_text() == "one"
    assert [each.name for each in path.parent.iterdir()] == ["routes.json"]


def test_errors_name_the_file_that_was_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / ".a.json.123"))

    path = tmp_path / "a.json"
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError) as caught:
        files.write(path, "text")
    assert caught.value.filename == str(path)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="only Linux has it")
def test_a_device_that_is_full_is_named() -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        files.write(Path("/dev/full"), "text")


def test_a_link_stays_and_a_folder_is_refused(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(real)
    for text in ("new", "other"):
        files.write(link, text)
        assert (link.is_symlink(), real.read_text()) == (True, text)
    with pytest.raises(IsADirectoryError):
        files.write(tmp_path, "text")


def test_links_that_lead_in_a_circle_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.symlink_to(second)
    second.symlink_to(first)
    with pytest.raises(OSError, match=r"first\.json") as caught:
        files.write(first, "text")
    assert caught.value.errno == errno.ELOOP
    assert first.is_symlink()


def test_processes_of_one_number_write_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, replace_file = tmp_path / "routes.json", os.replace

    def late(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "replace", replace_file)
        files.write(path, "of another container")
        assert path.read_text() == "of another container"
        replace_file(source, target)

    monkeypatch.setattr(os, "replace", late)
    files.write(path, "mine")
    assert path.read_text() == "mine"
    assert [each.name for each in tmp_path.iterdir()] == ["routes.json"]
    other = tmp_path / "other"
    other.touch()
    assert path.stat().st_mode == other.stat().st_mode  # as other users may read it


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        files.write(pipe, "text")
        assert (pipe.is_fifo(), os.read(reader, 99)) == (True, b"text")
    finally:
        os.close(reader)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_what_has_no_end_is_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate((1 << 24) + 1)
    for path in (Path("/dev/zero"), large):
        why = f"{path} holds no table of routes: it has more than 16 MiB, or no end"
        with pytest.raises(ValueError, match=f"^COREPY_ROUTES: {re.escape(why)}$"):
            sources.read(path, "COREPY_ROUTES")
        assert main(["routes", "--import", str(path)]) == 2
        assert capsys.readouterr().err == f"corepy: routes: --import: {why}\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_read_to_its_end_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "\u00e4" * 300_000  # more than a pipe holds
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(pipe.write_text, text, encoding="utf-8")
        assert files.text_of(pipe) == text
        assert writing.result(60) == len(text)
    monkeypatch.setattr(files, "_PATIENCE", 0.01)
    writer = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    for silent in (writer, None):
        with pytest.raises(ValueError, match=r"nothing came from it for 0\.01 seconds"):
            files.text_of(pipe)
        if silent is not None:
            os.close(silent)


def test_the_cache_lies_where_the_system_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert files.cache_folder() == Path("/somewhere/corepy")
    monkeypatch.setenv("XDG_CACHE_HOME", "here")  # relative, which the specification leaves aside
    assert files.cache_folder() == Path.home() / ".cache" / "corepy"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert files.cache_folder() == Path.home() / ".cache" / "corepy"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert files.cache_folder() == Path.home() / "Library" / "Caches" / "corepy"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert files.cache_folder() == Path("/local/corepy")
