"""The files of what was measured: where they are, and how they are written.

Tables of routes (`corepy.dispatch._route_table`) ship with corepy, `corepy tune` writes those of
this machine to the user's cache, and one of them may be frozen.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from corepy._signals import let_through
from corepy.dispatch import _machine
from corepy.dispatch._route_table import RouteTable

DATA: Final = Path(__file__).parent.parent / "data"


def cache_folder() -> Path:
    """Return where the user's machine keeps what it can make again.

    Raises
    ------
    FileNotFoundError
        If nobody says where: the user has no home folder.
    """
    variables = {"win32": "LOCALAPPDATA", "darwin": None}
    variable = variables.get(sys.platform, "XDG_CACHE_HOME")
    base = None if variable is None else os.environ.get(variable)
    # A relative one counts for nothing, as the XDG specification has it.
    return (Path(base) if base and os.path.isabs(base) else _home_caches()) / "corepy"


def _home_caches() -> Path:
    try:
        home = Path.home()
    except RuntimeError as error:
        message = f"there is no folder for caches ({error}); expected $HOME to name one"
        raise FileNotFoundError(message) from None
    if sys.platform == "win32":
        return home / "AppData" / "Local"
    return home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"


def has_files(inside: str = "") -> bool:
    """Say whether anything was measured here: whether the cache, or a folder in it, holds files.

    Raises
    ------
    OSError
        If there is a folder that cannot be read.
    """
    try:
        with os.scandir(cache_folder() / inside) as found:
            return any(entry.name.endswith(".json") for entry in found)
    except (FileNotFoundError, NotADirectoryError):
        return False


def cache_file(key: Mapping[str, Any]) -> Path:
    """Return the file of this machine's own table."""
    import hashlib  # on few machines' way, and OpenSSL with it

    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return cache_folder() / f"{_stem('routes', key.get('gpu'))}-{digest[:16]}.json"


def keep(table: RouteTable, imported_for: Mapping[str, Any] | None = None) -> Path:
    """Write a table to the cache, for this environment; return its file.

    Parameters
    ----------
    table : RouteTable
        As it was measured here, or elsewhere: of what machine it is stays true.
    imported_for : dict, optional
        If it comes from a file, the key under which it is to be in force.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    kept: dict[str, Any] = {"environment": _machine.environment()}
    if imported_for is not None:
        kept["machine"] = dict(imported_for)
    path = cache_file(table.machine if imported_for is None else imported_for)
    write(path, table.text(kept))
    return path


def frozen_file(gpu: str | None = None) -> Path:
    """Return the file of the table that the user froze: it holds whatever changes."""
    return cache_folder() / f"{_stem('frozen', gpu)}.json"


def shipped_file(gpu: str) -> Path:
    """Return the file that ships with corepy for a GPU; there need be none."""
    return DATA / f"{_stem('routes', gpu)}.json"


def shipped_files() -> list[Path]:
    """Return the files that ship for hosts of this generation.

    Where there is none, those of all that have this one's vector instructions, and else all; none
    at all in an archive or a frozen program that has corepy's code alone.
    """
    vectors = _machine.vectors()
    kinds = (f"{vectors}-{_words(_machine.generation())}", f"{vectors}-*", "*")
    for kind in kinds:
        found = sorted(DATA.glob(f"routes-{kind}.json"))
        if found:
            return found
    return []


def others(gpu: str | None) -> list[Path]:
    """Return the files of all tables for the host or a GPU that were measured, the last one first.

    Whatever their key.
    """
    return newest(cache_folder().glob(f"{_stem('routes', gpu)}-*.json"))


def newest(paths: Iterable[Path]) -> list[Path]:
    """Return those of some files that are there, the one first that was written last."""
    found: dict[Path, float] = {}
    for path in paths:
        try:
            found[path] = path.stat().st_mtime
        except FileNotFoundError:
            continue  # a link that leads nowhere, or removed meanwhile
    return sorted(found, key=found.__getitem__, reverse=True)


def _stem(what: str, gpu: str | None) -> str:
    """Name a file, by what it holds and the name of the GPU that it is for."""
    return what if gpu is None else f"gpu-{what}-{_words(gpu)}"


def _words(name: str) -> str:
    return re.sub("[^a-z0-9]+", "_", name.lower()).strip("_")


#: Bytes that a file which somebody names may have: a hundred times as many as those that ship.
_LARGEST: Final = 1 << 24
#: Seconds to wait for each part of what comes by a pipe or from a device.
_PATIENCE: Final = 30.0


def text_of(path: Path) -> str:
    """Return the text of a file that somebody names, be it a pipe or a device.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is no text, is too large or has no end, or nothing comes from it.
    """
    with open(path, "rb", opener=_opened) as file:
        waits = not stat.S_ISREG(os.fstat(file.fileno()).st_mode) and sys.platform != "win32"
        content = b"".join(_parts(file.fileno())) if waits else file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST >> 20} MiB, or no end")
    return content.decode("utf-8")


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # else a pipe waits for a writer


def _parts(number: int) -> Iterator[bytes]:
    """Yield what comes from a pipe or a device, as long as it may be wanted."""
    import select  # on few machines' way

    count = 0
    while count <= _LARGEST:
        if not select.select([number], [], [], _PATIENCE)[0]:
            raise ValueError(f"nothing came from it for {_PATIENCE:g} seconds")
        part = os.read(number, 1 << 20)
        if not part:
            return
        count += len(part)
        yield part


def resolved(path: Path) -> Path:
    """Return what a path leads to by its links, whether it is there or not.

    Raises
    ------
    OSError
        If they lead in a circle.
    """
    with suppress(FileNotFoundError):
        path.stat()  # `resolve` itself says nothing of circles, or raises RuntimeError before 3.13
    return path.resolve()


def write(path: Path, text: str) -> None:
    """Replace a file in one step: whoever reads it sees the old text or the new one, whole.

    A link goes on leading to it, and what is no file, such as a pipe, is written to.

    Raises
    ------
    OSError
        If it cannot be written; it names this path, not what lies beside it meanwhile.
    """
    try:
        _replace(path, text)
    except OSError as error:
        let_through(error)
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _replace(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():
        with open(path, "w", encoding="utf-8") as file:  # a pipe or a device stays what it is
            file.write(text)
        return
    path = resolved(path)  # a link stays, and what it leads to is replaced
    path.parent.mkdir(parents=True, exist_ok=True)
    # Containers that share a folder may have processes of one number.
    beside = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        with open(beside, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
