"""Keys that hold arrays take a short way, which does what the method behind it does."""

from __future__ import annotations

import operator as stdlib_operator
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import _dtypes
from corepy.dispatch import make
from tests.dispatch.natives import assert_same_bits, compiled
from tests.dispatch.short_ways import (
    LONG_GET,
    LONG_SET,
    assert_same,
    layouts,
    ours,
    refusing,
    seen,
    without_entries,
)


def array_keys(x: Any) -> list[Any]:
    n = min(x.shape, default=0)
    some, nothing = ours(np.arange(n) - n // 2), ours([], "int64")
    mask = ours(np.arange(x.size).reshape(x.shape) % 3 == 0)
    rows = ours(np.arange(x.shape[0] if x.ndim else 1) % 2 == 0)
    return [
        *(some, mask, rows, ours(0), ours(9), ours([[0, 0], [-1, 0]])),
        *((some, some), (some, 0), (0, some), (slice(None), some), (some, slice(1)), (None, some)),
        *((some, Ellipsis), (Ellipsis, some), (Ellipsis, some, Ellipsis), (some, some, some, some)),
        *((rows, 0), (rows, slice(None)), (mask, 0), (rows, some), (mask,), (some,)),
        *((ours([7]), 0), (ours([-9]), slice(None)), (ours(True), some)),
        *((xp.astype(some, xp.int8), 0), (ours([0], "uint64"), 0), (some, True)),
        *((ours([2**63], "uint64"), 0), (ours([0.0]), 0), (some, 2**70)),
        *((some, slice(None, None, 0)), (slice(2**70), some), (slice("a"), some), (some, [0])),
        *((nothing, 0), nothing, (some, 0, None), (xp.asarray([0]), 0)),
        *single_keys(),
    ]


def single_keys() -> list[Any]:
    """Return keys with arrays of no dimension, which stand for the numbers that they hold."""
    one, last, far = ours(1), ours(-1, "int8"), ours(9, "uint32")
    wide, great, flag = ours(1, "uint64"), ours(2**63, "uint64"), ours(True)
    return [
        *((one, 0), (one, one), (one, slice(None)), (slice(None), last), (one, ...), (..., last)),
        *((one, one, ...), (None, one), (one, None, slice(1)), (far, 0), (0, far), (one,)),
        *((wide, 0), (great, 0), (flag, one), (ours(1.0), 0), (ours(2**40), slice(None))),
        *(slice(one), slice(last, None), slice(None, None, last), slice(one, ours(2, "uint8"))),
        *(slice(far), slice(wide), slice(great), slice(ours(2**40)), slice(flag), slice(ours(1.0))),
        *(slice(None, None, ours(0)), slice(ours([1])), (slice(one), one), (one, slice(one, far))),
    ]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float64", "complex64"])
def test_reading_by_keys_with_arrays(dtype: str, strict: bool) -> None:
    for x in layouts(dtype):
        for key in array_keys(x):
            with corepy.strict(strict):
                expected = seen(lambda: LONG_GET(x, key))  # noqa: B023
                for _ in range(2):
                    found = seen(lambda: x[key])  # noqa: B023
                    assert_same(found, expected)
                    for a, b in zip(found[0], expected[0], strict=True):
                        assert a.unwrap().flags.writeable == b.unwrap().flags.writeable
                        shared = np.may_share_memory(a.unwrap(), x.unwrap())
                        assert shared == np.may_share_memory(b.unwrap(), x.unwrap())


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float64", "complex64"])
def test_writing_by_keys_with_arrays(dtype: str, strict: bool) -> None:
    for x in layouts(dtype, (False,)):  # what is written is moved, whatever it is
        one = make(x.unwrap().reshape(-1)[:1].copy(), x._table)
        given = [True, 1, -1.5, one, x, 2**70, ours([1, 2]), ours(2.5), "a"]
        for key in array_keys(x):
            with corepy.strict(strict):
                fitting = seen(lambda: LONG_GET(x, key))[0]  # noqa: B023
                for value in [*given, *fitting, *(one[0] for _ in one.shape if x.size)]:
                    outcomes = []
                    for store in (LONG_SET, stdlib_operator.setitem):
                        target = make(np.copy(x.unwrap(), order="K"), x._table)
                        error = seen(lambda: store(target, key, value) or ())[1]  # noqa: B023
                        outcomes.append((target.unwrap(), error))
                    (expected, error), (found, also) = outcomes
                    assert also == error
                    assert_same_bits(found, expected)


def test_parts_of_an_array_are_written_by_keys_as_if_they_were_copied() -> None:
    for _ in range(2):
        x = xp.arange(6)
        x[xp.asarray([1, 2, 3, 4, 5])] = x[:-1]
        np.testing.assert_array_equal(x.unwrap(), [0, 0, 1, 2, 3, 4])
        y = xp.reshape(xp.arange(9), (3, 3))
        y[xp.asarray([2, 1, 0]), :] = y
        np.testing.assert_array_equal(y.unwrap(), [[6, 7, 8], [3, 4, 5], [0, 1, 2]])
        y[xp.asarray([0, 1]), :] = y[0, 0]
        np.testing.assert_array_equal(y.unwrap(), [[6, 6, 6], [6, 6, 6], [0, 1, 2]])


@compiled
def test_the_short_way_takes_keys_with_arrays() -> None:
    native = np.arange(12.0).reshape(3, 4)
    table = without_entries("float64", "__getitem__", "__setitem__")
    some, mask = np.asarray([2, 0]), np.asarray([True, False, True])
    alone = np.asarray(1)
    keys: list[Any] = [some, mask, (some, 1), (slice(None), some), (some, some), (mask, slice(2))]
    keys += [alone, (alone, 1), (alone, alone), (slice(None), alone), (..., alone), (some, alone)]
    for given in (native, native.T[:3], np.arange(24.0).reshape(3, 8)[:, ::2]):
        for key in keys:
            parts = key if isinstance(key, tuple) else (key,)
            given_key = [ours(p) if isinstance(p, np.ndarray) else p for p in parts]
            ready = tuple(given_key) if isinstance(key, tuple) else given_key[0]
            assert_same_bits(make(given, table)[ready].unwrap(), given[key])
            for value in (7.0, given[key] + 1, np.asarray(3.0)):
                written, expected = given.copy(order="K"), given.copy(order="K")
                array = make(written, table)
                array[ready] = make(value, table) if isinstance(value, np.ndarray) else value
                expected[key] = value
                assert_same_bits(written, expected)


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (5, 700), (60, 3, 20), (1, 9), (30, 20, 2, 3)])
def test_indices_along_any_axis(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = np.ascontiguousarray(rng.integers(0, 2**31, shape).astype(dtype))
    for axis, size in enumerate(shape):
        for many in ((7,), (2, 3), (0,), (2000,)):
            i = rng.integers(-size, size, many)
            a, which = xp.asarray(x), xp.asarray(i)
            ahead = (slice(None),) * axis
            behind = (slice(None),) * (len(shape) - axis - 1)
            for key in ((*ahead, which), (*ahead, which, *behind), (..., which, *behind)):
                plain = tuple(i if part is which else part for part in key)
                assert_same_bits(a[key].unwrap(), x[plain])
            if len(many) == 1:
                found = xp.take(a, which, axis=axis).unwrap()
                assert_same_bits(found, np.take(x, i, axis=axis))
        for bad in (size, -size - 1):
            which = xp.asarray([0, bad])
            with pytest.raises(IndexError, match=str(bad)):
                a[(*ahead, which)]
            with pytest.raises(IndexError, match="take"):
                xp.take(a, which, axis=axis)


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(9,), (30_000,), (5, 700), (400, 3), (4, 3, 2)])
def test_writing_at_indices(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**31, shape).astype(dtype)
    for many in ((7,), (2, 3), (0,), (20_000,)):
        i = rng.integers(-shape[0], shape[0], many)  # some twice: the last one stays
        for value in (rng.integers(0, 9, (*many, *shape[1:])).astype(dtype), x[(0,) * x.ndim]):
            expected, written = x.copy(), xp.asarray(x, copy=True)
            expected[i] = value
            written[xp.asarray(i)] = xp.asarray(value)
            assert_same_bits(written.unwrap(), expected)
    for bad in (shape[0], -shape[0] - 1):
        written = xp.asarray(x, copy=True)
        for value in (xp.asarray(x[:2]), xp.asarray(x[(0,) * x.ndim])):
            with pytest.raises(IndexError, match=str(bad)):
                written[xp.asarray([0, bad])] = value
        assert_same_bits(written.unwrap(), x)


