"""Elementwise functions agree with the oracle over all their dtypes, special values included."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corepy
import corepy.array_api as xp
from corepy._dtypes import ANY, DTYPES
from corepy.dispatch import OPERATIONS
from tests.helpers import (
    FEW_PAIRS,
    FEW_SHAPES,
    FLOATS,
    INTEGERS,
    NAMES,
    STANDARD,
    TOLERANCE,
    agrees,
    arrays,
    assert_same,
    assert_values,
    broadcastable,
    compiles,
    elements,
    function,
    oracle,
    shapes,
    to_numpy,
)
from tests.together import together

pytestmark = pytest.mark.usefixtures("backend")

CHAPTER = STANDARD["chapters"]["elementwise"]
UNARY = [name for name, text in CHAPTER.items() if text == "(x, /)"]
BINARY = [name for name, text in CHAPTER.items() if text == "(x1, x2, /)"]

INF, NAN = float("inf"), float("nan")
#: Values at which the standard prescribes results, and some ordinary ones between them.
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 2.5, 1e30, -1e30]
#: The oracle is NumPy, which is not the standard's there; the values are written down below.
NOT_THE_STANDARDS = {"floor_divide"}


def dtypes_of(name: str) -> list[str]:
    """Return the dtypes that a function takes, in the standard's order."""
    return [dtype for dtype in DTYPES if DTYPES[dtype] in OPERATIONS[name].dtypes]


def floating(names: list[str]) -> list[str]:
    """Return the functions that take real floating-point numbers."""
    return [name for name in names if {*FLOATS} <= {*dtypes_of(name)}]


def operand(name: str, argument: str, dtype: str) -> st.SearchStrategy[Any]:
    """Draw values that a function is defined for, of the whole range of the dtype otherwise."""
    full = elements(DTYPES[dtype])
    kind = DTYPES[dtype].rank
    if "shift" in name and argument == "x2":
        return st.integers(0, DTYPES[dtype].bits - 1)
    if name == "pow" and kind == 1:
        return st.integers(0, 5) if argument == "x2" else elements(DTYPES[dtype], 5)
    if name in ("floor_divide", "remainder") and kind == 1 and argument == "x2":
        return full.filter(bool)
    if name in ("divide", "reciprocal") and kind == 3:  # by zero: which infinities is left open
        return elements(DTYPES[dtype], 8.0).filter(lambda z: abs(z) > 1e-3)
    # Libraries differ in how many digits of a huge argument's angle they keep, and complex ones
    # cancel: what is compared closely has moderate values, the special ones have their own test.
    return elements(DTYPES[dtype], 8.0 if kind == 3 else 100.0) if kind > 1 else full


#: Hypothesis draws dtypes too: there are many functions, and `test_functions_agree_on_many_values`
#: has each dtype. It is for shapes, and for what it invents.
EXAMPLES = 2 * settings().max_examples


def turn(choices: Sequence[Any], dtype: str) -> Any:
    """Return one of some choices, another one for the next dtype: XLA compiles for each shape."""
    return choices[NAMES.index(dtype) % len(choices)]


@pytest.mark.parametrize("name", UNARY)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_unary_function_agrees(name: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(dtypes_of(name)), label="dtype")
    shape = turn(FEW_SHAPES, dtype) if compiles() else data.draw(shapes())
    count = int(np.prod(shape))
    values = data.draw(
        st.lists(operand(name, "x", dtype), min_size=count, max_size=count), label="values"
    )
    x = xp.reshape(xp.asarray(values, dtype=DTYPES[dtype]), shape)
    agrees(name, x, tolerance=loose(name, dtype))


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_binary_function_agrees_and_broadcasts(name: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(dtypes_of(name)), label="dtype")
    pair = turn(FEW_PAIRS, dtype) if compiles() else data.draw(broadcastable(2))
    operands = []
    for argument, shape in zip(("x1", "x2"), pair, strict=True):
        count = int(np.prod(shape))
        drawn = st.lists(operand(name, argument, dtype), min_size=count, max_size=count)
        values = xp.asarray(data.draw(drawn, label=argument), dtype=DTYPES[dtype])
        operands.append(xp.reshape(values, shape))
    result = agrees(name, *operands, tolerance=loose(name, dtype))
    assert result.shape == np.broadcast_shapes(*pair)


