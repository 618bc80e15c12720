"""One budget of host threads for all libraries."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Final

from corepy._errors import bad_argument, bad_type
from corepy.backends._base import Backend

ENVIRONMENT: Final = "COREPY_NUM_THREADS"

_LOCK: Final = threading.Lock()
_budget: int | None = None
_environment_read = False
#: Why a backend's library keeps its threads, by the backend's name.
_unmoved: dict[str, str] = {}


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
        _budget, _environment_read = (int(text) if text else None), True
    return _budget


def get_num_threads() -> int:
    """Return how many host threads an operation may use: all processors, unless somebody said.

    Raises
    ------
    ValueError
        If ``COREPY_NUM_THREADS`` is no positive number.
    """
    return budget() or cores()


def set_budget(count: object, backends: Iterable[Backend]) -> dict[str, str]:
    """Hold loaded backends to a number of threads, and those that are loaded later."""
    global _budget, _environment_read
    if isinstance(count, bool) or not isinstance(count, int):
        raise bad_type("set_num_threads", "count", count, "an int")
    if count < 1:
        raise bad_argument("set_num_threads", "count", count, "at least 1")
    with _LOCK:
        _budget, _environment_read = count, True
    for backend in backends:
        hold(backend)
    return dict(_unmoved)


def hold(backend: Backend) -> None:
    """Hold one backend to the budget, if there is one."""
    count = budget()
    if count is None:
        return
    reason = backend.limit_threads(count)
    with _LOCK:
        _unmoved.pop(backend.name, None)
        if reason is not None:
            _unmoved[backend.name] = reason


def unmoved() -> dict[str, str]:
    """Return why libraries keep their threads, by the name of their backend."""
    return dict(_unmoved)
