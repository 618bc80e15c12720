"""Keys: which axes their parts index, what lies beyond these, and what libraries read otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from corepy._errors import beyond, unfit

__all__ = ["axes", "broadcast_together", "check", "check_value", "is_element", "within"]

_BOOL: Final = np.dtype(np.bool_)


def axes(parts: Sequence[Any], ndim: int, mask: Any = _BOOL) -> list[range]:
    """Return the axes that each part of a key indexes.

    Parameters
    ----------
    parts : sequence
        Ints, slices, arrays, None (which indexes no axis), and at most one Ellipsis, which takes
        the axes that the others leave.
    ndim : int
        Of the array.
    mask : object
        The library's dtype of masks, which index an axis for each dimension of theirs.
    """
    axis, found = 0, []
    for part in parts:
        first, axis = axis, axis + _width(part, mask)
        if part is Ellipsis:
            axis += ndim - sum([_width(other, mask) for other in parts])
        found.append(range(first, axis))
    return found


def _width(part: Any, mask: Any) -> int:
    if part.__class__ is slice or part.__class__ is int:  # most are, and it is asked often
        return 1
    if part is None or part is Ellipsis:
        return 0
    width: int = part.ndim if getattr(part, "dtype", None) == mask else 1
    return width


def check(axis: int, size: int, *indices: int) -> None:
    """Refuse indices beyond their axis, of many by the least and the greatest."""
    for index in indices:
        if not -size <= index < size:
            raise beyond(index, axis, size)


def check_value(shape: Sequence[float], chosen: Sequence[float]) -> None:
    """Refuse a value that does not broadcast to a selection, beyond which it may have sizes of one.

    Sizes that are not known, NaN, are as they should be.
    """
    wanted = (*(1,) * (len(shape) - len(chosen)), *chosen)
    for n, m in zip(reversed(shape), reversed(wanted)):
        if n not in (1, m) and not (math.isnan(n) or math.isnan(m)):
            raise unfit(shape, chosen)


def is_element(chosen: Any, parts: Iterable[Any]) -> bool:
    """Say whether ints alone have selected an element, which has to be one that no write reaches.

    NumPy and most others give such a one. Of a view ``x[0], x[1] = x[1], x[0]`` would write one of
    the two elements twice.
    """
    return chosen.ndim == 0 and all(part.__class__ is int for part in parts)


def broadcast_together(shapes: Iterable[tuple[int, ...]]) -> None:
    """Refuse arrays of indices that do not broadcast, of which libraries make a ``ValueError``.

    Raises
    ------
    IndexError
        As NumPy's.
    """
    different = set(shapes)
    if len(different) > 1:
        try:
            np.broadcast_shapes(*different)
        except ValueError:
            raise IndexError(
                f"arrays of shapes {sorted(different)}; expected shapes that broadcast"
            ) from None


def within(key: slice, size: int) -> slice:
    """Return a slice that selects the same from an axis, with no bound or step beyond it.

    Some libraries add bounds up in 32 bits, and take the -1 of "before the first element" for the
    last one.

    Raises
    ------
    ValueError
        If the step is 0.
    """
    if key == slice(None):
        return key
    chosen = range(*key.indices(size))
    if not chosen:
        return slice(0, 0)
    step = max(-size, min(chosen.step, size))
    stop = chosen[-1] + (1 if step > 0 else -1)
    return slice(chosen[0], None if stop < 0 else stop, step)
