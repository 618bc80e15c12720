"""A function with a short way before it does what the function behind it does, errors and all.

That is so in both forms of the hot path; the one in Python has fewer short ways.
"""

from __future__ import annotations

import gc
import inspect
import operator as stdlib_operator
import pickle
import re
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices._device import CPU
from corepy.dispatch import OPERATIONS, Operand, _hot, make
from corepy.dispatch._factory import mixed
from corepy.dispatch._table import Table, table_of
from tests.dispatch.natives import NUMPY, assert_same_bits, values

compiled = pytest.mark.skipif(_hot.PURE is not None, reason=f"not compiled: {_hot.PURE}")

DTYPES = ["bool", "int8", "uint16", "int32", "int64", "uint64", "float32", "float64", "complex64"]


def function(name: str) -> Callable[..., Any]:
    extension, _, short = name.rpartition(".")
    found: Callable[..., Any] = getattr(getattr(xp, extension) if extension else xp, short)
    return found


def layouts(dtype: str) -> Iterator[Any]:
    """Arrays of a dtype: of several shapes, strided, turned, empty, of one element, read-only."""
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    for number, shape in enumerate([(6,), (3, 4), (4, 4), (1, 3), (2, 3, 2), (), (0,), (0, 3)]):
        for tame in (True, False):
            yield make(values(table, shape, number, tame), table)
    square = values(table, (8, 8), 1, tame=True)
    locked = square[:2].copy()
    locked.flags.writeable = False
    for native in (square[::2, 1:5], square.T, square[0, ::-2], square[3:], locked):
        yield make(native, table)


