"""Arrays of no dimension, by operators, and the elements of an array one after the other."""

from __future__ import annotations

import copy
import itertools
import operator as op
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from tests.dispatch.natives import compiled, outcome
from tests.dispatch.short_ways import steps

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "less": op.lt,
    "less_equal": op.le,
    "greater": op.gt,
    "greater_equal": op.ge,
    "equal": op.eq,
    "not_equal": op.ne,
    "add": op.add,
    "subtract": op.sub,
    "multiply": op.mul,
    "divide": op.truediv,
    "floor_divide": op.floordiv,
    "remainder": op.mod,
}

FLOATS = [0.0, -0.0, 1.5, -2.0, 5e-324, 2.3e-308, 1e-160, 1.7e308, float("inf"), float("nan")]
INTEGERS = [0, 1, -1, 7, -7, 2**31, 2**63 - 1, -(2**63)]


def slow(name: str) -> Callable[..., Any]:
    """Return the function behind the short ways."""
    found: Callable[..., Any] = getattr(xp, name)
    return getattr(found, "__wrapped__", found)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", ["float64", "int64", "float32", "uint8", "bool"])
def test_operators_on_single_numbers_are_the_functions(name: str, dtype: str) -> None:
    kinds: dict[str, list[Any]] = {"f": FLOATS, "i": INTEGERS, "u": [0, 1, 255], "b": [False, True]}
    values = kinds[np.dtype(dtype).kind]
    with np.errstate(all="ignore"):
        arrays = [xp.asarray(np.array(v, dtype)) for v in values]
    others: list[Any] = [*arrays, *values, 3, -3, 2**70, 2.5, True, 1j, np.float64(2), np.int64(3)]
    others += [xp.asarray([1, 2]), xp.asarray(2), xp.asarray(2.5), np.arange(3)]
    errors = (OverflowError, TypeError, ValueError, ZeroDivisionError)
    for x, y in itertools.product(arrays, others):
        for pair in ((x, y), (y, x)):
            for state in ("warn", "raise"):
                with np.errstate(all=state):
                    wanted = outcome(partial(slow(name), *pair), *errors, ArithmeticError)
                    found = outcome(partial(OPERATORS[name], *pair), *errors, ArithmeticError)
                if wanted[0][0] in (*errors, FloatingPointError):
                    assert found[0][0] is wanted[0][0], (name, pair)
                else:
                    assert found == wanted, (name, pair)


def test_what_single_numbers_come_to_is_an_array_of_its_own() -> None:
    x = xp.asarray([1.5, 2.5])
    calls: list[Callable[[], Any]] = [lambda: x[0] < x[1], lambda: x[0] + x[1]]
    for call in (*calls, lambda: next(iter(x))):
        first, second = call(), call()
        before = second.unwrap()[()]
        first[()] = xp.astype(xp.asarray(0), first.dtype)
        assert second.unwrap()[()] == before
        assert first.shape == ()
        assert first.unwrap().flags.writeable
    assert x[0] == 1.5


def test_strictness_holds_for_single_numbers() -> None:
    x: Any = xp.asarray(1.5)
    i: Any = xp.asarray(2)
    with corepy.strict():
        assert bool(x > 1)
        calls: list[Callable[[], Any]] = [lambda: i < 2.5, lambda: i + 2.5, lambda: x > True]
        for call in (*calls, lambda: x > i):
            with pytest.raises(TypeError, match="strict mode"):
                call()
        assert [float(v) for v in xp.asarray([1.0, 2.0])] == [1, 2]
        with pytest.raises(IndexError, match="strict mode"):
            list(xp.zeros((2, 2)))


@pytest.mark.parametrize("dtype", ["float64", "int64", "float32", "bool", "int8"])
def test_signs_of_single_numbers_are_those_of_the_functions(dtype: str) -> None:
    kind = np.dtype(dtype).kind
    values = FLOATS if kind == "f" else INTEGERS if dtype == "int64" else [0, 1]
    with np.errstate(all="ignore"):
        arrays = [xp.asarray(np.array(v, dtype)) for v in values]
    for x in arrays:
        for call, name in ((op.neg, "negative"), (abs, "abs")):
            found, wanted = (outcome(partial(f, x), TypeError) for f in (call, slow(name)))
            assert found == wanted or (dtype == "bool" and found[0][0] is wanted[0][0] is TypeError)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float32", "float64", "complex128"])
def test_elements_come_one_after_the_other(dtype: str) -> None:
    native = np.arange(600).reshape(300, 2).astype(dtype)
    x = xp.asarray(native)
    for part, given in (
        (x[:, 0], native[:, 0]),
        (x[::-3, 1], native[::-3, 1]),
        (x[0], native[0]),
        (x[:0, 0], native[:0, 0]),
        (x, native),
        (xp.reshape(x, (30, 5, 4)), native.reshape(30, 5, 4)),
    ):
        for _ in range(2):
            found = list(part)
            assert len(found) == len(given)
            for one, wanted in zip(found, given, strict=True):
                assert one.dtype is x.dtype
                np.testing.assert_array_equal(one.unwrap(), wanted, strict=False)
    with pytest.raises(TypeError, match=r"^iter: x has 0 dimensions"):
        iter(x[0, 0])
    first, *rest = x[:, 0]
    assert bool(first == native[0, 0])
    assert len(rest) == 299


def test_elements_are_read_as_they_come() -> None:
    locked = np.arange(3.0)
    locked.flags.writeable = False  # which is copied before it is written to
    for x in (xp.asarray([0.0, 1.0, 2.0]), xp.asarray(locked)):
        walk = iter(x)
        assert float(next(walk)) == 0
        x[1] = 7
        assert float(next(walk)) == 7
        assert float(next(walk)) == 2
        with pytest.raises(StopIteration):
            next(walk)
        assert list(walk) == []


@compiled
def test_what_is_left_of_elements_is_copied() -> None:
    walk = iter(xp.asarray([1.0, 2.0, 3.0]))
    next(walk)
    assert [float(v) for v in copy.copy(walk)] == [2, 3]
    assert [float(v) for v in walk] == [2, 3]
    assert list(copy.copy(walk)) == []


@compiled
def test_single_numbers_take_no_step_of_pythons() -> None:
    x: Any = xp.asarray([1.5, 2.5])
    i: Any = xp.asarray([3, 4])
    calls: list[Callable[[], Any]] = [
        lambda: [v for v in x if v > 2],
        lambda: max(x),
        lambda: sorted(i),
        lambda: x[0] * 2 + x[1] / 3,
        lambda: i[0] % 2 == 0,
        lambda: 7 // i[1],
    ]
    for place, call in enumerate(calls):
        assert not {"__iter__", "__getitem__", "__lt__", "unify", "run"} & set(steps(call)), place
