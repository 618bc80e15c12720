"""Threads of a library kept from the caller's processor while it calls them.

Why, and where that can be done, says `corepy._places`; whose threads they are and how they are
placed, `corepy._blas` and `corepy._openmp`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import perf_counter, thread_time
from typing import Final, TypeAlias

from corepy import _places

__all__ = ["Apart", "Undo"]

#: Puts threads back where they were.
Undo: TypeAlias = Callable[[], None]

#: Seconds for which a thread may have slept since its last operation, and a library's threads wake
#: where they were. To place them takes some 20 us, more the longer they have slept themselves.
_WARM: Final = 1e-4
#: Part of the time that a thread which works may lose to others.
_LOST: Final = 0.05


class Apart(AbstractContextManager[None]):
    """A library's threads kept from the caller's processor for the length of a block.

    They get back the processors that they had: the next call may come from another one. Where one
    thread of ours has them placed, others leave them so. Where the caller has not slept since its
    last block, this costs less than a microsecond.

    Parameters
    ----------
    place : callable
        Keeps the threads from a processor; returns what undoes that, None if nothing was done.
    """

    def __init__(self, place: Callable[[int], Undo | None]) -> None:
        self._place = place
        #: The thread that has them placed, if one has: found and put there in one step, as a lock
        #: and its holder are not.
        self._holder: dict[str, int] = {}
        self._undo: Undo | None = None
        # When the last operation ended, its thread, and how long that had worked by some moment.
        self._last, self._caller = -_WARM, 0
        self._seen = 0.0, 0.0
        self._forked = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def __enter__(self) -> None:
        if self._forked or not self._has_slept():
            return
        processor, thread = _places.here(), threading.get_ident()
        if processor < 0:
            return
        try:
            if self._holder.setdefault("thread", thread) == thread and self._undo is None:
                self._undo = self._place(processor)
                if self._undo is None:
                    self._holder.clear()
        except BaseException:  # an error, or an interrupt
            self._leave()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            self._leave()
        except BaseException:  # an interrupt, which may have come anywhere in it
            self._leave()
            raise
        self._last = perf_counter()

    def is_warm(self) -> bool:
        """Say whether the calling thread left a block a moment ago, so that another does nothing.

        That counts as another one.
        """
        now = perf_counter()
        if now - self._last >= _WARM or threading.get_ident() != self._caller:
            return False
        self._last = now
        return True

    def _leave(self) -> None:
        """Put back what this thread has placed; done twice, it is done."""
        if self._holder.get("thread") == threading.get_ident():
            if self._undo is not None:
                self._undo()
                self._undo = None
            self._holder.clear()

    def _has_slept(self) -> bool:
        """Say whether the calling thread has slept lately, or is another one.

        The scheduler wakes threads on the caller's processor after a sleep of 0.3 ms and more, one
        in a hundred, and of 5 ms nearly always; but not where the caller has worked meanwhile.
        """
        if self.is_warm():
            return False
        now, thread = perf_counter(), threading.get_ident()
        (since, worked), self._seen = self._seen, (now, thread_time())
        if thread != self._caller:
            self._caller = thread
            return True
        passed = now - since
        return passed - (self._seen[1] - worked) > _WARM + _LOST * passed

    def _after_fork(self) -> None:
        """Leave the threads alone: a child's are started later, and to place them now ends it."""
        self._forked = True
