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

#: JAX's context of 64 bits.
wide: Final[Callable[[bool], Any]] = jax.enable_x64
#: How products of float32 are computed: by default TPUs and GPUs round them to fewer bits.
precision = "highest"

_NUMPY: Final = NumPyBackend()
#: Bytes from which to copy memory takes longer than JAX to look at an array, 20 us.
_LARGE: Final = 1 << 18


def is_known(x: Any) -> bool:
    """Say whether NumPy can look at it: of JAX at what has values, on one device, the host."""
    if not isinstance(x, jax.Array):
        return True
    if isinstance(x, jax.core.Tracer):
        return False
    places = x.devices()
    return len(places) == 1 and next(iter(places)).platform == "cpu"


def is_on_host(native: Array) -> bool:
    """Say whether an array, or the scalar of NumPy that stands for one, lies in host memory."""
    return isinstance(native, np.generic) or all(d.platform == "cpu" for d in native.devices())


def known(x: Array) -> Array | None:
    """Return an operand for a look at its values: NumPy's takes 2 us. None where JAX traces."""
    if isinstance(x, jax.core.Tracer):
        return None
    return np.asarray(x) if is_on_host(x) else x


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
    more than 10 ms. But DLPack takes memory of the host to the host, and to the first device of it.
    """
    plain = array.dtype.kind in "biufc" and array.dtype.isnative
    if not plain or array.nbytes >= _LARGE:
        return False
    return [place.platform for place in jax.local_devices()] == ["cpu"]


def by_numpy(name: str) -> Function:
    """Compute with NumPy's function where an array has values on the host, else with JAX's."""
    function, otherwise = _NUMPY.operation(name), native_function(jnp, name)
    assert function is not None
    assert otherwise is not None

    def call(x: Array, **params: Any) -> Any:
        if not is_known(x):
            return otherwise(x, **params)
        found = function(np.asarray(x), **params)
        if isinstance(found, tuple):
            return tuple(beside(x, each) for each in found)
        return beside(x, found)

    return call


def select(x: Array, parts: tuple[Any, ...]) -> Array | None:
    """Return the elements that a key selects; None where NumPy cannot look at it."""
    if not all(map(is_known, (x, *parts))):
        return None
    host, key = np.asarray(x), on_host(parts)
    if len(key) == 1 and key[0].shape == host.shape:  # five times as fast, for a mask of all
        return beside(x, host.reshape(-1).take(np.flatnonzero(key[0])))
    return beside(x, host[key])


def replace(x: Array, parts: tuple[Any, ...], value: Array) -> Array | None:
    """Return a new array with a value where a key selects; None where NumPy cannot look at it."""
    if not all(map(is_known, (x, *parts, value))):
        return None
    written = np.array(x, order="C")
    written[on_host(parts)] = np.asarray(value)
    return beside(x, written)


def on_host(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key with NumPy's arrays in the place of JAX's."""
    return tuple(np.asarray(part) if isinstance(part, jax.Array) else part for part in parts)
