"""What wakes threads that sleep without the interpreter's lock: a semaphore of the C library.

Whom a lock of Python's wakes waits for the interpreter's lock next, and so it wakes twice.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final, NamedTuple

__all__ = ["Bell"]

#: Bytes of a semaphore at the most: 32 in the C libraries of Linux.
_SIZE: Final = 128


class _Functions(NamedTuple):
    make: Any
    wait: int
    ring: int


@cache
def _functions() -> _Functions | None:
    try:
        library = ctypes.CDLL(None)
        wait, ring = (
            ctypes.cast(each, ctypes.c_void_p).value or 0
            for each in (library.sem_wait, library.sem_post)
        )
        return _Functions(library.sem_init, wait, ring)
    except (AttributeError, OSError, TypeError):  # none, or a system that is none of POSIX's
        return None


class Bell:
    """A semaphore, for compiled code.

    Attributes
    ----------
    address : int
        What its functions take; 0 where the system has no semaphores.
    wait, ring : int
        Addresses of functions: the first one returns 0 once somebody has called the second.
    """

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(_SIZE)
        self.address = self.wait = self.ring = 0
        functions = _functions()
        # Some systems have the functions, but semaphores only by name.
        if functions is not None and functions.make(self._memory, 0, 0) == 0:
            self.address = ctypes.addressof(self._memory)
            _, self.wait, self.ring = functions
