"""Short ways are taken: the others' tests would compare functions with themselves otherwise."""

from __future__ import annotations

import operator as stdlib_operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices._device import CPU
from corepy.dispatch import OPERATIONS, _hot, make
from corepy.dispatch._table import Table
from tests.dispatch.natives import NUMPY, assert_same_bits, compiled
from tests.dispatch.short_ways import (
    DTYPES,
    assert_alike,
    function,
    refusing,
    steps,
    without_entries,
)

WAYS: dict[str, Callable[[Any], Any]] = {
    "__getitem__": lambda x: (x[1], x[:1], x[x > 1], x[0, 1], x[None, ..., 1]),
    "__setitem__": lambda x: [stdlib_operator.setitem(x, key, 2) for key in (0, (0, 1), x > 9)],
    "subtract": lambda x: stdlib_operator.isub(x, x),
    "add": lambda x: x + xp.astype(x, xp.float32),
    "astype": lambda x: (
        xp.astype(x, xp.float32),
        xp.astype(x, xp.float32, copy=False, device=x.device),
        xp.astype(x, xp.float64, copy=False),
        xp.astype(x, x.dtype, copy=True),
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
    "reshape": lambda x: (xp.reshape(x, (-1,)), xp.reshape(x, shape=(4, 1))),
    "searchsorted": lambda x: xp.searchsorted(x[0], x, side="right"),
    "sort": lambda x: (xp.sort(x), xp.sort(x, axis=0, stable=True, descending=False)),
    "argsort": xp.argsort,
    "squeeze": lambda x: xp.squeeze(x[:1], axis=0),
    "stack": lambda x: xp.stack([x, x]),
    "take": lambda x: xp.take(x, xp.argsort(x[0]), axis=0),
    "tensordot": lambda x: xp.tensordot(x, x, axes=1),
    "unique_values": xp.unique_values,
    "unstack": lambda x: (xp.unstack(x), xp.unstack(x, axis=-1), xp.unstack(x[0])),
    "vecdot": lambda x: (xp.vecdot(x, x), xp.vecdot(x, x, axis=0)),
    "linalg.cholesky": xp.linalg.cholesky,
    "linalg.det": xp.linalg.det,
    "linalg.diagonal": lambda x: (xp.linalg.diagonal(x), xp.linalg.diagonal(x, offset=-1)),
    "linalg.eigh": xp.linalg.eigh,
    "linalg.inv": xp.linalg.inv,
    "linalg.qr": xp.linalg.qr,
    "linalg.matrix_norm": lambda x: (xp.linalg.matrix_norm(x), xp.linalg.matrix_norm(x, ord="fro")),
    "linalg.outer": lambda x: xp.linalg.outer(x[0], x[1]),
    "linalg.trace": lambda x: (xp.linalg.trace(x), xp.linalg.trace(x.T, offset=1)),
    "linalg.solve": lambda x: xp.linalg.solve(x, x),
    "linalg.vector_norm": lambda x: (
        xp.linalg.vector_norm(x),
        xp.linalg.vector_norm(x, axis=-1, ord=2.0),
        xp.linalg.vector_norm(x, axis=0, keepdims=True),
    ),
    "linalg.svd": lambda x: (xp.linalg.svd(x), xp.linalg.svd(x, full_matrices=False)),
    "sum": lambda x: (xp.sum(x, keepdims=True), xp.sum(x, keepdims=False, axis=1)),
}


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


@compiled
def test_the_short_way_is_taken_along_several_axes() -> None:
    rng = np.random.default_rng(3)
    names = ["sum", "prod", "max", "min", "mean", "var", "std"]
    for dtype in ("float32", "float64", "complex64", "complex128"):
        if dtype.startswith("complex"):
            names = ["sum", "prod"]
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


@compiled
def test_the_short_ways_of_new_arrays_are_taken_where_the_device_is_named() -> None:
    # As scikit-learn and SciPy do of most arrays that they make.
    table = Table(NUMPY, CPU, _dtypes.float64)
    ways = {"zeros": (3,), "ones": ((2, 2),), "empty": (3,), "full": (3, 1.5)}
    ways |= {"linspace": (0, 1, 3), "eye": (3,), "arange": (1.0, 3.0)}
    homes = _hot.homes(True, CPU), _hot.homes(False, CPU)
    before = [dict(each) for each in homes]
    for each in homes:
        each[xp.float64] = table
    try:
        for name, args in ways.items():
            table[name] = (refusing, None)
            table.settle(name, refusing, None, NUMPY.loop(name))
            assert function(name)(*args, dtype=xp.float64, device=CPU)._table is table
            assert function(name)(*args, device=CPU)._table is table
        x = make(np.ones(3), table)
        for name in ("zeros_like", "ones_like", "empty_like"):
            assert function(name)(x, device=CPU)._table is table
        assert xp.full_like(x, 2, device=None)._table is table
        for given in (1.0, [1.0, 2.0], [[1.0], [2.0]]):
            assert xp.asarray(given, device=CPU)._table is table
            assert xp.asarray(given, dtype=xp.float64, device=CPU, copy=True)._table is table
        assert xp.asarray(x, device=CPU) is x
    finally:
        for each, old in zip(homes, before, strict=True):
            each.clear()
            each.update(old)


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
    assert not {"<genexpr>", "__iter__", "__getitem__"} & set(called)


@compiled
@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "complex128"])
def test_arrays_of_numpys_come_without_a_step_of_pythons(dtype: str) -> None:
    native = np.array([[2, 1], [3, 4]], dtype)
    x, places = xp.asarray(native, copy=True), np.array([1, 0])
    calls: list[Callable[[], Any]] = [
        lambda: xp.asarray(native),
        lambda: xp.asarray(native.T, copy=True),
        lambda: x + native,
        lambda: native - x,
        lambda: native == x,
        lambda: stdlib_operator.iadd(x, native),
        lambda: xp.multiply(native, native),
        lambda: xp.negative(native),
        lambda: xp.sum(native, axis=0),
        lambda: xp.reshape(native, (4,)),
        lambda: xp.where(native > 2, native, x),
        lambda: x @ native,
        lambda: native @ x,
        lambda: x[places],
        lambda: stdlib_operator.setitem(x, places, native),
        lambda: stdlib_operator.setitem(x, ..., native),
    ]
    for number, call in enumerate(calls):
        assert steps(call) == [], number


