"""The compiled hot path computes what the entries of the tables do, bit by bit."""

from __future__ import annotations

import itertools
import operator as stdlib_operator
import os
import subprocess
import sys
import threading
import warnings
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import _dtypes
from corepy.backends._loop import Loop
from corepy.devices._device import CPU
from corepy.dispatch import OPERATIONS, _hot, _hot_python, make
from corepy.dispatch._factory import mixed
from corepy.dispatch._table import Table
from tests.dispatch.natives import (
    NUMPY,
    assert_as_entry,
    assert_same_bits,
    compiled,
    tables,
    values,
)

ELEMENTWISE = sorted(
    name
    for name in OPERATIONS
    if not name.startswith("__") and (loop := NUMPY.loop(name)) and loop.kind == "elementwise"
)
REDUCTIONS = ["all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var"]
SHAPES = [(), (0,), (1,), (7,), (300,), (3, 4), (2, 3, 5), (4, 0)]
LARGE = [(20_000,), (3, 7_000), (5_000, 4)]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str) -> None:
    operands = NUMPY.loop(name).ufunc.nin  # type: ignore[union-attr]
    rows = operands == 2
    for table in tables(name):
        if table.dtype in OPERATIONS[name].widened:
            continue
        for number, shape in enumerate(SHAPES):
            for tame in (True, False):
                natives = [values(table, shape, 2 * number + i, tame) for i in range(operands)]
                if rows and number % 2:
                    natives[number % 4 // 2] = values(table, (), number, tame)
                elif rows and len(shape) > 1:  # one has the shape of the other's last dimensions
                    natives[number // 2 % 2] = values(table, shape[1:], number, tame)
                assert_as_entry(name, table, natives)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    for table in tables(name):
        kind = table.native_dtype.kind
        extra = {"dtype": np.sum(values(table, (1,), 0, True)).dtype} if kind in "iu" else {}
        extra = extra or {"dtype": table.native_dtype}
        for number, shape in enumerate(SHAPES + LARGE):
            for axis in (None, *range(-len(shape), len(shape))):
                if name not in ("all", "any", "prod", "sum") and 0 in shape:
                    continue  # an error, or a warning, of the Python functions
                for native in (
                    values(table, shape, number, tame=False),
                    values(table, shape, number, tame=True),
                    np.full(shape, -0.0).astype(table.native_dtype),
                ):
                    place = axis if axis is None or axis >= 0 else axis + len(shape)
                    params: dict[str, Any] = extra if name in ("sum", "prod") else {}
                    params |= {"correction": 0.0} if name in ("std", "var") else {}
                    # Routes lead from entries, not from the short way.
                    with np.errstate(all="ignore"), corepy.reproducible():
                        entry = table[name][0]
                        expected = entry(native, axis=place, keepdims=False, **params)
                        for _ in range(2):
                            found = getattr(xp, name)(make(native, table), axis=axis).unwrap()
                            assert_same_bits(found, expected)


def test_clamps() -> None:
    bounds = [(0, 1), (0.25, 0.5), (1, -1), (-0.0, 0.0), (None, 2), (float("nan"), 1), (0, 2**70)]
    for table in tables("clip"):
        x = make(values(table, (4, 9), 1, tame=False), table)
        for low, high in bounds:
            outcomes: list[Any] = []
            calls = (
                lambda: getattr(xp.clip, "__wrapped__", xp.clip)(x, low, high),  # noqa: B023
                *2 * (lambda: xp.clip(x, low, high),),  # noqa: B023
                lambda: xp.clip(x, low, max=high),  # noqa: B023
                lambda: xp.clip(x, min=low, max=high),  # noqa: B023
                lambda: xp.clip(x, max=high, min=low),  # noqa: B023
            )
            for call in calls:
                try:
                    outcomes.append(call().unwrap())
                except (TypeError, OverflowError) as error:
                    outcomes.append((type(error), str(error)))
            for found in outcomes[1:]:
                if isinstance(found, tuple):
                    assert found == outcomes[0]
                else:
                    assert_same_bits(found, outcomes[0])


def test_clamps_refuse_a_bound_that_comes_twice() -> None:
    x, clip = xp.asarray(np.arange(5.0)), cast(Any, xp.clip)
    for _ in range(2):
        with pytest.raises(TypeError, match="min"):
            clip(x, 1, min=2)
        with pytest.raises(TypeError, match="max"):
            clip(x, 1, 2, max=2)
        with pytest.raises(TypeError, match="most"):
            clip(x, 1, most=2)
        with pytest.raises(TypeError, match="positional"):
            clip(x, 1, 2, 3)
        assert xp.all(clip(x, min=1, max=3) == xp.asarray([1.0, 1, 2, 3, 3]))


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_accumulations(name: str) -> None:
    for table in tables(name):
        for size in (0, 1, 2, 50, 20_000):
            for tame in (True, False):
                native = values(table, (size,), size, tame)
                dtype = np.sum(native[:0]).dtype
                entry = table[name][0]
                with np.errstate(all="ignore"):
                    expected = entry(native, axis=0, dtype=dtype, include_initial=False)
                    for axis in (None, 0, -1):
                        params = {} if axis is None else {"axis": axis}
                        found = getattr(xp, name)(make(native, table), **params).unwrap()
                        assert_same_bits(found, expected)


def test_count_nonzero() -> None:
    for table in tables("count_nonzero"):
        for shape in SHAPES + LARGE:
            native = values(table, shape, 1, tame=False)
            for _ in range(2):
                found = xp.count_nonzero(make(native, table)).unwrap()
                assert_same_bits(found, np.asarray(np.count_nonzero(native), np.int64))


def test_choices() -> None:
    flags = Table(NUMPY, CPU, _dtypes.bool)
    for table in tables("where"):
        for shape in [*SHAPES, (20_000,)]:
            which = values(flags, shape, 3, tame=True)
            a, b = (values(table, shape, seed, tame=False) for seed in (4, 5))
            for x, y in ((a, b), (a, b[:1] if shape else b), (a.T, b.T)):
                chosen = which.T if x is a.T else which
                expected = np.where(chosen, x, y) if x.shape == chosen.shape else None
                if expected is None:
                    continue
                for _ in range(2):
                    found = xp.where(make(chosen, flags), make(x, table), make(y, table))
                    assert_same_bits(found.unwrap(), expected)
            if table.dtype.kind in "fc" and table.dtype.bits >= 32:
                found = xp.where(make(which, flags), make(a, table), 0.5).unwrap()
                assert_same_bits(found, np.where(which, a, a.dtype.type(0.5)))
                found = xp.where(make(which, flags), 2, make(a, table)).unwrap()
                assert_same_bits(found, np.where(which, a.dtype.type(2), a))
    x = xp.asarray(np.ones(3))
    for _ in range(2):
        with pytest.raises(ValueError, match="where: operands have shapes"):
            xp.where(x[:2] > 0, x, x)
        with pytest.raises(TypeError, match="condition"):
            xp.where(x, x, x)


KEYS = [0, -1, 4, -5, 5, -6, 2**70, True, None, 1.0, "mask", "short mask", "numbers"]
KEYS += [slice(1, 4), slice(None, None, -2), slice(0, 9, 0), slice("a")]


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("shape", [(5,), (5, 2), ()])
def test_keys(key: Any, shape: tuple[int, ...]) -> None:
    """As the method that the class shows, which goes the long way, with its errors."""
    native = np.arange(float(np.prod(shape))).reshape(shape)
    native = native[..., ::-1] if shape == (5, 2) else native
    x = xp.asarray(native)
    if key == "mask":
        key = x > 2
    elif key == "short mask":
        key = xp.asarray(np.array([True, False]))
    elif key == "numbers":
        key = xp.asarray(np.array([0, 0]))
    outcomes: list[Any] = []
    long_way = type(x).__getitem__
    long_way = getattr(long_way, "__wrapped__", long_way)
    for function in (lambda: long_way(x, key), lambda: x[key], lambda: x[key]):
        try:
            outcomes.append(function().unwrap())
        except (IndexError, TypeError, ValueError) as error:
            outcomes.append((type(error), str(error)))
    expected, *others = outcomes
    for found in others:
        if isinstance(expected, tuple):
            assert found == expected
        else:
            assert_same_bits(found, expected)
            assert np.may_share_memory(found, native) == np.may_share_memory(expected, native)


@compiled
def test_the_entry_is_passed_by() -> None:
    """Otherwise every test here would compare the entries with themselves."""

    def entry(*_: Any, **__: Any) -> Any:
        raise AssertionError("the entry was called")

    table = Table(NUMPY, CPU, _dtypes.float64)
    for name in ("add", "exp", "sum", "mean"):
        table.settle(name, entry, table, NUMPY.loop(name))
    x = make(np.arange(4.0).reshape(2, 2), table)
    np.testing.assert_array_equal((x + x).unwrap(), [[0, 2], [4, 6]])
    np.testing.assert_array_equal(xp.add(x, 1).unwrap(), [[1, 2], [3, 4]])
    np.testing.assert_array_equal((1.0 + x).unwrap(), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(xp.exp(x).unwrap(), np.exp(x.unwrap()))
    assert xp.sum(x).unwrap() == 6
    np.testing.assert_array_equal(xp.mean(x, axis=0).unwrap(), [1, 2])
    table.clear()
    assert xp.sum(x).unwrap() == 6  # by the entry that the table found anew
    table.settle("subtract", entry, table, Loop(np.subtract))
    part = make(np.zeros(33, np.uint8)[1:].view(np.float64), table)  # not aligned
    with pytest.raises(corepy.BackendError, match="the entry was called"):
        part - part


@compiled
def test_an_entry_that_chooses_keeps_the_choice() -> None:
    def entry(x: Any) -> Any:
        return x * 0

    entry.least = 3  # type: ignore[attr-defined]
    table = Table(NUMPY, CPU, _dtypes.float64)
    table.settle("negative", entry, table, NUMPY.loop("negative"))
    np.testing.assert_array_equal((-make(np.ones(2), table)).unwrap(), [-1, -1])
    np.testing.assert_array_equal((-make(np.ones(3), table)).unwrap(), [0, 0, 0])


@compiled
def test_an_entry_may_choose_for_some_forms_only() -> None:
    def entry(x: Any, *_: Any, **__: Any) -> Any:
        return np.full((), -1.0)

    entry.least = 4  # type: ignore[attr-defined]
    entry.leasts = {"rows": 4, "to float32": 2}  # type: ignore[attr-defined]
    table = Table(NUMPY, CPU, _dtypes.float64)
    for name in ("sum", "argmax", "astype"):
        result = Table(NUMPY, CPU, _dtypes.int64) if name == "argmax" else table
        table[name] = entry, result
        table.settle(name, entry, result, NUMPY.loop(name))
        for dtype in (_dtypes.float32, _dtypes.int64):
            table.sibling(dtype)
    x = make(np.arange(6.0).reshape(2, 3), table)
    assert xp.sum(x).unwrap() == 15
    assert xp.argmax(x).unwrap() == 5
    for axis in (0, -2):
        np.testing.assert_array_equal(xp.sum(x, axis=axis).unwrap(), [3, 5, 7])
    for axis in (1, -1):
        assert xp.sum(x, axis=axis).unwrap() == -1
        np.testing.assert_array_equal(xp.sum(x[:1], axis=axis).unwrap(), [3])
    assert xp.sum(x[0], axis=0).unwrap() == 3  # of one dimension, rows are all there is
    assert xp.astype(x, _dtypes.float32).unwrap() == -1  # a form of its own
    np.testing.assert_array_equal(xp.astype(x, _dtypes.int64).unwrap(), x.unwrap())
    assert xp.astype(x, _dtypes.int16).unwrap() == -1  # a form of which nothing is known


@compiled
@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_routes_of_sorting_are_of_vectors(name: str) -> None:
    def entry(x: Any, *_: Any, **__: Any) -> Any:
        raise AssertionError("the entry was called")

    entry.least = 4  # type: ignore[attr-defined]
    entry.leasts = {"": 4}  # type: ignore[attr-defined]
    table = Table(NUMPY, CPU, _dtypes.float64)
    result = table if name == "sort" else Table(NUMPY, CPU, _dtypes.int64)
    table[name] = entry, result
    table.settle(name, entry, result, NUMPY.loop(name))
    x = np.asarray([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
    for axis in (0, 1):
        found = getattr(xp, name)(make(x, table), axis=axis)
        np.testing.assert_array_equal(found.unwrap(), getattr(np, name)(x, axis))


SCALARS = [0, 1, 3, -2, True, 200, 2**31, 2**53 + 1, 2**63, 2**70, 10**400]
SCALARS += [1.5, 0.1, 1e39, -0.0, float("inf"), float("nan"), 2j]
DTYPES = ["float32", "float64", "complex64", "int8", "int16", "int32", "int64"]
DTYPES += ["uint8", "uint16", "uint32", "uint64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scalar", SCALARS)
def test_python_scalars(dtype: str, scalar: Any) -> None:
    """As an array of the scalar's value; what does not fit is the same error on both paths."""
    for size in (3, 20_000):
        beside_scalar(xp.asarray(np.resize([1, 0, 1], size).astype(dtype)), scalar)


def beside_scalar(x: Any, scalar: Any) -> None:
    for name in ("add", "multiply", "less", "pow", "bitwise_left_shift", "subtract"):
        for turned in (False, True):
            pair = (scalar, x) if turned else (x, scalar)
            results = []
            for function in (lambda p: mixed(name, *p), lambda p: getattr(xp, name)(*p)):  # noqa: B023
                try:
                    with np.errstate(all="ignore"):
                        results.append(function(pair))
                except (TypeError, OverflowError, ValueError) as error:
                    results.append((type(error), str(error)))
            expected, found = results
            if isinstance(expected, tuple):
                assert found == expected
            else:
                assert found.dtype is expected.dtype
                assert_same_bits(found.unwrap(), expected.unwrap())


def test_flags_left_by_other_code_are_not_taken_for_those_of_a_loop() -> None:
    x = make(np.ones(3), Table(NUMPY, CPU, _dtypes.float64))
    large = 1e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert large * 10 == np.inf  # sets the flag of overflow
            np.testing.assert_array_equal((x + x).unwrap(), [2, 2, 2])


def test_numpys_settings_of_errors_hold() -> None:
    table = Table(NUMPY, CPU, _dtypes.float64)
    x, zero = make(np.ones(3), table), make(np.zeros(3), table)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            x / zero
        with np.errstate(divide="ignore"):
            assert bool(xp.all(xp.isinf(x / zero)))
        with np.errstate(divide="raise"), pytest.raises(Exception, match="divide by zero"):
            x / zero


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 100, 3000, 20_000])
def test_what_the_c_library_notes_is_told(dtype: str, size: int) -> None:
    xs = [xp.asarray(np.full(size, value, dtype)) for value in (800.0, -800.0)]
    with corepy.set_routes("off"):  # other libraries note nothing
        for x, condition in 2 * list(zip(xs, ("overflow", "underflow"), strict=True)):
            with np.errstate(all="raise"), pytest.raises(Exception, match=condition):
                xp.exp(x)
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("error")
                assert_same_bits(xp.exp(x).unwrap(), np.exp(x.unwrap()))


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "uint64"])
@pytest.mark.parametrize("rows", [1, 5, 100, 500])
@pytest.mark.parametrize("wish", ["warn", "ignore", "raise"])
def test_division_of_integers_by_zero_raises(dtype: str, rows: int, wish: Any) -> None:
    x = xp.asarray(np.ones((rows, 50), dtype))
    others: list[Any] = [x - x, (x - x)[0, :], (x - x)[:, :1], 0]
    with np.errstate(all=wish):
        for call in (stdlib_operator.floordiv, stdlib_operator.mod):
            for y in others:
                for _ in range(2):
                    with pytest.raises(ZeroDivisionError, match="x2 holds 0"):
                        call(x, y)
            with pytest.raises(ZeroDivisionError):
                call(5, others[0])


def test_explain_sees_every_operation() -> None:
    x = make(np.ones(3), xp.asarray(np.ones(3))._table)

    def program() -> Any:
        return xp.sum(xp.exp(x + x) * 2)

    for _ in range(2):
        program()
        rows = corepy.explain(program).records
        assert [r.operation for r in rows] == ["add", "exp", "multiply", "sum"]


def test_tables_may_be_cleared_while_other_threads_compute() -> None:
    """Loops run without the interpreter's lock, and `explain` clears the tables."""
    x = xp.asarray(np.ones((6, 2500)))
    wrong: list[Any] = []

    def compute() -> None:
        for _ in range(300):
            values = (x + x)[0, 0], (x * 3)[1, 1], xp.sum(x, axis=-1)[5], xp.mean(x), xp.var(x)
            found = [float(v) for v in (*values, xp.clip(x, 0, 2)[0, 1])]
            if found != [2, 3, 2500, 1, 0, 1]:
                wrong.append(found)

    threads = [threading.Thread(target=compute) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert len(corepy.explain(lambda: x + x).records) == 1
    assert wrong == []


# ---------------------------------------------------------------------------- the two forms


@compiled
def test_both_forms_offer_the_same() -> None:
    from corepy.dispatch import _hot_compiled  # type: ignore[attr-defined]

    assert sorted(_hot_compiled.__all__) == sorted(_hot_python.__all__)


def test_all_that_the_form_in_force_offers_is_passed_on() -> None:
    assert {*_hot_python.__all__} <= {*_hot.__all__}
    assert [name for name in _hot.__all__ if not hasattr(_hot, name)] == []


@compiled
def test_slots_and_methods_of_operators_do_the_same() -> None:
    """Operators call the type's slots, which are not the methods that the class shows."""
    x, y = xp.asarray(np.array([5, 7])), xp.asarray(np.array([2, 3]))
    for symbol in ("add", "sub", "mul", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift"):
        name = symbol.rstrip("_")
        by_slot = getattr(stdlib_operator, symbol)
        assert_same_bits(by_slot(x, y).unwrap(), getattr(x, f"__{name}__")(y).unwrap())
        assert_same_bits(by_slot(2, y).unwrap(), getattr(y, f"__r{name}__")(2).unwrap())
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "rshift", "truediv"):
        by_slot = getattr(stdlib_operator, name)
        assert_same_bits(by_slot(x, y).unwrap(), getattr(x, f"__{name}__")(y).unwrap())
    for name in ("abs", "neg", "pos", "invert"):
        by_slot = getattr(stdlib_operator, name)
        assert_same_bits(by_slot(x).unwrap(), getattr(x, f"__{name}__")().unwrap())


@compiled
def test_what_runs_was_compiled_from_what_stands_here() -> None:
    """Otherwise these tests would say nothing: install corepy again after an edit."""
    from corepy.backends import (  # type: ignore[attr-defined]
        _column_loops,
        _order_loops,
        _product_loops,
        _row_loops,
        _wide_loops,
    )
    from corepy.devices import _host_pool  # type: ignore[attr-defined]
    from corepy.dispatch import _hot_compiled

    loops = (_column_loops, _order_loops, _product_loops, _row_loops, _wide_loops)
    for module in (_hot_compiled, _host_pool, *loops):
        folder = Path(module.__file__).parent
        sources = sorted(path for path in folder.iterdir() if path.suffix in (".pyx", ".pxi"))
        texts = [path.read_bytes() for path in sources]
        assert sha256(b"".join(texts)).hexdigest() == module.SOURCE


def test_it_is_compiled_where_that_is_expected() -> None:
    if os.environ.get("COREPY_EXPECT_COMPILED") == "1":
        assert _hot.PURE is None


@pytest.mark.parametrize(
    ("wish", "found"),
    [
        ("1", "COREPY_PURE_PYTHON=1"),
        ("maybe", "COREPY_PURE_PYTHON is 'maybe'; expected one of 1, true"),
    ],
)
def test_the_form_in_python_can_be_forced(wish: str, found: str) -> None:
    code = (
        "import corepy.array_api as xp; from corepy.dispatch import _hot; x = xp.ones(3); "
        "print(_hot.PURE, _hot.Operand.__module__, float(xp.sum(x + x)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COREPY_PURE_PYTHON": wish},
    )
    if wish == "1":
        assert done.stdout.split() == [found, "corepy.dispatch._hot_python", "6.0"]
    else:
        assert done.returncode == 1
        assert found in done.stderr


COLLECTED = """
import gc
import numpy as np
import corepy.array_api as xp

class Written:
    def __init__(self, x):
        self.x, self.itself = x, self

    def __del__(self):
        self.x[...] = False  # its memory is read-only: the array has other memory then

written = 0
for _ in range(5):
    memory = np.ones((1, *[2] * 19), bool)
    memory.flags.writeable = False
    x = xp.asarray(memory)
    del memory
    gc.collect()
    Written(x)
    gc.set_threshold(1)
    assert x.shape == (1, *[2] * 19)
    gc.set_threshold(1 << 30)
    gc.collect()
    written += not xp.any(x)
assert written == 5
"""


def test_a_finalizer_may_give_an_array_other_memory_while_its_shape_is_read() -> None:
    """Before Python 3.12 the collector runs where a tuple is made."""
    done = subprocess.run([sys.executable, "-c", COLLECTED], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


CHANGED = """
import gc, corepy, corepy.array_api as xp
kept, when = [], None
def collected(phase, info):  # stands for any finalizer
    global when
    if phase == "start" and when is not None:
        when -= 1
        if when < 0:
            when = None
            change()
            kept.extend(bytearray(b"\\xff" * k) for k in range(30, 140) for _ in range(60))
def attack(operation, turns=8):
    global when
    for turn in range(turns):
        prepare()
        kept.clear()
        gc.collect()
        when = turn % 4
        gc.set_threshold(1)
        gc.enable()
        try:
            operation()
        except (IndexError, ValueError):  # of a list that is short of arrays
            pass
        gc.disable()
        when = None
xp.concat([xp.ones(2), xp.ones(2)])
xp.ones((5, 5))[xp.asarray([0, 1]), 1]
corepy.set_memory_pool(0)
gc.collect()
gc.freeze()
gc.disable()
gc.callbacks.append(collected)
def prepare():
    global parts
    parts = [xp.ones(size), xp.ones(size, dtype=other), xp.ones(size)]
def change():
    parts.clear()
for size, other in ((3, xp.float32), (3, xp.float64), (30000, xp.float64)):
    for axis in (0, None):
        attack(lambda: xp.concat(parts, axis=axis))
    attack(lambda: xp.stack(parts))
def prepare():
    global x
    memory = (xp.ones((3000, 100)) + 1.0).unwrap()
    memory.flags.writeable = False
    x = xp.asarray(memory, copy=False)
def change():
    x[...] = 1.0  # elsewhere, and the memory from before goes
i = xp.asarray([0, 1, 2])
for key in ((i, 1), (i, i), xp.astype(i, xp.int32), xp.arange(3000) > 2990):
    attack(lambda: x[key])
"""


def test_a_finalizer_may_change_operands_while_they_are_looked_at() -> None:
    done = subprocess.run([sys.executable, "-c", CHANGED], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("share", [0.001, 0.5, 1.0])
@pytest.mark.parametrize(
    "shape", [(7,), (300,), (40_000,), (20, 300), (300, 20), (5, 1), (2, 40_000)]
)
def test_zeros_and_nan_are_sorted_in_the_order_in_which_they_came(
    shape: tuple[int, ...], share: float, dtype: str
) -> None:
    """NumPy's quickest sorting, which keeps no such order, runs nevertheless."""
    rng = np.random.default_rng(2)
    special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf], dtype)
    x = np.where(rng.random(shape) < share, rng.choice(special, shape), rng.normal(size=shape))
    x = x.astype(dtype)
    words = x.view(f"i{x.dtype.itemsize}")
    x = np.where(np.isnan(x), (words | rng.integers(0, 99, shape, words.dtype)).view(dtype), x)
    for few in (x, np.where(np.isnan(x), np.asarray(1, dtype), x), np.abs(x)):
        for axis in range(-1, few.ndim - 1):
            found = np.asarray(xp.sort(xp.asarray(few), axis=axis))
            assert found.tobytes() == np.sort(few, axis=axis, kind="stable").tobytes()
        turned = np.asarray(xp.sort(xp.asarray(few), descending=True))
        stable = np.flip(np.sort(np.flip(few, -1), kind="stable"), -1)
        assert turned.tobytes() == stable.tobytes()


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("columns", [1, 3])
def test_small_pieces_are_joined(dtype: str, columns: int) -> None:
    parts = [
        (np.arange(k, k + 50 * columns) % 5).astype(dtype).reshape(50, columns) for k in (0, 1, 2)
    ]
    ours = [xp.asarray(part) for part in parts]
    for axis in (0, 1):
        found = np.asarray(xp.concat(ours, axis=axis))
        assert found.tobytes() == np.concatenate(parts, axis=axis).tobytes()
    for axis in (0, 1, 2):
        assert np.asarray(xp.stack(ours, axis=axis)).tobytes() == np.stack(parts, axis).tobytes()


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("several", [2, 3])
def test_a_few_elements_are_joined_whatever_the_lengths(dtype: str, several: int) -> None:
    x = (np.arange(24) % 5 - 2).astype(dtype).reshape(4, 6)
    for lengths in itertools.product(range(6), repeat=several):
        for rows in (x[0], x, x.reshape(2, 2, 6)):
            parts = [rows[..., n % 2 : n % 2 + n] for n in lengths]
            found = xp.concat([xp.asarray(part) for part in parts], axis=-1)
            assert np.asarray(found).tobytes() == np.concatenate(parts, axis=-1).tobytes()
