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
from tests.together import together

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


# Their meaning is checked in NumPy: what XLA compiles for a check takes longer than all the rest.


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
    x = to_numpy(matrices(n, n, dtype, seed))
    return xp.asarray((np.conj(x).mT @ x).tolist(), dtype=DTYPES[dtype])


SQUARE = pytest.mark.parametrize(
    ("n", "dtype", "seed"), [(n, dtype, 7 * n) for n in (1, 2, 3) for dtype in FLOATING]
)


def identity(n: int) -> Any:
    return np.broadcast_to(np.eye(n), (2, n, n))


def assert_near(values: Any, wanted: Any, close: float) -> None:
    """Assert equal shapes, and values within a part of the greatest one."""
    values, wanted = np.asarray(values), np.asarray(wanted)
    assert values.shape == wanted.shape
    bound = close * max(1.0, float(np.abs(wanted).max(initial=0.0)))
    np.testing.assert_allclose(values, wanted, rtol=0, atol=bound)


def results(x: Any, *parts: Any) -> tuple[Any, ...]:
    """Return results as NumPy arrays, of the dtype of `x` or the real one of its precision."""
    real = {"complex64": "float32", "complex128": "float64"}.get(x.dtype.name, x.dtype.name)
    assert {part.dtype.name for part in parts} <= {x.dtype.name, real}
    return tuple(map(to_numpy, parts))


@SQUARE
def test_inverse_determinant_and_solution(n: int, dtype: str, seed: int) -> None:
    x, right = matrices(n, n, dtype, seed), matrices(n, 2, dtype, seed + 1)
    one, vector = x[0, ...], right[0, :, 0]
    close, values = CLOSE[dtype], to_numpy(x)
    inverse, solution, short, det = results(
        x,
        xp.linalg.inv(x),
        xp.linalg.solve(x, right),
        xp.linalg.solve(one, vector),
        xp.linalg.det(x),
    )
    assert_near(values @ inverse, identity(n), close)
    assert_near(values @ solution, to_numpy(right), close)
    assert_near(values[0] @ short, to_numpy(vector), close)
    assert det.dtype == dtype
    assert_near(det, np.linalg.det(values.astype(complex)), close * 10)
    sign, logarithm = results(x, *xp.linalg.slogdet(x))
    assert (sign.dtype, logarithm.dtype.kind) == (dtype, "f")
    assert_near(sign * np.exp(logarithm), det, close)
    cube, back, none = results(x, *(xp.linalg.matrix_power(x, power) for power in (3, -1, 0)))
    assert_near(cube, values @ values @ values, close)
    assert_near(back, inverse, close)
    assert_near(none, identity(n), close)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_the_first_power_of_a_matrix_is_another_array(dtype: str) -> None:
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]], dtype=getattr(xp, dtype))
    power = xp.linalg.matrix_power(x, 1)
    power[...] = 0
    assert x.tolist() == [[1, 2], [3, 4]]
    power = xp.linalg.matrix_power(x, 1)
    x[...] = 0
    assert power.tolist() == [[1, 2], [3, 4]]


@SQUARE
def test_cholesky(n: int, dtype: str, seed: int) -> None:
    x = hermitian(n, dtype, seed)
    lower, upper = results(x, xp.linalg.cholesky(x), xp.linalg.cholesky(x, upper=True))
    assert lower.dtype == upper.dtype == dtype
    assert_near(lower @ np.conj(lower).mT, to_numpy(x), CLOSE[dtype])
    assert_near(np.conj(upper).mT @ upper, to_numpy(x), CLOSE[dtype])
    assert np.array_equal(lower, np.tril(lower))
    assert np.array_equal(upper, np.triu(upper))


