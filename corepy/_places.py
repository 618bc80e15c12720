"""On which processors threads wake: apart from the thread that shares its work with them.

A scheduler may wake a thread on the very processor of the one that called it, where both take turns
while another processor idles. On a virtual machine of two, a product of 96 x 96 by two threads of
BLAS took 11 ms after 10 ms of rest (median), and 0.17 ms with the second thread kept from the
caller's processor. So whoever wakes a helper here says first where it may not be.

Only Linux has calls for this. Where there are many processors an idle one is soon found, and as
many threads to be told would cost more than that.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Final

__all__ = ["FEW", "elsewhere", "here"]

#: Processors up to which threads are placed.
FEW: Final = 8


@cache
def _current() -> Callable[[], int] | None:
    """Return the system's function that tells a thread's processor, where there is one."""
    if not hasattr(os, "sched_setaffinity") or not 1 < (os.cpu_count() or 1) <= FEW:
        return None
    try:
        return ctypes.PyDLL(None).sched_getcpu
    except (AttributeError, OSError):  # another C library
        return None


def here() -> int:
    """Return the number of the caller's processor; -1 where threads are not placed."""
    current = _current()
    return -1 if current is None else current()


def elsewhere(processor: int) -> set[int]:
    """Return the processors that the calling thread may use, but for one."""
    return os.sched_getaffinity(0) - {processor}
