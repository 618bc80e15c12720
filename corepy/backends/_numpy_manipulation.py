"""How NumPy's arrays are moved, repeated and selected from, past its Python layer.

On few elements that layer takes most of the time. The steps are those of NumPy's functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

__all__ = ["OPERATIONS", "rolled"]

#: Pairs of elements up to which comparing them all is quicker than to sort.
_FEW_PAIRS: Final = 1024
#: Members up to which comparing all elements with one after the other is, however many there are.
_FEW_MEMBERS: Final = 8


def _broadcast_to(x: Array, shape: tuple[int, ...], /) -> Array:
    flags: Any = ["multi_index", "refs_ok", "zerosize_ok"]
    with np.nditer((x,), flags, [["readonly"]], itershape=shape, order="C") as iterator:
        view: Array = iterator.itviews[0]
    return view


def _isin(x1: Array, x2: Array, /, *, invert: bool = False) -> Array:
    found: Any
    if x2.size == 1 or (0 < x2.size <= _FEW_MEMBERS and x1.size * x2.size > _FEW_PAIRS):
        first, *others = x2.reshape(-1)
        elements = x1.ravel() if others else x1  # side by side
        found = np.equal(elements, first)
        for member in others:
            found |= np.equal(elements, member)
        found = found.reshape(x1.shape)
    elif x1.size * x2.size > _FEW_PAIRS:
        return np.isin(x1, x2, invert=invert)
    else:
        found = np.logical_or.reduce(np.equal.outer(x1, x2.reshape(-1)), -1)
    return np.asarray(np.logical_not(found) if invert else found)


def _meshgrid(*arrays: Array, indexing: str = "xy") -> tuple[Array, ...]:
    count = len(arrays)
    places = list(range(count))
    if indexing == "xy":
        places[:2] = reversed(places[:2])
    shape = [arrays[place].size for place in places]  # swapping is its own inverse
    grids = []
    for x, place in zip(arrays, places, strict=True):
        grid = np.empty(shape, x.dtype)
        grid[...] = x.reshape((-1,) + (1,) * (count - 1 - place))
        grids.append(grid)
    return tuple(grids)


def _moveaxis(x: Array, source: tuple[int, ...], destination: tuple[int, ...], /) -> Array:
    order = [axis for axis in range(x.ndim) if axis not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return x.transpose(order)


def _take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    if x.ndim == 1:
        return x[indices]
    key: list[Array] = []
    last = x.ndim - 1
    for place, size in enumerate(x.shape):
        own = place == axis % x.ndim
        key.append(indices if own else np.arange(size).reshape((-1,) + (1,) * (last - place)))
    return x[tuple(key)]


def _tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    width = max(x.ndim, len(repetitions))
    times = (1,) * (width - len(repetitions)) + repetitions
    sizes = (1,) * (width - x.ndim) + x.shape
    shape = [n * m for n, m in zip(times, sizes, strict=True)]
    count = x.size
    if count == 0:
        return np.empty(shape, x.dtype)
    found = x
    for n, size in zip(times, sizes, strict=True):
        if n != 1:
            found = found.reshape(-1, count).repeat(n, 0)
        count //= size
    return x.copy().reshape(shape) if found is x else found.reshape(shape)


def _unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    return tuple(_moveaxis(x, (axis,), (0,)) if axis else x)


# ---------------------------------------------------------------------------- rolling


def rolled(x: Array, shifts: Sequence[int], axes: Sequence[int]) -> Array:
    """Roll along axes, piece by piece, as `numpy.roll` does."""
    result = np.empty_like(x)
    if len(axes) == 1:
        size, before = x.shape[axes[0]], (slice(None),) * (axes[0] % x.ndim)
        cut = shifts[0] % (size or 1)
        result[(*before, slice(cut, None))] = x[(*before, slice(size - cut))]
        if cut:
            result[(*before, slice(cut))] = x[(*before, slice(size - cut, None))]
        return result
    offsets = [0] * x.ndim
    for shift, axis in zip(shifts, axes, strict=True):
        offsets[axis] += shift
    pieces: list[tuple[tuple[slice, ...], tuple[slice, ...]]] = [((), ())]
    for size, shift in zip(x.shape, offsets, strict=True):
        cut = shift % (size or 1)
        ways = _AS_THEY_ARE
        if cut:
            ways = (slice(-cut), slice(cut, None)), (slice(-cut, None), slice(cut))
        pieces = [((*start, a), (*end, b)) for start, end in pieces for a, b in ways]
    for start, end in pieces:
        result[end] = x[start]
    return result


_AS_THEY_ARE: Final[tuple[tuple[slice, slice], ...]] = ((slice(None), slice(None)),)


def _fftshift(x: Array, /, *, axes: tuple[int, ...]) -> Array:
    return rolled(x, [x.shape[axis] // 2 for axis in axes], axes)


def _ifftshift(x: Array, /, *, axes: tuple[int, ...]) -> Array:
    return rolled(x, [-(x.shape[axis] // 2) for axis in axes], axes)


#: By name, what the NumPy backend runs.
OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "broadcast_to": _broadcast_to,
    "isin": _isin,
    "meshgrid": _meshgrid,
    "moveaxis": _moveaxis,
    "take_along_axis": _take_along_axis,
    "tile": _tile,
    "unstack": _unstack,
    "fft.fftshift": _fftshift,
    "fft.ifftshift": _ifftshift,
}
