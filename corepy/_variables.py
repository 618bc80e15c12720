"""Environment variables that are read as corepy is imported, and how a wrong one is refused.

Programs get a `ValueError`. The command ``corepy``, which the same import ends before it begins,
says it in one line on stderr, with status 2, as all mistakes of its user.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from corepy._errors import bad_argument, listing

__all__ = ["choice", "flag", "number"]

_YES: Final = ("1", "true", "yes", "on")
_NO: Final = ("", "0", "false", "no", "off")

Choice = TypeVar("Choice", bound=str)


def flag(name: str) -> bool:
    """Return whether a variable turns something on; empty is not set."""
    text = _text(name)
    if text not in (*_YES, *_NO):
        raise _refusal(name, f"one of {', '.join((*_YES, *_NO[1:]))}")
    return text in _YES


def choice(name: str, values: Sequence[Choice]) -> Choice:
    """Return which of some values a variable has; the first one where it is empty or not set."""
    text = _text(name)
    for value in values:
        if text in (value, ""):
            return value
    raise _refusal(name, listing(f'"{value}"' for value in values))


def number(name: str, of: str) -> int | None:
    """Return the number that a variable has; None where it is empty or not set."""
    text = _text(name)
    if text and not (text.isascii() and text.isdecimal()):
        raise _refusal(name, f"a number of {of}")
    return int(text) if text else None


def _text(name: str) -> str:
    return os.environ.get(name, "").strip().lower()


def _refusal(name: str, expected: str) -> BaseException:
    error = bad_argument("corepy", name, os.environ[name], expected)
    if not _is_command():
        return error
    print(error, file=sys.stderr)
    return SystemExit(2)


def _is_command() -> bool:
    """Say whether this process is the command.

    Of ``python -m corepy`` the program is ``-m`` while the package is imported.
    """
    program = next(iter(sys.argv), "")
    if program == "-m":
        rest = sys.orig_argv[sys.orig_argv.index("-m") + 1 :] if "-m" in sys.orig_argv else []
        return rest[:1] == ["corepy"]
    return Path(program).stem == "corepy"
