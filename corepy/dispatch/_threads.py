"""One budget of host threads for all libraries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from corepy import _forks
from corepy._budget import MOST, budget, cores, is_asked, settle
from corepy._errors import bad_argument, bad_type
from corepy.backends._base import Backend

_LOCK: Final = _forks.lock()
#: Why a backend's library keeps its threads, by the backend's name.
_unmoved: dict[str, str] = {}


def get_num_threads() -> int:
    """Tell how many host threads an operation may use: what can run at once, unless somebody said.

    That is the processors that the process may use, or what its container has of their time.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If ``COREPY_NUM_THREADS`` is no positive number.
    """
    return budget() or cores()


def set_budget(count: object, backends: Iterable[Backend]) -> dict[str, str]:
    """Hold loaded backends to a number of threads, and those that are loaded later."""
    if isinstance(count, bool) or not isinstance(count, int):
        raise bad_type("set_num_threads", "count", count, "an int")
    if count < 1:
        raise bad_argument("set_num_threads", "count", count, "at least 1")
    if count > MOST:
        raise bad_argument("set_num_threads", "count", count, f"at most {MOST}")
    settle(count)
    for backend in backends:
        hold(backend)
    return dict(_unmoved)


def hold(backend: Backend) -> None:
    """Hold one backend to the budget, if there is one."""
    count = budget()
    if count is None:
        return
    if not is_asked() and (backend.threads() or MOST) <= count:
        return  # whoever held it to fewer did not mean more
    reason = backend.limit_threads(count)
    with _LOCK:
        _unmoved.pop(backend.name, None)
        if reason is not None:
            _unmoved[backend.name] = reason


def unmoved() -> dict[str, str]:
    """Return why libraries keep their threads, by the name of their backend."""
    return dict(_unmoved)
