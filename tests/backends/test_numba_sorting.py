"""The Numba backend's sorting, sets, searching and gathering."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
import pytest

from tests.conftest import required

required("numba")

from corepy.backends.numba import _sorting  # noqa: E402
from tests.backends.arrays import numpys  # noqa: E402
from tests.backends.numbas import (  # noqa: E402
    FLOATS,
    Array,
    assert_same,
    layouts,
    run,
    sample,
)
from tests.sharing import share  # noqa: E402

DTYPES: Final = ("float32", "float64", "int32", "int64", "uint32", "uint64")


def mixed(size: int, dtype: str) -> Array:
    """Make numbers of all sizes, with repetitions, NaN of both signs and zeros of both."""
    rng = np.random.default_rng(size)
    kind = np.dtype(dtype)
    x = rng.integers(0, 2**64, size, dtype=np.uint64).view(np.uint8)[: size * kind.itemsize]
    x = x.copy().view(kind)
    x[::3] = sample((len(x[::3]),), dtype).round()
    if kind.kind == "f":
        x[1::7], x[2::7] = 0.0, -0.0
        x[3::11], x[4::11], x[5::11] = np.nan, np.inf, -np.inf
        x[6::11] = np.copysign(np.array(np.nan, dtype), -1)
    return x


def order_of(x: Array, descending: bool) -> Array:
    """Return the stable order that the standard describes, one comparison at a time."""

    def key(i: int) -> Any:
        value = x[i]
        nan = bool(value != value)
        return (nan, value.item() if not nan else 0)

    forward = sorted(range(x.size), key=key)
    if not descending:
        return np.array(forward)
    return np.array(sorted(range(x.size), key=key, reverse=True))  # which is stable as well


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 5, 1500])
def test_the_order_is_stable(size: int, dtype: str, descending: bool, ran: Counter[str]) -> None:
    x = mixed(size, dtype)
    expected = order_of(x, descending)
    params = {"axis": 0, "descending": descending, "stable": True}
    assert_same(run("argsort", x, **params), expected)
    assert_same(run("argsort", x, **params), numpys("argsort", x, **params))
    found = run("sort", x, **params)
    # Each NaN with its bits, each zero with its sign.
    words = f"u{x.itemsize}"
    np.testing.assert_array_equal(found.view(words), x[expected].view(words))
    assert ran == {"argsort": 2, "sort": 1}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_rows_are_sorted_in_parts(
    dtype: str, stable: bool, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sorting, "_WIDE", wide)  # by radix, or by NumPy
    x = mixed(3 * _sorting._LONG // 2, dtype)
    params = {"axis": 0, "descending": False, "stable": stable}
    own = _sorting.OPERATIONS
    order = own["argsort"](x, **params)
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    found = own["sort"](x, **params)
    np.testing.assert_array_equal(found.view(f"u{x.itemsize}"), x[order].view(f"u{x.itemsize}"))
    # The same, in however many parts.
    monkeypatch.setattr(_sorting, "_PARTS", 3)
    np.testing.assert_array_equal(own["argsort"](x, **params), order)


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
@pytest.mark.parametrize("size", [1, 9, 1500, 70_001])
@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_that_numpy_sorts(
    dtype: str, size: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(monkeypatch)
    words = f"u{np.dtype(dtype).itemsize}"
    x = mixed(size, dtype)
    cases = [x, np.sort(x), np.sort(x)[::-1].copy(), np.full_like(x, x[0])]
    if x.dtype.kind == "f":  # so many that a sample has little else
        cases += [np.where(np.arange(size) % 7, x.dtype.type(bad), x) for bad in ("nan", "inf")]
    for values in cases:
        expected = values[np.argsort(values, kind="stable")]
        out = np.empty_like(values)
        _sorting._sort_by_parts(values, out, parts)
        np.testing.assert_array_equal(out.view(words), expected.view(words))


@pytest.mark.parametrize("dtype", ["float32", "int64", "int16", "bool"])
@pytest.mark.parametrize("shape", [(7,), (3, 40), (40, 3), (4, 5, 6)])
def test_every_axis_and_layout(shape: tuple[int, ...], dtype: str, ran: Counter[str]) -> None:
    for x in layouts(sample(shape, dtype)):
        for axis in range(x.ndim):
            for descending in (False, True):
                params = {"axis": axis, "descending": descending, "stable": True}
                for name in ("sort", "argsort"):
                    assert_same(run(name, x, **params), numpys(name, x, **params))
    assert bool(ran) == (dtype in ("float32", "int64"))


def test_constant_and_close_keys() -> None:
    for x in (np.full(3000, 7), np.arange(3000) - 1500, np.array([2**63 - 1, -(2**63)] * 1500)):
        params = {"axis": 0, "descending": False, "stable": True}
        for name in ("sort", "argsort"):
            assert_same(run(name, x, **params), numpys(name, x, **params))


# ---------------------------------------------------------------------------- sets


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 6, 4000])
def test_sets_equal_numpys(size: int, dtype: str, ran: Counter[str]) -> None:
    x = mixed(size, dtype)
    x[::5] = x[0]
    for operand in (x, x[: size // 2 * 2].reshape(2, -1), x[::-1]):
        if not operand.size:
            continue
        values = run("unique_values", operand)
        np.testing.assert_array_equal(values, numpys("unique_values", operand))
        assert values.dtype == dtype
        for name in ("unique_counts", "unique_inverse", "unique_all"):
            found, expected = run(name, operand), numpys(name, operand)
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(run("unique_counts", operand)[1],
                                      numpys("unique_counts", operand)[1])  # fmt: skip
        # The first of each kind; which NaN stands where in the result, NumPy leaves open.
        all_values, first, inverse, counts = run("unique_all", operand)
        flat = operand.reshape(-1)
        np.testing.assert_array_equal(flat[first], all_values)
        np.testing.assert_array_equal(all_values[inverse], operand)
        np.testing.assert_array_equal(np.bincount(inverse.reshape(-1)), counts)
        assert all(i == np.flatnonzero(inverse.reshape(-1) == k)[0] for k, i in enumerate(first))
        np.testing.assert_array_equal(run("unique_inverse", operand)[1], inverse)
    assert all(ran[f"unique_{name}"] for name in ("values", "counts", "inverse", "all"))


def test_complex_numbers_and_flags_are_numpys(ran: Counter[str]) -> None:
    for x in (np.array([1j, 1, 1j]), np.array([True, False, True])):
        np.testing.assert_array_equal(run("unique_values", x), numpys("unique_values", x))
    assert not ran


@pytest.mark.parametrize("descending", [False, True])
def test_keys_that_are_alike_in_their_upper_bits(descending: bool) -> None:
    rng = np.random.default_rng(8)
    pairs = rng.integers(0, 2**60, 3000) & ~1
    for x in (
        np.concatenate((pairs, pairs + 1, pairs)),  # some are alike in all but the last bit
        np.concatenate((1 + rng.random(3000) * 1e-12, [1e300, -1e300])),  # nearly all of them
        np.concatenate((rng.integers(0, 2**20, 3000), [2**62])),
    ):
        params = {"axis": 0, "descending": descending, "stable": True}
        order = np.argsort(-x if descending else x, kind="stable")
        assert run("argsort", x, **params).tolist() == order.tolist()
        assert run("sort", x, **params).tolist() == x[order].tolist()


# ---------------------------------------------------------------------------- searching


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 2, 3, 100, 1023])
def test_searching(length: int, dtype: str, side: str, ran: Counter[str]) -> None:
    x = np.sort(mixed(length, dtype))
    needles = np.concatenate([mixed(500, dtype), x])
    params = {"side": side, "sorter": None}
    for wanted in (needles, needles[: needles.size // 4 * 4].reshape(2, -1)[:, ::2], needles[0]):
        found = np.asarray(run("searchsorted", x, wanted, **params))
        assert_same(found, np.asarray(numpys("searchsorted", x, wanted, **params)))
    assert ran["searchsorted"] == 3
    order = np.argsort(-x[: 1 if dtype.startswith("u") else None])
    with_sorter = {"side": side, "sorter": order}
    hay = x[: order.size]
    assert_same(run("searchsorted", hay, needles, **with_sorter),
                numpys("searchsorted", hay, needles, **with_sorter))  # fmt: skip
    assert ran["searchsorted"] == 3


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_searching_among_nothing_but_nan(dtype: str, side: str, ran: Counter[str]) -> None:
    x, needles = np.full(5, np.nan, dtype), mixed(500, dtype)
    params = {"side": side, "sorter": None}
    assert_same(
        run("searchsorted", x, needles, **params), numpys("searchsorted", x, needles, **params)
    )
    assert ran["searchsorted"] == 1


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [17, 100, 5000])
def test_members(length: int, dtype: str, invert: bool, ran: Counter[str]) -> None:
    members = mixed(length, dtype)
    x = np.concatenate([mixed(3000, dtype), members, members[:1] + 1])
    for wanted in (x, x[: x.size // 4 * 4].reshape(2, -1)[:, ::2], x[::-1]):
        assert_same(
            run("isin", wanted, members, invert=invert), np.isin(wanted, members, invert=invert)
        )
        part = members[::-1].reshape(1, -1)
        assert_same(run("isin", wanted, part, invert=invert), np.isin(wanted, part, invert=invert))
    assert ran["isin"] == 6


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32"])
def test_members_far_apart_and_close_together(dtype: str, ran: Counter[str]) -> None:
    ends = np.iinfo(dtype)
    rng = np.random.default_rng(8)
    x = rng.integers(ends.min, ends.max, 3000, dtype, endpoint=True)
    x[:4] = ends.min, ends.max, ends.min + 7, ends.max - 7
    close = np.arange(ends.max - 30, ends.max, dtype=dtype)
    for members in (x[:100], close, close - (ends.max - 30) + ends.min, np.repeat(x[:1], 20)):
        assert_same(run("isin", x, members, invert=False), np.isin(x, members))
    assert ran["isin"] == 4


def test_few_members_are_numpys(ran: Counter[str]) -> None:
    x = mixed(3000, "float64")
    for members in (x[:5], x[:0], x[:16]):
        assert_same(run("isin", x, members, invert=False), np.isin(x, members))
    assert ran["isin"] == 0


# ---------------------------------------------------------------------------- gathering


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(9,), (9, 4), (9, 2, 3)])
def test_gathering(shape: tuple[int, ...], dtype: str, ran: Counter[str]) -> None:
    rng = np.random.default_rng(2)
    for indices in (rng.integers(-9, 9, 3000), rng.integers(-9, 9, (7, 5)).astype(np.int8)):
        for x in layouts(sample(shape, dtype)):
            assert_same(run("take", x, indices, axis=0), numpys("take", x, indices, axis=0))
            assert_same(run("__getitem__", x, indices), x[indices])
            if len(shape) > 1:
                few = indices % 2
                assert_same(run("take", x, few, axis=1), numpys("take", x, few, axis=1))
    assert ran["take"] == ran["__getitem__"] > 0


@pytest.mark.parametrize("shape", [(9,), (9, 4)])
@pytest.mark.parametrize("index", [9, -10])
def test_indices_out_of_bounds_raise_as_numpys_do(shape: tuple[int, ...], index: int) -> None:
    x = np.zeros(shape)
    indices = np.zeros(5000, np.int64)
    indices[4000] = index
    message = f"index {index} is out of bounds for axis 0 with size 9"
    with pytest.raises(IndexError, match=message):
        run("take", x, indices, axis=0)
    with pytest.raises(IndexError, match=message):
        run("__getitem__", x, indices)


def test_other_keys_are_numpys(ran: Counter[str]) -> None:
    x = np.arange(24.0).reshape(4, 6)
    one = np.arange(3)
    assert_same(np.asarray(run("__getitem__", one, np.array(1))), np.array(1))
    assert_same(np.asarray(run("take", one, np.array(-1), axis=0)), np.array(2))
    ran.clear()
    for key in (2, slice(1, 3), (slice(None), 3), ..., None, (np.array([0, 1]), np.array([2, 3]))):
        assert_same(np.asarray(run("__getitem__", x, key)), np.asarray(x[key]))
    assert not ran


@pytest.mark.parametrize("dtype", FLOATS)
def test_places_of_zeros_and_nans_survive_sorting_rows(dtype: str, ran: Counter[str]) -> None:
    rows = np.stack([mixed(60, dtype), mixed(61, dtype)[:60]])
    for descending in (False, True):
        params = {"axis": 1, "descending": descending, "stable": True}
        found = run("sort", rows, **params)
        for row, before in zip(found, rows, strict=True):
            words = f"u{row.itemsize}"
            expected = before[order_of(before, descending)]
            np.testing.assert_array_equal(row.view(words), expected.view(words))
    assert ran["sort"] == 2
