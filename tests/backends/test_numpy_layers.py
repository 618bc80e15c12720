"""What the NumPy backend computes past NumPy's Python layer, with the bits of NumPy's functions."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from corepy.backends import _numpy_set
from corepy.backends._numpy import NumPyBackend
from tests.dispatch.natives import assert_same_bits

BACKEND: Final = NumPyBackend()
RNG: Final = np.random.default_rng(5)


def own(name: str, *args: Any, **params: Any) -> Any:
    function = BACKEND.operation(name)
    assert function is not None
    return function(*args, **params)


def assert_same(found: Any, expected: Any) -> None:
    assert_same_bits(np.asarray(found), np.asarray(expected))


# ---------------------------------------------------------------------------- sets


@pytest.mark.parametrize("dtype", ["?", "b", "Q", "f", "d", "D"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7, 5), (300,)])
def test_distinct_elements_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = RNG.integers(0, 9, shape).astype(dtype)
    if dtype in "fdD" and x.size > 5:
        x.flat[[1, 4]] = np.nan
        x.flat[[2, 5]] = -0.0
    given = {"equal_nan": False, "return_counts": True}
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, **given)
    for found, expected in zip(
        own("unique_all", x), (values, first, inverse.reshape(x.shape), counts), strict=True
    ):
        assert_same(found, expected)
    for found, expected in zip(own("unique_counts", x), np.unique(x, **given), strict=True):
        assert_same(found, expected)
    values, inverse = np.unique(x, return_inverse=True, equal_nan=False)
    found_values, found_inverse = own("unique_inverse", x)
    assert_same(found_values, values)
    assert_same(found_inverse, inverse.reshape(x.shape))


def test_distinct_elements_leave_the_operand_as_it_is() -> None:
    x = np.asarray([3, 1, 2, 1])
    for function in (_numpy_set.unique_all, _numpy_set.unique_counts, _numpy_set.unique_inverse):
        function(x)
        assert x.tolist() == [3, 1, 2, 1]
