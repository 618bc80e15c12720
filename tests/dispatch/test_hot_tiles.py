"""Operands that lie in another order than the result, and what is written into such arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices._device import CPU
from corepy.dispatch import make
from corepy.dispatch._table import table_of
from tests.dispatch.natives import NUMPY, as_many_bytes, assert_same_bits, compiled, values
from tests.dispatch.short_ways import refusing, without_entries

#: Tiles that are whole, and pieces of such at each end.
SHAPES = [(64, 96), (40, 256), (101, 131), (3, 2000), (130, 65), (12, 70, 9), (5, 6, 100)]

DTYPES = ["bool", "int8", "int16", "int64", "float32", "float64", "complex128"]


def turned(x: Any) -> Any:
    """Return the same elements in the opposite order of memory, and with gaps."""
    whole = np.zeros(tuple(reversed([2 * n for n in x.shape])), x.dtype).transpose()
    view = whole[tuple(slice(1, None, 2) for _ in x.shape)]
    view[...] = x
    return view


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_operands_of_several_orders(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x, y = (values(table, shape, seed, tame=True) for seed in (1, 2))
    for left, right in (
        (x, np.asfortranarray(y)),
        (turned(x), y),
        (turned(x)[::-1], y),
        (x.swapaxes(0, -1).copy().swapaxes(0, -1), y),
        (x[:, ::-1], np.asfortranarray(y)[:, ::-1]),
    ):
        a, b = make(left, table), make(right, table)
        assert_same_bits((a + b).unwrap(), left + right)
        assert_same_bits((a == b).unwrap(), left == right)
        assert_same_bits((b - a).unwrap(), right - left)
        assert (a + b).unwrap().strides == (left + right).strides


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_copies(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x = values(table, shape, 3, tame=True)
    for view in (np.asfortranarray(x), turned(x), turned(x)[::-1, ::2], x[:, 1:], x[::-1]):
        a = make(view, table)
        assert_same_bits(xp.reshape(a, (-1,)).unwrap(), view.reshape(-1))
        assert_same_bits(xp.reshape(a, (1, -1, 1), copy=True).unwrap(), view.reshape(1, -1, 1))
        copy = xp.asarray(a, copy=True).unwrap()
        assert_same_bits(copy, view)
        assert copy.strides == view.copy("K").strides
        assert not np.shares_memory(copy, view)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_writing(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x, y = (values(table, shape, seed, tame=True) for seed in (4, 5))
    part = (slice(None),) * (x.ndim - 1) + (slice(None, None, -1),)
    for source in (y, np.asfortranarray(y), y[:1], y[..., :1], y[-1], y[..., -1:]):
        for target in (x.copy(), np.asfortranarray(x), turned(x)):
            a, expected = make(target, table), target.copy()
            a[part] = make(source, table)
            expected[part] = source
            assert_same_bits(target, expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_operations_in_place(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x, y = (values(table, shape, seed, tame=True) for seed in (6, 7))
    for other in (y, np.asfortranarray(y), y[:1], y[..., :1].copy("F"), 3):
        given = other if isinstance(other, int) else make(other, table)
        for target in (x.copy(), np.asfortranarray(x), turned(x), turned(x)[::-1]):
            a, expected = make(target, table), target.copy()
            for _ in range(2):
                a -= given
                expected -= other
            assert_same_bits(target, expected)
    for target in (np.asfortranarray(x), turned(x)):
        a, expected = make(target, table), target.copy()
        a += a
        a += a[::-1]  # which shares memory with what is written
        expected += expected.copy()
        expected += expected[::-1].copy()
        assert_same_bits(target, expected)


def test_a_view_that_has_elements_twice_is_numpys() -> None:
    x = np.zeros(5000)
    windows = np.lib.stride_tricks.as_strided(x, (2500, 3), (8, 8))
    a = make(windows, table_of(NUMPY, CPU, _dtypes.float64))
    a += 1.0
    expected = np.zeros(5000)
    again = np.lib.stride_tricks.as_strided(expected, (2500, 3), (8, 8))
    again += 1
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("shape", [(50, 60), (50, 1, 60), (1, 50, 60), (50, 60, 1)])
def test_a_shape_that_needs_no_copy_is_a_view(shape: tuple[int, ...]) -> None:
    x = np.arange(12_000.0).reshape(100, 120)[::2, ::2]
    a = xp.asarray(x)
    assert np.shares_memory(xp.reshape(a, shape).unwrap(), x)
    assert_same_bits(xp.reshape(a, shape).unwrap(), x.reshape(shape))
    b = xp.asarray(x[:, :1])
    assert np.shares_memory(xp.reshape(b, (25, 2)).unwrap(), x)
    split = (5, 10, 6, 10)
    assert np.shares_memory(xp.reshape(a, split).unwrap(), x)
    assert not np.shares_memory(xp.reshape(a, (60, 50)).unwrap(), x)
    assert_same_bits(xp.reshape(a, (60, 50)).unwrap(), x.reshape(60, 50))
    with pytest.raises(ValueError, match="reshape"):
        xp.reshape(a, (60, 50), copy=False)


#: Of float32 more than 32 MiB with their results, so that these are written past the caches.
@compiled
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(2103, 2111), (2048, 2048), (300_000, 13), (80, 70, 801)])
def test_what_fits_no_cache(shape: tuple[int, ...], dtype: str) -> None:
    shape = as_many_bytes(shape, dtype)
    x, y = (np.random.default_rng(seed).random(shape).astype(dtype) for seed in (1, 2))
    a, b = xp.asarray(x), xp.asarray(np.asfortranarray(y))
    for _ in range(3):  # the last in several threads, where these are
        np.testing.assert_array_equal((a - b).unwrap(), x - y)
        np.testing.assert_array_equal((a == b).unwrap(), x == y)
        np.testing.assert_array_equal(xp.reshape(b, (-1,)).unwrap(), y.reshape(-1))
        target = xp.zeros(shape, dtype=a.dtype)
        target[...] = b
        target += b
        np.testing.assert_array_equal(target.unwrap(), y + y)


@compiled
def test_the_short_way_is_taken() -> None:
    table = without_entries("float64", "reshape", "__setitem__")
    table["add"] = (refusing, table)
    table.settle("add", refusing, table, NUMPY.loop("add"))
    x = np.arange(40_000.0).reshape(200, 200)
    a, b = make(x.copy(), table), make(x.T, table)
    assert_same_bits((a + b).unwrap(), x + x.T)
    assert_same_bits(xp.reshape(b, (-1,)).unwrap(), x.T.reshape(-1))
    part = a[:, 1:]
    part += b[:, 1:]
    assert_same_bits(a.unwrap()[:, 1:], (x + x.T)[:, 1:])
    a[...] = b
    assert_same_bits(a.unwrap(), x.T)
