"""Large operations of the compiled hot path, of which other threads do a part.

The helpers are a stand-in (`tests.dispatch.crew`). Values, warnings and errors are those of one
thread.
"""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._budget import cores
from corepy._crew import Crew
from corepy.backends._numpy_loops import INTEGERS
from corepy.backends._numpy_order import PARTS
from corepy.dispatch import _helped, _hot, _table
from corepy.dispatch._settings import AUTOCAST
from tests.dispatch.crew import StandIn, enlist
from tests.dispatch.natives import compiled, outcome

pytestmark = compiled

#: Elements: so many that each operation takes one thread longer than is worth sharing.
ROWS, COLUMNS = 1000, 1001
SIZE: Final = ROWS * COLUMNS

Calls = dict[str, Callable[..., Any]]


@pytest.fixture(autouse=True)
def unhelped(routes_off: None) -> Iterator[None]:
    """Leave a test without helpers and routes."""
    _hot.helped_by(None)
    yield
    _hot.helped_by(_helped._find)


@pytest.fixture
def helpers(unhelped: None) -> StandIn:
    return StandIn()


@lru_cache(maxsize=1)
def arrays(dtype: str) -> dict[str, Any]:
    """Return operands of a dtype, which nobody writes to."""
    rng = np.random.default_rng(7)
    a = (rng.random(SIZE) * 100 - 50).astype(dtype)
    b = (rng.random(SIZE) * 100 + 1).astype(dtype)
    return {
        "a": xp.asarray(a),
        "b": xp.asarray(b),
        "m": xp.asarray(a.reshape(ROWS, COLUMNS)),
        "v": xp.asarray(b[:COLUMNS].copy()),
        "near": xp.asarray((1 + a / 1e6).astype(dtype)),
        "signs": xp.asarray(np.sign(a)),
        "i": xp.asarray(rng.integers(-SIZE, SIZE, SIZE)),
        "no": xp.asarray(np.zeros(3 * SIZE, np.bool_)),
        "some": xp.asarray(rng.random(SIZE) < 0.4),
        "tall": xp.asarray(a[: SIZE // 77 * 77].reshape(-1, 7)),
        "few": xp.asarray(b[:35].reshape(7, 5)),
        "heavy": xp.asarray(b[: SIZE // 77 * 11].copy()),
    }


def marked(x: Any, mask: Any, value: Any) -> Any:
    written = xp.asarray(x.unwrap().copy())  # which nobody shares
    written[mask] = value
    return written


ANY: Final[Calls] = {
    "add": lambda a, b, **_: a + b,
    "times 3": lambda a, **_: a * 3,
    "3 minus": lambda a, **_: 3 - a,
    "less": lambda a, b, **_: a < b,
    "sign": lambda a, **_: xp.sign(a),
    "clip": lambda a, **_: xp.clip(a, -20, 30),
    "rows beside a row": lambda m, v, **_: m - v,
    "a row beside rows": lambda m, v, **_: v - m,
    "to float32": lambda a, **_: xp.astype(a, xp.float32),
    "to int64": lambda a, **_: xp.astype(a, xp.int64),
    "concat": lambda a, b, **_: xp.concat((a, b)),
    "stack": lambda a, b, **_: xp.stack((a, b)),
    "concat of rows": lambda m, **_: xp.concat((m, m), axis=1),
    "roll": lambda m, **_: xp.roll(m, 70_001),
    "take": lambda a, i, **_: xp.take(a, i, axis=0),
    "sum of rows": lambda m, **_: xp.sum(m, axis=-1),
    "max of rows": lambda m, **_: xp.max(m, axis=-1),
    "sum of columns": lambda m, **_: xp.sum(m, axis=0),
    "min of columns": lambda m, **_: xp.min(m, axis=0),
    "sum": lambda a, **_: xp.sum(a),
    "max": lambda a, **_: xp.max(a),
    "min": lambda a, **_: xp.min(a),
    "argmax": lambda a, **_: xp.argmax(a),
    "argmin": lambda a, **_: xp.argmin(a),
    "prod": lambda signs, **_: xp.prod(signs),
    "count_nonzero": lambda a, **_: xp.count_nonzero(a),
    "any": lambda no, **_: xp.any(no),
    "what a mask selects": lambda a, some, **_: a[some],
    "one where a mask is true": lambda a, some, **_: marked(a, some, 7),
    "each where a mask is true": lambda a, b, some, **_: marked(a, some, b[some]),
    "choices": lambda a, b, some, **_: xp.where(some, a, b),
    "choices of one element": lambda a, some, **_: xp.where(some, 7, a),
    "places": lambda some, **_: xp.nonzero(some)[0],
    "places of what is not zero": lambda signs, **_: xp.nonzero(signs)[0],
    "one element": lambda a, **_: xp.full(a.shape, 7, dtype=a.dtype),
    "one element again": lambda m, **_: xp.full_like(m, -3),
    "whole numbers": lambda a, **_: xp.arange(SIZE, -SIZE, -3, dtype=a.dtype),
}
FLOATING: Final[Calls] = {
    "sqrt": lambda b, **_: xp.sqrt(b),
    "exp": lambda a, **_: xp.exp(a),
    "isfinite": lambda a, **_: xp.isfinite(a),
    "prod": lambda near, **_: xp.prod(near),
    "mean": lambda a, **_: xp.mean(a),
    "mean of rows": lambda m, **_: xp.mean(m, axis=1),
    "mean of columns": lambda m, **_: xp.mean(m, axis=0),
    "even steps": lambda a, **_: xp.linspace(-0.7, 1e30, SIZE, dtype=a.dtype),
    "steps too small": lambda a, **_: xp.linspace(0, 1e-320, SIZE, dtype=a.dtype),
    "steps beside a great start": lambda a, **_: xp.arange(1e10, 2e10, 9999.7, dtype=a.dtype),
}
PRODUCTS: Final[Calls] = {
    "a tall matrix": lambda tall, few, **_: tall @ few,
    "a wide matrix": lambda tall, few, **_: few.T @ tall.T,
    "a stack": lambda tall, few, **_: xp.reshape(tall, (-1, 11, 7)) @ few,
    "tensordot": lambda tall, few, **_: xp.tensordot(tall, few, axes=1),
    "rows by a vector": lambda tall, few, **_: tall @ few[:, 0:1],
    "long rows by a vector": lambda m, a, **_: m @ a[:COLUMNS],
    "a vector by turned rows": lambda m, a, **_: a[:COLUMNS] @ m.T,
    "few rows by a vector": lambda a, **_: xp.reshape(a[:450_000], (9, -1)) @ a[:50_000],
    "weighed rows": lambda m, a, **_: a[:ROWS] @ m,
    "weighed short rows": lambda tall, heavy, **_: tall.T @ heavy,
}
FLOATS: Final = ("float32", "float64")
INTEGER: Final[Calls] = PRODUCTS if "int64" in INTEGERS.get("matmul", {}) else {}
CASES: Final = [
    (name, dtype, call)  # by dtype, of which operands are drawn once
    for dtype in (*FLOATS, "int64")
    for calls in (ANY, *((FLOATING, PRODUCTS) if dtype in FLOATS else (INTEGER,)))
    for name, call in calls.items()
]


@pytest.mark.parametrize(("name", "dtype", "call"), CASES, ids=[f"{n}-{d}" for n, d, _ in CASES])
def test_values_are_those_of_one_thread(
    name: str, dtype: str, call: Callable[..., Any], helpers: StandIn
) -> None:
    operands = arrays(dtype)
    call(**operands)  # of the first product of all BLAS's threads add up otherwise
    expected = outcome(lambda: call(**operands))
    enlist(helpers)
    for _ in range(3):  # what it takes is not known before the first call
        helpers.jobs.clear()
        assert outcome(lambda: call(**operands)) == expected
    assert helpers.jobs


def test_work_that_fails_at_once_is_shared_later(helpers: StandIn) -> None:
    operands = arrays("float64")
    x, i = operands["a"], operands["i"]
    bad = xp.full(SIZE, SIZE)
    enlist(helpers)
    helpers.most = 1
    for _ in range(3):
        with pytest.raises(IndexError):
            xp.take(x, bad)
        xp.astype(x, xp.int8)  # by no loop of ours
    helpers.most = 2
    for call in (lambda: xp.take(x, i), lambda: xp.astype(x, x.dtype)):
        helpers.jobs.clear()
        for _ in range(3):
            call()
        assert helpers.jobs


def test_products_are_shared_again_after_reproducible_ones(helpers: StandIn) -> None:
    operands = arrays("float64")
    tall, few = operands["tall"], operands["few"]
    expected = outcome(lambda: tall @ few)
    enlist(helpers)
    with corepy.reproducible():
        helpers.jobs.clear()
        for _ in range(3):
            tall @ few
        assert not helpers.jobs
    for _ in range(3):
        helpers.jobs.clear()
        assert outcome(lambda: tall @ few) == expected
    assert helpers.jobs


@pytest.mark.parametrize("kind", ["a tall matrix", "tensordot", "weighed rows"])
def test_products_are_shared_again_after_rounded_ones(
    kind: str, helpers: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, operands = PRODUCTS[kind], arrays("float32")
    call(**operands)  # of the first product of all BLAS's threads add up otherwise
    expected = outcome(lambda: call(**operands))
    enlist(helpers)
    monkeypatch.setattr(AUTOCAST, "prepared", False)
    monkeypatch.setattr(AUTOCAST, "touched", False)
    try:
        with corepy.autocast("bfloat16"):
            assert outcome(lambda: call(**operands)) != expected
        for _ in range(3):
            helpers.jobs.clear()
            assert outcome(lambda: call(**operands)) == expected
        assert helpers.jobs
    finally:
        monkeypatch.undo()
        _table.forget_entries()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("wish", ["warn", "ignore", "raise"])
def test_what_a_helper_meets_is_told(dtype: str, wish: Any, helpers: StandIn) -> None:
    x = np.ones(SIZE, dtype)
    x[-3:] = [-1, 1e30, 0]
    a = xp.asarray(x)
    calls: list[Callable[[], Any]] = [
        lambda: xp.sqrt(a),
        lambda: xp.exp(a),
        lambda: 1 / a,
        lambda: xp.astype(a * 1e10, xp.float32),
        lambda: xp.reshape(a[:1_000_000], (1000, 1000)) / a[-1000:],
        lambda: xp.reshape(a[-1_000_000:], (1000, 1000)) @ (a[-1000:] * 1e10),
        lambda: xp.prod(a * 3),
        lambda: xp.sum(xp.reshape(a * 1e10, (-1, COLUMNS)), axis=1),
    ]
    with np.errstate(all=wish):
        expected = [outcome(call, FloatingPointError) for call in calls]
        enlist(helpers)
        for _ in range(3):
            assert [outcome(call, FloatingPointError) for call in calls] == expected
    assert helpers.jobs


#: So many that 8 bytes of each are more than any cache holds.
FAR: Final = (1 << 22) + 10_001


@pytest.mark.parametrize(
    ("dtype", "one"), [*itertools.product(FLOATS, [True, False]), ("int64", False)]
)
def test_results_past_the_caches(dtype: str, one: bool, helpers: StandIn) -> None:
    x = np.arange(FAR).astype(dtype)
    y = x[::-1].copy()
    few = np.array([7, 8, 9], dtype)  # so that what comes after begins where no line does
    a, b, c = xp.asarray(x), xp.asarray(y), xp.asarray(few)
    other = "float32" if dtype == "float64" else "float64"
    if not one:
        enlist(helpers)
    for _ in range(2):  # the first time NumPy does some of it
        for found, expected in (
            (xp.astype(a, getattr(xp, other)), x.astype(other)),
            (xp.astype(a, xp.int32), x.astype(np.int32)),
            (xp.astype(a, xp.bool), x.astype(np.bool_)),
            (xp.astype(a, a.dtype), x),
            (xp.concat((a, c, b)), np.concatenate((x, few, y))),
            (xp.stack((a, b)), np.stack((x, y))),
            (xp.stack((a, b), axis=1), np.stack((x, y), axis=1)),
            (xp.roll(a, -1_234_567), np.roll(x, -1_234_567)),
            (a + b, x + y),
            (a < b, x < y),
            (a * 3, x * np.array(3, dtype)),
            (xp.square(a), x * x),
            (xp.clip(a, 7, FAR - 2), x.clip(7, FAR - 2)),
            (xp.full(x.size, 7, dtype=a.dtype), np.full(x.size, 7, dtype)),
            (xp.arange(x.size, dtype=a.dtype), x),
        ):
            assert np.asarray(found).tobytes() == expected.tobytes()
    assert bool(helpers.jobs) is not one


@pytest.mark.parametrize("dtype", ["int8", "int32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(0, 3), (3,), (2, 3), (3, 40_001), (301, 401), (11, 7, 500)])
def test_what_is_rolled(shape: tuple[int, ...], dtype: str, helpers: StandIn) -> None:
    x = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    enlist(helpers)
    for a in (xp.asarray(x), xp.asarray(x[::-1])):
        for shift in (0, 1, -1, 3, 64, -399, 10**6):
            for axis in (None, *range(-x.ndim, x.ndim)):
                found = xp.roll(a, shift, axis=axis)
                np.testing.assert_array_equal(np.asarray(found), np.roll(a.unwrap(), shift, axis))
    with pytest.raises(IndexError, match="axis"):
        xp.roll(xp.asarray(x), 1, axis=len(shape))


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 5), (4, 3), (301, 401), (2, 90, 70, 11)])
def test_what_is_a_triangle(shape: tuple[int, ...], dtype: str, helpers: StandIn) -> None:
    x = np.arange(1, math.prod(shape) + 1).reshape(shape).astype(dtype)
    if x.dtype.kind in "fc":
        x.ravel()[::3] = -0.0
        x.ravel()[1::3] = np.nan
    enlist(helpers)
    for a in (xp.asarray(x), xp.asarray(x[..., ::-1])):
        for k in (0, 1, -1, 2, -5, shape[-1], -shape[-2], 10**6, -(10**20)):
            near = max(-(10**6), k)
            for found, wanted in (
                (xp.tril(a, k=k), np.tril(a.unwrap(), near)),
                (xp.triu(a, k=k), np.triu(a.unwrap(), near)),
            ):
                assert found.shape == shape
                assert np.asarray(found).tobytes() == wanted.tobytes()
    for call in (xp.tril, xp.triu):
        with pytest.raises(ValueError, match="at least two dimensions"):
            call(xp.asarray(x)[(0,) * (x.ndim - 1)] if x.size else xp.zeros(3))
        with pytest.raises(TypeError, match="k is of type float"):
            call(xp.asarray(x), k=1.0)  # type: ignore[arg-type]


def test_conversions_past_the_caches_that_overflow(helpers: StandIn) -> None:
    x = np.ones(FAR)
    x[-1] = 1e300
    a = xp.asarray(x)
    enlist(helpers)
    found, told = outcome(lambda: xp.astype(a, xp.float32).unwrap())
    expected, by_numpy = outcome(lambda: x.astype(np.float32))
    assert (found, set(told)) == (expected, set(by_numpy))
    assert told
    with np.errstate(over="ignore"):
        assert outcome(lambda: xp.astype(a, xp.float32).unwrap()) == (expected, [])


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_that_several_values_are(dtype: str, helpers: StandIn) -> None:
    enlist(helpers)
    for function in (xp.max, xp.min):
        function(xp.asarray(np.ones(SIZE, dtype)))  # the first time NumPy does it
    for places in (
        {5: 0.0, 900_000: -0.0},
        {5: -0.0, 900_000: 0.0},
        {700_000: np.nan},
        {3: -np.nan, 999_999: np.nan},
        {999_999: np.inf},
        {40_000: 7.0, 800_000: 7.0},
        {40_000: np.inf, 800_000: np.nan, 900_000: np.nan},
    ):
        x = np.full(SIZE, -1, dtype)
        x[list(places)] = list(places.values())
        for function, ufunc in ((xp.max, np.maximum), (xp.min, np.minimum)):
            for values in (x, -x):
                for _ in range(3):
                    found = np.asarray(function(xp.asarray(values)))
                    assert found.tobytes() == ufunc.reduce(values).tobytes()
        for values in (x, -x):
            for _ in range(3):
                assert int(xp.argmax(xp.asarray(values))) == values.argmax()
                assert int(xp.argmin(xp.asarray(values))) == values.argmin()
    assert helpers.jobs


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int64", "uint32", "uint64"])
def test_parts_of_a_vector_are_sorted(dtype: str, helpers: StandIn) -> None:
    rng = np.random.default_rng(2)
    samples = [rng.integers(0, 2**31, 100_003).astype(dtype), np.full(40_000, 7, dtype)]
    samples.append(rng.integers(0, 3, 50_001).astype(dtype))
    if dtype in FLOATS:
        special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0], dtype)
        samples += [rng.choice(special, 60_007), np.full(40_000, np.nan, dtype)]
        samples.append(np.where(rng.random(70_000) < 0.01, special[2], samples[0][:70_000]))
    expected = [np.sort(x, stable=True).tobytes() for x in samples]
    few = [np.unique_values(x).tobytes() for x in samples[:3]]
    enlist(helpers)
    helpers.jobs.clear()
    for _ in range(3):
        assert [np.asarray(xp.sort(xp.asarray(x))).tobytes() for x in samples] == expected
        found = [np.asarray(xp.unique_values(xp.asarray(x))) for x in samples[:3]]
        assert [np.sort(x).tobytes() for x in found] == [
            np.sort(np.frombuffer(x, dtype)).tobytes() for x in few
        ]
    assert bool(helpers.jobs) is bool(PARTS)  # there is an instruction, or nobody does this


def test_integers_wrap_around_alike(helpers: StandIn) -> None:
    x = np.random.default_rng(1).integers(-(2**62), 2**62, SIZE)
    enlist(helpers)
    for _ in range(3):
        for function, known in ((xp.sum, np.sum), (xp.prod, np.prod), (xp.max, np.max)):
            assert int(function(xp.asarray(x | 1))) == known(x | 1)
    assert helpers.jobs


def test_bad_indices_and_powers(helpers: StandIn) -> None:
    x, i = xp.ones(SIZE), np.zeros(SIZE, np.int64)
    i[-1] = SIZE
    whole, negative = xp.ones(SIZE, dtype=xp.int64), np.ones(SIZE, np.int64)
    negative[-1] = -1
    enlist(helpers)
    for _ in range(3):
        with pytest.raises(IndexError, match="take"):
            xp.take(x, xp.asarray(i), axis=0)
        with pytest.raises(ValueError, match="negative integer"):
            xp.pow(whole, xp.asarray(negative))


def test_one_thread_is_enough(helpers: StandIn) -> None:
    x = xp.ones(SIZE)
    enlist(helpers)
    xp.sqrt(x)
    helpers.jobs.clear()
    helpers.most = 1
    for _ in range(3):
        xp.sqrt(x)
    assert not helpers.jobs
    helpers.most = 2
    xp.sqrt(x)
    assert [job[2] for job in helpers.jobs] == [1]


def test_who_waited_is_told(helpers: StandIn) -> None:
    x = xp.ones(SIZE)
    enlist(helpers)
    helpers.naps = 3
    xp.sqrt(x)
    assert [round(waited * 1e6) for _, waited in helpers.judged] == [150]
    helpers.naps = 0
    xp.sqrt(x)
    xp.sqrt(x)
    assert [waited > 0 for _, waited in helpers.judged] == [True, False]
    assert helpers.gathered >= 1


def test_few_elements_are_not_shared(helpers: StandIn) -> None:
    few = xp.ones(10_000)
    enlist(helpers)
    helpers.jobs.clear()
    for _ in range(10):
        few + few, xp.sqrt(few), xp.sum(few)
    assert not helpers.jobs


def test_threads_that_call_at_once(helpers: StandIn) -> None:
    operands = [np.full(SIZE, i + 1.0) for i in range(4)]
    enlist(helpers)
    wrong: list[int] = []

    def use(i: int) -> None:
        x = xp.asarray(operands[i])
        for _ in range(15):
            made, total = np.asarray(x * 2 + x), float(xp.sum(x))
            if (made != 3 * (i + 1)).any() or total != SIZE * (i + 1):
                wrong.append(i)

    threads = [threading.Thread(target=use, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert helpers.jobs


def test_who_finds_the_place_taken_works_alone(helpers: StandIn) -> None:
    """While the interpreter is asked for threads, another thread may put its work there."""
    x, y = xp.asarray(np.full(SIZE, 4.0)), xp.asarray(np.full(SIZE, 9.0))
    enlist(helpers)
    xp.sqrt(x)
    helpers.jobs.clear()
    begun, leave, roots = threading.Event(), threading.Event(), []

    def wait() -> None:
        begun.set()
        leave.wait(60)

    def first() -> None:
        helpers.asked = lambda: None
        helpers.began = wait
        other.start()
        assert begun.wait(60)

    other = threading.Thread(target=lambda: roots.append(xp.sqrt(y)))
    helpers.asked = first
    root = xp.sqrt(x)
    assert len(helpers.jobs) == 1
    leave.set()
    other.join()
    assert (np.asarray(root) == 2).all()
    assert (np.asarray(roots[0]) == 3).all()


def test_who_asked_for_helpers_too_late_keeps_those_that_are_there(helpers: StandIn) -> None:
    """A job of theirs may be under way, which would lose its memory."""
    late, x = StandIn(), xp.full(SIZE, 4.0)
    asked, leave = threading.Event(), threading.Event()

    def find(seconds: float) -> Crew:
        if asked.is_set():
            return helpers.crew
        asked.set()
        leave.wait(60)
        return late.crew

    def use() -> None:
        for _ in range(100):
            xp.sqrt(x)

    _hot.helped_by(find)
    first = threading.Thread(target=use)
    first.start()
    assert asked.wait(60)
    use()
    assert helpers.jobs
    leave.set()
    first.join()
    use()
    assert not late.jobs


HOLDING: Final[Calls] = {
    "negative": lambda x: -x,
    "add": lambda x: x + x,
    "times 3": lambda x: x * 3,
    "clip": lambda x: xp.clip(x, 1, 2),
    "sum": xp.sum,
    "max": xp.max,
    "argmax": xp.argmax,
    "count_nonzero": xp.count_nonzero,
    "cast": lambda x: xp.astype(x, xp.float32),
    **({"sort": xp.sort} if PARTS else {}),  # there is an instruction, or one thread sorts
}


@pytest.mark.parametrize("name", HOLDING)
def test_operands_stay_while_another_thread_replaces_their_memory(
    name: str, helpers: StandIn
) -> None:
    values = np.random.default_rng(3).random(SIZE)
    values.flags.writeable = False
    x, seen = xp.asarray(values), weakref.ref(values)
    del values
    enlist(helpers)
    HOLDING[name](x)  # how long it takes is known then
    there: list[bool] = []

    def replace() -> None:
        helpers.began = lambda: None
        x[0] = 2.0  # of memory that is read-only a copy is written to
        there.append(seen() is not None)

    helpers.began = replace
    for _ in range(3):
        HOLDING[name](x)
    assert there == [True]
    assert seen() is None


def test_rows_of_no_length() -> None:
    """To divide by their length ends the process."""
    made = xp.ones((3, 0)) + xp.ones(0)
    assert made.shape == (3, 0)


SCRIPT = """
import os, sys, time
import numba
import numpy as np
import corepy.array_api as xp
from corepy.dispatch import _hot_compiled as hot

x = xp.asarray(np.arange(2_000_000.0))
before, end = hot.jobs_shared(), time.monotonic() + 60
while hot.jobs_shared() == before and time.monotonic() < end:
    assert float(xp.max(xp.sqrt(x))) == 1_999_999 ** 0.5
print(hot.jobs_shared() > before, flush=True)  # or the child would print it once more
child = os.fork() if hasattr(os, "fork") else None
if child == 0:
    for _ in range(20):
        assert float(xp.max(xp.sqrt(x))) == 1_999_999 ** 0.5
    sys.stdout.flush()
    os._exit(7)
if child is not None:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.backend("numba")
@pytest.mark.skipif(cores() < 2, reason="there is one processor")
def test_numbas_helpers_come_and_do_not_follow_into_a_child() -> None:
    made = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
        env=os.environ | {"COREPY_NUM_THREADS": "2"},
    )
    assert made.stderr == ""
    assert made.stdout.split()[:1] == ["True"]
    assert made.stdout.split()[1:] in ([], ["7"])


@pytest.mark.backend("numba")
def test_a_budget_of_one_thread_keeps_them_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from corepy import _budget
    from corepy.dispatch import _hot_compiled  # type: ignore[attr-defined]

    _hot.helped_by(_helped._find)
    x = xp.ones(2_000_000)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        xp.sqrt(x)
    monkeypatch.setattr(_budget, "_budget", 1)
    before = _hot_compiled.jobs_shared()
    for _ in range(20):
        xp.sqrt(x)
    assert _hot_compiled.jobs_shared() == before
    assert _helped._find(1e9) is None  # and nothing is loaded for them
