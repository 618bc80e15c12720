"""Values that offload keeps on a device go home where others need its memory, or a child them."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import ANY
from corepy.devices._device import Device
from corepy.dispatch._offload_values import send_home
from corepy.testing import FakeArray, FakeBackend
from tests.dispatch.fake import DEVICE, registered
from tests.dispatch.offloading import NOTHING, SLOW, costs, is_resident, matrix, use_costs


class FullError(RuntimeError):
    """What the library raises where a device has no more memory."""


class Small(FakeBackend):
    """A library on devices of 2000 bytes each."""

    def __init__(self) -> None:
        super().__init__(devices={DEVICE.name: ANY, "fake:1": ANY})
        self.used = dict.fromkeys(self.devices(), 0)

    def _held(self, made: FakeArray) -> FakeArray:
        place, size = made.device, made._values.nbytes
        if self.used[place] + size > 2000:
            raise FullError(f"{size} bytes beside {self.used[place]}")
        self._count(place, size)
        weakref.finalize(made._values, self._count, place, -size)
        return made

    def _count(self, place: Device, size: int) -> None:
        self.used[place] += size

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, FullError)

    def _fake(self, made: Any, place: Device) -> Any:
        found = super()._fake(made, place)
        return found if isinstance(found, tuple) else self._held(found)

    def from_numpy(self, array: Any, device: Device, *, copy: bool | None = None) -> FakeArray:
        return self._held(super().from_numpy(array, device, copy=copy))


@pytest.fixture
def small() -> Iterator[Small]:
    backend = Small()
    with registered(backend):
        use_costs(costs(backend, moving=NOTHING, here=SLOW, there=NOTHING))
        try:
            with corepy.offload("auto"):
                yield backend
        finally:
            use_costs(None)


def squared(side: int) -> Any:
    x = matrix(side)
    return x @ x  # one operand, for which there is room


def test_who_runs_out_of_memory_there_gets_that_of_values_which_may_go(small: Small) -> None:
    y = squared(10)
    right = np.asarray(matrix(10)) @ np.asarray(matrix(10))
    elsewhere = xp.ones(200, device="fake:1")  # whose memory is another's
    assert (small.used[DEVICE], elsewhere.nbytes) == (800, 1600)
    xp.ones(100, device="fake:0")
    assert is_resident(y)  # as long as there is room
    found = corepy.explain(lambda: xp.ones(200, device="fake:0"))
    assert not is_resident(y)
    assert [(r.operation, r.bytes_moved, r.reason) for r in found.records[:1]] == [
        ("transfer", 800, "home from fake:0")
    ]
    np.testing.assert_array_equal(np.asarray(found.result.to_device("cpu")), np.ones(200))
    np.testing.assert_array_equal(np.asarray(y), right)


def test_a_transfer_of_the_users_gets_it_too_and_that_of_other_devices_stays(small: Small) -> None:
    y = squared(10)
    with pytest.raises(corepy.InsufficientMemoryError, match="of fake:1 does not suffice"):
        corepy.to(np.ones(300), device="fake:1")
    assert is_resident(y)
    assert corepy.to(np.ones(200), device="fake:0").shape == (200,)
    assert not is_resident(y)


def test_what_cannot_go_home_stays_and_the_error_is_that_of_who_lacks_memory(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    y, z = squared(8), squared(9)
    usual, asked = small.to_numpy, []

    def to_numpy(native: Any, *, copy: bool | None = None) -> Any:
        asked.append(native)
        raise FullError("nor for a copy")  # for which values would be sent home, too

    monkeypatch.setattr(small, "to_numpy", to_numpy)
    with pytest.raises(corepy.InsufficientMemoryError, match="ones: the memory of fake:0 does not"):
        xp.ones(200, device="fake:0")
    assert len(asked) == 4  # each, and once more with the caches emptied
    monkeypatch.setattr(small, "to_numpy", usual)
    for x, side in ((y, 8), (z, 9)):
        assert is_resident(x)
        right = np.asarray(matrix(side)) @ np.asarray(matrix(side))
        np.testing.assert_array_equal(np.asarray(x), right)


def test_values_of_all_devices_are_sent_home_at_once(small: Small) -> None:
    y = squared(8)
    send_home()
    assert not is_resident(y)
    assert small.left == 1
    send_home()  # they are there
    assert small.left == 1
    z = y + 1.0
    assert not is_resident(z)
    np.testing.assert_array_equal(np.asarray(z), np.asarray(y) + 1.0)


FORK = """
import os, sys, warnings
import numpy as np
import corepy
from corepy.testing import FakeBackend
from tests.dispatch.fake import DEVICE, registered
from tests.dispatch.offloading import ANY, NOTHING, SLOW, costs, is_resident, matrix, use_costs

warnings.simplefilter("ignore", DeprecationWarning)  # of threads and fork

class Bound(FakeBackend):
    owner = os.getpid()

    def _answer(self, device):
        if os.getpid() != self.owner:
            raise RuntimeError("cannot initialize the device in a forked process")
        super()._answer(device)

backend = Bound(devices={DEVICE.name: ANY})
with registered(backend):
    use_costs(costs(backend, moving=NOTHING, here=SLOW, there=NOTHING))
    with corepy.offload("auto"):
        x = matrix(8)
        y = x @ x
        assert is_resident(y)
        child = os.fork()
        if not child:
            try:
                arrived = backend.arrived
                found = np.asarray(y) @ np.asarray(x), np.asarray(y @ x)
                assert (found[0] == found[1]).all() and backend.arrived == arrived
            except BaseException as error:
                print(type(error).__name__, error, flush=True)
                os._exit(1)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), is_resident(x @ x))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_all_values_and_leaves_the_device_alone() -> None:
    root = Path(__file__).resolve().parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        env={**os.environ, "PYTHONPATH": str(root), "COREPY_ROUTES": "off"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout == "0 True\n", done.stdout + done.stderr
