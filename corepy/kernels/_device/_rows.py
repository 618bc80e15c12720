"""How kernels share rows among work-items: the other half of what ``portability.h`` says of them."""

from __future__ import annotations

from typing import NamedTuple

from corepy.kernels._arguments import Given
from corepy.kernels._device._runtime import ITEM_SIZE, VECTOR_BYTES, Memory, target_of

#: Work-items of a group, and those that share a row that is short.
_ITEMS = 256
_FEW = 32
#: Vectors of a row that a work-item keeps in registers.
_HELD_OF_SHORT = 4
_HELD = 8


class Shape(NamedTuple):
    """Of the launch of a kernel of rows."""

    grid: tuple[int]
    block: tuple[int]
    defines: dict[str, object]


def shape_of(x: Given, rows: int, size: int, vector: int) -> Shape:
    """Return how work-items share rows: three forms, for short, middle and long ones."""
    lanes, held = _ITEMS, _HELD
    if size <= _FEW * _HELD_OF_SHORT * vector:
        lanes, held = _FEW, _HELD_OF_SHORT
    elif size > _ITEMS * _HELD * vector:
        held = 0
    target = target_of(x)
    assert target is not None
    groups = min(-(-rows * lanes // _ITEMS), 32 * target.units(x))
    return Shape((groups,), (_ITEMS,), {"VECTOR": vector, "LANES": lanes, "HELD": held})


def vector_of(x: Given, size: int, *arrays: Memory | None, strides: tuple[int, ...] = ()) -> int:
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
    return vector if aligned and not any(n % vector for n in (size, *strides)) else 1
