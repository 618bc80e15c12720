"""Operators in place on many elements: NumPy's values, warnings and errors, in the same memory."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import corepy.array_api as xp
from tests.dispatch.natives import told

Array = npt.NDArray[Any]

FLOATS: Final = ("float32", "float64")
SHAPES: Final = [(5000,), (70, 100), (300, 300), (3, 100, 5), (20_000, 3)]
ARITHMETIC: Final = (operator.iadd, operator.isub, operator.imul)


def sample(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    values = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 100, shape)
    return values.astype(dtype) / 7 if dtype in FLOATS else values.astype(dtype)


def both(change: Callable[[Any, Any], Any], x: Array, other: Any) -> None:
    """Change an array of corepy's and NumPy's own alike, and compare all that shows."""
    outcomes = []
    for wrapped in (False, True):
        native = x.copy()
        target: Any = xp.asarray(native) if wrapped else native
        beside: Any = other(native) if callable(other) else other
        if wrapped and isinstance(beside, np.ndarray):
            beside = xp.asarray(beside)
        changed, warned = told(partial(change, target, beside), FloatingPointError)
        error = str(changed).rpartition(": ")[2] if changed is not target else ""
        assert changed is target or isinstance(changed, FloatingPointError)
        outcomes.append((native, error, warned))
        if wrapped:
            assert np.may_share_memory(target.unwrap(), native)
    (expected, *of_numpy), (found, *ours) = outcomes
    assert found.tobytes() == expected.tobytes()
    assert ours == of_numpy


def others(shape: tuple[int, ...], dtype: str) -> list[Any]:
    """Return what stands on the right: scalars, arrays, rows, columns, and parts of the left."""
    whole = sample(shape, dtype, 1)
    parts = [whole, whole[:1], whole[..., :1]]
    if whole.ndim > 1:
        parts += [whole[-1], whole[-1:, ..., :1]]
    own = [lambda x: x, lambda x: x[::-1], lambda x: x[:1], lambda x: x[..., -1:]]
    return [3, *(part.copy() for part in parts), *own]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int64", "uint8"])
def test_values_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = sample(shape, dtype)
    for other in others(shape, dtype):
        for change in ARITHMETIC:
            both(change, x, other)
    both(operator.ipow, x, 2)
    if dtype in FLOATS:
        with np.errstate(all="ignore"):
            for other in others(shape, dtype):
                both(operator.itruediv, x, other)
            both(operator.ipow, x, 2.0)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_squares_are_rounded_as_elsewhere(dtype: str) -> None:
    x = (sample((5000,), "float64") + 1j * sample((5000,), "float64", 1)).astype(dtype)
    target = xp.asarray(x, copy=True)
    target **= 2
    assert np.asarray(target).tobytes() == np.asarray(xp.square(xp.asarray(x))).tobytes()


@pytest.mark.parametrize("shape", [(5000,), (300, 300)], ids=str)
@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_bits_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = sample(shape, dtype)
    for other in others(shape, dtype)[1:]:
        for change in (operator.iand, operator.ior, operator.ixor):
            both(change, x, other)


@pytest.mark.parametrize("shape", [(5000,), (300, 300)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["warn", "raise", "ignore"])
def test_flags_are_told_as_numpy_tells_them(shape: tuple[int, ...], dtype: str, mode: Any) -> None:
    x = sample(shape, dtype)
    x.flat[[7, -9]] = np.finfo(dtype).max
    special = np.ones(shape[-1:], dtype)
    special[3] = np.inf
    with np.errstate(all=mode):
        both(operator.imul, x, 3.0)
        both(operator.iadd, x, lambda x: x)
        if mode != "raise":  # what is left behind then, is open
            both(operator.ipow, x, 2)
        both(operator.imul, x * 0, special)  # 0 * inf, beside each row
        both(operator.isub, x * 0 + np.inf if mode == "ignore" else np.full_like(x, np.inf), np.inf)
        both(operator.itruediv, np.zeros_like(x), 0.0)
        both(operator.itruediv, x, lambda x: x * 0)
        both(operator.imul, np.full_like(x, np.finfo(dtype).tiny), 0.1)


def test_an_error_names_the_operator() -> None:
    x = xp.full(5000, 1e200)
    with np.errstate(over="raise"):
        with pytest.raises(FloatingPointError, match="^__imul__: overflow encountered in multiply"):
            x *= x
        y = xp.full(5000, 1e200)
        with pytest.raises(FloatingPointError, match="^square: overflow encountered in square"):
            y **= 2
        z = xp.full((100, 100), 1e308)
        row = z[0] + 0.0
        with pytest.raises(FloatingPointError, match="^__iadd__: overflow encountered in add"):
            z += row
