"""Parts of keys that a library does not read as Python and NumPy do."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

__all__ = ["broadcast_together", "within"]


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
