"""Short ways in Python: that they are taken, by which signatures, and who still sees the calls."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices._device import CPU
from corepy.dispatch import OPERATIONS, _hot, make
from corepy.dispatch._factory import beside, mixed
from corepy.dispatch._lessons import LEARNING
from corepy.dispatch._reproducible import REPRODUCIBLE
from corepy.dispatch._settings import STRICT
from corepy.dispatch._short_python import _WAYS
from corepy.dispatch._table import forget_entries, table_of
from tests.dispatch.natives import NUMPY, assert_same_bits
from tests.dispatch.short_ways import DTYPES, assert_alike, function, layouts, seen

pure = pytest.mark.skipif(_hot.PURE is None, reason="the hot path is compiled")

#: Calls that have a short way, by the operation that they run.
CALLS: dict[str, Callable[[Any], Any]] = {
    **{
        name: function(name) for name in ("argmax", "argmin", "count_nonzero", "max", "min", "mean")
    },
    **{name: function(name) for name in ("prod", "sum", "std", "var", "argsort", "sort", "flip")},
    **{name: function(name) for name in ("linalg.det", "linalg.inv", "matrix_transpose")},
    "all": lambda x: xp.all(x > 0),
    "any": lambda x: xp.any(x > 0),
    "cumulative_prod": lambda x: xp.cumulative_prod(x, axis=0),
    "cumulative_sum": lambda x: xp.cumulative_sum(x, axis=0),
    "expand_dims": lambda x: xp.expand_dims(x, axis=0),
    "squeeze": lambda x: xp.squeeze(x[:1], axis=0),
    "astype": lambda x: xp.astype(x, xp.float32),
    "permute_dims": lambda x: xp.permute_dims(x, (1, 0)),
    "reshape": lambda x: xp.reshape(x, (-1,)),
    "concat": lambda x: xp.concat([x, x]),
    "stack": lambda x: xp.stack((x, x)),
    "clip": lambda x: xp.clip(x, 0.5, 2),
    "matmul": lambda x: x @ x,
    "take": lambda x: xp.take(x, xp.asarray([1, 0]), axis=1),
    "where": lambda x: xp.where(x > 1, x, 0.0),
    "zeros": xp.zeros_like,
    "ones": lambda x: xp.ones((2, 3)),
    "empty": lambda x: xp.empty(4),
    "full": lambda x: xp.full(3, 2.0),
    "arange": lambda x: xp.arange(5),
    "__getitem__": lambda x: (x[0], x[:1], x[0, 1], x[None, ..., 1], x[x > 1]),
    "add": lambda x: (x + 1.0, 1 + x, xp.add(x, 2)),
}


@pytest.fixture
def x() -> Iterator[Any]:
    forget_entries()
    with corepy.backend_priority(["numpy"]):
        yield xp.asarray(np.array([[2.0, 1.0], [1.0, 3.0]]))


def natives(results: Any) -> list[Any]:
    return [each.unwrap() for each in (results if isinstance(results, tuple) else (results,))]


# ---------------------------------------------------------------------------- they are taken


@pure
def test_every_short_way_is_tried_here() -> None:
    derived = {"T", "mT", "empty_like", "full_like", "ones_like", "zeros_like"}
    assert set(_WAYS) - derived <= set(CALLS)


@pure
@pytest.mark.parametrize("name", [name for name in CALLS if name != "add"])
def test_the_short_way_is_taken(name: str, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise every test would compare the functions with themselves."""
    for setting in (STRICT, REPRODUCIBLE):  # other tests have touched them
        monkeypatch.setattr(setting, "touched", False)
    forget_entries()
    with corepy.backend_priority(["numpy"]):
        expected = [natives(CALLS[name](x)) for _ in range(3)][-1]

        def refusing(*_: Any, **__: Any) -> Any:
            raise AssertionError("the function was asked")

        for module in (
            *("statistical", "searching", "manipulation", "sorting"),
            *("creation", "ranges", "keys"),
        ):
            for called in ("run", "run_in", "create", "native_key"):
                path = f"corepy.array_api._{module}.{called}"
                monkeypatch.setattr(path, refusing, raising=False)
        for module in ("linear_algebra", "elementwise", "data_type", "array"):
            monkeypatch.setattr(f"corepy.array_api._{module}.run", refusing)
        found = natives(CALLS[name](x))
    for a, b in zip(found, expected, strict=True):
        if name != "empty":
            assert_same_bits(a, b)
    monkeypatch.undo()
    forget_entries()


