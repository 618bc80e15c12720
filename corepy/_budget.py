"""How many threads of the host may be used: what was asked for, and what there is."""

from __future__ import annotations

import os
from typing import Final

ENVIRONMENT: Final = "COREPY_NUM_THREADS"
#: More than the largest machines have processors. Libraries begin as many threads as they are told,
#: and where the system has no more OpenMP ends the process.
MOST: Final = 4096

_budget: int | None = None
_environment_read = False


def cores() -> int:
    """Return how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def budget() -> int | None:
    """Return the number of threads that was asked for, None if none was.

    Raises
    ------
    ValueError
        If ``COREPY_NUM_THREADS`` is no positive number.
    """
    global _budget, _environment_read
    if not _environment_read:
        text = os.environ.get(ENVIRONMENT, "").strip()
        if text and not (text.isascii() and text.isdecimal() and int(text)):
            raise ValueError(f"{ENVIRONMENT} is {text!r}; expected a positive number of threads")
        if text and int(text) > MOST:
            raise ValueError(f"{ENVIRONMENT} is {text!r}; expected at most {MOST} threads")
        _budget, _environment_read = (int(text) if text else None), True
    return _budget


def settle(count: int | None) -> None:
    """Ask for a number of threads, or for none, in place of what was asked for before."""
    global _budget, _environment_read
    _budget, _environment_read = count, True