@SQUARE
def test_eigenvalues(n: int, dtype: str, seed: int) -> None:
    x = hermitian(n, dtype, seed)
    values, vectors, alone = results(x, *xp.linalg.eigh(x), xp.linalg.eigvalsh(x))
    assert values.dtype == alone.dtype == {"complex64": "f4", "float32": "f4"}.get(dtype, "f8")
    assert vectors.dtype == dtype
    assert_near(alone, values, CLOSE[dtype])
    assert (values[:, 1:] >= values[:, :-1]).all()
    assert_near(to_numpy(x) @ vectors, vectors * values[:, None, :], CLOSE[dtype])
    assert_near(np.conj(vectors).mT @ vectors, identity(n), CLOSE[dtype])
    x = matrices(n, n, dtype, seed)
    general = to_numpy(x)
    values, vectors, alone = map(to_numpy, (*xp.linalg.eig(x), xp.linalg.eigvals(x)))
    assert values.dtype == vectors.dtype == alone.dtype == np.result_type(dtype, "complex64")
    assert_near(general @ vectors, vectors * values[:, None, :], CLOSE[dtype] * 10)
    trace = np.trace(general, axis1=-2, axis2=-1)
    assert_near(alone.sum(axis=-1), trace, CLOSE[dtype] * 10)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 2), (2, 3), (3, 3)])
def test_svd_qr_and_pseudo_inverse(rows: int, columns: int, dtype: str) -> None:
    x = matrices(rows, columns, dtype, 10 * rows + columns)
    close, least, values = CLOSE[dtype], min(rows, columns), to_numpy(x)
    u, s, vh, alone = results(x, *xp.linalg.svd(x, full_matrices=False), xp.linalg.svdvals(x))
    assert (u.shape, s.shape, vh.shape) == ((2, rows, least), (2, least), (2, least, columns))
    assert s.dtype.kind == "f"
    assert_near((u * s[:, None, :]) @ vh, values, close)
    assert_near(alone, s, close)
    u, _, vh = results(x, *xp.linalg.svd(x))
    assert (u.shape, vh.shape) == ((2, rows, rows), (2, columns, columns))
    assert_near(np.conj(u).mT @ u, identity(rows), close)
    assert_near(np.conj(vh).mT @ vh, identity(columns), close)
    for mode, inner in (("reduced", least), ("complete", rows)):
        q, r = results(x, *xp.linalg.qr(x, mode=mode))
        assert (q.shape, r.shape) == ((2, rows, inner), (2, inner, columns))
        assert_near(q @ r, values, close)
        assert_near(np.conj(q).mT @ q, identity(inner), close)
        assert np.array_equal(r, np.triu(r))
    (inverse,) = results(x, xp.linalg.pinv(x))
    assert_near(values @ inverse @ values, values, close)
    assert_near(inverse @ values @ inverse, inverse, close)
    for product in (values @ inverse, inverse @ values):
        assert_near(product, np.conj(product).mT, close)
    assert xp.linalg.matrix_rank(x).tolist() == [least, least]
    assert xp.linalg.matrix_rank(x, rtol=2.0).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", FLOATING)
def test_singular_values_beyond_the_tolerance_of_the_standard_count(dtype: str) -> None:
    eps = float(np.finfo(dtype).eps)
    for times, rank in ((1, 1), (4, 2), (9, 2)):  # beside the greatest; the tolerance is 2 * eps
        x = xp.asarray(np.diag([1.0, times * eps]), dtype=DTYPES[dtype])
        assert xp.linalg.matrix_rank(x).tolist() == rank
        inverse = to_numpy(xp.linalg.pinv(x))
        assert_near(inverse[0], np.asarray([1.0, 0.0]), CLOSE[dtype])
        assert inverse[1, 1] * eps == pytest.approx(1 / times if rank == 2 else 0.0)


@pytest.mark.parametrize("dtype", FLOATING)
def test_eigenvalues_are_those_of_the_lower_triangle(dtype: str) -> None:
    x = hermitian(3, dtype, 7)
    other = xp.tril(x) + 9 * xp.triu(x, k=1)
    values, vectors, alone = results(x, *xp.linalg.eigh(other), xp.linalg.eigvalsh(other))
    assert_near(alone, values, CLOSE[dtype])
    assert_near(to_numpy(x) @ vectors, vectors * values[:, None, :], CLOSE[dtype])


