"""Threads that help with loops: who has a call, where they wake, and what goes wrong in them."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from corepy import _places

pytest.importorskip("numba")

from corepy._loops import _helpers, _sharing, _waiting

pytestmark = pytest.mark.backend("numba")


def eventually(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not true() and time.monotonic() < end:
        time.sleep(0.001)
    return true()


def test_a_helper_does_the_work_in_a_thread_of_its_own() -> None:
    names: list[str] = []
    (call,) = _helpers.Helpers(1).call(lambda: names.append(threading.current_thread().name), 1)
    assert eventually(lambda: bool(names))
    assert call.settle() == []
    assert names == ["corepy_0"]


def test_who_is_late_does_nothing() -> None:
    done: list[int] = []
    call = _helpers.Call(lambda: done.append(1))
    assert call.settle() == []
    call.join()
    assert done == []


def test_the_caller_waits_for_who_has_begun() -> None:
    begun, go, done = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        go.wait()
        done.append(1)

    (call,) = _helpers.Helpers(1).call(work, 1)
    assert begun.wait(20)
    threading.Timer(0.05, go.set).start()
    call.settle()
    assert done == [1]


def test_errors_come_to_the_caller_and_helpers_go_on() -> None:
    helpers, begun = _helpers.Helpers(1), threading.Event()

    def work() -> None:
        begun.set()
        raise OSError("from a helper")

    (call,) = helpers.call(work, 1)
    assert begun.wait(20)
    (error,) = call.settle()
    assert isinstance(error, OSError)
    done = threading.Event()
    helpers.call(done.set, 1)
    assert done.wait(20)


def test_launch_waits_for_all_helpers_and_raises_what_went_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PARALLEL_FROM", "STRETCH"):
        monkeypatch.setattr(_sharing, name, 1)
    monkeypatch.setattr(_sharing, "get_num_threads", lambda: 3)
    monkeypatch.setattr(_sharing, "budget", lambda: 3)
    monkeypatch.setattr(_sharing._company, "judge", lambda worked, waited: None)
    monkeypatch.setattr(_sharing._company, "alone", 0)
    two = _helpers.Helpers(2)
    monkeypatch.setattr(_sharing, "helpers", lambda: two)
    main, together = threading.get_ident(), threading.Barrier(3)
    begun, ended = set[int](), []

    def loop(start: int, stop: int) -> None:
        me = threading.get_ident()
        if me in begun:
            return
        begun.add(me)
        together.wait(20)
        if me != main:
            time.sleep(0.01 * start)
            ended.append(start)
            raise ValueError(f"row {start}")

    with pytest.raises(ValueError, match=r"row \d"):
        _sharing.launch(loop, (), 12, 12)
    assert len(ended) == 2


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 32, 1000])
@pytest.mark.parametrize("parts", [2, 3, 8, 24])
def test_stretches_hold_every_row_once_and_do_not_grow(rows: int, parts: int) -> None:
    begins = [_sharing._begin(part, parts, rows) for part in range(parts + 1)]
    assert (begins[0], begins[-1]) == (0, rows)
    sizes = np.diff(begins)
    assert (sizes >= 0).all()
    assert (np.diff(sizes) <= 1).all()  # but for what is rounded
    assert sizes[-1] <= max(1, rows // parts)


def test_no_reference_to_the_work_stays_with_a_helper() -> None:
    class Work:
        def __call__(self) -> None:
            done.set()

    done, work = threading.Event(), Work()
    left = weakref.ref(work)
    (call,) = _helpers.Helpers(1).call(work, 1)
    assert done.wait(20)
    call.settle()
    del work
    assert left() is None


def test_a_flag_is_seen_and_waited_for_only_a_moment() -> None:
    flag = np.zeros(1, np.int64)
    assert not _waiting.raised(flag)
    flag[0] = 1
    assert _waiting.raised(flag)


def test_a_flag_raised_by_another_thread_ends_the_loop() -> None:
    flag = np.zeros(1, np.int64)
    seen = threading.Event()

    def look() -> None:
        if _waiting._wait(flag, 0, 1 << 62, 0):
            seen.set()

    threading.Thread(target=look, daemon=True).start()
    time.sleep(0.01)
    flag[0] = 1
    assert seen.wait(20)


# ---------------------------------------------------------------------------- where they wake

several = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs Linux and two processors",
)


@several
def test_helpers_wake_apart_from_their_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_places, "FEW", 1 << 10)
    _places._current.cache_clear()
    helpers = _helpers.Helpers(1)
    found: list[set[int]] = []
    all_of_them = os.sched_getaffinity(0)
    for place in sorted(all_of_them)[:2]:
        monkeypatch.setattr(_places, "here", lambda place=place: place)
        found.clear()
        helpers.call(lambda: found.append(os.sched_getaffinity(0)), 1)
        assert eventually(lambda: bool(found))
        assert found == [all_of_them - {place}]
    assert os.sched_getaffinity(0) == all_of_them  # the caller goes where it likes
    _places._current.cache_clear()


@several
def test_who_may_use_one_processor_shares_it_with_helpers() -> None:
    before = os.sched_getaffinity(0)
    done = threading.Event()
    try:
        os.sched_setaffinity(0, {min(before)})
        _helpers.Helpers(1).call(done.set, 1)
        assert done.wait(20)
    finally:
        os.sched_setaffinity(0, before)


def test_many_processors_find_idle_ones_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: _places.FEW + 1)
    _places._current.cache_clear()
    try:
        assert _places.here() == -1
    finally:
        _places._current.cache_clear()


@several
@pytest.mark.skipif((os.cpu_count() or 1) > _places.FEW, reason="threads are placed on few")
def test_the_processor_is_told() -> None:
    before = os.sched_getaffinity(0)
    try:
        for place in before:
            os.sched_setaffinity(0, {place})
            assert _places.here() == place
            assert _places.elsewhere(place) == set()
    finally:
        os.sched_setaffinity(0, before)
