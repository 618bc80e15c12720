"""What tests on a GPU that puts its work off have in common: its backends, new for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import corepy
from corepy.devices import _pinned
from corepy.devices._device import as_device
from corepy.dispatch import load
from corepy.dispatch._registry import records
from tests.backends.cupy_devices import CURRENT, POOL
from tests.backends.gpu_on_host import GPU
from tests.backends.stand_ins import Alone, Second

for _name in set(records()) - {"cupy", "numpy", "reference"}:  # which have no part in this
    corepy.unregister_backend(_name)

CUDA = as_device("cuda:0")


@pytest.fixture
def second() -> Iterator[Second]:
    backend = Second()
    corepy.register_backend("second", backend, modules=["tests"])
    GPU.defers = True
    with corepy.backend_priority(["cupy"]):
        load("second")
        yield backend
    GPU.defers, GPU.lost, GPU.capacity, CURRENT.address = False, 0, None, 0
    GPU.recording.clear()
    GPU.queues.clear()
    _pinned._on_their_way.clear()
    corepy.unregister_backend("second")
    POOL.reset()
    GPU.pools[:] = [POOL]


@pytest.fixture
def alone(second: Second) -> Iterator[Alone]:
    backend = Alone()
    corepy.register_backend("alone", backend, modules=["nothing"])
    load("alone")
    yield backend
    corepy.unregister_backend("alone")


def values(x: Any) -> Any:
    return corepy.to(x, device="cpu", backend="numpy").tolist()
