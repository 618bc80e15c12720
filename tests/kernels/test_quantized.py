"""Integers with scales: their error, their layout, products with them, and bad input."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from tests.kernels.libraries import (
    DEVICES,
    Kind,
    check,
    device_kinds,
    dtype_of,
    host,
    kinds,
    queue,
    select,
)
from tests.kernels.test_attention import sample

device = import_module("corepy.kernels.quantized.device")


def integers_of(values: Any) -> Any:
    """Return the integers that values stand for, one after the other."""
    values = host(values)
    if values.dtype.kind == "i":
        return values
    out = np.empty((*values.shape[:-1], 2 * values.shape[-1]), np.int64)
    for place in np.ndindex(values.shape):
        *rest, last = place
        out[(*rest, 2 * last)] = int(values[place]) % 16 - 8
        out[(*rest, 2 * last + 1)] = int(values[place]) // 16 - 8
    return out


every = pytest.mark.parametrize(
    "kind", [k for k in kinds() if "reference" in k.id and "compiled" not in k.id]
)


@every
@pytest.mark.parametrize("bits", [8, 4])
def test_error_is_half_a_scale(kind: Kind, bits: int) -> None:
    for dtype in kind.dtypes[:1] if kind.library == "jax" else kind.dtypes:
        for shape, group in (((3, 8), None), ((2, 2, 12), 4)):
            x = kind.array(sample(*shape), dtype)
            values, scales = kernels.quantize(x, bits=bits, group_size=group)
            wide = "float64" if dtype == "float64" else "float32"
            assert dtype_of(values) == ("int8" if bits == 8 else "uint8")
            assert dtype_of(scales) == wide
            most = 127 if bits == 8 else 7
            group = group or shape[-1]
            parts = host(x).reshape(*shape[:-1], -1, group)
            expected = np.abs(parts).max(-1) / most
            np.testing.assert_allclose(host(scales), expected, rtol=1e-6)
            spread = np.repeat(host(scales), group, axis=-1)
            integers = integers_of(values)
            assert (np.abs(integers) <= most).all()
            assert (np.abs(integers * spread - host(x)) <= 0.5001 * spread).all()
            back = kernels.dequantize(values, scales)
            check(scales, back, integers * spread, wide)


@every
def test_special_groups(kind: Kind) -> None:
    x = [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0], [2.5, -2.0], [1e-45, 0.0]]
    for bits in (8, 4):
        values, scales = kernels.quantize(kind.array(x, "float32"), bits=bits)
        back = host(kernels.dequantize(values, scales))
        assert (back[0] == 0).all()
        assert np.isnan(back[1:3]).all()
        np.testing.assert_allclose(back[3], x[3], rtol=0.1)
        assert (np.abs(back[4]) <= 1e-44).all()
    values, _ = kernels.quantize(kind.array([[127.0, 0.5, 1.5, -0.5]], "float32"))
    assert integers_of(values).tolist() == [[127, 0, 2, 0]]  # halves to even


@pytest.mark.parametrize("kind", [k for k in kinds() if "compiled" not in k.id] + device_kinds())
@pytest.mark.parametrize("bits", [8, 4])
def test_greatest_numbers_come_back(kind: Kind, bits: int) -> None:
    for dtype in ("float32", "float64"):
        greatest = float(np.finfo(dtype).max)
        x = kind.array([[greatest, greatest / 2], [-greatest, 1.0], [np.inf, 1.0]], dtype)
        values, scales = kernels.quantize(x, bits=bits)
        error = np.abs(host(kernels.dequantize(values, scales)) - host(x))[:2]
        assert (error <= 0.501 * host(scales)[:2]).all()
        assert host(scales)[2, 0] == np.inf


@pytest.mark.parametrize("kind", device_kinds(), indirect=True)
def test_more_groups_than_the_grid(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work-items go on where the grid ends: a GPU's has an end that some 8e9 groups reach."""
    grids: list[int] = []

    def launch(*args: Any, grid: tuple[int, ...], **options: Any) -> None:
        grids.append(grid[0])
        launched(*args, grid=grid, **options)

    launched = device.launch
    monkeypatch.setattr(device, "launch", launch)
    monkeypatch.setattr(device, "groups_of", lambda x, groups: min(3, groups))
    values = sample(77, 6)
    values[40, 1] = np.nan
    for bits in (8, 4):
        found = kernels.quantize(kind.array(values, "float32"), bits=bits, group_size=2)
        expected = kernels.quantize(values.astype("f4"), bits=bits, group_size=2)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_array_equal(host(x), host(y))
    assert grids == [3, 3]


