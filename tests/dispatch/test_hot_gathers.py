"""Elements at indices along several axes are those that the method selects."""

from __future__ import annotations

import itertools
import tracemalloc
from functools import partial
from operator import getitem
from typing import Any

import numpy as np

import corepy.array_api as xp
from tests.dispatch.natives import compiled
from tests.dispatch.short_ways import LONG_GET, assert_same, seen


def test_indices_along_several_axes_select_as_the_method_does() -> None:
    rng = np.random.default_rng(5)
    for shape in ((5, 6), (5, 6, 3), (4, 5, 2, 3), (5, 0), (0, 5), (5, 6, 0)):
        for dtype in ("float64", "int8", "complex128", "bool"):
            native = rng.integers(0, 9, shape).astype(dtype)
            for given in (native, native.T, native[::-1]):
                x = xp.asarray(given)
                parts: list[Any] = [
                    *(0, -2, 7, xp.asarray(1), xp.asarray(-2), slice(None), ..., None),
                    *(xp.asarray([0, 1, -1]), xp.asarray([3, -4, 1]), xp.asarray([1, 9, 0])),
                    *(xp.asarray([[0], [1]]), xp.asarray([2], dtype=xp.uint8), xp.asarray([True])),
                    xp.asarray(np.zeros(0, np.int64)),
                ]
                for key in itertools.product(parts, repeat=2):
                    assert_same(seen(partial(getitem, x, key)), seen(partial(LONG_GET, x, key)))
                keys: list[Any] = [parts[8:9] * n for n in range(1, 6)]
                keys += [[parts[8], 1, parts[9]], [1, parts[8], 0], [1, parts[8], slice(None)]]
                for key in map(tuple, keys):
                    assert_same(seen(partial(getitem, x, key)), seen(partial(LONG_GET, x, key)))


def test_what_indices_along_several_axes_select_is_a_copy() -> None:
    x, i = xp.zeros((3, 3)), xp.asarray([0, 1])
    for key in ((i, i), (i, 0), (0, i)):
        part = x[key]
        part[...] = 1
        assert not xp.any(x)


@compiled
def test_few_elements_at_indices_are_put_where_others_were() -> None:
    x: Any = xp.reshape(xp.arange(24.0), (4, 3, 2))
    i = xp.asarray([2, -2])
    for key in ((i, i), (i, 1), (i, 0, 1), (2, i, xp.asarray([1, 0]))):
        x[key], x[key]
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            x[key]
            most = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        assert most < 100  # NumPy makes a result, and what it iterates with
