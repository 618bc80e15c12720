"""A fake accelerator with costs that the tests choose, for operations to be offloaded to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import corepy
from corepy._dtypes import ANY, DType
from corepy.devices._device import CPU
from corepy.devices._transfer import from_host
from corepy.dispatch import _offload_places as places
from corepy.dispatch import load, make, table_of
from corepy.dispatch._offload_costs import Costs, Curve, Device
from corepy.dispatch._offload_values import Resident, standing_for
from corepy.dispatch._offload_work import MEASURED
from corepy.dispatch._settings import OFFLOAD
from corepy.testing import FakeBackend
from tests.dispatch.fake import DEVICE, registered

KEYS = [f"{name}/{dtype}" for name, dtypes in MEASURED.items() for dtype in dtypes]


def line(latency: float, rate: float) -> Curve:
    """Return a curve of a latency and seconds for each unit."""
    return Curve(tuple((10.0**i, latency + 10.0**i * rate) for i in range(12)))


#: 20 us and 10 GB/s each way; the host does 1e10 a second and the device a hundred times that.
MOVING, HERE, THERE = line(2e-5, 1e-10), line(1e-7, 1e-10), line(1e-5, 1e-12)
NOTHING = Curve(((1.0, 1e-12),))
#: A second for whatever it is.
SLOW = Curve(((1.0, 1.0),))


def costs(
    backend: corepy.Backend, *, moving: Curve = MOVING, here: Curve = HERE, there: Curve = THERE
) -> Costs:
    """Return costs that are alike for all operations."""
    device = Device(
        backend.name,
        DEVICE.name,
        places.version_of(backend, DEVICE),
        moving,
        moving,
        dict.fromkeys(KEYS, there),
    )
    return Costs({}, {}, dict.fromkeys(KEYS, here), (device,))


def use_costs(costs: Costs | None) -> None:
    """Reckon with other costs from now on; None for those measured on this machine.

    The latter are read when somebody wants them.
    """
    with places._LOCK:
        places._accelerators = None if costs is None else places._usable(costs)[0]
        places._wanted = OFFLOAD.get() == "auto"
    places._refill()


@contextmanager
def accelerator(dtypes: frozenset[DType] = ANY, **curves: Curve) -> Iterator[FakeBackend]:
    """Add a device on which operations may run, for the extent of a ``with`` block."""
    with registered(FakeBackend(devices={DEVICE.name: dtypes})) as backend:
        use_costs(costs(backend, **curves))
        try:
            with corepy.offload("auto"):
                yield backend
        finally:
            use_costs(None)


def matrix(side: int = 200, dtype: Any = np.float64) -> Any:
    """Return a square host array of random numbers, the same each time."""
    values = np.random.default_rng(side).standard_normal((side, side)).astype(dtype)
    return corepy.array_api.asarray(values)


def resident(values: Any) -> Any:
    """Return a host array whose values lie on the accelerator."""
    (place,) = places.accelerators()
    home = load("numpy")
    there = from_host(np.asarray(values), place.backend, place.device)
    held = Resident(there, place, home)
    return make(held, table_of(standing_for(home), CPU, held.dtype))


def is_resident(x: Any) -> bool:
    """Say whether the values of an array lie on an accelerator now."""
    return x._native.__class__ is Resident and x._native.there is not None
