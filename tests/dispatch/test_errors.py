"""Errors on their way through dispatch: what they become, and what they keep alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.dispatch import recover


class Shortage(MemoryError):
    """Python's own takes no weak references."""


class Value(ValueError):
    """Likewise."""


class Odd(Exception):
    """One that only a library knows."""


@pytest.fixture
def collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Shortage, corepy.InsufficientMemoryError),
        (Value, ValueError),
        (Odd, corepy.BackendError),
        (corepy.DeviceMismatchError, corepy.DeviceMismatchError),
    ],
)
def test_no_frame_holds_the_error_that_passes_it(
    kind: type[Exception], expected: type[Exception]
) -> None:
    x = xp.asarray([1.0])
    errors: list[weakref.ref[Exception]] = []

    def native(*_: Any) -> Any:
        error = kind("words")
        errors.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    def call() -> None:
        try:
            native()
        except Exception as error:
            recover("add", x._table, (x, x), error, native, x._native, x._native)

    with pytest.raises(expected):
        call()
    assert errors
    assert [error() for error in errors] == [None] * len(errors)


@pytest.mark.usefixtures("collector")
@pytest.mark.needs("dask")
def test_errors_of_chunks_keep_no_chunk() -> None:
    from corepy.backends.dask._blocks import Named

    class Chunk:
        pass

    def divide(chunk: Chunk) -> Any:
        raise Value("by nothing")

    chunk = Chunk()
    kept = weakref.ref(chunk)
    with pytest.raises(ValueError, match="^add: by nothing"):
        Named("add", divide)(chunk)
    del chunk
    assert kept() is None


def views(backend: str) -> tuple[Any, Any, Any]:
    """Return a column and a row of 2**32 elements, and a line of 2**60, in the memory of one."""
    one = xp.asarray(1, dtype=xp.int8)
    column, row = (xp.broadcast_to(one, shape) for shape in ((2**32, 1), (1, 2**32)))
    if backend == "torch":
        return column, row, xp.asarray(one.unwrap().expand(2**60))
    return column, row, xp.asarray(np.broadcast_to(np.int8(1), (2**60,)))


@pytest.mark.parametrize(
    "backend",
    [pytest.param(name, marks=pytest.mark.backend(name)) for name in ("numpy", "numba", "torch")],
)
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("add", lambda column, row, line: column + row),
        ("add", lambda column, row, line: line + line),
        ("multiply", lambda column, row, line: xp.multiply(column, row)),
        ("matmul", lambda column, row, line: column @ row),
        (
            "where",
            lambda column, row, line: xp.where(
                xp.broadcast_to(xp.asarray(True), column.shape), row, 0
            ),
        ),
        ("astype", lambda column, row, line: xp.astype(line, xp.float64)),
        ("concat", lambda column, row, line: xp.concat([line] * 9)),
        ("concat", lambda column, row, line: xp.concat([line] * 16)),  # 2**64 is zero
        ("stack", lambda column, row, line: xp.stack([line] * 9)),
        ("cumulative_sum", lambda column, row, line: xp.cumulative_sum(line)),
        ("tile", lambda column, row, line: xp.tile(line, (2,))),
        ("repeat", lambda column, row, line: xp.repeat(line, 2)),
        ("repeat", lambda column, row, line: xp.repeat(line, xp.asarray([2]))),
    ],
)
def test_results_beyond_all_addresses_are_a_lack_of_memory(
    backend: str, name: str, call: Callable[..., Any]
) -> None:
    with corepy.backend_priority([backend]):
        operands = views(backend)
        with pytest.raises(MemoryError, match=f"^{name}: "):
            call(*operands)
