"""Slices with bounds that a library reads as Python does."""

from __future__ import annotations

__all__ = ["within"]


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
