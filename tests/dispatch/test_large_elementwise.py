"""Elementwise operations on some ten thousand elements, which the compiled hot path runs itself.

Nobody goes over the results again, so that what NumPy says of them has to come all the same: both
forms of the hot path give NumPy's values and warnings, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices import _pool
from corepy.devices._device import CPU
from corepy.dispatch import make
from corepy.dispatch._table import Table
from tests.dispatch.natives import NUMPY, compiled, told
from tests.together import together

pytestmark = pytest.mark.usefixtures("routes_off")

#: So many that results come from the pool.
ROWS, COLUMNS = 300, 100
SIZE = ROWS * COLUMNS

Call = Callable[[Any, Any, Any], Any]


def held(found: Any, expected: Any) -> None:
    if isinstance(expected, FloatingPointError):
        assert type(found) is FloatingPointError
        assert str(found).endswith(f": {expected}")  # after the function's name
        return
    found = np.asarray(found)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


CALLS: dict[str, Call] = {
    "a + b": lambda lib, a, b: a + b,
    "a * 3.5": lambda lib, a, b: a * 3.5,
    "2 - a": lambda lib, a, b: 2.0 - a,
    "divide": lambda lib, a, b: lib.divide(a, b),
    "less": lambda lib, a, b: lib.less(a, b),
    "exp": lambda lib, a, b: lib.exp(a),
    "log": lambda lib, a, b: lib.log(a),
    "square": lambda lib, a, b: lib.square(a),
    "floor": lambda lib, a, b: lib.floor(a),
    "rows beside a row": lambda lib, a, b: lib.reshape(a, (ROWS, COLUMNS)) / b[:COLUMNS],
    "a row beside rows": lambda lib, a, b: b[:COLUMNS] - lib.reshape(a, (ROWS, COLUMNS)),
    "many rows beside a short one": lambda lib, a, b: lib.reshape(a, (-1, 10)) * b[:10],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("wish", ["warn", "ignore", "raise"])
@pytest.mark.parametrize("name", CALLS)
@together("special", [None, 0.0, -1.0, np.inf, 1e-38, 3e38])
def test_values_and_warnings_are_numpys(
    name: str, special: float | None, wish: Any, dtype: str
) -> None:
    rng = np.random.default_rng(len(name))
    a, b = (rng.uniform(0.5, 2.0, SIZE).astype(dtype) for _ in range(2))
    if special is not None:
        a[7], b[7], b[SIZE - 1] = special, special, 0.0
    x, y = xp.asarray(a), xp.asarray(b)
    with np.errstate(all=wish):
        expected, warned = told(lambda: CALLS[name](np, a, b), FloatingPointError)
        for _ in range(2):
            found, also = told(lambda: CALLS[name](xp, x, y), FloatingPointError)
            held(found, expected)
            assert also == warned


def test_conditions_of_before_are_nobodys() -> None:
    x = xp.asarray(np.full(SIZE, 1e300))
    with np.errstate(all="ignore"):
        x * x
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(np.asarray(x + x), np.full(SIZE, 2e300))


@compiled
def test_results_lie_in_recycled_memory() -> None:
    x = xp.asarray(np.arange(float(SIZE)))
    for call in (
        lambda: x + x,
        lambda: x * 2.0,
        lambda: -x,
        lambda: xp.reshape(x, (300, -1)) + x[:100],
    ):
        before = _pool.statistics().allocated_bytes
        made = call()
        assert _pool.statistics().allocated_bytes >= before + 8 * SIZE
        native = np.asarray(made)
        part, values = native[..., 5:], native[..., 5:].copy()
        del made, native
        again = [call() for _ in range(3)]
        np.testing.assert_array_equal(part, values)  # a view holds the memory
        assert all(not np.shares_memory(part, np.asarray(other)) for other in again)
        del part, again
        assert _pool.statistics().allocated_bytes == before


def test_resizing_a_result_keeps_its_values() -> None:
    native = (xp.asarray(np.arange(float(SIZE))) + 1.0)._native
    native.resize(2 * SIZE, refcheck=False)
    np.testing.assert_array_equal(native[:SIZE], np.arange(1.0, SIZE + 1))
    assert not native[SIZE:].any()


@compiled
@pytest.mark.parametrize("routed", [False, True])
def test_what_chooses_by_size_alone_is_asked_for_rows_too(routed: bool) -> None:
    """Such as offloading: only of what routes say do loops that threads share know better."""
    asked = []

    def gate(a: Any, b: Any) -> Any:
        asked.append(a.shape)
        return a + b

    least = 20_000
    vars(gate).update({"least": least, "leasts": {"spread": least}} if routed else {"least": least})
    table = Table(NUMPY, CPU, _dtypes.float64)
    table["add"] = (gate, table)
    table.settle("add", gate, table, NUMPY.loop("add"))
    rows = make(np.ones((ROWS, COLUMNS)), table)
    found = rows + make(np.ones(COLUMNS), table)
    np.testing.assert_array_equal(np.asarray(found), np.full((ROWS, COLUMNS), 2.0))
    assert asked == ([] if routed else [(ROWS, COLUMNS)])


@pytest.mark.parametrize("size", [SIZE, 1_000_003])
def test_copies_of_a_million_elements_are_numpys(size: int) -> None:
    native = np.random.default_rng(9).uniform(-1e5, 1e5, size)
    native[7] = 1e300
    x = xp.asarray(native)
    for dtype in ("float32", "float64"):
        found, warned = told(lambda name=dtype: xp.astype(x, getattr(xp, name)))
        right, of_numpy = told(lambda name=dtype: native.astype(name))
        held(found, right)
        assert warned == of_numpy
    parts = [x, x]
    for argument in (parts, tuple(parts)):
        held(xp.concat(argument), np.concatenate([native, native]))
        held(xp.stack(argument, axis=1), np.stack([native, native], axis=1))
    narrow = np.linspace(0, 1, size, dtype="float32")
    held(xp.add(x, xp.asarray(narrow)), native + narrow)  # which is converted first


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "complex128"])
def test_rows_at_many_indices_are_numpys(dtype: str) -> None:
    native = np.random.default_rng(3).integers(-99, 99, 1_000_000).astype(dtype)
    indices = np.random.default_rng(4).integers(-9_000, 9_000, 100_000)
    for x in (native, native[:81_000].reshape(9_000, 3, 3), native[: 2 * 9_000].reshape(-1, 2)):
        held(xp.take(xp.asarray(x), xp.asarray(indices), axis=0), np.take(x, indices, axis=0))
    few = xp.asarray(native[:9_000])
    indices[-1] = 9_000
    with pytest.raises(IndexError, match="take"):
        xp.take(few, xp.asarray(indices))
    assert few.shape == (9_000,)


@pytest.mark.parametrize("name", ["exp", "log", "negative", "sqrt"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_written_past_the_caches_is_what_the_loop_gives(name: str, dtype: str) -> None:
    """Of loops that take long, which have two ways, and others.

    Up to an end that is in the middle of all parts.
    """
    native = np.random.default_rng(0).uniform(0.1, 9, 5_000_001).astype(dtype)
    some = np.r_[0:3000, 2**20 - 1000 : 2**20 + 1000, len(native) - 3000 : len(native)]
    expected = getattr(np, name)(native[some])
    x = xp.asarray(native)
    for _ in range(3):
        found = getattr(xp, name)(x).unwrap()
        np.testing.assert_allclose(found[some], expected, rtol=4 * np.finfo(dtype).eps, atol=1e-9)