@compiled
@pytest.mark.parametrize("dtype", ["int16", "float64", "complex128"])
def test_what_lies_otherwise_takes_the_short_way(dtype: str) -> None:
    x = xp.asarray(np.arange(1, 2401).reshape(60, 40).astype(dtype).T)  # by columns
    row, flat = x[0, ::2], xp.astype(x[:, 0], x.dtype, copy=True)
    places = xp.asarray(np.ones((60, 40)).T)
    calls: list[Callable[[], Any]] = [
        lambda: xp.concat([x, x], axis=1),
        lambda: xp.count_nonzero(x),
        lambda: xp.vecdot(flat, flat),
        lambda: xp.all(flat, axis=0),
        lambda: xp.any(flat),
        lambda: xp.real(flat) if dtype == "int16" else flat + places[:, 0],
    ]
    if dtype == "complex128":
        calls += [lambda: row + 2j, lambda: stdlib_operator.iadd(row, row)]
        calls += [lambda: xp.sum(row), lambda: xp.prod(row), lambda: xp.sum(x)]
        calls += [lambda: bool(x[0, 0])]
    else:
        calls += [lambda: xp.tensordot(flat, flat, axes=1), lambda: xp.tensordot(x.T, x.T)]
        calls += [lambda: x * places, lambda: stdlib_operator.iadd(x, x), lambda: xp.clip(x, 2)]
        calls += [lambda: xp.sort(x, axis=0), lambda: xp.searchsorted(flat, row)]
        calls += [lambda: xp.argsort(flat, stable=False), lambda: xp.unique_values(row)]
    for number, call in enumerate(calls):
        assert steps(call) == [], number


@compiled
def test_names_in_the_place_of_places_take_the_short_way() -> None:
    for number, call in enumerate(
        (
            lambda: xp.zeros(shape=(2, 3)),
            lambda: xp.ones(shape=3, dtype=xp.int64, device=None),
            lambda: xp.full((2, 3), fill_value=2.5),
            lambda: xp.full(shape=2, fill_value=3, dtype=xp.int8),
            lambda: xp.arange(2, stop=9),
            lambda: xp.linspace(0, 1, num=5),
            lambda: xp.linspace(0, 1, num=5, dtype=xp.float32),
        )
    ):
        assert steps(call) == [], number


@compiled
def test_new_booleans_take_the_short_way() -> None:
    for call in (
        lambda: xp.ones(3, dtype=xp.bool),
        lambda: xp.full(3, 1, dtype=xp.bool),
        lambda: xp.eye(3, dtype=xp.bool),
        lambda: xp.ones_like(xp.zeros(2, dtype=xp.bool)),
        lambda: stdlib_operator.eq(xp.zeros(2), None),
    ):
        assert steps(call) == []
