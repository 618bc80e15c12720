"""Two arrays of one table meet in at most two frames of Python, and the rest does not weigh."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import corepy.array_api as xp


def frames(call: Callable[..., Any], *args: Any) -> list[str]:
    """Return the names of the Python functions that a call enters."""
    call(*args)  # the tables fill on first use
    entered: list[str] = []

    def profile(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            entered.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        call(*args)
    finally:
        sys.setprofile(None)
    return entered


def plus(a: Any, b: Any) -> Any:
    return a + b


@pytest.mark.backend("numpy")
@pytest.mark.parametrize("dtype", [xp.float32, xp.float64, xp.int64])
def test_two_arrays_meet_in_at_most_two_frames(dtype: Any) -> None:
    x = xp.ones(10, dtype=dtype)
    operators = frames(plus, x, x)
    assert operators[0] == "plus"
    assert len(operators) - 1 <= 2
    for call in (xp.add, xp.multiply, xp.less, xp.maximum):
        assert len(frames(call, x, x)) <= 2


@pytest.mark.backend("numpy")
def test_one_array_passes_in_at_most_two_frames() -> None:
    x = xp.ones(10)
    for call in (xp.exp, xp.sqrt, xp.abs, xp.negative):
        assert len(frames(call, x)) <= 2


@pytest.mark.backend("numpy")
def test_the_frames_do_not_grow_with_the_array_or_its_shape() -> None:
    for shape in ((1,), (1000,), (0,), (3, 4, 5)):
        x = xp.ones(shape)
        assert len(frames(xp.add, x, x)) <= 2


def test_dtypes_and_devices_are_interned(backend: str) -> None:
    x, y = xp.ones(2), xp.zeros((3, 4))
    assert x.dtype is y.dtype is xp.float64
    assert x.device is y.device
    assert x._table is y._table
    assert (x + x)._table is x._table
    assert (x < x)._table is xp.ones(1, dtype=xp.bool)._table
