"""What tests of short ways share: arrays of all layouts, tables without entries, comparisons."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices._device import CPU
from corepy.dispatch import OPERATIONS, Operand, _hot, make
from corepy.dispatch._reproducible import REPRODUCIBLE
from corepy.dispatch._table import Table, table_of
from tests.dispatch.natives import NUMPY, assert_same_bits, told, values

DTYPES = ["bool", "int8", "uint16", "int32", "int64", "uint64", "float32", "float64", "complex64"]

#: What is behind the short ways of keys.
LONG_GET = getattr(type(xp.ones(1)).__getitem__, "__wrapped__", type(xp.ones(1)).__getitem__)
LONG_SET = type(xp.ones(1)).__setitem__


def function(name: str) -> Callable[..., Any]:
    extension, _, short = name.rpartition(".")
    found: Callable[..., Any] = getattr(getattr(xp, extension) if extension else xp, short)
    return found


def layouts(dtype: str, values_of: tuple[bool, ...] = (True, False)) -> Iterator[Any]:
    """Arrays of a dtype: of several shapes, strided, turned, empty, of one element, read-only.

    Of tame values, and of such among which are special ones.
    """
    table = table_of(NUMPY, CPU, _dtypes.DTYPES[dtype])
    for number, shape in enumerate([(6,), (3, 4), (4, 4), (1, 3), (2, 3, 2), (), (0,), (0, 3)]):
        for tame in values_of:
            yield make(values(table, shape, number, tame), table)
    square = values(table, (8, 8), 1, tame=True)
    locked = square[:2].copy()
    locked.flags.writeable = False
    between = values(table, (4, 3), 2, tame=True)[:, None]  # in one piece, with a stride of zero
    for native in (square[::2, 1:5], square.T, square[0, ::-2], square[3:], locked, between):
        yield make(native, table)


def seen(call: Callable[[], Any], owner: Any = None) -> tuple[list[Any], Any, list[str]]:
    """Return the arrays that a call gives, and its error and its warnings in words."""
    found, warned = told(call, Exception)
    if isinstance(found, Exception):
        words = str(found)
        if "bytes" in words:  # free at that moment, and what earlier calls had left
            words = re.sub(r"\d+ of \d+ bytes", "some bytes", words)
            words = re.sub(r"gave back \d+", "gave back some", words)
        return [], (type(found), words), warned
    alone = found is NotImplemented or isinstance(found, Operand)
    return [found] if alone else list(found), None, warned


#: What the compiled path adds up in the order in which elements with gaps are packed, not NumPy's.
_ADDING = ("mean", "prod", "std", "sum", "var")


def _adds_otherwise(name: str, x: Any) -> bool:
    if _hot.PURE is not None or name not in _ADDING or not x.dtype.name.startswith("float"):
        return False
    return not x.unwrap().flags.c_contiguous


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
            if args and _adds_otherwise(name, args[0]):
                eps = np.finfo(args[0].dtype.name).eps
                np.testing.assert_allclose(x.unwrap(), y.unwrap(), rtol=16 * eps)
            else:
                assert_same_bits(x.unwrap(), y.unwrap())
            assert x.unwrap().flags.writeable == y.unwrap().flags.writeable
            for arg in args:
                if isinstance(arg, Operand):
                    shared = np.may_share_memory(x.unwrap(), arg.unwrap())
                    assert shared == np.may_share_memory(y.unwrap(), arg.unwrap())


def assert_same(found: Any, expected: Any) -> None:
    """Compare two outcomes of `seen`."""
    assert found[1:] == expected[1:]
    assert len(found[0]) == len(expected[0])
    for x, y in zip(found[0], expected[0], strict=True):
        assert x.dtype is y.dtype
        assert_same_bits(x.unwrap(), y.unwrap())


def ours(native: Any, dtype: str | None = None) -> Any:
    """Return an `Array` of the backend of `layouts`."""
    native = np.asarray(native, dtype)
    return make(native, table_of(NUMPY, CPU, _dtypes.DTYPES[native.dtype.name]))


def refusing(*_: Any, **__: Any) -> Any:
    raise AssertionError("the entry was called")


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


def steps(call: Callable[[], Any]) -> list[str]:
    """Name the functions of Python's that a call takes, after it was seen before.

    But settings, which are asked for from the first time on that a test touches them.
    """
    called: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is not call.__code__:  # type: ignore[attr-defined]
            called.append(frame.f_code.co_name)

    call()
    call()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    if REPRODUCIBLE.touched and {"vecdot", "__matmul__", "__rmatmul__", "tensordot"} & set(called):
        return []  # products ask whether the same bits are wanted, once anybody wanted them
    return [name for name in called if name != "get"]
