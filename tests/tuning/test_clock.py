"""How times are taken and compared, beside other work and without it."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from corepy.tuning import _clock
from corepy.tuning._clock import Comparison, Usage, after, compare, take_turns

#: Before any test sees to it that nobody is.
IS_CROWDED = Usage.is_crowded


def test_rounds_in_which_something_came_between_do_not_count() -> None:
    base = [2.0] * 20
    times = [1.0] * 9 + [1.01] * 9 + [50.0, 80.0]
    found = compare(base, times)
    assert found.gain == pytest.approx(1.99, abs=0.02)
    assert found.noise < 0.02


@pytest.mark.parametrize(
    ("gain", "noise", "wins", "is_open"),
    [
        (1.20, 0.01, True, False),
        (1.15, 0.01, False, False),
        (1.20, 0.045, False, False),  # by less than the noise, which is small
        (1.30, 0.20, False, True),
        (3.00, 0.20, True, False),
        (0.80, 0.20, False, False),
    ],
)
def test_a_gain_has_to_exceed_the_margin_by_more_than_the_noise(
    gain: float, noise: float, wins: bool, is_open: bool
) -> None:
    found = Comparison(gain, noise)
    assert found.wins(1.15) is wins
    assert found.is_open(1.15) is is_open


def test_turns_are_interleaved() -> None:
    order: list[str] = []
    times = take_turns({name: lambda name=name: order.append(name) for name in "ab"}, 0.0)  # type: ignore[misc]
    assert {name: len(taken) for name, taken in times.items()} == {"a": 7, "b": 7}
    changes = sum(a != b for a, b in itertools.pairwise(order))
    assert changes > 7


def test_company_comes_right_before_each_run() -> None:
    order: list[str] = []
    after(lambda: order.append("x"), {"a": lambda: order.append("a")}, 3)
    assert order == ["x", "a"] * 3


def test_usage_counts_others(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, now, own = 10.0, 0.0, 1.0
    monkeypatch.setattr(_clock, "busy_seconds", lambda: seconds)
    monkeypatch.setattr(_clock, "perf_counter", lambda: now)
    monkeypatch.setattr(_clock.os, "times", lambda: (own, 0.0, 0.0, 0.0, 0.0))
    usage = Usage()
    seconds, now, own = seconds + 5.0, now + 4.0, own + 3.0
    assert usage.cores() == 0.5
    monkeypatch.setattr(_clock, "busy_seconds", lambda: None)
    assert usage.cores() is None


@pytest.mark.parametrize(
    ("used", "passed", "threads", "crowded"),
    [
        (2.0, 4.0, 2, False),  # half a core of two
        (2.4, 4.0, 2, True),
        (2.4, 4.0, 1, False),  # one thread has a core still
        (6.0, 4.0, 1, True),
        (0.09, 0.09, 2, False),  # too short to tell
        (None, 4.0, 2, False),
    ],
)
def test_it_is_crowded_where_threads_would_have_no_cores(
    monkeypatch: pytest.MonkeyPatch,
    used: float | None,
    passed: float,
    threads: int,
    crowded: bool,
) -> None:
    now, seconds = 0.0, None if used is None else 0.0
    monkeypatch.setattr(_clock, "busy_seconds", lambda: seconds)
    monkeypatch.setattr(_clock, "perf_counter", lambda: now)
    monkeypatch.setattr(_clock.os, "times", lambda: (0.0, 0.0, 0.0, 0.0, 0.0))
    monkeypatch.setattr(_clock.os, "cpu_count", lambda: 2)
    usage = Usage()
    now, seconds = passed, used
    assert IS_CROWDED(usage, threads) is crowded


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no groups of processes")
def test_an_interrupt_is_told_once_where_cores_are_busy() -> None:
    code = """
from corepy.tuning import _clock
with _clock.busy_cores(2):
    import time; time.sleep(0.3); print("ready", flush=True)
    try:
        time.sleep(60)
    finally:
        time.sleep(0.3)  # for others to say what they have to
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        parent.stdout.readline()
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stderr.read().count(b"KeyboardInterrupt") == 1


def test_no_core_stays_busy_where_another_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    class Process:
        def __init__(self, command: object, **options: Any) -> None:
            if next(number) == 3:
                raise BlockingIOError("no more processes")

        def kill(self) -> None:
            ended.append("killed")

        def wait(self) -> None:
            ended.append("gone")

    number = itertools.count(1)
    monkeypatch.setattr(subprocess, "Popen", Process)
    with pytest.raises(BlockingIOError), _clock.busy_cores(3):
        pass
    assert ended == ["killed"] * 2 + ["gone"] * 2


@pytest.mark.skipif(sys.platform == "win32", reason="Windows gives no orphan another parent")
def test_cores_do_not_stay_busy_where_a_tuning_was_killed() -> None:
    code = """
from corepy.tuning import _clock
spawn = _clock.subprocess.Popen
def told(command, **options):
    made = spawn(command, stdout=-1, **options)
    print(made.pid, flush=True)
    return made
_clock.subprocess.Popen = told
with _clock.busy_cores(1):
    import time; time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        other = int(parent.stdout.readline())
        assert is_running(other)
        parent.kill()
    for _ in range(200):
        if not is_running(other):
            return
        time.sleep(0.05)
    os.kill(other, 9)
    pytest.fail("it still runs")


def is_running(pid: int) -> bool:
    """Say whether a process runs: one that has ended may still wait for whoever asks after it."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    return found.stdout.strip()[:1] not in (b"", b"Z")
