"""Softmax by torch's own function."""

from __future__ import annotations

from typing import Any

from corepy.kernels._arguments import Given
from corepy.kernels._formulas import ONE_BY_ONE


def serves(x: Given, axis: int) -> bool:
    """Say whether torch's function is as exact as ours along an axis.

    Along others than the last it adds up float32 one by one: a sum of a million was off by a
    hundredth.
    """
    return x.dtype == "float64" or axis == len(x.shape) - 1 or x.shape[axis] <= ONE_BY_ONE


def softmax(x: Any, *, axis: int) -> Any:
    """Return the softmax of a tensor along an axis."""
    return x.softmax(axis)
