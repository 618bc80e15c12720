"""What a typed program may rely on: `make lint` reads this, and nothing runs it."""

from typing import assert_type

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


assert_type(corepy.explain(of_arrays, xp.ones(2), xp.ones(2)).bytes_moved, int)
