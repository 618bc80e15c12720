"""The fake backend of `corepy.testing` on one device of its own, ``fake:0``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import corepy
from corepy._dtypes import ANY, DType
from corepy.devices._device import Device, as_device
from corepy.testing import FakeArray as Tensor
from corepy.testing import FakeBackend as Complete

DEVICE = as_device("fake:0")


def tensor(values: Any) -> Tensor:
    """Make an array of the fake library, as its users would."""
    return Tensor(np.asarray(values), DEVICE)


class FakeBackend(Complete):
    """A library on one device that offers the operations it is told to, and no other."""

    def __init__(
        self,
        offers: set[str],
        *,
        device: Device = DEVICE,
        dtypes: frozenset[DType] = ANY,
        available: bool = True,
    ) -> None:
        super().__init__(offers, devices={device.name: dtypes}, available=available)


@contextmanager
def registered(backend: corepy.Backend, name: str = "fake", priority: int = 500) -> Iterator[Any]:
    """Register a backend for the extent of a ``with`` block."""
    corepy.register_backend(name, backend, priority=priority, modules=["corepy"])
    try:
        yield backend
    finally:
        corepy.unregister_backend(name)
