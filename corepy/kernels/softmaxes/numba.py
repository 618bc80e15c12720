"""Softmax in compiled loops, along rows and down columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from corepy._loops._simd import decay, floored, number, raised
from corepy.kernels._compiled import kernel, launch
from corepy.kernels._memory import constant
from corepy.kernels._simd import apart, fetch, key, put, scratch, sum_of_weights, target, unkey

Array = npt.NDArray[Any]

#: Columns that are worked on together: they stay in the first-level cache, with what is kept of
#: each.
_WIDTH = 256


@kernel
def _greatest(values: Array) -> Any:
    best = key(number(-np.inf, values[0]))
    for j in range(values.size):
        best = max(best, key(values[j]))
    return unkey(best)


@kernel
def _any(taken: Array) -> bool:
    for j in range(taken.size):  # noqa: SIM110 (generators are not compiled)
        if taken[j]:
            return True
    return False


@kernel
def _exponentials(row: Array, top: Any, values: Array) -> None:
    """Put the exponentials there, `raised`; their sum is as well, and nothing has to be lowered."""
    nothing = number(0.0, values[0])
    for j in range(row.size):
        x = floored(row[j] - top)
        values[j] = raised(x) + x * nothing  # a NaN, whose bits were moved


@kernel
def _softmax_row(
    x: Array,
    before: float,
    after: float,
    taken: Array,
    masked: bool,
    there: bool,
    held: Array,
    values: Array,
    brain: bool,
    out: Array,
) -> bool:
    """Put the softmax of a row there, and say whether it is NaN.

    Apart from the loop over all, which would count who uses its scratch.
    """
    size = x.size
    factor, further = number(before, values[0]), number(after, values[0])
    nothing, zero = number(-np.inf, values[0]), number(0.0, values[0])
    row = fetch(x, held, brain)
    into = target(out, values, there)
    if before != 1.0:
        for j in range(size):
            held[j] = row[j] * factor
        row = held
    kept, spoilt = True, False
    if masked:
        for j in range(size):
            held[j] = row[j] if taken[j] else nothing
        row = held
        kept = _any(taken)
    if kept:
        top = _greatest(row)
        if after == 1.0:
            _exponentials(row, top, into)
        else:
            for j in range(size):
                held[j] = (row[j] - top) * further
            _exponentials(held, zero, into)
        # A NaN is the greatest of its row, and an infinity less itself is one: all are NaN.
        share = number(1.0 / sum_of_weights(into) if abs(top) < np.inf else np.nan, top)
        for j in range(size):
            into[j] *= share
        spoilt = np.isnan(share)
    else:
        into[:] = zero
    put(into, out, brain)
    return spoilt


@kernel
def _softmax_rows(
    x: Array,
    before: float,
    after: float,
    mask: Array,
    masked: bool,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    size = x.shape[1]
    held, values = scratch(x, size), scratch(x, size)
    there = apart(out, x)
    spoilt = False  # whether a row is NaN
    for i in range(start, stop):
        taken = mask[i % mask.shape[0]]
        spoilt |= _softmax_row(
            x[i], before, after, taken, masked, there, held, values, brain, out[i]
        )
    if masked and spoilt:  # what is left out is zero all the same
        for i in range(start, stop):
            taken = mask[i % mask.shape[0]]
            for j in range(size):
                if not taken[j]:
                    out[i, j] = 0


@kernel
def _softmax_columns(
    x: Array,
    before: float,
    after: float,
    mask: Array,
    masked: bool,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    _, length, columns = x.shape
    blocks = -(-columns // _WIDTH)
    held, values = scratch(x[0], _WIDTH), scratch(x[0], _WIDTH)
    tops, raised, totals = scratch(x[0], _WIDTH), scratch(x[0], _WIDTH), np.empty(_WIDTH)
    kept = np.empty(_WIDTH, np.int64)
    factor, further = number(before, values[0]), number(after, values[0])
    nothing, zero = number(-np.inf, values[0]), number(0.0, values[0])
    for task in range(start, stop):
        s, first = task // blocks, task % blocks * _WIDTH
        last = min(first + _WIDTH, columns)
        width = last - first
        tops[:] = nothing
        totals[:] = 0.0
        kept[:] = 0 if masked else length
        broken = False  # whether the sum is NaN anywhere
        # Thrice over the rows rather than once with all exponentials kept: they may be many.
        for step in range(3):
            for i in range(length):
                row = fetch(x[s, i, first:last], held, brain)
                if masked:
                    taken = mask[s, i, first:last]
                    for j in range(width):
                        values[j] = row[j] * factor if taken[j] else nothing
                else:
                    for j in range(width):
                        values[j] = row[j] * factor
                if step == 0:
                    # Into other memory: what may stay as it is would be stored by a mask, which
                    # takes some processors long. A NaN is never greater; it comes in again below.
                    for j in range(width):
                        raised[j] = values[j] if values[j] > tops[j] else tops[j]
                    tops, raised = raised, tops
                    if masked:
                        for j in range(width):
                            kept[j] += taken[j]
                else:
                    for j in range(width):
                        values[j] = decay((values[j] - tops[j]) * further)
                    if step == 1:
                        for j in range(width):
                            totals[j] += values[j]
                        if masked and i == length - 1:
                            for j in range(width):
                                if kept[j] and np.isnan(totals[j]):
                                    broken = True
                    else:
                        for j in range(width):
                            share = number(totals[j], zero)
                            values[j] = values[j] / share if kept[j] else zero
                        if broken:  # what is left out is zero all the same
                            for j in range(width):
                                values[j] = values[j] if taken[j] else zero
                        put(values, out[s, i, first:last], brain)


_NO_MASK = constant(np.ones((1, 1), np.bool_))
_NO_MASKS = constant(np.ones((1, 1, 1), np.bool_))


def softmax_rows(
    x: Array, before: float, after: float, mask: Array | None, brain: bool, out: Array
) -> None:
    """Put the softmax of each row of ``x (rows, size)`` into `out`.

    Row i takes part where ``mask[i % len(mask)]`` is true. Elements are multiplied before the
    greatest is taken away and after.
    """
    found = _NO_MASK if mask is None else mask
    arguments = (x, before, after, found, mask is not None, brain, out)
    launch(_softmax_rows, arguments, len(x), 4 * x.size)


def softmax_columns(
    x: Array, before: float, after: float, mask: Array | None, brain: bool, out: Array
) -> None:
    """Put the softmax along the middle axis of ``x (stack, length, columns)`` into `out`."""
    found = _NO_MASKS if mask is None else mask
    arguments = (x, before, after, found, mask is not None, brain, out)
    tasks = len(x) * -(-x.shape[2] // _WIDTH)
    launch(_softmax_columns, arguments, tasks, 8 * x.size)
