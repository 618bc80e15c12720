"""What NumPy says of floating-point flags, it says alike however a call comes to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from tests.dispatch.natives import told

TINY = np.array([[0.0, 0.0, np.finfo("f8").tiny]] * 2)
TINY_32 = np.array([[0.0, 0.0, np.finfo("f4").tiny]] * 2, "f4")
BELOW = np.array([-1.0, -2.0])
HUGE = np.full(20_000, 1e300)

Call = Callable[[Any], Any]


def small_and_large(call: Call, values: Any) -> list[Any]:
    return [(call, values), (call, np.tile(values, 10_000))]


CALLS = [
    (xp.mean, TINY[0]),
    (xp.mean, TINY),
    (lambda x: xp.mean(x, axis=-1), TINY),
    (lambda x: xp.mean(x, axis=0), TINY.T.copy()),
    (lambda x: xp.mean(x[:, ::-1]), TINY),
    (lambda x: xp.mean(x, axis=-1), TINY_32),
    (xp.var, TINY),
    *small_and_large(lambda x: x**0.5, BELOW),
    *small_and_large(lambda x: xp.pow(x, xp.full(x.shape, 0.5)), BELOW),
    *small_and_large(lambda x: xp.pow(x, 2.5), BELOW),
    *small_and_large(xp.exp, -700 * BELOW),
    *((lambda x: xp.astype(x, xp.float32), HUGE[:n]) for n in (3, 20_000)),
    *((lambda x: xp.astype(x, xp.complex64), HUGE[:n]) for n in (3, 20_000)),
    (lambda x: xp.astype(x, xp.complex64), HUGE + 0j),
]


@pytest.mark.parametrize(("call", "values"), CALLS)
def test_later_calls_tell_what_the_first_one_does(call: Call, values: Any) -> None:
    x = xp.asarray(values)

    @np.errstate(all="warn")
    def warned() -> list[str]:
        return told(lambda: call(x))[1]

    first = warned()
    assert first
    for _ in range(3):
        assert warned() == first
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match=r"^\w+: ") as raised:
            call(x)
        assert str(raised.value).endswith(first[0])
        with np.errstate(all="ignore"):
            call(x)
