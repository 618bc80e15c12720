"""How many elements results have, where no operand is an array that tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


def _of_parts(arrays: tuple[Any, ...]) -> int:
    return sum(x.size for x in arrays)


#: By operation, what takes the positional arguments of its native callable.
EXTENTS: Final[dict[str, Callable[..., int]]] = dict.fromkeys(("concat", "stack"), _of_parts)
