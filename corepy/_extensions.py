"""Modules that may be missing: those of libraries, and those compiled as corepy is installed.

``COREPY_PURE_PYTHON=1`` does without the latter.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Final

from corepy._errors import worded
from corepy._signals import let_through
from corepy._variables import flag

#: The compiled ones that are in use.
_loaded: Final[list[ModuleType]] = []


def is_there(library: str) -> bool:
    """Say whether a library is installed, without importing it.

    What cannot be told counts as there: a module that was put into `sys.modules` without a spec, as
    programs and tests do that stand in for a library, or one that an import hook refuses with an
    error. Importing it says then what is wrong with it.
    """
    try:
        return importlib.util.find_spec(library) is not None
    except (ImportError, ValueError):
        return True


def why_broken(module: str) -> str | None:
    """Import a module of a library that is there; return how that fails, None where it does not."""
    try:
        importlib.import_module(module)
    except Exception as error:  # any failure of a foreign library
        let_through(error)
        return worded(error)
    return None


def extension(name: str) -> tuple[ModuleType | None, str | None]:
    """Return a compiled module, or None and why it is not there.

    Raises
    ------
    ValueError
        If ``COREPY_PURE_PYTHON`` is neither on nor off.
    """
    if flag("COREPY_PURE_PYTHON"):
        return None, "COREPY_PURE_PYTHON=1"
    if importlib.util.find_spec(name) is None:
        return None, "it was not built as corepy was installed (see COREPY_COMPILE)"
    try:
        module = importlib.import_module(name)
    except ImportError as error:  # built for another Python
        return None, f"it does not load: {error}"
    _loaded.append(module)
    return module, None


def are_outdated() -> bool:
    """Say whether some module in use was compiled from other sources than those beside it.

    So it is in a checkout that was brought up to date, until corepy is installed from it again.
    """
    from hashlib import sha256  # for those who ask alone

    digests: dict[Path, str | None] = {}
    for module in _loaded:
        folder = Path(module.__file__ or "").parent
        if folder not in digests:
            # Programs of one file may have loaded it from a folder that is no more.
            sources = sorted(path for path in folder.glob("*") if path.suffix in (".pyx", ".pxi"))
            text = b"".join(path.read_bytes() for path in sources)
            digests[folder] = sha256(text).hexdigest() if sources else None  # as of a program
        if digests[folder] not in (None, getattr(module, "SOURCE", "")):  # the oldest have none
            return True
    return False
