"""How many threads NumPy's BLAS uses and where they wake, for the length of an operation."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import AbstractContextManager
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from corepy._apart import Apart, Undo
from corepy._budget import ENVIRONMENT, budget, limit
from corepy._extensions import is_there
from corepy._signals import let_through

__all__ = ["apart", "can_hold", "held", "numpys", "single", "tell", "threads"]

#: What OpenBLAS, which comes with NumPy, takes its number of threads from, the first one first.
_READ: Final = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
#: What it was told so.
_told: int | None = None


def tell() -> None:
    """See that NumPy's BLAS begins no more threads than can run at once, if it comes later.

    It begins them as it is imported; by `threadpoolctl`, which need not be there, it is told after
    that. What the user has set stays.
    """
    global _told
    count = limit()
    if count is None or "numpy" in sys.modules:
        return
    if not any(name in os.environ for name in (ENVIRONMENT, *_READ)):
        os.environ[_READ[0]], _told = str(count), count


def threads() -> int | None:
    """Return how many threads NumPy's BLAS uses, None if nobody can tell."""
    if not can_hold():
        return _told
    return max(int(library.get_num_threads()) for library in _libraries())


@cache
def can_hold() -> bool:
    """Say whether there is a way to tell NumPy's BLAS how many threads to use."""
    return is_there("threadpoolctl") and bool(_libraries())


@cache
def _libraries() -> list[Any]:
    try:
        from threadpoolctl import ThreadpoolController

        found: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
        for library in found:  # what is asked of them later: before 3.2 there was no `dynlib`
            _ = library.dynlib, library.filepath, library.set_num_threads
            library.get_num_threads()
    except Exception as error:  # it is too old or broken: products need none of it
        let_through(error)
        return []
    return found


@cache
def numpys() -> list[Any]:
    """Return the builds of OpenBLAS that NumPy has brought, as `ctypes` sees them."""
    import numpy as np

    site = Path(np.__file__).parents[1]
    homes = site / "numpy.libs", site / "numpy"
    return [
        library.dynlib
        for library in _libraries()
        if library.internal_api == "openblas"
        and any(Path(library.filepath).is_relative_to(home) for home in homes)
    ]


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

    A handler of a signal, or a finalizer, that computes may come anywhere in here, of the thread
    that has the lock: it enters and leaves, and what it finds is what counts afterwards.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holders: set[object] = set()
        #: The wishes that counted so far.
        self._counts: list[int] = []
        #: What is to be put back; empty where nobody holds it.
        self._before: list[int] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def enter(self, holder: object, count: int) -> None:
        with self._lock:
            self._holders.add(holder)  # first: from here on nobody else who leaves puts it back
            libraries = _libraries()
            found = self._before or [library.get_num_threads() for library in libraries]
            if not self._before:  # and no call stands between this and what is set
                self._before, self._counts = found, [count]
            elif count < self._counts[-1] or len(self._holders) == 1:  # it is being put back
                self._counts.append(count)
            else:
                return
            # `leave` puts it back now, wherever an interrupt comes.
            for library in libraries:
                if library.get_num_threads() > count:
                    _give(library, count)

    def leave(self, holder: object) -> None:
        """Let a holder go; done twice, or of one that was left behind by forking, it is done."""
        with self._lock:
            self._holders.discard(holder)
            if self._before and not self._holders:
                self._put_back(self._before)

    def _put_back(self, found: list[int]) -> None:
        most = budget()
        for library, before in zip(_libraries(), found, strict=True):
            now = library.get_num_threads()
            # Who has asked for another number meanwhile has it. Of several wishes an interrupt may
            # have kept the last from a library.
            if before > now and now in self._counts:
                _give(library, before if most is None else min(before, most))
        self._before = []

    def _after_fork(self) -> None:
        """Put back what is held: those who hold it are in the parent, but for who forks itself."""
        self._lock = threading.RLock()
        self._holders.clear()
        if self._before:
            self._put_back(self._before)


_HOLD: Final = _Hold()


class _Held(AbstractContextManager[None]):
    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> None:
        try:
            _HOLD.enter(self, self._count)
        except BaseException:  # an interrupt: nobody would leave
            _HOLD.leave(self)
            raise

    def __exit__(self, *error: object) -> None:
        try:
            _HOLD.leave(self)
        except BaseException:  # an interrupt, which may have come anywhere in it
            _HOLD.leave(self)
            raise


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


#: A bit for each processor; who has few of them has all in the first word.
_Mask = ctypes.c_uint64 * 16
_BYTES: Final = ctypes.c_size_t(ctypes.sizeof(_Mask))


def _place(library: Any, thread: int, mask: Any) -> None:
    library.dynlib.openblas_setaffinity(thread, _BYTES, ctypes.byref(mask))


def _keep_off(processor: int) -> Undo | None:
    """Keep BLAS's threads from a processor; return what undoes that."""
    if not can_hold():
        return None
    placed = []
    try:
        for library in _placeable():
            # Asked anew each time: the number beyond the last is that of the calling thread.
            for thread in range(library.get_num_threads() - 1):
                before = _Mask()
                if library.dynlib.openblas_getaffinity(thread, _BYTES, ctypes.byref(before)):
                    continue  # it stays where it is
                apart = _Mask(before[0] & ~(1 << processor))
                if apart[0] and apart[0] != before[0]:
                    placed.append((library, thread, before))
                    _place(library, thread, apart)
        return partial(_put_back, placed) if placed else None
    except BaseException:  # an interrupt: nobody would put them back
        _put_back(placed)
        raise


def _put_back(placed: list[tuple[Any, int, Any]]) -> None:
    for library, thread, before in placed:
        _place(library, thread, before)


_APART: Final = Apart(_keep_off)


def apart() -> AbstractContextManager[None]:
    """Let BLAS's threads wake apart from the caller's processor for the length of a block.

    That costs some 20 us, and less than one where the caller has not slept since BLAS was called
    last; see `corepy._places`.
    """
    return _APART


def is_apart() -> bool:
    """Say whether BLAS's threads need not be kept from the caller's processor for its next call."""
    return _APART.is_warm()
