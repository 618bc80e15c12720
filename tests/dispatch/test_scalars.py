"""Python scalars beside arrays of libraries that take them as they are."""

from __future__ import annotations

import enum
import math
import operator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import corepy
from corepy._dtypes import DTYPES, DType, integer_range
from tests.dispatch.natives import compiled


class Level(enum.IntEnum):
    LOW = 2


class Metres(float):
    """A float by another name."""


FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, 1e-45, 1e38, 2.0**60, math.inf, -math.inf, math.nan)


#: What raises of an integer that is divided by 0.
DIVISIONS = ("floor_divide", "remainder", "__ifloordiv__", "__imod__")


def values(dtype: DType) -> list[Any]:
    """Return scalars of a dtype's kind that it holds."""
    if dtype.rank == 0:
        return [False, True]
    if dtype.rank == 1:
        low, high = integer_range(dtype)
        return sorted({low, max(low, -3), 0, 1, 3, 7, high // 2, high})
    return list(FLOATS)


def operand(xp: ModuleType, dtype: DType) -> Any:
    if dtype.rank == 0:
        return xp.asarray([True, False])
    if dtype.rank == 1:
        low, high = integer_range(dtype)
        return xp.asarray([low, 0, 1, 2, 5, 100, high], dtype=dtype)
    return xp.asarray([*FLOATS, 3.3, -7.7], dtype=dtype)


def copy(x: Any) -> Any:
    """Return a native array that may be written into."""
    return x._table["astype"][0](x._native, x._table.native_dtype, copy=True)


def bits(native: Any, x: Any) -> Any:
    """Return a result's dtype and its bytes; those of NaN count as one."""
    found = x._table.backend.to_numpy(native)
    if found.dtype.kind == "f":
        found = np.where(np.isnan(found), np.nan, found)
    return found.dtype, found.tobytes()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, where it stands in for CuPy
@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.rank < 3], ids=lambda d: d.name)
def test_results_have_the_bits_that_they_have_beside_a_0d_array(
    xp: ModuleType, dtype: DType
) -> None:
    x = operand(xp, dtype)
    table = x._table
    for second, names in ((True, table.scalars_second), (False, table.scalars_first)):
        for name in names:
            if dtype not in corepy.dispatch.OPERATIONS[name].dtypes:
                continue
            native = table[name][0]
            for value in values(dtype):
                if "shift" in name and second and not 0 <= value < dtype.bits:
                    continue
                if name in DIVISIONS and dtype.rank == 1 and value == 0:
                    continue
                if name == "pow" and dtype.rank == 1 and value < 0:
                    continue
                element = table.backend.scalar(value, dtype, table.device)
                one, other = (
                    native(copy(x), each) if second else native(each, copy(x))
                    for each in (value, element)
                )
                assert bits(one, x) == bits(other, x), (name, value, second)


