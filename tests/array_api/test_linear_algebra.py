"""Linear algebra: products agree with the oracle, decompositions are checked by their meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corepy.array_api as xp
from corepy._dtypes import DTYPES
from tests.helpers import (
    FLOATING,
    NAMES,
    NUMERIC,
    STANDARD,
    agrees,
    arrays,
    assert_same,
    assert_values,
    function,
    oracle,
    shapes,
    to_numpy,
    xps,
)

pytestmark = pytest.mark.usefixtures("backend")

INF = float("inf")
CLOSE = {"float32": 1e-4, "complex64": 1e-4, "float64": 1e-10, "complex128": 1e-10}


def tolerance(x: Any) -> float | None:
    return CLOSE.get(x.dtype.name)


# ---------------------------------------------------------------------------- products


@given(data=st.data())
def test_matmul(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(NUMERIC))
    pair = data.draw(xps.mutually_broadcastable_shapes(2, max_dims=1, max_side=2))
    m, k, n = data.draw(st.tuples(*[st.integers(1, 3)] * 3))
    left, right = data.draw(
        st.sampled_from(
            [
                ((*pair.input_shapes[0], m, k), (*pair.input_shapes[1], k, n)),
                ((k,), (*pair.input_shapes[1], k, n)),
                ((*pair.input_shapes[0], m, k), (k,)),
                ((k,), (k,)),
            ]
        )
    )
    a = data.draw(arrays((dtype,), shape=left, bound=5))
    b = data.draw(arrays((dtype,), shape=right, bound=5))
    result = agrees("matmul", a, b, tolerance=tolerance(a))
    assert_values(a @ b, result, tolerance(a))
    assert_values(xp.linalg.matmul(a, b), result, tolerance(a))


@given(x=arrays(NAMES, shape=shapes(min_dims=2)))
def test_matrix_transpose(x: Any) -> None:
    agrees("matrix_transpose", x)
    agrees("linalg.matrix_transpose", x)


@given(data=st.data())
def test_vecdot_conjugates_the_first(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(NUMERIC))
    shape = data.draw(shapes(min_dims=1))
    axis = data.draw(st.integers(-len(shape), -1))
    a, b = (data.draw(arrays((dtype,), shape=shape, bound=5)) for _ in range(2))
    result = xp.vecdot(a, b, axis=axis)
    expected = np.sum(np.conj(to_numpy(a)) * to_numpy(b), axis=axis, dtype=dtype)
    assert result.dtype is a.dtype
    assert_values(result, expected, tolerance(a))
    assert_values(xp.linalg.vecdot(a, b, axis=axis), expected, tolerance(a))


@given(data=st.data())
def test_tensordot(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(NUMERIC))
    shared = data.draw(shapes(max_dims=2, min_side=1))
    a = data.draw(arrays((dtype,), shape=(2, *shared), bound=4))
    b = data.draw(arrays((dtype,), shape=(*shared, 2), bound=4))
    count = len(shared)
    agrees("tensordot", a, b, tolerance=tolerance(a), axes=count)
    pairs = (tuple(range(1, count + 1)), tuple(range(count)))
    agrees("linalg.tensordot", a, b, tolerance=tolerance(a), axes=pairs)


@given(data=st.data())
def test_outer_and_cross(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(NUMERIC))
    n, m = data.draw(st.tuples(*[st.integers(0, 3)] * 2))
    a, b = (data.draw(arrays((dtype,), shape=(size,), bound=5)) for size in (n, m))
    agrees("linalg.outer", a, b, tolerance=tolerance(a))
    a, b = (data.draw(arrays((dtype,), shape=(2, 3), bound=5)) for _ in range(2))
    agrees("linalg.cross", a, b, tolerance=tolerance(a))


@given(x=arrays(NUMERIC, shape=shapes(min_dims=2), bound=5), offset=st.integers(-4, 4))
def test_diagonal_and_trace(x: Any, offset: int) -> None:
    values = to_numpy(x)
    diagonal = xp.linalg.diagonal(x, offset=offset)
    assert_values(diagonal, np.diagonal(values, offset, -2, -1))
    trace = xp.linalg.trace(x, offset=offset)
    assert trace.dtype is xp.sum(x).dtype
    assert_values(trace, to_numpy(xp.sum(diagonal, axis=-1)), tolerance(x))


# ---------------------------------------------------------------------------- decompositions


def matrices(rows: int, columns: int, dtype: str, seed: int) -> Any:
    """Make a well-conditioned stack of two matrices."""
    random = np.random.default_rng(seed)
    values = random.uniform(-1, 1, (2, rows, columns))
    if DTYPES[dtype].rank == 3:
        values = values + 1j * random.uniform(-1, 1, (2, rows, columns))
    if rows == columns:
        values = values + 3 * np.eye(rows)
    return xp.asarray(values.astype(dtype).tolist(), dtype=DTYPES[dtype])


def hermitian(n: int, dtype: str, seed: int) -> Any:
    x = matrices(n, n, dtype, seed)
    return xp.matmul(xp.conj(x).mT, x)


SQUARE = pytest.mark.parametrize(
    ("n", "dtype", "seed"), [(n, dtype, 7 * n) for n in (1, 2, 3) for dtype in FLOATING]
)


def identity(n: int) -> Any:
    return np.broadcast_to(np.eye(n), (2, n, n))


@SQUARE
def test_inverse_determinant_and_solution(n: int, dtype: str, seed: int) -> None:
    x = matrices(n, n, dtype, seed)
    close = CLOSE[dtype]
    assert_values(xp.matmul(x, xp.linalg.inv(x)), identity(n), close)
    right = matrices(n, 2, dtype, seed + 1)
    solution = xp.linalg.solve(x, right)
    assert_values(xp.matmul(x, solution), to_numpy(right), close)
    vector = right[0, :, 0]
    assert_values(xp.matmul(x[0, ...], xp.linalg.solve(x[0, ...], vector)), to_numpy(vector), close)
    det = xp.linalg.det(x)
    exact = to_numpy(xp.astype(x, xp.complex128 if x.dtype.rank == 3 else xp.float64))
    assert_values(det, np.linalg.det(exact), close * 10)
    sign, logarithm = xp.linalg.slogdet(x)
    assert logarithm.dtype.rank == 2
    assert_values(sign * xp.astype(xp.exp(logarithm), x.dtype), to_numpy(det), close)
    assert_values(xp.linalg.matrix_power(x, 3), to_numpy(x @ x @ x), close)
    assert_values(xp.linalg.matrix_power(x, -1), to_numpy(xp.linalg.inv(x)), close)
    assert_values(xp.linalg.matrix_power(x, 0), identity(n), close)


@SQUARE
def test_cholesky(n: int, dtype: str, seed: int) -> None:
    x = hermitian(n, dtype, seed)
    lower, upper = xp.linalg.cholesky(x), xp.linalg.cholesky(x, upper=True)
    assert_values(lower @ xp.conj(lower).mT, to_numpy(x), CLOSE[dtype])
    assert_values(xp.conj(upper).mT @ upper, to_numpy(x), CLOSE[dtype])
    assert_values(lower, to_numpy(xp.tril(lower)))
    assert_values(upper, to_numpy(xp.triu(upper)))


@SQUARE
def test_eigenvalues(n: int, dtype: str, seed: int) -> None:
    x = hermitian(n, dtype, seed)
    values, vectors = xp.linalg.eigh(x)
    assert values.dtype is {"float32": xp.float32, "complex64": xp.float32}.get(dtype, xp.float64)
    assert_values(xp.linalg.eigvalsh(x), to_numpy(values), CLOSE[dtype])
    assert bool(xp.all(values[:, 1:] >= values[:, :-1]))
    scaled = vectors * xp.astype(values, x.dtype)[:, None, :]
    assert_values(x @ vectors, to_numpy(scaled), CLOSE[dtype])
    assert_values(xp.conj(vectors).mT @ vectors, identity(n), CLOSE[dtype])
    general = matrices(n, n, dtype, seed)
    values, vectors = xp.linalg.eig(general)
    assert values.dtype.rank == vectors.dtype.rank == 3
    scaled = vectors * values[:, None, :]
    assert_values(xp.astype(general, values.dtype) @ vectors, to_numpy(scaled), CLOSE[dtype] * 10)
    total = xp.sum(xp.linalg.eigvals(general), axis=-1)
    assert_values(total, to_numpy(xp.linalg.trace(general)), CLOSE[dtype] * 10)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 2), (2, 3), (3, 3)])
def test_svd_qr_and_pseudo_inverse(rows: int, columns: int, dtype: str) -> None:
    x = matrices(rows, columns, dtype, 10 * rows + columns)
    close, least = CLOSE[dtype], min(rows, columns)
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    assert (u.shape, s.shape, vh.shape) == ((2, rows, least), (2, least), (2, least, columns))
    assert s.dtype.rank == 2
    assert_values((u * xp.astype(s, x.dtype)[:, None, :]) @ vh, to_numpy(x), close)
    assert_values(xp.linalg.svdvals(x), to_numpy(s), close)
    full = xp.linalg.svd(x)
    assert (full.U.shape, full.Vh.shape) == ((2, rows, rows), (2, columns, columns))
    assert_values(xp.conj(full.U).mT @ full.U, identity(rows), close)
    for mode, inner in (("reduced", least), ("complete", rows)):
        q, r = xp.linalg.qr(x, mode=mode)
        assert (q.shape, r.shape) == ((2, rows, inner), (2, inner, columns))
        assert_values(q @ r, to_numpy(x), close)
        assert_values(xp.conj(q).mT @ q, identity(inner), close)
        assert_values(r, to_numpy(xp.triu(r)))
    inverse = xp.linalg.pinv(x)
    assert_values(x @ inverse @ x, to_numpy(x), close)
    assert xp.linalg.matrix_rank(x).tolist() == [least, least]
    assert xp.linalg.matrix_rank(x, rtol=2.0).tolist() == [0, 0]


def test_results_of_decompositions_have_names() -> None:
    x = xp.eye(2)
    assert xp.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert xp.linalg.eig(x)._fields == ("eigenvalues", "eigenvectors")
    assert xp.linalg.qr(x)._fields == ("Q", "R")
    assert xp.linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert xp.linalg.svd(x)._fields == ("U", "S", "Vh")


# ---------------------------------------------------------------------------- norms


@pytest.mark.parametrize("order", [1, 2, INF, -1, -2, -INF, "fro", "nuc"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_matrix_norm(order: Any, keepdims: bool) -> None:
    for dtype in FLOATING:
        x = matrices(3, 2, dtype, 5)
        close = CLOSE[dtype]
        agrees("linalg.matrix_norm", x, ord=order, keepdims=keepdims, tolerance=close)


@pytest.mark.parametrize("order", [0, 1, 2, 3, -1, -2, 0.5, INF, -INF])
@given(data=st.data())
def test_vector_norm(order: Any, data: st.DataObject) -> None:
    x = data.draw(arrays(FLOATING, shape=shapes(min_side=1, max_dims=2), bound=5))
    x = xp.where(xp.abs(x) < 0.5, xp.asarray(1.0, dtype=x.dtype), x)
    axis = data.draw(st.sampled_from((None, *range(-x.ndim, x.ndim))))
    keepdims = data.draw(st.booleans())
    agrees("linalg.vector_norm", x, ord=order, axis=axis, keepdims=keepdims, tolerance=tolerance(x))


# ---------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("matmul", [(2, 3), (2, 3)], "matmul: operands have shapes (2, 3) and (2, 3); expected (."),
        ("matmul", [(), (2,)], "matmul: x1.shape is (); expected at least one dimension"),
        ("matrix_transpose", [(3,)], "matrix_transpose: x.shape is (3,); expected at least two d"),
        ("tensordot", [(2, 3), (3, 2)], "tensordot: axes is 2; expected axes of equal sizes"),
        ("vecdot", [(3,), (4,)], "vecdot: operands have shapes (3,) and (4,); expected shapes"),
        ("linalg.cholesky", [(2, 3)], "cholesky: x.shape is (2, 3); expected square matrices"),
        ("linalg.det", [(3,)], "det: x.shape is (3,); expected at least two dimensions"),
        ("linalg.inv", [(2, 3)], "inv: x.shape is (2, 3); expected square matrices"),
        ("linalg.eig", [(2, 3)], "eig: x.shape is (2, 3); expected square matrices"),
        ("linalg.eigh", [(2, 3)], "eigh: x.shape is (2, 3); expected square matrices"),
        ("linalg.outer", [(2, 2), (2,)], "outer: x1.shape is (2, 2); expected one dimension"),
        ("linalg.cross", [(2,), (2,)], "cross: x1.shape is (2,); expected size 3 along axis -1"),
        ("linalg.solve", [(2, 2), (3,)], "solve: operands have shapes (2, 2) and (3,); expected"),
        ("linalg.svd", [(2,)], "svd: x.shape is (2,); expected at least two dimensions"),
        ("linalg.trace", [(2,)], "trace: x.shape is (2,); expected at least two dimensions"),
    ],
)
def test_bad_shapes_raise(name: str, args: list[Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the message is compared below
        function(name)(*map(xp.ones, args))
    assert str(caught.value).startswith(message)


@pytest.mark.at_once
@pytest.mark.parametrize("name", ["inv", "solve", "cholesky"])
def test_singular_matrices_raise(name: str) -> None:
    x = xp.asarray([[0.0, 0.0], [0.0, -1.0]])
    with pytest.raises(ValueError, match=f"^{name}: "):
        function(f"linalg.{name}")(*[x] * (2 if name == "solve" else 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: xp.linalg.matrix_norm(x, ord=3), "matrix_norm: ord is 3; expected one of"),
        (lambda x: xp.linalg.qr(x, mode="raw"), "qr: mode is 'raw'; expected one of"),
        (lambda x: xp.linalg.matrix_power(x, 0.5), "matrix_power: n is of type float; expected an"),
        (lambda x: xp.linalg.cholesky(x, upper=1), "cholesky: upper is of type int; expected a b"),
        (lambda x: xp.linalg.vector_norm(x, ord="a"), "vector_norm: ord is of type str; expected"),
        (lambda x: xp.linalg.pinv(x, rtol="a"), "pinv: rtol is of type str; expected a float"),
        (lambda x: xp.matmul(x, 2.0), "matmul: x2 is of type float; expected an array"),
    ],
)
def test_bad_keywords_raise(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        call(xp.eye(2))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", sorted(STANDARD["extensions"]["linalg"]))
def test_booleans_have_no_linear_algebra(name: str) -> None:
    if name in ("diagonal", "matrix_transpose"):
        return
    x = xp.ones((3, 3) if name not in ("outer",) else (3,), dtype=xp.bool)
    binary = name in ("matmul", "tensordot", "vecdot", "cross", "outer", "solve")
    rest = [x] if binary else [2] if name == "matrix_power" else []
    with pytest.raises(TypeError, match=rf"^{name}: x1? has dtype bool on \S+; expected a"):
        function(f"linalg.{name}")(x, *rest)


@given(x=arrays(FLOATING, shape=shapes(min_dims=1, min_side=1), bound=10), data=st.data())
def test_shifts_of_spectra(x: Any, data: st.DataObject) -> None:
    axes = data.draw(st.sampled_from((None, *range(x.ndim))))
    agrees("fft.fftshift", x, axes=axes)
    agrees("fft.ifftshift", x, axes=axes)
    back = xp.fft.ifftshift(xp.fft.fftshift(x, axes=axes), axes=axes)
    assert_same(back, oracle("asarray", x))