def test_writing_at_indices_what_lies_in_the_same_memory() -> None:
    for size in (6, 20_000):
        x, expected = xp.arange(size), np.arange(size)
        x[xp.arange(size)] = x[::-1]
        assert_same_bits(x.unwrap(), expected[::-1].copy())
        x[x] = xp.arange(size)
        expected = expected[::-1].copy()
        expected[expected.copy()] = np.arange(size)
        assert_same_bits(x.unwrap(), expected)


@compiled
def test_the_short_way_takes_indices_along_any_axis() -> None:
    table = without_entries("float64", "__getitem__", "take")
    x = np.random.default_rng(1).random((40, 50, 60))
    a, which = make(x, table), make(np.asarray([3, -1, 0]), table.sibling(_dtypes.int64))
    for axis in range(3):
        assert_same_bits(xp.take(a, which, axis=axis).unwrap(), x.take([3, -1, 0], axis=axis))
    for key in ((slice(None), which), (..., which), (slice(None), which, slice(None))):
        plain = tuple([3, -1, 0] if part is which else part for part in key)
        assert_same_bits(a[key].unwrap(), x[plain])


@compiled
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"])
def test_the_short_way_takes_bounds_that_are_arrays(dtype: str) -> None:
    table = without_entries("float64", "__getitem__", "__setitem__")
    one, three = ours(1, dtype), ours(3, dtype)
    for key, plain in (
        *((slice(one), slice(1)), (slice(one, three), slice(1, 3)), (slice(None, None, one), ...)),
        *(((slice(three), one), (slice(3), 1)), ((one, slice(one, None)), (1, slice(1, None)))),
    ):
        x = np.arange(20.0).reshape(4, 5)
        assert_same_bits(make(x, table)[key].unwrap(), x[plain])
        expected = x.copy()
        make(x, table)[key] = 7.0
        expected[plain] = 7.0
        assert_same_bits(x, expected)


@compiled
def test_a_row_is_written_into_a_column_of_its_matrix_by_the_short_way() -> None:
    table = without_entries("float64", "__getitem__", "__setitem__")
    x = np.arange(16.0).reshape(4, 4)
    expected = x.copy()
    array = make(x, table)
    for row, column in ((2, 1), (0, 3), (1, 1)):
        array[:, column] = array[row, :]
        expected[:, column] = expected[row, :].copy()
        assert_same_bits(x, expected)
    array[1:, 0] = array[::-1, 0][:3]
    expected[1:, 0] = expected[::-1, 0][:3].copy()
    assert_same_bits(x, expected)


@compiled
def test_integers_are_indices_by_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(xp.ones(1)), "_item", refusing)
    for dtype in ("int8", "int64", "uint64"):
        assert (10, 20, 30)[ours(2, dtype)] == 30
        assert range(ours(2, dtype)) == range(2)
    with pytest.raises(TypeError, match=r"^index: x has dtype bool; expected an integer dtype$"):
        range(ours(True))
