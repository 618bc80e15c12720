"""Rounding: against NumPy's casts, and against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corepy import _dtypes
from corepy.backends.reference._rounding import (
    round_all,
    round_ratio,
    round_scaled,
    round_to,
    wrap,
)
from tests.backends.reference.values import INF, NAN, same

LARGEST = float(np.finfo(np.float32).max)
#: Halfway between the largest float32 and what would come next: the tie overflows.
OVERFLOW = 2.0**128 - 2.0**103


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, 0.0),
        (-0.0, -0.0),
        (NAN, NAN),
        (INF, INF),
        (1e300, INF),
        (-1e300, -INF),
        (OVERFLOW, INF),
        (math.nextafter(OVERFLOW, 0), LARGEST),
        (1 + 2.0**-24, 1.0),  # a tie: to even
        (1 + 3 * 2.0**-24, 1 + 2.0**-22),  # the next one: to even, which is up
        (2.0**-150, 0.0),
        (3 * 2.0**-151, 2.0**-149),
        (-1e-60, -0.0),
    ],
)
def test_float32(value: float, expected: float) -> None:
    assert same(round_to(value, _dtypes.float32), expected)


@given(st.floats())
def test_float32_like_numpy(value: float) -> None:
    with np.errstate(over="ignore"):
        assert same(round_to(value, _dtypes.float32), float(np.float32(value)))


def test_complex64_rounds_each_part() -> None:
    assert same(round_to(complex(0.1, -0.0), _dtypes.complex64), complex(np.float32(0.1), -0.0))
    assert same(round_to(complex(1e300, NAN), _dtypes.complex64), complex(INF, NAN))


def test_wide_dtypes_and_bool_stay() -> None:
    assert round_to(0.1, _dtypes.float64) == 0.1
    assert round_to(0.1 + 0.2j, _dtypes.complex128) == 0.1 + 0.2j
    assert round_to(True, _dtypes.bool) is True


@given(st.integers(-(2**70), 2**70))
@pytest.mark.parametrize("dtype", [d for d in _dtypes.DTYPES.values() if d in _dtypes.INTEGER])
def test_integers_wrap(dtype: _dtypes.DType, value: int) -> None:
    low, high = _dtypes.integer_range(dtype)
    wrapped = wrap(value, dtype)
    assert low <= wrapped <= high
    assert (wrapped - value) % 2**dtype.bits == 0
    assert round_all([value], dtype) == [wrapped]


def test_an_integer_is_rounded_once() -> None:
    # Just above a tie of float32, but so little that float64 cannot tell: two roundings go down.
    value = ((2**24 + 1) << 40) + 1
    assert float(np.float32(float(value))) == float(2**64)
    assert round_to(value, _dtypes.float32) == float((2**24 + 2) << 40)


@given(st.integers(-(10**40), 10**40), st.integers(1, 10**40))
def test_ratios_to_float64(top: int, bottom: int) -> None:
    assert round_ratio(top, bottom, _dtypes.float64) == float(Fraction(top, bottom))


@given(st.integers(-(10**40), 10**40), st.integers(1, 10**40))
def test_ratios_to_float32_are_nearest(top: int, bottom: int) -> None:
    exact = Fraction(top, bottom)
    found = np.float32(round_ratio(top, bottom, _dtypes.float32))
    largest = Fraction(float(np.finfo(np.float32).max))
    if np.isinf(found):  # beyond the largest by half of its spacing, 2**104
        assert abs(exact) >= largest + 2**103
        assert (found > 0) == (exact > 0)
        return
    error = abs(Fraction(float(found)) - exact)
    for direction in (-INF, INF):
        with np.errstate(over="ignore"):  # the largest one has no finite neighbour above
            neighbour = np.nextafter(found, np.float32(direction))
        if np.isfinite(neighbour):
            assert error <= abs(Fraction(float(neighbour)) - exact)


def test_extreme_ratios() -> None:
    assert round_ratio(10**400, 1, _dtypes.float64) == INF
    assert round_ratio(-(10**400), 1, _dtypes.float32) == -INF
    assert same(round_ratio(-1, 10**400, _dtypes.float64), -0.0)
    assert round_ratio(1, 2**1074, _dtypes.float64) == 5e-324
    assert round_ratio(10**50, 1, _dtypes.float32) == INF


def test_scaled_integers() -> None:
    assert round_scaled(3, -1, _dtypes.float64) == 1.5
    assert round_scaled(-5, 10, _dtypes.float32) == -5120.0
    assert round_scaled(1, 10**12, _dtypes.float64) == INF
    assert same(round_scaled(-1, -(10**12), _dtypes.float64), -0.0)
    assert same(round_scaled(0, 10**12, _dtypes.float64), 0.0)
