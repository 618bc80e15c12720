"""The pool of host memory: what it keeps, how much that may be, and giving it back.

Large results of the backends ``numpy`` and ``numba`` come from memory that earlier results no
longer need; see ``_host_pool.pyx``, which is compiled as corepy is installed. Where it was not,
NumPy asks the system each time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from corepy._errors import bad_argument, bad_type
from corepy._extensions import extension
from corepy._variables import number

__all__ = ["MemoryStats", "recycling", "release", "set_memory_pool", "statistics"]

#: Bytes that wait at most, unless somebody says otherwise: a sixteenth of the host's memory, and
#: never more than this. What is reserved stays near the most that was in use at once anyway.
_MOST: Final = 1 << 30


_pool: Final[Any] = extension("corepy.devices._host_pool")[0]


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """What the pools of a device hold and have done, in this process, as far as they count it.

    Attributes
    ----------
    allocated_bytes, peak_allocated_bytes : int
        In use by results that came from the pool: now, and the most at once.
    cached_bytes, cached_blocks : int
        Waiting for the next result.
    recycled_blocks, new_blocks : int
        How often memory was used again, and how often the system had to give some.
    released_bytes : int
        Given back to the system so far.
    limit_bytes : int
        How much may wait on the host, and how much may be taken of an accelerator; 0 where there
        is no pool, or no limit.
    """

    allocated_bytes: int = 0
    peak_allocated_bytes: int = 0
    cached_bytes: int = 0
    cached_blocks: int = 0
    recycled_blocks: int = 0
    new_blocks: int = 0
    released_bytes: int = 0
    limit_bytes: int = 0


def statistics() -> MemoryStats:
    """Tell what the host's pool holds: zeros where there is none."""
    return MemoryStats() if _pool is None else MemoryStats(**_pool.statistics())


def set_memory_pool(limit: int) -> None:
    """Set how much memory may wait for the next large results on the host.

    Parameters
    ----------
    limit : int
        In bytes; 0 keeps none. By default a sixteenth of the host's memory, 1 GiB at most, or
        what the environment variable ``COREPY_POOL_BYTES`` says. Has no effect where corepy was not
        compiled.

    Raises
    ------
    TypeError
        If `limit` is no int.
    ValueError
        If it is negative.
    """
    if limit.__class__ is not int:
        raise bad_type("set_memory_pool", "limit", limit, "an int")
    if limit < 0:
        raise bad_argument("set_memory_pool", "limit", limit, "at least 0")
    if _pool is not None:
        _pool.limit(min(limit, (1 << 63) - 1))


def release() -> int:
    """Give the host's memory that waits for results back to the system; return its bytes."""
    return 0 if _pool is None else int(_pool.release())


def recycling(native: Callable[..., Any]) -> Callable[..., Any]:
    """Let NumPy take memory for a callable's large results from the pool."""
    if _pool is None:
        return native
    recycled: Callable[..., Any] = _pool.recycling(native)
    return recycled


def lender() -> tuple[Any, int] | None:
    """Return what the pool's memory is taken by in C; see ``_host_pool.pyx``."""
    return None if _pool is None else _pool.lender()


def _default_limit() -> int:
    wished = number("COREPY_POOL_BYTES", "bytes")
    if wished is not None:
        return wished
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on every system
        total = 4 << 30
    return min(total // 16, _MOST)


set_memory_pool(_default_limit())
# A private setting for scripts/sanitize.sh, which lets nothing come from the pool with it.
if _pool is not None and (_least := number("COREPY_POOL_LEAST", "bytes")) is not None:
    _pool.least(_least)
