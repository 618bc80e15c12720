"""The Numba backend: its loops against NumPy, exact values and special cases, on every layout.

Small arrays run in NumPy there; `run` brings loops to all sizes.
"""

from __future__ import annotations

import gc
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import corepy.array_api as xp
from corepy.devices._device import CPU
from tests.conftest import required

numba = required("numba")

from corepy.backends.numba import NumbaBackend, _elementwise, _matrices  # noqa: E402
from tests.backends.arrays import numpys  # noqa: E402
from tests.backends.numbas import (  # noqa: E402
    FLOATS,
    SHAPES,
    Array,
    assert_same,
    axes,
    layouts,
    quiet,
    run,
    sample,
    specials,
)

PREFERRED = "numba"


# ---------------------------------------------------------------------------- layouts


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_extremes_equal_numpys(shape: tuple[int, ...], dtype: str, ran: Counter[str]) -> None:
    for x in layouts(sample(shape, dtype)):
        for axis in axes(x):
            for keepdims in (False, True):
                params = {"axis": axis, "keepdims": keepdims}
                for name in ("max", "min"):
                    assert_same(run(name, x, **params), numpys(name, x, **params))
                if not isinstance(axis, tuple):
                    for name in ("argmax", "argmin"):
                        assert_same(run(name, x, **params), numpys(name, x, **params))
    assert ran["max"] == ran["min"] > 0
    assert ran["argmax"] == ran["argmin"] > 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize("shape", [(1100, 7, 20), (3, 1100, 33), (5, 30, 1300), (40_000, 1)])
def test_reductions_in_parts_equal_numpys(
    shape: tuple[int, ...], dtype: str, ran: Counter[str]
) -> None:
    rng = np.random.default_rng(6)
    x = (rng.integers(0, 255, shape) - (100 if dtype != "uint8" else 0)).astype(dtype)
    calls = 0
    for values in (x, np.asfortranarray(x)):
        for axis in [*((each,) for each in range(x.ndim)), (0, 1)]:
            params = {"axis": axis, "keepdims": axis == (0,)}
            for name in ("max", "min"):
                assert_same(run(name, values, **params), numpys(name, values, **params))
            if dtype == "int64":
                params["dtype"] = values.dtype
                assert_same(run("sum", values, **params), numpys("sum", values, **params))
            calls += 1
    assert ran["max"] == ran["min"] == calls


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("row", [0, 1, 3, 511, 512, 1027, 1029])
def test_one_nan_in_a_column_is_its_extreme(dtype: str, row: int, ran: Counter[str]) -> None:
    x = np.ones((1030, 600), dtype)
    x[row, [0, 599]] = np.nan
    for name in ("max", "min"):
        found = run(name, x, axis=(0,), keepdims=False)
        assert np.flatnonzero(np.isnan(found)).tolist() == [0, 599]
        assert np.nansum(found) == 598
    assert ran == {"max": 1, "min": 1}


