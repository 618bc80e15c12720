"""What functions give of many elements, wherever they lie, is what the functions behind them give.

`test_short_ways` holds few elements to that. Many go through other loops, which threads share, by
chunks and tiles, and which pack what has gaps.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices._device import CPU
from corepy.dispatch import OPERATIONS, make
from corepy.dispatch._table import table_of
from tests.dispatch.natives import NUMPY, assert_same_bits, compiled, values
from tests.dispatch.short_ways import function, seen

pytestmark = compiled

DTYPES = ["bool", "int8", "uint16", "int32", "int64", "uint64", "float32", "float64", "complex64"]
#: More than is computed without other threads, and than the chunks that these share.
SHAPES = [(150, 151), (5, 61, 75), (20_001,)]
REDUCED = [(300, 301), (20, 61, 75), (90_001,)]

AXES: dict[str, list[dict[str, Any]]] = {
    "any axes": [{}, {"axis": 0}, {"axis": -1}, {"axis": (0, 1)}, {"axis": 1, "keepdims": True}],
    "an axis": [{"axis": 0}, {"axis": -1}],
    "no axis": [{}],
}
REDUCING = dict.fromkeys(
    ("all", "any", "count_nonzero", "max", "mean", "min", "prod", "std", "sum", "var"), "any axes"
)
ALONG = {
    **dict.fromkeys(("argmax", "argmin"), "any axes"),
    **dict.fromkeys(("argsort", "cumulative_prod", "cumulative_sum", "diff", "sort"), "an axis"),
    **dict.fromkeys(("nonzero", "unique_all", "unique_counts", "unique_inverse"), "no axis"),
    **dict.fromkeys(("matrix_transpose", "flip", "squeeze", "tril", "triu"), "no axis"),
    **dict.fromkeys(("unique_values", "linalg.diagonal", "linalg.trace"), "no axis"),
}
#: What adds or multiplies in another order than NumPy where elements lie in another one.
ADDING = ("mean", "prod", "std", "sum", "var", "linalg.trace", "matmul", "vecdot", "tensordot")
#: What NumPy computes by other loops where elements do not stand side by side.
ROUNDING = {
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "exp", "expm1"),
    *("hypot", "log", "log10", "log1p", "log2", "logaddexp", "pow", "sin", "sinh", "tan", "tanh"),
}


def lying(x: Any, dtype: str) -> Iterator[Any]:
    """Return an array as it is, with gaps, turned, backwards, and repeated."""
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    yield make(x, table)
    yield make(x[1:, ..., ::2] if x.ndim > 1 else x[1::2], table)
    yield make(np.repeat(x, 2, axis=0)[::-2], table)
    yield make(np.broadcast_to(x[:1], x.shape), table)
    if x.ndim > 1:
        yield make(x[:, 1:-1], table)
        yield make(x.T, table)
        yield make(np.moveaxis(x, 0, -1)[1:], table)


def assert_alike(name: str, *args: Any, **params: Any) -> None:
    short = function(name)
    long = getattr(short, "__wrapped__", short)
    with np.errstate(all="ignore"):
        expected, error, _ = seen(lambda: long(*args, **params))
        found, also, _ = seen(lambda: short(*args, **params))
    assert also == error, (name, params)
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert x.dtype is y.dtype
        rounds = name in ADDING or name in ROUNDING or x.dtype is _dtypes.complex64
        if rounds and x.dtype.name[:5] in ("float", "compl"):
            assert x.shape == y.shape
            ulps = (200 if name in ADDING else 4) * np.finfo(x.dtype.name).eps
            np.testing.assert_allclose(x.unwrap(), y.unwrap(), rtol=ulps, atol=ulps)
        else:
            assert_same_bits(x.unwrap(), y.unwrap())


def elementwise(dtype: str, *operands: str) -> Iterator[str]:
    """Return the functions that take such operands of a dtype, and nothing else, one by one."""
    for name, operation in OPERATIONS.items():
        if name.startswith(("_", "linalg", "fft", "broadcast", "matmul")) or name in ALONG:
            continue
        given = tuple(inspect.signature(function(name)).parameters)
        if given == operands and _dtypes.DTYPES[dtype] in operation.dtypes:
            yield name


@pytest.mark.parametrize("shape", REDUCED, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_and_what_goes_along_axes(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    for tame in (True, False):
        for x in lying(values(table, shape, 1, tame), dtype):
            for name, kind in (REDUCING | ALONG).items():
                if tame or name not in ADDING:
                    for params in AXES[kind]:
                        assert_alike(name, x, **params)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_elementwise(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    alone, beside = list(elementwise(dtype, "x")), list(elementwise(dtype, "x1", "x2"))
    assert alone
    assert beside
    # What is special raises no error among floats, and has ordinary numbers beside it.
    for tame in (True, False) if "int" in dtype else (False,):
        x, y = (values(table, shape, seed, tame) for seed in (1, 2))
        for a, b in zip(lying(x, dtype), lying(y, dtype), strict=True):
            for name in alone:
                assert_alike(name, a)
            others = (b, b[:1], b[..., :1], xp.flip(b, axis=-1), b[(0,) * b.ndim])
            for name in beside:
                for other in others:
                    assert_alike(name, a, other)
                    assert_alike(name, other, a)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_choices_copies_and_shapes(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x, y = (values(table, shape, seed, tame=False) for seed in (1, 2))
    for a, b in zip(lying(x, dtype), lying(y, dtype), strict=True):
        flags = xp.astype(a, xp.bool) if dtype != "complex64" else a != b
        for other in (b, b[:1], b[..., :1], b[(0,) * b.ndim]):
            assert_alike("where", flags, a, other)
            assert_alike("where", flags[..., :1], other, a)
            if dtype not in ("bool", "complex64"):
                assert_alike("clip", a, other, b)
                assert_alike("clip", a, max=other)
        for axis in range(a.ndim):
            assert_alike("concat", [a, b], axis=axis)
            assert_alike("stack", [a, b], axis=axis)
            assert_alike("roll", a, 3, axis=axis)
            assert_alike("flip", a, axis=axis)
            assert_alike("repeat", a, 2, axis=axis)
            assert_alike("unstack", a[..., :7], axis=axis)
            some = make(np.arange(a.shape[axis])[::-2].copy(), table.sibling(_dtypes.int64))
            assert_alike("take", a, some, axis=axis)
        assert_alike("reshape", a, (-1,))
        assert_alike("reshape", a, (-1,), copy=True)
        assert_alike("tile", a, (2,) * a.ndim)
        assert_alike("broadcast_to", a, (2, *a.shape))
        assert_alike("permute_dims", a, tuple(range(a.ndim))[::-1])
        assert_alike("asarray", a, copy=True)
        for wanted in ("bool", "int16", "int64", "float32", "float64", "complex128"):
            if dtype != "complex64" or wanted == "complex128":
                assert_alike("astype", a, _dtypes.DTYPES[wanted])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_written(shape: tuple[int, ...], dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x, y = (values(table, shape, seed, tame=True) for seed in (1, 2))
    for a, b in zip(lying(x, dtype), lying(y, dtype), strict=True):
        native, other = a.unwrap(), b.unwrap()
        flags = np.random.default_rng(0).random(native.shape) < 0.5
        for key in (..., slice(1, None), (..., slice(None, None, -2)), (..., 0), flags):
            ours = make(flags, table.sibling(_dtypes.bool)) if key is flags else key
            given = other[key]
            for value in (given, given[:1] if given.ndim else given, given[(0,) * given.ndim]):
                if key is flags and value.size != given.size != 1 and value.ndim:
                    continue
                wanted, written = native.copy(order="K"), native.copy(order="K")
                wanted[key] = value
                make(written, table)[ours] = make(np.asarray(value), table)
                assert_same_bits(written, wanted)
        if dtype not in ("bool", "complex64"):
            for value in (other, other[:1], other[..., :1]):
                wanted, written = native.copy(order="K"), native.copy(order="K")
                array = make(written, table)
                tail, rest = array[1:], wanted[1:]
                added = value[1:] if len(value) > 1 else value
                tail += make(added, table)
                rest += added
                array *= make(value, table)
                wanted *= value
                assert_same_bits(written, wanted)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64", "complex64"])
def test_products(dtype: str) -> None:
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    x, y = (values(table, (160, 161), seed, tame=True) for seed in (1, 2))
    for a, b in zip(lying(x, dtype), lying(y, dtype), strict=True):
        for axis in (-1, -2):
            assert_alike("vecdot", a, b, axis=axis)
            assert_alike("vecdot", a, b[:1], axis=-1)
        assert_alike("matmul", a, xp.matrix_transpose(b))
        assert_alike("matmul", xp.matrix_transpose(a), b)
        assert_alike("matmul", a, b[0, :])
        assert_alike("matmul", b[:, 0], a)
        assert_alike("matmul", a[None, :80], xp.stack([b.T, b.T]))
        assert_alike("tensordot", a, b, axes=2)
        assert_alike("tensordot", a, xp.matrix_transpose(b), axes=1)
        assert_alike("linalg.outer", a[0, :], b[:, 0])
        assert_alike("linalg.trace", a)