@pytest.mark.parametrize(
    "backend",
    [pytest.param(name, marks=pytest.mark.backend(name)) for name in ("torch", "cupy")],
    indirect=True,
)
def test_no_array_is_made_of_a_scalar_that_is_taken(
    xp: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = xp.asarray([1.0, 2.0], dtype=xp.float32)
    assert "multiply" in x._table.scalars_second

    def refuse(*args: Any) -> Any:
        raise AssertionError("an array was made")

    expected = [x * 2, 2 - x, 2.5 / x, xp.add(x, 1), x < 1.5, xp.multiply(3.0, x)]
    counts = xp.asarray([1, 2], dtype=xp.uint8)
    written = xp.asarray([1.0, 2.0], dtype=xp.float32)
    monkeypatch.setattr(type(x._table.backend), "scalar", refuse)
    for first in (True, False):  # the second time the entries are there
        made = [x * 2, 2 - x, 2.5 / x, xp.add(x, 1), x < 1.5, xp.multiply(3.0, x)]
        for one, other in zip(made, expected, strict=True):
            assert one.dtype is other.dtype
            assert one.tolist() == other.tolist()
        assert (counts + 3).tolist() == ([4, 5] if first else [4, 6])
        assert (counts << 1).tolist() == ([2, 4] if first else [2, 6])
        assert (xp.astype(counts, xp.bool) & True).tolist() == [True, True]
        written += 1
        written *= 3.0
        counts |= 1
        assert (x * math.inf).tolist() == [math.inf, math.inf]
    assert written.tolist() == [21.0, 30.0]
    assert counts.tolist() == [1, 3]


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64"])
def test_integers_are_divided_by_and_from_scalars(xp: ModuleType, dtype: str) -> None:
    x = xp.asarray([1, 4], dtype=getattr(xp, dtype))
    for _ in range(2):
        for value in (2, True, 0.5):
            assert (value / x).tolist() == [value, value / 4]
            assert (x / value).tolist() == [1 / value, 4 / value]
            assert xp.divide(value, x).dtype is (value / x).dtype is xp.float64
    if dtype == "uint64":
        assert (2**63 / x).tolist() == [2.0**63, 2.0**61]


def test_scalars_that_do_not_fit_are_refused_after_those_that_did(xp: ModuleType) -> None:
    small, single = xp.asarray([1], dtype=xp.int8), xp.asarray([1.0], dtype=xp.float32)
    for _ in range(2):
        assert (small + 100).tolist() == [101]
        assert (single * 2.0**100).tolist() == [2.0**100]
        with pytest.raises(OverflowError):
            small + 200
        with pytest.raises(OverflowError):
            small < 200  # noqa: B015
        with pytest.raises(OverflowError):
            single * 1e39
        with pytest.raises(ValueError, match="shift"):
            small << -1


def test_scalars_that_round_to_the_greatest_float32_are_taken(xp: ModuleType) -> None:
    single = xp.ones(1, dtype=xp.float32)
    assert (single * 3.4028235e38).tolist() == [float(np.finfo(np.float32).max)]
    with pytest.raises(OverflowError):
        single * 3.40282357e38


def test_all_functions_take_scalars_that_round_to_the_greatest_float32(xp: ModuleType) -> None:
    great = 3.4028235e38  # which lies beyond it
    most = float(np.finfo(np.float32).max)
    x = xp.asarray([1.0, -2.0], dtype=xp.float32)
    for made, expected in (
        (xp.full((2,), great, dtype=xp.float32), [most, most]),
        (xp.full_like(x, -great), [-most, -most]),
        (xp.linspace(0.0, great, 2, dtype=xp.float32), [0.0, most]),
        (xp.clip(x, -great, great), [1.0, -2.0]),
        (xp.where(x > 0, x, great), [1.0, most]),
        (xp.minimum(x, great), [1.0, -2.0]),
        (xp.maximum(x, great), [most, most]),
        (xp.copysign(great, x), [most, -most]),
        (x % great, [1.0, most]),
    ):
        np.testing.assert_array_equal(np.asarray(made), np.asarray(expected, np.float32))
    x[0] = great
    assert float(x[0]) == most


def test_scalars_are_rounded_to_the_dtype_of_the_array(xp: ModuleType) -> None:
    x = np.array([1.0, 3.0, 1e-20], np.float32)
    got = xp.asarray(x.tolist(), dtype=xp.float32) * 0.1
    assert got.dtype is xp.float32
    assert got.tolist() == (x * np.float32(0.1)).tolist()
    assert (xp.asarray([0.1, 0.2], dtype=xp.float32) == 0.1).tolist() == [True, False]


@pytest.mark.at_once
def test_zeros_keep_their_sign_beside_scalars(xp: ModuleType) -> None:
    zero = xp.asarray([0.0, 1.0])
    for scalar in (-0.0, -1.0):
        assert xp.signbit(zero * scalar).tolist() == [True, True]
    assert xp.signbit(xp.asarray([0.0]) * 0.0).tolist() == [False]
    with np.errstate(divide="ignore"):
        assert (1 / (zero * -0.0)).tolist() == [-math.inf, -math.inf]


@pytest.mark.at_once
def test_division_and_powers_of_integers_by_scalars_raise_as_by_arrays(xp: ModuleType) -> None:
    x = xp.asarray([7, -7])
    assert (x // 2).tolist() == [3, -4]
    assert (x % 3).tolist() == [1, 2]
    assert (x**2).tolist() == [49, 49]
    for divide in (lambda: x // 0, lambda: x % 0):
        with pytest.raises(ZeroDivisionError):
            divide()
    with pytest.raises(ValueError, match="negative"):
        x**-1


def test_a_refused_dtype_is_named_where_it_stands(xp: ModuleType) -> None:
    x = xp.asarray([1.0, 2.0])
    for made, place in ((lambda: x | 3, "x1"), (lambda: 3 | x, "x2"), (lambda: 2 << x, "x2")):
        with pytest.raises(TypeError, match=rf": {place} has dtype float64"):
            made()


@compiled
def test_the_compiled_form_takes_what_the_one_in_python_takes(xp: ModuleType) -> None:
    from corepy.dispatch import _hot_python

    multiply = _hot_python.operator("multiply")
    for dtype in (d for d in DTYPES.values() if 0 < d.rank < 3):
        x = xp.ones(3, dtype=dtype)
        for value in (0, 1, 2**31 - 1, 2**31, 2**53, 2**53 + 1, -1, -(2**53), 0.5, -0.0, 2.0**54):
            answers: list[Any] = []
            for call in (lambda x, v: x * v, multiply):
                try:
                    answers.append(call(x, value))
                except OverflowError:
                    answers.append(None)
            one, other = answers
            if one is None or other is None:
                assert one is other
            else:
                assert one.dtype is other.dtype
                assert one.tolist() == other.tolist()


def test_numbers_of_subclasses_are_pythons_own(xp: ModuleType) -> None:
    whole, real = xp.asarray([1, 2], dtype=xp.int8), xp.asarray([1.0, 2.0], dtype=xp.float32)
    for found, dtype, expected in (
        (whole + Level.LOW, "int8", [3, 4]),
        (Level.LOW - whole, "int8", [1, 0]),
        (xp.add(Level.LOW, whole), "int8", [3, 4]),
        (whole == Level.LOW, "bool", [False, True]),
        (real * Metres(1.5), "float32", [1.5, 3.0]),
        (operator.iadd(xp.asarray(whole, copy=True), Level.LOW), "int8", [3, 4]),
        (xp.clip(whole, Level.LOW), "int8", [2, 2]),
        (xp.where(whole > 1, real, Metres(0.5)), "float32", [0.5, 2.0]),
        (xp.full(2, Level.LOW), "int64", [2, 2]),
        (xp.full_like(real, Metres(0.5)), "float32", [0.5, 0.5]),
        (xp.linspace(Metres(0.0), Level.LOW, 2), "float64", [0.0, 2.0]),
        (xp.arange(Level.LOW), "int64", [0, 1]),
    ):
        assert (found.dtype.name, found.tolist()) == (dtype, expected)
    whole[0] = Level.LOW
    assert whole.tolist() == [2, 2]
    assert xp.result_type(whole, Level.LOW) is xp.int8
    with pytest.raises(OverflowError, match="^add: x2 is 300; expected -128 to 127 for int8"):
        whole + enum.IntEnum("Far", {"OFF": 300}).OFF
    with pytest.raises(TypeError):
        whole @ Level.LOW


@pytest.mark.parametrize("two", [2, 2.0, Level.LOW, Metres(2.0)], ids=repr)
def test_squares_are_what_runs(two: Any) -> None:
    x = corepy.array_api.asarray([1.5, 3.0])
    with corepy.profile() as profile:
        x**two, corepy.array_api.pow(x, two)
        x **= two
    assert "square" in {name for name, _, _ in profile.by_operation()}
    assert not {"pow", "__pow__", "__ipow__"} & {name for name, _, _ in profile.by_operation()}
    assert x.tolist() == [2.25, 9.0]
