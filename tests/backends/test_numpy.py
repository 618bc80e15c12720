"""What the NumPy backend computes otherwise than NumPy on many elements, with NumPy's results."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from corepy.backends._numpy import NumPyBackend
from corepy.devices._device import CPU

BACKEND: Final = NumPyBackend()


def numpys(name: str, *args: Any, **params: Any) -> Any:
    function = BACKEND.operation(name)
    assert function is not None
    return function(*args, **params)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sort_of_many_keeps_zeros_and_nan_in_order(dtype: str) -> None:
    x = np.random.default_rng(2).standard_normal(40_000).astype(dtype)
    x[::7], x[3::11], x[5::13] = 0.0, -0.0, np.nan
    x[6::17] = np.copysign(np.nan, -1)
    x[9::500] = np.inf
    few = np.random.default_rng(3).standard_normal(40_000).astype(dtype)
    few[7:9], few[20:30] = -0.0, 0.0  # of these NumPy's own sort makes -0 or 0 as it comes
    for values in (x, np.abs(x[x != 0]), np.full_like(x, -0.0), -x[~np.isnan(x)], few, -few):
        found = numpys("sort", values, axis=0, descending=False, stable=True)
        assert found.tobytes() == np.sort(values, kind="stable").tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_long_ranges(dtype: str) -> None:
    bounds = [(0, 100_000, 1), (300_001, -400_000, -7), (-(2**23), 2**23, 99), (0, 2**40, 2**24)]
    for ends in [*bounds, (2**22, 2**23 - 3, 5), (-(2**62), 2**62, 2**46 + 1)]:
        found = numpys("arange", *ends, dtype=np.dtype(dtype), device=CPU)
        wanted = np.arange(*ends)
        assert found.dtype == dtype
        if dtype == "int64" or max(map(abs, ends)) < 2**23:
            np.testing.assert_array_equal(found, wanted)
        else:
            np.testing.assert_array_equal(found, np.arange(*ends, dtype=dtype))


@pytest.mark.parametrize("endpoint", [True, False])
def test_long_linspaces(endpoint: bool) -> None:
    for ends in ((0.0, 1.0), (-3, 1e30), (0.0, 5e-324), (2, 2)):
        for dtype in ("float32", "float64"):
            params = {"dtype": np.dtype(dtype), "device": CPU, "endpoint": endpoint}
            found = numpys("linspace", *ends, 100_001, **params)
            wanted = np.linspace(*ends, 100_001, endpoint=endpoint, dtype=dtype)
            assert found.tobytes() == wanted.tobytes()
