"""Sorting, searching and sets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from corepy import _dtypes
from corepy.backends import reference
from corepy.backends.reference import ReferenceArray
from tests.backends.reference.values import INF, NAN, assert_same, from_numpy, same, sample

# ------------------------------------------------------------------ sorting


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "bool"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sort_like_numpy(axis: int, dtype: str) -> None:
    x = sample((4, 5, 3), dtype)
    found = from_numpy(x)
    assert_same(reference.sort(found, axis=axis), np.sort(x, axis))
    assert_same(reference.argsort(found, axis=axis), np.argsort(x, axis, stable=True))
    assert_same(reference.sort(found, axis=axis, descending=True), np.flip(np.sort(x, axis), axis))


def test_nan_sorts_as_the_greatest() -> None:
    x = [NAN, 1.0, -INF, NAN, INF]
    assert reference.argsort(x) == [2, 1, 4, 0, 3]
    assert reference.argsort(x, descending=True) == [0, 3, 4, 1, 2]
    up, down = (reference.sort(x, descending=d).values for d in (False, True))
    assert up[:3] == [-INF, 1.0, INF]
    assert all(map(math.isnan, up[3:]))
    assert down[2:] == [INF, 1.0, -INF]
    assert all(map(math.isnan, down[:2]))


def test_sort_is_stable_in_either_order() -> None:
    x = [1.0, -0.0, 0.0, 1.0, -0.0]
    assert reference.argsort(x) == [1, 2, 4, 0, 3]
    assert reference.argsort(x, descending=True) == [0, 3, 1, 2, 4]
    assert [math.copysign(1, v) for v in reference.sort(x).values[:3]] == [-1, 1, -1]


def test_sort_refuses() -> None:
    with pytest.raises(TypeError, match="sort: x has dtype complex128"):
        reference.sort([1j])
    with pytest.raises(IndexError, match="argsort: axis is 1"):
        reference.argsort([1], axis=1)


# ------------------------------------------------------------------ searching


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_extreme_positions_like_numpy(name: str, axis: Any, keepdims: bool) -> None:
    x = sample((4, 7), "int8") // 20  # with ties
    found = getattr(reference, name)(from_numpy(x), axis=axis, keepdims=keepdims)
    assert_same(found, getattr(np, name)(x, axis, keepdims=keepdims))


def test_extreme_positions_of_nan() -> None:
    assert reference.argmax([1.0, NAN, INF, NAN]) == 1
    assert reference.argmin([1.0, NAN, -INF]) == 1
    assert reference.argmax([False, True, True]) == 1
    with pytest.raises(ValueError, match="argmax: x has shape .* at least one element"):
        reference.argmax([])


@pytest.mark.parametrize("axis", [None, 0, (0, 2), -1, ()])
def test_counts_like_numpy(axis: Any) -> None:
    x = sample((2, 3, 4), "bool")
    for dtype in ("bool", "float32", "complex64", "uint8"):
        found = reference.count_nonzero(from_numpy(x.astype(dtype)), axis=axis)
        assert_same(found, np.asarray(np.count_nonzero(x, axis=axis)))


def test_nonzero_like_numpy() -> None:
    x = sample((3, 4, 2), "bool")
    for found, expected in zip(reference.nonzero(from_numpy(x)), np.nonzero(x), strict=True):
        assert_same(found, expected)
    (found,) = reference.nonzero([0.0, -0.0, NAN, 1e-320])
    assert found == [2, 3]
    with pytest.raises(ValueError, match="nonzero: x has shape"):
        reference.nonzero(1)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_like_numpy(side: Any) -> None:
    x = np.sort(sample((20,), "int16") // 10)
    v = sample((3, 4), "int16") // 10
    found = reference.searchsorted(from_numpy(x), from_numpy(v), side=side)
    assert_same(found, np.searchsorted(x, v, side))
    order = np.argsort(-x)
    found = reference.searchsorted(
        from_numpy(-x), from_numpy(v), side=side, sorter=from_numpy(order)
    )
    assert_same(found, np.searchsorted(-x, v, side, order))


def test_searchsorted_of_scalars_and_nan() -> None:
    assert reference.searchsorted([1.0, 2.0, 3.0], 2) == 1
    assert reference.searchsorted([1.0, 2.0, NAN], [NAN, INF, 0.0]) == [2, 2, 0]
    assert reference.searchsorted([1.0, NAN, NAN], NAN, side="right") == 3
    assert reference.searchsorted([-0.0, 0.0], 0.0) == 0


@pytest.mark.parametrize(
    ("x1", "params", "message"),
    [
        ([[1]], {}, r"searchsorted: x1 has shape \(1, 1\)"),
        ([1, 2], {"side": "middle"}, "side is 'middle'"),
        ([1, 2], {"sorter": [0]}, "searchsorted: sorter has shape"),
    ],
)
def test_searchsorted_refuses(x1: Any, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reference.searchsorted(x1, [1], **params)


def test_where() -> None:
    c, a, b = sample((3, 1), "bool"), sample((4,), "int8"), sample((3, 4), "int32")
    found = reference.where(from_numpy(c), from_numpy(a), from_numpy(b))
    assert_same(found, np.where(c, a, b))
    assert reference.where([True, False], 1.5, [2.0, 3.0]) == [1.5, 3.0]
    assert reference.where(True, 1, 2) == 1
    with pytest.raises(TypeError, match="where: condition has dtype int64"):
        reference.where([1], [1], [2])
    with pytest.raises(TypeError, match="where: operands have dtypes"):
        reference.where([True], [1], [2.0])


# ------------------------------------------------------------------ sets


@pytest.mark.parametrize("dtype", ["int8", "float64", "bool", "complex64"])
def test_unique_like_numpy(dtype: str) -> None:
    x = (sample((5, 6), "int8") // 25).astype(dtype)
    values, indices, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    found = reference.unique_all(from_numpy(x))
    assert_same(found.values, values)
    assert_same(found.indices, indices)
    assert_same(found.inverse_indices, inverse)
    assert_same(found.counts, counts)
    assert reference.unique_values(from_numpy(x)) == found.values
    assert reference.unique_counts(from_numpy(x)) == (found.values, found.counts)
    assert reference.unique_inverse(from_numpy(x)) == (found.values, found.inverse_indices)


def test_unique_takes_nans_apart_and_zeros_together() -> None:
    found = reference.unique_all([NAN, 0.0, 1.0, NAN, -0.0])
    assert same(found.values.values[0], 0.0)
    assert found.values.values[1] == 1.0
    assert all(map(math.isnan, found.values.values[2:]))
    assert found.indices == [1, 2, 0, 3]
    assert found.inverse_indices == [2, 0, 1, 3, 0]
    assert found.counts == [2, 1, 1, 1]
    assert reference.unique_counts([complex(1, NAN), 1 + 0j, complex(1, NAN)]).counts == [1, 1, 1]


def test_unique_of_nothing() -> None:
    found = reference.unique_all(reference.zeros((0, 3)))
    assert found.values.shape == found.counts.shape == (0,)
    assert found.inverse_indices.shape == (0, 3)
    assert reference.unique_values(7) == [7]


def test_isin() -> None:
    assert reference.isin([[1, 2], [3, 4]], [2, 4, 8]) == [[False, True], [False, True]]
    assert reference.isin([1, 2], [2], invert=True) == [True, False]
    assert reference.isin(3, [1, 3]) == ReferenceArray([True], (), _dtypes.bool)
    assert reference.isin([1, 3], 3) == [False, True]
    nan = NAN
    assert reference.isin([nan, -0.0], [nan, 0.0]) == [False, True]
    small = from_numpy(np.array([1, 200], "uint8"))
    assert reference.isin(small, from_numpy(np.array([-56, 1], "int8"))) == [True, False]