def test_matrices_without_elements_have_rank_0() -> None:
    for dtype in FLOATING:
        for shape in ((0, 0), (3, 0), (2, 3, 0), (2, 0, 3), (0, 2, 3)):
            x = xp.zeros(shape, dtype=DTYPES[dtype])
            for rtol in (None, 1e-3, xp.asarray(1e-3)):
                rank = xp.linalg.matrix_rank(x, rtol=rtol)
                assert rank.dtype is xp.int64
                assert_values(rank, np.zeros(shape[:-2], np.int64))


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
    values = to_numpy(data.draw(arrays(FLOATING, shape=shapes(min_side=1, max_dims=2), bound=5)))
    values = np.where(np.abs(values) < 0.5, values.dtype.type(1), values)
    x = xp.asarray(values.tolist(), dtype=DTYPES[values.dtype.name])
    axis = data.draw(st.sampled_from((None, *range(-x.ndim, x.ndim))))
    keepdims = data.draw(st.booleans())
    agrees("linalg.vector_norm", x, ord=order, axis=axis, keepdims=keepdims, tolerance=tolerance(x))


@pytest.mark.parametrize("dtype", FLOATING)
@together("order", [0, 1, 2, 3, INF, -1, -2, -INF])
def test_vector_norm_of_no_elements(order: Any, dtype: str) -> None:
    norm = INF if order < 0 else 0.0
    x = xp.zeros((2, 0), dtype=DTYPES[dtype])
    for found, expected in (
        (xp.linalg.vector_norm(x[0, :], ord=order), norm),
        (xp.linalg.vector_norm(x, ord=order, axis=1), [norm, norm]),
        (xp.linalg.vector_norm(x, ord=order, axis=-1, keepdims=True), [[norm], [norm]]),
        (xp.linalg.vector_norm(x, ord=order, axis=0), []),
        (xp.linalg.vector_norm(x, ord=order, keepdims=True), [[norm]]),
    ):
        assert found.tolist() == expected
        assert found.dtype.name == ("float32" if dtype in ("float32", "complex64") else "float64")


@pytest.mark.parametrize("dtype", FLOATING)
@together("order", ["fro", "nuc", 1, -1, 2, -2, INF, -INF, None])
def test_matrix_norm_of_no_elements(order: Any, dtype: str) -> None:
    for rows, columns in ((0, 0), (0, 3), (3, 0)):
        # Sums of nothing are 0; of no sums, and of no singular values, the least is infinite.
        chosen = {-1: columns, -2: 0, -INF: rows}.get(order, 1)
        norm = 0.0 if chosen else INF
        x = xp.zeros((2, rows, columns), dtype=DTYPES[dtype])
        found = xp.linalg.matrix_norm(x, ord=order)
        assert found.tolist() == [norm, norm]
        assert found.dtype.name == ("float32" if dtype in ("float32", "complex64") else "float64")
        kept = xp.linalg.matrix_norm(x, ord=order, keepdims=True)
        assert kept.tolist() == [[[norm]], [[norm]]]
    assert xp.linalg.matrix_norm(xp.zeros((0, 3, 3)), ord=order).shape == (0,)


@pytest.mark.parametrize("dtype", ["bool", "int64"])
@pytest.mark.parametrize(
    "function", [xp.linalg.vector_norm, xp.linalg.matrix_norm, xp.linalg.matrix_rank]
)
def test_of_no_elements_dtypes_are_refused_too(function: Any, dtype: str) -> None:
    for shape in ((0, 0), (2, 0), (2, 2)):
        with pytest.raises(TypeError, match="expected a floating-point dtype"):
            function(xp.zeros(shape, dtype=DTYPES[dtype]))


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("order", [1, -1, INF, -INF])
def test_norms_of_much_that_has_a_nan_are_nan(order: Any, dtype: str) -> None:
    values = np.ones((2, 5000, 2), dtype)
    values[1, 7, 1] = np.nan
    x = xp.asarray(values)
    # The least sum of a column, and the least magnitude, are NaN too.
    sums = {1: 5000.0, INF: 2.0}[abs(order)]
    assert_values(xp.linalg.matrix_norm(x, ord=order), [sums, np.nan])
    if abs(order) == INF:
        assert_values(xp.linalg.vector_norm(x, ord=order, axis=(1, 2)), [1.0, np.nan])
        assert_values(xp.linalg.vector_norm(x, ord=order), np.nan)


# ---------------------------------------------------------------------------- refusals


