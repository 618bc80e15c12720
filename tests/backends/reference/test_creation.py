"""Creation functions, against exact fractions and NumPy."""

from __future__ import annotations

import math
from array import array
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from corepy import _dtypes
from corepy.backends import reference
from corepy.backends.reference import ReferenceArray
from tests.backends.reference.values import ALL_DTYPES, INF, assert_same, from_numpy, same, sample


@pytest.mark.parametrize(
    ("obj", "dtype", "shape"),
    [
        (True, _dtypes.bool, ()),
        (3, _dtypes.int64, ()),
        (2.5, _dtypes.float64, ()),
        (1j, _dtypes.complex128, ()),
        ([True, 2], _dtypes.int64, (2,)),
        ([[1, 2.5], [True, 4]], _dtypes.float64, (2, 2)),
        ([1, 2j], _dtypes.complex128, (2,)),
        ([], _dtypes.float64, (0,)),
        ([[], []], _dtypes.float64, (2, 0)),
        (((1,), (2,), (3,)), _dtypes.int64, (3, 1)),
    ],
)
def test_asarray_infers(obj: Any, dtype: _dtypes.DType, shape: tuple[int, ...]) -> None:
    x = reference.asarray(obj)
    assert x.dtype is dtype
    assert x.shape == shape


def test_asarray_converts() -> None:
    assert same(reference.asarray(0.1, dtype=_dtypes.float32).values[0], float(np.float32(0.1)))
    assert reference.asarray([1, 2], dtype=_dtypes.complex64).values == [1 + 0j, 2 + 0j]
    x = from_numpy(np.array([1, 2], "int8"))
    assert reference.asarray(x, dtype=_dtypes.int32) == ReferenceArray([1, 2], (2,), _dtypes.int32)
    assert reference.asarray([x, x]).shape == (2, 2)


@pytest.mark.parametrize("name", ALL_DTYPES)
def test_asarray_reads_buffers(name: str) -> None:
    values = sample((3, 4), name)
    assert_same(reference.asarray(memoryview(values)), values)
    assert_same(reference.asarray(memoryview(values.T)), values.T)


def test_asarray_reads_the_array_module() -> None:
    assert reference.asarray(array("h", [1, -2])) == ReferenceArray([1, -2], (2,), _dtypes.int16)


def test_asarray_copies() -> None:
    x = reference.asarray([1, 2])
    assert reference.asarray(x) is x
    assert reference.asarray(x, copy=False) is x
    copied = reference.asarray(x, copy=True)
    copied.values[0] = 9
    assert x == [1, 2]
    narrow = from_numpy(np.array([0.5], "float32"))
    reference.asarray(narrow, dtype=_dtypes.float64).values[0] = 0.1
    assert narrow.values == [0.5]
    with pytest.raises(ValueError, match="asarray: copy is False"):
        reference.asarray([1, 2], copy=False)


