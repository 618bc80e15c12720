"""What arrays do by keys and operators is what the methods behind their short ways do."""

from __future__ import annotations

import operator as stdlib_operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices._device import CPU
from corepy.dispatch import make
from corepy.dispatch._factory import mixed
from corepy.dispatch._table import table_of
from tests.dispatch.natives import NUMPY, assert_same_bits, compiled
from tests.dispatch.short_ways import DTYPES, LONG_GET, LONG_SET, function, layouts, seen

KEYS = [
    *(0, -1, 5, -9, 2**70, True, None, Ellipsis, 1.0, "a", (), slice(None), slice(3, None, -2)),
    *((0, 1), (-1, -1), (0, 9), (0, 0, 0, 0), (slice(None), 1), (Ellipsis, 0), (0, Ellipsis)),
    *((None, 0), (0, None, slice(1)), (Ellipsis, Ellipsis), (None, Ellipsis, None), (slice(0), 0)),
    *((slice(1, 9), slice(None, None, 2)), (slice(0, 3, 0), 1), (slice("a"), 0), (True, 0), [0]),
    *((0, 1, Ellipsis), (slice(2**70), 0), (slice(None, None, -1), slice(None, None, -1))),
]


def keys_for(x: Any) -> Iterator[Any]:
    yield from KEYS
    yield xp.asarray([0, 0, -1])
    yield xp.asarray([[0], [7]])
    yield make(x.unwrap().astype(bool), table_of(NUMPY, CPU, _dtypes.bool))
    yield xp.asarray(np.array([True, False, True]))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float64", "complex64"])
def test_keys(dtype: str, strict: bool) -> None:
    with corepy.strict(strict):
        for x in layouts(dtype):
            for key in keys_for(x):
                expected, error, _ = seen(lambda: LONG_GET(x, key))  # noqa: B023
                for _ in range(2):
                    found, also, _ = seen(lambda: x[key])  # noqa: B023
                    assert also == error
                    for a, b in zip(found, expected, strict=True):
                        assert_same_bits(a.unwrap(), b.unwrap())
                        assert a.unwrap().flags.writeable == b.unwrap().flags.writeable
                        shared = np.may_share_memory(a.unwrap(), x.unwrap())
                        assert shared == np.may_share_memory(b.unwrap(), x.unwrap())


@compiled
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int32", "int64", "float32", "float64", "complex64"]
)
def test_writing(dtype: str) -> None:
    arrays = list(layouts(dtype))
    values = [-1, 2.5, True, 2**70, 1j, "a", arrays[0][..., :1], arrays[6], xp.ones(3)]
    for x in arrays:
        for key in keys_for(x):
            for value in [*values, x]:
                outcomes = []
                for store in (LONG_SET, stdlib_operator.setitem, stdlib_operator.setitem):
                    copy = np.copy(x.unwrap(), order="K")
                    copy.flags.writeable = x.unwrap().flags.writeable
                    target = make(copy, x._table)
                    _, error, _ = seen(lambda: store(target, key, value) or ())  # noqa: B023
                    outcomes.append((target.unwrap(), error))
                (expected, error), *others = outcomes
                for found, also in others:
                    assert also == error
                    assert_same_bits(found, expected)
    with pytest.raises(AttributeError, match="__delitem__"):
        del arrays[0][0]


INPLACE = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"]
INPLACE += ["lshift", "rshift"]


@compiled
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float32", "float64", "complex64"])
def test_writing_in_place(dtype: str) -> None:
    arrays = list(layouts(dtype))
    for name in INPLACE:
        method = getattr(type(arrays[0]), f"__i{name}__")
        by_slot = getattr(stdlib_operator, f"i{name}")
        for x in arrays:
            part = x[..., :1] if x.ndim else x
            for other in [
                2,
                -1,
                0.5,
                True,
                2**70,
                1j,
                "a",
                x,
                part,
                xp.ones(3),
                arrays[0],
                arrays[6],
            ]:
                outcomes = []
                for call in (method, by_slot, by_slot):
                    copy = np.copy(x.unwrap(), order="K")
                    copy.flags.writeable = x.unwrap().flags.writeable
                    target = make(copy, x._table)
                    with np.errstate(all="ignore"):
                        found, error, _ = seen(lambda: call(target, other))  # noqa: B023
                    if found and found[0] is NotImplemented:  # of the method; the operator raises
                        found, error = [], (TypeError, "")
                    kept = bool(found) and found[0] is target
                    shared = np.may_share_memory(target.unwrap(), copy)
                    outcomes.append((target.unwrap(), error, kept, shared))
                (expected, error, *rest), *others = outcomes
                for found, also, *more in others:
                    assert also == error or (also and error and error[1] == "")
                    assert more == rest
                    assert_same_bits(found, expected)


