"""In how many threads a loop runs.

Rows are shared among threads of our own rather than Numba's ``prange``. There the caller waits for
every thread to have done its part, and where another process has the processor, that takes a slice
of the scheduler's time: some 8 ms were measured for work of 0.2 ms. Here whoever is there takes the
next stretch, and a helper that has not come when nothing is left is not waited for. Numba's layers
of threads also end the process when two threads (workqueue) or a forked child (OpenMP) enter them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import perf_counter, thread_time
from typing import Any, Final

from numba import config, get_num_threads
from numba.np.ufunc import parallel

from corepy._budget import budget
from corepy._crew import Crew
from corepy._loops._helpers import helpers
from corepy._loops._jobs import shared

__all__ = ["crew", "free_threads", "launch"]

#: Work, in elements of 8 bytes of a cheap loop, from which a second thread is worth waking: some
#: 40 us, as it begins 30 us late.
PARALLEL_FROM = 400_000
#: The same where one is awake, which begins at once, and for each thread more.
SHARED_FROM = 100_000
#: Work of one stretch on average, and stretches for each thread; where each is a call of Python's
#: more, and less often.
STRETCH = 10_000
_SHARES: Final = 8
#: Rows that are each a stretch.
_FEW: Final = 64
CALLED_STRETCH: Final = 50_000
_CALLED_SHARES: Final = 4
#: Seconds that a scheduler takes from a thread at the least; a helper that has slept wakes sooner.
_LOST: Final = 5e-4


class _Company:
    """Whether helpers are worth calling just now.

    Where other processes keep the processors busy, a helper may lose its own in the middle of a
    stretch, and the caller waits for the scheduler to give it back. After that helpers are left
    alone for some calls, for twice as many each time that it happens again. Threads may overwrite
    each other's count; nothing but time depends on it.
    """

    def __init__(self) -> None:
        self.alone = 0
        self.penalty = 1

    def is_poor(self) -> bool:
        """Say whether to work alone this time."""
        if self.alone:
            self.alone -= 1
            return True
        return False

    def judge(self, worked: float, waited: float) -> None:
        """Take note of how long the caller worked, and how long it waited meanwhile."""
        if waited > max(worked, _LOST):
            self.alone, self.penalty = self.penalty, min(2 * self.penalty, 64)
        else:
            self.penalty = 1


_company = _Company()


def _is_worth_sharing(work: int) -> bool:
    """Say whether threads share so much work, in elements of a cheap loop, or one does it alone."""
    return work >= PARALLEL_FROM or (work >= SHARED_FROM and helpers().board.watchers > 0)


def numbas_threads() -> int:
    """Return how many threads Numba would use for the calling one, without starting them."""
    started = getattr(parallel, "_is_initialized", True)  # whoever sets the number starts them
    return int(get_num_threads() if started else config.NUMBA_NUM_THREADS)


def free_threads(most: int) -> int:
    """Return how many threads may work now, of so many at the most."""
    threads = min(most, numbas_threads(), budget() or most)
    return 1 if threads > 1 and _company.is_poor() else threads


def crew() -> Crew | None:
    """Return the helpers for loops that Numba has not compiled; None where it compiles nothing."""
    those = helpers()
    entrance = those.board.entrance()
    if entrance is None:
        return None
    return Crew(entrance, free_threads, lambda: those.wake(1), those.board.rings, _company.judge)


def launch(function: Callable[..., None], arguments: tuple[Any, ...], rows: int, work: int) -> None:
    """Run a function on its rows, in several threads where that pays.

    Parameters
    ----------
    function : callable
        ``function(*arguments, start, stop)`` works on a stretch of rows, without the GIL: a
        compiled loop, or one of Python's that calls NumPy. If a loop raises an exception, it is
        run once more to raise it.
    rows : int
        How many rows there are.
    work : int
        How much there is to do, in elements of a cheap kernel.

    Notes
    -----
    At most as many threads work as `corepy.set_num_threads` allows, and `numba.set_num_threads`
    the calling one. What is a context's own, such as `numpy.errstate`, holds in all of them, and
    an exception of any is raised.
    """
    if rows > 1 and _is_worth_sharing(work):
        threads = free_threads(min(rows, 1 + work // SHARED_FROM))
        loop = shared(function) if threads > 1 else None
        if loop is not None:
            if _together(loop, arguments, rows, work, threads):
                return
        elif threads > 1 and work >= PARALLEL_FROM:
            _by_calls(function, arguments, rows, work, threads)
            return
    function(*arguments, 0, rows)


def _together(
    loop: Callable[..., int], arguments: tuple[Any, ...], rows: int, work: int, threads: int
) -> bool:
    """Run a compiled loop together with helpers; say whether it is done."""
    parts = rows if rows <= _FEW else min(rows, _SHARES * threads, work // STRETCH)
    those = helpers()
    those.wake(threads - 1)
    start = perf_counter()
    failed, waited = those.board.run(loop, arguments, rows, parts, threads - 1)
    _company.judge(worked=perf_counter() - start - waited, waited=waited)
    return not failed


def _begin(part: int, parts: int, rows: int) -> int:
    """Return the first row of a stretch: they become shorter, so that all threads end together."""
    return rows + -rows * (parts - part) ** 2 // parts**2


def _by_calls(
    function: Callable[..., None], arguments: tuple[Any, ...], rows: int, work: int, threads: int
) -> None:
    """Run a function of Python's together with helpers."""
    parts = min(rows, _CALLED_SHARES * threads, work // CALLED_STRETCH)
    numbers = count()

    def share() -> None:
        while (part := next(numbers)) < parts:
            start, stop = _begin(part, parts, rows), _begin(part + 1, parts, rows)
            if start < stop:
                function(*arguments, start, stop)

    start, before = perf_counter(), thread_time()
    called = helpers().call(share, min(threads, parts) - 1)
    errors: list[BaseException] = []
    try:
        share()
    finally:
        for call in called:  # those that have begun may be at their last stretch
            errors += call.settle()
        worked = thread_time() - before
        # Whatever it waited for: a helper, its own processor, or the interpreter's lock, which a
        # helper may hold that has lost its processor.
        _company.judge(worked=worked, waited=perf_counter() - start - worked)
    for error in errors:
        raise error
