"""The stable order of numbers, found by sorting words of a number and its place.

The compiled hot path calls the same loops. Where nothing was compiled, NumPy merges.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._extensions import extension
from corepy.backends._loop import OrderLoop

__all__ = ["ORDERED", "ORDER_LOOP", "PARTS", "SORTED", "SORTS_SLOWLY", "SORTS_WIDE", "ordered"]

Array = npt.NDArray[Any]

_module: Final[Any] = extension("corepy.backends._order_loops")[0]

#: Whether words can be sorted: sooner than NumPy merges, which waits at each element whose place
#: the processor did not guess.
QUICK: Final = _module is not None
#: Elements of a row from which that is so.
_LEAST: Final = 64
#: Whether NumPy sorts slowly in vector registers, as on Zen 4: more than 256 words in some three
#: times as long as elsewhere, and still in a half of what merging takes.
SORTS_SLOWLY: Final = QUICK and _module.STORES_SLOWLY
#: Elements below which no other library has found an order sooner, by the bytes of registers:
#: with 32 and more NumPy sorts in them.
_FIRST: Final = {16: 0, 32: 2**14, 64: 2**17}

ORDERED: Final = _FIRST[max(_module.BY_WIDTH)] if QUICK and not SORTS_SLOWLY else 0

ORDER_LOOP: Final[OrderLoop | None] = OrderLoop(_module.LOOPS, _LEAST) if QUICK else None

#: Whether NumPy sorts numbers of 32 and 64 bits in vector registers, and that is quick.
SORTS_WIDE: Final = ORDERED > 0

#: By dtype, with AVX2, what puts the elements between two values of a vector where they belong.
PARTS: Final[dict[str, int]] = _module.PARTS if QUICK and not SORTS_SLOWLY else {}
#: Elements up to which nobody sorts sooner than by these.
SORTED: Final = 2**22


def ordered(x: Array, axis: int, descending: bool) -> Array | None:
    """Return where the elements along an axis stand in their stable order.

    Parameters
    ----------
    x : ndarray
    axis : int
    descending : bool
        NaN comes first then, and equal elements still in the order in which they came.

    Returns
    -------
    ndarray or None
        None where NumPy has to find it: of other dtypes, of short rows, and of rows in which many
        elements differ by next to nothing beside how far others are apart.
    """
    loops = _module.LOOPS.get(x.dtype.name) if QUICK else None
    if loops is None or not x.size or x.shape[axis] < _LEAST or not x.flags.aligned:
        return None
    found = _found_in_order(x, descending) if x.ndim == 1 else None
    if found is not None:
        return found
    rows = np.ascontiguousarray(x.swapaxes(axis, -1))
    length = rows.shape[-1]
    words = np.empty(rows.shape, np.int64)
    cut = _module.pack(loops[0], rows, words, length, descending)
    words.sort()
    if not _module.unpack(loops[1], rows, words, length, descending, cut):
        return None
    return np.ascontiguousarray(words.swapaxes(axis, -1))


def _found_in_order(x: Array, descending: bool) -> Array | None:
    """Return the order of a vector that is in it already, or in the opposite one; without NaN.

    Merging would notice too. Equal elements are no opposite of themselves.
    """

    def holds(follows: np.ufunc) -> bool:
        # Few elements tell of most that are not.
        return all(bool(follows(some[:-1], some[1:]).all()) for some in (x[:_LEAST], x))

    if holds(np.greater_equal if descending else np.less_equal):
        return np.arange(x.size)
    if holds(np.less if descending else np.greater):
        return np.arange(x.size - 1, -1, -1)
    return None
