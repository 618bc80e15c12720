"""Decompositions by their identities, with random matrices and with those that break algorithms."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from corepy import _dtypes
from tests.backends.reference.matrices import (
    DEGENERATE,
    FLOATING,
    SQUARE,
    adjoint,
    assert_close,
    sample,
    to_numpy,
    wide,
)
from tests.backends.reference.values import from_numpy
from tests.conftest import required

mpmath = required("mpmath")

from corepy.backends.reference import linalg  # noqa: E402  it imports mpmath

# ------------------------------------------------------------------ Cholesky and QR


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", FLOATING)
def test_cholesky_as_numpy(dtype, upper):
    x = sample(2, 4, 4, dtype=dtype)
    x = x @ adjoint(x) + np.eye(4, dtype=dtype)
    factor = linalg.cholesky(from_numpy(x), upper=upper)
    assert factor.dtype.name == dtype
    assert_close(factor, np.linalg.cholesky(x, upper=upper))


def test_cholesky_rounds_once_and_reads_one_triangle():
    x = from_numpy(np.array([[2.0, math.nan], [1.0, 2.0]]))
    with pytest.raises(ValueError, match=r"cholesky: x is not positive definite"):
        linalg.cholesky(from_numpy(np.array([[1.0, 2.0], [2.0, 1.0]])))
    assert np.isnan(linalg.cholesky(x).values[0])  # NaN anywhere: no attempt is made
    lopsided = from_numpy(np.array([[2.0, 7.0], [1.0, 2.0]]))
    root = mpmath.sqrt
    with mpmath.workdps(40):
        expected = [[float(root(2)), 0.0], [float(1 / root(2)), float(root(mpmath.mpf(3) / 2))]]
    assert linalg.cholesky(lopsided) == expected
    assert linalg.cholesky(from_numpy(np.array([[2.0, 1.0], [7.0, 2.0]])), upper=True) == [
        [expected[0][0], expected[1][0]],
        [0.0, expected[1][1]],
    ]


@pytest.mark.parametrize("x", [[[0.0]], [[-1.0]], [[1.0, 1.0], [1.0, 1.0]]])
def test_cholesky_is_exact_about_definiteness(x):
    with pytest.raises(ValueError, match="is not positive definite; expected"):
        linalg.cholesky(from_numpy(x))


def test_cholesky_at_the_edge_of_definiteness():
    e = 2.0**-52
    barely = from_numpy(np.array([[1.0, 1.0], [1.0, 1.0 + e]]))
    assert linalg.cholesky(barely) == [[1.0, 0.0], [1.0, 2.0**-26]]
    assert linalg.cholesky(from_numpy(np.zeros((3, 0, 0)))).shape == (3, 0, 0)


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 2), (2, 4), (5, 1), (0, 3), (3, 0), (0, 2, 2)])
@pytest.mark.parametrize("dtype", FLOATING)
def test_qr_of_random_matrices(dtype, shape, mode):
    x = sample(*shape, dtype=dtype)
    q, r = linalg.qr(from_numpy(x), mode=mode)
    theirs = np.linalg.qr(x, mode=mode)
    assert q.dtype.name == r.dtype.name == dtype
    assert (q.shape, r.shape) == (theirs.Q.shape, theirs.R.shape)
    assert_qr(x, q, r)


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("name", DEGENERATE)
def test_qr_of_degenerate_matrices(name, mode):
    x = np.array(DEGENERATE[name])
    q, r = linalg.qr(from_numpy(x), mode=mode)
    assert_qr(x, q, r)


def assert_qr(x, q, r):
    product = wide(q) @ wide(r)
    eps = np.finfo(to_numpy(q).dtype).eps
    # Each column of Q and R is off by half an ulp at most.
    size = np.sqrt(np.sum(np.abs(x.astype(np.clongdouble)) ** 2, axis=-2, keepdims=True))
    assert np.all(np.abs(product - x) <= eps * size)
    gram = adjoint(wide(q)) @ wide(q)
    assert np.all(np.abs(gram - np.eye(gram.shape[-1])) <= 2 * eps)
    np.testing.assert_array_equal(to_numpy(r), np.triu(to_numpy(r)))
    diagonal = np.diagonal(to_numpy(r), axis1=-2, axis2=-1)
    assert np.all(diagonal.imag == 0)
    assert np.all(diagonal.real >= 0)


def test_qr_is_exact():
    x = from_numpy(np.array([[3.0, 1.0], [4.0, 2.0]]))
    q, r = linalg.qr(x)
    assert q == [[0.6, -0.8], [0.8, 0.6]]
    assert r == [[5.0, 2.2], [0.0, 0.4]]
    with pytest.raises(ValueError, match="qr: mode is 'full'; expected reduced or complete"):
        linalg.qr(x, mode="full")


# ------------------------------------------------------------------ eigenvalues


@pytest.mark.parametrize("dtype", FLOATING)
def test_eigh_of_random_matrices(dtype):
    x = sample(2, 4, 4, dtype=dtype)
    x = x + adjoint(x)
    values, vectors = linalg.eigh(from_numpy(x))
    assert vectors.dtype.name == dtype
    assert values.dtype is _dtypes.real_of(vectors.dtype)
    assert_close(values, np.linalg.eigvalsh(x))
    assert_eigh(x, values, vectors)
    assert linalg.eigvalsh(from_numpy(x)) == values


@pytest.mark.parametrize("name", SQUARE)
def test_eigh_of_degenerate_matrices(name):
    x = np.array(DEGENERATE[name])
    values, vectors = linalg.eigh(from_numpy(x))
    lower = np.tril(x)
    assert_eigh(lower + np.tril(x, -1).T, values, vectors)


def assert_eigh(x, values, vectors):
    eps = np.finfo(to_numpy(vectors).dtype).eps
    v, w = wide(vectors), wide(values)[..., None, :]
    size = np.max(np.abs(x), initial=0.0) * x.shape[-1]
    assert np.all(np.abs(x @ v - v * w) <= 4 * eps * size)
    assert np.all(np.abs(adjoint(v) @ v - np.eye(x.shape[-1])) <= 2 * eps)
    assert np.all(np.diff(to_numpy(values)) >= 0)


def test_eigenvalues_are_exact_where_they_can_be():
    assert linalg.eigvalsh(from_numpy(DEGENERATE["repeated"])) == [2.0, 2.0, 5.0]
    assert linalg.eigvalsh(from_numpy(DEGENERATE["zero"])) == [0.0, 0.0, 0.0]
    assert linalg.eigvalsh(from_numpy(DEGENERATE["ones"])) == [0.0, 0.0, 3.0]
    assert linalg.eigvalsh(from_numpy(DEGENERATE["exchange"])) == [-1.0, 1.0, 1.0]
    graded = linalg.eigvalsh(from_numpy(DEGENERATE["graded"])).values
    with mpmath.workdps(500):
        a, d = mpmath.mpf(1e200), mpmath.mpf(1e-200)
        root = mpmath.sqrt((a - d) ** 2 + 4)
        both = sorted([float((a + d - root) / 2), float((a + d + root) / 2), 1e-300])
    assert graded == both


def test_eigh_reads_the_lower_triangle():
    x = np.array([[1.0 + 5j, 99.0], [2.0 - 1j, 3.0]])
    clean = np.array([[1.0, 2.0 + 1j], [2.0 - 1j, 3.0]])
    assert linalg.eigh(from_numpy(x)) == linalg.eigh(from_numpy(clean))


@pytest.mark.parametrize("dtype", FLOATING)
def test_eig_of_random_matrices(dtype):
    x = sample(2, 5, 5, dtype=dtype)
    values, vectors = linalg.eig(from_numpy(x))
    assert values.dtype is vectors.dtype is _dtypes.complex_of(_dtypes.as_dtype(dtype))
    assert_eig(x, values, vectors)
    expected = np.linalg.eigvals(x.astype(np.complex128))
    order = np.lexsort((expected.imag, np.round(expected.real, 6)))
    expected = np.take_along_axis(expected, order, axis=-1)
    assert_close(values, expected.astype(to_numpy(values).dtype))
    assert linalg.eigvals(from_numpy(x)) == values


@pytest.mark.parametrize("name", SQUARE)
def test_eig_of_degenerate_matrices(name):
    x = np.array(DEGENERATE[name])
    values, vectors = linalg.eig(from_numpy(x))
    assert_eig(x, values, vectors)
    # All of them are diagonalizable: the eigenvectors span the space.
    assert np.linalg.matrix_rank(to_numpy(vectors)) == len(x)


def assert_eig(x, values, vectors):
    eps = np.finfo(to_numpy(vectors).dtype).eps
    v, w = wide(vectors), wide(values)[..., None, :]
    size = np.max(np.abs(x), initial=0.0) * x.shape[-1]
    assert np.all(np.abs(x @ v - v * w) <= 4 * eps * size)
    np.testing.assert_allclose(np.sum(np.abs(v) ** 2, axis=-2).astype(float), 1, atol=4 * eps)


def test_eigenvalues_of_real_matrices_come_in_pairs_without_noise():
    x = from_numpy(np.array([[0.0, -2.0], [2.0, 0.0]]))
    values, vectors = linalg.eig(x)
    assert values == [-2j, 2j]
    half = math.sqrt(0.5)
    assert vectors == [[half + 0j, half + 0j], [half * 1j, -half * 1j]]
    random = linalg.eigvals(from_numpy(sample(6, 6, seed=3))).values
    assert sorted(map(str, random)) == sorted(
        str(z.conjugate()) if z.imag else str(z) for z in random
    )


@pytest.mark.parametrize(
    ("x", "values"),
    [
        ([[1.0, 1.0], [0.0, 1.0]], [1 + 0j, 1 + 0j]),
        ([[3.0, 1.0], [-1.0, 1.0]], [2 + 0j, 2 + 0j]),
        ([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, -3.0, 3.0]], [1 + 0j] * 3),
        ([[0.0, 1.0], [0.0, 0.0]], [0j, 0j]),
        ([[1j, 1.0], [0.0, 1j]], [1j, 1j]),
        ([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [1.0, 0.0, 3.0]], [2 + 0j, 2 + 0j, 3 + 0j]),
        ([[1.0, 0.0], [0.0, 1e-30]], [1e-30 + 0j, 1 + 0j]),
    ],
)
def test_repeated_and_defective_eigenvalues_are_exact(x, values):
    x = np.array(x)
    found, vectors = linalg.eig(from_numpy(x))
    assert found == values
    assert linalg.eigvals(from_numpy(x)) == values
    assert_eig(x, found, vectors)


def test_a_block_of_repeated_eigenvalues_has_orthonormal_vectors():
    vectors = to_numpy(linalg.eig(from_numpy(np.eye(4))).eigenvectors)
    np.testing.assert_array_equal(adjoint(vectors) @ vectors, np.eye(4))


def test_empty_stacks_of_eigenproblems():
    for shape in ((0, 2, 2), (3, 0, 0)):
        x = from_numpy(np.zeros(shape))
        assert linalg.eigh(x).eigenvalues.shape == linalg.eigvals(x).shape == shape[:-1]
        assert linalg.eigh(x).eigenvectors.shape == linalg.eig(x).eigenvectors.shape == shape


# ------------------------------------------------------------------ singular values


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 2), (2, 4), (1, 3), (3, 0), (0, 3), (2, 0, 0)])
@pytest.mark.parametrize("dtype", FLOATING)
def test_svd_of_random_matrices(dtype, shape, full):
    x = sample(*shape, dtype=dtype)
    ours = linalg.svd(from_numpy(x), full_matrices=full)
    theirs = np.linalg.svd(x, full_matrices=full)
    assert [part.shape for part in ours] == [part.shape for part in theirs]
    assert [part.dtype.name for part in ours] == [part.dtype.name for part in theirs]
    assert_close(ours.S, theirs.S)
    assert_svd(x, *ours)
    assert linalg.svdvals(from_numpy(x)) == ours.S


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", DEGENERATE)
def test_svd_of_degenerate_matrices(name, full):
    x = np.array(DEGENERATE[name])
    u, s, vh = linalg.svd(from_numpy(x), full_matrices=full)
    assert_svd(x, u, s, vh)
    # Exactly as many as the rank are not zero, which doubles do not see in "graded".
    rank = {"zero": 0, "ones": 1, "rank two": 2, "zero column": 2, "wide": 1, "tall": 1}
    assert sum(value > 0 for value in s.values) == rank.get(name, min(x.shape))


def assert_svd(x, u, s, vh):
    eps = np.finfo(to_numpy(u).dtype).eps
    k = s.shape[-1]
    product = (wide(u)[..., :k] * wide(s)[..., None, :]) @ wide(vh)[..., :k, :]
    assert np.all(np.abs(product - x) <= 4 * eps * np.max(to_numpy(s), initial=0.0))
    for vectors in (wide(u), adjoint(wide(vh))):
        gram = adjoint(vectors) @ vectors
        assert np.all(np.abs(gram - np.eye(gram.shape[-1])) <= 2 * eps)
    assert np.all(np.diff(to_numpy(s)) <= 0)


def test_singular_values_are_exact_where_they_can_be():
    assert linalg.svdvals(from_numpy(DEGENERATE["row"])) == [5.0]
    assert linalg.svdvals(from_numpy(DEGENERATE["tall"])) == [3.0, 0.0]
    assert linalg.svdvals(from_numpy(np.diag([1e-200, -1e200]))) == [1e200, 1e-200]


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 2), (2, 4), (3, 0), (0, 3), (0, 2, 2)])
def test_pinv_and_rank_as_numpy(shape, dtype):
    x = sample(*shape, dtype=dtype)
    assert_close(linalg.pinv(from_numpy(x)), np.linalg.pinv(x), ulps=100)
    rank = linalg.matrix_rank(from_numpy(x))
    assert rank.dtype is _dtypes.int64
    # NumPy 2.4.0 and before raise ValueError where there is no singular value.
    expected = np.linalg.matrix_rank(x) if x.size else np.zeros(shape[:-2])
    np.testing.assert_array_equal(to_numpy(rank), expected)


@pytest.mark.parametrize("name", [name for name in DEGENERATE if name != "graded"])
def test_pinv_of_degenerate_matrices(name):
    x = np.array(DEGENERATE[name])
    ours = linalg.pinv(from_numpy(x))
    assert_close(ours, np.linalg.pinv(x))
    inverse = wide(ours)
    eps = np.finfo(np.float64).eps * 16
    assert np.all(np.abs(x @ inverse @ x - x) <= eps)
    assert linalg.matrix_rank(from_numpy(x)) == int(np.linalg.matrix_rank(x))


def test_tolerances():
    x = np.stack([np.diag([1.0, 0.5, 0.0]), np.diag([4.0, 1.0, 1.0])])
    rank = linalg.matrix_rank
    assert rank(from_numpy(x)) == [2, 3]
    assert rank(from_numpy(x), rtol=0.25) == [2, 1]
    assert rank(from_numpy(x), rtol=from_numpy(np.array([0.5, 0.1]))) == [1, 3]
    assert rank(from_numpy(x[1]), rtol=from_numpy(np.array([[0.25], [0.2]]))) == [[1], [3]]
    assert linalg.pinv(from_numpy(x[1]), rtol=0.25) == [[0.25, 0, 0], [0, 0, 0], [0, 0, 0]]
    both = linalg.pinv(from_numpy(x), rtol=from_numpy(np.array([0.5, 0.1])))
    np.testing.assert_array_equal(
        to_numpy(both), [np.diag([1.0, 0.0, 0.0]), np.diag([0.25, 1.0, 1.0])]
    )
    # Without a tolerance nothing is negligible but zero.
    assert rank(from_numpy(np.array(DEGENERATE["graded"])), rtol=0.0) == 3
    assert rank(from_numpy(np.array(DEGENERATE["rank two"])), rtol=0.0) == 2
    assert linalg.pinv(from_numpy(np.diag([1e200, 1e-200])), rtol=0.0) == [
        [float(1 / Fraction(1e200)), 0.0],
        [0.0, float(1 / Fraction(1e-200))],
    ]
    with pytest.raises(TypeError, match="matrix_rank: rtol has dtype int64"):
        rank(from_numpy(x), rtol=from_numpy(np.array([1, 2])))
    with pytest.raises(ValueError, match="matrix_rank: operands have shapes"):
        rank(from_numpy(x), rtol=from_numpy(np.ones(3)))
