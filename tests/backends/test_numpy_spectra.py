"""Decompositions of large matrices in the NumPy backend: LAPACK's routines, on rows as they lie."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import _blas
from corepy.backends import _lapack as lapack
from corepy.backends import _numpy_spectra as spectra
from corepy.backends._numpy import NumPyBackend
from corepy.backends._numpy_single import OPERATIONS as SINGLE

Matrix = np.ndarray[Any, Any]
#: Rows that lie apart, and rows that do not.
SIDES = (128, lapack.LARGE + 17)
SHAPES = [(side, side) for side in SIDES] + [(130, 128), (120, 256), (450, 512), (410, 450)]

pytestmark = pytest.mark.skipif(
    not lapack.has_routines(np.eye(SIDES[1])), reason="needs NumPy's OpenBLAS and threadpoolctl"
)


def own(name: str) -> Callable[..., Any]:
    found = NumPyBackend().operation(f"linalg.{name}")
    assert found is not None
    return found


def single(name: str) -> Callable[..., Any]:
    return SINGLE[f"linalg.{name}"]


def general(shape: tuple[int, int], dtype: str = "float64") -> Matrix:
    x: Matrix = np.random.default_rng(shape).standard_normal(shape).astype(dtype)
    return x


def symmetric(side: int, dtype: str = "float64") -> Matrix:
    x = general((side, side), dtype)
    return x + x.T


def layouts(x: Matrix) -> list[Matrix]:
    wide = np.zeros((len(x), 2 * x.shape[1]), x.dtype)
    wide[:, ::2] = x
    return [x, np.asfortranarray(x), x[::-1, ::-1].copy()[::-1, ::-1], wide[:, ::2]]


def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the routines that are called."""
    names: list[str] = []
    call = lapack.Routines.__call__

    def noting(self: lapack.Routines, name: str, *arguments: Any) -> int:
        names.append(name)
        return call(self, name, *arguments)

    monkeypatch.setattr(lapack.Routines, "__call__", noting)
    return names


def epsilon(dtype: str, rounds: float) -> float:
    return rounds * float(np.finfo(dtype).eps)


def assert_orthogonal(rows: Matrix, limit: float) -> None:
    wide = rows.astype(np.float64)
    assert np.abs(wide @ wide.T - np.eye(len(rows))).max() < limit


def assert_plain(*found: Matrix, dtype: str) -> None:
    """Say that nobody sees how rows lay apart, nor that they were columns."""
    for x in found:
        assert x.dtype == dtype
        assert x.flags.c_contiguous
        assert x.flags.writeable
        assert x.base is None or x.base.nbytes == x.nbytes


CASES = [("float64", own, 300.0), ("float32", own, 2.0), ("float32", single, 300.0)]


