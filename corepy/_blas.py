"""How many threads NumPy's BLAS uses and where they wake, for the length of an operation."""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import AbstractContextManager
from functools import cache
from importlib.util import find_spec
from time import perf_counter, thread_time
from typing import Any, Final

from corepy import _places
from corepy._budget import budget

__all__ = ["apart", "can_hold", "held", "single"]

#: Seconds for which a thread may have slept since its last operation, and BLAS's threads wake where
#: they were. To place them takes some 20 us, more the longer they have slept themselves.
_WARM: Final = 1e-4
#: Part of the time that a thread which works may lose to others.
_LOST: Final = 0.05


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


@cache
def _placeable() -> list[Any]:
    """Return the libraries that place their threads: OpenBLAS, unless they are of OpenMP."""
    return [x for x in _libraries() if hasattr(x.dynlib, "openblas_setaffinity")]


class _Apart(AbstractContextManager[None]):
    """BLAS's threads kept from the caller's processor for the length of a block.

    They get back the processors that they had: the next call may come from another one. Where one
    thread of ours has them placed, others leave them so.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0
        self._placed: list[tuple[Any, int, Any]] = []
        # When the last operation ended, its thread, and how long that had worked by some moment.
        self._last, self._caller = -_WARM, 0
        self._seen = 0.0, 0.0
        self._forked = False

    def __enter__(self) -> None:
        if self._forked or not self._has_slept() or not can_hold():
            return
        processor = _places.here()
        if processor < 0 or not self._lock.acquire(blocking=False):
            return
        self._holder = threading.get_ident()
        for library in _placeable():
            # Asked anew each time: the number beyond the last is that of the calling thread.
            for thread in range(library.get_num_threads() - 1):
                before = _Mask()
                if library.dynlib.openblas_getaffinity(thread, _BYTES, ctypes.byref(before)):
                    continue  # it stays where it is
                apart = _Mask(before[0] & ~(1 << processor))
                if apart[0] and apart[0] != before[0]:
                    _place(library, thread, apart)
                    self._placed.append((library, thread, before))

    def __exit__(self, *error: object) -> None:
        if self._holder == threading.get_ident():
            for library, thread, before in self._placed:
                _place(library, thread, before)
            self._placed.clear()
            self._holder = 0
            self._lock.release()
        self._last = perf_counter()

    def _has_slept(self) -> bool:
        """Say whether the calling thread has slept lately, or is another one.

        The scheduler wakes threads on the caller's processor after a sleep of 0.3 ms and more, one
        in a hundred, and of 5 ms nearly always; but not where the caller has worked meanwhile.
        """
        now, thread = perf_counter(), threading.get_ident()
        if now - self._last < _WARM and thread == self._caller:
            return False
        (since, worked), self._seen = self._seen, (now, thread_time())
        if thread != self._caller:
            self._caller = thread
            return True
        passed = now - since
        return passed - (self._seen[1] - worked) > _WARM + _LOST * passed

    def after_fork(self) -> None:
        """Leave the threads alone: a child's are started later, and to place them now ends it."""
        self._forked = True


#: A bit for each processor; who has few of them has all in the first word.
_Mask = ctypes.c_uint64 * 16
_BYTES: Final = ctypes.c_size_t(ctypes.sizeof(_Mask))


def _place(library: Any, thread: int, mask: Any) -> None:
    library.dynlib.openblas_setaffinity(thread, _BYTES, ctypes.byref(mask))


_APART: Final = _Apart()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_APART.after_fork)


def apart() -> AbstractContextManager[None]:
    """Let BLAS's threads wake apart from the caller's processor for the length of a block.

    That costs some 20 us, and less than one where the caller has not slept since BLAS was called
    last; see `corepy._places`.
    """
    return _APART
