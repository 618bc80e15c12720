"""Compiled loops that choose and compress; values come as integers of their bits."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._loops._simd import expect
from corepy.backends.numba._compiled import BLOCK, kernel

Array = npt.NDArray[Any]

#: Elements of a mask that are counted together, and then compressed together.
CHUNK: Final = 65_536
#: How many elements ahead memory is fetched: far enough for it to come, near enough to stay.
_AHEAD: Final = 32


@kernel()
def choose(
    condition: Array,
    x1: Array,
    x2: Array,
    out: Array,
    step: int,
    step1: int,
    step2: int,
    start: int,
    stop: int,
) -> None:
    """Put `x1` where the condition holds and `x2` elsewhere, into ``out (size,)``, in blocks.

    An operand whose step is 0 is one value, given as a block of copies. Both are read whatever the
    condition says: reading only one would be a branch, or a masked move where there are such.
    """
    for block in range(start, stop):
        first = block * BLOCK
        into = out[first : first + BLOCK]
        which = condition[first * step : first * step + into.size]
        yes = x1[first * step1 : first * step1 + into.size]
        no = x2[first * step2 : first * step2 + into.size]
        for i in range(into.size):
            a, b = yes[i], no[i]
            into[i] = a if which[i] else b


@kernel()
def compress(x: Array, mask: Array, ends: Array, out: Array, start: int, stop: int) -> None:
    """Put the elements of ``x (size,)`` where the mask holds, chunk by chunk.

    ``ends (chunks,)`` tells how many there are up to the end of each chunk. Each element is
    written and kept only if the place moves on: no branch to mispredict. Should another thread
    have cleared flags since they were counted, the rest of the places stay as they are.
    """
    for chunk in range(start, stop):
        taken = ends[chunk - 1] if chunk else 0
        end = ends[chunk]
        some, held = x[chunk * CHUNK : (chunk + 1) * CHUNK], mask[chunk * CHUNK :]
        i = 0
        while taken < end and i < some.size:
            out[np.uint64(taken)] = some[np.uint64(i)]
            taken += held[np.uint64(i)]
            i += 1


@kernel()
def gather(x: Array, indices: Array, out: Array, beyond: Array, start: int, stop: int) -> None:
    """Put the elements of ``x (n,)`` at ``indices (size,)`` into ``out (size,)``, in blocks.

    Indices below 0 count from the end. One out of bounds sets ``beyond (1,)``, and what is put
    there has no meaning.
    """
    size = np.int64(x.size)
    for block in range(start, stop):
        which = indices[block * BLOCK : (block + 1) * BLOCK]
        into = out[block * BLOCK : (block + 1) * BLOCK]
        wrong = False
        for i in range(which.size):
            if i + _AHEAD < which.size:
                expect(x, which[i + _AHEAD])
            index = np.int64(which[i])
            index = index + size if index < 0 else index
            there = np.uint64(index) < np.uint64(size)
            wrong |= not there
            into[i] = x[np.uint64(index) if there else np.uint64(0)]
        if wrong:
            beyond[0] = True
