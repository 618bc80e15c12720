"""What a signal's handler raises, such as a time limit, reaches the caller from anywhere."""

from __future__ import annotations

import inspect
import operator
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextvars import copy_context
from functools import partial
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

import corepy
import corepy.testing
from corepy import _openmp
from corepy._signals import is_of_a_handler
from corepy.demo import _run as _demo
from corepy.devices._device import CPU
from corepy.devices._transfer import tried
from corepy.dispatch import _neighbours, _registry, _route_files, _route_sources
from corepy.tuning import _device_cases
from corepy.tuning import _offload as _tune_offload
from corepy.tuning._cases import NUMPY, Case
from tests.conftest import required

xp = corepy.array_api


class LateError(Exception):
    """What a time limit raises, of a class that no library has."""


LATE = (LateError, TimeoutError)


class Limit:
    """Handlers of all kinds that Python takes."""

    def __call__(self, *_: object) -> NoReturn:
        raise LateError("too late")

    def method(self, *_: object) -> NoReturn:
        self()


def limit(*_: object) -> NoReturn:
    raise LateError("too late")


def timeout(*_: object) -> NoReturn:
    raise TimeoutError("too late")  # an OSError, as what the system refuses is


@pytest.fixture(
    params=[limit, timeout, Limit(), Limit().method, partial(limit, 1)],
    ids=lambda h: getattr(h, "__name__", type(h).__name__),
)
def handler(request: pytest.FixtureRequest) -> Any:
    before = signal.signal(signal.SIGTERM, request.param)
    yield request.param
    signal.signal(signal.SIGTERM, before)


#: Where it strikes: not in what others have Python call, such as of its garbage collector.
PLACES = tuple(os.path.dirname(module.__file__ or "") for module in (corepy, np))


def places(call: Callable[[], object], strike: int | None) -> int:
    """Run a call with a signal at one of the places where Python looks for signals; count them.

    That is where a function in Python begins, and where one in C has returned; but for generators:
    as these are closed Python itself only reports what strikes. What NumPy's blocks leave behind in
    such a case ends with the context.
    """
    passed = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal passed
        code = frame.f_code
        here = code.co_filename.startswith(PLACES) and not code.co_flags & inspect.CO_GENERATOR
        if here and event in ("call", "c_return"):
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
NUMBER = xp.asarray(2.5)
WRITTEN = xp.asarray(np.zeros((2, 3)))
NATIVE = np.zeros(3)

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
    "float": lambda: float(NUMBER),
    "item": NUMBER.item,
    "set": lambda: operator.setitem(WRITTEN, 0, NUMBER),
    "tolist": SMALL.tolist,
    "nested": lambda: xp.asarray([[1, 2], [3.5, 4]]),
    # Which np.asarray calls, but from Python 3.12 on it asks for a buffer first, and NumPy forgets
    # whatever that raises.
    "__array__": SMALL.__array__,
    "from_dlpack": lambda: np.from_dlpack(SMALL),
    "native": lambda: xp.asarray(NATIVE),
    "to": lambda: corepy.to(SMALL, backend="reference"),
    "to_device": lambda: SMALL.to_device("fake:device1"),
}


@pytest.fixture(scope="module")
def fakes() -> Iterator[object]:
    with corepy.testing.fake_devices() as made:
        yield made


@pytest.mark.usefixtures("alone", "fakes")
@pytest.mark.parametrize("handler", [limit, timeout], ids=["limit", "timeout"], indirect=True)
@pytest.mark.parametrize("name", CALLS)
def test_it_strikes_anywhere(name: str, handler: Callable[..., object]) -> None:
    call = CALLS[name]
    for _ in range(3):
        call()  # what is imported, made and learned at first is not tried
    for strike in range(1, places(call, None) + 1):
        try:
            passed = places(call, strike)
        except LATE as error:
            assert str(error) == "too late"  # noqa: PT017  # or it took fewer places this time
        else:
            assert passed < strike
    call()