@pytest.mark.at_once
@pytest.mark.parametrize("name", ["eig", "eigvals"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_has_no_eigenvalues(name: str, value: float) -> None:
    with pytest.raises(np.linalg.LinAlgError, match=f"^{name}: "):
        getattr(xp.linalg, name)(xp.asarray([[value, 1.0], [1.0, 2.0]]))


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
    with pytest.raises(np.linalg.LinAlgError, match=f"^{name}: .*expected"):  # a ValueError
        function(f"linalg.{name}")(*[x] * (2 if name == "solve" else 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: xp.linalg.matrix_norm(x, ord=3), "matrix_norm: ord is 3; expected one of"),
        (lambda x: xp.linalg.matrix_norm(x, ord=[2]), "matrix_norm: ord is of type list; expected"),
        (lambda x: xp.linalg.qr(x, mode="raw"), "qr: mode is 'raw'; expected one of"),
        (lambda x: xp.linalg.matrix_power(x, 0.5), "matrix_power: n is of type float; expected an"),
        (lambda x: xp.linalg.cholesky(x, upper=1), "cholesky: upper is of type int; expected a b"),
        (
            lambda x: xp.linalg.vector_norm(x, ord=float("nan")),
            "vector_norm: ord is nan; expected a number",
        ),
        (lambda x: xp.linalg.vector_norm(x, ord="a"), "vector_norm: ord is of type str; expected"),
        (lambda x: xp.linalg.pinv(x, rtol="a"), "pinv: rtol is of type str; expected a float"),
        (lambda x: xp.linalg.pinv(x, rtol=1j), "pinv: rtol is of type complex; expected a float"),
        (lambda x: xp.linalg.pinv(x, rtol=xp.asarray(1j)), "pinv: rtol has dtype complex128 on"),
        (lambda x: xp.linalg.matrix_rank(x, rtol=1j), "matrix_rank: rtol is of type complex; exp"),
        (lambda x: xp.linalg.trace(x, dtype=xp.int64), "trace: dtype is 'int64'; expected one th"),
        (lambda x: xp.matmul(x, 2.0), "matmul: x2 is of type float; expected an array"),
    ],
)
def test_bad_keywords_raise(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        call(xp.eye(2))
    assert str(caught.value).startswith(message)


@pytest.mark.at_once
@pytest.mark.parametrize("shape", [(), (1,), (2,), (3, 1), (3, 2)])
def test_tolerances_broadcast_with_the_stack(shape: tuple[int, ...]) -> None:
    x = xp.asarray([[[4.0, 0.0], [0.0, 1.0]]] * 2)
    for value, rank, last in ((0.5, 1, 0.0), (0.125, 2, 1.0)):
        rtol = xp.full(shape, value)
        ranks, inverses = xp.linalg.matrix_rank(x, rtol=rtol), xp.linalg.pinv(x, rtol=rtol)
        assert ranks.shape == inverses.shape[:-2] == np.broadcast_shapes((2,), shape)
        assert set(to_numpy(ranks).ravel().tolist()) == {rank}
        assert set(to_numpy(inverses)[..., 1, 1].ravel().tolist()) == {last}


@pytest.mark.parametrize("name", ["matrix_rank", "pinv"])
def test_tolerances_that_do_not_broadcast_raise(name: str) -> None:
    message = rf"^{name}: rtol.shape is \(3,\); expected one that broadcasts with \(2,\)"
    with pytest.raises(ValueError, match=message):
        function(f"linalg.{name}")(xp.ones((2, 2, 2)), rtol=xp.ones(3))


def test_orders_beyond_64_bits() -> None:
    assert_values(xp.linalg.vector_norm(xp.asarray([1.0, 0.5]), ord=10**30), 1.0)
    with pytest.raises(OverflowError, match="^vector_norm: ord is an integer beyond"):
        xp.linalg.vector_norm(xp.ones(2), ord=10**400)


@pytest.mark.parametrize("offset", [2, -2, 2**70, -(2**70)])
def test_diagonals_beyond_the_corners_are_empty(offset: int) -> None:
    x = xp.ones((3, 2, 2))
    assert xp.linalg.diagonal(x, offset=offset).shape == (3, 0)
    assert xp.linalg.trace(x, offset=offset).tolist() == [0.0] * 3


@together("name", sorted(STANDARD["extensions"]["linalg"]))
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
