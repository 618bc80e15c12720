"""Arrays of the backend that a test prefers, and what runs on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import corepy
import corepy.array_api as xp
from corepy.backends._numpy import NumPyBackend

NUMPY: Final = NumPyBackend()


def a(values: Any, dtype: str | None = None) -> corepy.Array:
    """Make an array, which has to be in the backend that is preferred."""
    x = xp.asarray(values, dtype=None if dtype is None else getattr(xp, dtype))
    assert (x.backend,) == tuple(corepy.get_backend_priority())
    return x


def numpys(name: str, *args: Any, **params: Any) -> Any:
    """Run an operation of NumPy's backend on native arrays."""
    function = NUMPY.operation(name)
    assert function is not None
    return function(*args, **params)


def pointer(x: Any) -> int:
    """Return where the memory of an array of corepy, torch or NumPy begins."""
    native = x.unwrap() if isinstance(x, corepy.Array) else x
    if isinstance(native, np.ndarray):
        return int(native.__array_interface__["data"][0])
    return int(native.data_ptr())


def unaligned(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Copy an array to where its items do not begin at multiples of their size."""
    made = np.frombuffer(bytearray(b"\0" + x.tobytes()), x.dtype, offset=1).reshape(x.shape)
    assert not made.flags.aligned
    return made


def ran(function: Callable[..., Any], *args: Any) -> set[str]:
    """Return which backends run a function."""
    return set(corepy.explain(function, *args).summary())
