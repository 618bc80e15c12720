"""Slices for libraries that take only bounds which integers of C hold."""

from __future__ import annotations

from typing import Final

__all__ = ["FAR", "near"]

#: Bounds beyond it mean the end. torch warns of those at the limits of 64 bits.
FAR: Final = 2**62


def near(key: slice) -> slice:
    """Return a slice that selects the same from any array, with bounds of at most 63 bits."""
    return slice(*map(_near, (key.start, key.stop, key.step)))


def _near(bound: int | None) -> int | None:
    return None if bound is None else max(-FAR, min(FAR, bound))
