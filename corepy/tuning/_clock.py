"""Comparing callables fairly on a machine that does other things too.

All that is compared runs in one process, in short rounds, each in another order; what is compared
is compared within its round, and rounds in which something came between are left out.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, TypeAlias

from corepy.dispatch._neighbours import are_too_few, busy_seconds

Work: TypeAlias = Callable[[], Any]

#: Seconds that one callable runs in one round, at the least: the clock and a scheduler's slice.
SLICE: Final = 1e-3
ROUNDS: Final = (7, 25)
#: The same of a device that is waited for, some 10 us, and the runs by which its time is guessed.
SLICE_OF_DEVICE: Final = 4e-3
FEW: Final = 3
#: Seconds from which on there is something to see of what others use: systems count in hundredths.
LEAST: Final = 0.1
#: Noise of a gain, as a part of it, above which a machine may be too noisy to decide.
NOISY: Final = 0.05


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one callable compares with another.

    Attributes
    ----------
    gain : float
        The other's time by this one's, the median over the rounds that count.
    noise : float
        How far off the gain may be, as a part of it: two standard errors of a median over as many
        rounds that lie as far apart.
    """

    gain: float
    noise: float

    def wins(self, margin: float) -> bool:
        """Say whether the gain exceeds a margin by more than the noise."""
        return self.gain * (1 - self.noise) >= margin

    def is_open(self, margin: float) -> bool:
        """Say whether noise is what keeps this from being decided."""
        return (
            self.noise > NOISY and not self.wins(margin) and self.gain * (1 + self.noise) >= margin
        )


def compare(base: Sequence[float], times: Sequence[float]) -> Comparison:
    """Compare times taken in the same rounds.

    Rounds whose ratio lies more than three times the usual distance from the median are left out.
    """
    ratios = [b / t for b, t in zip(base, times, strict=True)]
    middle = statistics.median(ratios)
    spread = _spread(ratios, middle)
    kept = [ratio for ratio in ratios if abs(ratio - middle) <= 3 * spread] or ratios
    gain = statistics.median(kept)
    # The standard error of a median is that of a mean by sqrt(pi / 2).
    error = math.sqrt(math.pi / 2 / len(kept)) * _spread(kept, gain)
    return Comparison(gain, 2 * error / gain)


def _spread(values: Sequence[float], middle: float) -> float:
    # 1.4826 makes a standard deviation of the median distance, for what is normally distributed.
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


def take_turns(
    works: Mapping[str, Work], seconds: float, wait: Work | None = None
) -> dict[str, list[float]]:
    """Run callables in rounds for about so long, and return their times a run, round by round.

    Parameters
    ----------
    works : mapping of str to callable
    seconds : float
    wait : callable, optional
        Waits for a device that goes on when they are back: once after each slice, which is as many
        times as long that this is a small part of it.
    """
    counts, took = {}, 0.0
    least = SLICE if wait is None else SLICE_OF_DEVICE
    for name, work in works.items():
        for _ in range(1 if wait is None else 2):  # compiles, imports, fills caches and pools
            _timed(work, 1, wait)
        few = 1 if wait is None else FEW
        once = _timed(work, few, wait)
        counts[name] = max(1, round(least / once))
        took += once * counts[name]
    rounds = min(max(round(seconds / took), ROUNDS[0]), ROUNDS[1])
    order, rng = list(works), random.Random(0)
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        rng.shuffle(order)
        for name in order:
            times[name].append(_timed(works[name], counts[name], wait))
    return times


class Renewed:
    """Work of which each run takes an object that nobody has used, made while no clock runs.

    Parameters
    ----------
    work : callable
        Takes such an object.
    make : callable
        Makes one.
    """

    def __init__(self, work: Callable[[Any], Any], make: Callable[[], Any]) -> None:
        self._work = work
        self._make = make
        self._made: list[Any] = []

    def prepare(self, count: int) -> None:
        """Make objects for so many runs."""
        self._made = [self._make() for _ in range(count)]

    def __call__(self) -> Any:
        return self._work(self._made.pop())


def _timed(work: Work, count: int, wait: Work | None = None) -> float:
    if isinstance(work, Renewed):
        work.prepare(count)
    start = perf_counter()
    for _ in range(count):
        work()
    if wait is not None:
        wait()
    return (perf_counter() - start) / count


def after(company: Work, works: Mapping[str, Work], rounds: int) -> dict[str, list[float]]:
    """Return the times of single runs, each right after a run of something else."""
    times: dict[str, list[float]] = {name: [] for name in works}
    order, rng = list(works), random.Random(0)
    for _ in range(rounds):
        rng.shuffle(order)
        for name in order:
            company()
            times[name].append(_timed(works[name], 1))
    return times


def beside_itself(works: Mapping[str, Work], rounds: int) -> dict[str, list[float]]:
    """Return the times of single runs, each right after a run of the same."""
    times: dict[str, list[float]] = {}
    for name, work in works.items():
        work()
        times[name] = [_timed(work, 1) for _ in range(rounds)]
    return times


#: Ends when its parent is gone: a tuning that was killed would leave it to run for ever. Ctrl-C
#: reaches it too, which only the parent has to answer.
_BUSY: Final = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while os.getppid() == {parent}:
    for _ in range(100_000):
        pass
"""


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep so many cores busy with other processes for the length of a block."""
    command = [sys.executable, "-S", "-c", _BUSY.format(parent=os.getpid())]
    others: list[subprocess.Popen[bytes]] = []
    try:
        # Those that were begun are in the list when the next one fails.
        others.extend(subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(count))
        yield
    finally:
        for other in others:
            other.kill()
        for other in others:
            other.wait()


class Usage:
    """How many cores other processes use, from when this is made."""

    def __init__(self) -> None:
        self._start = self._mark()

    def cores(self) -> float | None:
        """Return the mean number, None where the system does not tell."""
        passed, own, total = (
            None if now is None or then is None else now - then
            for now, then in zip(self._mark(), self._start, strict=True)
        )
        return None if total is None else max(0.0, total - (own or 0.0)) / (passed or 1.0)

    def is_crowded(self, threads: int) -> bool:
        """Say whether too few processors were free for so many threads, as routes see it."""
        used = self.cores()
        if used is None or perf_counter() - self._start[0] < LEAST:
            return False
        return are_too_few((os.cpu_count() or 1) - used, threads)

    def _mark(self) -> tuple[float, float, float | None]:
        return perf_counter(), sum(os.times()[:4]), busy_seconds()
