"""Files that commands write: looked at before anything is computed for them.

One rule for all options that name such a file: it may exist, and is replaced; the folder that it is
in has to exist, for a name that is misspelt would make another one.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile

from corepy.dispatch import _route_files as files

__all__ = ["reason", "writable"]


def reason(error: Exception) -> str:
    """Word why something failed; of a file, with its name and without the system's number."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def writable(name: str, option: str, *, in_place: bool = False) -> Path:
    """Return the path of a file that can be written.

    Parameters
    ----------
    name : str
        What the user calls it.
    option : str
        By which option; messages name it.
    in_place : bool
        Whether a file that exists is opened and overwritten, or another one put in its place.

    Raises
    ------
    ValueError
        If it cannot be written, saying why.
    """
    if not name:
        raise ValueError(f"{option} is ''; expected the name of a file")
    path = Path(name)
    try:
        _require_writable(path, in_place=in_place)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"{option}: {name}: {why}") from None
    return path


def _require_writable(path: Path, *, in_place: bool) -> None:
    if path.is_dir():
        raise ValueError("it is a folder; expected a file")
    folder = files.resolved(path).parent
    if not folder.is_dir():
        raise ValueError("there is no such folder; expected one that exists")
    if path.exists() and (in_place or not path.is_file()):
        if not os.access(path, os.W_OK):
            raise ValueError("it cannot be written to")
        return  # of a pipe nobody knows more before
    with TemporaryFile(dir=folder):
        pass
