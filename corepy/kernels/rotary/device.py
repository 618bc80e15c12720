"""Rotary embeddings in a device kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from corepy.kernels._arguments import Given
from corepy.kernels._device import Program, Result, broadcast_rows, launch, memory, rows
from corepy.kernels._device._sharing import groups_of, vector_of

_program = Program(__file__)
_ITEMS = 256


def rope(
    x: Given,
    cos: Given,
    sin: Given,
    positions: Given | None,
    interleaved: bool,
    out: Given | None,
) -> Any:
    """Return the turned pairs of each row."""
    result = Result(x, out, cos, sin, read_again=(cos, sin, positions))
    source, places = rows(x)
    tables = memory(cos), memory(sin)
    *_, length, size = x.shape
    half, count = size // 2, x.size // size
    vector = vector_of(x, half, source, *tables, result.memory, strides=places[2:])
    lanes = min(1 << max(math.ceil(half / vector) - 1, 0).bit_length(), _ITEMS)
    at, at_places = (
        (None, places)
        if positions is None
        else broadcast_rows(positions, x.shape[:-1], elements=True)
    )
    launch(
        *(x, _program, "rope"),
        grid=(groups_of(x, -(-count * lanes // _ITEMS)),),
        block=(_ITEMS,),
        arguments=(
            *(source, places, *tables, at, at_places, result.memory),
            *map(np.int64, (count, length, half)),
        ),
        X=x.dtype,
        C=cos.dtype,
        P="int64" if positions is None else positions.dtype,
        INTERLEAVED=int(interleaved),
        VECTOR=vector,
        LANES=lanes,
    )
    return result.array()
