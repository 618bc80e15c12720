"""Helpers for the hot path that are a stand-in, and always awake.

Whatever is shared, all stretches but the first are done by another thread.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import numpy as np

import corepy.array_api as xp
from corepy._crew import Crew, Entrance
from corepy.dispatch import _hot

WORD = ctypes.c_longlong
RUN = ctypes.CFUNCTYPE(WORD, *[WORD] * 5)
STRETCH = ctypes.CFUNCTYPE(ctypes.c_int, *[WORD] * 3)


class StandIn:
    """Helpers who do all but the first stretch of a job, in a thread of their own."""

    def __init__(self) -> None:
        self._memory = np.zeros(256, np.int64)
        self._watching = np.ones(1, np.int64)
        self._run = RUN(self._share)
        self.most = 2
        self.naps = 0
        self.jobs: list[tuple[int, int, int]] = []
        self.asked: Callable[[], object] = lambda: None
        self.began: Callable[[], object] = lambda: None
        self.judged: list[tuple[float, float]] = []
        self.gathered = 0
        job = self._memory.ctypes.data
        run = ctypes.cast(self._run, ctypes.c_void_p).value
        assert run is not None
        watched = self._watching.ctypes.data
        entrance = Entrance(run, 0, watched, job, job + 128, job + 256, 5e-5)
        self.crew = Crew(entrance, self._threads, self._gather, rings=True, judge=self._judge)

    def _threads(self, most: int) -> int:
        self.asked()
        return min(most, self.most)

    def _gather(self) -> None:
        self.gathered += 1

    def _judge(self, worked: float, waited: float) -> None:
        self.judged.append((worked, waited))

    def _share(self, board: int, job: int, rows: int, parts: int, most: int) -> int:
        work = STRETCH(int(self._memory[16]))
        cuts = [rows * i // parts for i in range(parts + 1)]
        self.jobs.append((rows, parts, most))
        self.began()

        def others() -> None:
            for i in reversed(range(1, parts)):
                work(job, cuts[i], cuts[i + 1])

        helper = threading.Thread(target=others)
        helper.start()
        work(job, cuts[0], cuts[1])
        helper.join()
        return 2 * self.naps


def enlist(those: StandIn) -> None:
    """Give the hot path helpers, for which it asks after some milliseconds of loops."""
    asked = False

    def find(seconds: float) -> Crew:
        nonlocal asked
        asked = True
        return those.crew

    x = xp.ones(1_000_000)  # first: new memory may take as long, and say nothing of roots
    _hot.helped_by(find)
    for _ in range(100):
        xp.sqrt(x)
        if asked:
            break
