"""How work-items share rows and elements: the other half of what ``portability.h`` says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from corepy.kernels._arguments import Given
from corepy.kernels._device._runtime import ITEM_SIZE, VECTOR_BYTES, Memory, target_of

#: Work-items of a group, and those that share a row that is short.
_ITEMS = 256
_FEW = 32
#: The edge of the tiles in ``tiles.h``.
_TILE = 64
#: Groups for each compute unit, at most.
_GROUPS = 32
#: Vectors of a row that a work-item keeps in registers.
_HELD_OF_SHORT = 4
_HELD = 8


class Shape(NamedTuple):
    """Of a launch."""

    grid: tuple[int]
    block: tuple[int]
    defines: dict[str, Any]


def by_rows(x: Given, rows: int, size: int, vector: int) -> Shape:
    """Return how work-items share rows: three forms, for short, middle and long ones."""
    lanes, held = _ITEMS, _HELD
    if size <= _FEW * _HELD_OF_SHORT * vector:
        lanes, held = _FEW, _HELD_OF_SHORT
    elif size > _ITEMS * _HELD * vector:
        held = 0
    groups = groups_of(x, rows * lanes)
    return Shape((groups,), (_ITEMS,), {"VECTOR": vector, "LANES": lanes, "HELD": held})


def by_elements(x: Given, size: int, vector: int) -> Shape:
    """Return how work-items share elements, `vector` of them at a time."""
    return Shape((groups_of(x, -(-size // vector)),), (_ITEMS,), {"VECTOR": vector})


def by_tiles(x: Given, batch: int, rows: int, columns: int) -> tuple[tuple[int], tuple[int]]:
    """Return grid and block for matrices of results, of which a group has a tile at a time."""
    tiles = batch * -(-rows // _TILE) * -(-columns // _TILE)
    return (groups_of(x, tiles * _ITEMS),), (_ITEMS,)


def groups_of(x: Given, items: int) -> int:
    """Return how many groups there are for so many items, which go on where the grid ends."""
    return min(-(-items // _ITEMS), _GROUPS * target_of(x).units(x))


def vector_of(x: Given, size: int, *arrays: Memory | None, strides: Sequence[np.int64] = ()) -> int:
    """Return how many elements of `x` a work-item moves at a time.

    Parameters
    ----------
    size : int
        Elements that lie side by side.
    *arrays : Memory or None
        All that is moved so.
    strides : tuple of int
        Those of rows.
    """
    vector = VECTOR_BYTES // ITEM_SIZE[x.dtype]
    aligned = all(array is None or array.is_aligned() for array in arrays)
    return vector if aligned and not any(n % vector for n in (size, *map(int, strides))) else 1
