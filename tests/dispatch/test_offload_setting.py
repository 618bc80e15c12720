"""`corepy.offload`: who turns it on, for whom, and what there is before anybody does."""

from __future__ import annotations

import asyncio
import operator
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corepy
from corepy.dispatch import _offload_places as places
from corepy.dispatch import _settings
from corepy.dispatch._offload_costs import Costs
from corepy.testing import FakeBackend
from tests.dispatch.offloading import NOTHING, SLOW, costs, is_resident, matrix, use_costs


def test_setter_context_and_errors() -> None:
    assert corepy.get_offload() == "off"
    use_costs(Costs({}, {}, {}, ()))
    try:
        with corepy.offload("auto"):
            assert corepy.get_offload() == "auto"
            with corepy.offload("off"):
                assert corepy.get_offload() == "off"
            assert corepy.get_offload() == "auto"
    finally:
        use_costs(None)
    assert corepy.get_offload() == "off"
    for wrong, kind in (("on", ValueError), (None, TypeError), (True, TypeError)):
        with pytest.raises(kind, match='^offload: mode is .*; expected "auto" or "off"'):
            corepy.offload(wrong)  # type: ignore[arg-type]


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, mode in (("", "off"), ("auto", "auto"), (" OFF ", "off")):
        monkeypatch.setenv("COREPY_OFFLOAD", text)
        assert _settings._offload_wanted() == mode
    monkeypatch.setenv("COREPY_OFFLOAD", "yes")
    with pytest.raises(ValueError, match="^corepy: COREPY_OFFLOAD is 'yes'; expected"):
        _settings._offload_wanted()


def test_who_wants_none_first_decides_for_nobody_else(
    eager: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with ``COREPY_OFFLOAD=auto``: the first operation finds the accelerators for all."""
    there = costs(eager, moving=NOTHING, here=SLOW, there=NOTHING)
    monkeypatch.setattr(places._offload_costs, "read_costs", lambda: (there, ""))
    use_costs(None)
    x = matrix(8)
    with corepy.offload("off"):
        for _ in range(2):
            assert not is_resident(x @ x)
        entry = x._table["matmul"][0]
        assert x._table["matmul"][0] is entry  # it need not be looked for again
    assert is_resident(x @ x)
    with corepy.offload("off"):
        assert not is_resident(x @ x)


def test_threads_and_tasks_choose_for_themselves(eager: FakeBackend) -> None:
    x, found = matrix(8), {}

    def work(mode: Any) -> None:
        with corepy.offload(mode):
            found[mode] = [is_resident(x @ x) for _ in range(50)]

    threads = [threading.Thread(target=work, args=(mode,)) for mode in ("auto", "off")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"auto": [True] * 50, "off": [False] * 50}

    async def task(mode: Any) -> bool:
        with corepy.offload(mode):
            await asyncio.sleep(0)
            return is_resident(x @ x)

    async def both() -> list[bool]:
        return await asyncio.gather(task("auto"), task("off"))

    assert asyncio.run(both()) == [True, False]


def test_threads_share_what_is_resident(eager: FakeBackend) -> None:
    right = np.asarray(matrix(8)) @ np.asarray(matrix(8))
    for _ in range(20):
        y = matrix(8) @ matrix(8)
        with ThreadPoolExecutor(3) as pool:
            results = [*pool.map(np.asarray, (y, y, y)), *pool.map(operator.neg, (y, y))]
        for values in results[:3]:
            np.testing.assert_array_equal(values, right)
        for negative in results[3:]:
            np.testing.assert_array_equal(np.asarray(negative), -right)
        assert np.shares_memory(np.asarray(y), np.asarray(y))


def test_switched_off_what_is_resident_is_used_here(eager: FakeBackend) -> None:
    y = matrix(8) @ matrix(8)
    with corepy.offload("off"):
        z = y + 1.0
    assert not is_resident(z)
    np.testing.assert_array_equal(np.asarray(z), np.asarray(y) + 1.0)


def test_what_is_to_be_reproducible_stays(eager: FakeBackend) -> None:
    with corepy.reproducible():
        y = matrix(8) @ matrix(8)
    assert not is_resident(y)
    assert eager.arrived == 0


FRESH = """
import sys, corepy, corepy.array_api as xp
from corepy.dispatch import _offload_places
x = xp.ones((300, 300))
x @ x
entry = x._table["matmul"][0]
assert not _offload_places._wanted and _offload_places._accelerators is None
assert "gate" not in getattr(entry, "__name__", ""), entry
assert "torch" not in sys.modules and "corepy.tuning" not in sys.modules
import warnings
warnings.simplefilter("error")
try:
    corepy.offload("auto")
except corepy.RouteWarning as warning:
    print(warning)
warnings.simplefilter("always")
corepy.offload("auto")  # says it once
x @ x
assert "gate" not in getattr(x._table["matmul"][0], "__name__", "")
"""


def test_until_it_is_wanted_nothing_is_there_and_unmeasured_it_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FRESH],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "COREPY_ROUTES": "off"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.strip() == (
        "offload: everything runs on the host: nothing was measured on this machine. "
        "`corepy tune --offload` measures the accelerators of this machine"
    ), done.stderr