def loose(name: str, dtype: str) -> float | None:
    """Return the tolerance where the oracle loses digits, None where it does not.

    Its complex atanh, log1p and expm1 do near zero; its logaddexp where one operand is much the
    greater.
    """
    near_zero = name in ("atanh", "log1p", "expm1") and DTYPES[dtype].rank == 3
    return TOLERANCE[dtype] if near_zero or name == "logaddexp" else None


def many(name: str, argument: str, dtype: str, count: int) -> Any:
    """Return values as `operand` draws them, the same ones on every run."""
    rng = np.random.default_rng(zlib.crc32(f"{name} {argument} {dtype}".encode()))
    match DTYPES[dtype].kind:
        case "b":
            return rng.integers(0, 2, count).astype(bool)
        case "i" | "u":
            low, high = corepy._dtypes.integer_range(DTYPES[dtype])
            if "shift" in name and argument == "x2":
                low, high = 0, DTYPES[dtype].bits - 1
            if name == "pow":
                low, high = (0, 5) if argument == "x2" else (max(low, -5), 5)
            found = rng.integers(low, high, count, dtype=dtype, endpoint=True)
            return np.where(found == 0, 1, found) if name in INTEGER_DIVISION else found
        case "f":
            return rng.uniform(-100, 100, count).astype(dtype)
    return (rng.uniform(-8, 8, count) + 1j * rng.uniform(-8, 8, count)).astype(dtype)


INTEGER_DIVISION = ("floor_divide", "remainder")
#: More take the reference too long, which is exact.
MANY, FEWER = 300, 50


@pytest.mark.parametrize("name", UNARY + BINARY)
@together("dtype", NAMES)
def test_functions_agree_on_many_values(name: str, dtype: str, backend: str) -> None:
    if dtype not in dtypes_of(name):
        return
    arguments = ("x",) if name in UNARY else ("x1", "x2")
    count = FEWER if backend == "reference" else MANY
    values = [many(name, argument, dtype, MANY)[:count] for argument in arguments]
    operands = [corepy.to(x, backend=backend, copy=True) for x in values]
    agrees(name, *operands, tolerance=loose(name, dtype))
    if name in BINARY:  # a row beside rows
        parts = values[0][:6].reshape(2, 3), values[1][:3]
        operands = [corepy.to(x, backend=backend, copy=True) for x in parts]
        agrees(name, *operands, tolerance=loose(name, dtype))


@pytest.mark.parametrize("name", floating(UNARY))
@together("dtype", FLOATS)
def test_special_real_values(name: str, dtype: str) -> None:
    # Angles of huge numbers are left to the digits a library keeps.
    huge = name in ("sin", "cos", "tan")
    x = xp.asarray([v for v in SPECIAL if not (huge and 1e9 < abs(v) < INF)], dtype=DTYPES[dtype])
    expected = oracle(name, x)
    result = function(name)(x)
    assert_same(result, expected)
    if result.dtype.rank == 2:
        assert_values(result, np.asarray(expected._array), zeros=True)


@pytest.mark.parametrize("name", sorted({*floating(BINARY)} - NOT_THE_STANDARDS))
@together("dtype", FLOATS)
def test_special_real_values_in_pairs(name: str, dtype: str) -> None:
    x = xp.asarray(SPECIAL, dtype=DTYPES[dtype])
    a, b = xp.reshape(x, (-1, 1)), xp.reshape(x, (1, -1))
    expected = oracle(name, a, b)
    result = function(name)(a, b)
    assert_same(result, expected)
    # Which zero is the greater, and which one a logarithm gives, is left open.
    if result.dtype.rank == 2 and name not in ("maximum", "minimum", "logaddexp"):
        assert_values(result, np.asarray(expected._array), zeros=True)


