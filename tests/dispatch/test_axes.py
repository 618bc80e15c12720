"""Reductions along any axes of arrays, in whatever order these lie: the oracle is NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices._device import CPU
from corepy.dispatch import _hot, make
from corepy.dispatch._table import Table, table_of
from tests.dispatch.natives import NUMPY, assert_same_bits, compiled, values
from tests.dispatch.short_ways import without_entries

#: Few elements, some, and as many as threads share; single ones, and columns more than one tile.
SHAPES = [(2, 3, 4), (1, 5, 1, 3), (3, 70, 90), (6, 700, 5), (40, 3, 16, 16), (3, 300, 301)]
if _hot.PURE is not None:  # in which nobody shares, or reduces by tiles
    SHAPES = SHAPES[:4]
EXACT = ["all", "any", "count_nonzero", "max", "min"]
ADDED = ["mean", "std", "sum", "var"]


def layouts(x: Any) -> Iterator[Any]:
    """Return views of an array as it is, with gaps, turned in several ways, and backwards."""
    yield x
    yield x[-2:, ..., ::2]
    yield x[:, 1:-1] if x.shape[1] > 2 else x
    yield x.T
    yield np.moveaxis(x, 0, -1)
    yield np.moveaxis(x, -1, 1)[:, ::-1]
    yield np.moveaxis(x, 1, 0)[..., 1:]


def choices(ndim: int) -> Iterator[Any]:
    """Return all axes, alone and together, and a few in another order or counted from the end."""
    yield None
    yield from range(-ndim, ndim)
    for count in range(1, ndim + 1):
        yield from itertools.combinations(range(ndim), count)
    yield (2, 0)
    yield (-1, 0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float32", "float64"])
def test_values(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    names = [name for name in EXACT if dtype != "bool" or name not in ("max", "min")]
    if dtype == "int64":
        names.append("sum")
    for x in layouts(values(table, shape, 3, tame=True)):
        a = make(x, table)
        for axis in choices(x.ndim):
            for keepdims in (False, True):
                for name in names:
                    wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims)
                    found = getattr(xp, name)(a, axis=axis, keepdims=keepdims)
                    assert_same_bits(found.unwrap(), wanted)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_sums(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    names = ADDED if dtype != "complex128" else ["mean", "sum"]
    wide = np.clongdouble if dtype == "complex128" else np.longdouble
    for x in layouts(values(table, shape, 3, tame=True)):
        a, exact = make(x, table), x.astype(wide)
        for axis in choices(x.ndim):
            for name in names:
                found = getattr(xp, name)(a, axis=axis).unwrap()
                wanted = getattr(np, name)(exact, axis=axis)
                assert found.dtype == x.dtype
                assert found.shape == wanted.shape
                eps = np.finfo(dtype).eps
                np.testing.assert_allclose(found, wanted, rtol=40 * eps, atol=40 * eps)


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_and_products_of_stacked_columns_have_numpys_bits(
    shape: tuple[int, ...], dtype: str
) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x = values(table, shape, 5, tame=True)
    x += x.dtype.type(0.6) if dtype != "int64" else 0
    for axis in range(1, x.ndim - 1):
        for name in ("prod", "sum"):
            found = getattr(xp, name)(make(x, table), axis=axis).unwrap()
            assert_same_bits(found, getattr(np, name)(x, axis=axis))


@pytest.mark.parametrize("shape", [*SHAPES, (5, 4), (500, 70), (3000, 300), (70_000, 3)])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64", "float32", "float64"])
def test_places_of_extremes(shape: tuple[int, ...], dtype: str, registers: str) -> None:
    table = Table(NUMPY, CPU, _dtypes.DTYPES[dtype])
    table.sibling(_dtypes.int64)
    for tame in (True, False):  # some of them NaN, infinite, zeros of both signs
        x = values(table, shape, 7, tame)
        views = layouts(x) if x.ndim > 2 else (x, x[1:, ::2], x.T, x[::-1])
        for view in views:
            a = make(view, table)
            for axis in range(view.ndim):
                for name in ("argmax", "argmin"):
                    wanted = getattr(np, name)(view, axis=axis)
                    assert_same_bits(getattr(xp, name)(a, axis=axis).unwrap(), wanted)
                wanted = np.count_nonzero(view, axis=axis)
                assert_same_bits(xp.count_nonzero(a, axis=axis).unwrap(), np.asarray(wanted))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0])
@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "mean", "min", "sum"])
def test_special_values(name: str, special: float) -> None:
    x = np.ones((3, 80, 90))
    x[1, 5, 7] = x[2, 79, 89] = x[0, 0, 0] = x[0, 3, 0] = special
    for axis in (0, 1, 2):
        wanted = getattr(np, name)(x, axis=axis)
        assert_same_bits(getattr(xp, name)(xp.asarray(x), axis=axis).unwrap(), wanted)
    if not name.startswith("arg"):
        np.testing.assert_array_equal(
            getattr(xp, name)(xp.asarray(x), axis=(0, 2)).unwrap(),
            getattr(np, name)(x, axis=(0, 2)),
        )


def test_products_of_floats_overflow_where_numpys_do() -> None:
    x = np.full((2, 3, 400), 2.0)
    x[0] = 0.5
    x[:, 0] *= 8.0
    with np.errstate(all="ignore"):
        wanted = np.prod(x, axis=(0, 2))
        assert_same_bits(xp.prod(xp.asarray(x), axis=(0, 2)).unwrap(), wanted)


def test_an_overflow_of_sums_is_told_once() -> None:
    x = np.full((3, 70, 90), np.finfo(np.float64).max)
    with pytest.warns(RuntimeWarning, match="overflow") as caught:
        assert xp.all(xp.isinf(xp.sum(xp.asarray(x), axis=1)))
    assert len(caught) == 1
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        xp.sum(xp.asarray(x), axis=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["max", "mean", "min", "prod", "sum"])
def test_many_columns_of_few_rows(name: str, dtype: str) -> None:
    """More columns than one tile has, and in some tiles zeros of both signs, or NaN."""
    x = np.random.default_rng(0).standard_normal((2, 3, 20_003)).astype(dtype)
    x[..., 9000:9020] = [[0.0], [-0.0], [0.0]]
    x[..., 20_000:] = -0.0
    x[1, 1, 15_000] = np.nan
    for rows in (1, 2, 3):
        part = x[:, :rows].copy()
        for given, axis in ((part, 1), (part[0], 0), (part[1], 0)):
            found = getattr(xp, name)(xp.asarray(given), axis=axis).unwrap()
            assert_same_bits(found, getattr(np, name)(given, axis=axis))


@pytest.mark.parametrize("name", ["argmax", "sum"])
@pytest.mark.parametrize("axis", [3, -4, (0, 3), (0, 0), (0, -3), 1.0, "1"])
def test_axes_that_are_none(name: str, axis: Any) -> None:
    with pytest.raises((IndexError, TypeError, ValueError), match=f"{name}.*axis"):
        getattr(xp, name)(xp.ones((2, 3, 4)), axis=axis)


@compiled
def test_the_short_way_is_taken() -> None:
    names = ("sum", "max", "mean", "argmax", "count_nonzero")
    table = without_entries("float64", *names)
    x = np.arange(240_000.0).reshape(40, 60, 100)
    for view in (x, x[:, 1:], x[..., 1:], x.T, np.moveaxis(x, 0, -1)):
        a = make(view, table)
        for axis in range(3):
            assert np.allclose(xp.sum(a, axis=axis).unwrap(), view.sum(axis=axis))
            assert np.array_equal(xp.count_nonzero(a, axis=axis).unwrap(), (view != 0).sum(axis))
        assert np.allclose(xp.mean(a, axis=(0, 2)).unwrap(), view.mean(axis=(0, 2)))
        assert np.array_equal(xp.max(a, axis=(0, 2)).unwrap(), view.max(axis=(0, 2)))
        assert np.array_equal(xp.argmax(a, axis=1).unwrap(), view.argmax(axis=1))
    few = make(x[:3, :4, :5].copy(), without_entries("float64", "std", "var"))
    for axis in (0, 1, (0, 1), -1):
        assert_same_bits(xp.var(few, axis=axis).unwrap(), x[:3, :4, :5].var(axis=axis))
        assert_same_bits(xp.std(few, axis=axis).unwrap(), x[:3, :4, :5].std(axis=axis))
