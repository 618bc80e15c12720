"""Copies of arrays of all layouts: to their own dtype and others, and in another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import corepy.array_api as xp

Array = npt.NDArray[Any]

LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "transposed": lambda m: m.T,
    "permuted": lambda m: m.reshape(4, -1, m.shape[1]).transpose(2, 0, 1),
    "middle first": lambda m: m.reshape(4, -1, m.shape[1]).transpose(1, 0, 2),
    "rows with gaps": lambda m: m[::2],
    "columns with gaps": lambda m: m[:, 1::3],
    "transposed with gaps": lambda m: m.T[1::3],
    "backwards": lambda m: m[::-1],
    "vector": lambda m: m[:, 0],
    "vector backwards": lambda m: m.reshape(-1)[::-1],
    "spread": lambda m: np.broadcast_to(m[0], m.shape),
    "empty": lambda m: m.T[:0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(4, 3), (100, 70), (400, 301)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float32", "complex128"])
def test_copies_of_all_layouts(dtype: str, shape: tuple[int, int], layout: str) -> None:
    native = LAYOUTS[layout](np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype))
    x, other = xp.asarray(native), "complex128" if dtype == "float32" else "float32"
    targets = [dtype] if dtype == "complex128" else [dtype, other]
    for target in targets:
        kind = getattr(xp, target)
        copies = [xp.astype(x, kind), xp.asarray(x, dtype=kind, copy=True)]
        for made in copies:
            found = made.unwrap()
            assert found.dtype == target
            np.testing.assert_array_equal(found, native.astype(target))
            assert not np.shares_memory(found, native)
            if native.flags.forc:  # in the order of its memory, which is read but once
                assert found.strides == native.astype(target).strides
            if made.size:
                made[(0,) * made.ndim] = target == "bool"  # it is nobody's but its own


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(4, 3), (100, 70)])
def test_other_shapes_of_all_layouts(shape: tuple[int, int], layout: str) -> None:
    native = LAYOUTS[layout](np.arange(shape[0] * shape[1]).reshape(shape))
    x = xp.asarray(native)
    for target in ((-1,), (1, *native.shape), (*native.shape, 1)):
        for copy in (None, True):
            found = xp.reshape(x, target, copy=copy).unwrap()
            np.testing.assert_array_equal(found, native.reshape(target))
            shares = np.shares_memory(native.reshape(target), native) and copy is None
            assert np.shares_memory(found, native) is shares
        try:
            expected = native.reshape(target, copy=False)
        except ValueError:
            with pytest.raises(ValueError, match="reshape: "):
                xp.reshape(x, target, copy=False)
        else:
            np.testing.assert_array_equal(xp.reshape(x, target, copy=False).unwrap(), expected)
