"""Threads that help compiled code with its loops, as those hand them over who have them.

Nothing here starts or stops a thread; see `corepy._loops._jobs` for how work is shared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Crew", "Entrance"]


class Entrance(NamedTuple):
    """How code puts a job where helpers see it: addresses, but for the last.

    Attributes
    ----------
    run : int
        Of ``long run(long board, long job, long rows, long parts, long most)``, which works on the
        job together with at most so many helpers, and gives twice the number of naps that it took
        waiting for them, and one more if a stretch failed. The interpreter's lock is not needed.
    board : int
    watched : int
        Of a word that tells how many threads watch, which join at once.
    job : int
        Of a job's memory, for one caller at a time.
    function : int
        Of the word that has to hold the address of ``int function(long job, long start, long
        stop)``, which works on a stretch of rows and returns 0.
    room : int
        Of 1,024 bytes for what the function needs besides.
    nap : float
        Seconds that a nap takes.
    """

    run: int
    board: int
    watched: int
    job: int
    function: int
    room: int
    nap: float


@dataclass(frozen=True, slots=True)
class Crew:
    """Helpers, and what has to be asked before they are called.

    Attributes
    ----------
    entrance : Entrance
    threads : callable
        ``threads(most)`` returns how many may work now, the caller among them.
    gather : callable
        Sees that the helpers run, and wake apart from the calling thread's processor. To be called
        before the first job, and from each other processor; and where no job `rings`, to wake them.
    rings : bool
        Whether a job wakes helpers that sleep.
    judge : callable
        ``judge(worked, waited)`` takes note of seconds that the caller worked and waited.
    """

    entrance: Entrance
    threads: Callable[[int], int]
    gather: Callable[[], object]
    rings: bool
    judge: Callable[[float, float], object]
