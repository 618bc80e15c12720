"""What a signal's handler raises, such as a time limit, reaches the caller from anywhere."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import pytest

import corepy
from corepy._signals import is_of_a_handler
from corepy.dispatch import _registry

xp = corepy.array_api


class LateError(Exception):
    """What a time limit raises."""


class Limit:
    """Handlers of all kinds that Python takes."""

    def __call__(self, *_: object) -> NoReturn:
        raise LateError("too late")

    def method(self, *_: object) -> NoReturn:
        self()


def limit(*_: object) -> NoReturn:
    raise LateError("too late")


@pytest.fixture(
    params=[limit, Limit(), Limit().method, partial(limit, 1)], ids=lambda h: type(h).__name__
)
def handler(request: pytest.FixtureRequest) -> Any:
    before = signal.signal(signal.SIGTERM, request.param)
    yield request.param
    signal.signal(signal.SIGTERM, before)


#: Where it strikes: not in what others have Python call, such as of its garbage collector.
PLACES = tuple(os.path.dirname(module.__file__ or "") for module in (corepy, np))


def places(call: Callable[[], object], strike: int | None) -> int:
    """Run a call with a signal at one of the places where Python looks for signals; count them.

    That is where a function in Python begins, and where one in C has returned. What NumPy's blocks
    leave behind in such a case ends with the context.
    """
    passed = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal passed
        code = frame.f_code
        if event in ("call", "c_return") and code.co_filename.startswith(PLACES):
            passed += 1
            if passed == strike:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGTERM)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        copy_context().run(call)
    finally:
        sys.setprofile(before)
    return passed


SMALL = xp.asarray(np.arange(1.0, 7.0).reshape(2, 3))
SQUARE = xp.asarray(np.eye(3) + 1)
LARGE = xp.asarray(np.random.default_rng(0).random(200_000))
MATRIX = xp.reshape(LARGE, (200, 1000))
INDICES = xp.asarray(np.arange(200_000)[::-1].copy())

CALLS: dict[str, Callable[[], object]] = {
    "add": lambda: SMALL + SMALL,
    "add a scalar": lambda: 2.0 + SMALL,
    "int * float": lambda: xp.asarray([1, 2]) * 0.5,
    "sin": lambda: xp.sin(SMALL),
    "sum": lambda: xp.sum(SMALL, axis=0),
    "where": lambda: xp.where(SMALL > 2, SMALL, SMALL),
    "concat": lambda: xp.concat([SMALL, SMALL]),
    "take": lambda: xp.take(SMALL, xp.asarray([1, 0]), axis=0),
    "key": lambda: SMALL[0, ::2],
    "key of arrays": lambda: SMALL[xp.asarray([1, 0]), 1:],
    "zeros": lambda: xp.zeros((2, 3)),
    "full": lambda: xp.full((2, 3), 1.5),
    "reshape": lambda: xp.reshape(SMALL, (3, 2)),
    "matmul": lambda: SQUARE @ SQUARE,
    "inv": lambda: xp.linalg.inv(SQUARE),
    "fft": lambda: xp.fft.fft(LARGE),
    "argsort": lambda: xp.argsort(LARGE),
    "sort": lambda: xp.sort(LARGE),
    "large mask": lambda: LARGE[LARGE > 0.5],
    "large take": lambda: xp.take(LARGE, INDICES),
    "large key": lambda: LARGE[INDICES],
    "large exp": lambda: xp.exp(LARGE),
    "kernel": lambda: corepy.kernels.softmax(MATRIX, -1),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_strikes_anywhere(name: str) -> None:
    call = CALLS[name]
    before = signal.signal(signal.SIGTERM, limit)
    try:
        for _ in range(3):
            call()  # what is imported, made and learned at first is not tried
        for strike in range(1, places(call, None) + 1):
            try:
                passed = places(call, strike)
            except LateError as error:
                assert str(error) == "too late"  # noqa: PT017  # or it took fewer places this time
            else:
                assert passed < strike
    finally:
        signal.signal(signal.SIGTERM, before)
    call()


def test_handlers_of_all_kinds_are_known(handler: Callable[..., object]) -> None:
    def library() -> None:
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(LateError) as caught:
        library()
    assert is_of_a_handler(caught.value)


def test_a_library_whose_import_was_interrupted_is_imported_again(
    handler: Callable[..., object],
) -> None:
    imports = []

    def loader() -> Any:
        imports.append(1)
        if len(imports) == 1:
            signal.raise_signal(signal.SIGTERM)
        return _registry.load("numpy")

    record = _registry.BackendRecord("slow", ("cpu",), lambda: None, loader, 1, ("slow",))
    _registry._add(record)
    try:
        with pytest.raises(LateError):
            _registry.load("slow")
        _registry.load("slow")
    finally:
        corepy.unregister_backend("slow")
    assert len(imports) == 2


def test_what_a_library_raises_is_not_a_handlers(handler: Callable[..., object]) -> None:
    def library() -> NoReturn:
        raise LateError("too late")

    with pytest.raises(LateError) as caught:
        library()
    assert not is_of_a_handler(caught.value)
