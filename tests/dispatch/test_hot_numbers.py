"""Single numbers as sizes, in lists and beside arrays mean the same by every way."""

from __future__ import annotations

import operator as op
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from tests.dispatch.natives import assert_same_bits, compiled
from tests.dispatch.short_ways import assert_alike, steps

#: What may stand for a size, a bound or a value, and for none of them.
NUMBERS: list[Any] = [
    *(np.int64(3), np.uint8(3), np.int64(-3), np.float64(2.5), np.float32(0.1), np.bool_(True)),
    *(np.float64("nan"), np.uint64(2**63), np.longlong(3), np.complex128(1j), np.timedelta64(3)),
    *(True, 3, 2.5, None, "3", (3,), [3]),
]


def numbers() -> list[Any]:
    arrays = [np.int64(3), np.int8(-3), np.uint64(2**63), np.float64(2.5), np.float32(0.1)]
    held = [xp.asarray(n) for n in (*arrays, np.bool_(True), np.complex64(1))]
    return [*NUMBERS, *held, xp.asarray([3]), xp.reshape(xp.asarray(3), (1, 1))]


def test_numbers_are_sizes_bounds_and_values_by_every_way() -> None:
    x = xp.asarray(np.arange(12.0).reshape(3, 4))
    for n in numbers():
        for name in ("zeros", "ones", "eye", "arange"):
            assert_alike(name, n)
        for shape in ((n, 2), (2, n), (n, n)):
            assert_alike("zeros", shape, dtype=xp.int8)
        assert_alike("arange", 1, n, 2)
        assert_alike("arange", 0, 4, n)
        assert_alike("linspace", 0, 1, n)
        assert_alike("linspace", n, 9.0, 3)
        assert_alike("full", (2,), n)
        assert_alike("full", n, n, dtype=xp.float32)
        assert_alike("full_like", x, n)
        assert_alike("reshape", x, (-1, n))
        assert_alike("roll", x, n)
        assert_alike("roll", x, n, axis=1)


def test_strictness_refuses_scalars_of_numpy_as_bounds_still() -> None:
    three: Any = np.int64(3)
    one: Any = np.float64(1)
    xp.arange(three), xp.asarray([one])
    with corepy.strict():
        for call in (lambda: xp.arange(three), lambda: xp.full((3,), one)):
            with pytest.raises(TypeError, match="strict mode"):
                call()


def lists() -> list[Any]:
    x, i = xp.asarray([1.5, -0.0, 3.0]), xp.asarray([1, 2, 3])
    s, c = x[0], x[1]
    single, flag = xp.asarray(np.float32(0.1)), x[0] > 0
    many: Any = [x[0]] * 3000
    return [
        *([s, c], (s, c), [[c, -s], [s, c]], [(c, s), (s, c)], [[s], [c]], [s]),
        *([s, 1.0], [1.0, s], [0, s], [s, 2], [[1.0, s], [0, c]], [[s, c], [0.0, 1.0]]),
        *([i[0], i[1]], [i[0], 2], [2, i[0]], [i[0], 2.5], [i[0], s], [s, i[0]]),
        *([single, single], [single, 0.1], [flag, flag], [flag, True], [s, True], [True, s]),
        *([np.float64(1), np.float64(2)], [np.float64(1), s, 3], [np.int64(1), i[1]]),
        *([np.int64(1), np.int64(2)], [np.int64(1), np.int32(2)], [np.float32(1), 2.0]),
        *([np.bool_(True), np.bool_(False)], [np.longdouble(1), s], [np.timedelta64(1), i[0]]),
        *([s, 2**70], [s, 2**31], [s, 1j], [s, "a"], [s, None], [s, [c]], [[s], [s, c]], [[s], c]),
        *([s, x], [x, x], [[x, x]], [[[s]]], [x[:1], s], [[], [s]], many, [np.str_("a"), s]),
    ]


def test_lists_that_hold_single_numbers_are_arrays_by_every_way() -> None:
    for given in lists():
        for dtype in (None, xp.float64, xp.float32, xp.int64, xp.bool):
            assert_alike("asarray", given, dtype=dtype)
        assert_alike("asarray", given, copy=True)
        assert_alike("asarray", given, copy=False)


def test_numbers_in_a_list_are_copied() -> None:
    x = xp.asarray([1.5, 2.5])
    first = x[0]
    for _ in range(3):
        made = xp.asarray([first, x[1]])
        first += 1
        assert_same_bits(made.unwrap(), np.array([float(first) - 1, 2.5]))


def test_clip_takes_scalars_of_numpy_by_every_way() -> None:
    for dtype in ("float64", "float32", "int64", "int8"):
        x = xp.asarray(np.arange(-6, 6).astype(dtype))
        for low in (np.float64(-1.5), np.float32(-2), np.int64(-3), -2, None, xp.asarray(-1)):
            for high in (np.float64(2.5), np.int8(3), 3, None, np.float64("nan")):
                assert_alike("clip", x, low, high)
                assert_alike("clip", x, min=low, max=high)


@compiled
def test_scalars_of_numpy_of_other_dtypes_come_without_a_step_of_pythons() -> None:
    x: Any = xp.asarray([1.0, 2.0])
    i: Any = xp.asarray([1, 2])
    single: Any = xp.asarray(np.array([1, 2], np.float32))
    half: Any = np.float64(0.5)
    two: Any = np.int64(2)
    number, count = x[0], i[1]
    calls: list[Callable[[], Any]] = [
        lambda: x**two,
        lambda: two * x,
        lambda: single * half,
        lambda: i * half,
        lambda: xp.maximum(x, two),
        lambda: xp.where(x > 1, i, half),
        lambda: xp.sqrt(half),
        lambda: xp.clip(x, half, 2),
        lambda: xp.clip(x, 0, half),
        lambda: op.imul(x, two),
        lambda: op.setitem(x, 0, two),
        lambda: xp.zeros(two),
        lambda: xp.zeros((count, 3)),
        lambda: xp.arange(count),
        lambda: xp.full((2,), number),
        lambda: xp.full_like(x, half),
        lambda: xp.linspace(number, 9, two),
        lambda: xp.reshape(x, (two, -1)),
        lambda: xp.asarray([number, 1.0]),
        lambda: xp.asarray([[number, 0], [half, number]]),
        lambda: xp.asarray([half, half]),
    ]
    for place, call in enumerate(calls):
        assert steps(call) == [], place