@pytest.mark.parametrize(("dtype", "of", "rounds"), CASES)
@pytest.mark.parametrize("shape", SHAPES)
def test_orthogonal_factors(
    shape: tuple[int, int], dtype: str, of: Any, rounds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = called(monkeypatch)
    m, n = shape
    for x in layouts(general(shape, dtype)):
        before = x.copy()
        q, r = of("qr")(x)
        assert_plain(q, r, dtype=dtype)
        assert (q.shape, r.shape) == ((m, min(m, n)), (min(m, n), n))
        assert not np.tril(r, -1).any()
        assert_orthogonal(q.T, epsilon(dtype, rounds))
        size = np.abs(x).max() * np.sqrt(n)
        assert np.abs(q.astype(np.float64) @ r - x).max() < epsilon(dtype, rounds) * size
        # Householder's reflections leave the signs of R to the matrix.
        assert (np.sign(r.diagonal()) == np.sign(np.linalg.qr(x)[1].diagonal())).all()
        assert np.array_equal(x, before)
    assert "gelqf" in names


def test_complete_factors_of_more_rows_than_columns_are_numpys() -> None:
    x = general((450, 410))
    q, r = own("qr")(x, mode="complete")
    assert (q.shape, r.shape) == ((450, 450), (450, 410))
    assert np.abs(q @ r - x).max() < 1e-12
    q, r = own("qr")(x.T, mode="complete")
    assert (q.shape, r.shape) == ((410, 410), (410, 450))
    assert np.abs(q @ r - x.T).max() < 1e-12


@pytest.mark.parametrize(("dtype", "of", "rounds"), CASES)
@pytest.mark.parametrize("full_matrices", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values(
    shape: tuple[int, int],
    full_matrices: bool,
    dtype: str,
    of: Any,
    rounds: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = called(monkeypatch)
    m, n = shape
    k = min(m, n)
    wanted = np.linalg.svd(general(shape, dtype).astype(np.float64), compute_uv=False)
    for x in layouts(general(shape, dtype)):
        before = x.copy()
        u, values, right = of("svd")(x, full_matrices=full_matrices)
        assert_plain(u, values, right, dtype=dtype)
        assert u.shape == (m, m if full_matrices else k)
        assert right.shape == (n if full_matrices else k, n)
        for found in (values, of("svdvals")(x)):
            assert found.shape == (k,)
            assert np.abs(found - wanted).max() < epsilon(dtype, rounds) * wanted[0]
        assert_orthogonal(u.T, epsilon(dtype, rounds))
        assert_orthogonal(right, epsilon(dtype, rounds))
        made = u[:, :k].astype(np.float64) * values @ right[:k]
        assert np.abs(made - x).max() < epsilon(dtype, rounds) * wanted[0]
        assert np.array_equal(x, before)
    assert "gesdd" in names


@pytest.mark.parametrize(("dtype", "of", "rounds"), CASES)
@pytest.mark.parametrize("side", [SIDES[1], 512])
def test_eigenvalues(
    side: int, dtype: str, of: Any, rounds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = called(monkeypatch)
    wanted = np.linalg.eigvalsh(symmetric(side, dtype).astype(np.float64))
    size = np.abs(wanted).max()
    for x in layouts(symmetric(side, dtype)):
        before = x.copy()
        values, vectors = of("eigh")(x)
        assert_plain(values, vectors, dtype=dtype)
        assert np.abs(values - wanted).max() < epsilon(dtype, rounds) * size
        assert_orthogonal(vectors.T, epsilon(dtype, rounds))
        wide = vectors.astype(np.float64)
        made = (wide * values) @ wide.T
        assert np.abs(made - x).max() < epsilon(dtype, rounds) * size
        assert np.array_equal(x, before)
    assert "syevd" in names


def test_eigenvalues_are_those_of_the_lower_triangle_as_in_numpy() -> None:
    x = general((SIDES[1], SIDES[1]))
    assert np.allclose(own("eigh")(x)[0], np.linalg.eigh(x)[0])
    x = x.astype(np.float32)
    assert np.allclose(single("eigh")(x)[0], np.linalg.eigh(x)[0], atol=1e-3)


def test_what_singular_values_tell() -> None:
    x = general((450, 410)) @ general((410, 460))
    assert own("matrix_rank")(x) == 410
    inverse = own("pinv")(x)
    assert np.abs(inverse - np.linalg.pinv(x)).max() < 1e-9 * np.abs(inverse).max()
    for order in (2, -2, "nuc"):
        wanted = np.linalg.norm(x, order)
        assert own("matrix_norm")(x, ord=order) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_has_no_answer(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    names = called(monkeypatch)
    x = symmetric(SIDES[1])
    x[3, 4] = x[4, 3] = value
    narrow = x.astype(np.float32)
    with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge"):
        own("svd")(x)
    assert single("svd")(narrow) is None
    assert not names
    # Nothing converges, as LAPACK says.
    monkeypatch.setattr(lapack.Routines, "__call__", lambda self, *args: 1)
    with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge"):
        own("svdvals")(symmetric(SIDES[1]))
    with pytest.raises(np.linalg.LinAlgError, match="Eigenvalues did not converge"):
        own("eigh")(symmetric(SIDES[1]))
    for name in ("svd", "svdvals", "eigh"):
        assert single(name)(symmetric(SIDES[1], "float32")) is None


@pytest.mark.parametrize("shape", [(410, 900), (900, 512)])
def test_no_element_that_is_not_finite_is_overlooked(shape: tuple[int, int]) -> None:
    m, n = shape
    for x in layouts(general(shape)):
        assert spectra.has_singular_values(x, np.float64)
        for place in ((0, 0), (m - 1, n - 1), (m - 1, 0), (0, n - 1), (m // 2, n // 2)):
            before = x[place]
            x[place] = -np.inf
            assert not spectra.has_singular_values(x, np.float64)
            x[place] = before


def test_to_look_for_such_elements_takes_next_to_no_memory() -> None:
    x = general((1001, 1001))
    tracemalloc.start()
    try:
        for each in (x, x.T):
            spectra.has_singular_values(each, np.float64)  # who comes first imports
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            assert spectra.has_singular_values(each, np.float64)
            assert tracemalloc.get_traced_memory()[1] - before < x.nbytes / 50
    finally:
        tracemalloc.stop()


def test_what_is_not_large_is_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    names = called(monkeypatch)
    for x in (symmetric(130), symmetric(64), np.stack([symmetric(128)] * 2)):
        for name in ("qr", "svd", "svdvals", "eigh"):
            own(name)(x)
            own(name)(x.astype(np.complex128))
    own("eigh")(symmetric(128))
    assert not names


def test_counts_beyond_the_librarys_integers_are_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.broadcast_to(np.float64(0), (30_000, 30_000))
    routines = lapack.routines_of(x)
    assert lapack.has_routines(x) == (routines.integers == np.int64)
    narrow = lapack.Routines(routines._functions, np.int32, routines._scalar)
    monkeypatch.setattr(lapack, "_routines", lambda char: narrow)
    assert not lapack.has_routines(x)
    assert lapack.has_routines(x[:8000, :8000])


def test_work_is_as_much_as_asked_for() -> None:
    sizes = []

    def call(work: Matrix, count: int) -> int:
        sizes.append((work.size, count))
        work[0] = 2**25 + 3 if count == -1 else 0  # float32 has one of 2^25 and 2^25 + 4
        return 7

    assert lapack.with_work(call, np.float32) == 7
    assert sizes[0] == (1, -1)
    assert sizes[1][0] == sizes[1][1] >= 2**25 + 3


def test_without_the_library_numpy_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    x = symmetric(SIDES[1])
    monkeypatch.setattr(_blas, "numpys", list)
    lapack._routines.cache_clear()
    try:
        assert not lapack.has_routines(x)
        assert np.array_equal(own("svd")(x)[1], np.linalg.svd(x)[1])
        assert np.array_equal(own("eigh")(x)[0], np.linalg.eigh(x)[0])
        assert np.array_equal(own("qr")(x)[1], np.linalg.qr(x)[1])
    finally:
        lapack._routines.cache_clear()


def test_users_get_it_in_both_precisions() -> None:
    with corepy.backend_priority(["numpy"]):
        x = xp.asarray(symmetric(SIDES[1], "float32"))
        for level, rounds in (("full", 2.0), ("fast", 300.0)):
            with corepy.precision(level):
                u, values, right = xp.linalg.svd(x)
                q, r = xp.linalg.qr(x)
            size = float(values[0])
            for made in ((u * values) @ right, q @ r):
                apart = xp.max(xp.abs(xp.astype(made - x, xp.float64)))
                assert float(apart) < 20 * epsilon("float32", rounds) * size
