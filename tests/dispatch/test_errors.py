"""Errors on their way through dispatch keep nothing alive once they are handled."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

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
