"""The accelerators that operations may be offloaded to, and what they cost."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

from corepy import _forks
from corepy._errors import BackendUnavailableError, RouteWarning
from corepy.backends._base import Backend
from corepy.devices._capabilities import detect_devices
from corepy.devices._device import Device, as_device
from corepy.devices._transfer import DEFAULT
from corepy.dispatch import _explain, _offload_costs, _registry, _settings
from corepy.dispatch._offload_costs import Costs, Curve
from corepy.dispatch._settings import OFFLOAD

_refill: Callable[[], None]


def on_change(refill: Callable[[], None]) -> None:
    """Let the tables say how to empty them once other costs are known."""
    global _refill
    _refill = refill


@dataclass(frozen=True, slots=True, eq=False)
class Accelerator:
    """A device that operations may be offloaded to, and what it costs.

    Attributes
    ----------
    backend : Backend
    device : Device
    up, down : Curve
        Seconds by bytes, there and back.
    work : mapping of str to Curve
    refused : mapping of str to str
    host : mapping of str to Curve
        What the same takes on the host.
    """

    backend: Backend
    device: Device
    up: Curve
    down: Curve
    work: Mapping[str, Curve]
    refused: Mapping[str, str]
    host: Mapping[str, Curve]

    @property
    def name(self) -> str:
        """How it is called in messages."""
        return f"{self.backend.name} on {self.device}"

    def in_order(self) -> AbstractContextManager[object]:
        """Return a context in which its work goes to the default stream, in whatever blocks.

        Who holds a host array does not know where its values lie, and waits for no stream.
        """
        streams = self.backend.streams(self.device)
        if streams is None or streams.current() in DEFAULT:
            return nullcontext()
        return streams.using(DEFAULT[0])


_LOCK: Final = _forks.lock()
_accelerators: tuple[Accelerator, ...] | None = None
#: Whether anybody ever wanted offloading; until then the tables hold no gates.
_wanted = OFFLOAD.get() == "auto"


def accelerators() -> tuple[Accelerator, ...]:
    """Return the accelerators whose costs are known, and warn once if there are none."""
    global _accelerators
    found = _accelerators
    if found is None:
        with _LOCK:
            found = _accelerators
            if found is None:
                costs, why = _offload_costs.read_costs()
                reasons = [why]
                if costs is not None:
                    found, reasons = _usable(costs)
                _accelerators = found = found or ()
                if not found:
                    warnings.warn(
                        f"offload: everything runs on the host: {'; '.join(reasons)}. "
                        f"`corepy tune --offload` measures the accelerators of this machine",
                        RouteWarning,
                        stacklevel=_explain.depth() + 1,
                    )
    return found


def _leave_accelerators() -> None:
    """Let everything run on the host: a forked child can use no device that its parent used."""
    global _accelerators
    if _accelerators is not None:
        _accelerators = ()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_accelerators)


def are_wanted() -> bool:
    """Say whether anybody wanted them so far, or the environment does."""
    return _wanted


def _want() -> None:
    global _wanted
    accelerators()
    if not _wanted:
        _wanted = True
        _refill()


_settings.when_offloading = _want


def _usable(costs: Costs) -> tuple[tuple[Accelerator, ...], list[str]]:
    """Return the accelerators that are there as they were measured, and why others are not."""
    found, reasons = [], []
    for device in costs.devices:
        try:
            backend = _registry.load_usable(device.backend, "offload")
        except BackendUnavailableError as error:
            reasons.append(str(error))
            continue
        place = as_device(device.device)
        if place not in backend.devices():
            reasons.append(f"{device.name} is not there")
        elif device.version != version_of(backend, place):
            reasons.append(f"{device.name} was measured as {device.version}")
        elif device.up is None or device.down is None:
            reasons.append(f"no transfers to {device.name} were measured")
        else:
            found.append(
                Accelerator(
                    *(backend, place, device.up, device.down),
                    *(device.work, device.refused, costs.host),
                )
            )
    return tuple(found), reasons or ["no accelerator was found"]


def version_of(backend: Backend, device: Device) -> str:
    """Name what decides how fast a device is: its library's version, and the hardware's name.

    The latter as its driver tells where corepy asks that itself, else as the library does.
    """
    library = sys.modules.get(backend.name)  # most backends have their library's name
    words = [str(getattr(library, "__version__", type(backend).__qualname__))]
    gpus = [gpu.name for gpu in detect_devices().gpus if gpu.device is device]
    names = gpus or [backend.hardware(device) or ""]
    return " ".join(filter(None, [*words, *names]))
