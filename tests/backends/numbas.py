"""The Numba backend with its loops at all sizes, and what its tests have in common."""

from __future__ import annotations

import os
import sys
from collections import Counter
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

Array = np.ndarray[Any, Any]

FLOATS: Final = ("float32", "float64")
#: Shorter and longer than a block and a partial sum, and not multiples of either.
SHAPES: Final = [(1,), (7,), (2500,), (3, 1100), (1100, 3), (4, 5, 60)]
#: Lets NumPy say what it likes of the special values of a test.
quiet: Final = pytest.mark.filterwarnings(
    "ignore:(divide by zero|invalid value|overflow|underflow) encountered:RuntimeWarning"
)

_PACKAGE: Final = "corepy.backends.numba"
_SETTING: Final = "COREPY_NUMBA_THRESHOLD"


def _forced() -> ModuleType:
    """Import the backend once more, with loops for all sizes, beside the one that users have."""
    before = os.environ.get(_SETTING)
    kept = {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith(_PACKAGE)}
    os.environ[_SETTING] = "1"
    try:
        return import_module(f"{_PACKAGE}._backend")
    finally:
        for name in [name for name in sys.modules if name.startswith(_PACKAGE)]:
            del sys.modules[name]
        sys.modules.update(kept)
        if kept:  # the package is an attribute of the one above as well
            sys.modules["corepy.backends"].numba = kept[_PACKAGE]  # type: ignore[attr-defined]
        if before is None:
            del os.environ[_SETTING]
        else:
            os.environ[_SETTING] = before


OPERATIONS: Final = _forced().OPERATIONS
_RAN: Counter[str] = Counter()


def counted() -> Counter[str]:
    """Count from now on how often an operation's own loops take the operands of `run`."""
    _RAN.clear()
    return _RAN


def run(name: str, *args: Any, **params: Any) -> Any:
    """Run an operation as this backend does, in its own loops wherever they apply."""
    operation = OPERATIONS[name]
    with np.errstate(all="ignore"):
        if max(x.size for x in args if isinstance(x, (np.ndarray, np.generic))):
            found = operation.own(*args, **params)
            if found is not None:
                _RAN[name] += 1
                return found
        return operation.small(*args, **params)


def own(name: str, *args: Any, **params: Any) -> Any:
    """Run an operation's own loop, which has to take the arguments."""
    with np.errstate(all="ignore"):
        found = OPERATIONS[name].own(*args, **params)
    assert found is not None
    return found


def sample(shape: tuple[int, ...], dtype: str) -> Array:
    """Make values on both sides of zero where the dtype has them."""
    values = np.random.default_rng(7).standard_normal(shape) * 30
    return np.asarray(abs(values) if dtype.startswith("u") else values).astype(dtype)


def layouts(x: Array) -> list[Array]:
    """Return an array in C and F order, backwards, with gaps and read-only."""
    frozen = x.copy()
    frozen.flags.writeable = False
    return [x, np.asfortranarray(x), x[::-1], np.repeat(x, 2, axis=-1)[..., ::2], frozen]


def assert_same(found: Any, expected: Any) -> None:
    """Compare dtypes, shapes, values and the signs of zeros, of tuples one by one."""
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        return
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind == "f":
        known = ~np.isnan(found)
        np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


def axes(x: Array) -> list[Any]:
    """Return axes to reduce: all, each, and neighbouring and separate pairs."""
    pairs = [(0, 1), (0, x.ndim - 1)] if x.ndim > 1 else []
    return [None, *range(x.ndim), *pairs]


def specials(dtype: str) -> tuple[Array, Array]:
    """Return every pair of special values of a dtype."""
    limits = np.finfo(dtype)
    positive = [0, limits.smallest_subnormal, limits.tiny, 0.1, 1, 3, 7, 2**23, 2**24 - 1]
    positive += [2.0**52, 2.0**53 - 1, 1e30, limits.max, np.inf, np.nan]
    values = np.array([*positive, *(-np.array(positive))], dtype)
    first, second = np.meshgrid(values, values)
    return first.copy(), second.copy()
