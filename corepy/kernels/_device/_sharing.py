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
#: Work-items that share a longer row: so few as keep all of it, which begin sooner together.
_LANES = (128, 256, 512, 1024)
#: Elements of a row that a work-item keeps in registers, at most, where a kernel says nothing else.
HELD = 16
#: The edge of the tiles in ``tiles.h``.
_TILE = 64
#: Groups for each compute unit of a device that does not begin groups as cheaply as a GPU does.
_GROUPS = 32
#: The same where elements are only moved.
_MOVING = 16


class Shape(NamedTuple):
    """Of a launch."""

    grid: tuple[int]
    block: tuple[int]
    defines: dict[str, Any]


def held_of(x: Given) -> int:
    """Return how many elements of a row a work-item keeps beside weights alone: 64 bytes' worth.

    On an H100 softmax of bfloat16 takes 92 us so in rows of 8192, and 106 with half as many.
    """
    return 2 * HELD if ITEM_SIZE[x.dtype] == 2 else HELD


def by_rows(x: Given, rows: int, size: int, vector: int, most: int = HELD) -> Shape:
    """Return how work-items share rows; those of rows that none of them can keep read again.

    Parameters
    ----------
    rows, size : int
        How many there are, and of how many elements.
    vector : int
        Elements that a work-item moves at a time.
    most : int
        Elements of a row that a work-item keeps.
    """
    lanes = next((n for n in (_FEW, *_LANES) if size <= n * most), 0)
    held = 1 << (-(-size // (lanes * vector)) - 1).bit_length() if lanes else 0
    lanes = lanes or _ITEMS
    # Groups of one row wait for nobody else; short rows wait for nobody at all.
    items = max(lanes, _ITEMS if lanes == _FEW else _LANES[0])
    groups = groups_of(x, -(-rows * lanes // items))
    return Shape((groups,), (items,), {"VECTOR": vector, "LANES": lanes, "HELD": held})


def by_elements(x: Given, size: int, vector: int) -> Shape:
    """Return how work-items share elements, `vector` of them at a time."""
    groups = groups_of(x, -(-size // (vector * _ITEMS)))
    return Shape((groups,), (_ITEMS,), {"VECTOR": vector})


def by_tiles(x: Given, batch: int, rows: int, columns: int) -> tuple[tuple[int], tuple[int]]:
    """Return grid and block for matrices of results, of which a group has a tile at a time."""
    tiles = batch * -(-rows // _TILE) * -(-columns // _TILE)
    return (groups_of(x, tiles),), (_ITEMS,)


def groups_of(x: Given, groups: int) -> int:
    """Return how many groups are begun of as many as there is work for; they share the rest.

    A GPU gets all of them: as each ends, another takes its place, and none has more to do.
    """
    most = None if x.device is None else _MOST_GROUPS.get(x.device.kind)
    if most is not None:
        return min(groups, most)
    return min(groups, _GROUPS * target_of(x).units(x))


def groups_to_move(x: Given, size: int, items: int) -> int:
    """Return how many groups of so many work-items share elements that are moved one by one."""
    return min(-(-size // items), _MOVING * target_of(x).units(x))


#: The limits of the first axis. In HIP 32 bits count the work-items of all groups along it
#: (`linear_launch` of CuPy's function.pyx).
_MOST_GROUPS = {"cuda": (1 << 31) - 1, "rocm": ((1 << 32) - 1) // _LANES[-1]}


def vector_of(x: Given, size: int, *arrays: Memory | None, strides: Sequence[np.int64] = ()) -> int:
    """Return how many elements a work-item moves at a time: none of the arrays in part of a vector.

    Parameters
    ----------
    size : int
        Elements that lie side by side.
    *arrays : Memory or None
        All that is moved so.
    strides : tuple of int
        Those of rows.
    """
    there = [array for array in arrays if array is not None]
    least = min(ITEM_SIZE[dtype] for dtype in (x.dtype, *(array.dtype for array in there)))
    vector = VECTOR_BYTES // least
    aligned = all(array.is_aligned() for array in there)
    return vector if aligned and not any(n % vector for n in (size, *map(int, strides))) else 1
