"""Calls of several dtypes, of arrays with gaps and with more keywords take short ways."""

from __future__ import annotations

import math
import operator as stdlib_operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices._device import CPU
from corepy.dispatch import _hot, make
from corepy.dispatch._factory import mixed
from corepy.dispatch._table import Table, table_of
from tests.dispatch.natives import NUMPY, assert_same_bits, compiled, values
from tests.dispatch.short_ways import (
    DTYPES,
    assert_alike,
    assert_same,
    layouts,
    ours,
    refusing,
    seen,
    without_entries,
)

NUMERIC = [name for name in DTYPES if name != "bool"]
REAL = [name for name in NUMERIC if name != "complex64"]


# ---------------------------------------------------------------------------- conversions


@pytest.mark.parametrize("size", [20, 20_000, 100_000])
@pytest.mark.parametrize("target", ["float32", "float64", "int64", "int8"])
def test_no_imaginary_part_is_dropped(size: int, target: str) -> None:
    dtype = getattr(xp, target)
    for source in (xp.complex64, xp.complex128):
        x = xp.astype(xp.full(size, 1j), source)
        x._table.sibling(dtype)  # which the short way looks up
        for _ in range(2):
            with pytest.raises(TypeError, match="take xp.real or xp.imag first"):
                xp.astype(x, dtype)
            with pytest.raises(TypeError, match="take xp.real or xp.imag first"):
                xp.asarray(x, dtype=dtype)


@compiled
def test_the_short_way_converts_to_what_holds_all() -> None:
    x = np.asarray([[1.5, -2.25], [100.0, 0.0]])
    for source in ("float32", "float64"):
        given = x.astype(source)
        a = make(given, without_entries(source, "astype"))
        for target in ("int8", "int16", "complex64", "complex128"):
            found = xp.astype(a, getattr(xp, target)).unwrap()
            assert_same_bits(found, given.astype(target))
        found = xp.astype(make(abs(given), a._table), xp.uint8).unwrap()
        assert_same_bits(found, abs(given).astype("uint8"))
        found = xp.astype(make(given.T, a._table), xp.int8).unwrap()
        assert_same_bits(found, given.T.astype("int8"))
    for source in ("float32", "float64"):
        for value in (128.0, -129.0, 255.5, 256.0, -0.5, -1.0, 65536.0, 2.0**32, np.nan, np.inf):
            given = xp.asarray(np.asarray([1.0, value, 2.0], source))
            for target in ("int8", "uint8", "int16", "uint16", "uint32", "complex64"):
                assert_alike("astype", given, getattr(xp, target))


@compiled
def test_scalars_of_every_kind_become_arrays_at_once() -> None:
    assert xp.asarray(True).dtype is xp.bool
    xp.asarray(1j), xp.full(2, True), xp.full(2, 1j)
    for dtype, value in ((xp.bool, True), (xp.complex128, 1 - 2j)):
        homes = _hot.homes(False)
        before = homes[dtype]
        homes[dtype] = table = without_entries(dtype.name, "full")
        try:
            assert xp.full((2, 2), value)._table is table
            for given in (value, [value, value], [[value], [value]]):
                assert xp.asarray(given)._table is table
                assert_same_bits(xp.asarray(given).unwrap(), np.asarray(given))
        finally:
            homes[dtype] = before
    for value in (True, False, 1j, -0.0j, complex(math.nan, math.inf)):
        for shape in (0, 3, (2, 5), (), 600, 20_000):
            for params in ({}, {"dtype": xp.bool}, {"dtype": xp.complex64}, {"dtype": xp.int8}):
                assert_alike("full", shape, value, **params)
        for given in (value, [value], [value, 1], [1.0, value], [[value, value]], [[value], [1]]):
            assert_alike("asarray", given)
            assert_alike("asarray", given, dtype=xp.bool)
            assert_alike("asarray", given, dtype=xp.complex128)


@pytest.mark.parametrize("convert", [int, float])
def test_numbers_come_out_of_arrays(convert: Callable[[Any], Any]) -> None:
    for value in (True, 0, -7, 2**62, 0.5, -1e300, 2.0**70, math.nan, math.inf, -math.inf, 1j):
        x = xp.asarray(value)
        try:
            expected = convert(value)
        except (TypeError, ValueError, OverflowError) as error:
            with pytest.raises(type(error)):
                convert(x)
        else:
            found = convert(x)
            assert type(found) is convert
            assert repr(found) == repr(expected)  # NaN and the sign of zero too


# ---------------------------------------------------------------------------- mixed dtypes


