"""Manipulation functions, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from corepy import _dtypes
from corepy.backends import reference
from corepy.backends.reference import ReferenceArray
from tests.backends.reference.values import assert_same, from_numpy, sample

X = sample((2, 3, 4), "int16")
REF = from_numpy(X)


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_permute_dims(axes: tuple[int, ...]) -> None:
    assert_same(reference.permute_dims(REF, axes), X.transpose(axes))
    negative = tuple(axis - 3 for axis in axes)
    assert_same(reference.permute_dims(REF, negative), X.transpose(axes))


@pytest.mark.parametrize(
    ("source", "destination"), [(0, -1), (2, 0), ((0, 1), (2, 0)), ((2, 0), (0, -1)), (1, 1)]
)
def test_moveaxis(source: Any, destination: Any) -> None:
    assert_same(reference.moveaxis(REF, source, destination), np.moveaxis(X, source, destination))


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (-3, 1), ()])
def test_flip(axis: Any) -> None:
    assert_same(reference.flip(REF, axis=axis), np.flip(X, axis))


@pytest.mark.parametrize(
    ("shift", "axis"),
    [(1, None), (-5, None), (100, None), (2, 1), (-1, (0, 2)), ((1, -2), (0, 1)), ((1, 1), (1, 1))],
)
def test_roll(shift: Any, axis: Any) -> None:
    assert_same(reference.roll(REF, shift, axis=axis), np.roll(X, shift, axis))


def test_roll_of_nothing() -> None:
    empty = reference.zeros((0, 3))
    assert reference.roll(empty, 1).shape == (0, 3)
    assert reference.roll(empty, 1, axis=0).shape == (0, 3)


@pytest.mark.parametrize("shape", [(24,), (4, 6), (-1,), (2, -1, 2), (1, 24, 1), (3, 2, 2, 2)])
def test_reshape(shape: tuple[int, ...]) -> None:
    assert_same(reference.reshape(REF, shape), X.reshape(shape))


def test_reshape_shares_or_copies() -> None:
    x = reference.asarray([1, 2, 3, 4])
    reference.reshape(x, (2, 2), copy=True).values[0] = 9
    assert x == [1, 2, 3, 4]
    reference.reshape(x, (2, 2), copy=False).values[0] = 9
    assert x == [9, 2, 3, 4]
    assert reference.reshape(reference.zeros((0, 3)), (-1, 3)).shape == (0, 3)


@pytest.mark.parametrize("shape", [(5, 5), (-1, 5), (-1, -1), (-2, -12)])
def test_reshape_refuses(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="reshape: shape is"):
        reference.reshape(REF, shape)


@pytest.mark.parametrize("axis", [0, 1, -1, 3, (0, 1), (0, -1), (1, 3), ()])
def test_expand_and_squeeze(axis: Any) -> None:
    expanded = reference.expand_dims(REF, axis)
    assert_same(expanded, np.expand_dims(X, axis))
    assert_same(reference.squeeze(expanded, axis), X)


def test_expand_and_squeeze_refuse() -> None:
    with pytest.raises(IndexError, match=r"expand_dims: axis is 4; expected an axis in \[-4, 4\)"):
        reference.expand_dims(REF, 4)
    with pytest.raises(ValueError, match="each axis once"):
        reference.expand_dims(REF, (0, -5))
    with pytest.raises(ValueError, match="squeeze: axis is 0; expected axes of size 1"):
        reference.squeeze(REF, 0)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, None])
def test_concat_and_stack(axis: Any) -> None:
    other = sample((2, 3, 4), "int32", seed=1)
    expected = np.concatenate([X, other, X], axis)
    assert_same(reference.concat([REF, from_numpy(other), REF], axis=axis), expected)
    if axis is not None:
        assert_same(
            reference.stack([REF, from_numpy(other)], axis=axis), np.stack([X, other], axis)
        )


def test_concat_of_different_sizes() -> None:
    a, b = sample((2, 1), "float32"), sample((2, 3), "float64")
    assert_same(reference.concat((from_numpy(a), from_numpy(b)), axis=1), np.concatenate((a, b), 1))
    assert reference.concat([[1], [2, 3]]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ([], ValueError, "concat: arrays is []; expected at least one array"),
        ([[1], [1.5]], TypeError, "concat: operands have dtypes int64 and float64"),
        ([[1], [[2]]], ValueError, "concat: arrays[1] has shape (1, 1)"),
        ([1, 2], IndexError, "concat: axis is 0; expected no axis, x has 0 dimensions"),
        (3, TypeError, "concat: arrays is of type int; expected a tuple or list of arrays"),
    ],
)
def test_concat_refuses(arrays: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        reference.concat(arrays)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unstack(axis: int) -> None:
    found = reference.unstack(REF, axis=axis)
    assert isinstance(found, tuple)
    for part, expected in zip(found, np.moveaxis(X, axis, 0), strict=True):
        assert_same(part, expected)


@pytest.mark.parametrize("repetitions", [(2,), (), (1, 2), (2, 1, 3), (2, 1, 1, 2), (0, 1)])
def test_tile(repetitions: tuple[int, ...]) -> None:
    assert_same(reference.tile(REF, repetitions), np.tile(X, repetitions))


@pytest.mark.parametrize(
    ("repeats", "axis"), [(2, None), (0, 1), (3, -1), ([1, 0, 2], 1), ([2], 0), ([1] * 24, None)]
)
def test_repeat(repeats: Any, axis: Any) -> None:
    assert_same(reference.repeat(REF, repeats, axis=axis), np.repeat(X, repeats, axis))


def test_repeat_refuses() -> None:
    with pytest.raises(ValueError, match="non-negative repeats"):
        reference.repeat([1], -1)
    with pytest.raises(ValueError, match="one for each of 3 elements"):
        reference.repeat([1, 2, 3], [1, 2])
    with pytest.raises(TypeError, match="repeat: repeats has dtype float64"):
        reference.repeat([1], 1.5)


def test_broadcasting() -> None:
    a, b = sample((3, 1), "int8"), sample((4,), "float32")
    for found, expected in zip(
        reference.broadcast_arrays(from_numpy(a), from_numpy(b)),
        np.broadcast_arrays(a, b),
        strict=True,
    ):
        assert_same(found, expected)
    assert_same(reference.broadcast_to(from_numpy(a), (2, 3, 4)), np.broadcast_to(a, (2, 3, 4)))
    assert reference.broadcast_to([[1]], (2, 0)).shape == (2, 0)
    with pytest.raises(ValueError, match="broadcast_to"):
        reference.broadcast_to([1, 2], (3,))
    with pytest.raises(ValueError, match="expected one that"):
        reference.broadcast_to([[1, 2]], (2,))


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ((), ()),
        (((2, 1), (3,)), (2, 3)),
        (((0,), (1,)), (0,)),
        (((None, 1), (3,)), (None, 3)),
        (((None,), (1,)), (None,)),
        (((None,), (5,)), (5,)),
        (((None,), (None,)), (None,)),
    ],
)
def test_broadcast_shapes(shapes: Any, expected: Any) -> None:
    assert reference.broadcast_shapes(*shapes) == expected


def test_broadcast_shapes_refuses() -> None:
    with pytest.raises(ValueError, match=r"broadcast_shapes: operands have shapes \(2,\) and \(3"):
        reference.broadcast_shapes((2,), (3,))


def test_results_do_not_alias() -> None:
    x = ReferenceArray([1, 2], (2,), _dtypes.int64)
    for result in (
        reference.flip(x),
        reference.broadcast_to(x, (2,)),
        reference.broadcast_arrays(x, x)[0],
        reference.concat([x]),
        reference.permute_dims(x, (0,)),
    ):
        result.values[0] = 9
    assert x == [1, 2]