@pytest.mark.parametrize("dtype", ["int64", "uint8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_integers_accumulate_like_numpy(
    shape: tuple[int, ...], dtype: str, ran: Counter[str]
) -> None:
    wide = np.dtype("uint64" if dtype == "uint8" else "int64")
    for x in layouts(sample(shape, dtype)):
        for axis in axes(x):
            for name in ("sum", "prod"):
                params = {"axis": axis, "dtype": wide, "keepdims": False}
                assert_same(run(name, x, **params), numpys(name, x, **params))
    assert ran["sum"] or shape == (2500,)  # NumPy sums long rows of integers as fast
    assert ran["prod"]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_floats_accumulate_in_float64(
    shape: tuple[int, ...], dtype: str, ran: Counter[str]
) -> None:
    tolerance = {"rtol": 4 * np.finfo(dtype).eps, "atol": 100 * np.finfo(dtype).eps}
    for x in layouts(sample(shape, dtype)):
        exact = x.astype(np.longdouble)
        for axis in axes(x):
            over = {"axis": axis, "keepdims": True}
            cases = {
                "sum": ({"dtype": np.dtype(dtype)}, exact.sum(**over)),
                "mean": ({}, exact.mean(**over)),
                "var": ({"correction": 0.5}, exact.var(ddof=0.5, **over)),
                "std": ({"correction": 0}, exact.std(**over)),
            }
            for name, (params, expected) in cases.items():
                found = run(name, x, **over, **params)
                assert found.dtype == dtype
                scale = max(1.0, float(abs(exact).sum()) ** 0.5)
                np.testing.assert_allclose(
                    found, expected, rtol=tolerance["rtol"], atol=tolerance["atol"] * scale
                )
    assert ran["sum"] == ran["mean"] > 0
    assert ran["var"] == ran["std"] >= ran["sum"]


@quiet
@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_running_totals(
    shape: tuple[int, ...], dtype: str, initial: bool, ran: Counter[str]
) -> None:
    for x in layouts(sample(shape, dtype)):
        for axis in range(x.ndim):
            params = {"axis": axis, "dtype": np.dtype(dtype), "include_initial": initial}
            sums = run("cumulative_sum", x, **params)
            wide = numpys("cumulative_sum", x.astype(np.float64), **params | {"dtype": np.float64})
            assert sums.dtype == dtype
            # With gaps, NumPy runs it, which rounds each sum to float32.
            whole = x.flags.c_contiguous or x.flags.f_contiguous
            atol = 1e-11 if whole or dtype == "float64" else 1e-2
            np.testing.assert_allclose(sums, wide, rtol=np.finfo(dtype).eps, atol=atol)
            # Products go one by one, so that they equal NumPy's to the last bit.
            found = run("cumulative_prod", x, **params)
            assert_same(found, numpys("cumulative_prod", x, **params))
    assert ran["cumulative_sum"] == ran["cumulative_prod"] > 0


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), *SHAPES])
def test_elementwise_equal_numpys(shape: tuple[int, ...], dtype: str, ran: Counter[str]) -> None:
    whole = sample(shape, dtype)
    for x in layouts(whole) if shape else [whole]:
        other = np.where(x > 3, x, x.dtype.type(-0.3))
        assert_same(run("sign", x), numpys("sign", x))
        assert_same(np.asarray(run("sqrt", abs(x))), numpys("sqrt", abs(x)))
        for pair in [(x, other), (x, x.dtype.type(7)), (x.dtype.type(-7), other)]:
            for name in ("floor_divide", "remainder"):
                assert_same(np.asarray(run(name, *pair)), numpys(name, *pair))
    assert ran["sign"]
    assert ran["sqrt"]
    assert ran["floor_divide"] == ran["remainder"] > 0


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "float32", "float64", "complex64", "complex128"]
)
@pytest.mark.parametrize("shape", [(), *SHAPES])
def test_selections_equal_numpys(shape: tuple[int, ...], dtype: str, ran: Counter[str]) -> None:
    whole = np.asarray(sample(shape, "float64") + 30).astype(dtype)
    for x in layouts(whole) if shape else [whole]:
        mask = np.asarray(x.real.astype(np.float64) > 25)
        for yes, no in [(x, x[::-1] if shape else x), (x, x.dtype.type(1)), (x.dtype.type(0), x)]:
            assert_same(run("where", mask, yes, no), numpys("where", mask, yes, no))
        for key in (mask, ~mask, mask | True, mask & False):
            assert_same(run("__getitem__", x, key), x[key])
    assert ran["where"]
    assert ran["__getitem__"] or not shape


def test_where_spreads_a_single_condition(ran: Counter[str]) -> None:
    x, y = np.arange(2000.0), np.zeros(2000)
    assert_same(run("where", np.array(True), x, y), x)
    assert_same(run("where", np.array([[False]]), x, y), y.reshape(1, -1))
    assert ran["where"] == 1  # the second one has more dimensions than x: NumPy broadcasts it


def test_moved_values_keep_every_bit(ran: Counter[str]) -> None:
    nans = np.array([0x7FC00001, 0xFFC12345, 0x80000000], np.uint32).view(np.float32)
    mask = np.array([True, False, True])
    found = run("where", mask, nans, nans[::-1].copy())
    np.testing.assert_array_equal(found.view(np.uint32), nans.view(np.uint32)[[0, 1, 2]])
    np.testing.assert_array_equal(
        run("__getitem__", nans, mask).view(np.uint32), nans.view(np.uint32)[[0, 2]]
    )
    assert ran == {"where": 1, "__getitem__": 1}


