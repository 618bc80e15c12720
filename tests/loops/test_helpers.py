"""Threads that help with loops: who has a call, where they wake, and what goes wrong in them."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from corepy import _places
from tests.conftest import required

required("numba")

from corepy._loops import _atomics, _bells, _compile, _helpers, _jobs, _sharing  # noqa: E402
from tests.sharing import share  # noqa: E402

Array = npt.NDArray[Any]

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


def test_who_starts_helpers_may_be_in_the_midst_of_starting_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a signal's handler that computes: it runs in the thread that it interrupts."""
    made = _helpers.Helpers(1)
    names: list[str] = []
    calls: list[_helpers.Call] = []

    def work() -> None:
        names.append(threading.current_thread().name)

    class Thread(threading.Thread):
        def start(self) -> None:
            monkeypatch.undo()
            calls.extend(made.call(work, 1))
            super().start()

    monkeypatch.setattr(threading, "Thread", Thread)
    calls += made.call(work, 1)
    assert eventually(lambda: len(names) == 2)
    assert [call.settle() for call in calls] == [[], []]
    assert names == ["corepy_0", "corepy_0"]


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
    share(monkeypatch, 3, _helpers.Helpers(2))
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


def test_who_is_awake_helps_with_less(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = _helpers.Helpers(1)
    monkeypatch.setattr(_sharing, "helpers", lambda: nobody)
    little = _sharing.SHARED_FROM
    assert not _sharing._is_worth_sharing(little)
    assert _sharing._is_worth_sharing(_sharing.PARALLEL_FROM)
    nobody.board._words[_jobs._WATCHED // 8] = 1
    assert _sharing._is_worth_sharing(little)
    assert not _sharing._is_worth_sharing(little - 1)


@pytest.mark.parametrize(("work", "asked"), [(1, 1), (2, 2), (3, 3), (100, 3)])
def test_no_more_helpers_are_asked_than_have_work(
    work: int, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = share(monkeypatch, 4, _helpers.Helpers(3))
    _sharing.launch(count, (np.zeros(50, np.int64), np.zeros(50), 1.0), 50, work)
    assert counts == [asked]


each_division = pytest.mark.parametrize(
    ("rows", "parts"), list(itertools.product([1, 2, 7, 8, 32, 1000], [2, 3, 8, 24]))
)


def sizes_of_stretches(begin: Callable[[int, int, int], int], rows: int, parts: int) -> Array:
    """Return how many rows each stretch has, all of them once."""
    begins = [begin(part, parts, rows) for part in range(parts + 1)]
    assert (begins[0], begins[-1]) == (0, rows)
    sizes = np.diff(begins)
    assert (sizes >= 0).all()
    return sizes


@each_division
def test_stretches_of_calls_hold_every_row_once_and_do_not_grow(rows: int, parts: int) -> None:
    sizes = sizes_of_stretches(_sharing._begin, rows, parts)
    assert (np.diff(sizes) <= 1).all()  # but for what is rounded
    assert sizes[-1] <= max(1, rows // parts)


@each_division
def test_stretches_hold_every_row_once_and_are_short_in_the_middle(rows: int, parts: int) -> None:
    sizes = sizes_of_stretches(_jobs._begin, rows, parts)
    half = parts // 2
    assert (np.diff(sizes[:half]) <= 1).all()  # but for what is rounded
    assert (np.diff(sizes[-half:]) >= -1).all()
    assert sizes[half] <= max(2, 2 * rows // parts)


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


def test_nothing_of_a_function_stays_behind() -> None:
    held = np.zeros(10)
    left = weakref.ref(held)

    def fill(start: int, stop: int, into: Array = held) -> None:
        into[start:stop] = 1

    _sharing.launch(fill, (), 10, 10**9)
    assert held.all()
    del held, fill
    assert eventually(lambda: left() is None)


def test_a_flag_is_seen_and_waited_for_only_a_moment() -> None:
    flag = np.zeros(1, np.int64)
    assert not _jobs.raised(flag)
    flag[0] = 1
    assert _jobs.raised(flag)


def test_a_flag_raised_by_another_thread_ends_the_loop() -> None:
    flag = np.zeros(1, np.int64)
    seen = threading.Event()

    def look() -> None:
        if _jobs._raised(flag, 1 << 62):
            seen.set()

    threading.Thread(target=look, daemon=True).start()
    time.sleep(0.01)
    flag[0] = 1
    assert seen.wait(20)


# ---------------------------------------------------------------------------- jobs

kernel = _compile.compiler(())()


@kernel
def count(counts: Array, sums: Array, weight: float, start: int, stop: int) -> None:
    for i in range(start, stop):
        counts[i] += 1
        sums[i] = weight * i


@kernel
def fail(counts: Array, bad: int, start: int, stop: int) -> None:
    for i in range(start, stop):
        if i == bad:
            raise ValueError("a bad row")
        counts[i] = 1


@kernel
def crowd(inside: Array, start: int, stop: int) -> None:
    """Take note of how often a stretch begins while another one runs."""
    _atomics.add(inside.ctypes.data, 1)
    for _ in range(200_000):
        if _atomics.load(inside.ctypes.data) > 1:
            inside[1] = 1
        _atomics.pause()
    _atomics.add(inside.ctypes.data, -1)


@pytest.mark.parametrize("rows", [2, 3, 16, 1000])
@pytest.mark.parametrize("threads", [2, 5])
def test_every_row_is_worked_on_once(
    rows: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(monkeypatch, threads, _helpers.Helpers(threads - 1))
    counts, sums = np.zeros(rows, np.int64), np.zeros(rows)
    for times in range(1, 2001):
        weight = 0.5 * times
        _sharing.launch(count, (counts, sums, weight), rows, rows)
        np.testing.assert_array_equal(counts, times)
        np.testing.assert_array_equal(sums, weight * np.arange(rows))


def test_jobs_of_several_threads_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    share(monkeypatch, 4, _helpers.Helpers(3))
    wrong: list[int] = []

    def work(size: int) -> None:
        counts, sums = np.zeros(size, np.int64), np.zeros(size)
        for times in range(1, 2001):
            _sharing.launch(count, (counts, sums, float(times)), size, size)
            if (counts != times).any() or (sums != times * np.arange(size)).any():
                wrong.append(size)

    threads = [threading.Thread(target=work, args=(size,)) for size in (2, 30, 400, 5000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.fixture(params=["bell", "no bell"])
def two(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> _helpers.Helpers:
    """Two helpers, on systems with and without semaphores for compiled code."""
    if request.param == "no bell":
        monkeypatch.setattr(_bells, "_functions", lambda: None)
    made = _helpers.Helpers(2)
    assert made.board.rings == (request.param == "bell" and _bells._functions() is not None)
    return made


@pytest.mark.parametrize("pause", [0.0, 0.002])
def test_helpers_join_in_awake_or_asleep(
    pause: float, two: _helpers.Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(monkeypatch, 2, two)
    inside = np.zeros(2, np.int64)

    def met() -> bool:
        time.sleep(pause)  # after which everybody sleeps
        _sharing.launch(crowd, (inside,), 2, 2)
        return bool(inside[1])

    for _ in range(20):
        inside[1] = 0
        assert eventually(met)
    assert inside[0] == 0


@pytest.mark.parametrize("pause", [0.0, 0.002])
def test_calls_and_jobs_take_turns(pause: float, two: _helpers.Helpers) -> None:
    loop = _jobs.shared(count)
    assert loop is not None
    counts = np.zeros(100, np.int64)
    for times in range(1, 101):
        done = threading.Event()
        two.call(done.set, 1)
        assert done.wait(20)
        time.sleep(pause)
        two.wake(2)
        assert not two.board.run(loop, (counts, np.zeros(100), 0.0), 100, 20, 2)[0]
        np.testing.assert_array_equal(counts, times)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs a system of POSIX's")
def test_a_signal_does_not_disturb_who_sleeps(two: _helpers.Helpers) -> None:
    threads: list[int] = []
    two.call(lambda: threads.append(threading.get_ident()), 1)
    assert eventually(lambda: bool(threads))
    heard: list[int] = []
    before = signal.signal(signal.SIGURG, lambda number, frame: heard.append(number))
    try:
        for times in range(20):
            time.sleep(0.001)
            signal.pthread_kill(threads[0], signal.SIGURG)
            assert eventually(lambda times=times: len(heard) > times)
    finally:
        signal.signal(signal.SIGURG, before)
    for _ in range(2):  # each has the other one's call, too
        done = threading.Event()
        two.call(done.set, 2)
        assert done.wait(20)


def test_nobody_watches_as_the_interpreter_ends(two: _helpers.Helpers) -> None:
    loop = _jobs.shared(count)
    assert loop is not None
    end, seen = time.monotonic() + 20, 0
    while not seen and time.monotonic() < end:
        two.wake(2)
        two.board.run(loop, (np.zeros(1, np.int64), np.zeros(1), 0.0), 1, 1, 2)
        seen = two.board.watchers  # asked once: they watch for a moment only
    assert seen
    two.dismiss()
    assert two.board.watchers == 0
    time.sleep(0.01)
    assert two.board.watchers == 0


def test_no_more_watchers_join_than_are_wanted() -> None:
    three = _helpers.Helpers(3)
    three.wake(3)
    loop = _jobs.shared(crowd)
    assert loop is not None
    inside = np.zeros(2, np.int64)
    for _ in range(20):
        three.wake(3)
        assert three.board.run(loop, (inside,), 8, 8, 0) == (False, 0.0)
    assert not inside.any()


@pytest.mark.parametrize("bad", [0, 7, 99])
def test_an_exception_of_a_loop_is_raised(bad: int, monkeypatch: pytest.MonkeyPatch) -> None:
    share(monkeypatch, 2, _helpers.Helpers(1))
    counts = np.zeros(100, np.int64)
    for _ in range(50):
        with pytest.raises(ValueError, match="a bad row"):
            _sharing.launch(fail, (counts, bad), 100, 100)
    _sharing.launch(fail, (counts, -1), 100, 100)
    assert counts.all()


def test_who_waits_long_takes_naps() -> None:
    board = _jobs.Board()
    loop = _jobs.shared(count)
    assert loop is not None
    held = threading.Thread(target=_hold, args=(board,), daemon=True)
    held.start()
    counts = np.zeros(4, np.int64)
    waited = 0.0
    while not waited and held.is_alive():
        failed, waited = board.run(loop, (counts, np.zeros(4), 0.0), 4, 4, 1)
        assert not failed
    held.join()
    assert waited > 0


def _hold(board: _jobs.Board) -> None:
    """Join in the first job that there is, as a thread that loses its processor then."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if _join(board._address):
            time.sleep(0.05)
            _leave(board._address)
            return


@kernel
def _join(board: int) -> bool:
    for _ in range(1_000_000):
        word = _atomics.load(board)
        if word and _atomics.replace(board, word, word + 1):
            return True
    return False


@kernel
def _leave(board: int) -> None:
    _atomics.add(board, -1)


@kernel
def take_all(arrays: tuple[Array, ...], start: int, stop: int) -> None:
    for i in range(start, stop):
        arrays[0].flat[i] = len(arrays)


def test_arguments_that_do_not_fit_a_job_are_refused() -> None:
    arrays = tuple(np.zeros((1,) * 20) for _ in range(12))
    loop = _jobs.shared(take_all)
    assert loop is not None
    with pytest.raises(ValueError, match="take_all: its arguments do not fit a job"):
        _jobs.Board().run(loop, (arrays,), 1, 1, 0)


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
