"""Calls besides those of the plainest form do what the functions behind their short ways do."""

from __future__ import annotations

import numpy as np
import pytest

import corepy.array_api as xp
from tests.dispatch.natives import assert_same_bits


@pytest.mark.parametrize("size", [20, 20_000, 100_000])
@pytest.mark.parametrize("target", ["float32", "float64", "int64", "int8"])
def test_no_imaginary_part_is_dropped(size: int, target: str) -> None:
    dtype = getattr(xp, target)
    for source in (xp.complex64, xp.complex128):
        x = xp.astype(xp.full(size, 1j), source)
        x._table.sibling(dtype)  # which the short way looks up
        for _ in range(2):
            with pytest.raises(TypeError, match="take xp.real or xp.imag first"):
                xp.astype(x, dtype)
            with pytest.raises(TypeError, match="take xp.real or xp.imag first"):
                xp.asarray(x, dtype=dtype)


# ---------------------------------------------------------------------------- past compat's layer


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_functions_past_compats_layer_are_numpys(dtype: str) -> None:
    rng = np.random.default_rng(6)
    a = rng.normal(size=(2, 5, 5)) + (1j * rng.normal(size=(2, 5, 5)) if dtype[0] == "c" else 0)
    a = (a @ a.conj().swapaxes(-1, -2)).astype(dtype)
    lower = np.linalg.cholesky(a)
    upper = xp.linalg.cholesky(xp.asarray(a), upper=True).unwrap()
    assert_same_bits(upper, lower.conj().swapaxes(-1, -2))
    for x in (a, a[0].T, a[0, 0], a[:, ::2, 1]):
        for order in (0, 3, 0.5, -1, 2.5, -0.5):
            for axis in (None, 0, -1):
                for kept in (False, True):
                    expected = np.linalg.vector_norm(x, ord=order, axis=axis, keepdims=kept)
                    found = xp.linalg.vector_norm(
                        xp.asarray(x), ord=order, axis=axis, keepdims=kept
                    )
                    assert_same_bits(found.unwrap(), expected)
        if dtype[0] == "f":
            for axis in range(x.ndim):
                found = xp.sort(xp.asarray(x), axis=axis, descending=True).unwrap()
                assert_same_bits(found, np.flip(np.sort(x, axis), axis))