def test_operands_that_no_kernel_takes(ran: Counter[str]) -> None:
    x = sample((6, 8), "float64")
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.float64, offset=1)
    assert not unaligned.flags.aligned
    over = {"axis": None, "keepdims": False}
    assert run("max", unaligned, **over) == x.max()
    assert run("max", x[:, ::2], **over) == x[:, ::2].max()
    assert_same(run("sum", x, axis=(), dtype=x.dtype, keepdims=False), x)
    assert_same(run("remainder", x, x[0] + 100), numpys("remainder", x, x[0] + 100))
    mixed = run("floor_divide", x, np.float32(3))
    assert_same(mixed, np.floor(x / 3))
    assert not ran


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_nothing_accumulates_to_the_neutral_element(name: str) -> None:
    x = np.empty((3, 0))
    found = run(name, x, axis=1, dtype=x.dtype, keepdims=False)
    assert_same(found, np.full(3, 0.0 if name == "sum" else 1.0))


# ---------------------------------------------------------------------------- special values


@quiet
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_divisions_of_special_values(name: str, dtype: str, ran: Counter[str]) -> None:
    first, second = specials(dtype)
    assert_same(run(name, first, second), numpys(name, first, second))
    # One pair to a call: the fast way is taken wherever it can be.
    for a, b in zip(first.ravel(), second.ravel(), strict=True):
        found = run(name, np.array([a]), np.array([b]))
        assert_same(found, numpys(name, np.array([a]), np.array([b])))
    assert ran


@pytest.mark.parametrize("dtype", FLOATS)
def test_quotients_that_round_up_to_an_integer(dtype: str, ran: Counter[str]) -> None:
    rng = np.random.default_rng(3)
    divisor = (rng.integers(1, 99, 3000) * 0.1 * rng.choice([-1, 1], 3000)).astype(dtype)
    close = (rng.integers(-5000, 5000, 3000) * divisor).astype(dtype)
    close = np.nextafter(close, rng.choice([-np.inf, np.inf], 3000).astype(dtype))
    exact = [
        math.floor(Fraction(float(a)) / Fraction(float(b)))
        for a, b in zip(close, divisor, strict=True)
    ]
    naive = np.floor(close / divisor)
    assert np.count_nonzero(naive != np.array(exact, dtype)) > 50  # the test has teeth
    np.testing.assert_array_equal(run("floor_divide", close, divisor), np.array(exact, dtype))
    rest = [
        float(Fraction(float(a)) - q * Fraction(float(b)))
        for a, b, q in zip(close, divisor, exact, strict=True)
    ]
    np.testing.assert_array_equal(run("remainder", close, divisor), np.array(rest, dtype))
    assert ran == {"floor_divide": 1, "remainder": 1}


@quiet
def test_blocks_with_special_values_are_done_again(ran: Counter[str]) -> None:
    x = np.linspace(-1000, 1000, 5000)
    x[[1500, 2500, 4999]] = [np.inf, np.nan, 1e300]
    for name in ("floor_divide", "remainder"):
        assert_same(run(name, x, np.float64(0.7)), numpys(name, x, np.float64(0.7)))
        assert_same(run(name, np.float64(0.7), x), numpys(name, np.float64(0.7), x))
    assert _elementwise.runs(np.array([True, True, False, True])) == [(0, 2), (3, 4)]
    assert ran == {"floor_divide": 2, "remainder": 2}


@pytest.mark.parametrize("name", ["__ifloordiv__", "__imod__"])
def test_divisions_in_place(name: str, ran: Counter[str]) -> None:
    x = sample((5, 300), "float64")
    expected = numpys("floor_divide" if name == "__ifloordiv__" else "remainder", x, np.float64(3))
    same = run(name, x, np.float64(3))
    assert same is x
    assert_same(x, expected)
    assert ran


