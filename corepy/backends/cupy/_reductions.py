"""Reductions, by the methods of arrays: the functions around them take microseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Array = Any
Function = Callable[..., Any]


# What compat and CuPy's own functions call in the end: on few elements their layers of Python take
# more time than all that corepy adds.


def sum_(x: Array, *, axis: Any, dtype: Any, keepdims: bool) -> Array:
    # A dtype that is named takes CuPy a while to look up.
    return x.sum(axis, None if dtype is x.dtype and dtype.kind in "fc" else dtype, None, keepdims)


def prod(x: Array, *, axis: Any, dtype: Any, keepdims: bool) -> Array:
    return x.prod(axis, dtype, None, keepdims)


def max_(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return x.max(axis, None, keepdims)


def min_(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return x.min(axis, None, keepdims)


def mean(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return x.mean(axis, None, None, keepdims)


def all_(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return x.all(axis, None, keepdims)


def any_(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return x.any(axis, None, keepdims)


def astype(x: Array, dtype: Any, *, copy: bool) -> Array:
    return x.astype(dtype, copy=copy)
