"""Reductions of all elements of slices, turned arrays and repeated rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices._device import CPU
from corepy.dispatch import make
from corepy.dispatch._table import table_of
from tests.dispatch.natives import NUMPY, assert_same_bits, compiled, told, values
from tests.dispatch.short_ways import without_entries

#: Few elements, some, and several chunks of rows that are shorter and longer than what is packed.
SHAPES = [(5, 6), (70, 90), (4, 700), (700, 4), (300, 701), (40, 2500), (12, 30, 50), (120_001,)]


def views(x: Any) -> Iterator[Any]:
    """Return views that are not contiguous, of the elements of an array and of some of them."""
    yield x[::-1]
    yield x[..., 1:]
    yield x[1:-1, ..., ::2] if x.ndim > 1 else x[1:-1:2]
    yield np.repeat(x, 2, axis=0)[::2]
    yield x.T
    yield x.T[::-1]
    yield np.broadcast_to(x[:1], x.shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint32", "float32", "float64"])
def test_values(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    for x in views(values(table, shape, 3, tame=True)):
        a = make(x, table)
        assert_same_bits(xp.max(a).unwrap(), np.max(x))
        assert_same_bits(xp.min(a).unwrap(), np.min(x))
        assert_same_bits(xp.count_nonzero(a).unwrap(), np.asarray(np.count_nonzero(x)))
        total = xp.sum(a, dtype=a.dtype).unwrap()
        if dtype.startswith("float"):
            exact, size = (np.sum(y.astype(np.longdouble)) for y in (x, np.abs(x)))
            eps = np.finfo(dtype).eps
            assert np.abs(total - exact) <= 20 * eps * size
            assert np.abs(xp.mean(a).unwrap() - exact / x.size) <= 20 * eps * size / x.size
            for name in ("std", "var"):
                wanted = getattr(np, name)(x.astype(np.longdouble))
                found = getattr(xp, name)(a).unwrap()
                np.testing.assert_allclose(found, wanted, rtol=40 * eps, atol=eps)
        else:
            assert_same_bits(total, np.sum(x, dtype=dtype))
            assert_same_bits(xp.sum(a).unwrap(), np.sum(x))


@pytest.mark.parametrize("shape", [*SHAPES[:-1], (90_000, 3)])
@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_rows_and_columns(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x = values(table, shape, 4, tame=True)
    for view in (
        x[:, 1:],
        x[1:-1, ..., 1:-1],
        x[::-2],
        x[::2, :1],
        x[:1, 1:],
        np.asfortranarray(x),
    ):
        a = make(view, table)
        for axis in (0, -1, *(((0, 1), (1, 2), 1) if x.ndim > 2 else ())):
            for name in ("max", "min", "sum"):
                expected = getattr(np, name)(view, axis=axis)
                found = getattr(xp, name)(a, axis=axis).unwrap()
                if name == "sum" and dtype != "int64":
                    atol = 20 * np.finfo(dtype).eps * np.abs(view).sum()
                    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
                else:
                    assert_same_bits(found, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_booleans(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.bool_)
    for few in (False, True):
        for view in views(x):
            a = xp.asarray(view)
            assert bool(xp.all(a)) == view.all()
            assert bool(xp.any(a)) == view.any()
            assert bool(xp.any(~a)) == (~view).any()
        x[...] = few
        x.reshape(-1)[-1] = not few


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0, 0.0, "most"])
def test_special_values_and_warnings_are_numpys(special: Any, dtype: str) -> None:
    value = np.finfo(dtype).max if special == "most" else special
    for place in (0, 1234, -1):
        x = np.ones((300, 401), dtype)
        if value == 0:
            x *= 0
        x.reshape(-1)[place] = value
        x[5, 5] = value
        for view in (x[:, 1:], x.T, x[::2, ::-1]):
            for name in ("max", "min", "sum", "mean"):
                expected, warned = told(lambda v=view, n=name: getattr(np, n)(v))
                found, also = told(lambda v=view, n=name: getattr(xp, n)(xp.asarray(v)))
                np.testing.assert_allclose(found.unwrap(), expected, rtol=1e-6)
                assert np.signbit(found.unwrap()) == np.signbit(expected) or np.isnan(expected)
                assert bool(warned) == bool(also)


@compiled
def test_the_short_way_is_taken() -> None:
    table = without_entries("float64", "sum", "max", "mean")
    x = np.arange(160_000.0).reshape(400, 400)
    for view in (x[:, 1:], x[1:-1, 1:-1], x.T, x[::2], x[:4, 1:4]):
        a = make(view, table)
        assert float(xp.sum(a)) == view.sum()
        assert float(xp.max(a)) == view.max()
        assert float(xp.mean(a)) == view.sum() / view.size