def test_integer_division_by_zero_still_raises() -> None:
    with pytest.raises(ZeroDivisionError, match="floor_divide: x2 holds 0"):
        xp.asarray([1, 2]) // xp.asarray([1, 0])


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("place", [0, 40, 99])
@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_are_nan_where_one_is(
    dtype: str, place: int, sign: float, ran: Counter[str]
) -> None:
    x = np.tile(sample((100,), dtype), (3, 1))
    x[1, place] = np.copysign(np.nan, sign)
    x[2, 5:7] = [np.inf, -np.inf]
    for name, infinity in (("max", np.inf), ("min", -np.inf)):
        found = run(name, x, axis=1, keepdims=False)
        assert np.isnan(found).tolist() == [False, True, False]
        assert found[0] == getattr(x[0], name)()
        assert found[2] == infinity
        where = run(f"arg{name}", x.T.copy(), axis=0, keepdims=False)
        assert where.tolist() == [getattr(x[0], f"arg{name}")(), place, 5 if name == "max" else 6]
    assert ran == dict.fromkeys(("max", "min", "argmax", "argmin"), 1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_are_ordered_by_their_signs(dtype: str, ran: Counter[str]) -> None:
    x = np.array([[0.0, -0.0], [-0.0, 0.0]], dtype)
    assert np.signbit(run("max", x, axis=1, keepdims=False)).tolist() == [False, False]
    assert np.signbit(run("min", x, axis=1, keepdims=False)).tolist() == [True, True]
    assert ran == {"max": 1, "min": 1}


@quiet
@pytest.mark.parametrize("dtype", FLOATS)
def test_roots_and_signs_of_special_values(dtype: str, ran: Counter[str]) -> None:
    x, _ = specials(dtype)
    for name in ("sqrt", "sign"):
        assert_same(run(name, x), numpys(name, x))
    assert ran == {"sqrt": 1, "sign": 1}


def test_infinities_add_up_to_nan_only_with_their_opposite(ran: Counter[str]) -> None:
    x = np.ones((3, 1000))
    x[0, 3], x[1, [5, 700]], x[2, 999] = np.inf, [np.inf, -np.inf], np.nan
    found = run("sum", x, axis=1, dtype=x.dtype, keepdims=False)
    assert_same(found, np.array([np.inf, np.nan, np.nan]))
    sums = run("cumulative_sum", np.array([-0.0, np.inf, -np.inf]), axis=0, dtype=x.dtype,
               include_initial=False)  # fmt: skip
    assert_same(sums, np.array([-0.0, np.inf, np.nan]))
    assert np.isnan(run("var", x[0], axis=None, correction=0, keepdims=False))
    assert ran == {"sum": 1, "cumulative_sum": 1, "var": 1}


@pytest.mark.parametrize("correction", [3, 4])
def test_no_degree_of_freedom_is_left(correction: int, ran: Counter[str]) -> None:
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        found = run("var", np.ones(3), axis=None, correction=correction, keepdims=False)
    assert np.isnan(found)
    assert not ran


def test_running_products_keep_their_order(ran: Counter[str]) -> None:
    x = np.tile([1e200, 1e-200], 500)  # in another order, 1e400 and 1e-400 would meet
    found = run("cumulative_prod", x, axis=0, dtype=x.dtype, include_initial=False)
    np.testing.assert_allclose(found[-1], 1)
    assert ran == {"cumulative_prod": 1}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 300, 70_000])