@pure
def test_they_have_the_signatures_of_their_functions() -> None:
    functions = [function(name) for name in _WAYS if name not in ("T", "mT")]
    for each in (*functions, type(xp.ones(1)).__getitem__):
        shown = inspect.signature(each).parameters.values()
        own = inspect.signature(each, follow_wrapped=False).parameters.values()
        assert [(p.name, p.kind, p.default) for p in own] == [
            (p.name, p.kind, p.default) for p in shown
        ]


# ---------------------------------------------------------------------------- who sees the calls


@pytest.mark.parametrize("name", CALLS)
def test_whoever_listens_sees_them(name: str, x: Any) -> None:
    for _ in range(3):
        expected = natives(CALLS[name](x))
        report = corepy.explain(CALLS[name], x)
        assert name in [record.operation for record in report.records]
        for a, b in zip(natives(report.result), expected, strict=True):
            if name != "empty":
                assert_same_bits(a, b)


@pure
def test_nothing_outlives_the_entries(x: Any) -> None:
    for name, call in CALLS.items():
        call(x), call(x)
        assert x._table.short, name
    forget_entries()
    assert not x._table.short
    with corepy.profile():
        for call in CALLS.values():
            call(x), call(x)
        assert not x._table.short
    assert not LEARNING


@pure
def test_what_is_found_sooner_is_what_the_table_holds(x: Any) -> None:
    table = x._table
    x + x, xp.hypot(x, x), xp.exp(x), -x
    assert table.entries == dict(table) != {}
    table["add"] = (lambda a, b: a - b), table["add"][1]
    assert_same_bits((x + x).unwrap(), np.zeros((2, 2)))
    del table["add"]
    assert_same_bits((x + x).unwrap(), 2 * x.unwrap())
    forget_entries()
    assert table.entries == {}


@pure
@pytest.mark.parametrize("divide", [lambda x, y: x / y, xp.divide], ids=["operator", "function"])
def test_a_float_that_is_kept_takes_the_place_of_no_other(
    divide: Callable[[Any, Any], Any], x: Any
) -> None:
    native = x.unwrap()
    for number in (0.0, -0.0, np.nan, 0.1, 0.1 + 0.2, 0.3, -0.0, 0.0):
        for _ in range(2):
            with np.errstate(all="ignore"):
                assert_same_bits(divide(x, number).unwrap(), native / number)


@pure
def test_what_is_learned_while_entries_are_forgotten_is_not_kept() -> None:
    table = table_of(NUMPY, CPU, _dtypes.float64)
    x = make(np.ones(3), table)
    forget_entries()
    xp.sum(x)
    native, result = table["sum"]

    def forgetful(*args: Any, **params: Any) -> Any:
        forget_entries()
        return native(*args, **params)

    table["sum"] = forgetful, result
    table.settle("sum", forgetful, None, NUMPY.loop("sum"))
    assert float(xp.sum(x)) == 3
    assert not table.short


@pure
def test_few_calls_are_remembered(x: Any) -> None:
    for n in range(1, 700):
        ones = xp.ones(n)
        assert xp.reshape(ones, (1, n)).shape == (1, n)
        assert xp.reshape(ones, (1, n)).shape == (1, n)
    assert len(x._table.short) < 700


@pure
@pytest.mark.parametrize(("known", "equal"), [({"keepdims": True}, 1), ({"axis": 1}, True)])
def test_what_equals_a_parameter_that_is_known_is_refused(
    known: dict[str, Any], equal: Any, x: Any
) -> None:
    for name in ("sum", "max", "std"):
        for _ in range(3):
            function(name)(x, **known)
        with pytest.raises(TypeError):
            function(name)(x, **dict.fromkeys(known, equal))


def test_threads_learn_for_themselves() -> None:
    wrong = []

    def work(seed: int) -> None:
        with corepy.backend_priority(["numpy"]):
            for n in range(200):
                m = xp.reshape(xp.arange(2 * n + 2, dtype=xp.float64), (2, n + 1))
                for axis in (0, 1, -1):
                    if xp.sum(m, axis=axis).shape != np.sum(m.unwrap(), axis=axis).shape:
                        wrong.append((seed, n, axis))
                if n % 20 == seed:
                    forget_entries()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not LEARNING


