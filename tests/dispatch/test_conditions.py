"""What loops meet with, such as an overflow, is told as NumPy tells it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from corepy.backends._numpy import NumPyBackend
from corepy.dispatch import set_routes

UNARY = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp"),
    *("expm1", "floor", "log", "log10", "log1p", "log2", "negative", "reciprocal", "round", "sign"),
    *("sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc"),
)
BINARY = (
    *("add", "atan2", "copysign", "divide", "equal", "floor_divide", "hypot", "less", "logaddexp"),
    *("maximum", "minimum", "multiply", "nextafter", "pow", "remainder", "subtract"),
)
#: The last are shared among threads, where there are several.
SIZES = (3, 600, 20_000)


@pytest.fixture(autouse=True)
def at_home() -> Iterator[None]:
    """Keep operations out of other libraries, whatever was measured here."""
    set_routes("off")
    yield
    set_routes(None)


def told(call: Callable[..., Any], *args: Any) -> list[str] | None:
    """Return the warnings of a call; None where the dtype is not for it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call(*args)
        except TypeError:
            return None
    return sorted(str(each.message) for each in caught)


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
        expected = told(function, *native)
        found = told(getattr(xp, name), *map(xp.asarray, native))
        assert found is None or found == expected, (name, given)
        warned += bool(found)
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
        assert told(call) == []


def test_nobody_is_told_twice_or_of_what_is_ignored() -> None:
    seen = []
    a = xp.full(600, 1e200)
    with np.errstate(over="call", call=lambda *what: seen.append(what)):
        assert told(lambda: a * a) == []
    assert [kind for kind, _ in seen] == ["overflow"]
    assert told(lambda: xp.exp(-a)) == []  # an underflow, which NumPy ignores
    with np.errstate(under="warn"):
        assert told(lambda: xp.exp(-a)) == ["underflow encountered in exp"]
