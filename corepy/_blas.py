"""How many threads NumPy's BLAS uses, changed for the length of an operation."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from corepy._budget import budget

__all__ = ["can_hold", "held", "single"]


@cache
def can_hold() -> bool:
    """Say whether there is a way to tell NumPy's BLAS how many threads to use."""
    return find_spec("threadpoolctl") is not None and bool(_libraries())


@cache
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    found: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found


def _give(library: Any, count: int) -> None:
    """Let a library use so many threads.

    Since 3.7 `threadpoolctl` lets only the thread that set the number first change it, while that
    one lives; ours agree among themselves who does (https://github.com/joblib/threadpoolctl).
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(count)


class _Hold:
    """BLAS held to a number of threads from the first block that asks to the end of the last.

    The number is BLAS's own, for the whole process: of threads of ours that hold it at once, the
    least wish counts. None of them may put back the number that it found, as that may be
    another's; so what the first one found is put back when the last one leaves.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._count = 0
        self._before: list[int] = []

    def enter(self, count: int) -> None:
        with self._lock:
            if not self._holders:
                self._count = count
                self._before = [library.get_num_threads() for library in _libraries()]
                for library, before in zip(_libraries(), self._before, strict=True):
                    if before > count:
                        _give(library, count)
            elif count < self._count:
                self._count = count
                for library in _libraries():
                    if library.get_num_threads() > count:
                        _give(library, count)
            self._holders += 1

    def leave(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
            most = budget()
            for library, before in zip(_libraries(), self._before, strict=True):
                # Who has asked for another number meanwhile has it.
                if before > self._count and library.get_num_threads() == self._count:
                    _give(library, before if most is None else min(before, most))


_HOLD: Final = _Hold()


class _Held(AbstractContextManager[None]):
    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> None:
        _HOLD.enter(self._count)

    def __exit__(self, *error: object) -> None:
        _HOLD.leave()


def held(count: int) -> AbstractContextManager[None]:
    """Hold BLAS to so many threads at most for the length of a block, in the whole process.

    Its threads wait for each other in a loop: where several of ours call it, or another process
    has a core, that takes many times as long as the work. Where several threads hold BLAS, the
    least wish counts. It costs some microseconds.
    """
    return _Held(count)


def single() -> AbstractContextManager[None]:
    """Hold BLAS to one thread for the length of a block, in the whole process."""
    return _Held(1)