# ---------------------------------------------------------------------------- they mean the same

AXES: list[Any] = [None, 0, 1, -1, 5, -4, True, 1.0, (0,), (0, 1), (), [0], "a"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "float64", "complex64"])
def test_reductions(dtype: str) -> None:
    names = ("all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min", "prod", "sum")
    for x in layouts(dtype):
        for name in (*names, "std", "var", "cumulative_sum", "cumulative_prod"):
            for axis in AXES:
                assert_alike(name, x, axis=axis)
            if name.startswith("cumulative"):
                assert_alike(name, x, axis=0, include_initial=True)
                assert_alike(name, x, axis=0, include_initial=1)
            else:
                assert_alike(name, x, axis=-1, keepdims=True)
                assert_alike(name, x, keepdims=1)
        for name in ("prod", "sum", "cumulative_sum"):
            assert_alike(name, x, dtype=xp.float64)
            assert_alike(name, x, dtype="a")
        for correction in (1, 0.5, True, "a", -0.0):
            assert_alike("var", x, correction=correction)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scalars(dtype: str) -> None:
    scalars = [0, 1, -1, 3, 127, 128, -128, 2**31, 2**53 + 1, 2**63, 2**1024, True, 1j, "a", None]
    scalars += [0.0, -0.0, 2.5, 1e300, float("nan"), float("inf"), np.float64(1.5)]
    x = next(layouts(dtype))
    names = ("add", "pow", "divide", "less", "bitwise_and", "bitwise_left_shift", "floor_divide")
    with np.errstate(all="ignore"):
        for name in names:
            for value in scalars:
                pairs = [
                    (lambda: mixed(name, x, value), lambda: function(name)(x, value)),  # noqa: B023
                    (lambda: mixed(name, value, x), lambda: function(name)(value, x)),  # noqa: B023
                ]
                if name == "add":
                    method, swapped = type(x).__add__, type(x).__radd__
                    pairs += [
                        (lambda: beside("add", x, value), lambda: method(x, value)),  # noqa: B023
                        (lambda: beside("add", value, x), lambda: swapped(x, value)),  # noqa: B023
                    ]
                for long, short in pairs:
                    expected, error, warned = seen(long)
                    for _ in range(2):
                        found, also, also_warned = seen(short)
                        assert also == error, (name, value)
                        assert also_warned == warned
                        for p, q in zip(found, expected, strict=True):
                            assert p is q is NotImplemented or p.dtype is q.dtype
                            if p is not NotImplemented:
                                assert_same_bits(p.unwrap(), q.unwrap())


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float32", "float64"])
def test_choices_and_clamps_of_scalars(dtype: str) -> None:
    for x in layouts(dtype):
        flags = make(np.ones(x.shape, np.bool_), table_of(NUMPY, CPU, _dtypes.bool))
        short = flags[:1] if x.ndim else flags
        for value in (0, -1, 200, 2.5, -0.0, float("nan"), 1e300, True, 1j, "a", None, x):
            assert_alike("where", flags, x, value)
            assert_alike("where", flags, value, x)
            assert_alike("where", short, x, value)
            assert_alike("where", x, x, value)
            assert_alike("clip", x, value, 3)
            assert_alike("clip", x, 0, value)
            assert_alike("clip", x, max=value)
            assert_alike("full_like", x, value)


def test_arrays_of_a_derived_class(x: Any) -> None:
    class Derived(type(x)):  # type: ignore[misc]
        __slots__ = ()

    other = Derived()
    other._native, other._table = x._native, x._table
    for name, call in CALLS.items():
        for _ in range(3):
            expected, found = natives(call(x)), natives(call(other))
            for a, b in zip(found, expected, strict=True):
                if name != "empty":
                    assert_same_bits(a, b)


def test_strict_mode_in_between(x: Any) -> None:
    for _ in range(2):
        assert xp.sum(x[0]).shape == ()
        assert (x + 1).dtype is xp.float64
        with corepy.strict():
            with pytest.raises(IndexError, match="strict mode"):
                x[0]
            assert x[0, ...].shape == (2,)
            assert xp.reshape(x, (4,)).shape == (4,)


def test_operations_of_all_calls_exist() -> None:
    assert set(CALLS) <= set(OPERATIONS)
