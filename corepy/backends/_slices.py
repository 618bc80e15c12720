"""Slices with bounds that a library reads as Python does."""

from __future__ import annotations

from typing import Final

__all__ = ["FAR", "near", "within"]

#: Bounds beyond it mean the end. torch warns of those at the limits of 64 bits.
FAR: Final = 2**62


def near(key: slice) -> slice:
    """Return a slice that selects the same from any array, with bounds of at most 63 bits."""
    return slice(*map(_near, (key.start, key.stop, key.step)))


def _near(bound: int | None) -> int | None:
    return None if bound is None else max(-FAR, min(FAR, bound))


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
