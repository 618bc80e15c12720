"""Native arrays to try the hot path on, and what is held of its results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from corepy import _dtypes
from corepy.backends._numpy import NumPyBackend
from corepy.devices._device import CPU
from corepy.dispatch import OPERATIONS, _hot, make
from corepy.dispatch._table import Table

compiled = pytest.mark.skipif(_hot.PURE is not None, reason=f"not compiled: {_hot.PURE}")
NUMPY = NumPyBackend()
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.7, -2.5, np.inf, -np.inf, np.nan, 1e-310, 1e300, -7.0]


def tables(name: str) -> list[Table]:
    """Fresh tables of NumPy, one for each dtype of an operation."""
    return [Table(NUMPY, CPU, d) for d in _dtypes.DTYPES.values() if d in OPERATIONS[name].dtypes]


def values(table: Table, shape: tuple[int, ...], seed: int, tame: bool) -> Any:
    rng = np.random.default_rng(seed)
    dtype = table.native_dtype
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    if dtype.kind in "iu":
        low = 1 if tame else np.iinfo(dtype).min
        high = 5 if tame else np.iinfo(dtype).max
        return np.asarray(rng.integers(low, high, shape, endpoint=True, dtype=dtype))
    result = np.empty(shape, dtype)
    with np.errstate(all="ignore"):  # 1e300 has no place in float32
        result.real = rng.uniform(0.1, 0.9, shape) if tame else rng.choice(SPECIAL, shape)
        if dtype.kind == "c":
            result.imag = rng.uniform(0.1, 0.9, shape) if tame else rng.choice(SPECIAL, shape)
    return result


def as_many_bytes(shape: tuple[int, ...], dtype: str) -> tuple[int, ...]:
    """Return a shape, shorter along its longest axis, that has as many bytes as one of float32."""
    times = np.dtype(dtype).itemsize // 4
    longest = shape.index(max(shape))
    return tuple(n // times if i == longest else n for i, n in enumerate(shape))


def assert_same_bits(found: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert type(found) is np.ndarray
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.tobytes() == expected.tobytes():
        return  # looked at first: what follows takes twenty times as long
    np.testing.assert_array_equal(found, expected)
    for part in ("real", "imag"):
        a, b = getattr(found, part), getattr(expected, part)
        if a.dtype.kind == "f":  # signs of zeros, but not those of NaN
            np.testing.assert_array_equal(np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)]))


def told(call: Callable[[], Any], *errors: type[Exception]) -> tuple[Any, list[str]]:
    """Return a result, or one of some errors that was raised, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
        except errors as error:
            found = error
    return found, [str(w.message) for w in caught]


def outcome(call: Callable[[], Any], *errors: type[Exception]) -> tuple[Any, list[str]]:
    """Return what `told` does so that it can be compared: bits, or the error's class and words."""

    def looked_at() -> tuple[Any, ...]:
        made = np.asarray(call())
        return made.dtype, made.shape, made.tobytes()

    found, warned = told(looked_at, *errors)
    return (type(found), str(found)) if isinstance(found, Exception) else found, warned


def assert_as_entry(name: str, table: Table, natives: list[Any]) -> None:
    """Hold a function of the namespace to its entry: bits, warnings, or the class of an error."""
    entry, errors = table[name][0], (ValueError, ZeroDivisionError)
    expected, warned = told(lambda: NUMPY.normalize(entry(*natives)), *errors)
    arrays = [make(x, table) for x in natives]
    for _ in range(2):  # the first call fills the table
        found, also = told(lambda: getattr(xp, name)(*arrays), *errors)
        assert also == warned
        if isinstance(expected, Exception):
            assert type(found) is type(expected)
        else:
            assert_same_bits(found.unwrap(), expected)
