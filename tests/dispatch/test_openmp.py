"""Where torch's OpenMP wakes its second thread: who that is, and where it may run, and when."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from corepy import _openmp, _places
from corepy._apart import Apart, Undo

ALL = {0, 1}
#: Addresses of OpenMP's code, and of what is none of it.
INSIDE, OUTSIDE, RUNNING = 1500, 5000, -1


class System:
    """Threads by their numbers: where each one sleeps, and which processors it may use."""

    def __init__(self) -> None:
        self.asleep = {"7": INSIDE, "8": OUTSIDE}
        self.masks = {0: ALL, 7: ALL, 8: ALL}
        self.fixed: set[int] = set()

    def get(self, thread: int) -> set[int]:
        if thread not in self.masks:
            raise ProcessLookupError
        return set(self.masks[thread])

    def set(self, thread: int, mask: set[int]) -> None:
        if thread not in self.masks:
            raise ProcessLookupError
        if thread in self.fixed:
            raise OSError
        self.masks[thread] = set(mask)

    def start(self, thread: int, place: int, mask: set[int]) -> None:
        self.asleep[str(thread)], self.masks[thread] = place, mask

    def end(self, thread: int) -> None:
        del self.asleep[str(thread)], self.masks[thread]


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    made = System()
    monkeypatch.setattr(_openmp, "_tasks", lambda: set(made.asleep))
    monkeypatch.setattr(_openmp, "_count", lambda: len(made.asleep))
    monkeypatch.setattr(_openmp, "_place_of", lambda task: made.asleep[task])
    monkeypatch.setattr(_openmp, "_code", lambda: [range(100, 200), range(1000, 2000)])
    monkeypatch.setattr(os, "sched_getaffinity", made.get, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", made.set, raising=False)
    return made


@pytest.fixture
def worker(system: System) -> _openmp._Worker:
    made = _openmp._Worker()
    assert made.place(0) is None  # the first call of a thread starts OpenMP's
    assert system.masks == {0: ALL, 7: ALL, 8: ALL}
    return made


def placed(worker: _openmp._Worker, processor: int = 0) -> Undo:
    undo = worker.place(processor)
    assert undo is not None
    return undo


@pytest.mark.parametrize("processor", [0, 1])
def test_both_stay_apart_and_may_go_anywhere_again(
    worker: _openmp._Worker, system: System, processor: int
) -> None:
    undo = placed(worker, processor)
    assert system.masks == {0: {processor}, 7: {1 - processor}, 8: ALL}
    undo()
    assert system.masks == {0: ALL, 7: ALL, 8: ALL}


def test_a_thread_that_is_gone_is_not_placed_nor_is_the_caller(
    worker: _openmp._Worker, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed(worker)()
    monkeypatch.setattr(_openmp, "_count", lambda: 2)
    system.end(7)
    system.start(9, INSIDE, ALL)  # as many as before
    assert worker.place(0) is None
    assert system.masks == {0: ALL, 8: ALL, 9: ALL}
    undo = placed(worker)
    assert system.masks == {0: {0}, 8: ALL, 9: {1}}
    system.end(9)  # during the operation
    undo()
    assert system.masks == {0: ALL, 8: ALL}
    assert worker.place(0) is None


def test_of_several_nobody_knows_whose_they_are(worker: _openmp._Worker, system: System) -> None:
    system.start(9, INSIDE, ALL)
    assert worker.place(0) is None
    assert system.masks == {0: ALL, 7: ALL, 8: ALL, 9: ALL}


@pytest.mark.parametrize("mask", [{0}, {1}, {0, 1, 2}])
def test_callers_of_other_than_two_processors_are_left(
    worker: _openmp._Worker, system: System, mask: set[int]
) -> None:
    system.masks[0] = mask
    assert worker.place(0) is None
    assert system.masks == {0: mask, 7: ALL, 8: ALL}


def test_a_thread_that_somebody_bound_stays_there(worker: _openmp._Worker, system: System) -> None:
    system.masks[7] = {0}
    assert worker.place(0) is None
    assert system.masks == {0: ALL, 7: {0}, 8: ALL}


@pytest.mark.parametrize("fixed", [0, 7])
def test_what_the_system_refuses_is_undone(
    worker: _openmp._Worker, system: System, fixed: int
) -> None:
    system.fixed = {fixed}
    assert worker.place(0) is None
    assert system.masks == {0: ALL, 7: ALL, 8: ALL}


@pytest.mark.parametrize("place", [0, 7])
def test_what_an_interrupt_left_half_done_is_undone(
    worker: _openmp._Worker, system: System, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(thread: int, mask: set[int]) -> None:
        system.set(thread, mask)
        if thread == place and mask != ALL:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "sched_setaffinity", interrupted)
    with pytest.raises(KeyboardInterrupt):
        worker.place(0)
    assert system.masks == {0: ALL, 7: ALL, 8: ALL}


def test_all_may_go_anywhere_again_though_a_handler_raises_meanwhile(
    worker: _openmp._Worker, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    undo = placed(worker)

    def struck(thread: int, mask: set[int]) -> None:
        system.set(thread, mask)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "sched_setaffinity", struck)
    with pytest.raises(KeyboardInterrupt):
        undo()
    assert system.masks == {0: ALL, 7: ALL, 8: ALL}


def test_threads_that_the_caller_starts_meanwhile_get_all_processors(
    worker: _openmp._Worker, system: System
) -> None:
    undo = placed(worker)
    system.start(9, RUNNING, {0})
    system.start(10, INSIDE, {0})
    system.start(11, OUTSIDE, {1})  # somebody else's
    undo()
    assert system.masks == {0: ALL, 7: ALL, 8: ALL, 9: ALL, 10: ALL, 11: {1}}


def test_a_thread_that_runs_is_looked_at_again(system: System) -> None:
    system.asleep["7"] = RUNNING
    worker = _openmp._Worker()
    assert worker.place(0) is None
    assert worker.place(0) is None
    system.asleep["7"] = INSIDE
    placed(worker)()


def test_who_calls_openmp_is_none_of_its_threads(worker: _openmp._Worker, system: System) -> None:
    caller = threading.get_native_id()
    system.start(caller, INSIDE, ALL)
    placed(worker)
    assert system.masks == {0: {0}, 7: {1}, 8: ALL, caller: ALL}


def test_each_thread_has_its_first_call(worker: _openmp._Worker, system: System) -> None:
    found: list[Undo | None] = []
    thread = threading.Thread(target=lambda: found.extend(worker.place(0) for _ in range(2)))
    thread.start()
    thread.join()
    assert found[0] is None
    assert found[1] is not None


# ---------------------------------------------------------------------------- what the system says


def test_nothing_is_done_where_the_system_does_not_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_openmp, "_TASKS", str(tmp_path / "none"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: ALL, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", None, raising=False)
    worker = _openmp._Worker()
    assert [worker.place(0) for _ in range(3)] == [None, None, None]
    assert _openmp._count() == -1


def test_what_the_system_says_of_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_openmp, "_TASKS", str(tmp_path))
    for task, text in (("7", "202 0x1 0x80 0x7f0 0x5dc\n"), ("8", "running\n"), ("9", "")):
        (tmp_path / task).mkdir()
        (tmp_path / task / "syscall").write_text(text)
    (tmp_path / "10").mkdir()  # a system without the file
    assert _openmp._tasks() == {"7", "8", "9", "10"}
    assert [_openmp._place_of(task) for task in ("7", "8", "9", "10")] == [0x5DC, -1, 0, 0]


def test_the_code_is_that_of_torchs_own_copy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    maps = tmp_path / "maps"
    monkeypatch.setattr(_openmp, "_MAPS", str(maps))
    other = "20-30 r-xp 0 00:00 1 /usr/lib/libgomp.so.1\n"
    lines = "30-40 rw-p 0 00:00 0\n40-50 r-xp 0 00:00 2 /usr/lib/libc.so.6\n" + other
    maps.write_text(lines)
    assert _openmp._code() == [range(0x20, 0x30)]
    torch = type(sys)("torch")
    torch.__file__ = "/of a user/torch/__init__.py"
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert _openmp._code() == [range(0x20, 0x30)]
    own = "/of a user/torch/lib/libgomp-1.so.1"
    maps.write_text(f"{lines}a0-b0 r--p 0 00:00 3 {own}\nb0-c0 r-xp 1 00:00 3 {own}\n")
    assert _openmp._code() == [range(0xB0, 0xC0)]


# ---------------------------------------------------------------------------- the block


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(_places, "here", lambda: 5)
    return []


def test_a_block_that_cannot_place_leaves_nothing_behind(asked: list[int]) -> None:
    answers: list[Undo | None] = [partial(asked.append, -1), None]

    def place(processor: int) -> Undo | None:
        asked.append(processor)
        if len(asked) == 1:
            raise ZeroDivisionError
        return answers.pop()

    apart = Apart(place)
    with pytest.raises(ZeroDivisionError), apart:
        pass
    for expected in ([5, 5], [5, 5, 5, -1]):
        apart._caller = 0  # as another thread
        with apart:
            pass
        assert asked == expected


def test_where_threads_are_not_placed_nobody_asks(
    asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_places, "here", lambda: -1)
    with Apart(asked.append):
        pass
    assert asked == []


_TORCH = """
import os, sys, time
import corepy
import torch
from corepy import _openmp, _places

