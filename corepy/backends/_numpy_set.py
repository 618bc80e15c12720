"""NumPy's distinct elements, with what else is asked of them: the steps of `numpy.unique`.

Its Python layer takes most of the time of small arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

__all__ = ["firsts", "unique_all", "unique_counts", "unique_inverse"]


def firsts(values: Array) -> Array:
    """Say of sorted values which ones differ from those before them, as each NaN does."""
    first = np.empty(values.size, np.bool_)
    first[:1] = True
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return first


def _counts(first: Array) -> Array:
    (starts,) = first.nonzero()
    ends = np.empty(starts.size + 1, np.intp)
    ends[:-1] = starts
    ends[-1] = first.size
    return np.subtract(ends[1:], ends[:-1])


def _inverse(first: Array, order: Array, shape: tuple[int, ...]) -> Array:
    places = first.astype(np.intp)  # NumPy adds up Booleans in twice the time
    places[:1] = 0
    np.add.accumulate(places, out=places)
    inverse = np.empty(order.size, np.intp)
    inverse[order] = places
    return inverse.reshape(shape)


def unique_all(x: Array, /) -> tuple[Array, Array, Array, Array]:
    flat = x.reshape(-1)
    order = flat.argsort(kind="stable")
    values = flat[order]
    first = firsts(values)
    return values[first], order[first], _inverse(first, order, x.shape), _counts(first)


def unique_counts(x: Array, /) -> tuple[Array, Array]:
    values = x.flatten()
    values.sort()
    first = firsts(values)
    return values[first], _counts(first)


def unique_inverse(x: Array, /) -> tuple[Array, Array]:
    flat = x.reshape(-1)
    order = flat.argsort()
    values = flat[order]
    first = firsts(values)
    return values[first], _inverse(first, order, x.shape)
