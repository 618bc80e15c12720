"""Memory for large results, used again when a result is gone.

New memory costs more than filling it: the system clears each page when it is first touched, 0.6 ms
for 4 MB beside 0.2 ms for the norm that is written there. Up to two blocks wait for the next result
of their size.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

Host = npt.NDArray[Any]

#: Bytes of the results that are kept: of smaller ones the C library takes care, and larger ones
#: would hold too much that others may need.
_LEAST: Final = 1 << 20
_MOST: Final = 1 << 27
_LINE: Final = 64


class _Block:
    """The owner of some memory, which outlives all arrays in it, and then keeps it for others."""

    __slots__ = ("__array_interface__", "_memory")

    # Its operations are atomic, so that no lock is needed where the last reference may go.
    waiting: ClassVar[deque[Host]] = deque(maxlen=2)

    def __init__(self, memory: Host) -> None:
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self.waiting.append(self._memory)  # and forgets the oldest, if there are two


def _memory(size: int) -> Host:
    for _ in range(len(_Block.waiting)):
        try:
            found = _Block.waiting.popleft()
        except IndexError:  # another thread was faster
            break
        if found.size == size:
            return found
        _Block.waiting.append(found)
    return np.empty(size, np.uint8)


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any], *, again: bool = True) -> Host:
    """Make an array that begins at a multiple of 64 bytes, with arbitrary values.

    Parameters
    ----------
    again : bool
        Whether its memory may be used again when nothing refers to it.
    """
    size = math.prod(shape) * dtype.itemsize
    if again and _LEAST <= size <= _MOST:
        memory = np.asarray(_Block(_memory(size + _LINE)))
    else:
        memory = np.empty(size + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + size].view(dtype).reshape(shape)
