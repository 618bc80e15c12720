"""Copies of arrays of all layouts: to their own dtype and others, and in another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import corepy.array_api as xp
from tests.together import together

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


@pytest.mark.parametrize("shape", [(4, 3), (100, 70), (400, 301)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float32", "complex128"])
@together("layout", LAYOUTS)
def test_copies_of_all_layouts(dtype: str, shape: tuple[int, int], layout: str) -> None:
    native = LAYOUTS[layout]((np.arange(shape[0] * shape[1]) % 101).reshape(shape).astype(dtype))
    x, other = xp.asarray(native), "complex128" if dtype == "float32" else "float32"
    targets = [dtype, "bool"] if dtype == "complex128" else [dtype, other, "bool", "int8"]
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


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_what_counts_as_true(dtype: str) -> None:
    values = [0.0, -0.0, np.nan, -np.nan, np.inf, np.finfo(dtype).smallest_subnormal, -1.0]
    if dtype[0] == "c":
        values += [complex(-0.0, -0.0), complex(0.0, np.nan), 1e-30j]
    for size in (len(values), 5000, 70_000):
        native = np.resize(np.asarray(values, dtype), size)
        found = xp.astype(xp.asarray(native), xp.bool).unwrap()
        np.testing.assert_array_equal(found, native != 0)


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "int64", "complex64", "complex128"])
@pytest.mark.parametrize("size", [0, 1, 7, 3000])
def test_pairs_are_put_in_turn(dtype: str, size: int) -> None:
    a, b = (np.arange(size) % 3).astype(dtype), (np.arange(size) % 2).astype(dtype)
    x, y = xp.asarray(a), xp.asarray(b)
    for parts, natives in (((x, y), (a, b)), ((x[1:], y[1:]), (a[1:], b[1:]))):
        found = xp.stack(parts, axis=1).unwrap()
        np.testing.assert_array_equal(found, np.stack(natives, axis=1))
        columns = [xp.expand_dims(part, axis=1) for part in parts]
        np.testing.assert_array_equal(xp.concat(columns, axis=1).unwrap(), found)


REDUCTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("any", "count_nonzero", "prod", "sum"), ("int8", "float64", "complex128")),
    **dict.fromkeys(("argmax", "max"), ("int8", "int64", "float64")),
    "mean": ("float32", "float64", "complex128"),
}


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in REDUCTIONS for d in REDUCTIONS[n]])
@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (40, 30), (300, 200)])
def test_matrices_in_another_order_are_reduced(
    shape: tuple[int, int], name: str, dtype: str
) -> None:
    native = (np.arange(shape[0] * shape[1]).reshape(shape) % 7).astype(dtype).T
    x, function = xp.asarray(native), getattr(xp, name)
    for axis in (None, 0, 1, -1):
        for keepdims in (False, True):
            expected = function(xp.asarray(native.copy("C")), axis=axis, keepdims=keepdims)
            found = function(x, axis=axis, keepdims=keepdims)
            assert found.dtype is expected.dtype
            np.testing.assert_allclose(found.unwrap(), expected.unwrap(), rtol=1e-5)
