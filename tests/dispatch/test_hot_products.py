"""Products of vectors and matrices in the compiled path, from sizes on that BLAS shares."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import corepy
import corepy.array_api as xp
from tests.dispatch.natives import compiled, told

Array = npt.NDArray[Any]


FLOATS: Final = ("float32", "float64")
#: Rows and columns of matrices: square, tall and wide ones, some with very few of either.
SHAPES: Final = [
    (100, 100), (333, 777), (1000, 1000), (20_000, 3), (3, 20_000), (5000, 17), (17, 5000),
    (9215, 2), (9216, 1), (1, 9216), (9300, 15), (70, 8193), (8193, 70), (2, 9215),
]  # fmt: skip


def forms(matrix: Any, left: Any, right: Any) -> list[Any]:
    """Return products of a matrix (m, n), and of it turned, by vectors of m and n elements."""
    return [
        matrix @ right,
        left @ matrix,
        matrix.T @ left,
        right @ matrix.T,
        matrix @ right[:, None],
        left[None, :] @ matrix,
        matrix.T @ left[:, None],
        matrix[::-1, :] @ right,
        left @ matrix[:, ::2],
        left[::-1] @ matrix,
        matrix @ right[::-1],
    ]


def operands(dtype: str, shape: tuple[int, int]) -> list[Array]:
    rng = np.random.default_rng(11)
    return [rng.standard_normal(s).astype(dtype) for s in (shape, shape[0], shape[1])]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_values(shape: tuple[int, int], dtype: str) -> None:
    numbers = operands(dtype, shape)
    found = forms(*map(xp.asarray, numbers))
    wide = [x.astype(np.longdouble) for x in numbers]
    exact, sizes = forms(*wide), forms(*map(np.abs, wide))
    for number, (made, value, size) in enumerate(zip(found, exact, sizes, strict=True)):
        assert made.shape == value.shape
        assert made.dtype.name == dtype
        depth = max(shape)
        apart = np.abs(np.asarray(made) - value)
        assert (apart <= depth * np.finfo(dtype).eps * size).all(), number


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(128, 100), (5000, 3), (3, 5000)])
def test_special_values_and_warnings_are_numpys(shape: tuple[int, int], dtype: str) -> None:
    most = np.finfo(dtype).max
    for special in (np.nan, np.inf, most):
        matrix, left, right = operands(dtype, shape)
        matrix[-1, -1] = matrix[0, 0] = special
        left[0] = right[0] = 0 if special == np.inf else 2
        outcomes = []
        for kind in (np.asarray, xp.asarray):
            given = map(kind, (matrix, left, right))
            outcomes.append(told(lambda xs=given: [np.asarray(x) for x in forms(*xs)[:8]]))
        (numpys, warned), (ours, also) = outcomes
        assert set(also) == set(warned)
        for expected, made in zip(numpys, ours, strict=True):
            assert np.array_equal(np.isnan(expected), np.isnan(made))
            assert np.array_equal(np.isposinf(expected), np.isposinf(made))


@compiled
@pytest.mark.parametrize("dtype", FLOATS)
def test_blas_is_asked_for_blocks_of_one_thread_alone(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a vector the entry, which looks how many threads BLAS may have, is not reached."""
    from corepy.dispatch import _considerate

    asked: list[int] = []
    x, left, right = map(xp.asarray, operands(dtype, (333, 777)))
    monkeypatch.setattr(_considerate, "cores", lambda: 2)
    monkeypatch.setattr(
        _considerate.NEIGHBOURS, "busy", lambda threads: asked.append(threads) or False
    )
    with corepy.set_routes("off"):  # as some machine's table has it
        xp.matmul(x, right)  # the first takes the long way, which resolves the entry
        asked.clear()
        for made in (lambda: x @ right, lambda: left @ x, lambda: x.T @ left, lambda: right @ x.T):
            made()
        assert not asked
        corepy.to(x, copy=True) @ x.T
    assert asked


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "int8"])
def test_vectors_with_gaps(dtype: str) -> None:
    x = np.arange(-300, 300).reshape(60, 10).astype(dtype) % 7
    a = xp.asarray(x)
    for first, second in ((x[:, 3], x[::-1, 4]), (x[::2, 0], x[:30, 1]), (x[:0, 2], x[:0, 3])):
        pair = [corepy.to(part) for part in (first, second)]
        found = xp.vecdot(*pair)
        assert np.asarray(found) == np.vecdot(first, second)
        assert found.dtype is a.dtype
    with pytest.raises(ValueError, match="^vecdot: "):
        xp.vecdot(a[:, 1], a[1:, 1])