two = set(sorted(os.sched_getaffinity(0))[:2])
os.sched_setaffinity(0, two)
_places.here = lambda: min(two)
torch.set_num_threads(2)
x = torch.eye(400, dtype=torch.float64)

def masks():
    return {int(t): os.sched_getaffinity(int(t)) for t in os.listdir("/proc/self/task")}

def run():
    time.sleep(0.02)
    with _openmp.apart():
        x @ x
        return masks()

first, before = run(), masks()
assert first == before, (first, before)
inside = run()
after = masks()
assert after == before, (before, after)
mine = os.getpid()
if inside[mine] == two:
    print("unknown", _openmp._code())
    sys.exit()
assert inside[mine] == {min(two)}
changed = [thread for thread in before if inside[thread] != before[thread] and thread != mine]
assert len(changed) == 1 and inside[changed[0]] == {max(two)}, (before, inside)
child = os.fork()
if child == 0:
    time.sleep(0.02)
    with _openmp.apart():
        os._exit(os.sched_getaffinity(0) != two)
assert os.waitpid(child, 0)[1] == 0
print("done")
"""


def _tells_where_threads_sleep() -> bool:
    try:
        return bool(Path(f"/proc/self/task/{os.getpid()}/syscall").read_bytes())
    except OSError:  # some containers forbid it
        return False


@pytest.mark.backend("torch")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are placed on Linux")
def test_torchs_own_thread_is_found_and_placed_and_left_alone_in_a_child() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    command = [sys.executable, "-W", "ignore", "-c", _TORCH]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("unknown") and not _tells_where_threads_sleep():
        pytest.skip(f"the system does not say where threads sleep: {done.stdout}")
    assert done.stdout == "done\n"
