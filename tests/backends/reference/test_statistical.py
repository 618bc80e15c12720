"""Statistical functions, against exact fractions and NumPy; `all`, `any` and `diff`."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from corepy import _dtypes
from corepy.backends import reference
from corepy.backends.reference._rounding import round_ratio
from tests.backends.reference.values import (
    INF,
    NAN,
    assert_close,
    assert_same,
    from_numpy,
    same,
    sample,
)

AXES: list[Any] = [None, 0, 1, -1, (0, 2), (2, 1), ()]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "uint64"])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_integers_like_numpy(name: str, axis: Any, dtype: str) -> None:
    x = sample((2, 3, 4), dtype)
    found = getattr(reference, name)(from_numpy(x), axis=axis)
    assert_same(found, np.asarray(getattr(np, name)(x, axis)))
    kept = getattr(reference, name)(from_numpy(x), axis=axis, keepdims=True)
    assert_same(kept, np.asarray(getattr(np, name)(x, axis, keepdims=True)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "std", "var"])
def test_floats_like_numpy(name: str, axis: Any, dtype: str) -> None:
    if name in ("std", "var") and dtype.startswith("complex"):
        with pytest.raises(TypeError, match=f"{name}: x has dtype {dtype}"):
            getattr(reference, name)(from_numpy(sample((2,), dtype)))
        return
    x = sample((2, 3, 4), dtype) + np.array(11, dtype)  # far enough from zero not to cancel
    expected = np.asarray(getattr(np, name)(x, axis))
    found = getattr(reference, name)(from_numpy(x), axis=axis)
    assert found.dtype is _dtypes.as_dtype(dtype)
    assert found.shape == expected.shape
    assert np.allclose(found.values, expected.ravel(), rtol=50 * np.finfo(dtype).eps)


# ------------------------------------------------------------------ exact, then rounded once


def _float(exact: Fraction, dtype: str) -> float:
    return round_ratio(exact.numerator, exact.denominator, _dtypes.as_dtype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_moments_are_correctly_rounded(dtype: str) -> None:
    for seed in range(10):
        x = sample((9,), dtype, seed).astype(dtype)
        exact = list(map(Fraction, x.tolist()))
        native = from_numpy(x)
        assert reference.sum(native).values == [_float(sum(exact, Fraction(0)), dtype)]
        assert reference.prod(native).values == [_float(math.prod(exact), dtype)]
        mean = sum(exact, Fraction(0)) / 9
        assert reference.mean(native).values == [_float(mean, dtype)]
        squares = sum(((v - mean) ** 2 for v in exact), Fraction(0))
        assert reference.var(native, correction=1.5).values == [
            _float(squares / Fraction(15, 2), dtype)
        ]
        (std,) = reference.std(native, correction=1).values
        variance = squares / 8
        for neighbour in np.nextafter(np.array(std, dtype), np.array([-INF, INF], dtype)).tolist():
            middle = (Fraction(std) + Fraction(neighbour)) / 2
            assert (middle**2 < variance) == (neighbour < std)


def test_sums_neither_cancel_nor_overflow() -> None:
    assert reference.sum([1e16, 1.0, -1e16]) == 1.0
    assert reference.sum([1.5e308, 1.5e308, -1.5e308]) == 1.5e308
    assert reference.prod([1e300, 1e300, 1e-300, 1e-300]).values[0] == pytest.approx(1.0, rel=1e-15)
    assert reference.mean([1.5e308, 1.5e308]) == 1.5e308
    assert reference.var([1e9 + 1, 1e9 + 2, 1e9 + 3]) == 2 / 3
    assert reference.cumulative_sum([1e16, 1.0, -1e16]) == [1e16, 1e16, 1.0]


def test_special_values() -> None:
    assert same(reference.sum([INF, -INF]).values[0], NAN)
    assert same(reference.sum([INF, 1.0]).values[0], INF)
    assert same(reference.mean([INF, 1.0]).values[0], INF)
    assert same(reference.mean([NAN, 1.0]).values[0], NAN)
    assert same(reference.prod([0.0, INF]).values[0], NAN)
    assert same(reference.var([INF, 1.0]).values[0], NAN)
    assert same(reference.max([1.0, NAN, INF]).values[0], NAN)
    assert same(reference.min([NAN, -INF]).values[0], NAN)
    assert same(reference.max([INF, -INF]).values[0], INF)
    assert same(reference.mean([complex(NAN, 1.0)]).values[0], complex(NAN, 1.0))


def test_empty() -> None:
    empty = reference.zeros((0, 2))
    assert reference.sum(empty) == 0.0
    assert reference.prod(empty) == 1.0
    assert reference.sum(empty, axis=0) == [0.0, 0.0]
    assert reference.sum(empty, axis=1).shape == (0,)
    assert same(reference.mean(empty).values[0], NAN)
    complex_empty = reference.zeros((0,), dtype=_dtypes.complex64)
    assert same(reference.mean(complex_empty).values[0], complex(NAN, NAN))
    assert same(reference.var(empty).values[0], NAN)
    assert reference.max(empty, axis=1).shape == (0,)
    with pytest.raises(ValueError, match="max: x has shape .* at least one element"):
        reference.max(empty)


def test_divisor_of_the_variance() -> None:
    assert same(reference.var([1.0], correction=1).values[0], NAN)
    assert same(reference.std([1.0, 2.0], correction=2.5).values[0], NAN)
    assert reference.var([1, 3]) == 1.0
    for correction in (NAN, math.inf):
        assert same(reference.var([1.0], correction=correction).values[0], NAN)
    assert reference.std([1.0, 2.0], correction=-math.inf) == 0.0


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("int8", "int64"), ("uint8", "uint64"), ("float32", "float32"), ("complex64", "complex64")],
)
@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_dtypes_of_results(name: str, dtype: str, expected: str) -> None:
    x = from_numpy(np.array([3, 100], dtype))
    function = getattr(reference, name)
    assert function(x).dtype.name == expected
    assert function(x, dtype=_dtypes.complex128).dtype is _dtypes.complex128


def test_asked_for_dtype_is_cast_to_first() -> None:
    x = from_numpy(np.array([200, 100], "uint8"))
    assert reference.sum(x, dtype=_dtypes.uint8).values == [44]
    assert reference.sum(x, dtype=_dtypes.int8).values == [44]
    assert reference.sum([2**62, 2**62, 2**62, 2**62]).values == [0]


# ------------------------------------------------------------------ cumulative


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "complex128"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_cumulative_like_numpy(name: str, axis: int, dtype: str, initial: bool) -> None:
    x = sample((2, 3, 4), dtype)
    found = getattr(reference, name)(from_numpy(x), axis=axis, include_initial=initial)
    expected = getattr(np, name)(x, axis=axis, include_initial=initial)
    assert found.shape == expected.shape
    assert found.dtype is _dtypes.as_dtype(expected.dtype)
    if expected.dtype.kind in "iu":
        assert_same(found, expected)
    else:
        scale = np.finfo(dtype).eps * 100
        assert np.allclose(found.values, expected.ravel(), rtol=scale, atol=scale)


def test_cumulative_axis() -> None:
    assert reference.cumulative_sum([1, 2]) == [1, 3]
    assert reference.cumulative_prod([], include_initial=True) == [1.0]
    for name in ("cumulative_sum", "cumulative_prod"):
        with pytest.raises(ValueError, match=f"{name}: axis is None"):
            getattr(reference, name)([[1]])


def test_cumulative_special_values() -> None:
    for a, b in zip(
        reference.cumulative_sum([-0.0, INF, -INF, 1.0]).values, [-0.0, INF, NAN, NAN], strict=True
    ):
        assert same(a, b)
    for a, b in zip(
        reference.cumulative_prod([-1.0, 0.0, INF, 2.0]).values, [-1.0, -0.0, NAN, NAN], strict=True
    ):
        assert same(a, b)


# ------------------------------------------------------------------ utilities


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["all", "any"])
def test_truth_like_numpy(name: str, axis: Any) -> None:
    x = sample((2, 3, 4), "bool")
    found = getattr(reference, name)(from_numpy(x), axis=axis, keepdims=True)
    assert_same(found, np.asarray(getattr(np, name)(x, axis, keepdims=True)))


def test_truth_of_numbers() -> None:
    assert reference.all([NAN, INF, 1e-320]) == True  # noqa: E712
    assert reference.any([0.0, -0.0]) == False  # noqa: E712
    assert reference.any([0j, 1j]) == True  # noqa: E712
    assert reference.all([]) == True  # noqa: E712
    assert reference.any([]) == False  # noqa: E712


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float64", "complex64"])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("axis", [0, -1])
def test_diff_like_numpy(axis: int, n: int, dtype: str) -> None:
    x = sample((3, 4), dtype)
    found = reference.diff(from_numpy(x), axis=axis, n=n)
    assert_close(found, np.diff(x, n, axis), ulps=4) if dtype == "float64" else assert_same(
        found, np.diff(x, n, axis)
    )


def test_diff_with_more_values() -> None:
    x, before, after = sample((2, 3), "int32"), sample((2, 1), "int32"), sample((2, 2), "int32")
    found = reference.diff(from_numpy(x), prepend=from_numpy(before), append=from_numpy(after))
    assert_same(found, np.diff(x, prepend=before, append=after))
    with pytest.raises(ValueError, match="diff: n is -1"):
        reference.diff([1, 2], n=-1)
    with pytest.raises(TypeError, match="diff: x has dtype bool"):
        reference.diff([True, False])
