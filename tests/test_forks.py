"""Children that are forked while other threads are at work: what these hold is free there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

_COMMON = """
import os, threading

def beside(held, done, code):
    '''Fork while another thread has something, and return with what the child ends.'''
    begun, over = threading.Event(), threading.Event()
    def hold():
        with held:
            begun.set()
            done(over)
    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        os._exit(code())
    status = os.waitpid(child, 0)[1]
    over.set()
    thread.join()
    return os.waitstatus_to_exitcode(status)
"""


def run(code: str) -> str:
    # Python warns of each fork beside threads.
    command = [sys.executable, "-W", "ignore", "-c", _COMMON + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_who_forks_waits_for_locks_that_a_child_needs() -> None:
    code = """
import time
from corepy import _forks
from corepy.devices import _capabilities, _device, _pinned
from corepy import _profile
from corepy.dispatch import _offload_places, _registry, _route_sources, _run, _select, _table
from corepy.dispatch import _threads
modules = _capabilities, _offload_places, _profile, _registry, _route_sources, _select, _table
locks = [module._LOCK for module in (*modules, _device, _pinned, _threads)]
for lock in (*locks, _run._REBINDING):
    assert lock in _forks._locks
    # The fork comes after the hold, however long that is.
    print(beside(lock, lambda over: time.sleep(0.05), lambda: not lock.acquire(blocking=False)))
    assert lock.acquire(blocking=False)  # and the parent has it too
    lock.release()
inner = _table, _route_sources, _registry, _profile  # an operation may end under any other
nested = _run._REBINDING, *(module._LOCK for module in inner)
order = [_forks._locks.index(lock) for lock in nested]
assert order == sorted(order)  # as entries are filled: the outermost first
"""
    assert run(code) == "0\n" * 11


def test_a_library_that_is_being_imported_may_ask_for_its_logger() -> None:
    code = """
import time
from corepy.dispatch import _registry
import logging
# While the other thread waits for this one to fork, and this one for the lock.
print(beside(_registry._LOCK, lambda over: time.sleep(0.2) or logging.getLogger("it"), lambda: 0))
"""
    assert run(code) == "0\n"


@pytest.mark.backend("numba")
def test_who_forks_waits_for_what_numba_compiles() -> None:
    code = """
import time
from numba.core.compiler_lock import global_compiler_lock as lock
from corepy import _forks
from corepy.dispatch import load
load("numba")
assert _forks._locks[-1] is lock
print(beside(lock, lambda over: time.sleep(0.05), lambda: not lock._lock.acquire(blocking=False)))
"""
    assert run(code) == "0\n"


@pytest.mark.backend("tinygrad")
def test_who_forks_waits_for_who_is_in_tinygrad() -> None:
    code = """
import time
from corepy import _forks
from corepy.dispatch import load
load("tinygrad")
from corepy.backends.tinygrad._arrays import LOCK
assert _forks._locks[-1] is LOCK
print(beside(LOCK, lambda over: time.sleep(0.05), lambda: not LOCK.acquire(blocking=False)))
"""
    assert run(code) == "0\n"


def test_a_lock_that_comes_while_somebody_forks_is_waited_for_too() -> None:
    code = """
import threading
from corepy import _forks
late, outer = threading.RLock(), _forks.lock()
class Bringing:
    def __enter__(self):
        _forks.wait_for(late)
    def __exit__(self, *error):
        pass
_forks.wait_for(Bringing())
_forks._take()
threading.Thread(target=lambda: print(late.acquire(blocking=False))).start()
"""
    assert run(code) == "False\n"


def test_an_interrupt_that_comes_while_somebody_waits_to_fork_arrives_after_that() -> None:
    code = """
import signal, sys
from corepy import _forks
sys.unraisablehook = print
class Interrupting:
    come = False
    def __enter__(self):
        if not self.come:
            self.come = True
            signal.raise_signal(signal.SIGINT)
    def __exit__(self, *error):
        pass
_forks.wait_for(Interrupting())
try:
    if os.fork() == 0:
        os._exit(0)
except KeyboardInterrupt:  # in the parent alone
    print("interrupted")
print(os.waitstatus_to_exitcode(os.wait()[1]), _forks._holds, _forks._late)
"""
    assert run(code) == "interrupted\n0 [] []\n"


@pytest.mark.needs("threadpoolctl")
def test_a_child_has_all_threads_of_blas_that_another_thread_has_held() -> None:
    code = """
from corepy import _blas
libraries = _blas._libraries()
for library in libraries:
    library.set_num_threads(2)
count = lambda: [library.get_num_threads() for library in libraries]
two = count()
def child():
    free = _blas._HOLD._lock.acquire(blocking=False)
    if free:
        _blas._HOLD._lock.release()
    if not free or _blas._HOLD._holders or count() != two:
        return 1
    with _blas.single():
        held = count()
    return held != [1] * len(two) or count() != two
print(beside(_blas.single(), lambda over: over.wait(), child))
print(beside(_blas._HOLD._lock, lambda over: over.wait(), child))
assert count() == two
with _blas.single():
    if os.fork() == 0:  # and who forks in a block leaves it in the child as well
        os._exit(count() != two or bool(_blas._HOLD._holders))
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert run(code) == "0\n" * 3
