"""What rows come to: sums, products and counts by loops that fill the processor's registers.

The compiled hot path calls the same loops, from the same sizes on, so that a result has the same
bits by whatever way it was found. Where nothing was compiled, NumPy's own loops run, on products of
float32 in float64 as those do.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._extensions import extension
from corepy.backends._loop import RowLoop

__all__ = ["ROW_LOOPS", "reduced", "spread", "triangle"]

Array = npt.NDArray[Any]

_module: Final[Any] = extension("corepy.backends._row_loops")[0]

#: By operation, the elements of an array from which its loops run, and those of a row beyond which.
#: What small arrays come to is NumPy's to the last bit; 128 elements it adds in one go, as fast.
#: It converts few of them to float64 in less time than the way here takes.
_SIZES: Final = {
    "sum": (2048, 128),
    "prod": (2048, 128),
    "count_nonzero": (64, 0),
    "sum in float64": (65_536, 128),
}

#: Elements from which variances are found by loops of their own.
_SPREAD: Final = 16_384

#: By operation.
ROW_LOOPS: Final[dict[str, RowLoop]] = {
    name: RowLoop(addresses, *_SIZES[name], _module.JOINS[name], _module.CHUNK)
    for name, addresses in ({} if _module is None else _module.LOOPS).items()
}


def reduced(name: str, x: Array, axis: Any, keepdims: bool) -> Array | None:
    """Return what an array comes to along its last axes, one or more, as float64.

    Parameters
    ----------
    name : str
        ``"sum"`` or ``"prod"``, whose values are those of the array's dtype, ``"count_nonzero"``,
        or ``"sum in float64"``, of float32.
    x : ndarray
    axis : int, tuple of int or None
        Not below 0.
    keepdims : bool

    Returns
    -------
    ndarray or None
        None where NumPy's own loops have to find it: on other dtypes, layouts, axes and sizes,
        where they would warn, and of products that leave the range on the way.
    """
    loop = ROW_LOOPS.get(name)
    in_double = loop is None and name == "prod" and x.dtype.char == "f"
    if loop is None and not in_double:
        return None
    least, longer = _SIZES[name]
    if x.size < least or not x.flags.c_contiguous:
        return None
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    kept = x.ndim - len(axes)
    if not axes or sorted(axes) != list(range(kept, x.ndim)):
        return None
    length = math.prod(x.shape[kept:])
    if length <= longer:
        return None
    if in_double:
        return _product_in_double(x, tuple(axes), keepdims)
    # NumPy makes the name of a dtype anew each time, which takes as long as some reductions.
    address = None if loop is None else loop.addresses.get(x.dtype.name)
    if address is None or not x.flags.aligned:
        return None
    into = np.empty(x.size // length)
    single = x.dtype.char == "f" and name in ("sum", "prod")
    if not _module.reduce(address, x.ctypes.data, length * x.itemsize, length, single, into):
        return None
    return into.reshape(x.shape[:kept] + (1,) * (len(axes) if keepdims else 0))


def _product_in_double(x: Any, axes: tuple[int, ...], keepdims: bool) -> Array | None:
    try:
        with np.errstate(all="raise"):
            return np.asarray(x.prod(axes, np.float64, keepdims=keepdims), np.float32)
    except FloatingPointError:
        return None


def spread(x: Array, axis: Any, correction: float, keepdims: bool, *, roots: bool) -> Array | None:
    """Return the variance of many elements along any axes, or its square root.

    Parameters
    ----------
    x : ndarray
    axis : int, tuple of int or None
        Not below 0.
    correction : float
    keepdims : bool
    roots : bool

    Returns
    -------
    ndarray or None
        Of the dtype of `x`; of contiguous arrays along axes that follow each other with the bits of
        the compiled hot path. None where NumPy has to find it.
    """
    loop = ROW_LOOPS.get("sum")
    if loop is None or x.dtype.char not in "fd" or x.size < _SPREAD:
        return None
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    count = math.prod(x.shape[i] for i in axes)
    if not axes or not count > correction:
        return None
    order = list(range(x.ndim))
    if not (x.flags.c_contiguous and x.flags.aligned):
        order.sort(key=lambda i: -abs(x.strides[i]))  # as elements lie in memory
        x = np.require(x.transpose(order), requirements=["C", "A"])
    squares = _squares(loop.addresses[x.dtype.name], x, sorted(order.index(i) for i in axes))
    if squares is None:
        return None
    squares /= count - correction
    found = (np.sqrt(squares, out=squares) if roots else squares).astype(x.dtype, copy=False)
    found = found.transpose(np.argsort(order))
    return found if keepdims else found.squeeze(axes)


def _squares(address: int, x: Array, axes: list[int]) -> Array | None:
    """Return the sum of what is between elements and their mean, squared, with axes of length 1.

    Axes that others lie between are reduced after the last ones, by what these have come to.
    """
    last = axes[-1] + 1
    first = next(i for i in range(last - 1, -1, -1) if i == 0 or i - 1 not in axes)
    length = math.prod(x.shape[first:last])
    squares, means = np.empty(x.size // length), np.empty(x.size // length)
    single, columns = x.dtype.char == "f", math.prod(x.shape[last:])
    if not _module.spread(address, x.ctypes.data, single, columns, length, squares, means):
        return None
    shape = x.shape[:first] + (1,) * (last - first) + x.shape[last:]
    inside, middles = squares.reshape(shape), means.reshape(shape)
    rest = tuple(i for i in axes if i < first)
    if not rest:
        return inside
    middles -= middles.mean(rest, keepdims=True)
    return np.asarray((inside + length * middles * middles).sum(rest, keepdims=True))


def triangle(x: Array, out: Array, *, upper: bool) -> Array:
    """Copy what a matrix has on and above its diagonal, or on and below it; zeros elsewhere.

    Parameters
    ----------
    x : ndarray
        A matrix whose rows are contiguous.
    out : ndarray
        Contiguous, of the same shape and dtype; `x` itself, or apart from it.
    upper : bool

    Returns
    -------
    ndarray
        `out`.
    """
    if _module is not None:
        rows, columns = x.shape
        places = x.ctypes.data, out.ctypes.data
        _module.triangle(*places, rows, columns, x.itemsize, x.strides[0], upper)
        return out
    if x is not out:
        out[...] = x
    rows, columns = (np.arange(n, dtype=np.int32) for n in x.shape)
    cut = np.greater if upper else np.less
    np.copyto(out, 0, where=cut.outer(rows, columns))
    return out
