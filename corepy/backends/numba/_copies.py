"""Memory that is converted or copied, in several threads."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.backends.numba import _copy_loops as loops
from corepy.backends.numba._compiled import BLOCK, blocks, launch
from corepy.backends.numba._glue import FORCED, Operation, numpys, operation
from corepy.backends.numba._layout import flat, order
from corepy.backends.numba._numpys_loops import flags, tell

Array = npt.NDArray[Any]

#: Elements from which memory is converted and copied sooner by these loops.
_CONVERTED: Final = 32_768
_COPIED: Final = 100_000
#: Bytes of a row that are worth a call of the C library's.
_RUN: Final = 256

# ---------------------------------------------------------------------------- converted

#: What is converted by a loop, and into what: NumPy's way with other integers is its own.
_FROM: Final = frozenset(map(np.dtype, "?ilqfd"))
_TO: Final = frozenset(map(np.dtype, "ilqfd"))


@operation("astype", _CONVERTED)
def _astype(x: Array, dtype: np.dtype[Any], /, *, copy: bool) -> Array | None:
    found = order(x)
    if found is None or (x.dtype == dtype and not copy):
        return None
    if x.dtype == dtype:
        return _joined([x.ctypes.data], [x.nbytes], [0], np.empty(x.shape, dtype, found))
    told = flags()
    if told is None or x.dtype not in _FROM or dtype not in _TO:
        return None
    out = np.empty(x.shape, dtype, found)
    raised = np.empty(blocks(x.size), np.int32)
    values = flat(x)
    arguments = (told, values, flat(out), raised)
    launch(loops.convert, arguments, raised.size, max(x.nbytes, out.nbytes) // 8)
    tell(raised, lambda i: numpys("astype")(values[i * BLOCK : (i + 1) * BLOCK], dtype))
    return out


# ---------------------------------------------------------------------------- copied


def _joined(places: list[int], widths: list[int], strides: list[int], out: Array) -> Array | None:
    """Copy rows of several parts beside each other.

    Parameters
    ----------
    places, widths, strides : list of int
        Where each part begins, the bytes of its rows, and those from row to row.
    out : ndarray
        New memory, contiguous.

    Returns
    -------
    ndarray or None
        What was new memory; None where the rows are too short.
    """
    if sum(widths) < out.nbytes and sum(widths) < _RUN * len(widths) and FORCED is None:
        return None
    parts = np.array([places, widths, strides], np.int64)
    rows = -(-out.nbytes // loops.PAGE)
    launch(loops.join, (parts, out.ctypes.data, out.nbytes), rows, out.nbytes // 8)
    return out


def _beside(arrays: tuple[Array, ...], axis: int, shape: tuple[int, ...]) -> Array | None:
    """Join arrays whose axes from `axis` on lie one after the other in a result of a shape."""
    dtype = arrays[0].dtype
    if not all(x.dtype == dtype and x.flags.c_contiguous for x in arrays):
        return None
    widths = [math.prod(x.shape[axis:]) * x.itemsize for x in arrays]
    return _joined([x.ctypes.data for x in arrays], widths, widths, np.empty(shape, dtype))


@operation("concat", _COPIED)
def _concat(arrays: tuple[Array, ...], /, *, axis: int) -> Array | None:
    shape = arrays[0].shape
    along = sum(x.shape[axis] for x in arrays)
    return _beside(arrays, axis, (*shape[:axis], along, *shape[axis + 1 :]))


@operation("stack", _COPIED)
def _stack(arrays: tuple[Array, ...], /, *, axis: int) -> Array | None:
    shape = arrays[0].shape
    return _beside(arrays, axis, (*shape[:axis], len(arrays), *shape[axis:]))


@operation("roll", _COPIED)
def _roll(x: Array, shift: Any, /, *, axis: Any = None) -> Array | None:
    if shift.__class__ is not int or not x.flags.c_contiguous:
        return None
    if axis is not None and axis.__class__ is not int:
        return None
    rows = 1 if axis is None else math.prod(x.shape[:axis])
    length = x.size if axis is None else x.shape[axis]
    width = x.nbytes // rows
    cut, place = -shift % length * (width // length), x.ctypes.data
    out = np.empty(x.shape, x.dtype)
    return _joined([place + cut, place], [width - cut, cut], [width, width], out)


OPERATIONS: Final[dict[str, Operation]] = {
    "astype": _astype,
    "concat": _concat,
    "roll": _roll,
    "stack": _stack,
}
