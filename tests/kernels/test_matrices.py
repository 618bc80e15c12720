"""Products of matrices: values, dtypes, what is not read, and bad input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from tests.kernels.libraries import Kind, check, device_kinds, host, kinds, select
from tests.kernels.test_attention import sample

every = pytest.mark.parametrize(
    "kind",
    [*(k for k in kinds() if "reference" in k.id and "compiled" not in k.id), *device_kinds()],
)


@every
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 4), (2, 33, 7), (0, 3, 2), (3, 0, 2)])
def test_gemm(kind: Kind, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    for dtype in kind.dtypes:
        a, b, c = (
            kind.array(sample(*s, seed=i), dtype) for i, s in enumerate(((m, k), (k, n), (m, n)))
        )
        left, right, added = map(host, (a, b, c))
        terms = np.abs(left) @ np.abs(right)
        check(a, kernels.gemm(a, b), left @ right, dtype, terms)
        expected = -1.5 * (left @ right) + 0.25 * added
        scale = 1.5 * terms + 0.25 * np.abs(added)
        check(a, kernels.gemm(a, b, alpha=-1.5, beta=0.25, c=c), expected, dtype, scale)
        y = kind.array(sample(m, seed=4), dtype)
        found = kernels.gemv(a, b[:, 0], alpha=2, beta=-1.0, y=y)
        scale = 2 * terms[:, 0] + np.abs(host(y))
        check(a, found, 2 * left @ right[:, 0] - host(y), dtype, scale)


@every
def test_what_has_no_share_is_not_read(kind: Kind) -> None:
    a, b, c = (kind.array(x, "float32") for x in (np.ones((2, 3)), np.ones((3, 2)), np.eye(2)))
    nan = kind.array(np.full((2, 2), np.nan), "float32")
    assert (host(kernels.gemm(a, b, c=nan)) == 3).all()
    assert np.isnan(host(kernels.gemm(a, b, alpha=0.0, beta=1.0, c=nan))).all()
    assert np.isnan(host(kernels.gemm(nan, nan, alpha=0.0))).all()
    assert (host(kernels.gemm(a, b, alpha=0.0, beta=2.0, c=c)) == 2 * np.eye(2)).all()


@every
@pytest.mark.parametrize("factor", [1e39, -1e39])
def test_factors_beyond_the_dtype(kind: Kind, factor: float) -> None:
    """They are not infinite, which would give NaN beside zeros."""
    a, c = kind.array([[1.0, 0.0], [0.0, 1.0]], "float32"), kind.array(np.zeros((2, 2)), "float32")
    most = math.copysign(np.finfo("f4").max, factor)
    expected = [[most, 0.0], [0.0, most]]
    assert host(kernels.gemm(a, a, alpha=factor, beta=factor, c=c)).tolist() == expected
    assert host(kernels.gemv(a, a[0, :], alpha=factor)).tolist() == expected[0]
    scores = kernels.attention_scores(a[None, None, :, :], a[None, None, :, :], scale=factor)
    assert host(scores).tolist() == [[expected]]


@every
def test_products_of_vectors(kind: Kind) -> None:
    for dtype in kind.dtypes:
        matrix, x = kind.array(sample(5, 7), dtype), kind.array(sample(2, 3, 7), dtype)
        terms = np.abs(host(x)) @ np.abs(host(matrix)).T
        check(x, kernels.matmul_vec(matrix, x), host(x) @ host(matrix).T, dtype, terms)
        one = kernels.matmul_vec(matrix, x[0, 1, :])
        check(x, one, host(matrix) @ host(x)[0, 1], dtype, terms[0, 1])

        weights, rows = kind.array(sample(2, 4), dtype), kind.array(sample(2, 4, 3), dtype)
        expected = np.einsum("bn,bnd->bd", host(weights), host(rows))
        terms = np.einsum("bn,bnd->bd", np.abs(host(weights)), np.abs(host(rows)))
        check(weights, kernels.weighted_sum_rows(weights, rows), expected, dtype, terms)
        one = kernels.weighted_sum_rows(weights[0, :], rows[0, :, :])
        check(weights, one, expected[0], dtype, terms[0])


compiled = pytest.mark.parametrize(
    "kind", [k for k in kinds() if "compiled" in k.id], indirect=True
)


@compiled
@pytest.mark.parametrize("vectors", [1, 2, 3, 64, 65])
@pytest.mark.parametrize(("rows", "size"), [(1, 1), (5, 7), (64, 33), (131, 300)])
def test_products_of_words(kind: Kind, vectors: int, rows: int, size: int) -> None:
    for dtype in kind.dtypes:
        matrix, x = kind.array(sample(rows, size), dtype), kind.array(sample(vectors, size), dtype)
        terms = np.abs(host(x)) @ np.abs(host(matrix)).T
        check(x, kernels.matmul_vec(matrix, x), host(x) @ host(matrix).T, dtype, terms)
        ran = corepy.explain(kernels.matmul_vec, matrix, x).records[0].backend
        if ran != "torch" or kind.library != "torch":  # as it does large products of bfloat16
            assert (ran == "numba") is (dtype in ("float16", "bfloat16"))
        turned = kind.array(sample(size, rows), dtype).T
        terms = np.abs(host(x)) @ np.abs(host(turned)).T
        check(x, kernels.matmul_vec(turned, x), host(x) @ host(turned).T, dtype, terms)
        y = kind.array(sample(rows, seed=4), dtype)
        scale = 0.5 * np.abs(host(matrix)) @ np.abs(host(x))[0] + 3.0 * np.abs(host(y))
        found = kernels.gemv(matrix, x[0, :], alpha=0.5, beta=-3.0, y=y)
        check(x, found, 0.5 * (host(matrix) @ host(x)[0]) - 3.0 * host(y), dtype, scale)


@compiled
@pytest.mark.parametrize(
    ("dtype", "vectors", "few"),
    [("float32", v, 1 < v < 33) for v in (1, 2, 7, 32, 33)]
    + [("float64", v, 1 < v < 9) for v in (1, 3, 8, 9)],
)
def test_products_with_a_large_matrix(kind: Kind, dtype: str, vectors: int, few: bool) -> None:
    matrix, x = kind.array(sample(1025, 1031), dtype), kind.array(sample(vectors, 1031), dtype)
    terms = np.abs(host(x)) @ np.abs(host(matrix)).T
    check(x, kernels.matmul_vec(matrix, x), host(x) @ host(matrix).T, dtype, terms)
    ran = corepy.explain(kernels.matmul_vec, matrix, x).records[0].backend
    assert (ran == "numba") is few


@compiled
@pytest.mark.parametrize("vectors", [2, 9])
def test_products_with_long_rows(kind: Kind, vectors: int) -> None:
    """In one go a sum of so many that round the same way was off by 5e-4."""
    matrix = kind.array(np.full((5, 1 << 20), 0.1), "float32")
    x = kind.array(np.full((vectors, 1 << 20), 2.0**-10), "float32")
    check(x, kernels.matmul_vec(matrix, x), host(x) @ host(matrix).T, "float32")
    uneven = slice(3, (1 << 15) + 18)  # a stretch, and what is no multiple of vector registers
    matrix = kind.array(sample(37, 1 << 16)[:, uneven], "float32")
    x = kind.array(sample(vectors, 1 << 16)[:, uneven], "float32")
    terms = np.abs(host(x)) @ np.abs(host(matrix)).T
    check(x, kernels.matmul_vec(matrix, x), host(x) @ host(matrix).T, "float32", terms)


@pytest.mark.parametrize("kind", [k for k in kinds("numpy", "torch") if "compiled" in k.id])
def test_matrices_by_columns_are_left_to_blas(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """To copy one takes fifty times as long as its product."""
    select(monkeypatch, kind)
    for dtype in kind.dtypes:
        wide = dtype in ("float32", "float64")
        size = 1030 if wide else 40
        matrix, x = kind.array(sample(size, size), dtype), kind.array(sample(3, size), dtype)
        for m, few in ((matrix, True), (matrix.T, not wide), (matrix[::2, :], not wide)):
            terms = np.abs(host(x)) @ np.abs(host(m)).T
            check(x, kernels.matmul_vec(m, x), host(x) @ host(m).T, dtype, terms)
            if m.shape[0] == size:
                ran = corepy.explain(kernels.matmul_vec, m, x).records[0].backend
                assert (ran == "numba") is few


@compiled
def test_special_values_in_words(kind: Kind) -> None:
    for dtype in kind.dtypes:
        special = np.asarray([[np.nan, 0.0], [np.inf, 1.0], [-np.inf, 1.0], [0.0, -0.0]])
        matrix, x = kind.array(special, dtype), kind.array(np.asarray([1.0, 0.0]), dtype)
        found = host(kernels.matmul_vec(matrix, x))
        np.testing.assert_array_equal(found, [np.nan, np.inf, -np.inf, 0.0])
        found = host(kernels.gemv(matrix, kind.array(np.asarray([0.0, 1.0]), dtype)))
        np.testing.assert_array_equal(found, [np.nan, np.nan, np.nan, 0.0])


@pytest.mark.parametrize("kind", device_kinds())
def test_many_tiles(kind: Kind) -> None:
    a, b = (kind.array(sample(*s), "float32") for s in ((130, 45), (70, 45)))
    left, right = host(a), host(b).T
    terms = np.abs(left) @ np.abs(right)
    check(a, kernels.matmul_vec(b, a), left @ right, "float32", terms)
    other = kind.array(np.ascontiguousarray(right), "float32")
    check(a, kernels.gemm(a, other, alpha=0.5), 0.5 * left @ right, "float32", terms)


@every
def test_scores(kind: Kind) -> None:
    for dtype in kind.dtypes:
        q, k = kind.array(sample(2, 6, 3, 4), dtype), kind.array(sample(2, 2, 5, 4), dtype)
        wide = np.repeat(host(k), 3, axis=1).swapaxes(2, 3)
        for options, scale in (({}, 0.5), ({"scale": -3.0}, -3.0)):
            expected = scale * host(q) @ wide
            terms = abs(scale) * np.abs(host(q)) @ np.abs(wide)
            check(q, kernels.attention_scores(q, k, **options), expected, dtype, terms)


@pytest.mark.parametrize("kind", kinds("numpy", "torch", "array"))
def test_out(kind: Kind) -> None:
    a, c = kind.array(sample(3, 3), "float32"), kind.array(sample(3, 3, seed=1), "float32")
    expected = host(kernels.gemm(a, a, beta=1.0, c=c))
    assert kernels.gemm(a, a, beta=1.0, c=c, out=c) is c
    np.testing.assert_array_equal(host(c), expected)
    out = kind.array(np.zeros(3), "float32")
    assert kernels.gemv(a, a[0, :], out=out) is out
    np.testing.assert_array_equal(host(out), host(kernels.gemv(a, a[0, :])))
    assert kernels.matmul_vec(a, a[0, :], out=out) is out
    assert kernels.weighted_sum_rows(a[0, :], a, out=out) is out
    scores = kind.array(np.zeros((1, 1, 3, 3)), "float32")
    q = a[None, None, :, :]
    assert kernels.attention_scores(q, q, out=scores) is scores
    assert (host(scores) != 0).all()


@pytest.mark.parametrize("kind", kinds("numpy", "torch"), indirect=True)
def test_out_in_words(kind: Kind) -> None:
    """It may lie over an operand."""
    for dtype in ("float16", "bfloat16") if "bfloat16" in kind.dtypes else ("float16",):
        a, x = kind.array(sample(5, 5), dtype), kind.array(sample(5, seed=1), dtype)
        expected, own = host(kernels.gemv(a, x, alpha=0.5, beta=2.0, y=x)), host(a)
        assert kernels.gemv(a, x, alpha=0.5, beta=2.0, y=x, out=x) is x
        np.testing.assert_array_equal(host(x), expected)
        row = a[1, :]
        assert kernels.matmul_vec(a, x, out=row) is row
        np.testing.assert_array_equal(
            host(row), host(kernels.matmul_vec(kind.array(own, dtype), x))
        )
        column = kind.array(sample(5, 5), dtype)[:, 2]
        assert kernels.matmul_vec(a, x, out=column) is column
        np.testing.assert_array_equal(host(column), host(kernels.matmul_vec(a, x)))


@pytest.mark.parametrize("kind", [*kinds("numpy", "torch", "jax", "array"), *device_kinds()])
def test_results_that_no_memory_holds(kind: Kind) -> None:
    """For these, of operands without depth, XLA would work for ever, or end the process."""
    tall, flat = (kind.array(np.zeros(shape), "float32") for shape in ((2**31, 0), (0, 2**31)))
    for name, call in {
        "gemm": lambda: kernels.gemm(tall, flat),
        "matmul_vec": lambda: kernels.matmul_vec(tall, tall),
    }.items():
        with pytest.raises(MemoryError, match=f"^{name}: its results have {2**62} elements"):
            call()


A, B, V = np.ones((2, 3)), np.ones((3, 4)), np.ones(3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: kernels.gemm(V, B), ValueError, "gemm: a has shape (3,); expected (rows, size)"),
        (lambda: kernels.gemm(A, A), ValueError, "gemm: b has shape (2, 3); expected (3, columns)"),
        (lambda: kernels.gemm(A, B.astype("f4")), TypeError, "gemm: b has dtype float32 on cpu; e"),
        (lambda: kernels.gemm(A, B, beta=1.0), ValueError, "gemm: beta is 1.0; expected 0, or c"),
        (
            lambda: kernels.gemm(A, B, alpha=np.inf),
            ValueError,
            "gemm: alpha is inf; expected a fin",
        ),
        (lambda: kernels.gemm(A, B, alpha="2"), TypeError, "gemm: alpha is of type str; expected"),
        (lambda: kernels.gemm(A, B, c=A), ValueError, "gemm: c has shape (2, 3); expected (2, 4)"),
        (
            lambda: kernels.gemm(A, B, out=A),
            ValueError,
            "gemm: out has shape (2, 3); expected (2, ",
        ),
        (
            lambda: kernels.gemv(A, B),
            ValueError,
            "gemv: x has shape (3, 4); expected (3,) beside a",
        ),
        (lambda: kernels.gemv(A, V, y=V), ValueError, "gemv: y has shape (3,); expected (2,)"),
        (lambda: kernels.gemv([1], V), TypeError, "gemv: a is of type list; expected an array"),
        (
            lambda: kernels.matmul_vec(A, B),
            ValueError,
            "matmul_vec: matrix has shape (2, 3); expected (rows, 4) beside x of shape (3, 4)",
        ),
        (
            lambda: kernels.weighted_sum_rows(V, A),
            ValueError,
            "weighted_sum_rows: rows has shape (2, 3); expected (3, size) beside weights",
        ),
        (
            lambda: kernels.attention_scores(np.ones((1, 3, 2, 4)), np.ones((1, 2, 2, 4))),
            ValueError,
            "attention_scores: k has 2 heads in shape (1, 2, 2, 4); expected a divisor of the 3",
        ),
        (
            lambda: kernels.attention_scores(np.ones((1, 2, 2, 4)), np.ones((2, 2, 2, 4))),
            ValueError,
            "attention_scores: k has shape (2, 2, 2, 4); expected a batch of 1",
        ),
    ],
)
def test_bad_input(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
