"""Where torch's OpenMP wakes its second thread, for the length of an operation.

GNU's OpenMP, which comes with torch on Linux, cannot be told where its threads wake; but Linux
places any thread of a process by its number. Which one is OpenMP's shows where it sleeps: in the
code of that library.

Here the caller sleeps too, where it waits for the other at the end of each step, and whoever wakes
it takes it to its own processor. So for the length of an operation the caller stays where it is. A
determinant of 512 x 512 on a virtual machine of two processors after 10 ms of sleep took 3.2 ms
(one in five 10 ms), as long with the other thread kept from the caller's processor alone, and
1.8 ms with both.

All this is for two processors. Where there are more, OpenMP ends and starts threads as it needs
them, and they would start on the caller's one processor.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from corepy._apart import Apart, Undo
from corepy._signals import let_through, suppressed

__all__ = ["apart"]

_TASKS: Final = "/proc/self/task"
_MAPS: Final = "/proc/self/maps"
#: What the system says of a thread that is on a processor, or waits for one.
_RUNNING: Final = "running"


class _Worker:
    """The second thread of torch's OpenMP, by the system's number."""

    def __init__(self) -> None:
        self._code: list[range] = []  # addresses of the library
        self._workers: set[str] = set()
        self._others: set[str] = set()
        self._count = 0  # the process's threads when they were looked at
        self._called = threading.local()

    def place(self, processor: int) -> Undo | None:
        """Keep it from a processor, and the calling thread on that one."""
        # OpenMP starts a thread for each one that calls it, with the processors which that one may
        # use now; so what calls for the first time is not placed.
        if not hasattr(self._called, "before"):
            self._called.before = True
            return None
        allowed = os.sched_getaffinity(0)
        if len(allowed) != 2 or processor not in allowed:
            return None
        if _count() != self._count:
            self._look()
        # If there are more, several threads call torch, and nobody can tell whose each one is.
        if len(self._workers) != 1:
            return None
        worker = int(next(iter(self._workers)))
        try:
            mask = os.sched_getaffinity(worker)
        except OSError as error:  # it has ended, and another thread has begun
            let_through(error)
            self._count = 0
            return None
        if not mask - {processor}:
            return None  # somebody wants it here
        undo = partial(self._back, {worker: mask, 0: allowed}, processor)
        try:
            os.sched_setaffinity(worker, mask - {processor})
            os.sched_setaffinity(0, {processor})
            return undo
        except BaseException as error:  # an interrupt too: nobody else would put them back
            undo()
            if not isinstance(error, OSError):
                raise
            let_through(error)  # else the system has taken processors from this process meanwhile
            return None

    def _back(self, masks: dict[int, set[int]], processor: int) -> None:
        with ExitStack() as stack:  # all of them, whatever a signal's handler raises meanwhile
            for thread, mask in masks.items():
                stack.callback(_allow, thread, mask)
        if _count() != self._count:
            # Who was started meanwhile by the caller has its one processor.
            for worker in map(int, self._look()):
                with suppressed(OSError):  # it has ended already
                    if os.sched_getaffinity(worker) == {processor}:
                        _allow(worker, masks[0])

    def _look(self) -> set[str]:
        """Find out who is OpenMP's now; return who was not there before."""
        self._count, tasks = _count(), _tasks()
        self._workers &= tasks
        self._others &= tasks
        new = tasks - self._workers - self._others
        if not new:
            return new
        self._code = self._code or _code()
        for task in new:
            place = _place_of(task)
            if any(place in addresses for addresses in self._code):
                self._workers.add(task)
            elif place >= 0:
                self._others.add(task)
            else:
                self._count = 0  # it may yet be found asleep
        # Those that call OpenMP wait in its code as well.
        callers = {str(thread.native_id) for thread in threading.enumerate()}
        self._others |= self._workers & callers
        self._workers -= callers
        return new - callers


def _allow(thread: int, processors: set[int]) -> None:
    with suppressed(OSError):  # it has ended, or the system has taken them away meanwhile
        os.sched_setaffinity(thread, processors)


def _count() -> int:
    """Return how many threads this process has; -1 where the system does not say."""
    try:
        return os.stat(_TASKS).st_nlink  # two more, as of any folder
    except OSError as error:
        let_through(error)
        return -1


def _tasks() -> set[str]:
    """Return the numbers of this process's threads, none where the system does not say."""
    try:
        return set(os.listdir(_TASKS))
    except OSError as error:
        let_through(error)
        return set()


def _place_of(task: str) -> int:
    """Return the address at which a thread sleeps; -1 if it runs, 0 if the system does not say."""
    try:
        with open(f"{_TASKS}/{task}/syscall", encoding="ascii") as file:
            words = file.read().split()
    except OSError as error:  # it is gone, or this system has no such file
        let_through(error)
        return 0
    if words[:1] == [_RUNNING]:
        return -1
    return int(words[-1], 16) if words else 0


def _code() -> list[range]:
    """Return the addresses of the code of torch's OpenMP."""
    found = []
    with open(_MAPS, encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split(maxsplit=5)
            if len(words) == 6 and "x" in words[1]:
                path = Path(words[5].strip())
                if path.name.startswith("libgomp"):
                    start, _, end = words[0].partition("-")
                    found.append((path, range(int(start, 16), int(end, 16))))
    # Other libraries may bring another copy, whose threads have nothing to do with torch.
    folder = Path(getattr(sys.modules.get("torch"), "__file__", None) or "/").parent
    own = [addresses for path, addresses in found if path.is_relative_to(folder)]
    return own or [addresses for _, addresses in found]


_APART: Final = Apart(_Worker().place)


def apart() -> AbstractContextManager[None]:
    """Let OpenMP's second thread wake apart from the caller's processor for the length of a block.

    That costs some 20 us, twice as much after 10 ms of sleep, and less than one where the caller
    has not slept since the last block.
    """
    return _APART
