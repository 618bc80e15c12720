"""Locks that a forked child can take: of its parent's threads it has the one that forked alone."""

from __future__ import annotations

# Before what is registered below: of what is done before a fork, the last registered comes first.
# Else who forks has logging's lock, for which a thread waits that imports a library under ours.
import logging  # noqa: F401
import os
import threading
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import chain
from signal import SIGINT, Signals
from typing import Any, Final

__all__ = ["lock", "wait_for"]

#: What whoever forks waits for; locks that are taken under others stand behind them.
_locks: list[Any] = []
#: Held by who forks, with the others, whose holds end with what is in this list.
_GATE: Final = threading.RLock()
_holds: Final[list[Iterator[None]]] = []
#: Interrupts that came while somebody waited to fork.
_late: Final[list[Signals]] = []


def lock() -> AbstractContextManager[Any]:
    """Return a lock that its holder may take again, and that whoever forks waits for.

    Another thread that had it would not be in the child to let it go, and an import that it was in
    the midst of would stay half done there. One under which others are taken has to be made after
    them, as modules are imported after what they stand on.
    """
    made = threading.RLock()
    _locks.insert(0, made)
    return made


def wait_for(innermost: Any) -> None:
    """Let whoever forks wait for a lock too, as of a library, under which none of ours is taken."""
    _locks.append(innermost)


def _take() -> None:
    while True:
        try:
            for each in chain((_GATE,), _locks):  # more may come, with a library in an import
                hold = _hold(each)
                next(hold)
                _holds.append(hold)
            return
        except KeyboardInterrupt:  # which would be lost here, and with it what is not taken yet
            _late.append(SIGINT)


def _hold(each: AbstractContextManager[Any]) -> Iterator[None]:
    """Have a lock until this is closed or forgotten: no interrupt comes between it and that."""
    with each:
        yield


def _interrupt() -> object:
    late = _late.copy()
    _late.clear()
    # By an iterator: after a call Python would raise it here, where it is lost.
    waiting = map(interrupt_main, late)
    return [*waiting]


if hasattr(os, "register_at_fork"):
    # No function of Python's lets go, as that could be interrupted before its first line.
    os.register_at_fork(before=_take, after_in_parent=_holds.clear, after_in_child=_holds.clear)
    os.register_at_fork(after_in_parent=_interrupt, after_in_child=_late.clear)
