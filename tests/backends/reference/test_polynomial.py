"""Splitting polynomials by multiplicity, with factors that are known."""

from __future__ import annotations

from functools import reduce

import pytest

from corepy.backends.reference._integer_matrix import Gaussian, characteristic_polynomial
from corepy.backends.reference._polynomial import square_free_factors


def product(*factors):
    def multiply(p, q):
        result = [0] * (len(p) + len(q) - 1)
        for i, a in enumerate(p):
            for j, b in enumerate(q):
                result[i + j] = result[i + j] + a * b
        return result

    return reduce(multiply, factors)


@pytest.mark.parametrize(
    "factors",
    [
        {1: [1, -5]},
        {2: [1, 0]},
        {1: [1, 0, 1], 2: [1, -1], 3: [1, 0]},
        {1: [1, -3, 2], 2: [1, 10**20, 1]},
        {7: [1, -1]},
        {2: [1, 1, 1], 5: [1, -(2**53) + 1]},
        {1: [1, Gaussian(2, 3)], 2: [1, Gaussian(0, -1)]},
        {1: [1, 0, 0, Gaussian(5, 1)], 4: [1, Gaussian(1, 1)]},
    ],
)
def test_factors_are_found_with_their_multiplicities(factors):
    p = product(*(factor for times, factor in factors.items() for _ in range(times)))
    found = {times: factor for factor, times in square_free_factors(p)}
    assert found == factors


def test_a_constant_has_no_roots():
    assert square_free_factors([1]) == []


def test_characteristic_polynomials():
    assert characteristic_polynomial([[2, 1], [0, 3]]) == product([1, -2], [1, -3])
    assert characteristic_polynomial([[0, 1, 0], [0, 0, 1], [6, -11, 6]]) == [1, -6, 11, -6]
    i = Gaussian(0, 1)
    zero = Gaussian(0, 0)
    assert characteristic_polynomial([[i, zero], [zero, -i]]) == [1, 0, 1]
