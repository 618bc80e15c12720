"""How many threads can run at once: of processors, of what a container has of their time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import corepy
from corepy import _blas, _budget
from corepy.backends._numpy import NumPyBackend
from corepy.devices._probe import Ground
from corepy.dispatch import _threads, load
from tests.dispatch.fake import registered

#: What a container of ``docker run --cpus`` sees of version 2, and a host with version 1.
FILES = {
    2: {
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
    },
    1: {
        "proc/self/cgroup": "2:cpu,cpuacct:/docker/3f\n0::/\n",
        "proc/self/mountinfo": "33 31 0:30 /docker/3f /sys/fs/cgroup rw - cgroup cgroup rw,cpu\n",
    },
}


@pytest.fixture(autouse=True)
def afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ask anew, on a machine of 64 processors; put back what is known of this one."""
    monkeypatch.delenv(_budget.ENVIRONMENT, raising=False)
    monkeypatch.delenv("PYTHON_CPU_COUNT", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(64)}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(_budget, "process_cores", lambda: 64)
    monkeypatch.setattr(_budget, "_budget", None)
    monkeypatch.setattr(_budget, "_limit", None)
    monkeypatch.setattr(_budget, "_environment_read", False)
    _budget._granted.cache_clear()
    yield
    _budget._granted.cache_clear()
    _threads._unmoved.clear()


def lay(monkeypatch: pytest.MonkeyPatch, root: Path, version: int, quota: str) -> None:
    """Stand in for the files of a control group, with a quota and its period."""
    files = dict(FILES[version])
    if version == 2:
        files["sys/fs/cgroup/cpu.max"] = quota
    else:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        files |= {f"sys/fs/cgroup/{name}": text for name, text in zip(names, quota.split())}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    ground = Ground(root=root, system="Linux", machine="x86_64", environ={})
    monkeypatch.setattr(_budget, "Ground", lambda: ground)


@pytest.mark.parametrize(
    ("version", "quota", "threads"),
    [
        (2, "50000 100000", 1),
        (2, "100000 100000", 1),
        (2, "250000 100000", 3),
        (1, "50000 100000", 1),
        (1, "1600000 100000", 16),
    ],
)
def test_a_container_has_no_more_threads_than_its_quota(
    version: int, quota: str, threads: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lay(monkeypatch, tmp_path, version, quota)
    assert corepy.get_num_threads() == _budget.cores() == _budget.budget() == threads
    assert not _budget.is_asked()


@pytest.mark.parametrize(
    ("version", "quota"),
    [(2, "max 100000"), (2, "9900000 100000"), (1, "-1 100000"), (2, "a lot"), (2, "")],
)
def test_without_a_quota_that_binds_nobody_has_asked_for_anything(
    version: int, quota: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lay(monkeypatch, tmp_path, version, quota)
    assert corepy.get_num_threads() == 64
    assert _budget.budget() is None


def test_who_asks_for_more_than_the_quota_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lay(monkeypatch, tmp_path, 2, "100000 100000")
    monkeypatch.setenv(_budget.ENVIRONMENT, "8")
    assert corepy.get_num_threads() == 8
    assert _budget.is_asked()
    assert _budget.cores() == 1
    _budget.settle(None)  # and who takes that back
    assert corepy.get_num_threads() == 1


class Obedient(NumPyBackend):
    """Keeps what it is told."""

    name = "fake"
    told: tuple[int, ...] = ()

    def threads(self) -> int | None:
        return None  # it cannot tell

    def limit_threads(self, count: int) -> str | None:
        self.told += (count,)
        return None


def test_libraries_are_told_of_a_quota(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lay(monkeypatch, tmp_path, 2, "200000 100000")
    with registered(Obedient()) as backend:
        load("fake")
        assert backend.told == (2,)


class Held(Obedient):
    """Was held to a number of threads by the program."""

    count: int | None = 3

    def threads(self) -> int | None:
        return self.count


def test_a_quota_gives_no_library_more_threads_than_it_was_held_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lay(monkeypatch, tmp_path, 2, "800000 100000")
    held, free = Held(), Held()
    free.count = 64
    with registered(held):
        load("fake")
        assert held.told == ()
    with registered(free):
        load("fake")
        assert free.told == (8,)
    monkeypatch.setattr(_budget, "_budget", 8)  # somebody asks for it
    asked = Held()
    with registered(asked):
        load("fake")
        assert asked.told == (8,)


@pytest.mark.backend("torch")
def test_torch_keeps_what_the_program_held_it_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import torch

    before, backend = torch.get_num_threads(), load("torch")
    lay(monkeypatch, tmp_path, 2, "200000 100000")
    try:
        for held, left in ((1, 1), (2, 2), (4, 2)):
            torch.set_num_threads(held)
            _threads.hold(backend)
            assert torch.get_num_threads() == left
    finally:
        torch.set_num_threads(before)


@pytest.mark.backend("dask")
def test_dask_keeps_what_the_program_held_it_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import dask

    backend = load("dask")
    lay(monkeypatch, tmp_path, 2, "200000 100000")
    for held, left in ((None, 2), (1, 1), (4, 2)):
        with dask.config.set(num_workers=held):
            _threads.hold(backend)
            assert dask.config.get("num_workers") == left


@pytest.mark.backend("numpy")
def test_blas_that_began_so_is_not_told_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_blas, "can_hold", lambda: False)  # as without threadpoolctl
    monkeypatch.setattr("corepy.backends._numpy.is_there", lambda name: False)
    backend = load("numpy")
    lay(monkeypatch, tmp_path, 2, "200000 100000")
    monkeypatch.setattr(_blas, "_told", 2)
    _threads.hold(backend)
    assert "numpy" not in _threads.unmoved()
    monkeypatch.setattr(_blas, "_told", None)  # NumPy was imported before corepy
    _threads.hold(backend)
    assert _threads.unmoved()["numpy"].startswith("threadpoolctl is not installed")


def test_what_python_is_told_counts_where_libraries_see_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_budget, "process_cores", lambda: 3)  # as by PYTHON_CPU_COUNT=3
    assert corepy.get_num_threads() == _budget.budget() == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})  # as by `taskset`
    monkeypatch.setattr(_budget, "_environment_read", False)
    assert corepy.get_num_threads() == 3
    assert _budget.budget() is None


