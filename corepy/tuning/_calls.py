"""Calls as users write them, with routes off or with one that is always taken.

What stands before a route has to be beaten too: the hot path computes small operands by loops of
NumPy's without NumPy's own way to them, which may take half as long as NumPy's functions. So both
sides of a comparison begin at the functions of `corepy.array_api`, on arrays of tables that nobody
else has.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

import numpy as np

from corepy import array_api
from corepy._dtypes import DTYPES
from corepy.backends._numpy import NumPyBackend
from corepy.devices._device import CPU
from corepy.dispatch import make, table_of
from corepy.dispatch._route_sources import everything, using
from corepy.dispatch._sites import HOST
from corepy.tuning._clock import Work

#: Parameters that native callables are always given, and that these operands' calls do not name.
_UNNAMED: Final = (
    *("copy", "correction", "descending", "dtype", "include_initial", "keepdims", "mode", "n"),
    *("norm", "side", "sorter", "stable", "upper"),
)


def called(operation: str, backend: str | None, args: tuple[Any, ...], params: Any) -> Work:
    """Return a user's call of an operation.

    Parameters
    ----------
    operation : str
    backend : str or None
        Who runs it, by a route; None for nobody but NumPy and the hot path.
    args, params : tuple, dict
        Those of the native callables, on NumPy's arrays.

    Returns
    -------
    callable
    """
    home = _home(backend)
    moved = [_array(x, home) for x in args]
    call = partial(_function(operation), *moved, **_written(operation, args, params))
    with using(None if backend is None else everything(backend, HOST)):
        call()  # fills entries, whatever routes are in force elsewhere, of all dtypes on its way
    return call


@cache
def _home(backend: str | None) -> NumPyBackend:
    """Return NumPy with tables of its own."""
    return NumPyBackend()


def _function(operation: str) -> Callable[..., Any]:
    if operation == "__getitem__":
        return operator.getitem
    found: Any = array_api
    for name in operation.split("."):
        found = getattr(found, name)
    function: Callable[..., Any] = found
    return function


def _array(value: Any, home: NumPyBackend) -> Any:
    """Return what a user has in the place of a native argument."""
    if isinstance(value, np.ndarray):
        return make(value, table_of(home, CPU, DTYPES[value.dtype.name]))
    if isinstance(value, np.dtype):
        return DTYPES[value.name]
    if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
        return [_array(item, home) for item in value]
    return value


def _written(operation: str, args: tuple[Any, ...], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a user writes."""
    found = {key: value for key, value in params.items() if key not in _UNNAMED}
    if operation in ("concat", "stack", "roll"):
        found.pop("axis", None)  # the first one, which is also the last
    elif operation.startswith("fft.") and operation.endswith("n"):
        del found["s"], found["axes"]  # all of them
    elif operation == "tensordot":
        found["axes"] = len(found["axes"][0])
    elif operation == "clip":
        found = {key: value.item() for key, value in found.items()}
    axis = found.get("axis", 0)
    is_vector = isinstance(args[0], np.ndarray) and args[0].ndim == 1
    if axis is None or (is_vector and operation != "take"):
        found.pop("axis", None)
    elif isinstance(axis, tuple):
        (found["axis"],) = axis
    return found