def test_handlers_of_all_kinds_are_known(handler: Callable[..., object]) -> None:
    def library() -> None:
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(LATE) as caught:
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
        with pytest.raises(LATE):
            _registry.load("slow")
        _registry.load("slow")
    finally:
        corepy.unregister_backend("slow")
    assert len(imports) == 2


def test_a_handler_may_put_another_one_in_its_place_first() -> None:
    def limit_once(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, before)
        raise LateError("too late")

    before = signal.signal(signal.SIGTERM, limit_once)
    with pytest.raises(LateError) as caught:
        signal.raise_signal(signal.SIGTERM)
    assert is_of_a_handler(caught.value)


def test_what_a_library_raises_is_not_a_handlers(handler: Callable[..., object]) -> None:
    def library() -> NoReturn:
        raise LateError("too late")

    with pytest.raises(LATE) as caught:
        library()
    assert not is_of_a_handler(caught.value)


def strike(*_: object, **__: object) -> None:
    """Stand in for what is being done as the time ends."""
    signal.raise_signal(signal.SIGTERM)


def save_a_loop(patch: pytest.MonkeyPatch) -> None:
    required("numba")
    from corepy._loops import _compile as kept

    patch.setattr(kept.FunctionCache, "save_overload", strike)
    kept._Cache.save_overload(object.__new__(kept._Cache), None, None)


def report_on_tinygrad(patch: pytest.MonkeyPatch) -> None:
    required("tinygrad")
    from corepy.backends.tinygrad import _arrays

    with _arrays._reporting("compute"):
        strike()


def look_at_neighbours(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_neighbours, "open", strike, raising=False)
    _neighbours.busy_seconds()


def adopt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_registry.load("numpy"), "adopt", strike)
    # What was wrapped before needs nobody; the other byte order always does.
    xp.asarray(NATIVE.astype(NATIVE.dtype.newbyteorder()))


def export(patch: pytest.MonkeyPatch) -> None:
    native = SimpleNamespace(__dlpack__=strike)
    patch.setattr(_registry.load("numpy"), "exporter", lambda _: native)
    SMALL.__dlpack__(max_version=(1, 0))


def move_again(patch: pytest.MonkeyPatch) -> None:
    def move() -> None:
        if moves:
            strike()
        moves.append(1)
        raise MemoryError

    moves: list[int] = []
    tried(move, _registry.load("numpy"), CPU, CPU)


def connect(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(required("distributed"), "Client", strike)
    corepy.connect("tcp://127.0.0.1:1")


def resolve(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(required("distributed.comm"), "resolve_address", strike)
    corepy.connect("tcp://127.0.0.1:1")


def count_threads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_openmp, "os", SimpleNamespace(stat=strike))
    _openmp._count()


def read_a_table(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_route_files, "text_of", strike)
    _route_sources.read(Path("routes.json"), "table")


SUM = Case("sum", "float64", "all", ())


def compare_an_accelerator(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_tune_offload, "deviation", strike)
    kept: Any = None
    _tune_offload._Measuring(kept, NUMPY, CPU, 0.0, again=False)._deviation(SUM)


def compare_a_candidate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_device_cases, "crossing", strike)
    _device_cases.DeviceCase(SUM, NUMPY, CPU, ()).deviation("numpy")


def demonstrate(patch: pytest.MonkeyPatch) -> None:
    required("sklearn")
    patch.setattr(_demo._picture, "why_not", lambda: "nobody looks at it")
    patch.setattr(_demo, "measure", lambda name, *_: ((), None) if name == "(none)" else strike())
    _demo.main(["--backend", "numpy", "--size", "100"])


@pytest.mark.parametrize(
    "call",
    [
        save_a_loop,
        report_on_tinygrad,
        look_at_neighbours,
        adopt,
        export,
        move_again,
        connect,
        resolve,
        count_threads,
        read_a_table,
        compare_an_accelerator,
        compare_a_candidate,
        demonstrate,
    ],
)
def test_nobody_takes_it_for_a_failure_of_their_own(
    call: Callable[[pytest.MonkeyPatch], None],
    handler: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(LATE), monkeypatch.context() as patch:
        call(patch)