def test_products_of_floats(size: int, dtype: str, ran: Counter[str]) -> None:
    params = {"axis": None, "dtype": np.dtype(dtype), "keepdims": False}
    rng = np.random.default_rng(size)
    x = (rng.choice([-1.0, 1.0], size) * np.exp(rng.standard_normal(size) * 0.01)).astype(dtype)
    exact = np.multiply.reduce(x.astype(np.longdouble))
    tolerance = 1e-12 if dtype == "float64" else 2e-7
    found = run("prod", x, **params)
    assert found.dtype == dtype
    np.testing.assert_allclose(float(found), float(exact), rtol=tolerance)
    # Partial products beyond all exponents, in any order.
    limits = np.finfo(dtype)
    wild = np.concatenate([np.full(4, limits.max), x, np.full(4, 1 / limits.max * 4), x[:0]])
    wild = wild.astype(dtype)
    expected = float(exact) * 4**4
    np.testing.assert_allclose(float(run("prod", wild, **params)), expected, rtol=10 * tolerance)
    assert ran["prod"] == 1 + (1 / limits.max * 4 >= limits.tiny)
    large = np.full(400, 1e30, dtype)
    assert run("prod", large, **params) == np.inf
    assert run("prod", -large[1:], **params) == -np.inf
    assert run("prod", 1 / large, **params) == 0


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e-40])
def test_products_with_special_values_are_numpys(value: float, dtype: str) -> None:
    x = np.full((3, 500), -1.0, dtype)
    x[1, 77] = value
    params = {"axis": 1, "dtype": x.dtype, "keepdims": False}
    found, expected = run("prod", x, **params), numpys("prod", x, **params)
    assert_same(found, expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("size", [32_768, 40_000, 36_864])
def test_running_sums_of_long_vectors(
    size: int, initial: bool, dtype: str, ran: Counter[str]
) -> None:
    x = sample((2, size), dtype)
    params = {"axis": 1, "dtype": x.dtype, "include_initial": initial}
    exact = np.add.accumulate(x.astype(np.longdouble), axis=1)
    found = run("cumulative_sum", x, **params)
    assert found.shape == (2, size + initial)
    assert (found[:, :initial] == 0).all()
    rtol, atol = np.finfo(dtype).eps, 1e-9
    np.testing.assert_allclose(found[:, initial:], exact.astype(dtype), rtol=rtol, atol=atol)
    x[0, 20_000:20_002], x[1, 5000] = [np.inf, -np.inf], np.nan
    found = run("cumulative_sum", x, **params)[:, initial:]
    np.testing.assert_array_equal(np.isnan(found[0]), np.arange(size) > 20_000)
    np.testing.assert_array_equal(np.isnan(found[1]), np.arange(size) >= 5000)
    assert found[0, 20_000] == np.inf
    # A segment whose sum overflows alone, but not with what went before.
    x = np.zeros(size, dtype)
    x[0], x[9000:9002] = -np.finfo(dtype).max, np.finfo(dtype).max * 0.9
    params["axis"] = 0
    found = run("cumulative_sum", x, **params)
    np.testing.assert_allclose(found[-1], np.finfo(dtype).max * 0.8, rtol=1e-6)
    x[:] = -0.0
    assert np.signbit(run("cumulative_sum", x, **params)[initial:]).all()
    assert ran["cumulative_sum"] == 4


# ---------------------------------------------------------------------------- accuracy


def test_float64_sums_are_more_accurate_than_numpys() -> None:
    rng = np.random.default_rng(11)
    ours, numpys_ = [], []
    for _ in range(40):
        x = rng.random(200_000)
        exact = math.fsum(x)
        ours.append(abs(float(run("sum", x, axis=None, dtype=x.dtype, keepdims=False)) - exact))
        numpys_.append(abs(float(np.add.reduce(x)) - exact))
        assert ours[-1] <= 2.0**-52 * exact  # one unit in the last place at most
    assert sum(ours) < 0.5 * sum(numpys_)


def test_float32_sums_are_rounded_once() -> None:
    x = (np.random.default_rng(5).random(300_000) + 0.1).astype(np.float32)
    exact = math.fsum(x.tolist())
    total = run("sum", x, axis=None, dtype=x.dtype, keepdims=False)
    mean = run("mean", x, axis=None, keepdims=False)
    assert total == np.float32(exact)
    assert mean == np.float32(exact / x.size)


def test_sums_of_float32_do_not_overflow_on_the_way() -> None:
    x = np.tile(np.array([3e38, 3e38, -3e38, -3e38], np.float32), 10_000)
    assert run("sum", x, axis=None, dtype=x.dtype, keepdims=False) == 0
    assert run("mean", np.abs(x), axis=None, keepdims=False) == np.float32(3e38)


@pytest.mark.parametrize("axis", [0, 1])
def test_variance_far_from_zero(axis: int) -> None:
    rows = np.random.default_rng(2).integers(-5, 6, (400, 300)).astype(np.float64)
    exact = rows.var(axis=axis)
    found = run("var", rows + 1e9, axis=axis, correction=0, keepdims=False)
    np.testing.assert_allclose(found, exact, rtol=1e-7)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [(0, 2), (0, 2, 3), (1, 3), (0, 1, 3), (3, 0), (2, 0)])
def test_variance_along_axes_that_others_lie_between(
    axis: tuple[int, ...], dtype: str, ran: Counter[str]
) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (20, 3, 17, 40)).astype(dtype) + 1000
    for keepdims in (False, True):
        exact = x.astype(np.longdouble).var(axis=axis, ddof=1, keepdims=keepdims)
        for name, wanted in (("var", exact), ("std", np.sqrt(exact))):
            found = run(name, x, axis=axis, correction=1, keepdims=keepdims)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, wanted, rtol=4 * np.finfo(dtype).eps)
    assert ran["var"] == ran["std"] == 2


