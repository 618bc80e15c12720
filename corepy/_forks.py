"""Locks that a forked child can take: of its parent's threads it has the one that forked alone."""

from __future__ import annotations

# Before what is registered below: of what is done before a fork, the last registered comes first.
# Else who forks has logging's lock, for which a thread waits that imports a library under ours.
import logging  # noqa: F401
import os
import threading
from contextlib import AbstractContextManager
from typing import Any, Final

__all__ = ["lock", "wait_for"]

#: What whoever forks waits for; locks that are taken under others stand behind them.
_locks: list[Any] = []
#: Held by who forks, with the others that it took.
_GATE: Final = threading.RLock()
_taken: list[list[Any]] = []


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
    """Let whoever forks wait for a library's lock too, under which none of ours is taken."""
    _locks.append(innermost)


def _take() -> None:
    _GATE.acquire()
    taken: list[Any] = []
    for each in _locks:  # another may come meanwhile, with a library that somebody was importing
        each.acquire()
        taken.append(each)
    _taken.append(taken)


def _let_go() -> None:
    for each in reversed(_taken.pop()):
        each.release()
    _GATE.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_let_go, after_in_child=_let_go)
