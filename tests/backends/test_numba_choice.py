"""When the loops of the Numba backend run, and in which threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pytest

from tests.conftest import required

numba = required("numba")

from corepy._loops import _compile, _sharing, _simd  # noqa: E402 (they import numba)
from corepy.backends.numba import _backend, _glue, _matrices  # noqa: E402
from tests.backends.numbas import (  # noqa: E402
    FLOATS,
    Array,
    assert_same,
    run,
    sample,
)
from tests.sharing import share, work_alone  # noqa: E402

# ---------------------------------------------------------------------------- when kernels run


def test_small_arrays_are_numpys() -> None:
    for name, operation in _backend.OPERATIONS.items():
        assert operation.__name__ == name
        assert operation.small is _glue.numpys(name)
        if _glue.FORCED is None:
            assert operation.least >= 512
        else:
            assert operation.least == _glue.FORCED


def test_what_runs_by_size() -> None:
    calls = []

    @_glue.operation("negative", 4)
    def negative(x: Array, /) -> Array | None:
        calls.append(x.size)
        return None if x[0] else x

    @_glue.operation("add", 4)
    def add(x1: Array, x2: Array, /) -> Array | None:
        calls.append((x1.size, x2.size))
        return x1

    least = 4 if _glue.FORCED is None else _glue.FORCED
    assert negative.least == add.least == least
    assert negative(np.arange(4.0)).tolist() == [0, 1, 2, 3]
    assert negative(np.arange(1.0, 5.0)).tolist() == [-1, -2, -3, -4]  # left to NumPy
    assert add(np.arange(1.0), np.zeros(9)).tolist() == [0]
    assert calls == [4, 4, (1, 9)]
    if least == 4:
        assert negative(np.zeros(3)).tolist() == [0] * 3
        assert add(np.ones(3), np.float64(1)).tolist() == [2] * 3
        assert calls == [4, 4, (1, 9)]


def test_masks_that_rarely_change_are_numpys() -> None:
    x = np.arange(20_000)
    own = _backend.OPERATIONS["__getitem__"].own
    if _glue.FORCED is None:
        assert own(x, x % 100 == 3) is None
        assert own(x, x % 100 != 3) is None
    assert own(x, x % 10 == 3).tolist() == list(range(3, 20_000, 10))


def test_the_setting_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COREPY_NUMBA_THRESHOLD", raising=False)
    assert _glue.forced() is None
    monkeypatch.setenv("COREPY_NUMBA_THRESHOLD", "0")
    assert _glue.forced() == 1
    monkeypatch.setenv("COREPY_NUMBA_THRESHOLD", "all")
    with pytest.raises(ValueError, match="COREPY_NUMBA_THRESHOLD is 'all'; expected a number"):
        _glue.forced()


def test_loops_compile_where_no_folder_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(function: Any) -> None:
        asked.append(function.__name__)
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(_compile, "_Cache", refuse)

    @_compile.compiler([])()
    def double(x: Any) -> Any:
        return 2 * x

    assert double(21) == 42
    assert asked == ["double"]
    assert double.targetoptions["nogil"]


@pytest.mark.parametrize(
    "setting", [("CPU_NAME", "generic"), ("CPU_FEATURES", ""), ("DISABLE_JIT", 1)]
)
def test_divisions_are_numpys_without_fused_operations(
    setting: tuple[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, *setting)
    assert not _simd.fuses()


def test_nothing_but_numpy_runs_where_numba_was_told_not_to_compile() -> None:
    code = (
        "import numpy as np\n"
        "from corepy.backends.numba import NumbaBackend, _backend\n"
        "from corepy.backends.numba._glue import numpys\n"
        "backend = NumbaBackend()\n"
        "assert all(backend.operation(name) is numpys(name) for name in _backend.OPERATIONS)\n"
        "x = np.arange(300_000)\n"
        "indices = x[::-1].copy()\n"
        "found = backend.execute('take', [x, indices], axis=0)\n"
        "print((found == indices).all())\n"
    )
    environ = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_no_thread_pool_is_started() -> None:
    code = (
        "import threading, numpy as np, numba\n"
        "from numba.np.ufunc import parallel\n"
        "from corepy.backends.numba import NumbaBackend\n"
        "x = np.ones(100_000)\n"
        "found = NumbaBackend().execute('sum', [x], axis=None, dtype=x.dtype, keepdims=False)\n"
        "print(float(found), threading.active_count(), parallel._is_initialized)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["100000.0", "1", "False"]


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64"])
def test_integer_products_in_floats_equal_numpys(
    dtype: str, ran: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_matrices, "_LARGE", 1)
    x = np.arange(600 * 7).reshape(600, 7).astype(dtype)
    y = np.arange(7 * 5).reshape(7, 5).astype(dtype)
    for a in (x, np.asfortranarray(x), x[::-1]):  # those of int8 wrap around
        assert_same(run("matmul", a, y), a @ y)
        assert_same(run("tensordot", a, y, axes=((1,), (0,))), a @ y)
    # 2**53 + 1 is no float64: sums that reach it have to be found otherwise.
    if dtype == "int64":
        great = np.full((64, 8), 2**50, dtype)
        great[:, 0] += 1
        assert_same(run("tensordot", great, np.ones((8, 8), dtype), axes=((1,), (0,))),
                    great @ np.ones((8, 8), dtype))  # fmt: skip
    assert ran["matmul"] == 3
    other = {"axes": ((0,), (0,))}
    np.testing.assert_array_equal(run("tensordot", x, x, **other), np.tensordot(x, x, **other))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integer_division_equals_numpys(dtype: str, ran: Counter[str]) -> None:
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(3)
    edge = 2 ** (53 if dtype == "int64" else 31) - 1
    points = np.array([-edge, -edge + 1, -7, -3, -2, -1, 1, 2, 3, 7, edge - 1, edge], dtype)
    divisors = np.tile(points, 300)
    close = rng.integers(-3, 3, divisors.size) * (divisors // 3) + rng.integers(
        -1, 2, divisors.size
    )
    for x in (rng.permutation(divisors), close.astype(dtype), np.full_like(divisors, limits.min)):
        with np.errstate(over="ignore"):
            wanted = np.floor_divide(x, divisors), np.remainder(x, divisors)
        assert_same(run("floor_divide", x, divisors), wanted[0])
        assert_same(run("remainder", x, divisors), wanted[1])
    assert ran["floor_divide"] == ran["remainder"] == 3
    divisors[2000] = 0
    for name in ("floor_divide", "remainder"):
        with pytest.raises(ZeroDivisionError, match="^x2 holds 0; expected no zero among integers"):
            run(name, x, divisors)


def test_threads_at_once(ran: Counter[str]) -> None:
    arrays = [np.full(50_000, float(i)) for i in range(16)]

    def work(x: Array) -> tuple[float, float, int]:
        total = run("sum", x, axis=None, dtype=x.dtype, keepdims=False)
        floor = run("floor_divide", x, np.float64(2))
        kept = run("__getitem__", x, x > 7)
        return float(total), float(floor[-1]), kept.size

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, arrays))
    assert found == [(50_000.0 * i, float(i // 2), 50_000 * (i > 7)) for i in range(16)]


# ---------------------------------------------------------------------------- in threads

#: Calls of operations whose work threads share: their names, and what is made of values.
SHARED: Final[dict[str, Callable[[Array], tuple[tuple[Any, ...], dict[str, Any]]]]] = {
    "__getitem__": lambda x: ((x.ravel(), x.ravel() > 3), {}),
    "add": lambda x: ((x, x[:1]), {}),
    "argmax": lambda x: ((x.ravel(),), {"axis": None, "keepdims": False}),
    "argsort": lambda x: ((x.ravel(),), {"axis": 0, "descending": True, "stable": True}),
    "count_nonzero": lambda x: ((x,), {"axis": None, "keepdims": False}),
    "cumulative_sum": lambda x: ((x,), {"axis": 1, "dtype": x.dtype, "include_initial": True}),
    "exp": lambda x: ((x,), {}),
    "floor_divide": lambda x: ((x, x[::-1].copy()), {}),
    "matmul": lambda x: ((x[:600].astype("i8"), x[:600].T.astype("i8")), {}),
    "max": lambda x: ((x,), {"axis": 1, "keepdims": True}),
    "mean": lambda x: ((x,), {"axis": 0, "keepdims": False}),
    "sin": lambda x: ((x,), {}),
    "sort": lambda x: ((x,), {"axis": 1, "descending": False, "stable": True}),
    "sum": lambda x: ((x,), {"axis": None, "dtype": x.dtype, "keepdims": False}),
    "take": lambda x: ((x, np.arange(-900, 900)), {"axis": 0}),
    "unique_all": lambda x: ((x.round(),), {}),
    "var": lambda x: ((x,), {"axis": None, "correction": 1, "keepdims": False}),
    "where": lambda x: ((x > 3, x, x[0, 0]), {}),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", SHARED)
def test_results_do_not_depend_on_the_number_of_threads(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = sample((1331, 221), dtype)
    args, params = SHARED[name](x)
    with monkeypatch.context() as patch:
        work_alone(patch)
        alone = run(name, *args, **params)
    for threads in (2, 3, 7):
        with monkeypatch.context() as patch:
            asked = share(patch, threads)
            assert_same(run(name, *args, **params), alone)
        assert asked


def test_the_budget_of_threads_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sharing, "budget", lambda: 1)
    monkeypatch.setattr(_sharing, "helpers", None)  # nobody may be called
    x = np.ones(3_000_000)
    own = _backend.OPERATIONS
    assert own["add"](x, x)[-1] == 2
    assert own["sign"](x)[-1] == 1
    assert own["sum"](x, axis=None, dtype=x.dtype, keepdims=False) == x.size
