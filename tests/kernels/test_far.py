"""Results that no cache holds are written past them, and are what their parts are alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

from corepy import kernels
from corepy._loops._streaming import HELD
from corepy.kernels._ways import only

DTYPES: Final = ["float32", "float64", "float16", ml_dtypes.bfloat16]


def rows(size: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Make so many rows that, with as much that is read, they are in no cache."""
    count = HELD // (2 * size * np.dtype(dtype).itemsize) + 8
    few = np.random.default_rng(size).standard_normal((97, size), np.float32).astype(dtype)
    return np.resize(few, (count, size))


def placed(x: np.ndarray[Any, Any], offset: int) -> np.ndarray[Any, Any]:
    """Make memory like an array's that begins so many elements beyond a line."""
    room = np.zeros(x.size + 64 + offset, x.dtype)
    first = -room.ctypes.data % 64 // x.itemsize + offset
    return room[first : first + x.size].reshape(x.shape)


def held(function: Callable[..., Any], x: np.ndarray[Any, Any]) -> None:
    """Hold a function of rows to what it gives of a thousand at a time, and of itself in place."""
    with only("numba"):
        parts = [function(x[i : i + 970], None) for i in range(0, len(x), 970)]
        expected = np.concatenate(parts).tobytes()
        assert np.asarray(function(x, None)).tobytes() == expected
        for offset in (0, 3):
            out = placed(x, offset)
            function(x, out)
            assert out.tobytes() == expected
        inplace = x.copy()
        function(inplace, inplace)
        assert inplace.tobytes() == expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [19, 256, 1003])
def test_rms_norms(size: int, dtype: Any) -> None:
    weight = np.linspace(0.5, 2, size).astype(dtype)
    held(lambda x, out: kernels.rms_norm(x, weight, 1e-5, out=out), rows(size, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norms_of_sums(dtype: Any) -> None:
    x = rows(515, dtype)
    residual = x[::-1].copy()
    with only("numba"):
        normed, summed = kernels.rms_norm(x, None, 1e-5, residual=residual)
        for i in range(0, len(x), 1000):
            part = slice(i, i + 1000)
            found = kernels.rms_norm(x[part], None, 1e-5, residual=residual[part])
            assert normed[part].tobytes() == found[0].tobytes()
            assert summed[part].tobytes() == found[1].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [19, 1003])
def test_layer_norms(size: int, dtype: Any) -> None:
    weight = np.linspace(0.5, 2, size).astype(dtype)
    held(lambda x, out: kernels.layer_norm(x, weight, weight, 1e-5, out=out), rows(size, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rope(layout: Any, dtype: Any) -> None:
    cos, sin = kernels.rope_tables(97, 38)
    x = rows(38, dtype)
    x = x[: len(x) // 97 * 97].reshape(-1, 97, 38)
    held(lambda x, out: kernels.rope(x, cos, sin, layout=layout, out=out), x)


def test_rows_that_no_cache_holds() -> None:
    x = np.resize(np.linspace(-1, 1, 97, dtype="float32"), (5, 1_000_003))
    with only("numba"):
        for found in (kernels.rms_norm(x, None, 1e-5), kernels.layer_norm(x, None, None, 1e-5)):
            assert np.isfinite(found).all()
            np.testing.assert_allclose((found * found).mean(axis=1, dtype="f8"), 1, rtol=1e-4)