@pytest.mark.skipif(sys.version_info < (3, 13), reason="came with Python 3.13")
def test_python_s_own_variable() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import corepy; print(corepy.get_num_threads())"],
        env=os.environ | {"PYTHON_CPU_COUNT": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "1\n"


# ---------------------------------------------------------------------------- what is begun


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no variable that BLAS reads, and NumPy not imported yet."""
    for name in _blas._READ:
        monkeypatch.setenv(name, "")  # so that what is set meanwhile is removed again
        monkeypatch.delenv(name)
    monkeypatch.setattr(_blas, "_told", None)
    monkeypatch.delitem(sys.modules, "numpy")


@pytest.mark.usefixtures("untold")
def test_blas_begins_no_more_threads_than_the_quota(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lay(monkeypatch, tmp_path, 2, "200000 100000")
    _blas.tell()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "2"


@pytest.mark.usefixtures("untold")
@pytest.mark.parametrize(
    "name", ["OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS", "COREPY_NUM_THREADS"]
)
def test_what_the_user_has_told_blas_stays(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lay(monkeypatch, tmp_path, 2, "200000 100000")
    monkeypatch.setenv(name, "5")
    before = dict(os.environ)
    _blas.tell()
    assert dict(os.environ) == before


@pytest.mark.usefixtures("untold")
def test_blas_is_told_nothing_where_it_sees_as_much_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lay(monkeypatch, tmp_path, 2, "max 100000")
    before = dict(os.environ)
    _blas.tell()
    assert dict(os.environ) == before
    lay(monkeypatch, tmp_path, 2, "200000 100000")
    _budget._granted.cache_clear()
    monkeypatch.setitem(sys.modules, "numpy", object())  # its threads are there already
    _blas.tell()
    assert dict(os.environ) == before


@pytest.mark.backend("numba")
def test_no_more_helpers_are_started_than_the_budget_has_use_for() -> None:
    from corepy._loops._helpers import Helpers

    made, done = Helpers(63), threading.Semaphore(0)
    before = threading.active_count()
    _budget.settle(3)
    assert len(made.call(done.release, 63)) == 2
    assert done.acquire(timeout=20)
    assert threading.active_count() <= before + 2
    _budget.settle(5)
    assert len(made.call(done.release, 63)) == 4
    made.dismiss()
