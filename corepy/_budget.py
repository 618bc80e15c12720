"""How many threads of the host may be used: what was asked for, and what there is.

A container has all of its host's processors, and of their time what its control group grants: of
more threads than that amounts to each is stopped most of the time, in the midst of work that others
wait for. No library looks at that, nor at Python's own `PYTHON_CPU_COUNT` (since 3.13); so where
either leaves less than the processors that libraries see, they are held to it.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Final

from corepy.devices._probe import FAILURES, Ground, process_cores, scheduled_cores, usable_cores

ENVIRONMENT: Final = "COREPY_NUM_THREADS"
#: More than the largest machines have processors. Libraries begin as many threads as they are told,
#: and where the system has no more OpenMP ends the process.
MOST: Final = 4096

#: What somebody asked for, and what was found to be less than libraries see.
_budget: int | None = None
_limit: int | None = None
_environment_read = False


@cache
def _granted() -> int:
    """Return how many threads the control group lets run at once, a part of a processor as one."""
    try:
        return usable_cores(Ground(), MOST)
    except FAILURES:
        return MOST  # `corepy info` says what could not be read


def cores() -> int:
    """Return how many threads of this process can run at once."""
    return min(process_cores(), _granted())


def limit() -> int | None:
    """Return how many threads can run at once, None where libraries find that out themselves."""
    found = cores()
    return found if found < scheduled_cores() else None


def budget() -> int | None:
    """Return the number of threads that was asked for, else the `limit`; None without either.

    Raises
    ------
    ValueError
        If ``COREPY_NUM_THREADS`` is no positive number.
    """
    global _budget, _limit, _environment_read
    if not _environment_read:
        text = os.environ.get(ENVIRONMENT, "").strip()
        if text and not (text.isascii() and text.isdecimal() and int(text)):
            raise ValueError(f"{ENVIRONMENT} is {text!r}; expected a positive number of threads")
        if text and int(text) > MOST:
            raise ValueError(f"{ENVIRONMENT} is {text!r}; expected at most {MOST} threads")
        _budget, _limit = int(text) if text else None, limit()
        _environment_read = True
    return _limit if _budget is None else _budget


def is_asked() -> bool:
    """Say whether somebody asked for the `budget`: libraries are given it then, be it more too."""
    return budget() is not None and _budget is not None


def settle(count: int | None) -> None:
    """Ask for a number of threads, or for none, in place of what was asked for before."""
    global _budget, _environment_read
    _budget, _environment_read = count, True