# The standard's special cases of floor_divide, which NumPy has otherwise:
# https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.floor_divide.html
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@together(
    ("x1", "x2", "expected"),
    [
        (NAN, 1.0, NAN),
        (1.0, NAN, NAN),
        (INF, INF, NAN),
        (-INF, INF, NAN),
        (0.0, 0.0, NAN),
        (-0.0, 0.0, NAN),
        (0.0, 2.0, 0.0),
        (0.0, -2.0, -0.0),
        (-0.0, 2.0, -0.0),
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
        (2.0, -INF, -1.0),
        (-2.0, INF, -1.0),
        (-2.0, -INF, 0.0),
        (7.0, 2.0, 3.0),
        (-7.0, 2.0, -4.0),
        (7.0, -2.0, -4.0),
    ],
)
def test_special_values_of_floor_divide(x1: float, x2: float, expected: float, dtype: str) -> None:
    kind = DTYPES[dtype]
    a, b = xp.asarray([x1], dtype=kind), xp.asarray([x2], dtype=kind)
    for result in (xp.floor_divide(a, b), a // b, a // x2, x1 // b):
        assert result.dtype is kind
        if (x1, x2) in ((2.0, -INF), (-2.0, INF)):
            # The standard's text: -0 or -1 may be had, "implementation-dependent".
            assert float(result[0]) in (-1.0, 0.0)
        else:
            assert_values(result, np.array([expected], dtype), zeros=True)


_NAN = complex(NAN, NAN)
COMPLEX_SPECIAL = {
    # https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.expm1.html
    "expm1": [
        (complex(0.0, 0.0), complex(0.0, 0.0)),
        (complex(-0.0, 0.0), complex(0.0, 0.0)),
        (complex(1.0, INF), _NAN),
        (complex(1.0, NAN), _NAN),
        (complex(INF, 0.0), complex(INF, 0.0)),
        (complex(-INF, 1.0), complex(-1.0, 0.0)),
        (complex(-INF, INF), complex(-1.0, 0.0)),
        (complex(INF, INF), complex(INF, NAN)),
        (complex(-INF, NAN), complex(-1.0, 0.0)),
        (complex(INF, NAN), complex(INF, NAN)),
        (complex(NAN, 0.0), complex(NAN, 0.0)),
        (complex(NAN, 1.0), _NAN),
        (complex(NAN, NAN), _NAN),
    ],
    "exp": [
        (complex(0.0, 0.0), complex(1.0, 0.0)),
        (complex(1.0, INF), _NAN),
        (complex(INF, 0.0), complex(INF, 0.0)),
        (complex(-INF, 1.0), complex(0.0, 0.0)),
        (complex(INF, NAN), complex(INF, NAN)),
        (complex(NAN, 0.0), complex(NAN, 0.0)),
        (complex(NAN, 1.0), _NAN),
    ],
    "tanh": [
        (complex(0.0, 0.0), complex(0.0, 0.0)),
        (complex(1.0, INF), _NAN),
        (complex(0.0, INF), complex(0.0, NAN)),
        (complex(INF, 1.0), complex(1.0, 0.0)),
        (complex(INF, INF), complex(1.0, 0.0)),
        (complex(INF, NAN), complex(1.0, 0.0)),
        (complex(NAN, 0.0), complex(NAN, 0.0)),
        (complex(NAN, 1.0), _NAN),
        (complex(0.0, NAN), complex(0.0, NAN)),
    ],
    "sinh": [
        (complex(0.0, 0.0), complex(0.0, 0.0)),
        (complex(0.0, INF), complex(0.0, NAN)),
        (complex(INF, 0.0), complex(INF, 0.0)),
        (complex(INF, INF), complex(INF, NAN)),
        (complex(NAN, 0.0), complex(NAN, 0.0)),
        (complex(NAN, 1.0), _NAN),
    ],
    "log": [
        (complex(-0.0, 0.0), complex(-INF, np.pi)),
        (complex(0.0, 0.0), complex(-INF, 0.0)),
        (complex(1.0, INF), complex(INF, np.pi / 2)),
        (complex(1.0, NAN), _NAN),
        (complex(-INF, 1.0), complex(INF, np.pi)),
        (complex(-INF, INF), complex(INF, 3 * np.pi / 4)),
        (complex(INF, INF), complex(INF, np.pi / 4)),
        (complex(INF, NAN), complex(INF, NAN)),
        (complex(NAN, INF), complex(INF, NAN)),
        (complex(NAN, NAN), _NAN),
    ],
    "sqrt": [
        (complex(0.0, 0.0), complex(0.0, 0.0)),
        (complex(1.0, INF), complex(INF, INF)),
        (complex(NAN, INF), complex(INF, INF)),
        (complex(1.0, NAN), _NAN),
        (complex(-INF, 1.0), complex(0.0, INF)),
        (complex(INF, 1.0), complex(INF, 0.0)),
        (complex(INF, NAN), complex(INF, NAN)),
        (complex(NAN, 1.0), _NAN),
    ],
    "acos": [
        (complex(0.0, 0.0), complex(np.pi / 2, -0.0)),
        (complex(0.0, NAN), complex(np.pi / 2, NAN)),
        (complex(1.0, INF), complex(np.pi / 2, -INF)),
        (complex(-INF, 1.0), complex(np.pi, -INF)),
        (complex(INF, 1.0), complex(0.0, -INF)),
        (complex(NAN, 1.0), _NAN),
    ],
    "acosh": [
        (complex(0.0, 0.0), complex(0.0, np.pi / 2)),
        (complex(1.0, INF), complex(INF, np.pi / 2)),
        (complex(0.0, NAN), complex(NAN, np.pi / 2)),
        (complex(-INF, 1.0), complex(INF, np.pi)),
        (complex(INF, NAN), complex(INF, NAN)),
        (complex(NAN, INF), complex(INF, NAN)),
    ],
    "asinh": [
        (complex(0.0, 0.0), complex(0.0, 0.0)),
        (complex(1.0, INF), complex(INF, np.pi / 2)),
        (complex(INF, 1.0), complex(INF, 0.0)),
        (complex(INF, INF), complex(INF, np.pi / 4)),
        (complex(NAN, 0.0), complex(NAN, 0.0)),
        (complex(NAN, 1.0), _NAN),
    ],
    "atanh": [
        (complex(0.0, 0.0), complex(0.0, 0.0)),
        (complex(0.0, NAN), complex(0.0, NAN)),
        (complex(1.0, 0.0), complex(INF, 0.0)),
        (complex(1.0, INF), complex(0.0, np.pi / 2)),
        (complex(INF, 1.0), complex(0.0, np.pi / 2)),
        (complex(NAN, 1.0), _NAN),
    ],
}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@together(
    ("name", "value", "expected"),
    [(name, *case) for name, rows in COMPLEX_SPECIAL.items() for case in rows],
)
def test_special_complex_values(name: str, value: complex, expected: complex, dtype: str) -> None:
    # One element alone, and among others, where libraries compute several at a time.
    for count in (1, 9):
        result = function(name)(xp.asarray([value] * count, dtype=DTYPES[dtype]))
        assert result.dtype.name == dtype
        for got in np.array(result).tolist():
            for part, wanted in ((got.real, expected.real), (got.imag, expected.imag)):
                # The sign of an infinity or zero beside a NaN is left open.
                free = np.isnan(expected) and not np.isfinite(wanted)
                if np.isnan(wanted) or (free and np.isinf(wanted)):
                    assert np.isnan(part) == np.isnan(wanted)
                    assert np.isinf(part) == np.isinf(wanted)
                else:
                    assert part == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_tangents_at_infinity_have_zeros_of_the_sign_of_the_angle(dtype: str) -> None:
    # tanh(inf + y j) is 1 + 0 j for every positive y, and tan(z) is -1j * tanh(1j * z); C99 leaves
    # the sign of that zero to sin(2 y).
    angles = np.asarray([0.5, 2.5, 4.0, -0.5, -2.5, -4.0])
    for limit in (INF, -INF):
        values = np.empty(angles.size, dtype)
        values.real, values.imag = limit, angles
        found = np.array(xp.tanh(xp.asarray(values)))
        assert found.real.tolist() == [math.copysign(1, limit)] * 6
        assert found.imag.tolist() == [0.0] * 6
        assert np.signbit(found.imag).tolist() == np.signbit(angles).tolist()
        values.real, values.imag = angles, limit
        found = np.array(xp.tan(xp.asarray(values)))
        assert found.imag.tolist() == [math.copysign(1, limit)] * 6
        assert found.real.tolist() == [0.0] * 6
        assert np.signbit(found.real).tolist() == np.signbit(angles).tolist()


@pytest.mark.parametrize("dtype", FLOATS)
def test_roots_are_rounded_as_ieee_754_has_it(dtype: str) -> None:
    values = np.random.default_rng(0).uniform(0.1, 100, 5000).astype(dtype)
    values[0] = 0.5
    for count in (1, 5000):
        found = to_numpy(xp.sqrt(xp.asarray(values[:count])))
        assert found.tolist() == np.sqrt(values[:count]).tolist()


@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
def test_negative_scalar_shift_raises(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: x2 is -1; expected a shift of at least 0"):
        function(name)(xp.asarray([1, 2]), -1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "int64"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
@together("size", [1, 3, 1000])
def test_integer_division_by_zero_raises(name: str, dtype: str, size: int) -> None:
    x = xp.ones(size, dtype=DTYPES[dtype])
    zero = xp.zeros(size, dtype=DTYPES[dtype])
    with pytest.raises(ZeroDivisionError, match=f"^{name}: x2 .* 0; expected no"):
        to_numpy(function(name)(x, zero))
    with pytest.raises(ZeroDivisionError, match=f"^{name}: x2 .* 0; expected no"):
        to_numpy(function(name)(x, 0))


def test_no_integers_are_divided_by_zero_and_raised_to_negative_powers() -> None:
    none, one = xp.zeros((2, 0), dtype=xp.int64), xp.ones((2, 1), dtype=xp.int64)
    for found in (none // 0, none % 0, none // (one - 1), none % (one - 1), none**-1, none**-one):
        assert found.shape == (2, 0)
        assert found.dtype is xp.int64
        assert to_numpy(found).size == 0


@pytest.mark.at_once
def test_integer_to_a_negative_integer_power_raises() -> None:
    with pytest.raises(ValueError, match="^pow: "):
        xp.pow(xp.asarray([2]), xp.asarray([-1]))


@pytest.mark.few_shapes
@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_integers_wrap_around_whatever_the_exponent(dtype: str) -> None:
    bases = np.array([0, 1, 2, 3, 5, 126, 127], dtype)
    exponents = np.array([64, 65, 64, 65, 63, 127, np.iinfo(dtype).max], dtype)
    x1, x2 = xp.asarray(bases, copy=True), xp.asarray(exponents, copy=True)
    assert_values(x1**x2, bases**exponents)
    assert_values(x1**64, bases ** np.array(64, dtype))
    assert_values(3**x2, np.array(3, dtype) ** exponents)
    x1 **= x2
    assert_values(x1, bases**exponents)


@together("name", [n for n in UNARY + BINARY if OPERATIONS[n].dtypes < ANY])
def test_dtype_that_a_function_does_not_take_raises(name: str) -> None:
    operands = ["x"] if name in UNARY else ["x1", "x2"]
    for dtype in DTYPES.values():
        if dtype in OPERATIONS[name].dtypes or (name == "divide" and dtype.rank == 1):
            continue
        x = xp.ones(2, dtype=dtype)
        message = rf"^{name}: {operands[0]} has dtype {dtype} on \S+; expected"
        with pytest.raises(TypeError, match=message):
            function(name)(*[x] * len(operands))


@together("name", BINARY)
def test_shapes_that_do_not_broadcast_raise(name: str) -> None:
    dtype = DTYPES[dtypes_of(name)[0]]
    a, b = xp.ones((2, 3), dtype=dtype), xp.ones((2,), dtype=dtype)
    with pytest.raises(ValueError, match=rf"^{name}: operands have shapes \(2, 3\) and \(2,\)"):
        function(name)(a, b)


@together("name", BINARY)
def test_scalar_takes_the_place_of_either_operand(name: str) -> None:
    dtype = DTYPES[dtypes_of(name)[-1]]
    one = {0: True, 1: 1, 2: 1.0, 3: 1.0}[dtype.rank]
    x = xp.ones((2,), dtype=dtype)
    expected = function(name)(x, x)
    for result in (function(name)(x, one), function(name)(one, x)):
        assert result.dtype is expected.dtype
        assert np.array(result).tolist() == np.array(expected).tolist()


@given(data=st.data())
def test_clip_agrees(data: st.DataObject) -> None:
    x = data.draw(arrays(("int8", "uint16", "int64", "float32", "float64"), bound=100))
    low, high = sorted(data.draw(st.tuples(*[st.integers(0, 100)] * 2)))
    bounds = [
        data.draw(st.sampled_from((None, bound, xp.asarray(bound, dtype=x.dtype))))
        for bound in (low, high)
    ]
    agrees("clip", x, *bounds)


def test_clip_special_cases() -> None:
    x = xp.asarray([-1.0, 5.0, NAN])
    assert_values(xp.clip(x, 3.0, 1.0), [1.0, 1.0, NAN])
    assert_values(xp.clip(x, xp.asarray(NAN)), [NAN] * 3)
    assert_values(xp.clip(x, max=0.0), [-1.0, 0.0, NAN])
    assert_values(xp.clip(x, xp.asarray([[0.0], [4.0]])), [[0.0, 5.0, NAN], [4.0, 5.0, NAN]])
    copied = xp.clip(x)
    copied[0] = 9.0
    assert float(x[0]) == -1.0


def test_clip_bounds_have_to_broadcast() -> None:
    x = xp.ones(3)
    with pytest.raises(
        ValueError, match=r"^clip: operands have shapes \(3,\) and \(2,\); expected"
    ):
        xp.clip(x, xp.asarray([1.0, 2.0]), None)
    with pytest.raises(
        ValueError, match=r"^clip: operands have shapes \(3,\) and \(2, 1\) and \(2,"
    ):
        xp.clip(x, xp.ones((2, 1)), xp.ones(2))
    with pytest.raises(
        ValueError, match=r"^clip: operands have shapes \(3,\) and \(2,\); expected"
    ):
        xp.clip(x, max=xp.ones(2))


def test_clip_bounds_do_not_change_the_dtype() -> None:
    x = xp.asarray([1, 2], dtype=xp.int8)
    with pytest.raises(TypeError, match="^clip: min .*; expected .* that promotes to int8"):
        xp.clip(x, 0.5)
    with pytest.raises(OverflowError, match="^clip: max is 300; expected -128 to 127 for int8"):
        xp.clip(x, None, 300)


@pytest.mark.parametrize("name", ["add", "sin", "clip"])
@together("value", [None, "1", [1], (1,), {}, object(), b"1"])
def test_what_is_no_array_raises(name: str, value: Any) -> None:
    x = xp.ones(2)
    with pytest.raises(TypeError, match=f"^{name}: x1? is of type .*; expected an array"):
        function(name)(value, x) if name == "add" else function(name)(value)
    with pytest.raises(TypeError, match="^add: x1 is of type float; expected an array in at least"):
        corepy.array_api.add(1.0, 2.0)


@pytest.mark.parametrize("dtype", NAMES)
@together("two", [2, 2.0, 2 + 0j])
def test_powers_to_a_number_of_two_are_squares(dtype: str, two: Any) -> None:
    native = (np.arange(40) % 11 * (1.1 - 0.3j if dtype.startswith("c") else 1.1)).astype(dtype)
    x = xp.asarray(native)
    made = x**two
    expected = xp.square(xp.astype(x, made.dtype))
    assert_same(made, expected)
    assert_same(xp.pow(x, two), expected)
    assert_same(xp.pow(x.unwrap(), two), expected)
    if made.dtype is x.dtype:
        x **= two
        assert_same(x, expected)


@pytest.mark.parametrize("size", [1, 4, 3000])
@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_to_one_half_are_those_of_the_standard(dtype: str, size: int) -> None:
    tiny = -1e-40 if xp.ones(1).backend != "cupy" else -1e-30  # CuPy takes subnormals for zero
    special = [-math.inf, -0.0, 0.0, math.inf, math.nan, -4.0, 2.25, tiny]
    wanted = [math.inf, 0.0, 0.0, math.inf, math.nan, math.nan, 1.5, math.nan]
    expected = np.resize(wanted, size).astype(dtype)
    x = xp.asarray(np.resize(special, size).tolist(), dtype=getattr(xp, dtype))
    half = xp.asarray(0.5, dtype=x.dtype)
    column, rows = xp.reshape(half, (1, 1)), xp.stack([x, x])
    made = [x**0.5, xp.pow(x, 0.5), xp.pow(x, half), xp.flip(xp.pow(xp.flip(x), half))]
    made += [xp.pow(x, xp.full_like(x, 0.5)), xp.pow(x, column)[0, :], xp.pow(rows, column)[1, :]]
    made += [xp.pow(rows, xp.broadcast_to(half, (2, 1)))[0, :], xp.pow(x[:, None], column)[:, 0]]
    x **= 0.5
    for found in (*made, x):
        assert_same(found, xp.asarray(expected))
        zeros = np.asarray(found)[expected == 0]
        assert not np.signbit(zeros).any()
