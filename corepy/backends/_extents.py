"""How many elements results have, where no operand is an array that tells."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final


def _of_parts(arrays: tuple[Any, ...]) -> int:
    return sum(x.size for x in arrays)


def _of_shape(shape: tuple[int, ...], *value: Any) -> int:
    return math.prod(shape)


def _of_range(first: Any, last: Any, pace: Any) -> int:
    # Of integers in integers: they may be beyond what floats hold.
    return max(0, int(-((first - last) // pace)))


def _of_number(start: Any, stop: Any, num: int) -> int:
    return num


#: By operation, what takes the positional arguments of its native callable.
EXTENTS: Final[dict[str, Callable[..., int]]] = {
    **dict.fromkeys(("concat", "stack"), _of_parts),
    **dict.fromkeys(("full", "ones"), _of_shape),
    "arange": _of_range,
    "linspace": _of_number,
}
