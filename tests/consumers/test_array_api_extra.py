"""array-api-extra, on which SciPy and scikit-learn build, gives for our arrays NumPy's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from tests.conftest import backends, required

xpx = required("array_api_extra", minversion="0.11.5")

#: Functions of the namespace and of an array of floats, one with NaN, one of integers and a mask.
CASES: Final[dict[str, Callable[..., Any]]] = {
    "angle": lambda xp, x, gaps, n, mask: xpx.angle(x, deg=True),
    "apply_where": lambda xp, x, gaps, n, mask: xpx.apply_where(
        mask, (x, n), lambda a, b: a + b, lambda a, b: a - b
    ),
    "argpartition": lambda xp, x, gaps, n, mask: xp.sort(xpx.argpartition(x, 2)[:, :3], axis=1),
    "at-add": lambda xp, x, gaps, n, mask: xpx.at(x)[1, :].add(n[0, :], copy=True),
    "at-max": lambda xp, x, gaps, n, mask: xpx.at(x)[:, 2:].max(0.5, copy=True),
    "at-set": lambda xp, x, gaps, n, mask: xpx.at(x)[mask].set(7.0, copy=True),
    "atleast_nd": lambda xp, x, gaps, n, mask: xpx.atleast_nd(x, ndim=4),
    "cov": lambda xp, x, gaps, n, mask: xpx.cov(x),
    "create_diagonal": lambda xp, x, gaps, n, mask: xpx.create_diagonal(x[0, :], offset=-1),
    "deg2rad": lambda xp, x, gaps, n, mask: xpx.deg2rad(x),
    "diag_indices": lambda xp, x, gaps, n, mask: xpx.diag_indices(3, xp=xp),
    "isclose": lambda xp, x, gaps, n, mask: xpx.isclose(gaps, x, rtol=0.5, equal_nan=True),
    "isin": lambda xp, x, gaps, n, mask: xpx.isin(n, n[0, :], invert=True),
    "kron": lambda xp, x, gaps, n, mask: xpx.kron(x, n),
    "nan_to_num": lambda xp, x, gaps, n, mask: xpx.nan_to_num(gaps, fill_value=3.0),
    "nanmax": lambda xp, x, gaps, n, mask: xpx.nanmax(gaps, axis=1),
    "nanmean": lambda xp, x, gaps, n, mask: xpx.nanmean(gaps, axis=1),
    "nanmin": lambda xp, x, gaps, n, mask: xpx.nanmin(gaps),
    "nansum": lambda xp, x, gaps, n, mask: xpx.nansum(gaps, axis=1),
    "nunique": lambda xp, x, gaps, n, mask: xpx.nunique(n),
    "one_hot": lambda xp, x, gaps, n, mask: xpx.one_hot(n, 5, axis=0),
    "pad": lambda xp, x, gaps, n, mask: xpx.pad(x, [(1, 0), (0, 2)], constant_values=9),
    "partition": lambda xp, x, gaps, n, mask: xpx.partition(x, 2)[:, 2],
    "rad2deg": lambda xp, x, gaps, n, mask: xpx.rad2deg(x),
    "searchsorted": lambda xp, x, gaps, n, mask: xpx.searchsorted(xp.sort(x, axis=1), n + 0.0 * x),
    "setdiff1d": lambda xp, x, gaps, n, mask: xpx.setdiff1d(n, n[0, :2]),
    "sinc": lambda xp, x, gaps, n, mask: xpx.sinc(x),
    "tril_indices": lambda xp, x, gaps, n, mask: xpx.tril_indices(3, offset=1, xp=xp),
    "triu_indices": lambda xp, x, gaps, n, mask: xpx.triu_indices(3, m=5, xp=xp),
    "union1d": lambda xp, x, gaps, n, mask: xpx.union1d(n, 2 * n),
    "unravel_index": lambda xp, x, gaps, n, mask: xpx.unravel_index(n, (2, 3), xp=xp),
}


def operands() -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(0)
    x = random.standard_normal((3, 5))
    mask = random.random((3, 5)) < 0.4
    return x, np.where(mask, np.nan, x), random.integers(0, 5, (3, 5)), mask


#: Backends whose values are there when they are asked for.
AT_ONCE: Final = ("numpy", "numba", "torch", "mlx", "reference")
#: What JAX computes too, which compiles each operation for each shape.
ON_JAX: Final = ("angle", "at-set", "cov", "isin", "nanmax", "one_hot", "pad")


def trials() -> Iterator[Any]:
    """Give a backend and the name of a case for each test."""
    for each in backends():
        names = ON_JAX if each.id == "jax" else CASES if each.id in AT_ONCE else ()
        for name in names:
            yield pytest.param(each.id, name, id=f"{each.id}-{name}", marks=each.marks)


@pytest.mark.parametrize(("backend", "name"), [*trials()], indirect=["backend"])
def test_array_api_extra(backend: str, name: str) -> None:
    wanted = CASES[name](np, *operands())
    given = [xp.asarray(x) for x in operands()]
    found = CASES[name](xp, *given)
    for one, other in zip(_all(found), _all(wanted), strict=True):
        assert isinstance(one, corepy.Array)
        assert one.backend == backend
        assert (one.shape, one.dtype.name) == (np.shape(other), np.asarray(other).dtype.name)
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-12, atol=1e-12)
    for x, before in zip(given, operands(), strict=True):
        np.testing.assert_array_equal(np.asarray(x), before)


def _all(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


def test_default_dtypes(backend: str) -> None:
    assert xpx.default_dtype(xp) is xp.float64
    assert xpx.default_dtype(xp, "indexing") is xp.int64


def test_its_own_comparisons_tell_values_dtypes_and_shapes_apart(backend: str) -> None:
    from array_api_extra.testing import assert_close, assert_equal, assert_less

    x = xp.asarray([1.0, 2.0])
    assert_close(x + 1e-12, x)
    assert_equal(x, xp.asarray([1.0, 2.0]))
    assert_less(x, x + 1)
    for other in (x + 1, xp.astype(x, xp.float32), x[:1], np.asarray([1.0, 2.0])):
        with pytest.raises(AssertionError):
            assert_equal(x, other)
