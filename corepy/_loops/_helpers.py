"""The threads that help with loops, and how one is called.

A leaner `concurrent.futures.ThreadPoolExecutor`: a call costs some 3 us in the place of 10, and
helpers wake apart from the processor of the thread that calls them (`corepy._places`).
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import cache
from queue import Empty, SimpleQueue
from time import perf_counter, sleep
from typing import Final

import numpy as np
from numba import config

from corepy import _places
from corepy._budget import MOST, budget
from corepy._loops._jobs import Board, Flag, raised

__all__ = ["Call", "Helpers", "helpers"]

#: Seconds for which the end of the process waits for helpers, one of which may have no processor.
_FAREWELL: Final = 0.05


class Call:
    """Work that a helper joins, unless its caller takes it back before."""

    __slots__ = ("_context", "_done", "_errors", "_over", "_taken", "_work")

    def __init__(self, work: Callable[[], object]) -> None:
        self._work: Callable[[], object] | None = work
        self._context = copy_context()
        self._errors: list[BaseException] = []
        self._over = np.zeros(1, np.int64)
        # Whoever acquires it first has the call: a helper, or the caller that takes it back.
        self._taken = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()

    def join(self) -> Flag:
        """Do the work, in a helper, if it is still wanted; return the flag that says it is over."""
        if self._taken.acquire(blocking=False):
            assert self._work is not None
            try:
                self._context.run(self._work)
            except BaseException as error:  # the caller raises it
                self._errors.append(error)
            finally:
                self._work = None  # the caller's arrays are no longer held here
                self._done.release()
        return self._over

    def settle(self) -> list[BaseException]:
        """Take the call back, or wait until the helper that has it is done; return its errors."""
        if self._taken.acquire(blocking=False):
            self._work = None
        elif not raised(self._over):  # to sleep and wake again takes longer than most waiting
            self._done.acquire()
        return self._errors


class Helpers:
    """Threads that wait for calls and jobs, started when the first one comes.

    No more are started than the budget of threads has use for.

    Attributes
    ----------
    board : Board
        Where those who are awake look for jobs.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.board = Board()
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        # A handler of a signal that computes may come while its own thread starts them.
        self._starting = threading.RLock()
        self._threads: list[int] = []  # the system's numbers of those that run
        self._kept_off = -1  # the processor on which they may not wake
        self._dismissed = False

    def call(self, work: Callable[[], object], count: int) -> list[Call]:
        """Ask so many helpers to join in some work, in copies of the caller's context."""
        self._place()
        calls = [Call(work) for _ in range(min(count, len(self._threads)))]
        for call in calls:
            self._calls.put(call)
        self.board.call_away(len(calls))
        return calls

    def wake(self, count: int) -> None:
        """Have so many helpers watch the board as soon as a job wakes them, or at once."""
        self._place()
        if not self.board.rings:
            for _ in range(min(count, len(self._threads)) - self.board.watchers):
                self._calls.put(None)

    def dismiss(self) -> None:
        """See that nobody watches any more: the interpreter is about to end, and code with it."""
        self._dismissed = True
        self.board.call_away(0)
        end = perf_counter() + _FAREWELL
        while self.board.watchers and perf_counter() < end:
            sleep(1e-5)

    def _place(self) -> None:
        """Start threads if there are none, and see that they wake apart from the caller."""
        if len(self._threads) < (count := min(self._count, (budget() or MOST) - 1)):
            self._start(count)
        place = _places.here()
        if place != self._kept_off:
            self._keep_off(place)

    def _start(self, count: int) -> None:
        with self._starting:
            while len(self._threads) < count:
                number = len(self._threads)
                thread = threading.Thread(target=self._serve, name=f"corepy_{number}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter shuts down and starts no more
                    return
                self._threads.append(thread.native_id or 0)
                self._kept_off = -1

    def _serve(self) -> None:
        over = nobody = np.zeros(1, np.int64)
        idle = False
        while True:
            calls = self.board.calls  # whoever calls later than this ends the attendance
            try:
                call = self._calls.get(block=idle)
            except Empty:
                # The next job may come at once, and to sleep and wake takes longer than that.
                self.board.attend(over, calls)
                over, idle = nobody, self._dismissed or not self.board.rings
                continue
            over[0], idle = 1, False
            if call is not None:
                over = call.join()
            del call  # or its caller's arrays would be held until the next one

    def _keep_off(self, place: int) -> None:
        self._kept_off = place
        allowed = _places.elsewhere(place)
        if not allowed:  # the caller has but one processor, and they share it
            return
        for thread in self._threads:
            try:
                os.sched_setaffinity(thread, allowed)
            except OSError:  # they may wake where they were
                return


@cache
def helpers() -> Helpers:
    """Return the threads that help: as many as a loop can have, besides its caller."""
    made = Helpers(max(1, config.NUMBA_NUM_THREADS - 1))
    atexit.register(made.dismiss)
    return made


def _forget() -> None:
    if helpers.cache_info().currsize:
        atexit.unregister(helpers().dismiss)
    helpers.cache_clear()


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_forget)
