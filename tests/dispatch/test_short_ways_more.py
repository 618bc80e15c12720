"""Calls besides those of the plainest form do what the functions behind their short ways do."""

from __future__ import annotations

import pytest

import corepy.array_api as xp


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