@every
def test_nan_spoils_a_large_group(kind: Kind) -> None:
    x = np.ones((2, 8192), np.float32)
    x[0, 5] = np.nan
    values, scales = kernels.quantize(kind.array(x))
    assert np.isnan(host(scales)).tolist() == [[True], [False]]
    assert (host(values)[0] == 0).all()


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("kind", [*kinds("numpy", "torch", "array"), *device_kinds()])
def test_subnormal_scales_keep_integers_in_range(
    kind: Kind, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    select(monkeypatch, kind)
    most = 127 if bits == 8 else 7
    least = 2.0**-149
    x = [[1.4 * most * least, 0.0, -1.4 * most * least, 0.0]]
    values, scales = kernels.quantize(kind.array(x, "float32"), bits=bits)
    if host(scales)[0, 0]:  # what has no subnormal numbers has no such scales
        assert host(scales)[0, 0] == least
        assert integers_of(values).tolist() == [[most, 0, -most, 0]]


@pytest.mark.needs("ml_dtypes")
def test_products_of_bfloat16_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    import ml_dtypes

    matrix = kernels.quantize(np.asarray(sample(40, 64), "f4"))
    narrow = sample(3, 64).astype(ml_dtypes.bfloat16)
    expected = kernels.matmul_int8(narrow.astype("f4"), *matrix).astype(ml_dtypes.bfloat16)
    for compiled in (False, True):
        select(monkeypatch, Kind("numpy", compiled))
        found = kernels.matmul_int8(narrow, *matrix)
        assert found.dtype == ml_dtypes.bfloat16
        np.testing.assert_allclose(host(found), host(expected), rtol=1.6e-2, atol=1e-2)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(
    ("vectors", "rows", "size", "group"),
    [
        *[((), 3, 8, 8), ((2,), 5, 96, 32), ((2, 1), 7, 40, 4), ((20,), 4, 16, 2)],
        *[((), 7, 192, 64), ((1,), 4, 96, 32), ((3,), 9, 64, 64)],  # four rows at once
    ],
)
def test_products(
    kind: Kind, bits: int, vectors: tuple[int, ...], rows: int, size: int, group: int
) -> None:
    if kind.slow and size > 16:
        return
    function = kernels.matmul_int8 if bits == 8 else kernels.matmul_int4
    dtypes = kind.dtypes[:1] if kind.slow else kind.dtypes
    if kind.library in DEVICES:  # each of them is a build
        dtypes = ("float32", "float16") if bits == 8 else ("float64", "bfloat16")
    for dtype in dtypes:
        wide = "float64" if dtype == "float64" else "float32"
        x = kind.array(sample(*vectors, size), dtype)
        matrix = kind.array(sample(rows, size, seed=1), wide)
        values, scales = kernels.quantize(matrix, bits=bits, group_size=group)
        whole = integers_of(values) * np.repeat(host(scales), group, axis=-1)
        terms = np.abs(host(x)) @ np.abs(whole).T
        check(x, function(x, values, scales), host(x) @ whole.T, dtype, terms)


@pytest.mark.parametrize("kind", kinds("numpy")[1::2])  # compiled
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("group", [None, 64, 4])
def test_long_rows_keep_their_digits(
    kind: Kind, bits: int, group: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one go a sum of so many that round the same way was off by 1e-4 to 6e-4."""
    select(monkeypatch, kind)
    function = kernels.matmul_int8 if bits == 8 else kernels.matmul_int4
    matrix = kind.array(np.full((5, 1 << 20), 0.1), "float32")
    values, scales = kernels.quantize(matrix, bits=bits, group_size=group)
    for vectors in (1, 10):  # four rows at once, and one by one
        x = kind.array(np.full((vectors, 1 << 20), 1.1 * 2.0**-10), "float32")
        expected = host(x) @ host(kernels.dequantize(values, scales)).T
        check(x, function(x, values, scales), expected, "float32")
    uneven = 3 * 4096 + 5 * 64  # no multiple of a stretch, nor of the groups of one
    matrix = kind.array(sample(7, uneven), "float32")
    for size in (uneven, uneven // 4, 64):
        values, scales = kernels.quantize(matrix, bits=bits, group_size=size)
        whole = host(kernels.dequantize(values, scales))
        x = kind.array(sample(2, uneven, seed=1), "float32")
        terms = np.abs(host(x)) @ np.abs(whole).T
        check(x, function(x, values, scales), host(x) @ whole.T, "float32", terms)


@pytest.mark.device("opencl")
def test_more_than_32_bits_count_are_refused_by_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel counts in 32 bits; nothing is copied before."""
    import pyopencl.array as cla

    def all_one(*shape: int, dtype: str) -> Any:
        data = cla.to_device(queue(), np.ones(1, dtype)).base_data
        return cla.Array(queue(), shape, dtype, data=data, strides=(0,) * len(shape))

    size = 1 << 31
    x, values = all_one(1, size, dtype="float32"), all_one(1, size, dtype="int8")
    words = "matmul_int8: x has shape (1, 2147483648) beside 1 rows of values; expected fewer than"
    with pytest.raises(ValueError, match=re.escape(words)):
        kernels.matmul_int8(x, values, all_one(1, 1, dtype="float32"))
    x, values = all_one(1, 8, dtype="float32"), all_one(size, 8, dtype="int8")
    with pytest.raises(ValueError, match=re.escape("beside 2147483648 rows of values; expected")):
        kernels.matmul_int8(x, values, all_one(size, 1, dtype="float32"))

    # Groups of any size are rounded: here their number comes to the kernel, which does not run.
    given: list[Any] = []
    monkeypatch.setattr(device, "memory", lambda x: x)
    monkeypatch.setattr(device, "launch", lambda *_, arguments, **__: given.extend(arguments))
    kernels.quantize(all_one(1, size, dtype="float32"), bits=4)
    assert given[-2:] == [1, size]
    assert given[-1].dtype == np.int64


@pytest.mark.parametrize("kind", [*kinds("numpy", "torch", "array"), *device_kinds()])
def test_out(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    for dtype in kind.dtypes[: 1 if kind.library in DEVICES else None]:
        wide = "float64" if dtype == "float64" else "float32"
        values, scales = kernels.quantize(kind.array(sample(6, 8), wide))
        x = kind.array(sample(3, 8), dtype)
        out = kind.array(np.zeros((3, 6)), dtype)
        assert kernels.matmul_int8(x, values, scales, out=out) is out
        np.testing.assert_array_equal(host(out), host(kernels.matmul_int8(x, values, scales)))
        square = kind.array(sample(8, 8), dtype)  # that is read while it is written
        values, scales = kernels.quantize(kind.array(sample(8, 8, seed=1), wide))
        expected = host(kernels.matmul_int8(square, values, scales))
        assert kernels.matmul_int8(square, values, scales, out=square) is square
        np.testing.assert_array_equal(host(square), expected)


def test_no_elements(kind: Kind) -> None:
    values, scales = kernels.quantize(kind.array(np.ones((3, 4)), "float32"))
    x = kind.array(np.ones((0, 4)), "float32")
    assert tuple(kernels.matmul_int8(x, values, scales).shape) == (0, 3)


X, W, S = np.ones((2, 8)), np.ones((3, 8), np.int8), np.ones((3, 2))


@pytest.mark.backend("tinygrad")
def test_tensors_of_tinygrad() -> None:
    """Their dtypes have the names of C."""
    values = sample(3, 8).astype("f4")
    x = corepy.to(values, backend="tinygrad").unwrap()
    for bits in (8, 4):
        found = kernels.dequantize(*kernels.quantize(x, bits=bits))
        expected = kernels.dequantize(*kernels.quantize(values, bits=bits))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
    places = np.array([2, 0, 1])
    cos, sin = kernels.rope_tables(3, 8, like=x)
    for dtype in ("int64", "int32"):
        at = corepy.to(places.astype(dtype), backend="tinygrad").unwrap()
        found = kernels.rope(x, cos, sin, positions=at)
        expected = kernels.rope(values, cos.numpy(), sin.numpy(), positions=places)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [k for k in kinds("numpy", "torch") if "compiled" in k.id])
def test_integers_by_columns_are_not_copied(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    x = kind.array(sample(40), "float32")
    values, scales = kernels.quantize(kind.array(sample(40, 40, seed=1), "float32"))
    for integers, backend in ((values, "numba"), (values.T, kind.library)):
        expected = host(kernels.dequantize(integers, scales)) @ host(x)
        found = kernels.matmul_int8(x, integers, scales)
        np.testing.assert_allclose(host(found), expected, rtol=1e-4, atol=1e-5)
        ran = corepy.explain(kernels.matmul_int8, x, integers, scales).records[0].backend
        assert ran == backend


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: kernels.quantize(W),
            TypeError,
            "quantize: x has dtype int8 on cpu; expected a fl",
        ),
        (lambda: kernels.quantize(X, bits=3), ValueError, "quantize: bits is 3; expected 8 or 4"),
        (lambda: kernels.quantize(X, bits=8.0), ValueError, "quantize: bits is 8.0; expected 8"),
        (
            lambda: kernels.quantize(X, group_size=True),
            TypeError,
            "quantize: group_size is of type bool; expected an integer",
        ),
        (lambda: kernels.quantize(X[:, :0]), ValueError, "quantize: x has shape (2, 0); expected"),
        (
            lambda: kernels.quantize(X, group_size=3),
            ValueError,
            "quantize: group_size is 3; expected a divisor of 8, the last axis of x",
        ),
        (
            lambda: kernels.quantize(X, group_size=0),
            ValueError,
            "quantize: group_size is 0; expect",
        ),
        (
            lambda: kernels.quantize(X, bits=4, group_size=1),
            ValueError,
            "quantize: group_size is 1; expected an even number, with 4 bits",
        ),
        (
            lambda: kernels.dequantize(W, W),
            TypeError,
            "dequantize: scales has dtype int8 on cpu; e",
        ),
        (
            lambda: kernels.dequantize(X, S),
            TypeError,
            "dequantize: values has dtype float64 on cpu",
        ),
        (
            lambda: kernels.dequantize(W, S[:2]),
            ValueError,
            "dequantize: scales has shape (2, 2); expected (..., groups) beside values of shape (3",
        ),
        (
            lambda: kernels.dequantize(W, np.ones((3, 3))),
            ValueError,
            "dequantize: scales has shape",
        ),
        (
            lambda: kernels.matmul_int8(X[:, :5], W, S),
            ValueError,
            "matmul_int8: x has shape (2, 5); expected (..., 8) beside values of shape (3, 8)",
        ),
        (
            lambda: kernels.matmul_int4(X, W, S),
            TypeError,
            "matmul_int4: values has dtype int8 on cpu; expected uint8 beside x of float64",
        ),
        (
            lambda: kernels.matmul_int4(X, W.astype("u1"), S),
            ValueError,
            "matmul_int4: x has shape (2, 8); expected (..., 16) beside values of shape (3, 8)",
        ),
        (
            lambda: kernels.matmul_int8(X, W, S.astype("f4")),
            TypeError,
            "matmul_int8: scales has dtype float32 on cpu; expected float64 beside x of float64",
        ),
        (
            lambda: kernels.matmul_int8(X, W[0], S[0]),
            ValueError,
            "matmul_int8: values has shape (8,); expected two dimensions",
        ),
        (
            lambda: kernels.matmul_int8(X, W, S, out=X),
            ValueError,
            "matmul_int8: out has shape (2, 8); expected (2, 3) beside x",
        ),
    ],
)
def test_bad_input(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
