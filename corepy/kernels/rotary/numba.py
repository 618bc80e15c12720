"""Rotary embeddings in compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from corepy._loops._simd import inlined
from corepy._loops._streaming import fence
from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import after, apart, expect_rows, fetch, is_far, put, scratch, send

Array = npt.NDArray[Any]

#: Rows before theirs that memory is asked for.
_AHEAD = 8


@inlined
def _halves(row: Array, c: Array, s: Array, into: Array) -> None:
    first, second = row[: c.size], row[c.size :]
    left, right = into[: c.size], into[c.size :]
    for j in range(c.size):
        a, b = first[j], second[j]
        left[j] = a * c[j] - b * s[j]
        right[j] = b * c[j] + a * s[j]


@inlined
def _pairs(row: Array, c: Array, s: Array, into: Array) -> None:
    for j in range(c.size):
        a, b = row[2 * j], row[2 * j + 1]
        into[2 * j] = a * c[j] - b * s[j]
        into[2 * j + 1] = b * c[j] + a * s[j]


@kernel
def _rope_rows(
    x: Array,
    cos: Array,
    sin: Array,
    places: Array,
    interleaved: bool,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    size = x.shape[1]
    held, values = scratch(x, size), scratch(x, size)
    far, rounded = apart(out, x) and is_far(out, size), np.empty(size, out.dtype)
    at = start % places.size
    for i in range(start, stop):
        if not far:
            # Rows are short: what they need is asked for some rows before.
            expect_rows(x, i + _AHEAD, i + _AHEAD + 1)
            expect_rows(out, i + _AHEAD, i + _AHEAD + 1)
        row = fetch(x[i], held, brain)
        place = places[at]
        at = at + 1 if at + 1 < places.size else 0
        if interleaved:
            _pairs(row, cos[place], sin[place], values)
        else:
            _halves(row, cos[place], sin[place], values)
        if far:
            send(values, out[i], rounded, brain, after(x[i]))
        else:
            put(values, out[i], brain)
    if far:
        fence()


def rope(
    x: Array,
    cos: Array,
    sin: Array,
    places: Array,
    interleaved: bool,
    brain: bool,
    out: Array,
) -> None:
    """Put the turned pairs of each row of ``x (rows, size)`` into `out`.

    Row i takes the angles of row ``places[i % len(places)]`` of the tables ``(length, size // 2)``.
    """
    arguments = (x, cos, sin, places, interleaved, brain, out)
    launch(_rope_rows, arguments, len(x), x.nbytes // 8)
