"""What depends on values, computed by NumPy where they lie on the host.

How many elements a mask selects, or are unique, nobody knows before. JAX compiles programs for each
such number, which takes a tenth of a second, and then a millisecond and more to run them. NumPy
reads JAX's memory on the host as it is. While JAX traces there are no values, and what JAX says of
that is what the caller is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from corepy.backends._base import native_function
from corepy.backends._numpy import NumPyBackend

Array: TypeAlias = Any
Function: TypeAlias = Callable[..., Any]

_NUMPY: Final = NumPyBackend()
#: Bytes from which to copy memory takes longer than JAX to look at an array, 20 us.
_LARGE: Final = 1 << 18


def lies_on_host(x: Any) -> bool:
    """Say whether an array has values, on one device, which is the host."""
    if not isinstance(x, jax.Array):
        return isinstance(x, (np.ndarray, np.generic))
    if isinstance(x, jax.core.Tracer):
        return False
    places = x.devices()
    return len(places) == 1 and next(iter(places)).platform == "cpu"


def beside(x: Array, found: np.ndarray[Any, Any]) -> Array:
    """Return memory that NumPy has made, which nobody else writes to, as JAX's where `x` lies."""
    found = np.asarray(found, order="C")  # DLPack has no gaps, and JAX keeps the order of axes
    if is_taken(found):
        return jax.dlpack.from_dlpack(found)
    place = next(iter(x.devices())) if isinstance(x, jax.Array) else None
    return jax.device_put(found, place, may_alias=True)


def is_taken(array: np.ndarray[Any, Any]) -> bool:
    """Say whether JAX had better take an array, or a copy of it, by DLPack, in 50 us.

    To be put it takes 70, and `jax.numpy.array` 37, but for each shape it compiles a program, in
    more than 10 ms. DLPack says nothing of which of several devices of the host.
    """
    plain = array.dtype.kind in "biufc" and array.dtype.isnative
    return plain and array.nbytes < _LARGE and len(jax.local_devices()) == 1


def by_numpy(name: str) -> Function:
    """Compute with NumPy's function where an array has values on the host, else with JAX's."""
    function, otherwise = _NUMPY.operation(name), native_function(jnp, name)
    assert function is not None
    assert otherwise is not None

    def call(x: Array, **params: Any) -> Any:
        if not lies_on_host(x):
            return otherwise(x, **params)
        found = function(np.asarray(x), **params)
        if isinstance(found, tuple):
            return tuple(beside(x, each) for each in found)
        return beside(x, found)

    return call


def select(x: Array, parts: tuple[Any, ...]) -> Array | None:
    """Return the elements that a key selects; None where NumPy cannot look at it."""
    if not all(map(_is_known, (x, *parts))):
        return None
    host, key = np.asarray(x), _on_host(parts)
    if len(key) == 1 and key[0].shape == host.shape:  # five times as fast, for a mask of all
        return beside(x, host.reshape(-1).take(np.flatnonzero(key[0])))
    return beside(x, host[key])


def replace(x: Array, parts: tuple[Any, ...], value: Array) -> Array | None:
    """Return a new array with a value where a key selects; None where NumPy cannot look at it."""
    if not all(map(_is_known, (x, *parts, value))):
        return None
    written = np.array(x, order="C")
    written[_on_host(parts)] = np.asarray(value)
    return beside(x, written)


def _is_known(part: Any) -> bool:
    return not isinstance(part, (jax.Array, np.generic)) or lies_on_host(part)


def _on_host(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(np.asarray(part) if isinstance(part, jax.Array) else part for part in parts)