@pytest.mark.parametrize("dtype", FLOATS)
def test_small_products_are_numpys_after_reproducible_ones(dtype: str) -> None:
    matrix, left, right = operands(dtype, (13, 9))
    gaps = np.repeat(right, 2)[::2]
    expected = [*forms(matrix, left, right), matrix @ gaps, np.vecdot(gaps, right)]
    for block in (corepy.reproducible, nullcontext):
        with block():
            a, b, c = map(xp.asarray, (matrix, left, right))
            apart = corepy.to(gaps)
            found = [*forms(a, b, c), a @ apart, xp.vecdot(apart, c)]
        for made, value in zip(found, expected, strict=True):
            assert np.asarray(made).tobytes() == value.tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(784, 128), (200, 100), (64, 30_000), (512, 512)])
def test_products_without_rows_or_columns(shape: tuple[int, int], dtype: str) -> None:
    # What writes past a result of no elements ends the process, if not at once.
    matrix = xp.asarray(np.ones(shape, dtype))
    rows = xp.asarray(np.ones((2, 5, shape[0]), dtype))
    for _ in range(20):
        assert (rows[0, :0, :] @ matrix).shape == (0, shape[1])
        assert (rows[:, :0, :] @ matrix).shape == (2, 0, shape[1])
        assert (matrix.T @ rows[0, :, :].T[:, :0]).shape == (shape[1], 0)
        assert xp.tensordot(rows[0, :0, :], matrix, axes=1).shape == (0, shape[1])
        assert xp.matmul(rows[0, :0, :], matrix[:, :0]).shape == (0, 0)
        assert not xp.any((rows[0, :, :0] @ matrix[:0, :]) != 0)


#: Of operands: a stack beside a stack, beside one matrix, beside a repeated one; rows and columns.
STACKS: Final = [
    ((7, 3, 4), (7, 4, 5)), ((500, 16, 16), (500, 16, 16)), ((2, 3, 4), (4, 5)),
    ((4, 5), (3, 5, 2)), ((2, 3, 4, 5), (2, 3, 5, 4)), ((2, 1, 4, 5), (1, 3, 5, 4)),
    ((1, 60, 60), (30, 60, 60)), ((9, 70, 64), (9, 64, 80)), ((50, 1, 300), (50, 300, 40)),
    ((50, 40, 300), (50, 300, 1)), ((3, 1, 1), (3, 1, 1)), ((5, 4, 3, 2), (4, 2, 6)),
    ((0, 3, 4), (0, 4, 5)), ((3, 0, 4), (3, 4, 5)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "int8", "complex128"])
@pytest.mark.parametrize("shapes", STACKS, ids=str)
def test_stacks(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str) -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.integers(-9, 9, shape).astype(dtype) for shape in shapes)
    turned = np.ascontiguousarray(y.swapaxes(-1, -2)).swapaxes(-1, -2)
    for left, right in ((x, y), (x, turned), (x[::-1], y), (x[..., ::-1], y[..., ::2])):
        found = xp.matmul(xp.asarray(left), xp.asarray(right)).unwrap()
        expected = np.matmul(left, right)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)  # of whole numbers: exact in any order


def test_a_stack_beside_its_own_transposes() -> None:
    x = np.random.default_rng(6).standard_normal((40, 60, 50))
    found = xp.matmul(xp.asarray(x), xp.matrix_transpose(xp.asarray(x)))
    np.testing.assert_allclose(found.unwrap(), x @ x.swapaxes(1, 2), rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("shapes", [((3, 4, 5), (2, 5, 4)), ((3, 4, 5), (3, 4, 5))], ids=str)
def test_stacks_that_do_not_fit(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, y = map(xp.ones, shapes)
    with pytest.raises(ValueError, match="matmul"):
        xp.matmul(x, y)
