"""Compiled loops that choose, compress and gather; values come as integers of their bits."""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt

from corepy.backends.numba._compiled import BLOCK, kernel

Array = npt.NDArray[Any]

#: Elements of a mask that are counted together, and then compressed together.
CHUNK: Final = 16_384


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

    An operand whose step is 0 is one value, given as a block of copies.
    """
    for block in range(start, stop):
        first = block * BLOCK
        into = out[first : first + BLOCK]
        which = condition[first * step : first * step + into.size]
        yes = x1[first * step1 : first * step1 + into.size]
        no = x2[first * step2 : first * step2 + into.size]
        for i in range(into.size):
            into[i] = yes[i] if which[i] else no[i]


@kernel()
def count(mask: Array, counts: Array, start: int, stop: int) -> None:
    """Count where ``mask (size,)`` holds, in each chunk."""
    for chunk in range(start, stop):
        part = mask[chunk * CHUNK : (chunk + 1) * CHUNK]
        total = 0
        for i in range(part.size):
            total += part[i]
        counts[chunk] = total


@kernel()
def compress(x: Array, mask: Array, ends: Array, out: Array, start: int, stop: int) -> None:
    """Put the elements of ``x (size,)`` where the mask holds, chunk by chunk.

    ``ends (chunks,)`` tells how many there are up to the end of each chunk. Each element is
    written and kept only if the place moves on: no branch to mispredict.
    """
    for chunk in range(start, stop):
        taken = ends[chunk - 1] if chunk else 0
        end = ends[chunk]
        i = chunk * CHUNK
        while taken < end:
            out[taken] = x[i]
            taken += mask[i]
            i += 1


@kernel()
def places(mask: Array, ends: Array, out: Array, start: int, stop: int) -> None:
    """Put where ``mask (size,)`` holds, as `compress` does."""
    for chunk in range(start, stop):
        taken = ends[chunk - 1] if chunk else 0
        end = ends[chunk]
        i = chunk * CHUNK
        while taken < end:
            out[taken] = i
            taken += mask[i]
            i += 1


@kernel()
def gather(x: Array, indices: Array, out: Array, failed: Array, start: int, stop: int) -> None:
    """Put ``x[indices]`` of vectors, in blocks of indices; negative ones count from the end.

    A block with an index out of bounds is marked in ``failed (blocks,)``.
    """
    for block in range(start, stop):
        wanted = indices[block * BLOCK : (block + 1) * BLOCK]
        into = out[block * BLOCK : (block + 1) * BLOCK]
        bad = False
        for i in range(wanted.size):
            place = wanted[i]
            place = place + x.size if place < 0 else place
            outside = place < 0 or place >= x.size
            bad |= outside
            into[i] = x[0 if outside else place]
        failed[block] = bad


@kernel()
def gather_rows(x: Array, indices: Array, out: Array, failed: Array, start: int, stop: int) -> None:
    """Put the rows ``x[s, indices]`` of ``x (stack, length, columns)``.

    Into ``out (stack, size, columns)``; a task is a row of it, and marked in ``failed (tasks,)`` if
    its index is out of bounds.
    """
    _, length, columns = x.shape
    for task in range(start, stop):
        s, i = task // indices.size, task % indices.size
        place = indices[i] + length if indices[i] < 0 else indices[i]
        failed[task] = place < 0 or place >= length
        if not failed[task]:
            row, into = x[s, place], out[s, i]
            for j in range(columns):
                into[j] = row[j]
