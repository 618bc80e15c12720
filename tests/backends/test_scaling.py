"""Columns of matrices come near one, for libraries that square their elements."""

from __future__ import annotations

import numpy as np
import pytest

from corepy.backends._scaling import powers


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_columns_come_near_one_and_lose_nothing(dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 4)).astype(dtype)
    if np.iscomplexobj(x):
        x *= np.asarray(1 - 2j, dtype)
    x *= np.asarray([1e30, 1e-25, 1.0, 0.0], dtype)
    down, up = powers(np, x)
    assert down.shape == up.shape == (2, 1, 4)
    assert down.dtype == up.dtype == x.real.dtype
    parts = np.maximum(np.abs((x * down).real), np.abs((x * down).imag))
    greatest = parts.max(-2)[:, :3]
    assert ((greatest >= 0.5) & (greatest < 1.0)).all()
    np.testing.assert_array_equal(x * down * up, x)