@pytest.mark.parametrize("strict", [False, True])
def test_choices_between_dtypes(strict: bool) -> None:
    arrays = {name: list(layouts(name)) for name in DTYPES}
    scalars = [True, 2, -1, 0.5, 2**70, 1j, math.nan, None]
    with corepy.strict(strict):
        for a in DTYPES:
            for place, x in enumerate(arrays[a]):
                mask = make(np.ones(x.shape, bool), table_of(NUMPY, CPU, _dtypes.bool))
                if x.ndim:
                    mask = make(np.arange(x.size).reshape(x.shape) % 2 == 0, mask._table)
                for other in [*scalars, *(arrays[b][place] for b in DTYPES), ours([1, 2])]:
                    assert_alike("where", mask, x, other)
                    assert_alike("where", mask, other, x)


@compiled
def test_the_short_way_chooses_between_dtypes() -> None:
    mask = np.asarray([True, False, True])
    for name, other in (("int8", 0.5), ("bool", 2), ("bool", 0.5), ("int32", np.ones(3))):
        x = np.asarray([1, 0, 1], name)
        table = without_entries(name, "where")
        wide = np.where(mask, x, other).dtype
        table.siblings[getattr(xp, wide.name)] = without_entries(wide.name, "where")
        beside = other
        if isinstance(other, np.ndarray):
            beside = make(other, table.siblings[xp.float64])
        found = xp.where(ours(mask), make(x, table), beside).unwrap()
        assert_same_bits(found, np.where(mask, x, other))
    x = np.asarray([[1.0, 2.0], [3.0, 4.0]]).T
    a = make(x, without_entries("float64", "where"))
    assert_same_bits(xp.where(ours(x > 2), a, a).unwrap(), x)


OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "lshift"]
OPERATORS += ["rshift", "lt", "eq", "ne"]
NAMES = {"sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide"}
NAMES |= {"mod": "remainder", "and_": "bitwise_and", "or_": "bitwise_or", "lt": "less"}
NAMES |= {"lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift", "eq": "equal"}
NAMES |= {"ne": "not_equal"}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "uint64", "float32"])
def test_operators_beside_scalars_and_arrays_with_gaps(dtype: str, strict: bool) -> None:
    with corepy.strict(strict), np.errstate(all="ignore"):
        for x in layouts(dtype):
            for other in (2, 0, -1, 300, 2**70, 0.5, math.nan, True, False, x, ours(3)):
                for operator in OPERATORS:
                    call = getattr(stdlib_operator, operator)
                    name = NAMES.get(operator, operator)
                    # The form in Python names reflected operands as the method has them.
                    plain = _hot.PURE is not None or operator in ("lt", "eq", "ne")
                    turned = () if plain else ((other, x),)
                    for x1, x2 in ((x, other), *turned):
                        expected = seen(lambda: mixed(name, x1, x2))  # noqa: B023
                        for _ in range(2):
                            found = seen(lambda: call(x1, x2))  # noqa: B023
                            assert_same(found, expected)


@compiled
def test_the_short_way_widens_integers_and_booleans() -> None:
    names = ("add", "divide", "less", "bitwise_left_shift")
    for name in ("bool", "int8", "uint64", "int64"):
        native = np.asarray([[1, 0, 1], [1, 1, 0]], name)
        table = Table(NUMPY, CPU, _dtypes.DTYPES[name])
        for wide in ("int64", "float64"):
            taken = names if wide == "int64" else names[:3]
            table.siblings[getattr(xp, wide)] = without_entries(wide, *taken)
        for entry in names:
            table[entry] = (refusing, None)
        for given in (native, native.T, native[:, ::2]):
            x = make(given, table)
            assert_same_bits((x / 2).unwrap(), given / 2)
            assert_same_bits((x + 0.5).unwrap(), given + 0.5)
            if name == "bool":
                assert_same_bits((x + 2).unwrap(), given + np.int64(2))
                assert_same_bits((x << 1).unwrap(), given << np.int64(1))
                assert_same_bits((x < 1).unwrap(), given < 1)
                truths = make(given, without_entries("bool", "equal", "bitwise_and"))
                assert_same_bits((truths == False).unwrap(), ~given)  # noqa: E712
                assert_same_bits((True & truths).unwrap(), given)
            else:
                y = make(given + native.dtype.type(1), table)
                assert_same_bits((x / y).unwrap(), given / y.unwrap())


@compiled
@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bool"])
def test_powers_to_two_are_squares(dtype: str) -> None:
    least, most = (-100, 100) if dtype[0] in "fc" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    native = np.linspace(float(least) / 2, float(most) / 2, 50).astype(dtype)
    x = make(native, without_entries(dtype, "pow", "square"))
    for two in (2, 2.0) if dtype[0] in "fc" else (2,):
        assert_same_bits((x**two).unwrap(), np.square(native))
        assert_same_bits(xp.pow(x, two).unwrap(), np.square(native))
        written = make(native.copy(), x._table)
        written **= two
        assert_same_bits(written.unwrap(), np.square(native))


