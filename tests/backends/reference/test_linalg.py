"""Linear algebra that is exact: products, systems, powers, determinants and norms."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from corepy import _dtypes
from tests.backends.reference.matrices import (
    DEGENERATE,
    FLOATING,
    assert_close,
    sample,
    to_numpy,
)
from tests.backends.reference.values import from_numpy
from tests.conftest import required

mpmath = required("mpmath")

from corepy.backends.reference import linalg  # noqa: E402  it imports mpmath

# ------------------------------------------------------------------ cross, outer, diagonal, trace


@pytest.mark.parametrize("dtype", ["int8", "uint64", "int64", *FLOATING])
def test_cross_as_numpy(dtype):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 100, size=size).astype(dtype) for size in ((2, 3, 4), (3, 1)))
    ours = linalg.cross(from_numpy(a), from_numpy(b), axis=-2)
    theirs = np.linalg.cross(a, np.broadcast_to(b, a.shape), axis=-2)
    assert ours.dtype.name == dtype
    np.testing.assert_array_equal(to_numpy(ours), theirs)


def test_cross_of_integers_wraps_and_floats_round_once():
    a, b = np.array([100, 100, 0], dtype=np.int8), np.array([-100, 100, 0], dtype=np.int8)
    assert linalg.cross(from_numpy(a), from_numpy(b)).values == [0, 0, 20000 % 256]
    # a*d - b*c cancels all but the rounding errors of its products.
    x, y = 1.0 + 2.0**-30, 1.0 - 2.0**-30
    ours = linalg.cross(from_numpy(np.array([x, 1.0, 0.0])), from_numpy(np.array([1.0, y, 0.0])))
    assert ours.values == [0.0, 0.0, -(2.0**-60)]


def test_cross_of_complex_numbers():
    a, b = sample(3, dtype="complex128"), sample(3, dtype="complex128", seed=1)
    assert_close(linalg.cross(from_numpy(a), from_numpy(b)), np.linalg.cross(a, b), ulps=4)


def test_outer():
    a, b = sample(3), sample(2, seed=1)
    np.testing.assert_array_equal(
        to_numpy(linalg.outer(from_numpy(a), from_numpy(b))), np.outer(a, b)
    )
    big = from_numpy(np.array([200, 3], dtype=np.uint8))
    assert linalg.outer(big, big) == [[40000 % 256, 600 % 256], [600 % 256, 9]]
    mixed = linalg.outer(from_numpy(np.array([1, 2], dtype=np.int8)), from_numpy(np.array([300])))
    assert mixed.dtype is _dtypes.int64
    assert mixed == [[300], [600]]


@pytest.mark.parametrize("offset", [-9, -3, -1, 0, 1, 2, 4, 9])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 3, 4), (0, 3), (2, 0, 0)])
def test_diagonal_and_trace_as_numpy(shape, offset):
    x = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    ours = linalg.diagonal(from_numpy(x), offset=offset)
    assert ours.dtype is _dtypes.int32
    np.testing.assert_array_equal(to_numpy(ours), np.linalg.diagonal(x, offset=offset))
    total = linalg.trace(from_numpy(x), offset=offset)
    assert total.dtype is _dtypes.int64
    np.testing.assert_array_equal(to_numpy(total), np.linalg.trace(x, offset=offset))


def test_diagonal_of_booleans():
    x = from_numpy(np.array([[True, False], [True, False]]))
    assert linalg.diagonal(x) == [True, False]


def test_trace_dtypes():
    x = from_numpy(np.full((2, 2), 200, dtype=np.uint8))
    assert linalg.trace(x).dtype is _dtypes.uint64
    assert linalg.trace(x) == 400
    assert linalg.trace(x, dtype=_dtypes.uint8) == 400 % 256
    single = linalg.trace(from_numpy(np.eye(3, dtype=np.float32)))
    assert single.dtype is _dtypes.float32
    assert single == 3.0
    assert linalg.trace(from_numpy(np.diag([1e100, 1.0, -1e100]))) == 1.0


# ------------------------------------------------------------------ determinants


def exact_determinant(rows):
    """Expand by the first row."""
    if not rows:
        return Fraction(1)
    minors = ([row[:j] + row[j + 1 :] for row in rows[1:]] for j in range(len(rows)))
    return sum(
        (-1) ** j * Fraction(rows[0][j]) * exact_determinant(minor)
        for j, minor in enumerate(minors)
    )


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_det_is_the_nearest_double(n):
    x = sample(n, n, seed=n)
    assert linalg.det(from_numpy(x)).values == [float(exact_determinant(x.tolist()))]


@pytest.mark.parametrize("dtype", FLOATING)
def test_det_and_slogdet_as_numpy(dtype):
    x = sample(2, 3, 4, 4, dtype=dtype)
    assert_close(linalg.det(from_numpy(x)), np.linalg.det(x))
    sign, logarithm = linalg.slogdet(from_numpy(x))
    assert sign.dtype.name == dtype
    assert logarithm.dtype is _dtypes.real_of(sign.dtype)
    assert_close(sign, np.linalg.slogdet(x).sign)
    assert_close(logarithm, np.linalg.slogdet(x).logabsdet)


def test_det_of_what_doubles_cannot_tell_from_singular():
    # Cancellation in doubles gives 0 or noise; exactly it is (1 + e)**2 - (1 + 2 e) = e**2.
    e = 2.0**-40
    x = from_numpy(np.array([[1 + e, 1 + 2 * e], [1.0, 1 + e]]))
    assert linalg.det(x) == e * e
    assert linalg.slogdet(x).logabsdet == float(2 * mpmath.log(mpmath.mpf(e)))
    assert linalg.det(from_numpy(DEGENERATE["rank two"])) == 0.0


def test_det_at_the_ends_of_the_range():
    assert linalg.det(from_numpy(np.diag([1e300, 1e-300, 2.0]))) == float(
        2 * Fraction(1e300) * Fraction(1e-300)
    )
    assert linalg.det(from_numpy(np.diag([1e300, -1e300]))) == -math.inf
    sign, logarithm = linalg.slogdet(from_numpy(np.diag([1e300, -1e300])))
    assert sign == -1.0
    assert logarithm == float(2 * mpmath.log(mpmath.mpf(1e300)))


def test_slogdet_of_singular_and_empty_matrices():
    for dtype in ("float64", "complex128"):
        sign, logarithm = linalg.slogdet(from_numpy(np.zeros((2, 2), dtype=dtype)))
        assert sign == 0.0
        assert logarithm == -math.inf
    empty = from_numpy(np.zeros((2, 0, 0)))
    assert linalg.det(empty) == [1.0, 1.0]
    assert linalg.slogdet(empty).sign == [1.0, 1.0]
    assert linalg.slogdet(empty).logabsdet == [0.0, 0.0]


def test_slogdet_near_one_keeps_its_digits():
    x = from_numpy(np.array([[1.0 + 2.0**-52]]))
    assert linalg.slogdet(x).logabsdet == math.log1p(2.0**-52)


# ------------------------------------------------------------------ systems


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((3, 3), (3,)),
        ((2, 3, 3), (3,)),
        ((3, 3, 3), (3, 3)),
        ((2, 1, 3, 3), (4, 3, 2)),
        ((3, 3), (5, 3, 1)),
        ((0, 3, 3), (3, 2)),
        ((2, 0, 0), (2, 0, 3)),
        ((0, 0), (0,)),
        ((3, 3), (3, 0)),
    ],
)
def test_solve_as_numpy(first, second, dtype):
    a, b = sample(*first, dtype=dtype), sample(*second, dtype=dtype, seed=1)
    ours = linalg.solve(from_numpy(a), from_numpy(b))
    assert ours.dtype.name == dtype
    assert_close(ours, np.linalg.solve(a, b), ulps=200)


def test_solve_promotes():
    a, b = sample(2, 2, dtype="float32"), sample(2, dtype="complex64")
    assert linalg.solve(from_numpy(a), from_numpy(b)).dtype is _dtypes.complex64


def test_solve_is_the_nearest_double():
    hilbert = [[1.0 / (i + j + 1) for j in range(6)] for i in range(6)]
    ours = linalg.solve(from_numpy(hilbert), from_numpy(np.ones(6)))
    whole = exact_determinant(hilbert)
    for j in range(6):
        replaced = [[*row[:j], 1.0, *row[j + 1 :]] for row in hilbert]
        assert ours.values[j] == float(exact_determinant(replaced) / whole)  # Cramer's rule


@pytest.mark.parametrize("dtype", FLOATING)
def test_inv_as_numpy(dtype):
    x = sample(2, 4, 4, dtype=dtype)
    assert_close(linalg.inv(from_numpy(x)), np.linalg.inv(x), ulps=200)


def test_inv_of_numbers_of_every_size():
    x = np.array([[0.0, 1e300, 0.0], [4e-300, 0.0, 0.0], [0.0, 0.0, -5e-324]])
    inverse = to_numpy(linalg.inv(from_numpy(x)))
    expected = np.zeros((3, 3))
    expected[0, 1] = float(1 / Fraction(4e-300))
    expected[1, 0] = float(1 / Fraction(1e300))
    expected[2, 2] = -math.inf
    np.testing.assert_array_equal(inverse, expected)


@pytest.mark.parametrize("name", ["zero", "ones", "rank two", "zero column"])
def test_singular_matrices_are_named(name):
    good = np.eye(3)
    x = from_numpy(np.array([[good, good], [good, np.array(DEGENERATE[name])]]))
    with pytest.raises(ValueError, match=r"^inv: x\[1, 1\] is singular; expected an invertible"):
        linalg.inv(x)
    with pytest.raises(ValueError, match=r"^solve: x1\[1, 1\] is singular"):
        linalg.solve(x, from_numpy(good))
    with pytest.raises(ValueError, match=r"^matrix_power: x\[1, 1\] is singular"):
        linalg.matrix_power(x, -2)


def test_solve_refuses_what_does_not_fit():
    a = from_numpy(np.eye(3))
    with pytest.raises(ValueError, match=r"solve: x2\.shape is \(2,\); expected \(3,\) or"):
        linalg.solve(a, from_numpy(np.ones(2)))
    with pytest.raises(ValueError, match="solve: operands have shapes"):
        linalg.solve(from_numpy(np.stack([np.eye(3)] * 2)), from_numpy(np.ones((3, 3, 1))))


# ------------------------------------------------------------------ powers


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 3, 10])
def test_matrix_power_as_numpy(n, dtype):
    x = sample(2, 3, 3, dtype=dtype)
    double = x.astype("complex128" if "complex" in dtype else "float64")
    ours = linalg.matrix_power(from_numpy(x), n)
    assert ours.dtype.name == dtype
    assert_close(ours, np.linalg.matrix_power(double, n), ulps=1 if "32" in dtype else 5000)


def test_matrix_power_is_exact():
    fibonacci = from_numpy(np.array([[1.0, 1.0], [1.0, 0.0]]))
    assert linalg.matrix_power(fibonacci, 70).values[1] == 190392490709135.0
    assert linalg.matrix_power(fibonacci, -3) == [[-1.0, 2.0], [2.0, -3.0]]
    tiny = from_numpy(np.diag([2.0**-500, -(2.0**500)]))
    assert linalg.matrix_power(tiny, 2) == [[2.0**-1000, 0.0], [0.0, 2.0**1000]]
    assert linalg.matrix_power(tiny, -2) == [[2.0**1000, 0.0], [0.0, 2.0**-1000]]
    assert linalg.matrix_power(tiny, 3) == [[0.0, 0.0], [0.0, -math.inf]]
    assert linalg.matrix_power(from_numpy(np.zeros((2, 0, 0))), -1).shape == (2, 0, 0)
    with pytest.raises(TypeError, match="matrix_power: n is of type float"):
        linalg.matrix_power(fibonacci, 2.0)


# ------------------------------------------------------------------ norms


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_matrix_norm_as_numpy(order, dtype):
    for shape in ((3, 3), (2, 3, 4), (2, 4, 1), (0, 2, 2)):
        x = sample(*shape, dtype=dtype)
        for keep in (False, True):
            ours = linalg.matrix_norm(from_numpy(x), ord=order, keepdims=keep)
            assert ours.dtype is _dtypes.real_of(_dtypes.as_dtype(dtype))
            assert_close(ours, np.linalg.matrix_norm(x, ord=order, keepdims=keep))


def test_matrix_norms_of_nothing():
    x = from_numpy(np.zeros((2, 0, 3)))
    for order in ("fro", "nuc", 1, -1, 2, math.inf):
        assert linalg.matrix_norm(x, ord=order) == [0.0, 0.0]
    for order in (-2, -math.inf):
        assert linalg.matrix_norm(x, ord=order) == [math.inf, math.inf]


def test_matrix_norms_round_once():
    tenths = from_numpy(np.full((10, 10), 0.1))
    assert linalg.matrix_norm(tenths, ord=1) == float(10 * Fraction(0.1))
    assert linalg.matrix_norm(tenths, ord="fro") == float(10 * Fraction(0.1))
    assert linalg.matrix_norm(tenths, ord=2) == float(10 * Fraction(0.1))
    assert linalg.matrix_norm(tenths, ord=-2) == 0.0
    assert linalg.matrix_norm(tenths, ord=None) == linalg.matrix_norm(tenths)
    huge = from_numpy(np.array([[3e300 + 4e300j]]))
    assert linalg.matrix_norm(huge) == float(mpmath.hypot(mpmath.mpf(3e300), mpmath.mpf(4e300)))
    with pytest.raises(ValueError, match="matrix_norm: ord is 3; expected fro, nuc, 1"):
        linalg.matrix_norm(tenths, ord=3)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("order", [0, 1, 2, 3, -1, -2, 0.5, -0.5, 7.25, 100, math.inf, -math.inf])
def test_vector_norm_as_numpy(order, dtype):
    x = sample(2, 3, 4, dtype=dtype)
    double = x.astype(np.complex128)
    for axis in (None, 1, -1, (0, 2), (2, 1), (0, 1, 2)):
        for keep in (False, True):
            ours = linalg.vector_norm(from_numpy(x), axis=axis, keepdims=keep, ord=order)
            theirs = np.linalg.vector_norm(double, axis=axis, keepdims=keep, ord=order)
            assert ours.dtype is _dtypes.real_of(_dtypes.as_dtype(dtype))
            assert_close(ours, theirs, ulps=64)


@pytest.mark.parametrize(
    ("x", "order", "norm"),
    [
        ([3.0, 4.0], 2, 5.0),
        ([3e-320, 4e-320], 2, 5e-320),
        ([1e308, 1e308, 1e308], 1, math.inf),
        ([3e300, 4e300], 2, float(mpmath.hypot(mpmath.mpf(3e300), mpmath.mpf(4e300)))),
        ([8.0, 8.0], 0.5, 32.0),
        ([0.0, 5.0, math.nan], 0, 2.0),
        ([2.0, math.nan], 2, math.nan),
        ([math.inf, math.nan], math.inf, math.nan),
        ([math.inf, 1.0], 2, math.inf),
        ([math.inf, 1.0], 0.5, math.inf),
        ([math.inf, 2.0, 2.0], -1, 1.0),
        ([math.inf, -math.inf], -3, math.inf),
        ([0.0, 2.0], -1, 0.0),
        ([0.0, 0.0], 3, 0.0),
        ([4.0, -2.0], -math.inf, 2.0),
        ([2.0, 2.0], 5e-324, math.inf),
        ([2.0, 2.0], -5e-324, 0.0),
        ([2.0], 5e-324, 2.0),
        ([], 2, 0.0),
        ([], math.inf, 0.0),
        ([], -math.inf, math.inf),
        ([], -1, math.inf),
        ([], 0, 0.0),
    ],
)
def test_special_vector_norms(x, order, norm):
    found = linalg.vector_norm(from_numpy(np.array(x, dtype=np.float64)), ord=order)
    np.testing.assert_equal(found.values, [norm])


def test_vector_norm_refuses():
    with pytest.raises(TypeError, match="vector_norm: x has dtype int64"):
        linalg.vector_norm(from_numpy(np.arange(3)))
    with pytest.raises(ValueError, match="vector_norm: ord is nan"):
        linalg.vector_norm(from_numpy(np.ones(3)), ord=math.nan)
    with pytest.raises(IndexError, match="vector_norm: axis is 1"):
        linalg.vector_norm(from_numpy(np.ones(3)), axis=1)


# ------------------------------------------------------------------ infinities, NaNs, refusals


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_special_values_spoil_their_matrix_only(dtype, bad):
    x = np.stack([np.eye(2), np.diag([2.0, bad])]).astype(dtype)
    array = from_numpy(x)
    results = [
        linalg.det(array),
        linalg.slogdet(array).logabsdet,
        linalg.inv(array),
        linalg.solve(array, from_numpy(np.ones(2, dtype=dtype))),
        linalg.matrix_power(array, 3),
        linalg.matrix_power(array, -1),
        linalg.eigvalsh(array),
        linalg.qr(array).Q,
        linalg.matrix_norm(array, ord=2),
    ]
    for result in results:
        values = to_numpy(result)
        assert np.isfinite(values[0]).all()
        assert np.isnan(values[1]).all()
    assert np.isnan(to_numpy(linalg.cholesky(array))[1]).tolist() == [[True, False], [True, True]]
    assert np.isnan(to_numpy(linalg.qr(array).R)[1]).tolist() == [[True, True], [False, True]]
    np.testing.assert_array_equal(to_numpy(linalg.matrix_power(array, 0)), [np.eye(2)] * 2)
    np.testing.assert_array_equal(to_numpy(linalg.matrix_power(array, 1)), x)
    for name in ("eig", "eigvals", "svd", "svdvals", "pinv", "matrix_rank"):
        with pytest.raises(ValueError, match=rf"^{name}: x\[1\] has infinities or NaNs; expected"):
            getattr(linalg, name)(array)


def test_a_special_right_side_spoils_its_column_only():
    b = from_numpy(np.array([[2.0, math.inf], [4.0, 1.0]]))
    solved = to_numpy(linalg.solve(from_numpy(2 * np.eye(2)), b))
    np.testing.assert_array_equal(solved, [[1.0, math.nan], [2.0, math.nan]])


@pytest.mark.parametrize(
    "name", ["cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "slogdet"]
)
def test_only_square_matrices(name):
    message = rf"{name}: x\.shape is \(2, 3\); expected \(\.\.\., M, M\)"
    with pytest.raises(ValueError, match=message):
        getattr(linalg, name)(from_numpy(np.ones((2, 3))))


@pytest.mark.parametrize(
    "name", ["cholesky", "det", "eig", "eigh", "inv", "matrix_norm", "pinv", "qr", "svd"]
)
def test_only_floating_matrices(name):
    function = getattr(linalg, name)
    with pytest.raises(TypeError, match=f"{name}: x has dtype int64 on cpu; expected a floating"):
        function(from_numpy(np.eye(2, dtype=np.int64)))
    with pytest.raises(ValueError, match=rf"{name}: x\.shape is \(3,\)"):
        function(from_numpy(np.ones(3)))


def test_products_refuse_what_does_not_fit():
    three, four = from_numpy(np.ones(3)), from_numpy(np.ones(4))
    with pytest.raises(ValueError, match=r"cross: x2\.shape is \(4,\); expected size 3"):
        linalg.cross(three, four)
    with pytest.raises(IndexError, match="cross: axis is -2"):
        linalg.cross(three, three, axis=-2)
    with pytest.raises(TypeError, match="cross: x1 has dtype bool"):
        linalg.cross(from_numpy(np.ones(3, dtype=bool)), from_numpy(np.ones(3, dtype=bool)))
    with pytest.raises(ValueError, match=r"outer: x2\.shape is \(1, 3\)"):
        linalg.outer(three, from_numpy(np.ones((1, 3))))
    with pytest.raises(ValueError, match=r"trace: x\.shape is \(3,\)"):
        linalg.trace(three)
    with pytest.raises(TypeError, match="diagonal: offset is of type float"):
        linalg.diagonal(from_numpy(np.eye(2)), offset=1.0)
