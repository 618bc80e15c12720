"""Searching, extremes, and sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp

Array: TypeAlias = Any
Function: TypeAlias = Callable[..., Any]

#: Elements up to which each is compared with all others: beyond, it takes longer than a sort, and
#: memory for every pair.
_COMPARED: Final = 48


def arg_extreme(library: Function, primitive: Function) -> Function:
    """Find positions; in traced code of 32 bits, positions that are widened afterwards.

    JAX lowers the primitive when all is traced, by then without our context of 64 bits, and fails
    on an int64 result. It is the only function of the standard that this happens to.
    """

    def find(x: Array, *, axis: int | None, keepdims: bool) -> Array:
        if not isinstance(x, jax.core.Tracer):
            return library(x, axis=axis, keepdims=keepdims)
        line, place = (jnp.ravel(x), 0) if axis is None else (x, axis)
        narrow = jnp.int32 if line.shape[place] <= 2**31 else jnp.int64
        found = primitive(line, place, narrow).astype(jnp.int64)
        if not keepdims:
            return found
        return jnp.expand_dims(found, tuple(range(x.ndim)) if axis is None else axis)

    return find


def isin(x1: Array, x2: Array, /, *, invert: bool = False) -> Array:
    method = "compare_all" if x2.size <= _COMPARED else "binary_search"
    return jnp.isin(x1, x2, invert=invert, method=method)


@partial(jax.jit, static_argnames="side")
def searchsorted(x1: Array, x2: Array, *, side: str, sorter: Array | None) -> Array:
    # JAX gives int32 while the positions fit.
    return jnp.searchsorted(x1, x2, side=side, sorter=sorter).astype(jnp.int64)


# ---------------------------------------------------------------------------- NaN
# On the host XLA loses it among some 4,096 elements and more of which it finds the greatest or
# least (https://github.com/jax-ml/jax/issues/39887).


@partial(jax.jit, static_argnames=("extreme", "axis", "keepdims"))
def _extreme_or_nan(extreme: Function, x: Array, *, axis: Any, keepdims: bool) -> Array:
    lost = jnp.isnan(x).any(axis=axis, keepdims=keepdims)
    return jnp.where(lost, jnp.nan, extreme(x, axis=axis, keepdims=keepdims))


def _keeping_nan(extreme: Function) -> Function:
    def reduce(x: Array, *, axis: Any, keepdims: bool) -> Array:
        if x.dtype.kind != "f":
            return extreme(x, axis=axis, keepdims=keepdims)
        return _extreme_or_nan(extreme, x, axis=axis, keepdims=keepdims)

    return reduce


greatest, least = _keeping_nan(jnp.max), _keeping_nan(jnp.min)
