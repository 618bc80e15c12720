"""How formulas change the dtype of what they compute with."""

from __future__ import annotations

from typing import Any


def cast(xp: Any, x: Any, dtype: Any) -> Any:
    """Return an array in a dtype, itself where it has that: the standard's `astype` would copy it.

    So no formula may write to what it gets.
    """
    return xp.astype(x, dtype, copy=False)
