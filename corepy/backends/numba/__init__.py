"""The Numba backend: NumPy, with loops of its own for what NumPy does slowly."""

from __future__ import annotations

from corepy.backends.numba._backend import NumbaBackend

__all__ = ["NumbaBackend"]
