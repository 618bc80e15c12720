"""Calls that were seen before, on arrays of libraries other than NumPy."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import corepy
from corepy.dispatch._table import forget_entries
from tests.dispatch.short_ways import seen

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda xp, x: xp.sum(x),
    "sum, an axis": lambda xp, x: xp.sum(x, axis=-1),
    "sum, kept": lambda xp, x: xp.sum(x, axis=0, keepdims=True),
    "sum of integers": lambda xp, x: xp.sum(xp.astype(x, xp.int32)),
    "sum of small ones": lambda xp, x: xp.sum(xp.astype(x, xp.uint8), axis=1),
    "prod": lambda xp, x: xp.prod(x, axis=1),
    "max": lambda xp, x: xp.max(x),
    "min": lambda xp, x: xp.min(x, axis=1, keepdims=True),
    "mean": lambda xp, x: xp.mean(x, axis=0),
    "std": lambda xp, x: xp.std(x, axis=0, correction=1),
    "any": lambda xp, x: xp.any(x > 2, axis=0),
    "all": lambda xp, x: xp.all(x > 0),
    "argmax": lambda xp, x: xp.argmax(x, axis=1),
    "count_nonzero": lambda xp, x: xp.count_nonzero(x - 1),
    "sort": lambda xp, x: xp.sort(x, axis=1),
    "astype": lambda xp, x: xp.astype(x, xp.float32),
    "reshape": lambda xp, x: xp.reshape(x, (-1,)),
    "permute_dims": lambda xp, x: xp.permute_dims(x, (1, 0)),
    "matmul": lambda xp, x: xp.matmul(x, x),
    "@": lambda xp, x: x @ x,
    "a row": lambda xp, x: x[1],
    "an element": lambda xp, x: x[1, -1],
    "a slice": lambda xp, x: x[1:],
    "far": lambda xp, x: x[-(10**20) : 10**20],
    "backwards": lambda xp, x: x[::-1],
    "parts": lambda xp, x: x[..., None, :1],
    "a mask": lambda xp, x: x[x > 1],
}


#: On the backends whose calls are learned.
learned = pytest.mark.parametrize(
    "backend",
    [pytest.param(name, marks=pytest.mark.backend(name)) for name in ("torch", "jax", "cupy")],
    indirect=True,
)


@pytest.fixture
def x(xp: ModuleType) -> Any:
    forget_entries()
    made = xp.asarray([[2.0, 1.0], [1.0, 3.0]])
    assert made._table.repeats
    return made


@learned
@pytest.mark.parametrize("name", CALLS)
def test_every_call_gives_what_the_first_gives(xp: ModuleType, x: Any, name: str) -> None:
    answers = [CALLS[name](xp, x) for _ in range(3)]
    with corepy.backend_priority(["numpy"]):
        expected = CALLS[name](xp, xp.asarray(np.array([[2.0, 1.0], [1.0, 3.0]])))
    for each in answers:
        assert each.backend == x.backend
        assert each.dtype is expected.dtype
        assert each.shape == expected.shape
        np.testing.assert_allclose(each.tolist(), expected.tolist(), rtol=1e-6)


@learned
def test_a_call_that_was_seen_goes_past_the_function(
    xp: ModuleType, x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from corepy.array_api import _statistical

    xp.sum(x)  # the table has an entry from now on
    expected = xp.sum(x, axis=1).tolist()

    def refuse(*args: Any, **params: Any) -> Any:
        raise AssertionError("the function was asked")

    monkeypatch.setattr(_statistical, "_accumulate", refuse)
    assert xp.sum(x, axis=1).tolist() == expected
    assert xp.sum(x + 1, axis=1).tolist() == [5.0, 6.0]
    with pytest.raises(AssertionError):
        xp.sum(x, axis=0)


@learned
def test_what_is_equal_and_means_something_else_is_another_call(xp: ModuleType, x: Any) -> None:
    assert xp.sum(x, axis=1, keepdims=True).shape == (2, 1)
    with pytest.raises(TypeError):
        xp.sum(x, axis=1, keepdims=1)
    with pytest.raises(TypeError):
        xp.sum(x, axis=True)
    assert xp.sum(x, axis=1).shape == (2,)


@learned
def test_arrays_without_elements_are_another_call(xp: ModuleType, x: Any) -> None:
    assert xp.max(x).tolist() == 3.0
    with pytest.raises(ValueError, match="at least one element"):
        xp.max(x[:0])
    assert xp.sum(x[:0]).tolist() == 0.0
    assert x[:0][None, :].shape == (1, 0, 2)


@learned
def test_errors_are_those_of_the_function(xp: ModuleType, x: Any) -> None:
    keys = [5, (0, 0, 0), (0, 5), (..., ...), slice(None, None, 0), "a", 1.0, 10**30]
    for key in keys:
        first = seen(lambda key=key: x[key])[1]
        assert first is not None
        assert seen(lambda key=key: x[key])[1] == first
    assert xp.sum(x, axis=1).shape == (2,)
    with pytest.raises(IndexError):
        xp.sum(x, axis=2)
    with pytest.raises(ValueError, match="matmul"):
        xp.matmul(x, xp.ones((3, 3)))


@learned
def test_who_listens_hears_every_call(xp: ModuleType, x: Any) -> None:
    def calls() -> None:
        for _ in range(3):
            xp.sum(x)
            x[1:]
            x * 2

    calls()
    heard = corepy.explain(calls)
    assert [row.operation for row in heard.records] == ["sum", "__getitem__", "multiply"] * 3


@pytest.mark.backend("jax")
def test_a_call_that_was_seen_is_traced() -> None:
    import jax

    with corepy.backend_priority(["jax"]):
        xp = corepy.array_api
        x = xp.asarray(np.arange(4.0))
        xp.sum(x)

        @jax.jit
        def loss(native: Any) -> Any:
            return xp.sum(xp.asarray(native)[1:] * 2).unwrap()

        assert float(loss(x.unwrap())) == 12.0
        assert jax.grad(loss)(x.unwrap()).tolist() == [0.0, 2.0, 2.0, 2.0]
        assert xp.sum(x).tolist() == 6.0


@pytest.mark.backend("torch")
def test_gradients_pass_through_what_was_seen() -> None:
    import torch

    xp = corepy.array_api
    for _ in range(3):
        native = torch.tensor([1.0, 2.0], requires_grad=True)
        xp.sum(2 - xp.asarray(native) * 3).unwrap().backward()
        assert native.grad is not None
        assert native.grad.tolist() == [-3.0, -3.0]