def test_a_warning_in_place_comes_once_and_the_result_is_right() -> None:
    x, y = xp.asarray(np.array([1e308, 1.0])), xp.asarray(np.array([10.0, 2.0]))
    for _ in range(2):
        z = xp.asarray(np.array([1e308, 1.0]))
        with pytest.warns(RuntimeWarning, match="overflow") as caught:
            z *= y
        assert len(caught) == 1
        np.testing.assert_array_equal(z.unwrap(), [np.inf, 2.0])
    assert float(x[0]) == 1e308


def test_overlapping_parts_are_written_as_if_they_were_copied() -> None:
    for _ in range(2):
        x = xp.arange(6)
        x[1:] = x[:-1]
        np.testing.assert_array_equal(x.unwrap(), [0, 0, 1, 2, 3, 4])
        x[::-1] = x
        np.testing.assert_array_equal(x.unwrap(), [4, 3, 2, 1, 0, 0])


@pytest.mark.parametrize("strict", [False, True])
def test_dtypes_that_are_mixed(strict: bool) -> None:
    arrays = {name: list(layouts(name))[:10:3] for name in DTYPES}
    with np.errstate(all="ignore"), corepy.strict(strict):
        for a in DTYPES:
            for b in DTYPES:
                for name in ("add", "less", "atan2", "bitwise_and", "pow"):
                    for x, y in zip(arrays[a], arrays[b], strict=True):
                        expected, error, _ = seen(lambda: mixed(name, x, y))  # noqa: B023
                        for _ in range(2):
                            found, also, _ = seen(lambda: function(name)(x, y))  # noqa: B023
                            assert also == error
                            for p, q in zip(found, expected, strict=True):
                                assert p.dtype is q.dtype
                                assert_same_bits(p.unwrap(), q.unwrap())


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_beside_complex_numbers(dtype: str, strict: bool) -> None:
    numbers = [1j, 0.1 - 2.5j, complex(-0.0, -0.0), complex(float("nan"), 1), 1e300j, 1e39 + 0j]
    with np.errstate(all="ignore"), corepy.strict(strict):
        for x in layouts(dtype):
            for name in ("add", "subtract", "multiply", "divide", "pow", "equal", "less", "atan2"):
                for value in numbers:
                    for pair in ((x, value), (value, x)):
                        expected, error, _ = seen(lambda: mixed(name, *pair))  # noqa: B023
                        for _ in range(2):
                            found, also, _ = seen(lambda: function(name)(*pair))  # noqa: B023
                            assert also == error
                            for p, q in zip(found, expected, strict=True):
                                assert p.dtype is q.dtype
                                assert_same_bits(p.unwrap(), q.unwrap())


def test_scalars_out_of_arrays() -> None:
    for dtype in DTYPES:
        for x in layouts(dtype):
            for convert in (bool, int, float, complex, len, stdlib_operator.index):
                method = getattr(type(x), f"__{convert.__name__}__")
                outcomes = []
                for call in (method, convert, convert):
                    try:
                        outcomes.append(call(x))
                    except (TypeError, ValueError, OverflowError) as error:
                        outcomes.append((type(error), str(error)))
                assert {repr(each) for each in outcomes} == {repr(outcomes[0])}
                assert type(outcomes[1]) is type(outcomes[0])


def test_choices_and_masks_of_every_size_of_element() -> None:
    for dtype in DTYPES:
        for x in layouts(dtype):
            mask = make(x.unwrap().astype(bool), table_of(NUMPY, CPU, _dtypes.bool))
            for _ in range(2):
                found = xp.where(mask, x, x[..., ::-1] if x.ndim else x)
                turned = x.unwrap()[..., ::-1] if x.ndim else x.unwrap()
                assert_same_bits(found.unwrap(), np.where(mask.unwrap(), x.unwrap(), turned))
                assert_same_bits(x[mask].unwrap(), x.unwrap()[mask.unwrap()])


@pytest.mark.parametrize(
    "backend", ["numpy", pytest.param("numba", marks=pytest.mark.backend("numba"))]
)
@pytest.mark.parametrize("dtype", ["int8", "int32", "float32", "int64", "float64", "complex128"])
def test_masks_of_other_memory_hold_where_they_are_not_zero(backend: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for size in (1, 255, 257, 40_000):
        mask = (rng.integers(0, 3, size) * 127).astype(np.uint8)
        x, y = rng.integers(-9, 9, (2, size)).astype(dtype)
        with corepy.backend_priority([backend]):
            which, a, b = (xp.asarray(each) for each in (mask.view(bool), x, y))
            for _ in range(2):
                assert_same_bits(xp.where(which, a, b).unwrap(), np.where(mask != 0, x, y))
                assert_same_bits(a[which].unwrap(), x[mask != 0])
