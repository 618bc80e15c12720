"""Sums in another dtype than what is added up: of small integers, or as a caller says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.dispatch import make
from tests.dispatch.natives import compiled
from tests.dispatch.short_ways import without_entries

pytestmark = compiled

SMALL = ("int8", "uint8", "int16", "uint16", "int32", "uint32")

#: Few and many elements, by rows, columns, blocks of these, and axes that others lie between.
CASES: list[tuple[tuple[int, ...], Any]] = [
    ((1,), None),
    ((63,), 0),
    ((1_000,), None),
    ((150_001,), None),
    ((40, 30), None),
    ((7, 64), -1),
    ((30, 1_100), 1),
    ((400, 700), -1),
    ((15, 9), 0),
    ((700, 401), 0),
    ((5, 19, 83), 1),
    ((20, 30, 41), (0, 2)),
    ((20, 30, 41), (0, 1)),
    ((3, 4, 5, 6), (1, 3)),
]


def extremes(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Integers of which few of one sign need more bits than they have."""
    limits = np.iinfo(dtype)
    near = np.random.default_rng(3).integers(0, 3, shape)
    return np.where(near < 1, limits.min, limits.max - near).astype(dtype)


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_small_integers(shape: tuple[int, ...], axis: Any, dtype: str) -> None:
    native = extremes(dtype, shape)
    x = make(native, without_entries(dtype, "sum"))
    for keepdims in (False, True):
        found = xp.sum(x, axis=axis, keepdims=keepdims)
        expected = native.sum(axis=axis, keepdims=keepdims)
        assert found.dtype == (xp.uint64 if dtype.startswith("u") else xp.int64)
        np.testing.assert_array_equal(found.unwrap(), expected, strict=True)
        told = xp.sum(x, axis=axis, keepdims=keepdims, dtype=found.dtype)
        np.testing.assert_array_equal(told.unwrap(), expected, strict=True)


@pytest.mark.parametrize("dtype", SMALL)
def test_small_integers_in_any_order(dtype: str) -> None:
    native = extremes(dtype, (70, 42, 50))
    for view in (native[::2], native[:, ::-1, ::3], native.transpose(2, 0, 1), native[..., 7]):
        for axis in (None, 0, -1, (0, 1)):
            found = xp.sum(xp.asarray(view, copy=False), axis=axis)
            np.testing.assert_array_equal(found.unwrap(), view.sum(axis=axis), strict=True)


@pytest.mark.parametrize("dtype", SMALL)
def test_no_integers(dtype: str) -> None:
    for shape, axis in (((0,), None), ((0, 3), 0), ((0, 3), 1), ((3, 0), 1)):
        native = np.empty(shape, dtype)
        found = xp.sum(xp.asarray(native), axis=axis).unwrap()
        np.testing.assert_array_equal(found, native.sum(axis=axis), strict=True)


def test_what_an_explanation_shows_of_small_integers() -> None:
    x = xp.asarray(extremes("int8", (300, 301)))
    record = corepy.explain(xp.sum, x, axis=0).records[-1]
    assert record.backend == "numpy"
    found = corepy.explain(xp.sum, x, axis=0).result
    np.testing.assert_array_equal(found.unwrap(), xp.sum(x, axis=0).unwrap(), strict=True)


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "float64", "complex64"])
def test_a_dtype_that_the_result_has_anyway(dtype: str, name: str) -> None:
    native = np.array([3, 1, 2], dtype)
    grown = {"int8": "int64"}.get(dtype, dtype)
    x = make(native, without_entries(dtype, name))
    found = getattr(xp, name)(x, dtype=getattr(xp, grown))
    expected = getattr(
        np, {"cumulative_sum": "cumsum", "cumulative_prod": "cumprod"}.get(name, name)
    )
    np.testing.assert_array_equal(found.unwrap(), expected(native), strict=True)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_single_precision_is_summed_in_double(axis: Any) -> None:
    """Few elements with NumPy's bits, which converts some at a time."""
    rng = np.random.default_rng(5)
    for shape in ((3, 4, 5), (9, 10, 20)):
        native = (rng.normal(size=shape) * 10.0 ** rng.integers(-4, 5, shape)).astype("float32")
        for view in (native, native.T, native[:, ::2]):
            x = xp.asarray(view, copy=False)
            found = xp.sum(x, axis=axis, dtype=xp.float64).unwrap()
            np.testing.assert_array_equal(found, view.sum(axis=axis, dtype="float64"), strict=True)
            product = xp.prod(x, axis=axis, dtype=xp.float64).unwrap()
            expected = view.prod(axis=axis, dtype="float64")
            np.testing.assert_array_equal(product, expected, strict=True)


def test_few_of_single_precision_take_the_short_way() -> None:
    native = np.array([[1.5, 2.5], [3.5, 4.5]], "float32")
    x = make(native, without_entries("float32", "sum", "prod"))
    for axis in (None, 0, 1):
        found = xp.sum(x, axis=axis, dtype=xp.float64).unwrap()
        np.testing.assert_array_equal(found, native.sum(axis=axis, dtype="float64"), strict=True)
    assert float(xp.prod(x, dtype=xp.float64)) == 1.5 * 2.5 * 3.5 * 4.5


@pytest.mark.parametrize(("dtype", "wanted"), [("float64", "int64"), ("complex64", "float32")])
def test_a_dtype_that_loses_values_is_refused(dtype: str, wanted: str) -> None:
    x = xp.ones(3, dtype=getattr(xp, dtype))
    with pytest.raises(ValueError, match=f"sum: dtype is '{wanted}'; expected one that {dtype}"):
        xp.sum(x, dtype=getattr(xp, wanted))


@pytest.mark.parametrize("wanted", [[], object()])
def test_what_is_no_dtype_is_refused(wanted: Any) -> None:
    with pytest.raises(TypeError, match="sum: dtype"):
        xp.sum(xp.ones(3), dtype=wanted)


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_many_of_single_precision_come_to_double(name: str) -> None:
    """Also where a route leads back here; NumPy's dtype of float64 equals None."""
    native = np.full(300_000, 1.0005, "float32")
    x = xp.asarray(native)
    for found in (
        getattr(xp, name)(x, dtype=xp.float64),
        corepy.explain(getattr(xp, name), x, dtype=xp.float64).result,
    ):
        assert found.dtype == xp.float64
        np.testing.assert_allclose(
            found.unwrap(), getattr(np, name)(native, dtype="float64"), rtol=1e-10
        )
