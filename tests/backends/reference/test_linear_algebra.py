"""Products of matrices and vectors: exact, and shaped as NumPy's."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from corepy.backends import reference
from tests.backends.reference.values import INF, NAN, assert_same, from_numpy, same, sample

SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((3,), (2, 3, 4)),
    ((2, 0), (0, 3)),
    ((0, 3), (3, 2)),
]


@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_matmul_of_integers_wraps(a: Any, b: Any, dtype: str) -> None:
    x, y = sample(a, dtype), sample(b, dtype, seed=1)
    assert_same(reference.matmul(from_numpy(x), from_numpy(y)), np.matmul(x, y))


@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_matmul_like_numpy(a: Any, b: Any, dtype: str) -> None:
    x, y = sample(a, dtype), sample(b, dtype, seed=1)
    found, expected = reference.matmul(from_numpy(x), from_numpy(y)), np.matmul(x, y)
    assert found.shape == expected.shape
    assert found.dtype.name == dtype
    eps = 500 * np.finfo(dtype).eps
    assert np.allclose(found.values, expected.ravel(), rtol=eps, atol=eps)


def test_matmul_is_correctly_rounded() -> None:
    assert reference.matmul([1e16, 1.0, -1e16], [1.0, 1.0, 1.0]) == 1.0
    x, y = sample((3, 6), "float64"), sample((6, 2), "float64", seed=1)
    found = reference.matmul(from_numpy(x), from_numpy(y)).values
    for i in range(3):
        for j in range(2):
            exact = sum(Fraction(x[i, k]) * Fraction(y[k, j]) for k in range(6))
            assert found[2 * i + j] == float(exact)


def test_matmul_of_special_values() -> None:
    assert same(reference.matmul([INF, 1.0], [0.0, 1.0]).values[0], NAN)
    assert same(reference.matmul([INF, 1.0], [1.0, 1.0]).values[0], INF)
    assert same(reference.matmul([-0.0], [1.0]).values[0], -0.0)


@pytest.mark.parametrize(
    ("x1", "x2", "error", "message"),
    [
        (1, [1], ValueError, "matmul: x1 has shape ()"),
        ([1], 1, ValueError, "matmul: x2 has shape ()"),
        ([1, 2], [1, 2, 3], ValueError, "matmul: x2 has shape (3,); expected 2 rows"),
        ([1], [1.5], TypeError, "matmul: operands have dtypes"),
        ([True], [True], TypeError, "matmul: x1 has dtype bool"),
    ],
)
def test_matmul_refuses(x1: Any, x2: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        reference.matmul(x1, x2)
    assert str(raised.value).startswith(message)


def test_matrix_transpose() -> None:
    x = sample((2, 3, 4), "int8")
    assert_same(reference.matrix_transpose(from_numpy(x)), x.swapaxes(-1, -2))
    with pytest.raises(ValueError, match="matrix_transpose: x has shape"):
        reference.matrix_transpose([1])


@pytest.mark.parametrize(
    ("a", "b", "axes"),
    [
        ((2, 3, 4), (3, 4, 5), 2),
        ((2, 3), (3, 2), 1),
        ((2, 3), (4,), 0),
        ((), (2,), 0),
        ((2, 3, 4), (4, 2), ((0, -1), (1, 0))),
        ((2, 3), (3, 2), ((), ())),
        ((2, 0), (0, 3), 1),
    ],
)
def test_tensordot_like_numpy(a: Any, b: Any, axes: Any) -> None:
    x, y = sample(a, "int32"), sample(b, "int32", seed=1)
    found = reference.tensordot(from_numpy(x), from_numpy(y), axes=axes)
    assert_same(found, np.tensordot(x, y, axes))


def test_tensordot_refuses() -> None:
    with pytest.raises(ValueError, match="tensordot: axes is -1"):
        reference.tensordot([1], [1], axes=-1)
    with pytest.raises(ValueError, match="axes of equal sizes"):
        reference.tensordot([1], [1, 2], axes=1)


def test_vecdot() -> None:
    x, y = sample((2, 1, 3), "complex128"), sample((4, 3), "complex128", seed=1)
    found = reference.vecdot(from_numpy(x), from_numpy(y))
    expected = np.vecdot(x, y)
    assert found.shape == expected.shape
    assert np.allclose(found.values, expected.ravel(), rtol=1e-13)
    x, y = sample((3, 2), "int8"), sample((5, 3, 1), "int8", seed=1)
    found = reference.vecdot(from_numpy(x), from_numpy(y), axis=-2)
    assert_same(found, np.vecdot(x, y, axis=-2))
    assert reference.vecdot([1j], [1j]) == 1 + 0j
    with pytest.raises(ValueError, match="vecdot: x2 has shape"):
        reference.vecdot([1, 2], [1])
