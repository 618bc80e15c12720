"""Variances of many elements, which are read once, are as exact as those of few.

They are held to those in long doubles, whichever axes are reduced and wherever rows end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.backends import _numpy_rows
from tests.dispatch.natives import compiled

pytestmark = compiled

#: Single rows, rows, columns, few and many of these, and stacks of them.
CASES: list[tuple[tuple[int, ...], Any]] = [
    ((20_000,), None),
    ((70_001,), 0),
    ((130, 127, 2), None),
    ((3, 20_001), 1),
    ((150, 151), -1),
    ((9_001, 2), 1),
    ((150, 151), 0),
    ((20_011, 3), 0),
    ((31, 601), 0),
    ((700, 513), 0),
    ((5, 70, 83), 1),
    ((7, 2_003, 5), 1),
    ((40, 30, 20), (0, 1)),
    ((40, 30, 20), (1, 2)),
]


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("correction", [0, 1, 2.5])
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_variances(shape: tuple[int, ...], axis: Any, correction: float, dtype: str) -> None:
    rng = np.random.default_rng(7)
    # A mean of 100 is known less exactly than one of 0, and so is what is between it and elements.
    for offset, tolerance in ((0.0, 8 * np.finfo(dtype).eps), (100.0, 64 * np.finfo(dtype).eps)):
        native = (rng.normal(size=shape) * rng.uniform(0.5, 2, shape) + offset).astype(dtype)
        x, wide = xp.asarray(native), native.astype(np.longdouble)
        length = native.size // max(1, np.sum(wide, axis=axis).size)
        if length <= correction:
            continue
        for name, power in (("var", 1), ("std", 2)):
            params = {"axis": axis, "correction": correction}
            expected = np.sum((wide - wide.mean(axis, keepdims=True)) ** 2, axis=axis)
            expected = (expected / (length - correction)) ** (1 / power)
            found = np.asarray(getattr(xp, name)(x, **params))
            assert found.dtype == dtype
            np.testing.assert_allclose(found, expected.astype(dtype), rtol=tolerance)
            kept = np.asarray(getattr(xp, name)(x, keepdims=True, **params))
            assert kept.shape == np.sum(wide, axis=axis, keepdims=True).shape
            assert kept.tobytes() == found.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (0, 1), (1, 2), (0, 2, 3), (1, 3)])
def test_any_axes_in_any_order(axis: Any, dtype: str) -> None:
    whole = np.random.default_rng(5).normal(3, 2, (13, 12, 18, 14)).astype(dtype)
    for native in (whole, whole.T, whole[::-1, 1:, ::2], whole.transpose(1, 3, 0, 2)):
        expected = native.astype(np.longdouble).std(axis, ddof=1)
        for keepdims in (False, True):
            found = np.asarray(
                xp.std(xp.asarray(native), axis=axis, correction=1, keepdims=keepdims)
            )
            assert found.shape == native.std(axis, keepdims=keepdims).shape
            np.testing.assert_allclose(
                found.reshape(expected.shape), expected, rtol=32 * np.finfo(dtype).eps
            )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elements_that_are_not_aligned_are_copied_first(dtype: str) -> None:
    whole = np.random.default_rng(6).random((200, 100)).astype(dtype)
    apart = np.zeros(whole.nbytes + 1, np.uint8)[1:].view(dtype).reshape(whole.shape)
    apart[:] = whole
    seen: list[Any] = []
    squares = _numpy_rows._squares

    def look(address: int, x: Any, axes: list[int]) -> Any:
        seen.append(x.flags.aligned)
        return squares(address, x, axes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_numpy_rows, "_squares", look)
        found = xp.var(xp.asarray(apart), axis=0)
    assert seen == [True]
    assert np.asarray(found).tobytes() == np.asarray(xp.var(xp.asarray(whole), axis=0)).tobytes()


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_no_number(axis: int, dtype: str) -> None:
    native = np.random.default_rng(1).random((200, 211)).astype(dtype)
    native[7, 11], native[150, 40] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        found, expected = np.asarray(xp.var(xp.asarray(native), axis=axis)), native.var(axis)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    rest = ~np.isnan(expected)
    np.testing.assert_allclose(found[rest], expected[rest], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_elements_vary_by_no_more_than_their_mean_is_off(dtype: str) -> None:
    x = xp.full((200, 211), 0.1, dtype=getattr(xp, dtype))
    for view in (x, x.T, x[1:, 1:]):
        for axis in (None, 0, 1):
            assert float(xp.max(xp.std(view, axis=axis))) <= 0.5 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_what_an_explanation_shows_has_the_same_bits(
    shape: tuple[int, ...], axis: Any, dtype: str
) -> None:
    x = xp.asarray(np.random.default_rng(3).normal(5, 2, shape).astype(dtype))
    for name in ("var", "std"):
        function = getattr(xp, name)
        for params in ({}, {"correction": 1}, {"keepdims": True}):
            found = np.asarray(function(x, axis=axis, **params))
            with corepy.reproducible():  # without a route
                told = corepy.explain(function, x, axis=axis, **params)
            assert np.asarray(told.result).tobytes() == found.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_squares_that_overflow_are_told(dtype: str) -> None:
    great = 2 * float(np.finfo(dtype).max) ** 0.5
    x = xp.asarray(np.resize([great, -great], 20_000).astype(dtype))
    with corepy.reproducible(), pytest.warns(RuntimeWarning, match="overflow"):
        assert float(xp.var(x)) == np.inf


@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:invalid value")
def test_more_is_taken_off_than_there_is() -> None:
    for x in (xp.ones((20_000, 2)), xp.ones((3, 2))):
        assert np.isnan(np.asarray(xp.var(x, axis=1, correction=2))).all()
        assert np.isnan(np.asarray(xp.std(x, axis=1, correction=3.5))).all()
    assert xp.var(xp.ones(20_000), correction=-1).tolist() == 0.0
