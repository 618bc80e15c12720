"""Sorting in both orders, of all layouts, beside NumPy's stable order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import corepy.array_api as xp

Array = npt.NDArray[Any]


def stable_order(x: Array, axis: int, descending: bool) -> Array:
    """Return where elements stand: in descending order NaN comes first."""
    if not descending:
        return np.argsort(x, axis, stable=True)
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, stable=True), axis)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float32", "float64"])
@pytest.mark.parametrize(
    "shape",
    [(0,), (1,), (9,), (300,), (4, 0), (5, 9), (3, 2, 70), (2, 80, 3), (20_000,), (140, 150)],
)
def test_equal_elements_keep_their_order(
    shape: tuple[int, ...], dtype: str, descending: bool
) -> None:
    values = [0.0, -0.0, np.nan, -np.nan, 1.0, np.inf, -1.0] if dtype[0] == "f" else [0, 1, 7, 100]
    whole = np.random.default_rng(3).choice(np.asarray(values, dtype), shape)
    for x in (whole, whole[::-1], whole[..., ::2], whole.T):
        for axis in range(x.ndim):
            order = stable_order(x, axis, descending)
            expected = np.take_along_axis(x, order, axis)
            found = xp.sort(xp.asarray(x), axis=axis, descending=descending)
            assert np.asarray(found).tobytes() == np.ascontiguousarray(expected).tobytes()
            found = xp.argsort(xp.asarray(x), axis=axis, descending=descending)
            np.testing.assert_array_equal(np.asarray(found), order)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(16,), (33,), (1000,), (5000,), (20_000,), (30, 40), (3, 5000)])
def test_what_need_not_be_stable_keeps_signs_of_zeros(
    shape: tuple[int, ...], dtype: str, descending: bool
) -> None:
    values = np.asarray([0.0, -0.0, 1.0, -1.0, np.inf], dtype)
    x = np.random.default_rng(3).choice(values, shape)
    for _ in range(2):  # the first call may fill a table
        for axis in range(x.ndim):
            given = xp.asarray(x)
            found = xp.sort(given, axis=axis, descending=descending, stable=False)
            order = xp.argsort(given, axis=axis, descending=descending, stable=False)
            for taken in (np.asarray(found), np.take_along_axis(x, np.asarray(order), axis)):
                minus = ((taken == 0) & np.signbit(taken)).sum(axis)
                np.testing.assert_array_equal(minus, ((x == 0) & np.signbit(x)).sum(axis))


@pytest.mark.parametrize("size", [2, 70, 5000, 30_000])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_of_what_is_in_the_opposite_order(dtype: str, size: int) -> None:
    falling = np.arange(size, 0, -1).astype(dtype)
    alike = falling.copy()
    alike[size // 2] = alike[size // 2 - 1]
    for x in (falling, alike, falling[::-1], alike[::-1]):
        for descending in (False, True):
            found = np.asarray(xp.argsort(xp.asarray(x), descending=descending))
            np.testing.assert_array_equal(found, stable_order(x, 0, descending))
