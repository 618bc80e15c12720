"""Factors of large matrices in the NumPy backend: LAPACK's routines, on rows as they lie."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import _blas
from corepy.backends import _lapack as lapack
from corepy.backends import _numpy_factors as factors
from corepy.backends import _numpy_rows as rows
from corepy.backends._numpy import NumPyBackend
from corepy.backends._numpy_single import OPERATIONS as SINGLE

Matrix = np.ndarray[Any, Any]
SIDE = lapack.LARGE + 17

pytestmark = pytest.mark.skipif(
    not factors.is_large(np.eye(SIDE)), reason="needs NumPy's OpenBLAS and threadpoolctl"
)


def own(name: str) -> Callable[..., Any]:
    found = NumPyBackend().operation(f"linalg.{name}")
    assert found is not None
    return found


def general(side: int = SIDE, dtype: str = "float64") -> Matrix:
    x: Matrix = np.random.default_rng(side).standard_normal((side, side)).astype(dtype)
    return x


def definite(side: int = SIDE, dtype: str = "float64") -> Matrix:
    x = general(side)
    made: Matrix = (x @ x.T / side + np.eye(side)).astype(dtype)
    return made


def layouts(x: Matrix) -> dict[str, Matrix]:
    return {"C": x, "F": np.asfortranarray(x), "backwards": x[::-1, ::-1], "steps": spread(x)}


def spread(x: Matrix) -> Matrix:
    wide = np.zeros((len(x), 2 * len(x)), x.dtype)
    wide[:, ::2] = x
    return wide[:, ::2]


def assert_near(got: Any, wanted: Any, dtype: str, rounds: float) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert (got.dtype, got.shape) == (np.dtype(dtype), wanted.shape)
    size = np.abs(wanted).max()
    assert np.abs(got.astype(np.float64) - wanted).max() <= rounds * np.finfo(dtype).eps * size


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["C", "F", "backwards", "steps"])
def test_results_are_numpys(layout: str, dtype: str) -> None:
    # Of float32 both compute in double precision and round once.
    rounds = 1.0 if dtype == "float32" else 1e4
    x = layouts(general(dtype=dtype))[layout]
    before = x.copy()
    assert_near(own("inv")(x), np.linalg.inv(x), dtype, rounds)
    for right in (
        general(dtype=dtype)[:, :5],
        general(dtype=dtype)[0],
        general(dtype=dtype)[:, :0],
    ):
        if right.size:
            assert_near(own("solve")(x, right), np.linalg.solve(x, right), dtype, rounds)
        else:
            assert own("solve")(x, right).shape == right.shape
    assert np.array_equal(x, before)
    h = layouts(definite(dtype=dtype))[layout]
    for upper in (False, True):
        factor = own("cholesky")(h, upper=upper)
        wanted = np.linalg.cholesky(h)
        assert_near(factor, wanted.T if upper else wanted, dtype, rounds)
        assert not np.tril(factor, -1).any() if upper else not np.triu(factor, 1).any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1e-3, 0.03, 0.05, 0.06, 1e3])
def test_determinants(dtype: str, scale: float) -> None:
    x = general(dtype=dtype) * np.asarray(scale, dtype)
    sign, logarithm = np.linalg.slogdet(x.astype(np.float64))
    found = own("slogdet")(x)
    assert [part.dtype.name for part in found] == [dtype] * 2
    assert found[0] == sign
    assert found[1] == pytest.approx(logarithm, rel=2e-7 if dtype == "float32" else 1e-13)
    with np.errstate(over="ignore", under="ignore"):
        wanted = (sign * np.exp(logarithm)).astype(dtype)
        got = own("det")(x)
    assert got.dtype.name == dtype
    assert got == pytest.approx(wanted, rel=3e-7 if dtype == "float32" else 1e-11)


def test_a_determinant_within_range_whose_parts_are_not() -> None:
    x = np.diag(np.repeat([1e300, 1e-300], SIDE // 2))
    assert own("det")(x) == pytest.approx(1.0, rel=1e-12)
    assert own("det")(-x[:-1, :-1]) == pytest.approx(-1e300, rel=1e-12)


def test_a_determinant_of_more_pivots_than_a_float_has_exponents() -> None:
    x = np.eye(1500) * 2.0
    x[[0, 1]] = x[[1, 0]]
    assert float(xp.linalg.det(xp.asarray(x / 2))) == -1.0
    sign, logarithm = xp.linalg.slogdet(xp.asarray(x))
    assert float(sign) == -1.0
    assert float(logarithm) == pytest.approx(1500 * np.log(2))


def test_single_precision_is_as_near_as_its_size() -> None:
    x, h = general(dtype="float32"), definite(dtype="float32")
    # A condition of some thousands in the first, of some tens in the second.
    for name, args in (("inv", (x,)), ("solve", (x, x[:, :3].copy())), ("inv", (h,))):
        wanted = getattr(np.linalg, name)(*[a.astype(np.float64) for a in args])
        assert_near(
            SINGLE[f"linalg.{name}"](*args), wanted, "float32", 1e5 if args[0] is x else 1e3
        )
    wanted = np.linalg.cholesky(h.astype(np.float64))
    assert_near(SINGLE["linalg.cholesky"](h), wanted, "float32", 1e3)
    assert_near(SINGLE["linalg.cholesky"](h, upper=True), wanted.T, "float32", 1e3)
    sign, logarithm = np.linalg.slogdet(x * 0.05)
    found = SINGLE["linalg.det"](x * np.float32(0.05))
    assert found.dtype == np.float32
    assert found == pytest.approx(sign * np.exp(logarithm), rel=1e-3)


@pytest.mark.parametrize("side", [126, 127, 128, 129, 200, lapack.LARGE])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cholesky_of_some_hundred_rows(side: int, dtype: str) -> None:
    x = definite(side, dtype)
    for matrix in layouts(x).values():
        wanted, before = np.linalg.cholesky(matrix), matrix.copy()
        for upper in (False, True):
            found = own("cholesky")(matrix, upper=upper)
            assert_near(found, wanted.T if upper else wanted, dtype, 20)
            assert np.array_equal(matrix, before)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        own("cholesky")(-x)


@pytest.mark.parametrize("compiled", [True, False])
def test_triangles(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr(rows, "_module", None)
    for shape in ((1, 1), (5, 5), (3, 7), (7, 3), (0, 3)):
        wide = np.random.default_rng(3).standard_normal((shape[0], shape[1] + 2))
        for x in (wide[:, : shape[1]], np.ascontiguousarray(wide[:, : shape[1]], np.float32)):
            for upper, numpys in ((True, np.triu), (False, np.tril)):
                out = np.full(shape, np.nan, x.dtype)
                assert rows.triangle(x, out, upper=upper) is out
                assert np.array_equal(out, numpys(x))
                itself = np.ascontiguousarray(x)
                assert np.array_equal(rows.triangle(itself, itself, upper=upper), out)


@pytest.mark.parametrize("name", ["inv", "solve", "det", "slogdet", "cholesky"])
def test_what_has_no_answer(name: str) -> None:
    x = general()
    x[:, 3] = 0
    match name:
        case "det":
            assert own(name)(x) == 0.0
        case "slogdet":
            assert own(name)(x) == (0.0, -np.inf)
        case "cholesky":
            with pytest.raises(np.linalg.LinAlgError):
                own(name)(-definite())
            assert SINGLE["linalg.cholesky"](-definite(dtype="float32")) is None
        case _:
            args = (x, x[:, :2].copy()) if name == "solve" else (x,)
            with pytest.raises(np.linalg.LinAlgError, match="Singular"):
                own(name)(*args)
            assert SINGLE[f"linalg.{name}"](*[a.astype(np.float32) for a in args]) is None
    if name in ("det", "slogdet"):
        assert np.isnan(own(name)(general() * np.nan)).any()


@pytest.mark.parametrize("overlooks", [False, True])
def test_pivots_that_vanish_beside_subnormal_ones(
    overlooks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = lapack.Routines.__call__

    def overlooking(self: lapack.Routines, name: str, *arguments: Any) -> int:
        """Say that all went well, as OpenBLAS does for some such matrices and not for others."""
        found = call(self, name, *arguments)
        return 0 if overlooks and name == "getrf" else found

    monkeypatch.setattr(lapack.Routines, "__call__", overlooking)
    counts = np.round(3 * np.random.default_rng(5).standard_normal((SIDE, SIDE)))
    x = counts * np.float64(5e-324)
    for name, args in (("inv", (x,)), ("solve", (x, x[0]))):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            own(name)(*args)
    assert own("slogdet")(x) == (0.0, -np.inf)
    assert own("det")(x) == 0.0
    # Double precision has more digits there.
    narrow = counts.astype(np.float32) * np.float32(1e-45)
    assert SINGLE["linalg.inv"](narrow) is None
    assert SINGLE["linalg.solve"](narrow, narrow[0]) is None


def test_what_is_not_large_is_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> Any:
        raise AssertionError("LAPACK was called")

    monkeypatch.setattr(factors, "_call", fails)
    small, stack = definite(lapack.LARGE), np.stack([definite(4)] * 2)
    for x in (small, stack, small.astype(np.complex128)):
        for name in ("inv", "det", "slogdet"):
            own(name)(x)
    own("cholesky")(definite(100))
    for x in (small, stack):
        own("solve")(x, x)
    own("cholesky")(small.astype(np.complex128))
    large = definite()
    with pytest.raises(AssertionError):
        own("solve")(large, large)
    own("solve")(large, large[:, :1].astype(np.float32))
    own("solve")(large, large[np.newaxis])
    with pytest.raises(ValueError, match="mismatch"):
        own("solve")(large, large[1:])


def test_without_the_library_numpy_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    x = definite()
    wanted = np.linalg.inv(x)
    monkeypatch.setattr(_blas, "numpys", list)
    lapack._routines.cache_clear()
    try:
        assert not factors.is_large(x)
        assert np.array_equal(own("inv")(x), wanted)
        monkeypatch.setattr(_blas, "can_hold", lambda: False)
        lapack._routines.cache_clear()
        assert not factors.is_large(x)
    finally:
        lapack._routines.cache_clear()


def test_narrow_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of 32-bit integers has other names, and its pivots are half as wide."""

    class Narrow:
        """The library, under the names of such a build: each call goes to the wide one."""

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("scipy_") or name.endswith("64_"):
                raise AttributeError(name)
            wide = next(
                found
                for pattern, _ in lapack._NAMES
                if (found := getattr(library, pattern.format(name[6:-1]), None))
            )
            return lambda *args: self.called(wide, name[7:-1], args)

        def called(self, wide: Any, routine: str, args: tuple[Any, ...]) -> None:
            given, widened = list(args), []
            for i, kind in enumerate(lapack._TAKEN[routine]):
                if kind == "i":
                    widened.append((given[i]._obj, ctypes.c_int64(given[i]._obj.value)))
                    given[i] = ctypes.byref(widened[-1][1])
            pivots = np.empty(SIDE, np.int64)
            if routine == "getrf":
                narrow, given[4] = given[4], ctypes.c_void_p(pivots.ctypes.data)
            wide(*given)
            for original, copy in widened:
                original.value = copy.value
            if routine == "getrf":
                made = (ctypes.c_int32 * SIDE).from_address(narrow.value)
                made[:] = pivots.tolist()

    (library,) = _blas.numpys()
    x = general()
    wanted = np.linalg.inv(x)
    monkeypatch.setattr(_blas, "numpys", lambda: [Narrow()])
    lapack._routines.cache_clear()
    try:
        assert lapack.routines_of(x).integers == np.int32
        assert_near(own("inv")(x), wanted, "float64", 1e4)
        assert own("slogdet")(x)[0] == np.linalg.slogdet(x)[0]
    finally:
        lapack._routines.cache_clear()


def test_users_get_it_in_both_precisions() -> None:
    x = xp.asarray(definite(dtype="float32"))
    wanted = np.linalg.inv(definite(dtype="float32").astype(np.float64))
    for level, rounds in (("full", 1.0), ("fast", 1e3)):
        with corepy.precision(level):
            assert_near(np.asarray(xp.linalg.inv(x)), wanted, "float32", rounds)
    with pytest.raises(ValueError, match="inv: Singular matrix"):
        xp.linalg.inv(xp.zeros((SIDE, SIDE)))


@pytest.mark.parametrize("decades", [10, 25, 37])
def test_columns_of_other_scales_in_single_precision(decades: int) -> None:
    scales = 10.0 ** np.linspace(-decades, decades, SIDE)
    x = (general() * scales).astype(np.float32)
    b = general()[0].astype(np.float32)
    with corepy.precision("fast"):
        found = np.asarray(xp.linalg.solve(xp.asarray(x), xp.asarray(b)), np.float64)
    wide = x.astype(np.float64)
    size = np.abs(wide) @ np.abs(found) + np.abs(b)
    assert (np.abs(wide @ found - b) / size).max() < 1e-5
