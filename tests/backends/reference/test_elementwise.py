"""Elementwise functions: the standard's special cases, NumPy to one ulp, mpmath to the last bit."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from corepy import _dtypes
from corepy.backends import reference
from corepy.backends.reference import ReferenceArray
from tests.backends.reference.values import (
    EDGES,
    INF,
    NAN,
    NUMPY_NAMES,
    assert_close,
    assert_same,
    from_numpy,
    same,
    sample,
)

PI = math.pi
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def test_lists_become_arrays() -> None:
    result = reference.add([1, 2, 3], [4, 5, 6])
    assert result == [5, 7, 9]
    assert result.dtype is _dtypes.int64
    assert reference.multiply([[1.5], [2.0]], [2.0, 4.0]) == [[3.0, 6.0], [4.0, 8.0]]


# ------------------------------------------------------------------ special cases

UNARY_CASES: dict[str, list[tuple[float, float]]] = {
    "abs": [(NAN, NAN), (-0.0, 0.0), (-INF, INF)],
    "acos": [(NAN, NAN), (1.5, NAN), (-1.5, NAN), (1.0, 0.0)],
    "acosh": [(NAN, NAN), (0.5, NAN), (1.0, 0.0), (INF, INF)],
    "asin": [(NAN, NAN), (1.5, NAN), (-1.5, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "asinh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "atan": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2)],
    "atanh": [(NAN, NAN), (2.0, NAN), (-2.0, NAN), (-1.0, -INF), (1.0, INF), (-0.0, -0.0)],
    "ceil": [(-0.5, -0.0), (-0.0, -0.0), (0.2, 1.0), (INF, INF), (NAN, NAN), (-INF, -INF)],
    "cos": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "cosh": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (-1000.0, INF)],
    "exp": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (1000.0, INF)],
    "expm1": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0)],
    "floor": [(-0.0, -0.0), (0.5, 0.0), (-0.5, -1.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "log": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "log1p": [(NAN, NAN), (-2.0, NAN), (-1.0, -INF), (-0.0, -0.0), (0.0, 0.0), (INF, INF)],
    "log2": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "log10": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (1000.0, 3.0)],
    "negative": [(0.0, -0.0), (-INF, INF)],
    "reciprocal": [(0.0, INF), (-0.0, -INF), (-INF, -0.0), (NAN, NAN)],
    "round": [(0.5, 0.0), (-0.5, -0.0), (1.5, 2.0), (2.5, 2.0), (-2.5, -2.0), (INF, INF)],
    "sign": [(NAN, NAN), (-0.0, 0.0), (0.0, 0.0), (-3.0, -1.0), (INF, 1.0)],
    "sin": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "sinh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (-1e3, -INF)],
    "square": [(-0.0, 0.0), (-INF, INF)],
    "sqrt": [(NAN, NAN), (-1.0, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF)],
    "tan": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "tanh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "trunc": [(-0.5, -0.0), (0.0, 0.0), (-0.0, -0.0), (-2.7, -2.0), (INF, INF), (NAN, NAN)],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY_CASES)
def test_unary_special_cases(name: str, dtype: str) -> None:
    for x, expected in UNARY_CASES[name]:
        result = getattr(reference, name)(from_numpy(np.array(x, dtype)))
        assert_same(result, np.array(expected, dtype))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (INF, INF, NAN),
        (0.0, -0.0, NAN),
        (0.0, 2.0, 0.0),
        (-0.0, 2.0, -0.0),
        (0.0, -2.0, -0.0),
        (-0.0, -2.0, 0.0),
        (2.0, 0.0, INF),
        (2.0, -0.0, -INF),
        (-2.0, 0.0, -INF),
        (-2.0, -0.0, INF),
        (INF, 2.0, INF),
        (INF, -2.0, -INF),
        (-INF, 2.0, -INF),
        (-INF, -2.0, INF),
        (2.0, INF, 0.0),
        (2.0, -INF, -0.0),
        (-2.0, INF, -0.0),
        (-2.0, -INF, 0.0),
        (NAN, 1.0, NAN),
        (7.0, 2.0, 3.0),
        (-7.0, 2.0, -4.0),
        (0.3, 0.1, 2.0),
        (1e300, 1e-300, INF),
    ],
)
def test_floor_divide(a: float, b: float, expected: float) -> None:
    assert same(reference.floor_divide([a], [b]).values[0], expected)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (INF, INF, NAN),
        (0.0, 0.0, NAN),
        (0.0, 1.0, 0.0),
        (-0.0, 1.0, 0.0),
        (0.0, -1.0, -0.0),
        (-0.0, -1.0, -0.0),
        (1.0, 0.0, NAN),
        (INF, 1.0, NAN),
        (1.0, INF, 1.0),
        (1.0, -INF, -INF),
        (-1.0, INF, INF),
        (-1.0, -INF, -1.0),
        (-7.0, 3.0, 2.0),
        (7.0, -3.0, -2.0),
    ],
)
def test_remainder(a: float, b: float, expected: float) -> None:
    assert same(reference.remainder([a], [b]).values[0], expected)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (2.0, NAN, NAN),
        (NAN, 0.0, 1.0),
        (NAN, -0.0, 1.0),
        (NAN, 2.0, NAN),
        (2.0, INF, INF),
        (2.0, -INF, 0.0),
        (-1.0, INF, 1.0),
        (-1.0, -INF, 1.0),
        (1.0, NAN, 1.0),
        (0.5, INF, 0.0),
        (0.5, -INF, INF),
        (INF, 2.0, INF),
        (INF, -2.0, 0.0),
        (-INF, 3.0, -INF),
        (-INF, 2.0, INF),
        (-INF, 0.5, INF),
        (-INF, -3.0, -0.0),
        (-INF, -2.0, 0.0),
        (0.0, -1.0, INF),
        (-0.0, 3.0, -0.0),
        (-0.0, 2.0, 0.0),
        (-0.0, -3.0, -INF),
        (-0.0, -2.0, INF),
        (-2.0, 0.5, NAN),
        (-10.0, 333.0, -INF),
        (10.0, 333.0, INF),
        (3.0, 3.0, 27.0),
    ],
)
def test_pow(a: float, b: float, expected: float) -> None:
    assert same(reference.pow([a], [b]).values[0], expected)


@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("add", -0.0, -0.0, -0.0),
        ("add", -0.0, 0.0, 0.0),
        ("add", INF, -INF, NAN),
        ("multiply", INF, 0.0, NAN),
        ("multiply", -0.0, 2.0, -0.0),
        ("atan2", 0.0, -0.0, PI),
        ("atan2", -0.0, -0.0, -PI),
        ("atan2", 1.0, -0.0, PI / 2),
        ("atan2", INF, -INF, 3 * PI / 4),
        ("atan2", -1.0, INF, -0.0),
        ("hypot", INF, NAN, INF),
        ("hypot", NAN, -INF, INF),
        ("hypot", 1.0, NAN, NAN),
        ("logaddexp", INF, -INF, INF),
        ("logaddexp", -INF, -INF, -INF),
        ("logaddexp", INF, NAN, NAN),
        ("logaddexp", -INF, 1.5, 1.5),
        ("logaddexp", -0.0, -INF, 0.0),
        ("maximum", NAN, 1.0, NAN),
        ("maximum", 1.0, NAN, NAN),
        ("minimum", NAN, 1.0, NAN),
        ("minimum", 1.0, NAN, NAN),
        ("copysign", 1.0, -0.0, -1.0),
        ("copysign", -INF, 0.0, INF),
        ("nextafter", 0.0, -0.0, -0.0),
        ("nextafter", -0.0, 0.0, 0.0),
        ("nextafter", 0.0, 1.0, 5e-324),
        ("nextafter", NAN, 1.0, NAN),
        ("nextafter", 1.7976931348623157e308, INF, INF),
    ],
)
def test_binary_special_cases(name: str, a: float, b: float, expected: float) -> None:
    assert same(getattr(reference, name)([a], [b]).values[0], expected)


def test_sign_bits_of_nan() -> None:
    nans = [math.copysign(NAN, 1.0), math.copysign(NAN, -1.0)]
    assert reference.signbit(nans) == [False, True]
    assert reference.signbit(reference.copysign(nans, [-1.0, 1.0])) == [True, False]


# ------------------------------------------------------------------ against NumPy


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY_CASES)
def test_unary_like_numpy(name: str, dtype: str) -> None:
    x = np.concatenate([sample((40,), dtype), sample((20,), dtype) / 20]).astype(dtype)
    if name == "acosh":
        x = np.abs(x) + np.array(1, dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, NUMPY_NAMES.get(name, name))(x)
    assert_close(getattr(reference, name)(from_numpy(x)), expected, ulps=2)


EXACT = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "nextafter", "copysign"]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", EXACT + COMPARISONS)
def test_exact_binary_like_numpy(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        x = np.array(EDGES, dtype)
        expected = getattr(np, name)(x[:, None], x)
    found = getattr(reference, name)(from_numpy(x[:, None]), from_numpy(x))
    if name in ("maximum", "minimum"):  # which zero it is, the standard leaves open
        found.values = [value + 0.0 for value in found.values]
        expected = expected + np.array(0, dtype)
    assert_same(found, expected)


@pytest.mark.parametrize("name", ["atan2", "hypot", "pow", "remainder"])
def test_rounded_binary_like_numpy(name: str) -> None:
    x = np.array(EDGES)
    with np.errstate(all="ignore"):
        expected = getattr(np, NUMPY_NAMES.get(name, name))(x[:, None], x)
    if name == "pow":  # NumPy gives NaN for (-inf)**0.5, where the standard wants infinity
        expected[x == -INF, x == 0.5] = INF
        expected[x == -INF, x == 2.5] = INF
        expected[x == -INF, (x == -0.5) | (x == -2.5)] = 0.0
    assert_close(getattr(reference, name)(from_numpy(x[:, None]), from_numpy(x)), expected)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add", operator.add),
        ("subtract", operator.sub),
        ("multiply", operator.mul),
        ("floor_divide", operator.floordiv),
        ("remainder", operator.mod),
        ("bitwise_and", operator.and_),
        ("bitwise_or", operator.or_),
        ("bitwise_xor", operator.xor),
        ("maximum", max),
        ("minimum", min),
    ],
)
def test_integers_are_exact_and_wrap(name: str, function: Any, dtype: str) -> None:
    info = np.iinfo(dtype)
    x = [info.min, info.min + 1, 3, info.max - 1, info.max, 7]
    y = [5, 2, info.max, 9, info.max, 1]
    if info.min:
        x, y = [*x, info.min, -7], [*y, -1, 2]
    found = getattr(reference, name)(from_numpy(np.array(x, dtype)), from_numpy(np.array(y, dtype)))
    exact = [function(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    wrapped = [(v - int(info.min)) % 2**info.bits + int(info.min) for v in exact]
    assert found == ReferenceArray(wrapped, (len(x),), _dtypes.as_dtype(dtype))


def test_integer_powers() -> None:
    int8 = from_numpy(np.array([2, 3, -2, 0, 7], "int8"))
    assert reference.pow(int8, from_numpy(np.array([7, 5, 7, 0, 1], "int8"))) == ReferenceArray(
        [-128, -13, -128, 1, 7], (5,), _dtypes.int8
    )
    assert reference.pow([3], [1000]).values == [(pow(3, 1000) + 2**63) % 2**64 - 2**63]
    with pytest.raises(ValueError, match="^x2 holds a negative integer"):
        reference.pow([2], [-1])


def test_division_of_integers_by_zero() -> None:
    for function in (reference.floor_divide, reference.remainder):
        with pytest.raises(ZeroDivisionError, match="^x2 holds 0"):
            function([1], [0])


def test_shifts() -> None:
    assert reference.bitwise_left_shift([1, 1, -1], [3, 64, 63]) == [8, 0, -(2**63)]
    assert reference.bitwise_right_shift([-5, -5, 5], [1, 1000, 1000]) == [-3, -1, 0]
    uint8 = from_numpy(np.array([255, 1], "uint8"))
    assert reference.bitwise_left_shift(uint8, from_numpy(np.array([1, 8], "uint8"))).values == [
        254,
        0,
    ]
    for function in (reference.bitwise_left_shift, reference.bitwise_right_shift):
        with pytest.raises(ValueError, match="x2 is -1; expected non-negative shifts"):
            function([1], [-1])


def test_logic_and_invert() -> None:
    a, b = [True, True, False, False], [True, False, True, False]
    assert reference.logical_and(a, b) == [True, False, False, False]
    assert reference.logical_or(a, b) == [True, True, True, False]
    assert reference.logical_xor(a, b) == [False, True, True, False]
    assert reference.logical_not(b) == [False, True, False, True]
    assert reference.bitwise_invert(b) == [False, True, False, True]
    assert reference.bitwise_invert([0, 5]) == [-1, -6]
    assert reference.bitwise_invert(from_numpy(np.array([1], "uint8"))).values == [254]


def test_small_integers_wrap_in_unary_functions() -> None:
    low = from_numpy(np.array([-128], "int8"))
    assert reference.abs(low).values == [-128]
    assert reference.negative(low).values == [-128]
    assert reference.square(from_numpy(np.array([16], "uint8"))).values == [0]
    assert reference.sign([-5, 0, 5]) == [-1, 0, 1]


def test_classification() -> None:
    assert reference.isfinite([1.0, INF, NAN]) == [True, False, False]
    assert reference.isinf([1.0, -INF, NAN]) == [False, True, False]
    assert reference.isnan([1.0, INF, NAN]) == [False, False, True]
    assert reference.isfinite([1, 2]) == [True, True]
    assert reference.isnan([1, 2]) == [False, False]


# ------------------------------------------------------------------ the last bit


def _triples(dtype: type[Any]) -> list[tuple[float, float]]:
    x = sample((60,), np.dtype(dtype).name, seed=3).tolist()
    return list(zip(x[:30], x[30:], strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("add", operator.add),
        ("subtract", operator.sub),
        ("multiply", operator.mul),
        ("divide", operator.truediv),
    ],
)
def test_arithmetic_is_correctly_rounded(name: str, exact: Any, dtype: type[Any]) -> None:
    for a, b in _triples(dtype):
        arrays = [from_numpy(np.array(value, dtype)) for value in (a, b)]
        found = dtype(getattr(reference, name)(*arrays).values[0])
        truth = exact(Fraction(a), Fraction(b))
        error = abs(Fraction(float(found)) - truth)
        for direction in (-INF, INF):
            neighbour = np.nextafter(found, dtype(direction))
            assert error <= abs(Fraction(float(neighbour)) - truth)


TRANSCENDENTAL = [
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
]


@pytest.mark.needs("mpmath")
@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_transcendental_functions_are_correctly_rounded(name: str) -> None:
    import mpmath

    x = sample((40,), "float64", seed=9) / 11
    if name == "acosh":
        x = np.abs(x) + 1
    if name.startswith("log"):
        x = np.abs(x)
    x = np.concatenate([x, x[:5] * 1e-9]) if name != "acosh" else x
    mp = mpmath.MPContext()
    mp.prec = 400
    special = {"log2": lambda v: mp.log(v, 2), "log1p": lambda v: mp.log(1 + v)}
    function = special.get(name) or getattr(mp, name)
    for value, found in zip(
        x.tolist(), getattr(reference, name)(from_numpy(x)).values, strict=True
    ):
        truth = function(mp.mpf(value))
        assert found == float(truth), f"{name}({value})"


@pytest.mark.needs("mpmath")
def test_logaddexp_does_not_cancel() -> None:
    import mpmath

    mp = mpmath.MPContext()
    mp.prec = 400
    for a, b in [(-1.0, -0.5), (0.0, -1e-9), (-200.0, 0.0), (700.0, 710.0), (-0.6931471805, -0.7)]:
        expected = float(mp.log(mp.exp(a) + mp.exp(b)))
        assert reference.logaddexp([a, b], [b, a]) == [expected, expected]


def test_nextafter_of_float32() -> None:
    with np.errstate(all="ignore"):
        x = np.array([*EDGES, 3.4028235e38, 1e-45], "float32")
        expected = np.nextafter(x[:, None], x)
    assert_same(reference.nextafter(from_numpy(x[:, None]), from_numpy(x)), expected)


def test_floor_divide_rounds_down_to_a_float32() -> None:
    a = from_numpy(np.array([2.0**25 - 1.0, 16777213.0], "float32"))
    b = from_numpy(np.array([1.0, 1 / 3], "float32"))
    found = reference.floor_divide(a, b)
    for value, top, below in zip(found.values, a.values, b.values, strict=True):
        whole = math.floor(Fraction(top) / Fraction(below))
        assert value <= whole < float(np.nextafter(np.float32(value), np.float32(INF)))


# ------------------------------------------------------------------ operands


def test_mixed_dtypes_promote() -> None:
    int8, int32 = from_numpy(np.array([100], "int8")), from_numpy(np.array([100], "int32"))
    assert reference.add(int8, int32) == ReferenceArray([200], (1,), _dtypes.int32)
    float32 = from_numpy(np.array([0.1], "float32"))
    assert reference.add(float32, [0.1]).dtype is _dtypes.float64
    assert reference.add(float32, 1).dtype is _dtypes.float32
    assert reference.add(float32, 1j).dtype is _dtypes.complex64
    assert reference.add(2, 3) == 5


@pytest.mark.parametrize(
    ("x1", "x2", "error", "message"),
    [
        ([1], [1.5], TypeError, "add: operands have dtypes int64 and float64"),
        ([1], 1.5, TypeError, "add: x2 is of type float; expected a scalar that int64 can hold"),
        ([True], [True], TypeError, "add: x1 has dtype bool on cpu; expected a numeric dtype"),
        ([1, 2], [1, 2, 3], ValueError, r"add: operands have shapes (2,) and (3,)"),
        ([1], 2**63, OverflowError, "add: x2 is 9223372036854775808"),
        (["a"], [1], TypeError, "add: x1 is of type str; expected bool, int, float or complex"),
        ([[1], [2, 3]], [1], ValueError, "add: x1 is [2, 3]; expected a nested sequence"),
    ],
)
def test_wrong_operands(x1: Any, x2: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        reference.add(x1, x2)
    assert str(raised.value).startswith(message)


def test_clip() -> None:
    assert reference.clip([1, 5, 9], 2, 8) == [2, 5, 8]
    assert reference.clip([1, 5, 9], min=3) == [3, 5, 9]
    assert reference.clip([1, 5, 9], max=[3, 4, 10]) == [1, 4, 9]
    assert reference.clip([1, 5], 6, 4) == [4, 4]
    assert reference.clip([1.0, 2.0]) == [1.0, 2.0]
    found = reference.clip([NAN, 1.0, 1.0], [0.0, NAN, 0.0], [2.0, 2.0, NAN])
    assert all(map(math.isnan, found.values))
    small = from_numpy(np.array([0.0], "float32"))
    assert_same(reference.clip(small, 0.1, None), np.array([0.1], "float32"))
    with pytest.raises(TypeError, match="clip: max is of type float"):
        reference.clip([1], None, 2.5)