def seen(call: Callable[[], Any], owner: Any = None) -> tuple[list[Any], Any, list[str]]:
    """Return the arrays that a call gives, and its error and its warnings in words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
            result = [result] if result is NotImplemented else result
            error = None
        except Exception as raised:
            told = re.sub(r"\d+ of \d+ bytes", "some bytes", str(raised))  # free at that moment
            told = re.sub(r"gave back \d+", "gave back some", told)  # what earlier calls had left
            result, error = (), (type(raised), told)
    results = [result] if isinstance(result, Operand) else list(result)
    return results, error, [str(w.message) for w in caught]


def assert_alike(name: str, *args: Any, **params: Any) -> None:
    """Call a function and the one behind its short way; what they give or raise is the same."""
    short = function(name)
    long = getattr(short, "__wrapped__", short)
    expected, error, warned = seen(lambda: long(*args, **params))
    for _ in range(2):  # the first call may fill a table
        found, also_error, also_warned = seen(lambda: short(*args, **params))
        assert also_error == error, (name, args, params)
        assert also_warned == warned
        assert len(found) == len(expected)
        for x, y in zip(found, expected, strict=True):
            assert x.dtype is y.dtype
            assert x.backend == y.backend
            assert_same_bits(x.unwrap(), y.unwrap())
            assert x.unwrap().flags.writeable == y.unwrap().flags.writeable
            for arg in args:
                if isinstance(arg, Operand):
                    shared = np.may_share_memory(x.unwrap(), arg.unwrap())
                    assert shared == np.may_share_memory(y.unwrap(), arg.unwrap())


SHAPES = [3, 0, (2, 3), (), (0, 4), -1, (2, -1), True, 2.0, [2, 2], "a", 20_000, (2**31,) * 2]
DTYPE_ARGUMENTS = [{}, *({"dtype": getattr(xp, name)} for name in DTYPES)]
DTYPE_ARGUMENTS += [{"dtype": None}, {"dtype": "float32"}, {"dtype": []}, {"device": "cpu"}]


RANGES = [(5,), (0,), (-3,), (2, 9), (9, 2), (1, 10, 3), (10, 1, -3), (1, 2, 0), (0, 1, 7), (2.5,)]
RANGES += [(0, 1, 0.25), (0.0, 1.0, 0.1), (1.0, 0.0, -0.3), (0.0, 1e300, 1.0), (2**40,), (True,)]
RANGES += [(0, 2**70, 2**68), (300,), (float("nan"),), (0.0, 1.0, 0.0), (-100, 100, 7)]
RANGES += [(100, -100, -9), (0, 300_000), (2**23 - 40, 2**23 - 1), (2**30 - 50, 2**30), (50.0,)]
RANGES += [(-128, 128), (0, 256), (255, -1, -1), (0, 257), (-129, 3), (65_500, 65_536), (9, 0, -2)]
RANGES += [(200, 0), (-5, -9), (120, 140, 8), (120, 130, 8), (2**30, 0, -(2**28))]
RANGES += [(-(2**23), 2**23, 99_999), (-(2**30), 2**30, 2**25 + 1)]


SPACES = [(0, 1, 5), (0.0, 1.0, 1000), (-2.5, 7, 257), (3, 3, 4), (1.0, 0.0, 3), (0.1, 0.7, 20_000)]
SPACES += [(0, 1, 0), (5, 6, 1), (5, 6, -1), (0.0, 5e-324, 7), (-1e308, 1e308, 9), (1e40, 2e40, 3)]
SPACES += [(-0.0, 0.0, 3), (0, float("inf"), 3), (float("nan"), 1, 3), (0, 2**70, 3), (0, 1j, 3)]
SPACES += [(0, 1, 2.0), (0, 1, True), (True, 3, 4), ("a", 1, 2), (0, 1), (0, 1 / 3, 301)]
SPACES += [(-3e38, 3e38, 7), (3.5e38, 1e39, 3)]


@pytest.mark.parametrize("params", DTYPE_ARGUMENTS, ids=str)
def test_creation(params: dict[str, Any]) -> None:
    for name in ("zeros", "ones"):
        for shape in SHAPES:
            assert_alike(name, shape, **params)
        assert_alike(name, **params)
        assert_alike(name, 1, 2, **params)
    for shape in (3, (2, 3), (), -1, 20_000):
        for value in (3, -2, 2.0, 0.5, 300, 2**40, 2**70, 1e300, float("nan"), True, 1j, None):
            assert_alike("full", shape, value, **params)
    for bounds in RANGES:
        assert_alike("arange", *bounds, **params)
    for sizes in ((3,), (0,), (3, 4), (4, None), (2, 0), (-1,), (2, -1), (True,), (2.0,), (2**40,)):
        assert_alike("eye", *sizes, **params)
        for k in (1, -1, 3, -3, 9, -9, 2**70, -(2**40), True, 1.0):
            assert_alike("eye", *sizes, k=k, **params)
    assert_alike("eye", **params)
    for ends in SPACES:
        assert_alike("linspace", *ends, **params)
        assert_alike("linspace", *ends, endpoint=False, **params)


def test_arrays_like_others() -> None:
    for dtype in DTYPES:
        for x in layouts(dtype):
            for name in ("zeros_like", "ones_like"):
                assert_alike(name, x)
                assert_alike(name, x, dtype=xp.float32)
            assert xp.empty_like(x).shape == x.shape
            for value in (3, -2, 2.5, True, 300, 1j, 2**70, "a"):
                assert_alike("full_like", x, value)
            for attribute in ("T", "mT"):
                prop = getattr(type(x), attribute).fget
                long = getattr(prop, "__wrapped__", prop)
                expected, error, _ = seen(lambda: long(x))  # noqa: B023
                for _ in range(2):
                    found, also, _ = seen(lambda: getattr(x, attribute))  # noqa: B023
                    assert also == error
                    for a, b in zip(found, expected, strict=True):
                        assert_same_bits(a.unwrap(), b.unwrap())
                        assert np.may_share_memory(a.unwrap(), b.unwrap()) or a.size == 0


@compiled
def test_conversions() -> None:
    x = xp.ones(2)
    flat = [1.5, 0, 3, True, 2j, -0.0, 2**62, 2**63, 2**70, float("nan"), "a", None]
    for value in flat:
        assert_alike("asarray", value)
        assert_alike("asarray", [value])
        assert_alike("asarray", [1.0, value])
        assert_alike("asarray", (1, value))
        assert_alike("asarray", [[1, 2], [value, 4]])
        assert_alike("asarray", [[1.0], (value,), [3.0]])
        assert_alike("asarray", [[1.0], value])
        assert_alike("asarray", [1.0, [value]])
    for nested in (
        [],
        (),
        [[]],
        [[], []],
        [[1.0], [2.0, 3.0]],
        [[[1]], [[2]]],
        [range(3)],
        [[1], ()],
    ):
        assert_alike("asarray", nested)
    for name in DTYPES:
        for value in (1, 300, -1, 2**53 + 1, 2**63, 2**70, 0.1, 1e300, float("inf"), True, 1j, x):
            for given in (value, [value], (1, value), [[1, 2.0], (value, 4)], [[value], 1]):
                assert_alike("asarray", given, dtype=getattr(xp, name))
        assert_alike("asarray", x, dtype=getattr(xp, name))
        for given in layouts(name):
            for copy in (True, False, None, 1):
                assert_alike("asarray", given, copy=copy)
                for target in (name, "float32", "uint16", "complex128"):
                    dtype = getattr(xp, target)
                    assert_alike("asarray", given, dtype=dtype)
                    assert_alike("asarray", given, copy=copy, dtype=dtype)
    for value in (1, 2.5, [1, 2], [[0.5]], 1j, x):
        assert_alike("asarray", value, copy=True)
        assert_alike("asarray", value, copy=False)
        assert_alike("asarray", value, copy=True, device="cpu")
    with corepy.strict():
        assert_alike("asarray", xp.ones(2), dtype=xp.int64)
    assert xp.asarray(x) is x
    assert xp.asarray(x, dtype=xp.float64) is x
    assert xp.asarray(x, copy=True) is not x
    assert_alike("asarray", [x[0], 1.0])
    for _ in range(2):
        with corepy.backend_priority(["reference"]):
            assert xp.asarray([1.0]).backend == "reference"
        assert xp.asarray([1.0]).backend == "numpy"


def test_new_arrays_go_where_the_wish_leads() -> None:
    for _ in range(2):
        for name, args in (("zeros", (3,)), ("arange", (4,)), ("full", (2, 7))):
            assert function(name)(*args).backend == "numpy"
            with corepy.backend_priority(["reference"]):
                assert function(name)(*args).backend == "reference"
                assert function(name)(*args, dtype=xp.float32).backend == "reference"
            assert function(name)(*args, dtype=xp.float32).backend == "numpy"


PERMUTATIONS = [(0,), (1, 0), (-1, 0), (0, 2, 1), (1, 1), (0, 5), [1, 0], (), 0, (0.0, 1)]


@pytest.mark.parametrize("dtype", ["int8", "float64", "complex64"])
def test_views(dtype: str) -> None:
    for x in layouts(dtype):
        for shape in ((-1,), (2, -1), (-1, -1), (4, 3), (), (0,), (0, -1), 6, [6], (7,), (1.0,)):
            assert_alike("reshape", x, shape)
        assert_alike("reshape", x, (-1,), copy=True)
        for axes in PERMUTATIONS:
            assert_alike("permute_dims", x, axes)
            assert_alike("permute_dims", x, axes=axes)
        for axis in (0, 1, -1, 3, -4, None, True, (0,), (0, 1), "a"):
            for name in ("expand_dims", "squeeze", "flip"):
                assert_alike(name, x, axis=axis)
                assert_alike(name, x, axis)
        assert_alike("flip", x)
        assert_alike("matrix_transpose", x)
        assert_alike("matrix_transpose", x, x)
        for shape in (3, (2, 3), (2, *x.shape), x.shape, (5, 3, 4), (2**50, *x.shape), (-1,), "a"):
            assert_alike("broadcast_to", x, shape)
        for offset in (0, 1, -2, 3, -3, 9, -9, 2**40, True, 1.0):
            assert_alike("linalg.diagonal", x, offset=offset)
        assert_alike("linalg.diagonal", x)
        for axis in (0, 1, -1, 5, None, True):
            assert_alike("unstack", x, axis=axis)
        assert_alike("unstack", x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies(dtype: str) -> None:
    arrays = list(layouts(dtype))
    numbers = [xp.asarray(v) for v in ([0, 1], [[-1, 0], [1, 1]], [7], [-9], [])]
    numbers = [xp.astype(n, xp.int64) for n in numbers] + [xp.asarray(1), xp.asarray([True])]
    for x in arrays:
        for target in DTYPES:
            assert_alike("astype", x, getattr(xp, target))
        assert_alike("astype", x, getattr(xp, dtype), copy=False)
        for axis in (0, 1, -1, 5, None):
            for name in ("concat", "stack"):
                assert_alike(name, [x, x], axis=axis)
                assert_alike(name, (x, arrays[2], x), axis=axis)
            for chosen in numbers:
                assert_alike("take", x, chosen, axis=axis)
        assert_alike("take", x, numbers[0])
        assert_alike("concat", [x])
        assert_alike("concat", x)
    assert_alike("concat", [])
    assert_alike("stack", (arrays[0], xp.asarray([1.5])))
    assert_alike("take", arrays[0], numbers[0], axis=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_repetitions(dtype: str) -> None:
    for x in layouts(dtype):
        for times in (0, 1, 3, -1, 5000, 2**62, True, 2.0, None):
            assert_alike("repeat", x, times)
            assert_alike("repeat", x, times, axis=0)
            assert_alike("repeat", x, times, axis=-1)
        for axis in (None, 0, 1, 5, True):
            length = x.size if axis is None else (*x.shape, 0, 0)[axis % 2]
            for counts in (np.arange(length), np.full(length, 2), np.ones(length + 1, int)):
                assert_alike("repeat", x, xp.asarray(counts), axis=axis)
            for bad in (np.arange(length) - 1, np.full(length, 2**40), np.ones((1, length), int)):
                assert_alike("repeat", x, xp.asarray(bad), axis=axis)
            for kind in ("uint8", "uint64", "float64", "bool"):
                assert_alike("repeat", x, xp.asarray(np.ones(length, kind)), axis=axis)
            assert_alike("repeat", x, xp.asarray(2), axis=axis)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_arrays_are_reduced_to(dtype: str) -> None:
    names = ["all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min", "prod", "std"]
    names += ["sum", "var", "cumulative_sum", "cumulative_prod"]
    for x in layouts(dtype):
        for name in names:
            for axis in (None, 0, 1, -1, 7, (0, 1), (-1, 1), (0, -1), (0, 0), (2, 1, 0), (), True):
                assert_alike(name, x, axis=axis)
                for kept in (True, False, 1):
                    assert_alike(name, x, axis=axis, keepdims=kept)
                    assert_alike(name, x, keepdims=kept, axis=axis)
            assert_alike(name, x, keepdims=True)
            assert_alike(name, x, keep=True)
            if name.startswith("cumulative"):
                for axis in (None, 0, 1, 2, -2, True):
                    for initial in (True, False, 1):
                        assert_alike(name, x, axis=axis, include_initial=initial)
                assert_alike(name, x, include_initial=True, dtype=xp.float64)


@compiled
def test_the_short_way_is_taken_along_several_axes() -> None:
    rng = np.random.default_rng(3)
    names = ["sum", "prod", "max", "min", "mean", "var", "std"]
    for dtype in ("float32", "float64"):
        table = without_entries(dtype, *names)
        for shape in ((10, 10, 3), (3, 70, 9), (2, 3, 4, 5), (1, 1, 6), (40, 50)):
            native = rng.uniform(0.9, 1.1, size=shape).astype(dtype)
            x = make(native, table)
            for length in range(2, len(shape) + 1):
                front = tuple(range(length))
                back = tuple(range(len(shape) - length, len(shape)))[::-1]
                for axis in (front, back):
                    for name in names:
                        if name in ("var", "std") and axis is front and length < len(shape):
                            continue  # of columns, NumPy's
                        for kept in (False, True):
                            found = function(name)(x, axis=axis, keepdims=kept).unwrap()
                            expected = getattr(np, name)(native, axis=axis, keepdims=kept)
                            np.testing.assert_allclose(found, expected, rtol=1e-4, strict=True)
                            assert_alike(name, xp.asarray(native), axis=axis, keepdims=kept)


def test_running_sums_of_many_rows() -> None:
    rng = np.random.default_rng(0)
    for dtype in ("int16", "int64", "float32", "float64"):
        for shape in ((60, 70), (7, 11, 40), (3, 20_000), (20_000, 3), (5000,), (1, 5), (5, 1)):
            x = xp.asarray((rng.normal(size=shape) * 9).astype(dtype))
            for axis in range(len(shape)):
                for name in ("cumulative_sum", "cumulative_prod"):
                    with np.errstate(all="ignore"):
                        assert_alike(name, x, axis=axis)
                        assert_alike(name, x, axis=axis, include_initial=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_bound(dtype: str) -> None:
    for x in layouts(dtype):
        for bound in (0, 2, -1, 0.5, -0.0, float("nan"), 2**70, True, None, 1j, x, xp.ones(())):
            assert_alike("clip", x, bound)
            assert_alike("clip", x, bound, None)
            assert_alike("clip", x, None, bound)
            assert_alike("clip", x, min=bound)
            assert_alike("clip", x, max=bound)
    assert_alike("clip", x)
    assert_alike("clip")


@pytest.mark.parametrize("dtype", DTYPES)
def test_order(dtype: str) -> None:
    vector = np.asarray(np.sort(next(layouts(dtype)).unwrap().real))
    for x in layouts(dtype):
        for params in (
            {},
            {"axis": 0},
            {"axis": 7},
            {"descending": True},
            {"axis": None},
            {"axis": 0, "stable": True},
            {"stable": True, "descending": False},
            {"descending": True, "stable": True},
            {"stable": 1},
            {"kind": True},
        ):
            assert_alike("sort", x, **params)
            assert_alike("argsort", x, **params)
        assert_alike("sort", x, stable=False)
        assert_alike("unique_values", x)
        assert_alike("nonzero", x)
        assert_alike("nonzero", xp.zeros_like(x))
        table = x._table
        sorted_one = make(vector.astype(table.native_dtype), table)
        assert_alike("searchsorted", sorted_one, x)
        assert_alike("searchsorted", sorted_one, x, side="right")
        assert_alike("searchsorted", x, sorted_one[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_numbers_keep_their_order(dtype: str) -> None:
    rng = np.random.default_rng(0)
    apart = rng.permutation(300).astype(dtype)
    samples = [apart, apart // 2, apart * 0, np.where(apart == 7, np.nan, apart)]
    samples.append(np.where(apart < 5, np.nan, apart))
    samples.append(np.where(apart < 2, -0.0, np.where(apart < 4, 0.0, apart)).astype(dtype))
    samples += [-samples[-1], 150 - apart, np.where(apart < 1, -0.0, 150 - apart)]
    samples.append(np.copysign(samples[3], 150 - apart))  # NaN of one sign or the other
    for sample in samples:
        for size in (63, 64, 300):
            x = sample[:size].astype(dtype)
            found = xp.argsort(xp.asarray(x)).unwrap()
            np.testing.assert_array_equal(found, np.argsort(x, kind="stable"))
            assert_same_bits(xp.sort(xp.asarray(x)).unwrap(), np.sort(x, kind="stable"))


def test_zeros_of_both_signs_stay_in_order() -> None:
    x = xp.asarray(np.array([0.0, -0.0, 1.0, -0.0, 0.0] * 20))
    for _ in range(2):
        signs = np.signbit(xp.sort(x).unwrap()[:80])
        np.testing.assert_array_equal(signs, [False, True, True, False] * 20)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products(dtype: str) -> None:
    arrays = list(layouts(dtype))
    with np.errstate(all="ignore"):
        for x in arrays:
            for y in arrays[::3] + arrays[-4:]:
                assert_alike("matmul", x, y)
                assert_alike("vecdot", x, y)
                assert_alike("tensordot", x, y, axes=1)
            assert_alike("vecdot", x, x, axis=-1)
            assert_alike("vecdot", x, x, axis=0)
            assert_alike("tensordot", x, x)
            for y in arrays:
                assert_alike("linalg.outer", x, y)
            for params in ({}, {"offset": 1}, {"offset": -2}, {"offset": 9}, {"offset": True}):
                assert_alike("linalg.trace", x, **params)
            assert_alike("linalg.trace", x, dtype=xp.float64)
            assert_alike("linalg.trace", x, offset=1.0)
    x = arrays[4]
    assert_alike("matmul", x)
    if dtype != "bool":
        np.testing.assert_array_equal((x @ x).unwrap(), x.unwrap() @ x.unwrap())
        assert type(x.unwrap() @ x) is type(x)
    with pytest.raises(TypeError):
        x @ 2


MATRICES = ["cholesky", "det", "eigh", "inv", "qr", "svd"]


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64", "complex64"])
def test_linear_algebra(dtype: str) -> None:
    arrays = [x for x in layouts(dtype) if x.ndim and bool(xp.all(xp.isfinite(x)))]
    rng = np.random.default_rng(5)
    for n in (1, 4, 8):
        a = rng.standard_normal((2, n, n))
        a = (a @ a.transpose(0, 2, 1) + n * np.eye(n)).astype(dtype)
        arrays += [xp.asarray(part) for part in (a, a[0], a[0, :, : n // 2 + 1], a[0].T, a * 0)]
    for x in arrays:
        for name in MATRICES:
            params = [{}, {"full_matrices": False}, {"full_matrices": 0}] if name == "svd" else [{}]
            for each in params:
                assert_alike(f"linalg.{name}", x, **each)
        for y in (x, x[..., :1], x[..., :2], xp.reshape(x, (-1,))[: len(x)], arrays[2]):
            assert_alike("linalg.solve", x, y)


@compiled
@pytest.mark.parametrize("dtype", ["int64", "float32", "float64", "complex64", "complex128"])
def test_transforms(dtype: str) -> None:
    for x in layouts(dtype):
        for name in ("fft.fft", "fft.rfft"):
            with np.errstate(all="ignore"):
                assert_alike(name, x)
                assert_alike(name, x, axis=0)
                assert_alike(name, x, n=3)
                assert_alike(name, x, norm="ortho")


KEYS = [
    *(0, -1, 5, -9, 2**70, True, None, Ellipsis, 1.0, "a", (), slice(None), slice(3, None, -2)),
    *((0, 1), (-1, -1), (0, 9), (0, 0, 0, 0), (slice(None), 1), (Ellipsis, 0), (0, Ellipsis)),
    *((None, 0), (0, None, slice(1)), (Ellipsis, Ellipsis), (None, Ellipsis, None), (slice(0), 0)),
    *((slice(1, 9), slice(None, None, 2)), (slice(0, 3, 0), 1), (slice("a"), 0), (True, 0), [0]),
    *((0, 1, Ellipsis), (slice(2**70), 0), (slice(None, None, -1), slice(None, None, -1))),
]
LONG_GET = getattr(type(xp.ones(1)).__getitem__, "__wrapped__", type(xp.ones(1)).__getitem__)
LONG_SET = type(xp.ones(1)).__setitem__


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


@pytest.mark.parametrize("strict", [False, True])
def test_common_dtypes(strict: bool) -> None:
    arrays = {name: xp.ones(2, dtype=getattr(xp, name)) for name in DTYPES}
    short, long = xp.result_type, getattr(xp.result_type, "__wrapped__", xp.result_type)
    given = [*arrays.values(), *_dtypes.DTYPES.values(), 1, 2.5, True, 1j, "float32", None]
    given.append(np.ones(1))
    calls = [(), *((a,) for a in given), *((a, b) for a in given for b in given)]
    calls += [(xp.uint8, arrays["int8"], xp.float32), (xp.uint64, xp.int8, 1), (xp.int8,) * 3]
    with corepy.strict(strict):
        for args in calls:
            outcomes = []
            for call in (long, short):
                try:
                    outcomes.append(call(*args))
                except (TypeError, ValueError) as error:
                    outcomes.append((type(error), str(error)))
            assert outcomes[0] == outcomes[1], args


@compiled
def test_common_dtypes_are_told_without_the_function() -> None:
    code = xp.result_type.__wrapped__.__code__  # type: ignore[attr-defined]
    called: list[Any] = []
    sys.setprofile(lambda frame, *_: called.append(frame.f_code))
    try:
        assert xp.result_type(xp.float32, xp.int32, xp.uint8) is xp.float32
    finally:
        sys.setprofile(None)
    assert code not in called


@compiled
def test_rows_come_without_a_step_of_pythons() -> None:
    called: list[str] = []
    x = xp.ones((5, 2))
    list(x)
    sys.setprofile(lambda frame, *_: called.append(frame.f_code.co_name))
    try:
        rows = list(x)
    finally:
        sys.setprofile(None)
    assert len(rows) == 5
    assert "__iter__" in called
    assert not {"<genexpr>", "__getitem__"} & set(called)


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


WAYS: dict[str, Callable[[Any], Any]] = {
    "__getitem__": lambda x: (x[1], x[:1], x[x > 1], x[0, 1], x[None, ..., 1]),
    "__setitem__": lambda x: [stdlib_operator.setitem(x, key, 2) for key in (0, (0, 1), x > 9)],
    "subtract": lambda x: stdlib_operator.isub(x, x),
    "add": lambda x: x + xp.astype(x, xp.float32),
    "astype": lambda x: (
        xp.astype(x, xp.float32),
        xp.asarray(x, copy=True),
        xp.asarray(x.T, copy=True, dtype=xp.float64),
        xp.asarray(x, dtype=xp.int64),
    ),
    "cumulative_sum": lambda x: (
        xp.cumulative_sum(x, axis=0),
        xp.cumulative_sum(x, axis=-1, include_initial=True),
        xp.cumulative_sum(x[0], include_initial=True),
    ),
    "cumulative_prod": lambda x: xp.cumulative_prod(x, axis=0, include_initial=True),
    "broadcast_to": lambda x: (xp.broadcast_to(x, (3, 2, 2)), xp.broadcast_to(x[:1], (4, 2))),
    "concat": lambda x: xp.concat([x, x], axis=-1),
    "expand_dims": lambda x: xp.expand_dims(x, axis=0),
    "flip": xp.flip,
    "fft.rfft": xp.fft.rfft,
    "matmul": lambda x: (x @ x, x[0] @ x, x @ x[0], x[0] @ x[0], xp.matmul(x, x)),
    "matrix_transpose": lambda x: (xp.matrix_transpose(x), x.T, x.mT),
    "nonzero": lambda x: (xp.nonzero(x), xp.nonzero(x.T)),
    "permute_dims": lambda x: xp.permute_dims(x, (1, 0)),
    "repeat": lambda x: (
        xp.repeat(x, 3),
        xp.repeat(x, 2, axis=1),
        xp.repeat(x, xp.argsort(x[0]), axis=0),
    ),
    "reshape": lambda x: xp.reshape(x, (-1,)),
    "searchsorted": lambda x: xp.searchsorted(x[0], x, side="right"),
    "sort": xp.sort,
    "argsort": xp.argsort,
    "squeeze": lambda x: xp.squeeze(x[:1], axis=0),
    "stack": lambda x: xp.stack([x, x]),
    "take": lambda x: xp.take(x, xp.argsort(x[0]), axis=0),
    "tensordot": lambda x: xp.tensordot(x, x, axes=1),
    "unique_values": xp.unique_values,
    "unstack": lambda x: (xp.unstack(x), xp.unstack(x, axis=-1), xp.unstack(x[0])),
    "vecdot": lambda x: xp.vecdot(x, x),
    "linalg.cholesky": xp.linalg.cholesky,
    "linalg.det": xp.linalg.det,
    "linalg.diagonal": lambda x: (xp.linalg.diagonal(x), xp.linalg.diagonal(x, offset=-1)),
    "linalg.eigh": xp.linalg.eigh,
    "linalg.inv": xp.linalg.inv,
    "linalg.qr": xp.linalg.qr,
    "linalg.outer": lambda x: xp.linalg.outer(x[0], x[1]),
    "linalg.trace": lambda x: (xp.linalg.trace(x), xp.linalg.trace(x.T, offset=1)),
    "linalg.solve": lambda x: xp.linalg.solve(x, x),
    "linalg.svd": lambda x: (xp.linalg.svd(x), xp.linalg.svd(x, full_matrices=False)),
}


def refusing(*_: Any, **__: Any) -> Any:
    raise AssertionError("the entry was called")


@compiled
@pytest.mark.parametrize("name", WAYS)
def test_the_short_way_is_taken(name: str) -> None:
    """Otherwise every test here would compare the functions with themselves."""
    table = Table(NUMPY, CPU, _dtypes.float64)
    for other in _dtypes.DTYPES.values():
        table.sibling(other)
    x = make(np.array([[2.0, 1.0], [1.0, 3.0]]), table)
    operation = OPERATIONS[name]
    result = None if operation.result is None else table.sibling(operation.result(table.dtype))
    table["less"], table["greater"]
    if name != "__getitem__":
        table["__getitem__"]
    table[name] = (refusing, result)
    table.settle(name, refusing, result, NUMPY.loop(name))
    np.add(1.0, 1.0)  # lowers flags that others have left: where one is up the entry has a look
    for _ in range(20):  # the interpreter takes ways of its own to what it calls often
        assert WAYS[name](x) is not None


def without_entries(dtype: str, *names: str) -> Table:
    """Return a table whose entries of some operations refuse, but have their short ways."""
    table = Table(NUMPY, CPU, _dtypes.DTYPES[dtype])
    for other in _dtypes.DTYPES.values():
        table.sibling(other)
    for name in names:
        rule = OPERATIONS[name].result
        result = None if rule is None else table.sibling(rule(table.dtype))
        table[name] = (refusing, result)
        table.settle(name, refusing, result, NUMPY.loop(name))
    return table


@compiled
@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bool"])
def test_the_short_way_is_taken_beside_scalars(dtype: str) -> None:
    native = np.array([[2, 1, 3], [4, 5, 6]], dtype)
    x = make(native, without_entries(dtype, "add", "equal", "subtract", "__setitem__"))
    np.testing.assert_array_equal((x + 1).unwrap(), native + 1)
    np.testing.assert_array_equal((7 - x).unwrap(), 7 - native)
    np.testing.assert_array_equal((x == 3).unwrap(), native == 3)
    part = x[:, ::2]  # not contiguous
    part += 1
    wide = xp.complex64 if dtype in ("float32", "complex64") else xp.complex128
    table = without_entries(wide.name, "add", "equal", "subtract")
    x._table.siblings[wide] = table
    for y in (x, make((native + 0.5j).astype(table.native_dtype), table)):
        given = y.unwrap().astype(table.native_dtype)
        assert_same_bits((y + 2j).unwrap(), given + 2j)
        assert_same_bits((1j - y).unwrap(), 1j - given)
        np.testing.assert_array_equal((y == 1j).unwrap(), given == 1j)
    np.testing.assert_array_equal(part.unwrap(), native[:, ::2])
    x[1, -1] = 9
    x[0, 0] = make(np.full((), 8, dtype), x._table)
    x[make(np.array([[False, True, False]] * 2), x._table.sibling(xp.bool))] = make(
        np.array([7, 6], dtype), x._table
    )
    np.testing.assert_array_equal(native, np.array([[8, 7, 4], [5, 6, 9]], dtype))


@compiled
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64"])
def test_integers_take_the_short_way_to_wider_ones(dtype: str) -> None:
    native = np.array([[2, 1], [3, 100]], dtype)
    names = ["astype", "prod", "sum"] if native.itemsize < 8 else ["astype"]
    x = make(native, without_entries(dtype, *names))
    for target in DTYPES:
        found = xp.astype(x, getattr(xp, target)).unwrap()
        np.testing.assert_array_equal(found, native.astype(target))
    assert int(xp.sum(x)) == 106
    np.testing.assert_array_equal(xp.prod(x, axis=0, keepdims=True).unwrap(), [[6, 100]])


@compiled
def test_the_short_ways_of_new_arrays_are_taken() -> None:
    table = Table(NUMPY, CPU, _dtypes.float64)
    ways = {"zeros": (3,), "ones": ((2, 2),), "empty": (3,), "full": (3, 1.5), "arange": (3,)}
    ways |= {"linspace": (0, 1, 3), "eye": (3,)}
    xp.zeros(1, dtype=xp.float64)
    before = _hot.homes(True)[xp.float64]
    _hot.homes(True)[xp.float64] = table
    try:
        for name, args in ways.items():
            table[name] = (refusing, None)
            table.settle(name, refusing, None, NUMPY.loop(name))
            assert function(name)(*args, dtype=xp.float64)._table is table
        bytes_ = without_entries("uint8", "arange")
        _hot.homes(True)[xp.uint8] = bytes_
        try:
            assert xp.arange(3, 9, 2, dtype=xp.uint8)._table is bytes_
        finally:
            del _hot.homes(True)[xp.uint8]
        x = make(np.ones(3), table)
        for name in ("zeros_like", "ones_like", "empty_like"):
            assert function(name)(x)._table is table
        assert xp.full_like(x, 2)._table is table
        _hot.homes(False)[xp.float64] = table
        for given in (1.0, [1.0, 2.0], [[1.0], [2.0]]):
            assert xp.asarray(given)._table is table
            assert xp.asarray(given, dtype=xp.float64)._table is table
        assert xp.asarray([1, 2.0], dtype=xp.float64)._table is table
    finally:
        _hot.homes(True)[xp.float64] = before
        _hot.homes(False).clear()


def test_a_call_of_a_wrong_form_is_told_by_its_name() -> None:
    for name in ("zeros", "reshape", "sum", "add", "negative"):
        with pytest.raises(TypeError, match=rf"^{name}\(\) "):
            function(name)()
        assert pickle.loads(pickle.dumps(function(name))) is function(name)
        assert name in repr(function(name))
        assert inspect.isroutine(function(name))


# ---------------------------------------------------------------------------- used again


def test_no_memory_is_used_again_while_it_can_be_seen() -> None:
    x = xp.asarray(np.arange(100.0))
    holders: list[Callable[[Any], Any]] = [
        lambda n: n.unwrap(),
        lambda n: n.unwrap()[...],
        lambda n: memoryview(n.unwrap()),
        lambda n: np.from_dlpack(n.unwrap()),
        lambda n: weakref.ref(n.unwrap())() if sys.getrefcount(n) else None,
        lambda n: n,
        lambda n: n.unwrap().reshape(1),
    ]
    for hold in holders:
        held = hold(x[7])
        others = [x[i] for i in range(100)] + [xp.sum(x), xp.max(x)]
        del others
        for i in range(100):
            x[i]
        assert float(np.asarray(held).reshape(-1)[0]) == 7


def test_results_are_let_go() -> None:
    x = xp.asarray(np.arange(5.0))
    number = x[2]
    gone = weakref.ref(number)
    native = weakref.ref(number.unwrap())
    del number
    assert gone() is None
    assert native() is None
    big = x + x
    memory = weakref.ref(big.unwrap())
    del big
    assert memory() is None
    gc.collect()
    before = sys.getrefcount(x._table), sys.getrefcount(x.unwrap().dtype), sys.getrefcount(None)
    for _ in range(1000):
        x[1], x[1:3], x + x, xp.sum(x), xp.zeros(3), xp.sort(x), xp.reshape(x, (-1, 1))
        xp.astype(x, xp.float32), xp.stack([x, x]), xp.linalg.inv(xp.ones((1, 1))), x[None, :].mT
    after = sys.getrefcount(x._table), sys.getrefcount(x.unwrap().dtype), sys.getrefcount(None)
    assert all(abs(a - b) < 100 for a, b in zip(after, before, strict=True))


def test_a_class_of_a_users_own_may_derive_from_that_of_arrays() -> None:
    class Mine(type(xp.ones(1))):  # type: ignore[misc]
        """Has attributes."""

    x = xp.ones(3)
    for _ in range(100):
        mine = Mine()
        mine._native, mine._table, mine.note = x._native, x._table, [1]
        gone = weakref.ref(mine)
        assert float(xp.sum(mine + x)) == 6
        del mine
        assert gone() is None
