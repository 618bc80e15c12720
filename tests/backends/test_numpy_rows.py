"""Sums, products and counts of long rows, by compiled loops where there are any."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import corepy
import corepy.array_api as xp
from corepy._extensions import extension
from corepy.backends._numpy_rows import ROW_LOOPS, reduced
from tests.backends.arrays import numpys, unaligned
from tests.dispatch.natives import outcome

Array = npt.NDArray[Any]

FLOATS: Final = ("float32", "float64")

floats: Final = pytest.mark.parametrize("dtype", FLOATS)


def entry(name: str, x: Array, **params: Any) -> Array:
    return np.asarray(numpys(name, x, **{"axis": None, "keepdims": False, **params}))


def sample(dtype: str, *shape: int) -> Array:
    """Numbers of very different sizes, and of both signs."""
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) * np.exp(3 * rng.standard_normal(shape))).astype(dtype)


def _of(dtype: str, loops: Any) -> list[tuple[str, Any]]:
    return [(name, addresses) for name, addresses in loops.items() if dtype in addresses]


@floats
def test_all_lengths_and_places_in_memory(dtype: str) -> None:
    whole = np.random.default_rng(0).integers(-100, 100, 4000).astype(dtype)
    for length in (*range(2047, 2200), 3071, 3072, 3073, 3999):
        for first in (0, 1):
            x = whole[first : first + length]
            assert entry("sum", x) == int(x.astype(np.int64).sum())
            assert entry("count_nonzero", x) == np.count_nonzero(x.astype(np.int64))
    for length in range(125, 330):
        x = np.random.default_rng(length).integers(-100, 100, (20, length)).astype(dtype)
        expected = x.astype(np.int64).sum(1)
        assert entry("sum", x, axis=(1,)).tolist() == expected.tolist()
        assert entry("mean", x, axis=(1,)).tolist() == (expected / length).astype(dtype).tolist()


@floats
@pytest.mark.parametrize("shape", [(2048,), (5003,), (300_001,), (7, 300), (3, 50, 129), (2, 9001)])
def test_sums_are_right(dtype: str, shape: tuple[int, ...]) -> None:
    x = sample(dtype, *shape)
    unit = float(np.finfo(dtype).eps)
    for axis, rows in ((None, x.reshape(1, -1)), ((x.ndim - 1,), x.reshape(-1, shape[-1]))):
        exact = np.array([math.fsum(row.tolist()) for row in rows])
        sizes = np.array([math.fsum(np.abs(row).tolist()) for row in rows])
        found = entry("sum", x, axis=axis)
        assert found.dtype == dtype
        assert np.all(np.abs(found.reshape(-1) - exact) <= 2 * unit * sizes)
        means = entry("mean", x, axis=axis).reshape(-1)
        assert np.all(np.abs(means - exact / rows.shape[1]) <= 2 * unit * sizes / rows.shape[1])
        wide = rows.astype(np.longdouble)
        variances = entry("var", x, axis=axis, correction=0.0).reshape(-1)
        assert np.allclose(variances, wide.var(1).astype(float), rtol=8 * unit, atol=0)


@pytest.mark.parametrize("shape", [(65_536,), (300_001,), (700, 300), (3, 500, 129)])
def test_sums_in_double_precision_are_those_of_doubles(shape: tuple[int, ...]) -> None:
    x = sample("float32", *shape)
    for axis in (None, (x.ndim - 1,), tuple(range(x.ndim))):
        for keepdims in (False, True):
            params: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
            found = entry("sum", x, dtype=np.dtype("float64"), **params)
            wide = entry("sum", x.astype("float64"), **params)
            if ROW_LOOPS:
                np.testing.assert_array_equal(found, wide, strict=True)
            np.testing.assert_allclose(found, wide, rtol=1e-9)
            assert found.dtype == np.float64
    x.flat[0] = np.inf
    assert entry("sum", x, dtype=np.dtype("float64")) == np.inf


@floats
def test_a_long_row_loses_no_more_than_a_short_one(dtype: str) -> None:
    x = np.full(3_000_001, 0.1, dtype)
    exact = math.fsum(x.tolist())
    # What its parts of 1,024 lose, which all round alike here.
    assert abs(float(entry("sum", x)) - exact) <= 4 * float(np.finfo(dtype).eps) * exact


@floats
def test_registers_of_all_widths_find_the_same_bits(dtype: str) -> None:
    module = extension("corepy.backends._row_loops")[0]
    by_width = module.BY_WIDTH if module is not None else {}
    assert sorted(by_width)[:1] in ([], [16])
    for length in (*range(1, 300), 1000, 1023, 1024, 1025, 2047, 2048, 4113, 100_003):
        x = sample(dtype, length)
        x[::5] = 0
        near = np.exp(sample("float64", length) / 1e6).astype(dtype)
        found: dict[str, set[bytes]] = {"sum": set(), "prod": set(), "count_nonzero": set()}
        for loops in by_width.values():
            for name, addresses in _of(dtype, loops):
                row, into = near if name == "prod" else x, np.empty(1)
                call = addresses[dtype], row.ctypes.data, row.nbytes, length, False, into
                assert module.reduce(*call)
                found.setdefault(name, set()).add(into.tobytes())
        assert len(found["sum"]) == len(found["prod"]) == bool(by_width)
        assert all(len(bits) <= 1 for bits in found.values())
        assert found["count_nonzero"] <= {np.float64(np.count_nonzero(x)).tobytes()}


@floats
def test_chunks_are_joined_to_what_the_whole_comes_to(dtype: str) -> None:
    module = extension("corepy.backends._row_loops")[0]
    loops = module.LOOPS if module is not None else {}
    for length in (32_769, 65_536, 200_003):
        x = np.exp(sample("float64", length) / 1e6).astype(dtype)
        for name, addresses in _of(dtype, loops):
            firsts = range(0, length, module.CHUNK)
            parts, whole = np.empty(len(firsts)), np.empty(1)
            for i, first in enumerate(firsts):
                chunk = x[first : first + module.CHUNK]
                call = addresses[dtype], chunk.ctypes.data, chunk.nbytes, chunk.size, False
                assert module.reduce(*call, parts[i : i + 1])
            assert module.reduce(addresses[dtype], x.ctypes.data, x.nbytes, length, False, whole)
            assert module.join(module.JOINS[name], parts) == whole[0]


@floats
def test_axes(dtype: str) -> None:
    x = np.random.default_rng(5).uniform(0.97, 1.03, (3, 40, 130)).astype(dtype)
    for values in (x, x[0, 0], x.reshape(-1), x.reshape(1, -1), x.reshape(-1, 1)):
        some = [None, (), *((axis,) for axis in range(values.ndim))]
        some += [(1, 2), (2, 1), (0, 1, 2), (0, 2)] if values.ndim == 3 else []
        for axis in some:
            for keepdims in (False, True):
                for name in ("sum", "prod", "mean", "var", "count_nonzero"):
                    found = entry(name, values, axis=axis, keepdims=keepdims)
                    wanted = getattr(np, name)(values, axis=axis, keepdims=keepdims)
                    assert found.shape == np.shape(wanted)
                    np.testing.assert_allclose(found, wanted, rtol=500 * np.finfo(dtype).eps)
                    with corepy.set_routes("off"):
                        made = getattr(xp, name)(xp.asarray(values), axis=axis, keepdims=keepdims)
                    assert np.asarray(made).tobytes() == found.tobytes()


@floats
def test_special_values_and_warnings_are_numpys(dtype: str) -> None:
    plain = np.ones(5000, dtype)
    huge = np.finfo(dtype).max
    for places in (
        {7: np.inf},
        {4321: -np.inf},
        {7: np.nan},
        {7: np.inf, 4999: -np.inf},
        {7: huge, 8: huge},
        {7: huge, 71: huge, 4000: -huge, 4999: -huge},
    ):
        x = plain.copy()
        x[list(places)] = list(places.values())
        for params in ({"axis": None}, {"axis": (0,)}, {"axis": None, "keepdims": True}):
            found = outcome(lambda: entry("sum", x, **params))  # noqa: B023
            assert found == outcome(lambda: np.sum(x, **params))  # noqa: B023
    for x in (np.full(5000, -0.0, dtype), np.zeros(5000, dtype)):
        assert entry("sum", x).tobytes() == np.sum(x).tobytes()


@floats
@pytest.mark.needs("mpmath")
@pytest.mark.parametrize("shape", [(2048,), (5003,), (300_001,), (7, 300), (2, 40_001)])
def test_products_are_right(dtype: str, shape: tuple[int, ...]) -> None:
    import mpmath

    x = np.exp(sample("float64", *shape) / 1e5).astype(dtype)
    x.reshape(-1)[::7] *= -1
    for axis, rows in ((None, x.reshape(1, -1)), ((x.ndim - 1,), x.reshape(-1, shape[-1]))):
        found = entry("prod", x, axis=axis).reshape(-1)
        assert found.dtype == dtype
        with mpmath.workprec(200):
            exact = [mpmath.fprod(map(mpmath.mpf, row.tolist())) for row in rows]
            # In float64, each product rounded once; of float32 the last one again.
            bound = rows.shape[1] * 2.0**-53 + float(np.finfo(dtype).eps)
            for value, right in zip(found.tolist(), exact, strict=True):
                assert abs(value - right) <= bound * abs(right)


@floats
def test_products_that_leave_the_range_are_numpys(dtype: str) -> None:
    huge, tiny = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    plain = np.ones(70_001, dtype)
    for places in (
        {7: np.inf},
        {4321: np.nan},
        {7: np.inf, 4999: 0.0},
        {7: 0.0, 60_000: np.inf},
        {7: -0.0},
        {9: 0.0, 12: np.nan},
        dict.fromkeys(range(0, 64_000, 1000), huge),
        dict.fromkeys(range(0, 64_000, 1000), tiny),
        {3: tiny},
        {3: tiny, 40_000: -huge},
    ):
        x = plain.copy()
        x[list(places)] = list(places.values())
        wanted = outcome(lambda: np.prod(x))  # noqa: B023
        assert outcome(lambda: entry("prod", x)) == wanted  # noqa: B023
        with corepy.set_routes("off"):
            assert outcome(lambda: xp.prod(xp.asarray(x))) == wanted  # noqa: B023


def test_counts_of_integers() -> None:
    for dtype in ("int64", "uint64", "int32", "bool"):
        x = np.random.default_rng(4).integers(0, 3, 70_001).astype(dtype)
        assert entry("count_nonzero", x) == (x != 0).sum()
        assert int(xp.count_nonzero(xp.asarray(x))) == (x != 0).sum()


@floats
def test_counts(dtype: str) -> None:
    x = np.random.default_rng(3).standard_normal(70_001).astype(dtype)
    x[::3], x[1::7], x[2::11], x[5::13] = 0.0, -0.0, np.nan, np.inf
    x[4::17] = np.finfo(dtype).smallest_subnormal
    assert entry("count_nonzero", x) == np.count_nonzero(x)
    assert entry("count_nonzero", x).dtype == np.intp
    rows = x[:70_000].reshape(70, -1)
    for keepdims in (False, True):
        found = entry("count_nonzero", rows, axis=(1,), keepdims=keepdims)
        assert found.tolist() == np.count_nonzero(rows, axis=1, keepdims=keepdims).tolist()


@floats
def test_all_ways_find_the_same_bits(dtype: str) -> None:
    x = np.exp(sample(dtype, 30, 5001) / 1e4).astype(dtype)  # of which no product leaves the range
    made = xp.asarray(x)
    with corepy.set_routes("off"):
        for function in (xp.sum, xp.prod, xp.mean, xp.var, xp.std):
            for axis in (None, -1):
                bits = np.asarray(function(made, axis=axis)).tobytes()
                kept = function(made, axis=axis, keepdims=True)
                assert np.asarray(kept).tobytes() == bits
                seen = []
                corepy.explain(lambda: seen.append(function(made, axis=axis)))  # noqa: B023
                assert np.asarray(seen[0]).tobytes() == bits


def test_what_is_left_to_numpy() -> None:
    x = sample("float64", 40, 200)
    for operand, axis in (
        (x, (0,)),
        (x[:, ::2], None),
        (x.T, None),
        (x[:1], None),  # a few
        (x.reshape(-1, 100), (1,)),  # short rows
        (x.astype(np.int64), None),
        (x.astype(np.complex128), None),
        (x.astype(np.float16), None),
        (x[:0], None),
        (unaligned(x), None),
    ):
        assert reduced("sum", operand, axis, keepdims=False) is None
    assert reduced("max", x, None, keepdims=False) is None
    for keepdims, shapes in ((False, ((), (40,))), (True, ((1, 1), (40, 1)))):
        for axis, shape in zip((None, (1,)), shapes, strict=True):
            found = reduced("sum", x, axis, keepdims)
            assert found is None if not ROW_LOOPS else found.shape == shape  # type: ignore[union-attr]
