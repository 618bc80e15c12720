"""Sorting in descending order, by a library's sort in ascending order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def in_both_orders(
    ascending: Callable[..., Any], flip: Callable[[Any, int], Any]
) -> Callable[..., Any]:
    """Return the standard's ``sort``, of functions that sort and that turn an axis round.

    Equal elements stay in their order, as `argsort` has it, where what is sorted and turned round
    was turned round before. Zeros of both signs are equal, and so are NaN.
    """

    def sort(x: Any, *, axis: int, descending: bool, stable: bool) -> Any:
        if not descending:
            return ascending(x, axis=axis, stable=stable)
        return flip(ascending(flip(x, axis), axis=axis, stable=stable), axis)

    return sort
