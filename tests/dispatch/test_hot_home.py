"""What computes an operation at home: the loops beside the tables, and a callable for the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.devices import _pool
from corepy.devices._device import CPU
from corepy.dispatch._hot import home
from corepy.dispatch._table import Table
from tests.dispatch.natives import NUMPY, compiled


def at_home(name: str, dtype: Any = xp.float64) -> tuple[Callable[..., Any], list[str]]:
    """Return what computes an operation, and a list that tells when the callable was asked."""
    table, asked = Table(NUMPY, CPU, dtype), []
    native = NUMPY.operation(name)
    assert native is not None

    def ask(*args: Any, **params: Any) -> Any:
        asked.append(name)
        return native(*args, **params)

    return home(table, name, ask, table[name][1], NUMPY.loop(name)), asked


X = np.linspace(-3.0, 5.0, 60_000).reshape(600, 100)


@compiled
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("add", (X, X)),
        ("add", (X, 2.5)),
        ("subtract", (1, X)),
        ("less", (X, X[0])),
        ("multiply", (X[:, :1].copy(), X[0])),
        ("square", (X,)),
    ],
)
def test_elementwise_operations_need_no_callable(name: str, args: tuple[Any, ...]) -> None:
    run, asked = at_home(name)
    expected = getattr(np, name)(*args)
    found = run(*args)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
    assert not asked


@compiled
@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 1])
def test_nor_do_reductions(name: str, axis: int | None) -> None:
    run, asked = at_home(name)
    np.testing.assert_array_equal(run(X, axis=axis, keepdims=False), getattr(X, name)(axis))
    assert not asked


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "int64", "float32"])
def test_sums_over_axes_with_others_between_can_be_listened_to(dtype: str) -> None:
    x = xp.asarray(np.ones((2, 3, 2), dtype))
    for call in (lambda: xp.sum(x, axis=(0, 2)), lambda: xp.prod(x, axis=(0, 2))):
        expected = call()
        found = []
        listened = corepy.explain(lambda call=call, found=found: found.append(call()))
        assert len(listened.records) == 1
        with corepy.profile():
            found.append(call())
        for one in found:
            assert one.dtype == expected.dtype
            assert one.tolist() == expected.tolist()


@compiled
def test_what_the_loops_do_not_take_is_the_callables() -> None:
    run, asked = at_home("add")
    turned = np.asfortranarray(X)
    single, whole = X.astype(np.float32), np.ones(100, np.int64)
    apart = np.zeros(X.nbytes + 1, np.uint8)[1:].view(X.dtype).reshape(X.shape)  # not aligned
    for args in ((apart, X), (X, np.float64(2)), (X, single), (whole, X)):
        asked.clear()
        np.testing.assert_array_equal(run(*args), np.add(*args))
        assert asked == ["add"]
    asked.clear()
    for args in ((turned, X), (X[::2], X[::2])):
        np.testing.assert_array_equal(run(*args), np.add(*args))
    assert asked == []  # loops take what has gaps, or another order
    run, asked = at_home("max")
    np.testing.assert_array_equal(run(X, axis=1, keepdims=True), X.max(1, keepdims=True))
    np.testing.assert_array_equal(run(turned, axis=1, keepdims=False), X.max(1))
    assert asked == ["max", "max"]
    run, asked = at_home("sum")
    single = np.dtype(np.float32)
    found = run(X, axis=None, dtype=single, keepdims=False)
    assert (found.dtype, asked) == (single, ["sum"])


@compiled
def test_warnings_and_errors_are_numpys() -> None:
    run, _ = at_home("divide")
    with np.errstate(divide="warn"), pytest.warns(RuntimeWarning, match="divide by zero"):
        run(np.ones(20_000), np.zeros(20_000))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        run(np.ones(20_000), np.zeros(20_000))
    with pytest.raises(ValueError, match="broadcast"):
        run(np.ones(3), np.ones(4))


def test_callables_that_choose_by_size_and_those_without_a_loop_stay_themselves() -> None:
    table = Table(NUMPY, CPU, xp.float64)

    def native(*args: Any, **params: Any) -> Any:
        return None

    assert home(table, "squeeze", native, None, None) is native
    vars(native)["least"] = 1000
    assert home(table, "add", native, table, NUMPY.loop("add")) is native


@compiled
def test_those_who_listen_hear_of_the_loops_that_run() -> None:
    x = xp.reshape(xp.arange(2_000_000, dtype=xp.float64) % 997, (-1, 10))
    for run in (lambda: xp.argmin(x, axis=1), lambda: x + x[0, :], lambda: xp.square(x)):
        before = _pool.statistics().allocated_bytes
        explanation = corepy.explain(run)
        assert explanation.records[-1].backend == "numpy"
        # NumPy's own results are not in recycled memory while somebody listens.
        size = 8 * explanation.result.size
        assert _pool.statistics().allocated_bytes >= before + size
        np.testing.assert_array_equal(explanation.result.unwrap(), run().unwrap())
        del explanation
