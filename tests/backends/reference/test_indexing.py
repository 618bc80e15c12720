"""Indexing, against NumPy: reading, writing, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from corepy import _dtypes
from corepy.backends import reference
from corepy.backends.reference import ReferenceArray
from corepy.backends.reference._indexing import getitem, setitem
from tests.backends.reference.values import assert_same, from_numpy, sample

X = sample((3, 4, 5), "float32")
ROWS = np.array([[0, 2], [-1, 1]])
MASK = sample((3,), "bool", seed=1)
MASK2 = sample((3, 4), "bool", seed=2)
MASK3 = sample((3, 4, 5), "bool", seed=3)
POINT = np.array(1)

KEYS: list[Any] = [
    0,
    -1,
    (1, 2, 3),
    (),
    ...,
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(-1, -10, -2),
    slice(2, 1),
    slice(-100, 100, 3),
    (slice(None), 1),
    (..., 2),
    (0, ..., slice(4, 0, -3)),
    (None, 0, None, ..., None),
    (1, slice(None, None, 2), slice(None, None, -1)),
    ROWS,
    POINT,
    (POINT, POINT),
    (ROWS, ROWS),
    (ROWS, 1, np.array([3, 0])),
    (ROWS, slice(None), np.array([3, 0])),
    (0, slice(None), np.array([3, 0])),
    (slice(None), ROWS, 2),
    (slice(None), 1, ROWS),
    (slice(1, 3), None, ROWS),
    (..., ROWS),
    (None, ROWS, None, np.array([0, 1])),
    np.array([], dtype=int),
    [0, 2],
    MASK,
    MASK2,
    MASK3,
    ~MASK & MASK,
    (MASK, 1),
    (slice(None), MASK2[0]),
    (MASK2, 0),
    (MASK2, np.array(2)),
    (..., MASK3[0, 0]),
    True,
    False,
    np.array(True),
    (False, ..., 0),
]


def _native(key: Any) -> Any:
    """Make the key's NumPy arrays reference arrays."""
    if isinstance(key, tuple):
        return tuple(_native(entry) for entry in key)
    return from_numpy(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", KEYS, ids=[str(i) for i in range(len(KEYS))])
def test_reading_and_writing_like_numpy(key: Any) -> None:
    x = from_numpy(X)
    selected = X[key]
    assert_same(getitem(x, _native(key)), selected)

    value = sample(selected.shape, "float32", seed=7)
    expected = X.copy()
    expected[key] = value
    assert setitem(x, _native(key), from_numpy(value)) is x
    assert_same(x, expected)

    x, expected = from_numpy(X), X.copy()
    expected[key] = 2.5
    setitem(x, _native(key), 2.5)
    assert_same(x, expected)


def test_scalars_are_indexed() -> None:
    x = reference.asarray(5)
    assert getitem(x, ()) == 5
    assert getitem(x, (None, ...)).shape == (1,)
    assert getitem(x, reference.asarray(True)) == [5]
    assert getitem(x, False).shape == (0,)
    assert setitem(x, (), 6) == 6


def test_a_mask_may_have_no_elements() -> None:
    x = reference.zeros((0, 3))
    assert getitem(x, reference.zeros((0, 3), dtype=_dtypes.bool)).shape == (0,)
    assert getitem(from_numpy(X), reference.zeros((0,), dtype=_dtypes.bool)).shape == (0, 4, 5)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, "index 3 is out of bounds for axis 0 with size 3; expected -3 to 2"),
        (-4, "index -4 is out of bounds for axis 0"),
        ((0, 0, 0, 0), "__getitem__: key indexes 4 axes; expected at most 3"),
        ((..., 0, ...), "key has 2 Ellipsis; expected at most one"),
        (np.array([0, 5]), "index 5 is out of bounds for axis 0"),
        (np.array([0.0]), "key has an array of dtype float64; expected integers or bool"),
        (np.array([True, False]), r"key has a mask of shape \(2,\); expected shape \(3,\)"),
        (np.ones((3, 4, 5, 1), bool), "key indexes 4 axes"),
        ("a", "an entry of type str"),
        (1.0, "an entry of type float"),
        ((np.array([0, 1]), np.array([0, 1, 2])), "expected shapes that broadcast together"),
    ],
)
def test_what_is_refused(key: Any, message: str) -> None:
    with pytest.raises(IndexError, match=message):
        getitem(from_numpy(X), _native(key))


def test_writing_refuses() -> None:
    x = from_numpy(X)
    with pytest.raises(TypeError, match="__setitem__: value has dtype float64"):
        setitem(x, 0, reference.asarray(1.0))
    with pytest.raises(ValueError, match=r"its shape is \(2,\); expected .* to \(4, 5\)"):
        setitem(x, 0, ReferenceArray([1.0, 2.0], (2,), _dtypes.float32))
    with pytest.raises(
        ValueError, match=r"its shape is \(2,\); expected one that broadcasts to \(\)"
    ):
        setitem(x, (0, 0, 0), ReferenceArray([1.0, 2.0], (2,), _dtypes.float32))
    assert_same(x, X)


def test_writing_what_is_read() -> None:
    x = reference.asarray([1, 2, 3])
    setitem(x, slice(None, None, -1), x)
    assert x == [3, 2, 1]


def test_leading_ones_of_a_value_are_dropped() -> None:
    x = reference.asarray([1, 2, 3])
    setitem(x, slice(0, 2), reference.asarray([[8, 9]]))
    assert x == [8, 9, 3]


# ------------------------------------------------------------------ take


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take(axis: int) -> None:
    for indices in (np.array([0, 2, -1, 0]), np.array([], int), np.array([1], "uint8")):
        found = reference.take(from_numpy(X), from_numpy(indices), axis=axis)
        assert_same(found, np.take(X, indices, axis))


def test_take_refuses() -> None:
    assert reference.take([5, 6, 7], [2, 0]) == [7, 5]
    with pytest.raises(ValueError, match="take: axis is None"):
        reference.take([[1]], [0])
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0"):
        reference.take([1, 2, 3], [3])


def test_take_with_indices_of_several_dimensions() -> None:
    indices = np.array([[0, 2], [-1, 0], [1, 1]])
    for axis in (0, 1):
        found = reference.take(from_numpy(X), from_numpy(indices % 2), axis=axis)
        assert_same(found, np.take(X, indices % 2, axis))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_along_axis(axis: int) -> None:
    order = np.argsort(X, axis=axis)
    found = reference.take_along_axis(from_numpy(X), from_numpy(order), axis=axis)
    assert_same(found, np.take_along_axis(X, order, axis))


def test_take_along_axis_broadcasts() -> None:
    indices = np.array([[[0], [-1]]])
    found = reference.take_along_axis(from_numpy(X), from_numpy(indices), axis=1)
    assert_same(found, np.take_along_axis(X, indices, 1))
    thin = X[:1]
    indices = sample((3, 2, 5), "uint8") % 4
    found = reference.take_along_axis(from_numpy(thin), from_numpy(indices), axis=1)
    expected = np.take_along_axis(np.broadcast_to(thin, X.shape), indices.astype(int), 1)
    assert_same(found, expected)
    with pytest.raises(ValueError, match="expected 3 dimensions"):
        reference.take_along_axis(from_numpy(X), [0])
