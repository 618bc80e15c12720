"""What loops meet with, such as an overflow, is told as NumPy tells it."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from corepy.backends._numpy import NumPyBackend
from corepy.dispatch._hot import PURE
from tests.dispatch.natives import told

pytestmark = pytest.mark.usefixtures("routes_off")

UNARY = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp"),
    *("expm1", "floor", "log", "log10", "log1p", "log2", "negative", "reciprocal", "round", "sign"),
    *("sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc"),
)
BINARY = (
    *("add", "atan2", "copysign", "divide", "equal", "floor_divide", "hypot", "less", "logaddexp"),
    *("maximum", "minimum", "multiply", "nextafter", "pow", "remainder", "subtract"),
)
#: The last are shared among threads, where there are several, by the compiled hot path alone.
SIZES = (3, 600, 20_000) if PURE is None else (3, 600)


def numbers(dtype: str) -> list[Any]:
    facts = np.finfo(dtype)
    reals = [0.0, -0.0, 1.0, -3.0, 800.0, -800.0, 1e-30, np.inf, -np.inf, np.nan]
    reals += [float(facts.max), float(facts.tiny), float(facts.smallest_subnormal)]
    if facts.dtype == dtype:
        return reals
    return [complex(a, b) for a in reals for b in (0.0, -1.0, np.inf, np.nan, float(facts.max))]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_warnings_are_numpys(dtype: str, size: int) -> None:
    numpy, some, warned = NumPyBackend(), numbers(dtype), 0
    pairs = [(a, b) for a in some for b in some][:: 1 if len(some) < 20 else 17]
    for name, *given in [(n, a) for n in UNARY for a in some] + [
        (n, a, b) for n in BINARY for a, b in pairs
    ]:
        native = [np.full(size, x, dtype) for x in given]
        function = numpy.operation(name)
        assert function is not None
        found, heard = told(partial(getattr(xp, name), *map(xp.asarray, native)), TypeError)
        if isinstance(found, TypeError):
            continue  # the dtype is not for it
        _, expected = told(partial(function, *native))
        assert sorted(heard) == sorted(expected), (name, given)
        warned += bool(heard)
    assert warned > 100


@pytest.mark.parametrize("size", SIZES)
def test_conditions_that_are_errors_are_worded(size: int) -> None:
    a, b = xp.full(size, 1e200), xp.full(size, 20.0)
    with np.errstate(over="raise"):
        with pytest.raises(FloatingPointError, match="^multiply: overflow encountered in multiply"):
            xp.multiply(a, a)
        with pytest.raises(FloatingPointError, match="^exp: overflow encountered in exp"):
            xp.exp(a)
        with pytest.raises(FloatingPointError, match="^__imul__: overflow encountered in multiply"):
            b *= 1e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="overflow encountered in multiply"):
            xp.multiply(a, a)


@pytest.mark.parametrize("size", SIZES)
def test_what_happened_before_is_not_told(size: int) -> None:
    a, large = xp.ones(size), float("1e308")
    square = xp.reshape(a[: size // 3 * 3], (3, -1))
    for call in (
        lambda: a + a,
        lambda: a + 1.0,
        lambda: xp.exp(a),
        lambda: xp.sum(a),
        lambda: xp.cumulative_sum(a),
        lambda: square + square[:, :1],
        lambda: xp.astype(a, xp.float32),
    ):
        assert large * 10 == np.inf  # which raises a flag of the processor's
        assert told(call)[1] == []


def test_nobody_is_told_twice_or_of_what_is_ignored() -> None:
    seen = []
    a = xp.full(600, 1e200)
    with np.errstate(over="call", call=lambda *what: seen.append(what)):
        assert told(lambda: a * a)[1] == []
    assert [kind for kind, _ in seen] == ["overflow"]
    assert told(lambda: xp.exp(-a))[1] == []  # an underflow, which NumPy ignores
    with np.errstate(under="warn"):
        assert told(lambda: xp.exp(-a))[1] == ["underflow encountered in exp"]
