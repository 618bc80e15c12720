"""Reductions, by the methods of arrays: the functions around them take microseconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import methodcaller
from typing import Any

import cupy

Array = Any
Function = Callable[..., Any]


class Method:
    """A function of the standard as a method of CuPy's arrays, which is what CuPy's own calls too.

    Parameters
    ----------
    name : str
        The method.
    arguments : callable
        Takes what the function does, and returns what the method does after the array.
    """

    def __init__(self, name: str, arguments: Function) -> None:
        self._name = name
        self._arguments = arguments

    def __call__(self, x: Array, **params: Any) -> Array:
        return getattr(x, self._name)(*self._arguments(x, **params))

    def bound(self, x: Array, **params: Any) -> Function:
        """Return the same call on arrays of the dtype of `x`, without a frame of Python's."""
        return methodcaller(self._name, *self._arguments(x, **params))


def accumulation(x: Array, *, axis: Any, dtype: Any, keepdims: bool) -> tuple[Any, ...]:
    # A dtype that is named takes CuPy a while to look up.
    return axis, None if dtype is x.dtype and dtype.kind in "fc" else dtype, None, keepdims


def reduction(x: Array, *, axis: Any, keepdims: bool) -> tuple[Any, ...]:
    return axis, None, keepdims


def average(x: Array, *, axis: Any, keepdims: bool) -> tuple[Any, ...]:
    return axis, None, None, keepdims


def astype(x: Array, dtype: Any, *, copy: bool) -> Array:
    return x.astype(dtype, copy=copy)


def spread(function: Function) -> Function:
    """Make ``std`` or ``var``. CuPy divides by zero where no degree of freedom is left."""

    def run(x: Array, *, axis: Any, correction: float, keepdims: bool) -> Array:
        axes = range(x.ndim) if axis is None else axis
        if math.prod(x.shape[place] for place in axes) > correction:
            return function(x, axis=axis, correction=correction, keepdims=keepdims)
        found = function(x, axis=axis, correction=0, keepdims=keepdims)
        return cupy.full_like(found, math.nan)

    return run
