"""The arrays that a server holds: bounded in number and bytes, and leased."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(slots=True)
class _Lease:
    array: Array
    expires: float


class Store:
    """Arrays by key. Not thread-safe: the server's event loop alone uses it.

    Parameters
    ----------
    max_arrays, max_bytes : int
        What is held at most.
    lease : float
        Seconds for which an array that nobody uses is held.
    clock : callable
        Returns seconds.
    """

    def __init__(
        self,
        max_arrays: int,
        max_bytes: int,
        lease: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_arrays = max_arrays
        self.max_bytes = max_bytes
        self.lease = lease
        self.used_bytes = 0
        self._clock = clock
        # In the order of their expiry, because each use moves an array to the end.
        self._leases: OrderedDict[str, _Lease] = OrderedDict()

    def __len__(self) -> int:
        return len(self._leases)

    def get(self, key: str) -> Array | None:
        """Return an array and prolong its lease; None if there is none."""
        self._expire()
        found = self._leases.get(key)
        if found is None:
            return None
        found.expires = self._clock() + self.lease
        self._leases.move_to_end(key)
        return found.array

    def add(self, arrays: Iterable[tuple[str, Array]]) -> None:
        """Hold all of these arrays, or none of them.

        Raises
        ------
        MemoryError
            If there is no room.
        """
        self._expire()
        # A repeated request may have finished meanwhile, with the same values under the same keys.
        new = [(key, array) for key, array in arrays if key not in self._leases]
        size = sum(array.nbytes for _, array in new)
        if self.used_bytes + size > self.max_bytes:
            raise MemoryError(
                f"store: {size} bytes are to be held beside {self.used_bytes}; expected at most "
                f"{self.max_bytes} in all"
            )
        if len(self._leases) + len(new) > self.max_arrays:
            raise MemoryError(
                f"store: {len(new)} arrays are to be held beside {len(self._leases)}; expected at "
                f"most {self.max_arrays} in all"
            )
        for key, array in new:
            array.flags.writeable = False
            self._leases[key] = _Lease(array, self._clock() + self.lease)
        self.used_bytes += size

    def drop(self, key: str) -> None:
        """Forget an array; that is done already where there is none."""
        found = self._leases.pop(key, None)
        if found is not None:
            self.used_bytes -= found.array.nbytes

    def drop_client(self, client: str) -> None:
        """Forget every array of a client."""
        for key in [key for key in self._leases if key.startswith(f"{client}-")]:
            self.drop(key)

    def results(self, key: str) -> Array | tuple[Array, ...] | None:
        """Return what an operation has stored under its key already, None if it has not."""
        single = self.get(key)
        if single is not None:
            return single
        several: list[Array] = []
        while (item := self.get(f"{key}.{len(several)}")) is not None:
            several.append(item)
        return tuple(several) or None

    def _expire(self) -> None:
        now = self._clock()
        while self._leases:
            key, oldest = next(iter(self._leases.items()))
            if oldest.expires > now:
                return
            self.drop(key)


def named(key: str, made: Array | tuple[Array, ...]) -> list[tuple[str, Array]]:
    """Give each result of an operation its key."""
    if isinstance(made, np.ndarray):
        return [(key, made)]
    return [(f"{key}.{place}", item) for place, item in enumerate(made)]
