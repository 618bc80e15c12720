"""Whether other processes keep the processors busy, found out cheaply.

A library that shares its work among all cores waits for the slowest of its threads, and a thread
that has lost its core comes back only when the scheduler says so: a sum of 30 us was measured to
take 8 ms. So routes to such libraries ask here first. One look takes some 10 us and holds for
`INTERVAL`. What it misses, a call that took longer than it may have shows (`lost`).
"""

from __future__ import annotations

import os
import time
from typing import Final

from corepy._signals import let_through

#: Seconds for which an answer holds.
INTERVAL: Final = 0.05
#: The part of the cores asked for that must be free: three of four, one and a half of two.
FREE: Final = 0.75
#: Seconds to work alone after a call that lost time; twice as many after each further one.
PAUSE: Final = (0.02, 2.0)


class Neighbours:
    """How many cores others use: all that the machine computes less what this process does.

    The time since the look before is what counts, so the first one knows nothing yet. Where the
    system does not tell (it is Linux that does, in ``/proc/stat``) nobody is ever busy.
    """

    def __init__(self) -> None:
        self.looked = 0.0
        self.total = self.own = 0.0
        self.cores = os.cpu_count() or 1
        self.used = 0.0
        self.until = 0.0
        self.pause = PAUSE[0]

    def lost(self, is_lost: bool) -> None:
        """Take note of whether a call with several threads took longer than with one."""
        if is_lost:
            self.until = time.monotonic() + self.pause
            self.pause = min(2 * self.pause, PAUSE[1])
        else:
            self.pause = PAUSE[0]

    def pausing(self) -> bool:
        """Say whether a call lost time a moment ago."""
        return time.monotonic() < self.until

    def busy(self, threads: int) -> bool:
        """Say whether too few cores are free for so many threads."""
        now = time.monotonic()
        if now - self.looked >= INTERVAL:
            self._look(now)
        return are_too_few(self.cores - self.used, threads)

    def free(self, threads: int) -> int:
        """Return how many of so many threads would have a core, at least one; as last seen."""
        return max(1, min(threads, int(self.cores - self.used)))

    def _look(self, now: float) -> None:
        total, own = busy_seconds(), time.process_time()
        if total is None:
            self.looked = float("inf")  # there is nothing to see, ever
            return
        if self.looked:
            passed = now - self.looked
            self.used = max(0.0, (total - self.total) - (own - self.own)) / passed
        self.looked, self.total, self.own = now, total, own


def are_too_few(free: float, threads: int) -> bool:
    """Say whether too few cores are free for so many threads."""
    return free < FREE * threads


def busy_seconds() -> float | None:
    """Return the seconds that all processors together have worked, None where nobody says."""
    try:
        with open("/proc/stat", "rb") as file:
            fields = file.readline().split()[1:9]
    except OSError as error:
        let_through(error)
        return None
    user, nice, system, _idle, _waiting, irq, softirq, stolen = map(int, fields)
    return (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")


NEIGHBOURS: Final = Neighbours()
