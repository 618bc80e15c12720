"""Shapes and numbers of elements of results, and sizes at which operands are of another form."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any, Final

#: Members of a set up to which NumPy compares all elements with them, one by one.
FEW_MEMBERS: Final = 16
#: Columns up to which those of a long matrix are narrow, and rows for each of them that it has
#: then; ``_hot_numpy.pxi`` has the same numbers.
NARROWEST: Final = 128
LONGER: Final = 8
#: Rows for each column from which a matrix is tall.
TALL: Final = 16
#: How many times as many products an element of a product adds up as it has neighbours in a row or
#: column where matrices are long inside.
INNER: Final = 64


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return what shapes that fit broadcast to; NumPy's own refuses more than 32 dimensions."""
    rows = zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1)
    return tuple(next((n for n in row if n != 1), 1) for row in rows)[::-1]


def _of_parts(arrays: tuple[Any, ...]) -> int:
    return sum(x.size for x in arrays)


#: How many elements results have where no operand is an array that tells: by operation, what takes
#: the positional arguments of its native callable.
EXTENTS: Final[dict[str, Callable[..., int]]] = dict.fromkeys(("concat", "stack"), _of_parts)