# ---------------------------------------------------------------------------- matrices


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "uint8"])
def test_counts_of_nonzero_equal_numpys(dtype: str, ran: Counter[str]) -> None:
    x = np.arange(70_000).reshape(70, 1000) % 3
    x = x.astype(dtype)
    if dtype in FLOATS:
        x[::7], x[3::11], x[5::13] = -0.0, np.nan, np.inf
    for values in (x, x.T, x[0], np.zeros_like(x)):
        for keepdims in (False, True):
            found = run("count_nonzero", values, axis=None, keepdims=keepdims)
            assert_same(found, np.asarray(np.count_nonzero(values, keepdims=keepdims)))
    assert ran["count_nonzero"] == 8


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "uint64", "int64"])
def test_integer_products_equal_numpys(
    dtype: str, ran: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_matrices, "_sums_are_exact", lambda x1, x2: False)
    rng = np.random.default_rng(4)
    limits = np.iinfo(dtype)

    def matrix(*shape: int) -> Array:
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)

    pairs = [
        (matrix(3, 4), matrix(4, 5)),
        (matrix(2, 300), matrix(300, 270)),  # several tiles, one beneath the other
        (matrix(131, 5), matrix(5, 16)),  # several strips, and rows that fill no tile
        (matrix(64, 5), matrix(5, 33)),
        (matrix(9, 600)[:, ::-1], matrix(17, 600).T),
        (matrix(6, 3).T, matrix(6, 2)),
        (matrix(5, 2, 3), matrix(5, 3, 4)),
        (matrix(2, 5, 2, 3), matrix(3, 4)),
        (matrix(2, 3), matrix(5, 3, 4)),
    ]
    for a, b in pairs:
        assert_same(run("matmul", a, b), a @ b)  # wrapped around alike
    assert ran["matmul"] == len(pairs)
    others = [(matrix(1, 2, 3), matrix(5, 3, 4)), (matrix(3), matrix(3, 4)), (matrix(3), matrix(3))]
    for a, b in others:
        assert_same(np.asarray(run("linalg.matmul", a, b)), np.asarray(a @ b))
    assert not ran["linalg.matmul"]


# ---------------------------------------------------------------------------- its arrays


@pytest.mark.backend("numba")
def test_memory_is_shared_both_ways() -> None:
    host = np.arange(24.0).reshape(2, 3, 4)
    for view in (host, host[:, ::-1, ::2], host[0, 0, 1:1], np.array(5.0)):
        array = xp.asarray(view, copy=False)
        assert array._table.backend.name == "numba"
        assert np.asarray(array).__array_interface__ == view.__array_interface__
        native = array.unwrap()
        assert native.ctypes.data == view.ctypes.data
    backend = NumbaBackend()
    assert backend.to_numpy(host, copy=False) is host
    assert backend.from_numpy(host, CPU, copy=False) is host
    assert not np.may_share_memory(backend.from_numpy(host, CPU, copy=True), host)


@pytest.mark.backend("numba")
def test_memory_outlives_its_first_owner() -> None:
    host = np.arange(100_000.0)
    array = xp.asarray(host, copy=False)[::-1]
    del host
    gc.collect()
    assert float(xp.sum(array)) == 4_999_950_000.0
    assert float(array[0]) == 99_999.0


@pytest.mark.backend("numba")
def test_read_only_memory_is_never_written() -> None:
    host = np.arange(5.0)
    host.flags.writeable = False
    array = xp.asarray(host)
    assert float(xp.sum(array)) == 10
    array[0] = 7.0
    array //= 2
    assert host.tolist() == [0, 1, 2, 3, 4]
    assert [float(x) for x in array] == [3, 0, 1, 1, 2]


@pytest.mark.backend("numba")
def test_bare_ndarrays_stay_with_numpy_and_mix() -> None:
    host = np.arange(3.0)
    array = xp.asarray([10.0, 20.0, 30.0])
    for total in (array + host, host + array):
        assert isinstance(total, type(array))
        assert np.asarray(total).tolist() == [10, 21, 32]
    assert (array + host)._table.backend.name == "numba"
    wrapped = xp.negative(host)
    assert wrapped._table.backend.name == "numpy"
    assert xp.permute_dims(host, (0,)).unwrap().ctypes.data == host.ctypes.data


@pytest.mark.backend("numba")
def test_booleans_and_empty_arrays() -> None:
    flags = xp.asarray([True, False, True])
    assert np.asarray(flags[flags]).tolist() == [True, True]
    assert np.asarray(xp.where(flags, ~flags, flags)).tolist() == [False, False, False]
    nothing = xp.asarray([], dtype=xp.float32)
    assert nothing[nothing > 0].shape == (0,)
    assert (nothing // 2).shape == (0,)
    assert float(xp.sum(nothing)) == 0
