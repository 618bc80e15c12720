"""Linear algebra of float32 under ``corepy.precision("fast")`` is computed in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.backends import _numpy_single as single
from corepy.backends._lapack import LARGE
from corepy.dispatch import load
from corepy.dispatch._considerate import LEAST

#: Not so large, nor of so many elements in a row, that LAPACK is called past NumPy.
SIDE = 126
CALLS: dict[str, Callable[[Any], Any]] = {
    "linalg.cholesky": xp.linalg.cholesky,
    "linalg.det": xp.linalg.det,
    "linalg.eigh": xp.linalg.eigh,
    "linalg.eigvalsh": xp.linalg.eigvalsh,
    "linalg.inv": xp.linalg.inv,
    "linalg.solve": lambda x: xp.linalg.solve(x, x[:, 0]),
    "linalg.svd": lambda x: xp.linalg.svd(x, full_matrices=False),
    "linalg.svdvals": xp.linalg.svdvals,
}
#: Those with vectors, whose signs are free.
SIGNED = ("linalg.eigh", "linalg.svd")


@pytest.fixture(autouse=True)
def numpy_alone() -> Iterator[None]:
    with corepy.backend_priority(["numpy"]), corepy.set_routes("off"):
        yield


def definite(side: int, dtype: str = "float32", stack: tuple[int, ...] = ()) -> Any:
    x = np.random.default_rng(side).standard_normal((*stack, side, side))
    return xp.asarray((x @ x.swapaxes(-1, -2) / side + np.eye(side)).astype(dtype))


def natives(found: Any) -> list[Any]:
    return [x.unwrap() for x in (found if isinstance(found, tuple) else (found,))]


def both(call: Callable[[Any], Any], x: Any) -> tuple[list[Any], list[Any]]:
    full = natives(call(x))
    with corepy.precision("fast"):
        return full, natives(call(x))


def test_numpy_still_has_every_loop_that_is_called() -> None:
    assert set(CALLS) == set(single._MADE)
    assert set(CALLS) <= set(single.OPERATIONS)


@pytest.mark.parametrize(
    ("name", "stack"),
    [
        *((name, ()) for name in CALLS),
        *((name, (2, 3)) for name in CALLS if name != "linalg.solve"),  # which takes columns
    ],
)
def test_it_is_computed_in_float32_and_near(name: str, stack: tuple[int, ...]) -> None:
    x = definite(SIDE, stack=stack)
    full, fast = both(CALLS[name], x)
    differ = False
    for a, b in zip(fast, full, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape) == (np.float32, b.shape)
        differ = differ or not np.array_equal(a, b)
        if name not in SIGNED or a.ndim - len(stack) == 1:
            assert np.max(np.abs(a - b)) <= 1e-4 * np.max(np.abs(b))
    if name in SIGNED:  # vectors of near eigenvalues turn, and are still some
        u, s, vh = fast if len(fast) == 3 else (fast[1], fast[0], fast[1].swapaxes(-1, -2))
        np.testing.assert_allclose((u * s[..., None, :]) @ vh, x.unwrap(), atol=1e-4)
        for vectors in (u, vh):
            product = vectors.swapaxes(-1, -2) @ vectors
            np.testing.assert_allclose(product, np.broadcast_to(np.eye(SIDE), x.shape), atol=1e-4)
    assert differ
    with corepy.precision("fast"):
        reason = corepy.explain(CALLS[name], x).records[-1].reason
    assert "in float32 throughout" in reason


@pytest.mark.parametrize("name", CALLS)
def test_nothing_else_changes(name: str) -> None:
    with corepy.reproducible():
        pass  # from now on small matrices come by here too
    side = int((LEAST - 1) ** 0.5)
    for x in (definite(side), definite(SIDE, "float64"), definite(SIDE, "complex64")):
        full, fast = both(CALLS[name], x)
        for a, b in zip(fast, full, strict=True):
            np.testing.assert_array_equal(a, b)


def test_decompositions_hold_for_each_form() -> None:
    x = np.random.default_rng(1).standard_normal((160, 96)).astype("float32")
    square = definite(SIDE)
    with corepy.precision("fast"):
        for native in (x, x.T):
            least = min(native.shape)
            for full in (True, False):
                u, s, vh = natives(xp.linalg.svd(xp.asarray(native), full_matrices=full))
                np.testing.assert_allclose((u[:, :least] * s) @ vh[:least], native, atol=1e-4)
        for upper in (True, False):
            factor = xp.linalg.cholesky(square, upper=upper).unwrap()
            product = factor.T @ factor if upper else factor @ factor.T
            np.testing.assert_allclose(product, square.unwrap(), atol=1e-4)
        columns = xp.linalg.solve(square, square[:, :3])
        np.testing.assert_allclose(columns.unwrap(), np.eye(SIDE)[:, :3], atol=1e-4)


def test_what_has_no_answer_raises_what_it_raises_in_double_precision() -> None:
    singular = xp.ones((SIDE, SIDE), dtype=xp.float32)
    for call in (xp.linalg.inv, xp.linalg.cholesky, CALLS["linalg.solve"]):
        with pytest.raises(Exception, match=".") as expected:
            call(singular)
        with corepy.precision("fast"), pytest.raises(type(expected.value)) as found:
            call(singular)
        assert str(found.value) == str(expected.value)


def test_where_float32_does_not_suffice_double_precision_has_the_last_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: Any) -> Any:
        raise single._UnsolvedError

    x = definite(SIDE)
    monkeypatch.setattr(single, "_called", failing)
    for call in CALLS.values():
        full, fast = both(call, x)
        for a, b in zip(fast, full, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("side", [SIDE, LARGE + 17])
def test_steps_beyond_float32_are_taken_in_double_precision(side: int) -> None:
    values = np.random.default_rng(side).uniform(-3, 3, (side, side)).astype(np.float32)
    x = xp.asarray(values * np.float32(1e38))
    for call in (xp.linalg.inv, CALLS["linalg.solve"], lambda x: xp.linalg.qr(x)[0]):
        with np.errstate(over="ignore"):  # R is beyond float32 itself
            full, fast = both(call, x)
        assert np.isfinite(full[0]).all()
        np.testing.assert_array_equal(fast[0], full[0])


@pytest.mark.parametrize("side", [SIDE, LARGE + 17])
def test_what_would_be_infinite_of_subnormal_pivots_is_found_in_double_precision(side: int) -> None:
    x = np.eye(side, dtype=np.float32)
    x[0, 0] = 1e-40  # whose inverse is beyond float32
    b = np.full((side, 3), x[0, 0])

    def solve(x: Any) -> Any:
        return xp.linalg.solve(x, xp.asarray(b))

    full, fast = both(solve, xp.asarray(x))
    np.testing.assert_array_equal(fast[0], full[0])
    np.testing.assert_array_equal(fast[0], b / x.diagonal()[:, None])


def test_determinants_beyond_float32_are_not_found_twice() -> None:
    x = np.diag(np.full(SIDE, 10, np.float32))
    assert single.OPERATIONS["linalg.det"](x) == np.inf


def test_after_the_block_double_precision_is_back() -> None:
    x = definite(SIDE)
    full, fast = both(xp.linalg.inv, x)
    again = xp.linalg.inv(x).unwrap()
    np.testing.assert_array_equal(again, full[0])
    assert not np.array_equal(again, fast[0])


@pytest.mark.backend("numba")
def test_numba_keeps_what_it_has_of_its_own() -> None:
    numba = load("numba")
    assert numba.single("linalg.svd") is None
    assert numba.single("linalg.inv") is single.OPERATIONS["linalg.inv"]


def test_where_numpy_has_its_loops_no_more_only_large_matrices_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(single, "private_ufunc", lambda name, described: None)
    found = single._operations()
    assert set(found) == {*single.FACTORS, *single.SPECTRA}
    x = definite(SIDE).unwrap()
    for name, operation in found.items():
        assert operation(*((x, x) if name == "linalg.solve" else (x,))) is None
