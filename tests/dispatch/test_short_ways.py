"""A function with a short way before it does what the function behind it does, errors and all.

That is so in both forms of the hot path; the one in Python has fewer short ways.
"""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import _dtypes
from corepy.dispatch import make
from tests.dispatch.natives import assert_same_bits, compiled
from tests.dispatch.short_ways import DTYPES, assert_alike, function, layouts, seen

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


def test_names_in_the_place_of_places() -> None:
    for params in ({"shape": 3}, {"shape": (2, 3), "dtype": xp.int8}, {"dtype": None, "shape": 3}):
        for name in ("zeros", "ones"):
            assert_alike(name, **params)
            assert_alike(name, 3, **params)
    assert_alike("full", (2, 3), fill_value=7)
    assert_alike("full", fill_value=7, shape=(2, 3))
    assert_alike("full", shape=(2, 3), fill_value=7, dtype=xp.float32)
    assert_alike("full", 2, shape=3)
    assert_alike("arange", 2, stop=9)
    assert_alike("arange", start=2, stop=9, step=3)
    assert_alike("arange", 2, step=3)
    assert_alike("linspace", 0, 1, num=5, endpoint=False)
    assert_alike("linspace", 0, stop=1, num=5, dtype=xp.float32)
    assert_alike("eye", n_rows=3, n_cols=4, k=1)
    x = xp.reshape(xp.arange(6), (2, 3))
    assert_alike("reshape", x, shape=(3, 2))
    assert_alike("reshape", x, shape=(3, 2), copy=True)
    assert_alike("reshape", x=x, shape=(3, 2))  # a name that does not do
    assert_alike("permute_dims", x, axes=(1, 0))
    assert_alike("broadcast_to", x, shape=(2, 2, 3))
    assert_alike("clip", x, min=1, max=4)
    assert_alike("clip", x, max=4, minimum=1)


def test_arrays_like_others() -> None:
    for dtype in DTYPES:
        for x in layouts(dtype):
            for name in ("zeros_like", "ones_like"):
                assert_alike(name, x)
                assert_alike(name, x, dtype=xp.float32)
            for target in (x.dtype, xp.float32, xp.complex128):
                for copy in (True, False, None, 1):
                    assert_alike("astype", x, target, copy=copy)
                assert_alike("astype", x, target, device=x.device)
                assert_alike("astype", x, target, copy=False, device="cpu")
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
            for repetitions in ((times,), (2, times), (times, 1, 3), times, [times]):
                assert_alike("tile", x, repetitions)
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
                assert_alike(name, x, keepdims=True, axis=axis)
                for kept in (True, False, 1):
                    assert_alike(name, x, axis=axis, keepdims=kept)
            assert_alike(name, x, keepdims=True)
            assert_alike(name, x, keep=True)
            if name.startswith("cumulative"):
                for axis in (None, 0, 1, 2, -2, True):
                    for initial in (True, False, 1):
                        assert_alike(name, x, axis=axis, include_initial=initial)
                assert_alike(name, x, include_initial=True, dtype=xp.float64)


def test_running_sums_of_many_rows() -> None:
    rng = np.random.default_rng(0)
    for dtype in ("int16", "int64", "float32", "float64", "complex64", "complex128"):
        for shape in ((60, 70), (7, 11, 40), (3, 20_000), (20_000, 3), (5000,), (1, 5), (5, 1)):
            x = xp.asarray((rng.normal(size=shape) * 9).astype(dtype))
            if dtype.startswith("complex"):
                x = x * 1j + xp.flip(x)
            for axis in range(len(shape)):
                for name in ("cumulative_sum", "cumulative_prod"):
                    with np.errstate(all="ignore"):
                        assert_alike(name, x, axis=axis)
                        assert_alike(name, x, axis=axis, include_initial=True)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_sums_and_products_of_complex_numbers(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shape in ((7,), (130,), (5000,), (60, 70), (7, 11, 40), (3, 20_000), (20_000, 3)):
        x = rng.normal(size=shape) + 1j * rng.normal(size=shape)
        for some in (x, np.full(shape, complex(-0.0, -0.0)), np.where(x.real > 2, np.inf, x)):
            for axis in (None, *range(len(shape)), (0, len(shape) - 1)):
                for name in ("sum", "prod"):
                    with np.errstate(all="ignore"):
                        assert_alike(name, xp.asarray(some.astype(dtype)), axis=axis)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_one_number_to_what_lies_otherwise(dtype: str) -> None:
    # An exponent of 0.5 among others changes nothing; only one that is repeated has to be minded.
    exponents = np.random.default_rng(0).normal(size=1000).astype(dtype)
    exponents[7] = 0.5
    for x in (exponents, exponents[::-1], exponents[::2]):
        for base in (2, 2.5, xp.asarray([3], dtype=xp.asarray(x).dtype)):
            assert_alike("pow", base, xp.asarray(x))


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
            norms = ({}, {"ord": 2.0}, {"ord": 1}, {"ord": True}, {"axis": 0}, {"axis": (1, 0)})
            for params in norms:
                assert_alike("linalg.vector_norm", x, **params)
                assert_alike("linalg.vector_norm", x, keepdims=True, **params)
            assert_alike("linalg.vector_norm", x, axis=(0, 0))
            assert_alike("linalg.vector_norm", x, axis=(), keepdims=1)
            for order in ("fro", None, 2, "nuc", "fr"):
                assert_alike("linalg.matrix_norm", x, ord=order, keepdims=True)
            assert_alike("linalg.matrix_norm", x)
    x = arrays[4]
    assert_alike("matmul", x)
    if dtype != "bool":
        np.testing.assert_array_equal((x @ x).unwrap(), x.unwrap() @ x.unwrap())
        assert type(x.unwrap() @ x) is type(x)
    with pytest.raises(TypeError):
        x @ 2


MATRICES = ["cholesky", "det", "eigh", "inv", "qr", "slogdet", "svd"]


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


def test_a_call_of_a_wrong_form_is_told_by_its_name() -> None:
    for name in ("zeros", "reshape", "sum", "add", "negative"):
        with pytest.raises(TypeError, match=rf"^{name}\(\) "):
            function(name)()
        assert pickle.loads(pickle.dumps(function(name))) is function(name)
        assert name in repr(function(name))
        assert inspect.isroutine(function(name))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["acosh", "expm1", "log1p", "sign", "tanh"])
def test_complex_numbers_that_numpy_gets_wrong(name: str, dtype: str) -> None:
    parts = np.asarray([0.0, -0.0, 1e-30, 0.3, -2.0, 90.0, 800.0, np.inf, -np.inf, np.nan])
    values = np.empty((parts.size, parts.size), np.complex128)
    values.real, values.imag = parts[:, None], parts
    with np.errstate(all="ignore"):
        x = xp.asarray(values.astype(dtype))
        for some in (x, x[1:-3, 2:-3], *(x[i, j] for i in range(10) for j in range(10))):
            assert_alike(name, some)
