"""Offload: values that lie elsewhere beside arrays of other libraries of the host."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.testing import FakeBackend
from tests.dispatch.offloading import is_resident, matrix, resident

OTHERS = [
    "reference",
    pytest.param("numba", marks=pytest.mark.backend("numba")),
    pytest.param("torch", marks=pytest.mark.backend("torch")),
]
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "less": xp.less,
    "matmul": operator.matmul,
    "where": lambda x, y: xp.where(xp.asarray(True), x, y),
    "mixed": lambda x, y: x * xp.astype(y, xp.float32),
    "in place": operator.iadd,
    "concat": lambda x, y: xp.concat([x, y]),
    "solve": xp.linalg.solve,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("other", OTHERS)
def test_the_first_operand_leads_as_it_does_where_nothing_is_resident(
    eager: FakeBackend, other: str, call: Callable[[Any, Any], Any]
) -> None:
    """Else an array of torch's plus one of NumPy's would be NumPy's, by what was run before."""
    values = np.asarray(matrix(3))
    outcomes = []
    for made in (lambda: resident(values), lambda: xp.asarray(values, device="cpu", copy=True)):
        for swap in (False, True):
            x, y = corepy.to(values + 1, backend=other, device="cpu", copy=True), made()
            found = call(y, x) if swap else call(x, y)
            outcomes.append((found.backend, found.device, found.dtype, type(found.unwrap())))
    assert outcomes[:2] == outcomes[2:]
    assert [name for name, *_ in outcomes[:2]] == [other, "numpy"]


def test_operands_at_home_come_to_what_is_resident(eager: FakeBackend) -> None:
    x, y = xp.ones((3, 3)), resident(np.ones((3, 3)))
    for made in (x + y, y + x, xp.where(y > 0, x, y), x @ y, xp.astype(x, xp.float32) * y):
        assert is_resident(made)


def test_errors_name_the_operands_that_they_name_elsewhere(eager: FakeBackend) -> None:
    x, y = xp.ones((3, 3)), resident(np.ones((3, 3)))
    there = xp.ones((3, 3), device="fake:0")
    for second in (y, x):
        with pytest.raises(corepy.DeviceMismatchError, match="^clip: x is on cpu and max on fake"):
            xp.clip(x, second, there)


def test_an_array_that_is_there_by_name_is_returned_itself(eager: FakeBackend) -> None:
    y = resident(np.ones(3))
    assert corepy.to(y) is y
    assert is_resident(y)
    assert corepy.to(y, backend="numpy") is y
    assert not is_resident(y)
    z = resident(np.ones(3))
    again = corepy.to(z, backend="numpy", copy=True)
    again[0] = 5.0
    assert (z.tolist(), again.tolist()) == ([1.0] * 3, [5.0, 1.0, 1.0])
