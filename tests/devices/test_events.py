"""Events of streams that were made before and after another library was loaded."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

import corepy
from corepy._streams import Event, Stream
from corepy.backends._streams import Streams
from corepy.devices._device import CPU, as_device
from corepy.testing import FakeBackend, fake_devices


class First(Streams):
    """A library whose marks are times."""

    finished: Any = None

    def create(self) -> tuple[int, object]:
        return 1, None

    def current(self) -> int:
        return 0

    def using(self, address: int) -> AbstractContextManager[object]:
        return nullcontext()

    def record(self, address: int, *, timing: bool = False) -> float:
        return 0.5

    def wait(self, address: int, mark: Any) -> None: ...

    def is_done(self, mark: Any) -> bool:
        return True

    def finish(self, mark: Any) -> None:
        self.finished = mark

    def elapsed(self, start: Any, end: Any) -> float:
        return float(end - start)


class Second(First):
    """Another one, whose marks only itself can read."""

    def record(self, address: int, *, timing: bool = False) -> Any:
        return object()


def event(streams: Streams | None) -> Event:
    mark = time.perf_counter() if streams is None else streams.record(1, timing=True)
    return Event(CPU, streams, mark, timing=True)


@pytest.mark.parametrize(
    ("one", "other"), [(First(), Second()), (Second(), First()), (None, First()), (First(), None)]
)
def test_time_between_events_of_two_libraries_is_refused(
    one: Streams | None, other: Streams | None
) -> None:
    with pytest.raises(ValueError, match="^elapsed_time: the events are of streams of two libr"):
        event(one).elapsed_time(event(other))
    assert event(First()).elapsed_time(event(First())) == 0.0


def test_times_are_between_events_of_one_device() -> None:
    end = Event(as_device("cuda:0"), None, 1.0, timing=True)
    with pytest.raises(ValueError, match="^elapsed_time: end is 'cuda:0'; expected one of cpu"):
        event(None).elapsed_time(end)


def test_a_stream_lets_the_host_wait_for_the_event_of_another_library() -> None:
    stream, other = Stream(CPU, ordered=True), Second()
    stream._streams, stream.address = First(), 1
    mark = other.record(1)
    stream.wait(Event(CPU, other, mark, timing=False))
    assert other.finished is mark


def test_a_time_on_a_device_without_streams_is_taken_when_its_work_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[str] = []
    monkeypatch.setattr(FakeBackend, "synchronize", lambda self, place: waited.append(str(place)))
    with fake_devices():
        stream = corepy.stream("fake:device1")
        stream.record()
        assert waited == []
        stream.record(timing=True)
        assert waited == ["fake:device1"]


def test_both_events_have_a_time_and_are_waited_for() -> None:
    start, end = (Event(CPU, First(), 0.5, timing=True) for _ in range(2))
    for timed, untimed in ((start, 1), (end, 0)):
        pair = [timed, timed]
        pair[untimed] = Event(CPU, First(), 0.5, timing=False)
        with pytest.raises(ValueError, match="^elapsed_time: an event has no time"):
            pair[0].elapsed_time(pair[1])
    start.elapsed_time(end)
    for each in (start, end):
        assert isinstance(each._streams, First)
        assert each._streams.finished == 0.5
