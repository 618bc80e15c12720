"""Compiled kernels share their work among threads, who are asked where that pays."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from corepy import kernels
from tests.conftest import required
from tests.kernels.calls import NUMPY, Call, every
from tests.kernels.libraries import select
from tests.sharing import share, work_alone


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    required("numba")
    select(monkeypatch, NUMPY)


@pytest.fixture
def shared(compiled: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Share even the smallest work among two threads, and record who is asked to do some of it."""
    return share(monkeypatch)


@every
def test_threads_share_the_rows(
    call: Call, shared: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("f4")
    together = [call(x, NUMPY) for _ in range(20)]
    work_alone(monkeypatch)
    for result in together:
        np.testing.assert_array_equal(result, call(x, NUMPY))


def test_many_rows_call_helpers_and_one_row_does_not(shared: list[int]) -> None:
    x = np.random.default_rng(0).standard_normal((9, 60)).astype("f4")
    together = kernels.rms_norm(x, None, 0.0)
    assert len(shared) == 1
    alone = np.concatenate([kernels.rms_norm(row[None], None, 0.0) for row in x])
    assert len(shared) == 1
    np.testing.assert_array_equal(together, alone)


def test_numbers_of_threads_are_numbas(compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    from corepy._loops import _sharing

    x = np.ones((1000, 1000), np.float32)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        monkeypatch.setattr(_sharing, "helpers", None)  # nobody may be called
        assert (kernels.rms_norm(x, None, 0.0) == 1).all()
    finally:
        numba.set_num_threads(before)


def test_the_budget_of_threads_holds(compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from corepy._loops import _sharing

    monkeypatch.setattr(_sharing, "budget", lambda: 1)
    monkeypatch.setattr(_sharing, "helpers", None)  # nobody may be called
    assert (kernels.rms_norm(np.ones((1000, 1000), np.float32), None, 0.0) == 1).all()


def test_helpers_that_do_not_come_are_not_waited_for(
    compiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from corepy._loops._helpers import Helpers

    held = threading.Event()
    one = Helpers(1)
    one.call(held.wait, 1)  # the one thread is busy elsewhere
    share(monkeypatch, helpers=one)
    try:
        assert (kernels.rms_norm(np.ones((1000, 1000)), None, 0.0) == 1).all()
    finally:
        held.set()


def test_helpers_that_lose_their_processor_are_left_alone_for_a_while() -> None:
    required("numba")
    from corepy._loops._sharing import _Company

    company = _Company()
    for penalty in (1, 2, 4, 8):
        assert not company.is_poor()
        company.judge(worked=1.0, waited=2.0)
        assert [company.is_poor() for _ in range(penalty)] == [True] * penalty
    company.judge(worked=2.0, waited=1.0)
    assert not company.is_poor()
    company.judge(worked=1.0, waited=2.0)
    assert [company.is_poor() for _ in range(2)] == [True, False]
    company.judge(worked=1e-5, waited=1e-4)  # it has only woken
    assert not company.is_poor()


def test_without_new_threads_the_caller_works_alone(
    compiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from corepy._loops import _helpers

    class Thread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("the interpreter shuts down")

    monkeypatch.setattr(_helpers.threading, "Thread", Thread)
    share(monkeypatch, helpers=_helpers.Helpers(1))
    assert (kernels.rms_norm(np.ones((1000, 1000)), None, 0.0) == 1).all()


def test_several_python_threads(shared: list[int]) -> None:
    x = np.random.default_rng(0).standard_normal((64, 100)).astype("f4")
    expected = kernels.softmax(x, -1)
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(50):
            if not np.array_equal(kernels.softmax(x, -1), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


_SCRIPT = """
import os
import numpy as np
from corepy import kernels
x = np.ones((1000, 1000), np.float32)
assert (kernels.rms_norm(x, None, 0.0) == 1).all()
child = os.fork()
if child == 0:
    os._exit(not (kernels.rms_norm(x, None, 0.0) == 1).all())
assert os.waitpid(child, 0)[1] == 0
print("done")
"""


@pytest.mark.backend("numba")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_helpers_of_its_own() -> None:
    environ = dict(os.environ) | {"NUMBA_NUM_THREADS": "2"}
    command = [sys.executable, "-c", _SCRIPT]  # Python 3.12 warns of any fork beside threads
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
