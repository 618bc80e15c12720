"""Arrays with gaps, turned ones, and those beside each other in any way: results are NumPy's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices._device import CPU
from corepy.dispatch import make
from corepy.dispatch._table import Table, table_of
from tests.dispatch.natives import NUMPY, as_many_bytes, assert_same_bits, compiled, told, values
from tests.dispatch.short_ways import without_entries

#: Rows short and long, one and many of them; all that follows is for each of these.
SHAPES = [(6,), (5, 3), (40, 30), (3, 700), (300, 5), (7, 6, 5), (3, 4, 2, 5, 2, 3), (150, 130)]


def views(x: Any) -> Iterator[Any]:
    """Return views of one shape: with gaps, turned, backwards, and of single rows and columns."""
    whole = np.repeat(np.repeat(x, 2, axis=0), 3, axis=-1)
    yield x
    yield whole[::2, ..., ::3] if x.ndim > 1 else whole[::6]
    yield x[::-1]
    yield np.asfortranarray(x)
    yield np.broadcast_to(x[-1], x.shape)
    yield np.broadcast_to(x[..., -1:], x.shape)
    yield np.broadcast_to(x.max(), x.shape)
    yield np.ascontiguousarray(x.swapaxes(0, -1)).swapaxes(0, -1)[..., ::-1]
    if x.ndim > 2:
        yield np.ascontiguousarray(x.transpose(1, 2, 0, *range(3, x.ndim))).transpose(
            2, 0, 1, *range(3, x.ndim)
        )
    if x.ndim > 1:
        yield np.repeat(x[:1], 2, axis=-1)[..., ::2]
        yield np.repeat(x[..., :1], 2, axis=-1)[..., :1]
        yield x[:, :1]
        yield np.repeat(x[0], 2, axis=-1)[..., ::2]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int64", "float32", "float64"])
def test_two_operands(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x, y = (values(table, shape, seed, tame=True) for seed in (1, 2))
    names = ["equal", "logical_or"] if dtype == "bool" else ["add", "less", "maximum", "multiply"]
    for left in views(x):
        for right in views(y):
            for name in names:
                expected = getattr(np, name)(left, right)
                found = getattr(xp, name)(make(left, table), make(right, table)).unwrap()
                assert_same_bits(found, expected)
                assert found.strides == expected.strides


@compiled
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(20, 31), (7, 13, 30), (150, 130)])
def test_what_runs_backwards_has_numpys_bits(shape: tuple[int, ...], dtype: str) -> None:
    """NumPy's loops round otherwise where they take elements one by one, as of a negative step."""
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    whole = values(table, shape, 3, tame=True)
    forward, backward, second = slice(None), slice(None, None, -1), slice(None, None, -2)
    for key in product((forward, backward, second), repeat=len(shape)):
        for x in (whole[key], whole.T[key]):
            a = make(x, table)
            for name, numpys in (
                ("exp", "exp"),
                ("log10", "log10"),
                ("tan", "tan"),
                ("acos", "arccos"),
            ):
                expected = getattr(np, numpys)(x)
                for _ in range(2):  # the first call fills the table
                    found = getattr(xp, name)(a).unwrap()
                    assert found.tobytes() == expected.tobytes()
                    assert found.strides == expected.strides
            both = xp.atan2(a, make(x[:1], table)).unwrap()
            assert both.tobytes() == np.arctan2(x, x[:1]).tobytes()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "dtype", ["int8", "uint64", "float32", "float64", "complex64", "complex128"]
)
def test_one_operand_and_scalars(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    for x in views(values(table, shape, 3, tame=True)):
        a = make(x, table)
        for found, expected in (
            (-a, -x),
            (xp.square(a), np.square(x)),
            (xp.sign(a), np.sign(x)),
            (a + 3, x + 3),
            (3 - a, 3 - x),
        ):
            if x.dtype.kind == "c":  # NumPy's depend on the layout
                np.testing.assert_allclose(found.unwrap(), expected, rtol=1e-6)
            else:
                assert_same_bits(found.unwrap(), expected)
                assert found.unwrap().strides == expected.strides


#: Of float32 more than 32 MiB with their results, so that these are written past the caches.
@compiled
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(2103, 2111), (900_000, 5), (3, 1_500_001), (150, 150, 203)])
def test_what_fits_no_cache(shape: tuple[int, ...], dtype: str) -> None:
    shape = as_many_bytes(shape, dtype)
    x, y = (np.random.default_rng(seed).random(shape).astype(dtype) for seed in (1, 2))
    for left, right in ((x, np.asfortranarray(y)), (x[:, ::2], y[:, ::2]), (x, y[:, :1].copy("F"))):
        a, b = xp.asarray(left), xp.asarray(right)
        for _ in range(3):  # the last in several threads, where these are
            np.testing.assert_array_equal((a - b).unwrap(), left - right)
            np.testing.assert_array_equal((a < b).unwrap(), left < right)
            np.testing.assert_array_equal(xp.sqrt(b).unwrap(), np.sqrt(right))
            np.testing.assert_array_equal((2 * b).unwrap(), 2 * right)


