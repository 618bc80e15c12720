"""How the compiled kernels are kept, and in how many threads they run.

A family's ``numba.py`` has for each kernel a function that works on a stretch of rows, and one that
shares the rows among Numba's threads by calling it. Both are compiled on their first call for a
combination of dtypes and kept on disk, beside the source or in ``NUMBA_CACHE_DIR``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from numba import get_num_threads, njit, threading_layer

__all__ = ["launch", "parallel", "serial"]

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

#: Work, in elements of a cheap kernel, from which a second thread is worth waking (5 to 20 us).
PARALLEL_FROM = 32768


@cache
def _digest() -> str:
    """Return what changes when the code that the kernels have in common does.

    Numba notices an edit of the file that holds a kernel, but not of those that it calls.
    """
    folder = Path(__file__).parent
    shared = (folder / name for name in ("_simd.py", "_series.py"))
    return sha256(b"".join(path.read_bytes() for path in shared)).hexdigest()[:12]


def _compile(function: Kernel, **options: Any) -> Kernel:
    function.__qualname__ = f"{function.__qualname__}_{_digest()}"  # names the file on disk
    options = {"nogil": True, "error_model": "numpy"} | options
    try:
        compiled: Kernel = njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written: each process compiles for itself
        compiled = njit(**options)(function)
    return compiled


def serial(function: Kernel) -> Kernel:
    """Compile a kernel that works in the calling thread; multiply-adds may be fused."""
    return _compile(function, fastmath={"contract"})


def parallel(function: Kernel) -> Kernel:
    """Compile a function whose ``prange`` runs in Numba's threads."""
    return _compile(function, parallel=True)


# Numba's "workqueue" ends the process when two Python threads enter it at once, and the other
# layers wake more threads than there are processors. So one caller at a time has the threads, and
# whoever finds them taken does not wait, but works alone.
_busy = threading.Lock()
#: Whether this process was forked from one that had started Numba's threads: they are not in the
#: child, and the OpenMP of GNU ends a process that asks for them there.
_alone = False


def _after_fork() -> None:
    global _busy, _alone
    _busy = threading.Lock()  # whoever held it is not here
    try:
        threading_layer()
    except ValueError:  # never started
        return
    _alone = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def launch(
    one: Callable[..., None],
    many: Callable[..., None],
    arguments: tuple[Any, ...],
    rows: int,
    work: int,
) -> None:
    """Run a kernel on its rows, in several threads where that pays.

    Parameters
    ----------
    one, many : callable
        ``one(*arguments, start, stop)`` works on a stretch of rows, and ``many(*arguments, rows,
        parts)`` on as many such stretches at once.
    rows : int
        How many rows there are.
    work : int
        How much there is to do, in elements of a cheap kernel.
    """
    parts = 1 if work < PARALLEL_FROM or _alone else min(rows, get_num_threads())
    if parts > 1 and _busy.acquire(blocking=False):
        try:
            many(*arguments, rows, parts)
        finally:
            _busy.release()
    else:
        one(*arguments, 0, rows)
