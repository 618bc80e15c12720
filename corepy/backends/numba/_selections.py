"""Choosing by conditions, masks and indices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.backends.numba import _selection_loops as loops
from corepy.backends.numba._compiled import blocks, launch
from corepy.backends.numba._glue import FORCED, Operation, operation, size_from
from corepy.backends.numba._layout import flat, order, same_order, split

Array = npt.NDArray[Any]

_SMALL: Final = 1024
_MEDIUM: Final = 8192
_LARGE: Final = 32_768
#: A mask that holds for fewer elements than one in so many is sparse: NumPy skips through it.
_SPARSE: Final = 16
#: The dtypes of indices that a loop is compiled for.
_INDICES: Final = (np.dtype(np.int64), np.dtype(np.int32))

_Array: Final = np.ndarray


def _bits(x: Array) -> Array:
    """View values that are only moved as unsigned integers: one loop serves all of a size."""
    return x if x.itemsize > 8 else x.view(f"u{x.itemsize}")


@operation("where", _LARGE)
def _where(condition: Array, x1: Array, x2: Array, /) -> Array | None:
    same = same_order(condition, x1, x2) if x1.dtype == x2.dtype else None
    if same is None or same[0].size < size_from(_LARGE):
        return None
    model, (which, yes, no), steps = same
    out = np.empty(model.shape, x1.dtype, order(model))
    arguments = (which, _bits(yes), _bits(no), _bits(flat(out)), *steps)
    launch(loops.choose, arguments, blocks(out.size), out.size)
    return out


# ---------------------------------------------------------------------------- masks


def _ends(mask: Array) -> Array:
    """Return in how many elements a mask holds up to the end of each chunk."""
    counts = np.empty(-(-mask.size // loops.CHUNK), np.int64)
    launch(loops.count, (mask, counts), counts.size, mask.size // 4)
    np.add.accumulate(counts, out=counts)
    return counts


def _dense(ends: Array, size: int) -> bool:
    return bool(ends[-1] * _SPARSE >= size) or FORCED is not None


def compressed(x: Array, mask: Array, ends: Array | None = None) -> Array:
    """Return the elements of a vector where a mask holds."""
    if ends is None:
        ends = _ends(mask)
    out = np.empty(ends[-1], x.dtype)
    launch(loops.compress, (_bits(x), mask, ends, _bits(out)), ends.size, 2 * x.size)
    return out


def places_of(mask: Array, ends: Array | None = None) -> Array:
    """Return where a mask of one dimension holds."""
    if ends is None:
        ends = _ends(mask)
    out = np.empty(ends[-1], np.int64)
    launch(loops.places, (mask, ends, out), ends.size, 2 * mask.size)
    return out


@operation("nonzero", _MEDIUM)
def _nonzero(x: Array, /) -> tuple[Array, ...] | None:
    if x.ndim != 1 or order(x) is None:
        return None
    mask = x if x.dtype == np.bool_ else x != 0
    ends = _ends(mask)
    return (places_of(mask, ends),) if _dense(ends, mask.size) else None


# ---------------------------------------------------------------------------- indices


def gathered(x: Array, indices: Array, axis: int) -> Array | None:
    """Return elements along an axis; None also where an index is out of bounds: NumPy says so."""
    if indices.dtype not in _INDICES or not x.flags.c_contiguous or not x.flags.aligned:
        return None
    found = split(x, axis)
    if found is None or not x.size or not indices.size:
        return None
    wanted = np.ascontiguousarray(indices).reshape(-1)
    stack, _, columns = found.shape
    out = np.empty((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    if stack == columns == 1:
        failed = np.empty(blocks(wanted.size), np.bool_)
        arguments = (_bits(found.reshape(-1)), wanted, _bits(out.reshape(-1)), failed)
        launch(loops.gather, arguments, failed.size, 4 * wanted.size)
    else:
        failed = np.empty(stack * wanted.size, np.bool_)
        into = _bits(out.reshape(stack, wanted.size, columns))
        launch(loops.gather_rows, (_bits(found), wanted, into, failed), failed.size, 2 * out.size)
    return None if failed.any() else out


@operation("take", _SMALL)
def _take(x: Array, indices: Array, /, *, axis: int) -> Array | None:
    if indices.size < size_from(_SMALL):
        return None
    return gathered(x, indices, axis)


@operation("__getitem__", _SMALL)
def _getitem(x: Array, key: Any, /) -> Array | None:
    if key.__class__ is not _Array or key.size < size_from(_SMALL) or not x.ndim:
        return None
    if key.dtype != np.bool_:
        return gathered(x, key, 0)
    if key.size < size_from(_MEDIUM) or key.shape != x.shape:
        return None
    if order(x) != "C" or not key.flags.c_contiguous:
        return None
    mask = key.reshape(-1)
    ends = _ends(mask)
    return compressed(x.reshape(-1), mask, ends) if _dense(ends, mask.size) else None


OPERATIONS: Final[dict[str, Operation]] = {
    made.__name__: made for made in (_where, _nonzero, _take, _getitem)
}
