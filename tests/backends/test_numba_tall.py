"""The Numba backend's decompositions of matrices of many rows, beside LAPACK's of the whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp

pytestmark = [pytest.mark.backend("numba"), pytest.mark.needs("threadpoolctl")]

SHAPES = [(4096, 64), (40_000, 2), (70_001, 3), (9000, 100), (5000, 256)]
#: Of double precision, and of a single rounding to the dtype.
BOUNDS = {"float64": 1e-13, "float32": 2e-7}


def matrix(shape: tuple[int, int], dtype: str, scale: float = 1.0) -> Any:
    values = np.random.default_rng(3).standard_normal(shape)
    values *= np.logspace(0, -6, shape[1]) ** scale  # of columns that differ in size
    return values.astype(dtype)


def own(name: str) -> Callable[..., Any]:
    found = corepy.dispatch.load("numba").operation(name)
    assert found is not None
    return found.own  # type: ignore[no-any-return, attr-defined]


@pytest.mark.parametrize("dtype", list(BOUNDS))
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_are_orthogonal_and_give_the_matrix(shape: tuple[int, int], dtype: str) -> None:
    x, columns, bound = matrix(shape, dtype), shape[1], BOUNDS[dtype]
    wide = x.astype(float)
    q, r = own("linalg.qr")(x, mode="reduced")
    u, s, vh = own("linalg.svd")(x, full_matrices=False)
    assert {part.dtype for part in (q, r, u, s, vh)} == {x.dtype}
    assert (q.shape, r.shape, u.shape) == (x.shape, (columns, columns), x.shape)
    np.testing.assert_array_equal(np.tril(r, -1), 0)
    whole = np.linalg.svd(wide, compute_uv=False)
    np.testing.assert_allclose(s, whole, rtol=0, atol=bound * whole[0])
    np.testing.assert_allclose(own("linalg.svdvals")(x), whole, rtol=0, atol=bound * whole[0])
    assert np.all(np.diff(s) <= 0)
    q, r, u, s, vh = (part.astype(float) for part in (q, r, u, s, vh))
    eye, size = np.eye(columns), np.abs(wide).max()
    for orthogonal in (q, u, vh.T):
        np.testing.assert_allclose(orthogonal.T @ orthogonal, eye, rtol=0, atol=10 * bound)
    np.testing.assert_allclose(q @ r, wide, rtol=0, atol=10 * bound * size)
    np.testing.assert_allclose((u * s) @ vh, wide, rtol=0, atol=10 * bound * size)


def test_a_matrix_of_dependent_columns() -> None:
    x = matrix((8192, 16), "float64", 0.0)
    x[:, 5] = x[:, 4]
    x[:, 7] = 0.0
    u, s, vh = own("linalg.svd")(x, full_matrices=False)
    assert np.all(s[-2:] <= 1e-12 * s[0])
    np.testing.assert_allclose((u * s) @ vh, x, rtol=0, atol=1e-12)
    q, r = own("linalg.qr")(x, mode="reduced")
    np.testing.assert_allclose(q.T @ q, np.eye(16), rtol=0, atol=1e-12)
    np.testing.assert_allclose(q @ r, x, rtol=0, atol=1e-12)


def test_products_of_columns_tell_as_much_as_the_columns() -> None:
    from corepy.backends.numba import _tall

    x = matrix((40_000, 30), "float32")
    found = _tall._products(x)
    assert found is not None
    triangle, turn = found
    wide = x.astype(float)
    np.testing.assert_allclose(wide @ turn @ triangle, wide, rtol=0, atol=1e-12)
    eye = (wide @ turn).T @ (wide @ turn)
    np.testing.assert_allclose(eye, np.eye(30), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(np.tril(triangle, -1), 0)


@pytest.mark.parametrize("change", ["double", "nearly alike", "alike", "zero", "NaN", "infinite"])
def test_where_they_tell_too_little(change: str) -> None:
    from corepy.backends.numba import _tall

    x = matrix((40_000, 30), "float64" if change == "double" else "float32", 0.0)
    if change in ("nearly alike", "alike"):
        x[:, 3] = x[:, 4] + (1e-4 * x[:, 5] if change == "nearly alike" else 0)
    elif change != "double":
        x[:, 3] = {"zero": 0, "NaN": np.nan, "infinite": np.inf}[change]
    assert _tall._products(x) is None
    if change in ("NaN", "infinite"):
        return
    wide = x.astype(float)
    u, s, vh = own("linalg.svd")(x, full_matrices=False)
    np.testing.assert_allclose((u.astype(float) * s) @ vh, wide, rtol=0, atol=1e-5)
    np.testing.assert_allclose(own("linalg.svdvals")(x), s, rtol=0, atol=1e-6 * s[0])
    q, r = own("linalg.qr")(x, mode="reduced")
    np.testing.assert_allclose(q.T.astype(float) @ q, np.eye(30), rtol=0, atol=2e-6)
    np.testing.assert_allclose(q.astype(float) @ r, wide, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", [(500, 500), (64, 4096), (1000, 100), (200, 2), (65_536, 1)])
def test_other_shapes_are_lapacks(shape: tuple[int, int]) -> None:
    x = matrix(shape, "float64")
    assert own("linalg.qr")(x, mode="reduced") is None
    assert own("linalg.svd")(x, full_matrices=False) is None
    assert own("linalg.svdvals")(x) is None


def test_what_needs_all_columns_is_lapacks() -> None:
    x = matrix((4096, 64), "float64")
    assert own("linalg.svd")(x, full_matrices=True) is None
    assert own("linalg.qr")(x, mode="complete") is None
    assert own("linalg.svdvals")(x.astype(complex)) is None


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_special_values_are_lapacks(value: float) -> None:
    x = matrix((8192, 16), "float64")
    x[4000, 3] = value
    assert own("linalg.svd")(x, full_matrices=False) is None
    assert own("linalg.svdvals")(x) is None
    assert own("linalg.qr")(x, mode="reduced") is None


def test_an_operand_stays_as_it_was_and_layouts_do_not_matter() -> None:
    x = matrix((8192, 16), "float64")
    kept = x.copy()
    for view in (x, np.asfortranarray(x), x[::-1], np.repeat(x, 2, axis=1)[:, ::2]):
        before = view.copy()
        q, r = own("linalg.qr")(view, mode="reduced")
        np.testing.assert_allclose(q @ r, before, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(view, before)
    np.testing.assert_array_equal(x, kept)


def test_blas_has_its_threads_again() -> None:
    from corepy._blas import _libraries, single

    libraries = _libraries()
    before = [library.get_num_threads() for library in libraries]
    assert before

    def work() -> None:
        with single():
            own("linalg.qr")(matrix((4096, 64), "float64"), mode="reduced")

    with single():
        assert [library.get_num_threads() for library in libraries] == [1] * len(libraries)
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [library.get_num_threads() for library in libraries] == before
    with pytest.raises(ZeroDivisionError), single():
        raise ZeroDivisionError
    assert [library.get_num_threads() for library in libraries] == before


def test_without_a_way_to_hold_blas_lapack_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    from corepy.backends.numba import _tall

    monkeypatch.setattr(_tall, "can_hold", lambda: False)
    assert own("linalg.svd")(matrix((8192, 16), "float64"), full_matrices=False) is None


def test_routes_lead_here_in_every_precision() -> None:
    from corepy.devices._device import CPU
    from corepy.dispatch import Option, Route
    from corepy.dispatch._admitted import ADMITTED
    from corepy.dispatch._routes import _Way
    from corepy.dispatch._sites import HOST

    route = Route("linalg.svd", "float32", "tall", 1, 1.0, (Option("numba", 2.0),))
    numpy = corepy.dispatch.load("numpy")
    place = HOST, CPU, xp.float32
    ways = [
        _Way("linalg.svd", numpy, place, np.linalg.svd, route, Option(name, 2.0, busy=2.0))
        for name in ("numba", "torch")
    ]
    assert [way.fast for way in ways] == [False, True]  # only torch computes in float32
    x = np.zeros((64, 4), np.float32)
    assert ADMITTED["linalg.svd"].former((x,), {"full_matrices": False}) == "tall"
    assert ADMITTED["linalg.svd"].former((x,), {"full_matrices": True}) is None


def test_the_namespace_has_them() -> None:
    with corepy.backend_priority(["numba"]):
        x = xp.asarray(matrix((4096, 64), "float32"))
        assert isinstance(xp.linalg.svd(x, full_matrices=False), tuple)
        found = xp.linalg.qr(x)
    np.testing.assert_allclose(np.asarray(found.Q @ found.R), np.asarray(x), rtol=0, atol=1e-5 * 5)


# ---------------------------------------------------------------------------- products


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(10, 30_000, 32), (64, 5000, 64), (2, 140_001, 5)]
)
def test_long_products_add_up_as_well_as_blas(
    rows: int, inner: int, columns: int, dtype: str
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((inner, rows)).astype(dtype)
    y = rng.standard_normal((inner, columns)).astype(dtype)
    exact = x.T.astype(np.longdouble) @ y.astype(np.longdouble)
    terms = np.abs(x.T).astype(float) @ np.abs(y).astype(float)
    for left in (x.T, np.ascontiguousarray(x.T)):
        found = own("matmul")(left, y)
        assert found.dtype == dtype
        assert np.max(np.abs(found - exact) / terms) <= 4 * np.finfo(dtype).eps
    infinite = y.copy()
    infinite[7, 1], infinite[9, 0] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        found, wanted = own("matmul")(x.T, infinite), x.T @ infinite
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))


@pytest.mark.parametrize(
    ("x", "y"),
    [((512, 512), (512, 512)), ((1, 300_000), (300_000, 4)), ((4, 1000), (1000, 4))],
)
def test_other_products_are_blas(x: tuple[int, int], y: tuple[int, int]) -> None:
    assert own("matmul")(np.ones(x), np.ones(y)) is None


def test_products_that_do_not_fit_are_refused_as_in_numpy() -> None:
    multiply = corepy.dispatch.load("numba").operation("matmul")
    assert multiply is not None
    with pytest.raises(ValueError, match="mismatch"):
        multiply(np.ones((4, 100_000)), np.ones((100_001, 4)))
