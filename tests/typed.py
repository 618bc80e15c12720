"""What a typed program may rely on: `make lint` reads this, and nothing runs it."""

from collections.abc import Hashable
from typing import Any, assert_type

import numpy as np

import corepy
from corepy import Array
from corepy import array_api as xp


def of_arrays(x: Array, y: Array) -> Array:
    assert_type(x + y, Array)
    assert_type(x * 2, Array)
    assert_type(1 - x, Array)
    assert_type(x @ y, Array)
    assert_type(x == 0, Array)
    assert_type(x < y, Array)
    assert_type(-x, Array)
    assert_type(~(x > 0), Array)
    assert_type(abs(x), Array)
    assert_type(xp.exp(x), Array)
    assert_type(xp.isnan(x), Array)
    assert_type(xp.maximum(x, 0.0), Array)
    assert_type(xp.sum(x), Array)
    assert_type(x[0, ...], Array)
    x += y
    x /= 2
    return xp.abs(x) + 1 / y


def of_others(values: np.ndarray[Any, Any], memory: memoryview, x: Array) -> None:
    assert_type(xp.asarray(values), Array)
    assert_type(xp.asarray(memory), Array)
    assert_type(xp.asarray([1.0, 2.0], device="cpu"), Array)
    assert_type(xp.zeros(2, device="cpu"), Array)
    assert_type(xp.astype(x, xp.float32, device="cpu"), Array)
    xp.asarray(object())  # type: ignore[arg-type]
    xp.concatenate  # type: ignore[attr-defined]
    x.astype  # type: ignore[attr-defined]
    corepy.zeros  # type: ignore[attr-defined]
    _: Hashable = x  # type: ignore[assignment]
    corepy.kernels.softmax(values, axis=-1)
    corepy.testing.fake_devices()
    corepy.kernels.KVCache(1, 1, 2, 2, xp.float32)
    corepy.kernels.PagedKVCache(1, 1, 2, 2, 2, np.float32)


assert_type(corepy.explain(of_arrays, xp.ones(2), xp.ones(2)).bytes_moved, int)