@compiled
@pytest.mark.parametrize("size", [4, 300])
def test_the_short_way_is_taken(size: int) -> None:
    x = np.arange(4.0 * size * size).reshape(2 * size, 2 * size)
    table = without_entries("float64", "add", "negative")
    a = make(x, table)
    for part, other in ((x[:, 1:], x[:, :-1]), (x.T, x), (x[::2], x[:1]), (x, x[:, :1].copy("F"))):
        found = make(part, table) + make(other, table)
        assert_same_bits(found.unwrap(), part + other)
    assert_same_bits((-a.mT).unwrap(), -x.T)
    assert_same_bits((a[:, ::-2] + 1.0).unwrap(), x[:, ::-2] + 1)


@pytest.mark.parametrize("size", [6, 400])
def test_a_warning_comes_once_and_an_error_raises(size: int) -> None:
    x = np.ones((size, size))
    x[-1, -1] = 0
    a = xp.asarray(x[:, 1:])
    for wish in ("ignore", "warn", "raise"):
        with np.errstate(divide=wish):
            for _ in range(2):
                if wish == "raise":
                    with pytest.raises(FloatingPointError, match="divide by zero"):
                        _ = 1.0 / a
                    continue
                found, warned = told(lambda: 1.0 / a)
                assert len(warned) == (wish == "warn")
                assert found.unwrap()[-1, -1] == np.inf


@compiled
def test_a_route_that_begins_early_is_taken() -> None:
    asked = []

    def gate(x: Any, y: Any) -> Any:
        asked.append(x.shape)
        return x + y

    vars(gate).update(least=1000, leasts={"": 1000, "spread": 1000})
    table = Table(NUMPY, CPU, _dtypes.float64)
    table["add"] = (gate, table)
    table.settle("add", gate, table, NUMPY.loop("add"))
    x = make(np.ones((400, 100)), table)
    found = x[:, ::2] + x[:, ::2]
    np.testing.assert_array_equal(found.unwrap(), np.full((400, 50), 2.0))
    assert asked == [(400, 50)]


@pytest.mark.parametrize("dtype", ["int16", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 5), (200, 300), (5, 9000), (1500, 2000)])
def test_outer_products(shape: tuple[int, int], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x, y = (values(table, (size,), seed, tame=True) for seed, size in enumerate(shape))
    for _ in range(2):
        found = xp.linalg.outer(make(x, table), make(y, table)).unwrap()
        assert_same_bits(found, np.multiply.outer(x, y))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["bool", "int16", "int32", "float64", "complex128"])
def test_choices(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x, y = (values(table, shape, seed, tame=True) for seed in (1, 2))
    flags = np.random.default_rng(3).random(shape) < 0.5
    beside = x[tuple(0 for _ in shape)]
    for which in (*views(flags), flags[..., 0], np.asarray(True), flags.reshape(-1)[:1]):
        chooses = xp.asarray(which)
        for left in views(x):
            for right in (y, y[..., ::-1], np.asfortranarray(y), y[-1:], y[..., :1], beside):
                try:
                    wanted = np.where(which, left, right)
                except ValueError:
                    continue
                found = xp.where(chooses, make(left, table), make(np.asarray(right), table))
                assert_same_bits(found.unwrap(), wanted)
                found = xp.where(chooses, make(np.asarray(right), table), make(left, table))
                assert_same_bits(found.unwrap(), np.where(which, right, left))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float64"])
def test_bounds(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x, low, high = (values(table, shape, seed, tame=False) for seed in (1, 2, 3))
    with np.errstate(invalid="ignore"):
        low, high = np.minimum(low, high), np.maximum(low, high)
    one = 3
    for part in views(x):
        a = make(part, table)
        for least in (low, low[..., ::-1], np.asfortranarray(low), low[:1], one, None):
            for most in (high, high[::-1], high[..., :1], one, None):
                if least is None and most is None:
                    continue
                given = [
                    make(bound, table) if isinstance(bound, np.ndarray) else bound
                    for bound in (least, most)
                ]
                wanted = np.clip(part, least, most)
                found = xp.clip(a, *given)
                np.testing.assert_array_equal(found.unwrap(), wanted)
                assert found.unwrap().dtype == wanted.dtype


@compiled
def test_choices_and_bounds_take_the_short_way() -> None:
    table = without_entries("float64", "clip", "where")
    x = np.random.default_rng(0).random((300, 400))
    rows, flags = x[:1] + 0.1, x[:, :1] < 0.5
    for part in (x, x[:, ::-1], np.asfortranarray(x)):
        a, b = make(part, table), make(rows, table)
        which = make(flags, table.sibling(_dtypes.bool))
        assert_same_bits(xp.where(which, a, b).unwrap(), np.where(flags, part, rows))
        assert_same_bits(xp.clip(a, b, 0.9).unwrap(), np.clip(part, rows, 0.9))
        assert_same_bits(xp.clip(a, max=b).unwrap(), np.clip(part, None, rows))


@pytest.mark.parametrize("size", [5, 3000])
def test_shapes_that_do_not_fit(size: int) -> None:
    x = xp.ones((2, size))
    with pytest.raises(ValueError, match=r"clip.*shape"):
        xp.clip(x, xp.zeros(3), 2.0)
    with pytest.raises(ValueError, match=r"clip.*shape"):
        xp.clip(x, max=xp.zeros(3))
    with pytest.raises(ValueError, match=r"where.*shape"):
        xp.where(x > 0, x, xp.zeros(3))
