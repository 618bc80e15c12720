"""Exact sums, products and roots, against fractions."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from corepy import _dtypes
from corepy.backends.reference._exact import (
    ExactComplexProduct,
    ExactProduct,
    ExactSum,
    exact_dot,
    exact_sqrt,
    exact_sum,
    hypotenuse,
)
from corepy.backends.reference._rounding import round_ratio
from tests.backends.reference.values import INF, NAN, same

finite = st.floats(allow_nan=False, allow_infinity=False)
DOUBLE = _dtypes.float64


@given(st.lists(finite, max_size=8))
def test_sum(values: list[float]) -> None:
    exact = sum(map(Fraction, values))
    expected = round_ratio(exact.numerator, exact.denominator, DOUBLE) if exact else 0.0
    assert exact_sum(values, DOUBLE) == expected
    running = ExactSum()
    for value in values:
        running.add(value)
    assert same(running.rounded(DOUBLE), exact_sum(values, DOUBLE))


def test_sums_of_what_is_not_finite() -> None:
    assert same(exact_sum([], DOUBLE), 0.0)
    assert same(exact_sum([-0.0, -0.0], DOUBLE), -0.0)
    assert same(exact_sum([-0.0, 0.0], DOUBLE), 0.0)
    assert same(exact_sum([1.0, -1.0], DOUBLE), 0.0)
    assert exact_sum([INF, 1.0], DOUBLE) == INF
    assert math.isnan(exact_sum([INF, -INF], DOUBLE))
    assert math.isnan(exact_sum([NAN, 1.0], DOUBLE))
    assert exact_sum([1.7e308, 1.7e308, -1.7e308], DOUBLE) == 1.7e308


@given(st.lists(st.tuples(finite, finite), max_size=6))
def test_dot(pairs: list[tuple[float, float]]) -> None:
    exact = sum(Fraction(a) * Fraction(b) for a, b in pairs)
    expected = round_ratio(exact.numerator, exact.denominator, DOUBLE) if exact else 0.0
    assert exact_dot([a for a, _ in pairs], [b for _, b in pairs], DOUBLE) == expected


def test_dot_of_infinities() -> None:
    assert exact_dot([INF, 1.0], [2.0, 1.0], DOUBLE) == INF
    assert math.isnan(exact_dot([INF], [0.0], DOUBLE))
    # Products that only overflow do not make a NaN with an infinity of the other sign.
    assert exact_dot([1e300, -INF], [1e300, 1.0], DOUBLE) == -INF


@given(st.lists(finite.filter(bool), max_size=8))
def test_product(values: list[float]) -> None:
    exact = math.prod(map(Fraction, values), start=Fraction(1))
    product = ExactProduct()
    for value in values:
        product.multiply(value)
    assert product.rounded(DOUBLE) == round_ratio(exact.numerator, exact.denominator, DOUBLE)


def test_products_of_zeros_and_infinities() -> None:
    def product(*values: float) -> float:
        total = ExactProduct()
        for value in values:
            total.multiply(value)
        return total.rounded(DOUBLE)

    assert same(product(0.0, -1.0), -0.0)
    assert same(product(-0.0, -2.0), 0.0)
    assert product(INF, -2.0) == -INF
    assert math.isnan(product(INF, 0.0))
    assert math.isnan(product(NAN, 0.0))


def test_long_products_stay_short_and_right() -> None:
    values = [1 + i / 4096 for i in range(-500, 500)] * 2
    exact = math.prod(map(Fraction, values))
    total, pair = ExactProduct(), ExactComplexProduct()
    for value in values:
        total.multiply(value)
        pair.multiply(complex(0.0, value))
    expected = round_ratio(exact.numerator, exact.denominator, DOUBLE)
    assert total.rounded(DOUBLE) == expected
    assert pair.rounded(DOUBLE) == expected  # 1j to the power of a multiple of four is 1
    for value in values:
        total.multiply(value * 1e-300)
    assert total.rounded(DOUBLE) == 0.0


def test_complex_product() -> None:
    total = ExactComplexProduct()
    for _ in range(4):
        total.multiply(1 + 1j)
    assert total.rounded(DOUBLE) == -4
    total.multiply(complex(INF, 0))
    assert total.rounded(DOUBLE).real == -INF


@given(st.integers(0, 10**60), st.integers(1, 10**60))
def test_sqrt_is_nearest(top: int, bottom: int) -> None:
    found = Fraction(exact_sqrt(top, bottom, DOUBLE))
    exact = Fraction(top, bottom)
    half_up = (found + Fraction(math.nextafter(float(found), INF))) / 2
    half_down = (found + Fraction(math.nextafter(float(found), -INF))) / 2
    assert half_up**2 >= exact
    assert half_down < 0 or half_down**2 <= exact


def test_hypotenuse() -> None:
    assert hypotenuse([3.0, 4.0]) == 5.0
    assert hypotenuse([3e300, 4e300]) == 5e300
    assert hypotenuse([3e-320, 4e-320]) == 5e-320
    assert hypotenuse([INF, NAN]) == INF
    assert math.isnan(hypotenuse([1.0, NAN]))
    assert hypotenuse([0.0, -0.0]) == 0.0
    assert hypotenuse([1.7e308, 1.7e308]) == INF