@pytest.mark.parametrize("dtype", DTYPES)
def test_joins_of_every_kind(dtype: str) -> None:
    x, *_ = layouts(dtype)
    square = make(values(x._table, (8, 8), 1, tame=True), x._table)
    parts = [square[::2, 1:5], square.mT, square[0, ::-2], square[:, 0], square, square[:0]]
    for a in parts:
        like = np.ones(a.shape)
        others = [a, ours(like), ours(like, "int8"), ours([1, 1], "uint64"), ours(like * 1j)]
        others += [ours(like, "bool"), ours(1), 2.0, xp.ones(a.shape)]
        for other in others:
            for axis in (0, -1, None, 5):
                for name in ("concat", "stack"):
                    for strict in (False, True):
                        with corepy.strict(strict):
                            assert_alike(name, [a, other], axis=axis)
                            assert_alike(name, (other, a, a), axis=axis)


@compiled
def test_the_short_way_joins_what_is_not_alike() -> None:
    table = without_entries("float64", "concat", "stack", "full")
    few = Table(NUMPY, CPU, _dtypes.int8)
    few.siblings[xp.float64] = table.siblings[xp.float64] = table
    table.siblings[xp.int8] = few
    x, y = np.arange(6.0).reshape(2, 3), np.arange(6, dtype=np.int8).reshape(3, 2).T
    a, b = make(x, table), make(y, few)
    for arrays, natives in (((a, b), (x, y)), ((b, a), (y, x)), ((a, a.mT.mT), (x, x))):
        for axis in (0, 1, None):
            found = xp.concat(arrays, axis=axis).unwrap()
            assert_same_bits(found, np.concatenate(natives, axis=axis))
        assert_same_bits(xp.stack(arrays, axis=1).unwrap(), np.stack(natives, axis=1))


# ---------------------------------------------------------------------------- arrays with gaps


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_of_arrays(dtype: str) -> None:
    chosen = [ours([0, -1]), ours([[1], [7]]), ours([], "int64")]
    for x in layouts(dtype):
        for axis in (None, 0, 1, -1, (0, 1), (), True):
            for kept in (False, True):
                assert_alike("count_nonzero", x, axis=axis, keepdims=kept)
            for indices in chosen:
                assert_alike("take", x, indices, axis=axis)
            assert_alike("cumulative_sum", x, axis=axis)
            assert_alike("cumulative_prod", x, axis=axis, include_initial=True)
        for bounds in ((x, x), (None, x), (x, None), (x, 1), (0, x), (None, None), (0, None)):
            low, high = bounds
            assert_alike("clip", x, low, high)
            assert_alike("clip", x, min=low, max=high)
        assert_alike("clip", x, x[..., :1] if x.ndim else x, None)
        assert_alike("clip", x, ours(1), None)


