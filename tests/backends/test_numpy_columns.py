"""Columns reduced several rows at a time: NumPy's values bit by bit, and its flags."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import corepy.array_api as xp
from corepy._extensions import extension
from tests.dispatch.natives import outcome

Array = npt.NDArray[Any]

_module: Final[Any] = extension("corepy.backends._column_loops")[0]
WIDTHS: Final[dict[int, dict[str, dict[str, int]]]] = {} if _module is None else _module.BY_WIDTH
UFUNCS: Final = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
LOOP: Final = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_ssize_t] * 3)
CASES: Final = [
    pytest.param(name, dtype, address, id=f"{name}-{dtype}-{width}")
    for width, loops in WIDTHS.items()
    for name, addresses in loops.items()
    for dtype, address in addresses.items()
]
FLOATS: Final = ("float32", "float64")


def numbers(dtype: str, *shape: int) -> Array:
    rng = np.random.default_rng(3)
    if np.dtype(dtype).kind == "f":
        return (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype)


@pytest.mark.parametrize(("name", "dtype", "address"), CASES)
def test_all_heights_and_widths(name: str, dtype: str, address: int) -> None:
    ufunc = UFUNCS[name]
    whole = numbers(dtype, 40, 5000)
    shapes = [(rows, columns) for rows in range(1, 41) for columns in (2, 7, 33)]
    for rows, columns in (*shapes, (17, 200), (21, 4999)):
        for first in (0, 1):
            x = whole[:rows, first : first + columns]
            if x.shape[1] < columns:
                continue
            expected = ufunc.reduce(np.ascontiguousarray(x), axis=0)
            out = np.full(columns + 2, 3, expected.dtype)  # of sums of small integers, 64 bits
            out[1:-1] = x[0]
            told = LOOP(address)(
                out[1:].ctypes.data, x[1:].ctypes.data, rows - 1, whole.shape[1], columns
            )
            assert not told
            assert out[1:-1].tobytes() == expected.tobytes(), (rows, columns, first)
            assert out[0] == out[-1] == 3  # beside the results nothing is touched


WEIGHTED: Final = {} if _module is None else _module.WEIGHTED_BY_WIDTH
WEIGHED: Final = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_ssize_t] * 4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", sorted(WEIGHTED))
def test_weighed_rows(width: int, dtype: str) -> None:
    whole, weights = numbers(dtype, 40, 5000), numbers(dtype, 40, 3)
    call = WEIGHED(WEIGHTED[width][dtype])
    for rows, columns in [(r, c) for r in range(1, 41) for c in (1, 7, 33, 4999)]:
        x, w = whole[:rows, 1 : 1 + columns], weights[:rows, 1]
        out = np.full(columns + 2, 3, dtype)
        call(
            out[1:].ctypes.data, x.ctypes.data, w.ctypes.data,
            rows, whole.shape[1], weights.shape[1], columns,
        )  # fmt: skip
        exact = 3 + w.astype(np.float64) @ x.astype(np.float64)
        size = 3 + np.abs(w).astype(np.float64) @ np.abs(x).astype(np.float64)
        assert (np.abs(out[1:-1] - exact) <= rows * np.finfo(dtype).eps * size).all()
        assert out[0] == out[-1] == 3  # beside the results nothing is touched


DOTTED: Final = {} if _module is None else _module.DOTTED_BY_WIDTH
DOTS: Final = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_ssize_t] * 3)
DOT_CASES: Final = [
    pytest.param(address, dtype, id=f"{dtype}-{width}")
    for width, addresses in DOTTED.items()
    for dtype, address in addresses.items()
]


def dots(address: int, rows: Array, vector: Array) -> Array:
    """Multiply rows that lie evenly apart by a vector, between two other numbers."""
    out = np.full(len(rows) + 2, 3, rows.dtype)
    step = rows.strides[0] // rows.itemsize
    count, size = rows.shape
    DOTS(address)(out[1:].ctypes.data, rows.ctypes.data, vector.ctypes.data, count, step, size)
    assert out[0] == out[-1] == 3  # beside the results nothing is touched
    return out[1:-1]


@pytest.mark.parametrize(("address", "dtype"), DOT_CASES)
def test_rows_by_a_vector(address: int, dtype: str) -> None:
    whole, vectors = numbers(dtype, 12, 20_000), numbers(dtype, 20_000)
    for columns in (1, 2, 3, 7, 15, 16, 31, 32, 33, 63, 64, 65, 100, 4095, 4096, 4097, 9999):
        for first in (0, 1):
            x, vector = whole[:, first : first + columns], vectors[1 : 1 + columns]
            exact = x.astype(np.float64) @ vector.astype(np.float64)
            size = np.abs(x).astype(np.float64) @ np.abs(vector).astype(np.float64)
            found = dots(address, x, vector)
            bound = min(columns, 4096 // 8) * np.finfo(dtype).eps * size
            assert (np.abs(found - exact) <= bound).all(), columns
            for rows in range(1, 12):  # how many there are changes no bit of any
                assert np.array_equal(dots(address, x[:rows], vector), found[:rows])
            assert np.array_equal(dots(address, x[::-1], vector), found[::-1])
            assert np.array_equal(dots(address, x[::5], vector), found[::5])


@pytest.mark.parametrize(("address", "dtype"), DOT_CASES)
@pytest.mark.parametrize("place", [0, 5, 64, 99])
def test_special_values_in_rows_by_a_vector(address: int, dtype: str, place: int) -> None:
    x, vector = np.ones((5, 100), dtype), np.ones(100, dtype)
    for value, other, wanted in (
        (np.nan, 1.0, np.nan),
        (np.inf, 1.0, np.inf),
        (np.inf, 0.0, np.nan),
        (-np.inf, 2.0, -np.inf),
    ):
        x[2, place], vector[place] = value, other
        found = dots(address, x, vector)
        np.testing.assert_array_equal(found, [99 + other] * 2 + [wanted] + [99 + other] * 2)


@pytest.mark.parametrize(
    ("name", "dtype", "address"),
    [c for c in CASES if c.values[0] in ("max", "min") and c.values[1] in FLOATS],
)
def test_who_may_choose_otherwise_says_so(name: str, dtype: str, address: int) -> None:
    for special in (0.0, -0.0, np.nan):
        for row in (0, 20):
            x = np.full((21, 50), -1.0 if name == "max" else 1.0, dtype)
            x[row, 49] = special
            out = x[0].copy()
            assert LOOP(address)(out.ctypes.data, x[1:].ctypes.data, 20, 50, 50)


def one_nan(x: Array) -> Array:
    """Return an array whose NaN all have one sign, which no standard gives."""
    x[np.isnan(x)] = np.nan
    return x


@pytest.mark.usefixtures("routes_off")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("shape", [(3, 5), (9, 1), (40, 33), (200, 301), (1000, 2), (2, 40_000)])
def test_special_values_and_warnings_are_numpys(
    name: str, dtype: str, shape: tuple[int, int]
) -> None:
    rng = np.random.default_rng(5)
    limits = np.finfo(dtype)
    few = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, limits.max, limits.tiny]
    for chosen in (few[:2], few[:4], few[:6], few[:8], few[2:4] + few[8:], few):
        x = rng.choice(np.array(chosen, dtype), shape)
        ours = xp.asarray(x)
        for wish in ("warn", "ignore"):
            with np.errstate(all=wish):
                expected = outcome(lambda x=x: one_nan(UFUNCS[name].reduce(x, axis=0)))
                found = outcome(lambda y=ours: one_nan(getattr(xp, name)(y, axis=0).unwrap()))
            assert found == expected, (chosen, wish)
