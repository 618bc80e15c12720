"""Choosing by conditions, masks and indices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.backends.numba import _selection_loops as loops
from corepy.backends.numba._compiled import blocks, launch
from corepy.backends.numba._glue import FORCED, Operation, operation, size_from
from corepy.backends.numba._layout import bits, flat, order, same_order

Array = npt.NDArray[Any]

_SMALL: Final = 1024
_MEDIUM: Final = 8192
_LARGE: Final = 32_768
#: A mask that holds for fewer elements than one in so many is sparse: NumPy skips through it.
_SPARSE: Final = 16
#: Elements of a mask, on both sides of its middle, that tell which it is.
_SAMPLE: Final = 512
#: Bytes of indices and what they lead to that are worth a second thread.
_WORTHWHILE: Final = 1 << 21

_Array: Final = np.ndarray


@operation("where", _LARGE)
def _where(condition: Array, x1: Array, x2: Array, /) -> Array | None:
    same = same_order(condition, x1, x2) if x1.dtype == x2.dtype else None
    if same is None or same[0].size < size_from(_LARGE):
        return None
    model, (which, yes, no), steps = same
    out = np.empty(model.shape, x1.dtype, order(model))
    arguments = (which, bits(yes), bits(no), bits(flat(out)), *steps)
    launch(loops.choose, arguments, blocks(out.size), out.size)
    return out


# ---------------------------------------------------------------------------- masks


def _ends(mask: Array) -> Array:
    """Return in how many elements a mask holds up to the end of each chunk."""
    starts = range(0, mask.size, loops.CHUNK)
    counts = [np.count_nonzero(mask[start : start + loops.CHUNK]) for start in starts]
    return np.add.accumulate(np.array(counts, np.int64))


def compressed(x: Array, mask: Array) -> Array:
    """Return the elements of a vector where a mask holds."""
    ends = _ends(mask)
    out = np.empty(ends[-1], x.dtype)
    launch(loops.compress, (bits(x), mask, ends, bits(out)), ends.size, 6 * x.size)
    return out


def _masked(x: Array, mask: Array) -> Array | None:
    if mask.shape != x.shape or order(x) != "C" or not mask.flags.c_contiguous:
        return None
    mask = mask.reshape(-1)
    # NumPy skips through a mask that rarely holds, and copies runs of one that mostly does.
    middle = mask.size // 2
    some = mask[max(middle - _SAMPLE, 0) : middle + _SAMPLE]
    held = np.count_nonzero(some)
    rare = min(held, some.size - held) * _SPARSE < some.size
    return None if rare and FORCED is None else compressed(x.reshape(-1), mask)


# ---------------------------------------------------------------------------- indices


def _some_rows(x: Array, indices: Array, out: Array, start: int, stop: int) -> None:
    # Known to be in bounds; for the mode "raise" NumPy would make a copy of the result first.
    np.take(x, indices[start:stop], axis=0, out=out[start:stop], mode="wrap")


def _gathered(x: Array, indices: Array) -> Array | None:
    """Return rows in several threads; None also where one is out of bounds: NumPy says so."""
    if indices.dtype.kind != "i" or not x.size or not indices.size:
        return None
    if indices.nbytes + indices.size * (x.nbytes // len(x)) < size_from(_WORTHWHILE):
        return None
    wanted = indices.reshape(-1)
    out = np.empty((wanted.size, *x.shape[1:]), x.dtype)
    if x.ndim == 1 and x.dtype.itemsize <= 8:
        beyond = np.zeros(1, np.bool_)
        arguments = (bits(x), wanted, bits(out), beyond)
        launch(loops.gather, arguments, blocks(wanted.size), 2 * wanted.size)
        if beyond[0]:
            return None
    elif np.minimum.reduce(wanted) < -len(x) or np.maximum.reduce(wanted) >= len(x):
        return None
    else:
        launch(_some_rows, (x, wanted, out), wanted.size, out.nbytes // 4)
    return out.reshape((*indices.shape, *x.shape[1:]))


@operation("take", _SMALL)
def _take(x: Array, indices: Array, /, *, axis: int) -> Array | None:
    return None if axis else _gathered(x, indices)


@operation("__getitem__", _SMALL)
def _getitem(x: Array, key: Any, /) -> Array | None:
    if key.__class__ is not _Array or not x.ndim:
        return None
    if key.dtype != np.bool_:
        return _gathered(x, key)
    return _masked(x, key) if key.size >= size_from(_MEDIUM) else None


OPERATIONS: Final[dict[str, Operation]] = {
    made.__name__: made for made in (_where, _take, _getitem)
}
