"""Products that BLAS does not have, or shares among its threads."""

from __future__ import annotations

import ctypes
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import corepy.array_api as xp
from corepy._extensions import extension
from tests.backends.test_numpy_columns import FLOATS, numbers

Array = npt.NDArray[Any]

_module: Final[Any] = extension("corepy.backends._product_loops")[0]

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


INTEGERS: Final = {} if _module is None else _module.INTEGERS_BY_WIDTH
SIZES: Final = ctypes.c_ssize_t * 4
STEPS: Final = ctypes.c_ssize_t * 9
CORE: Final = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)


def cases(name: str) -> list[Any]:
    return [
        pytest.param(address, dtype, id=f"{dtype}-{width}")
        for width, loops in INTEGERS.items()
        for dtype, address in loops[name].items()
    ]


def core(address: int, dims: list[int], steps: list[int], *operands: Array) -> None:
    """Call an inner loop as NumPy does those of generalized ufuncs."""
    args = (ctypes.c_void_p * 3)(*(each.ctypes.data for each in operands))
    CORE(address)(args, SIZES(*dims), STEPS(*steps), None)


def matmul(address: int, x: Array, y: Array, order: str = "C") -> Array:
    """Multiply stacks of matrices into the midst of others, which stay as they are."""
    stack, rows, deep = x.shape
    columns = y.shape[2]
    whole = np.full((stack, rows + 2, columns + 2), 3, x.dtype, order)  # type: ignore[call-overload]
    out = whole[:, 1:-1, 1:-1]
    steps = [each.strides[0] for each in (x, y, out)]
    for each in (x, y, out):
        steps += each.strides[1:]
    core(address, [stack, rows, deep, columns], steps, x, y, out)
    found = out.copy()
    out[...] = 3
    assert (whole == 3).all()
    return found


def layouts(x: Array) -> list[Array]:
    """Return a stack of matrices as it may lie in memory."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    backwards = x[..., ::-1, ::-1].copy()[..., ::-1, ::-1]
    return [x, np.ascontiguousarray(x.mT).mT, wide[..., ::2], backwards]


@pytest.mark.parametrize(("address", "dtype"), cases("matmul"))
def test_matrices_of_integers(address: int, dtype: str) -> None:
    sides = (1, 2, 3, 4, 5, 8, 9, 17, 33, 65, 130)
    for rows, deep, columns in [*product(sides, (1, 2, 7, 33), sides), (5, 129, 4), (6, 300, 150)]:
        x, y = numbers(dtype, 1, rows, deep), numbers(dtype, 1, deep, columns)
        assert np.array_equal(matmul(address, x, y), np.matmul(x, y)), (rows, deep, columns)


@pytest.mark.parametrize(("address", "dtype"), cases("matmul"))
@pytest.mark.parametrize("order", ["C", "F"])
def test_matrices_of_integers_lie_in_any_order(address: int, dtype: str, order: str) -> None:
    shapes = [(1, 9, 1), (1, 9, 40), (40, 9, 1), (3, 2, 3), (9, 200, 40), (40, 7, 2), (200, 3, 5)]
    for rows, deep, columns in [*shapes, (1, 2500, 3), (3, 2500, 1), (2, 1100, 3), (2, 513, 2)]:
        x, y = numbers(dtype, 3, rows, deep), numbers(dtype, 3, deep, columns)
        expected = np.matmul(x, y)
        for a, b in product(layouts(x), layouts(y)):
            assert np.array_equal(matmul(address, a, b, order), expected), (rows, deep, columns)


@pytest.mark.parametrize(("address", "dtype"), cases("vecdot"))
def test_vectors_of_integers(address: int, dtype: str) -> None:
    for size in (*range(1, 70), 127, 128, 255, 256, 257, 1000, 4099):
        x, y = numbers(dtype, 2, 1, size), numbers(dtype, 2, 1, size)
        expected = np.vecdot(x, y)[:, 0]
        for a, b in product(layouts(x), layouts(y)):
            out = np.full(4, 3, dtype)
            into = out[1:3]
            steps = [a.strides[0], b.strides[0], into.strides[0], a.strides[2], b.strides[2]]
            core(address, [2, size], steps, a, b, into)
            assert np.array_equal(into, expected), size
            assert out[0] == out[3] == 3


@pytest.mark.usefixtures("routes_off")
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "uint64"])
def test_integers_wrap_around_wherever_they_are_multiplied(dtype: str) -> None:
    # In one piece, in blocks of rows and of columns, and in parts that are added up.
    shapes = [(3, 3, 3), (20, 30, 25), (150, 140, 130), (1, 500, 40), (9, 60, 900), (20, 9000, 9)]
    for rows, deep, columns in shapes:
        x, y = numbers(dtype, rows, deep), numbers(dtype, deep, columns)
        a, b = xp.asarray(x), xp.asarray(y)
        with np.errstate(all="ignore"):
            expected = np.matmul(x, y)
        across, down = xp.asarray(x.T.copy()).T, xp.asarray(y.T.copy()).T
        for found in (a @ b, xp.tensordot(a, b, axes=1), across @ b, a @ down):
            assert found.dtype == a.dtype
            assert np.array_equal(found.unwrap(), expected)
        assert np.array_equal((a @ b[:, 0]).unwrap(), expected[:, 0])
        assert np.array_equal((a[0, :] @ b).unwrap(), expected[0])
        assert np.array_equal(xp.stack([a, a]) @ b, np.stack([expected, expected]))
        assert int(xp.vecdot(a[0, :], b[:, 0])) == expected[0, 0]
        assert int(xp.vecdot(a, xp.asarray(y.T.copy())[:1, :])[0]) == expected[0, 0]


@pytest.mark.usefixtures("routes_off")
def test_matrices_without_rows_or_columns_are_numpys() -> None:
    for rows, deep, columns in [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 0, 1)]:
        x, y = xp.ones((rows, deep), dtype=xp.int64), xp.ones((deep, columns), dtype=xp.int64)
        found = x @ y
        assert found.shape == (rows, columns)
        assert not xp.any(found != 0)
