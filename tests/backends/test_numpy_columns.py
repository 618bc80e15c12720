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
