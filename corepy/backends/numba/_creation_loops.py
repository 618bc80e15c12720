"""Loops that fill new memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from corepy._loops._streaming import HELD, fence, stream
from corepy.backends.numba._compiled import BLOCK, kernel


@kernel()
def fill(value: Any, out: Any, start: int, stop: int) -> None:
    """Set blocks of ``out (n,)`` to ``value (1,)``."""
    element, part = value[0], out[start * BLOCK : stop * BLOCK]
    if out.nbytes <= HELD:
        for i in range(part.size):
            part[i] = element
        return
    block = np.full(BLOCK, element, out.dtype)
    for first in range(0, part.size, BLOCK):
        some = part[first : first + BLOCK]
        stream(some.ctypes.data, block.ctypes.data, some.nbytes)
    fence()


@kernel()
def count(first: int, step: int, out: Any, start: int, stop: int) -> None:
    """Set blocks of ``out (n,)`` to ``first + i * step``, integers that its dtype holds."""
    part = out[start * BLOCK : stop * BLOCK]
    value = first + start * BLOCK * step
    for i in range(part.size):
        part[i] = value + i * step


@kernel()
def space(first: float, step: float, out: Any, start: int, stop: int) -> None:
    """Set blocks of ``out (n,)`` to ``i * step + first``, computed in float64."""
    part = out[start * BLOCK : stop * BLOCK]
    for i in range(part.size):
        part[i] = (start * BLOCK + i) * step + first
