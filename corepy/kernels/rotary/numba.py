"""Rotary embeddings in compiled loops."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import fetch, put, scratch

Array = npt.NDArray[Any]


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
    half = size // 2
    held, values = scratch(x, size), scratch(x, size)
    for i in range(start, stop):
        row = fetch(x[i], held, brain)
        place = places[i % places.size]
        c, s = cos[place], sin[place]
        if interleaved:
            for j in range(half):
                a, b = row[2 * j], row[2 * j + 1]
                values[2 * j] = a * c[j] - b * s[j]
                values[2 * j + 1] = b * c[j] + a * s[j]
        else:
            first, second = row[:half], row[half:]
            for j in range(half):
                values[j] = first[j] * c[j] - second[j] * s[j]
            for j in range(half):
                values[half + j] = second[j] * c[j] + first[j] * s[j]
        put(values, out[i], brain)


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
    launch(_rope_rows, arguments, len(x), x.size)