@pytest.mark.parametrize(
    ("obj", "params", "error", "message"),
    [
        ([[1, 2], [3]], {}, ValueError, r"asarray: obj is \[3\]; expected a nested sequence"),
        ([1, [2]], {}, ValueError, r"asarray: obj is \[2\]"),
        ([[1], 2], {}, ValueError, "asarray: obj is 2; expected a nested sequence of shape"),
        ("text", {}, TypeError, "asarray: obj is of type str"),
        ([300], {"dtype": _dtypes.int8}, OverflowError, r"obj is 300; .* \[-128, 127\] for int8"),
        ([1.5], {"dtype": _dtypes.int8}, TypeError, "obj is of type float"),
        ([1], {"device": "cuda:0"}, ValueError, "device is 'cuda:0'; expected cpu"),
    ],
)
def test_asarray_refuses(
    obj: Any, params: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        reference.asarray(obj, **params)


def test_constant_arrays() -> None:
    assert_same(reference.zeros((2, 3)), np.zeros((2, 3)))
    assert_same(reference.ones(3, dtype=_dtypes.complex64), np.ones(3, "complex64"))
    assert_same(reference.full((2,), 7), np.full(2, 7))
    assert_same(reference.full((), 0.1, dtype=_dtypes.float32), np.float32(0.1))
    assert_same(reference.full((1,), True), np.array([True]))
    x = from_numpy(np.array([[1, 2]], "int16"))
    assert_same(reference.zeros_like(x), np.zeros((1, 2), "int16"))
    assert_same(reference.ones_like(x, dtype=_dtypes.bool), np.ones((1, 2), "bool"))
    assert_same(reference.full_like(x, 5), np.full((1, 2), 5, "int16"))
    assert reference.empty((2, 0)).shape == (2, 0)
    assert reference.empty_like(x).dtype is _dtypes.int16
    with pytest.raises(ValueError, match="zeros: shape is -1; expected non-negative sizes"):
        reference.zeros(-1)


@pytest.mark.parametrize(
    "args",
    [(5,), (0,), (-3,), (2, 7), (2, 7, 3), (7, 2, -2), (0.5, 3), (0, 1, 0.1), (1.0, 2.0, 0.3)],
)
def test_arange_like_numpy(args: tuple[float, ...]) -> None:
    found = reference.arange(*args)
    expected = np.arange(*args)
    assert found.shape == expected.shape
    assert found.dtype is _dtypes.as_dtype(expected.dtype)
    assert np.allclose(found.values, expected, rtol=1e-15)


def test_arange_is_exact() -> None:
    step = 0.1
    found = reference.arange(0, 1000, step)
    assert found.size == math.ceil(Fraction(1000) / Fraction(step)) == 10000
    for i in (3, 777, 9999):
        assert found.values[i] == float(i * Fraction(step))
    narrow = reference.arange(2**24, 2**24 + 4, dtype=_dtypes.float32)
    assert narrow.values == [2.0**24, 2.0**24, 2.0**24 + 2, 2.0**24 + 4]


@pytest.mark.parametrize(
    ("args", "dtype", "error", "message"),
    [
        ((0, 5, 0), None, ValueError, "arange: step is 0"),
        ((0, INF), None, ValueError, "arange: stop is inf; expected a finite number"),
        ((0, 200), _dtypes.int8, OverflowError, r"from 0 to 199; expected them in \[-128, 127\]"),
        ((3,), _dtypes.bool, TypeError, "expected a real-valued dtype"),
    ],
)
def test_arange_refuses(
    args: tuple[float, ...], dtype: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        reference.arange(*args, dtype=dtype)


def test_linspace_is_exact() -> None:
    found = reference.linspace(0.1, 0.9, 7)
    first, stride = Fraction(0.1), (Fraction(0.9) - Fraction(0.1)) / 6
    assert found.values == [float(first + i * stride) for i in range(7)]
    assert found.values[-1] == 0.9
    open_end = reference.linspace(0.0, 1.0, 3, endpoint=False)
    assert open_end.values == [0.0, float(Fraction(1, 3)), float(Fraction(2, 3))]
    assert_same(reference.linspace(1, 2, 1), np.array([1.0]))
    assert reference.linspace(0, 1, 0).shape == (0,)
    assert reference.linspace(-1e308, 1e308, 3).values == [-1e308, 0.0, 1e308]
    assert same(reference.linspace(-0.0, 1.0, 2).values[0], -0.0)


def test_linspace_of_complex_numbers() -> None:
    found = reference.linspace(0, 2 + 4j, 3)
    assert_same(found, np.array([0j, 1 + 2j, 2 + 4j]))
    assert reference.linspace(0, 1j, 2, dtype=_dtypes.complex64).dtype is _dtypes.complex64
    with pytest.raises(TypeError, match="linspace: dtype is of type"):
        reference.linspace(0, 1j, 2, dtype=_dtypes.float64)
    with pytest.raises(ValueError, match="linspace: num is -1"):
        reference.linspace(0, 1, -1)


@pytest.mark.parametrize("k", [-4, -2, -1, 0, 1, 3, 5])
def test_matrices_like_numpy(k: int) -> None:
    assert_same(reference.eye(3, 4, k=k), np.eye(3, 4, k))
    assert_same(reference.eye(3, k=k, dtype=_dtypes.bool), np.eye(3, k=k, dtype=bool))
    x = sample((2, 3, 4), "int16")
    assert_same(reference.tril(from_numpy(x), k=k), np.tril(x, k))
    assert_same(reference.triu(from_numpy(x), k=k), np.triu(x, k))


def test_triangles_need_matrices() -> None:
    with pytest.raises(ValueError, match="tril: x has shape .* expected at least 2 dimensions"):
        reference.tril([1, 2])


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_meshgrid_like_numpy(count: int, indexing: Any) -> None:
    vectors = [sample((size,), "float32") for size in (2, 3, 4)[:count]]
    found = reference.meshgrid(*map(from_numpy, vectors), indexing=indexing)
    expected = np.meshgrid(*vectors, indexing=indexing)
    assert isinstance(found, tuple)
    for a, b in zip(found, expected, strict=True):
        assert_same(a, b)


def test_meshgrid_refuses() -> None:
    with pytest.raises(ValueError, match='indexing is \'ab\'; expected "xy" or "ij"'):
        reference.meshgrid([1], indexing="ab")
    with pytest.raises(ValueError, match=r"meshgrid: arrays\[0\] has shape"):
        reference.meshgrid([[1]])
