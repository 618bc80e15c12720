"""Threads that turn a mode on for the first time, while others are about to store their entries.

Each case runs in a process of its own, in which nobody has asked for anything yet.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

#: What the first autocast, or the first ``reproducible``, finds.
_START: Final = """
import threading
import numpy as np
import corepy
import corepy.array_api as xp
from corepy.dispatch import _autocast, _considerate, _settings, _table
from corepy.dispatch._reproducible import REPRODUCIBLE

corepy.set_backend_priority(["numpy"])
x = xp.asarray(np.full((4, 4), 1.001, np.float32))
modes = {
    "autocast": (_settings.AUTOCAST, lambda: corepy.autocast("bfloat16")),
    "reproducible": (REPRODUCIBLE, corepy.reproducible),
}
reached, go_on = threading.Event(), threading.Event()


def pause():
    if threading.current_thread().name == "paused":
        reached.set()
        assert go_on.wait(60)


def paused(work):
    thread = threading.Thread(target=work, name="paused")
    thread.start()
    assert reached.wait(60)
    return thread


def switch(change):
    with change():
        pass
"""


def printed(code: str) -> list[str]:
    """Return the lines that a program prints, which nothing may go wrong in."""
    command = [sys.executable, "-W", "error", "-c", _START + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("mode", ["autocast", "reproducible"])
def test_two_threads_may_be_the_first(mode: str) -> None:
    code = f"""
setting, change = modes[{mode!r}]
both = threading.Barrier(2)
setting.watchers.insert(0, lambda: both.wait(60))  # so that each is there as if it were alone
threads = [threading.Thread(target=switch, args=(change,)) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    assert printed(code) == []


@pytest.mark.parametrize("mode", ["autocast", "reproducible"])
def test_no_thread_goes_on_with_entries_from_before(mode: str) -> None:
    code = f"""
class Gate:
    lock = _table._LOCK

    def __enter__(self):
        pause()
        self.lock.__enter__()

    def __exit__(self, *error):
        self.lock.__exit__(*error)


x @ x
print("matmul" in x._table)
_table._LOCK = Gate()
setting, change = modes[{mode!r}]
thread = paused(lambda: switch(change))  # it is about to empty the tables
with change():
    print("matmul" in x._table)
go_on.set()
thread.join()
"""
    assert printed(code) == ["True", "False"]


def test_products_that_are_resolved_meanwhile_are_rounded_later() -> None:
    code = """
applied = _autocast.applied


def late(*args):
    made = applied(*args)
    pause()
    return made


_autocast.applied = late
thread = paused(lambda: x @ x)
switch(modes["autocast"][1])
go_on.set()
thread.join()
for product in (lambda: x @ x, lambda: xp.tensordot(x, x, axes=1)):
    with corepy.autocast("bfloat16"):
        print(np.asarray(product())[0, 0])
    print(np.allclose(np.asarray(product()), 4 * 1.001**2))
"""
    assert printed(code) == ["4.0", "True"] * 2


def test_sums_that_are_resolved_meanwhile_are_reproducible_later() -> None:
    code = """
concerns, asked = _considerate.concerns, []


def late(*args):
    made = concerns(*args)
    pause()
    return made


def hold():
    asked.append(True)
    return reproducible_blas()


_considerate.concerns, reproducible_blas = late, _considerate.reproducible_blas
_considerate.reproducible_blas = hold
y = xp.asarray(np.ones(20_000))
thread = paused(lambda: xp.vecdot(y, y))
switch(modes["reproducible"][1])
go_on.set()
thread.join()
with corepy.reproducible():
    print(float(xp.vecdot(y, y)), asked)
"""
    assert printed(code) == ["20000.0 [True]"]