@pytest.mark.parametrize("size", [1, 7, 33, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zeros_between_two_bounds_keep_their_sign_at_every_call(dtype: str, size: int) -> None:
    natives = np.resize(np.array([0.0, -0.0, 3.0], dtype), (2, size))
    for part in (natives, natives[:, ::-1], natives.T):
        for low, high in ((-0.0, 1.0), (0.0, 1.0), (-1.0, 0.0), (-1.0, -0.0)):
            table = Table(NUMPY, CPU, _dtypes.DTYPES[dtype])  # nobody has called anything by it
            x = make(part, table)
            expected = np.where(part > high, np.array(high, dtype), part)
            lows = make(np.full(part.shape, low, dtype), table)
            highs = make(np.full(part.shape, high, dtype), table)
            few = make(np.full(part.shape[1:], high, dtype), table)
            for _ in range(3):  # the first call is the library's
                for bounds in ((low, high), (lows, highs), (low, highs), (lows, high), (lows, few)):
                    assert_same_bits(xp.clip(x, *bounds).unwrap(), expected)
            above = make(np.full(part.shape, 1.0, dtype), table)
            assert_same_bits(xp.clip(x, above, highs).unwrap(), np.full(part.shape, high, dtype))


@compiled
def test_the_short_way_packs_parts_of_arrays() -> None:
    names = ("count_nonzero", "cumulative_sum", "take", "repeat", "floor_divide", "maximum", "clip")
    table = without_entries("float64", *names)
    whole = np.arange(24.0).reshape(4, 6) - 7
    for part in (whole[:, ::2], whole.T, whole[::-1]):
        x = make(part, table)
        for axis in (0, 1):
            found = xp.count_nonzero(x, axis=axis).unwrap()
            assert_same_bits(found, np.count_nonzero(part, axis=axis))
            found = xp.cumulative_sum(x, axis=axis).unwrap()
            assert_same_bits(found, np.cumulative_sum(part, axis=axis))
            found = xp.take(x, ours([1, 0]), axis=axis).unwrap()
            assert_same_bits(found, np.take(part, [1, 0], axis=axis))
            assert_same_bits(xp.repeat(x, 2, axis=axis).unwrap(), part.repeat(2, axis))
        assert_same_bits(xp.count_nonzero(x).unwrap(), np.asarray(np.count_nonzero(part)))
        assert_same_bits((x // make(part + 0.5, table)).unwrap(), part // (part + 0.5))
        assert_same_bits((x // 2.0).unwrap(), part // 2.0)
        assert_same_bits(xp.clip(x, 0, None).unwrap(), np.maximum(part, 0.0))


# ---------------------------------------------------------------------------- keywords


@pytest.mark.parametrize("dtype", DTYPES)
def test_keywords_of_arrays_like_others(dtype: str) -> None:
    for x in layouts(dtype):
        for name in DTYPES:
            given = _dtypes.DTYPES[name]
            for function in ("zeros_like", "ones_like"):
                assert_alike(function, x, dtype=given)
                assert_alike(function, x, dtype=None)
            for value in (3, -2, 2.5, True, 300, 1j):
                assert_alike("full_like", x, value, dtype=given)
        assert_alike("zeros_like", x, dtype="float32")
        assert_alike("zeros_like", x, device="cpu")
        for shape in ((-1,), (2, -1), (4, 3), (), (7,)):
            for copy in (True, False, None, 1):
                assert_alike("reshape", x, shape, copy=copy)


@pytest.mark.parametrize("dtype", REAL)
def test_where_elements_stand_in_an_order(dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x = make(values(table, (40,), 1, tame=True), table)
    order = np.argsort(x.unwrap(), kind="stable")
    bad = [order - 1, order + 1, np.where(order == 20, 40, order), np.where(order == 20, -1, order)]
    for side in ("left", "right", "middle"):
        for sorter in (order, order[:9], order[None], order[::-1], order.astype("int8"), *bad):
            assert_alike("searchsorted", x, x, side=side, sorter=ours(sorter))
        assert_alike("searchsorted", x, x, sorter=None, side=side)
        assert_alike("searchsorted", x, x, side=side, sorter=ours(order * 1.0))
        assert_alike("searchsorted", x, x[:0], side=side, sorter=ours(order))
        assert_alike("searchsorted", x[:0], x, side=side, sorter=ours(order[:0]))


@compiled
def test_the_short_way_reads_more_keywords() -> None:
    names = ("zeros", "ones", "full", "reshape", "searchsorted", "take")
    table, other = without_entries("float64", *names), without_entries("int8", *names)
    table.siblings[xp.int8] = other
    native = np.asarray([[3.0, 1.0, 2.0]])
    x = make(native, table)
    assert xp.zeros_like(x, dtype=xp.int8)._table is other
    assert_same_bits(xp.full_like(x, 7, dtype=xp.int8).unwrap(), np.full((1, 3), 7, "int8"))
    copy = xp.reshape(x, (3, 1), copy=True).unwrap()
    assert_same_bits(copy, native.reshape(3, 1))
    assert not np.may_share_memory(copy, native)
    assert np.may_share_memory(xp.reshape(x, (3, 1), copy=False).unwrap(), native)
    found = xp.searchsorted(x[0, :], x[0, :], side="right", sorter=ours([1, 2, 0]))
    np.testing.assert_array_equal(found.unwrap(), [3, 1, 2])


# ---------------------------------------------------------------------------- in place


@compiled
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_in_place_are_numpys(dtype: str) -> None:
    rng = np.random.default_rng(5)
    for size in (1, 2, 3, 7, 16, 33, 1000, 20_000):
        x = (rng.normal(size=size) + 1j * rng.normal(size=size)).astype(dtype)
        y = (rng.normal(size=size) + 1j * rng.normal(size=size)).astype(dtype)
        for name in ("iadd", "isub", "imul", "itruediv"):
            call = getattr(stdlib_operator, name)
            for other in (y, y[:1].reshape(()), 2, 0.5, 1.5 - 1j, "itself", "part"):
                expected, native = x.copy(), x.copy()
                array = xp.asarray(native, copy=False)
                if isinstance(other, str):
                    part = slice(None) if other == "itself" or size < 3 else slice(None, None, -1)
                    call(expected, expected[part])
                    call(array, array[part])
                else:
                    call(expected, other)
                    call(array, xp.asarray(other) if isinstance(other, np.ndarray) else other)
                assert_same_bits(native, expected)


@compiled
def test_the_short_way_writes_complex_numbers_and_powers_in_place() -> None:
    table, powers = Table(NUMPY, CPU, xp.complex128), Table(NUMPY, CPU, xp.float64)
    whole = Table(NUMPY, CPU, xp.int32)
    symbols = {"multiply": "__imul__", "add": "__iadd__", "pow": "__ipow__"}
    for each in (table, powers, whole):
        for name, symbol in symbols.items():
            each[symbol] = (refusing, None)
            each[name] = (refusing, each)
            each.settle(name, refusing, each, NUMPY.loop(name))
    x = make(np.asarray([1 + 1j, 2 - 1j]), table)
    held = x.unwrap()
    x *= 2
    x += x
    x += 1j
    assert np.shares_memory(x.unwrap(), held)
    assert_same_bits(held, np.asarray([4 + 5j, 8 - 3j]))
    y = make(np.asarray([2.0, 3.0]), powers)
    y **= 3
    assert_same_bits(y.unwrap(), np.asarray([8.0, 27.0]))
    native = np.arange(40_000, dtype="int32")
    many = make(native, whole)
    many += many
    many *= 3
    assert np.shares_memory(many.unwrap(), native)
    assert_same_bits(native, np.arange(40_000, dtype="int32") * 6)
    z = xp.asarray([2, 3])
    with pytest.raises(ValueError, match="negative"):
        z **= -1
    n = make(np.asarray([1e308 + 0j, 1.0]), table_of(NUMPY, CPU, xp.complex128))
    with pytest.warns(RuntimeWarning, match="overflow"):
        n += n
    assert_same_bits(n.unwrap(), np.asarray([complex(math.inf, 0), 2.0]))


@compiled
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "uint64"])
def test_integers_in_place_are_numpys(dtype: str) -> None:
    rng = np.random.default_rng(7)
    for size in (1, 2, 33, 3000, 40_000):
        x, y = rng.integers(0, 2**7, (2, size)).astype(dtype)
        for name in ("iadd", "isub", "imul", "iand", "ior", "ixor"):
            if dtype == "bool" and name in ("iadd", "isub", "imul"):
                continue
            call = getattr(stdlib_operator, name)
            for other in (y, y[:1].reshape(()), x, None, 0):
                expected, native = x.copy(), x.copy()
                array = ours(native)
                if other is None:  # parts that overlap
                    call(expected[1:], expected[:-1].copy())
                    part = array[1:]
                    call(part, array[:-1])
                elif other is x:
                    call(expected, expected)
                    call(array, array)
                elif other is y or dtype != "bool":
                    call(expected, other)
                    call(array, ours(other) if isinstance(other, np.ndarray) else other)
                assert_same_bits(native, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_traces(dtype: str) -> None:
    for x in layouts(dtype):
        for offset in (0, 1, -2, 9, True):
            assert_alike("linalg.trace", x, offset=offset)
        assert_alike("linalg.trace", x)
        assert_alike("linalg.trace", x, dtype=xp.float64)


# ---------------------------------------------------------------------------- past compat's layer


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_functions_past_compats_layer_are_numpys(dtype: str) -> None:
    rng = np.random.default_rng(6)
    a = rng.normal(size=(2, 5, 5)) + (1j * rng.normal(size=(2, 5, 5)) if dtype[0] == "c" else 0)
    a = (a @ a.conj().swapaxes(-1, -2)).astype(dtype)
    lower = np.linalg.cholesky(a)
    upper = xp.linalg.cholesky(xp.asarray(a), upper=True).unwrap()
    assert_same_bits(upper, lower.conj().swapaxes(-1, -2))
    for x in (a, a[0].T, a[0, 0], a[:, ::2, 1]):
        for order in (0, 3, 0.5, -1, 2.5, -0.5):
            for axis in (None, 0, -1):
                for kept in (False, True):
                    expected = np.linalg.vector_norm(x, ord=order, axis=axis, keepdims=kept)
                    found = xp.linalg.vector_norm(
                        xp.asarray(x), ord=order, axis=axis, keepdims=kept
                    )
                    assert_same_bits(found.unwrap(), expected)
        if dtype[0] == "f":
            for axis in range(x.ndim):
                found = xp.sort(xp.asarray(x), axis=axis, descending=True).unwrap()
                assert_same_bits(found, np.flip(np.sort(x, axis), axis))
