"""As many dimensions as NumPy takes, which are more than its own ``broadcast_shapes`` does."""

from __future__ import annotations

import numpy as np
import pytest

import corepy

xp = corepy.array_api


@pytest.mark.parametrize("ndim", [33, 64])
def test_elementwise_functions_take_as_many_dimensions_as_numpy(ndim: int) -> None:
    shape = (*(1,) * (ndim - 1), 3)
    native = np.asarray([1.0, 5.0, -4.0]).reshape(shape)
    x = xp.asarray(native)
    for other in (2.0, np.full((1,) * ndim, 2.0), np.full(1, 2.0), np.full(shape, 0.5)):
        y = xp.asarray(other)
        np.testing.assert_array_equal(np.asarray(x // y), native // other)
        np.testing.assert_array_equal(np.asarray(abs(x) ** y), abs(native) ** other)


def test_cross_products_take_as_many_dimensions_as_numpy() -> None:
    x = np.arange(6.0).reshape(2, *(1,) * 38, 3)
    found = xp.linalg.cross(xp.asarray(x), xp.asarray([[1.0, 2.0, 3.0]]))
    assert found.shape == x.shape
    np.testing.assert_array_equal(
        np.asarray(found).reshape(2, 3), np.linalg.cross(x.reshape(2, 3), [[1.0, 2.0, 3.0]])
    )
