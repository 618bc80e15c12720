"""What moving and computing cost, as `corepy tune --offload` measured it: curves, and their file.

Nothing here is a guess. A curve is what was measured, amount by amount; between two amounts it is
a straight line on logarithmic scales, above the greatest it grows in proportion, and below the
least it stays as it is, for that is latency. Where there is no curve nothing is offloaded.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from corepy._signals import let_through
from corepy.devices._device import is_name
from corepy.dispatch import _machine
from corepy.dispatch import _route_files as files
from corepy.dispatch._route_table import from_json

#: Version of the file's form; another one is not read.
FORMAT: Final = 1
#: Where costs are kept in the cache.
FOLDER: Final = "offload"


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds by amount.

    Attributes
    ----------
    points : tuple of (float, float)
        Amounts, rising, and the seconds that each took.
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        amounts = [amount for amount, _ in self.points]
        if not self.points or amounts != sorted(set(amounts)):
            raise ValueError(f"a curve has amounts {amounts}; expected at least one, rising")
        if not all(amount > 0 and 0 < seconds < math.inf for amount, seconds in self.points):
            raise ValueError(f"a curve is {self.points}; expected positive numbers")

    def __call__(self, amount: float) -> float:
        """Return the seconds that an amount takes."""
        first, last = self.points[0], self.points[-1]
        if amount <= first[0]:
            return first[1]
        if amount >= last[0]:
            return last[1] * amount / last[0]
        at = bisect_left(self.points, (amount, 0.0))
        (low, fast), (high, slow) = self.points[at - 1], self.points[at]
        part = math.log(amount / low) / math.log(high / low)
        return fast * float((slow / fast) ** part)

    def within(self, seconds: float) -> float:
        """Return an amount that takes so long, 0 if even the least takes longer."""
        (low, fast), (high, slow) = self.points[0], self.points[-1]
        if seconds < fast:
            return 0.0
        if seconds >= slow:
            return high * seconds / slow
        for _ in range(40):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self(middle) <= seconds else (low, middle)
        return low

    def with_point(self, amount: float, seconds: float) -> Curve:
        """Return the curve with one more point, or with another one at that amount."""
        return Curve(tuple(sorted({**dict(self.points), amount: seconds}.items())))


@dataclass(frozen=True, slots=True)
class Device:
    """What one accelerator costs.

    Attributes
    ----------
    backend, device : str
    version : str
        Of the backend's library, and of what else decides how fast it is.
    up, down : Curve or None
        Seconds by bytes, from the host to the device and back.
    work : mapping of str to Curve
        Seconds by amount of work, by ``"operation/dtype"``.
    refused : mapping of str to str
        Why an ``"operation/dtype"`` is never offloaded: it does not mean what the host means.
    """

    backend: str
    device: str
    version: str
    up: Curve | None = None
    down: Curve | None = None
    work: Mapping[str, Curve] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How it is called in messages."""
        return f"{self.backend} on {self.device}"


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of one machine.

    Attributes
    ----------
    machine : mapping
        What `corepy.dispatch._machine.machine_key` said there.
    made : mapping
        ``command`` and ``date``, and ``environment``, for which installation of Python.
    host : mapping of str to Curve
        Seconds on the host, as `Device.work`.
    devices : tuple of Device
        One accelerator with two versions of a library is two: environments that share the file,
        for the host is the same in them, do not take each other's away.
    """

    machine: Mapping[str, Any]
    made: Mapping[str, Any]
    host: Mapping[str, Curve]
    devices: tuple[Device, ...]

    def of(self, backend: str, device: str, version: str) -> Device | None:
        """Return the costs of an accelerator, None if it was not measured with this version."""
        key = backend, device, version
        return next((d for d in self.devices if (d.backend, d.device, d.version) == key), None)

    def with_device(self, device: Device) -> Costs:
        """Return costs with an accelerator added, or in the place of what was known of it."""
        key = device.name, device.version
        others = (d for d in self.devices if (d.name, d.version) != key)
        return replace(self, devices=(*others, device))

    def dump(self) -> str:
        """Return the text of their file."""
        content = {
            "format": FORMAT,
            "made": dict(self.made),
            "machine": dict(self.machine),
            "host": _curves(self.host),
            "devices": [
                {
                    "backend": device.backend,
                    "device": device.device,
                    "version": device.version,
                    "up": device.up and device.up.points,
                    "down": device.down and device.down.points,
                    "work": _curves(device.work),
                    "refused": dict(device.refused),
                }
                for device in self.devices
            ],
        }
        return json.dumps(content, indent=1) + "\n"


def _curves(curves: Mapping[str, Curve]) -> dict[str, Any]:
    return {key: curve.points for key, curve in sorted(curves.items())}


def parse(text: str) -> Costs:
    """Return the costs that a file's text holds.

    Raises
    ------
    ValueError
        If it holds none, saying what is wrong: costs that are half right are not used.
    """
    content = from_json(text)
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise ValueError(f"its format is {found!r}; expected {FORMAT}")
    try:
        devices = tuple(
            Device(
                str(row["backend"]),
                _device_name(row["device"]),
                str(row["version"]),
                None if row["up"] is None else _curve(row["up"]),
                None if row["down"] is None else _curve(row["down"]),
                {str(key): _curve(points) for key, points in row["work"].items()},
                {str(key): str(why) for key, why in row["refused"].items()},
            )
            for row in content["devices"]
        )
        host = {str(key): _curve(points) for key, points in content["host"].items()}
        return Costs(dict(content["machine"]), dict(content["made"]), host, devices)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"it is damaged ({type(error).__name__}: {error})") from None


def _device_name(name: Any) -> str:
    if not (isinstance(name, str) and is_name(name)):
        raise ValueError(f"a device is {name!r}; expected a name such as 'cuda:0'")
    return name


def _curve(points: Any) -> Curve:
    return Curve(tuple((float(amount), float(seconds)) for amount, seconds in points))


# ---------------------------------------------------------------------------- their file


def costs_folder() -> Path:
    """Return where costs are kept: beside the tables of routes, which are not looked for there."""
    return files.cache_folder() / FOLDER


def costs_file(machine: Mapping[str, Any]) -> Path:
    """Return the file of this machine's own costs."""
    return costs_folder() / files.cache_file(machine).name.replace("routes-", "costs-")


def read_costs() -> tuple[Costs | None, str]:
    """Return what was measured on this machine as it is now, or None and why there is nothing."""
    try:
        if not files.has_files(FOLDER):
            return None, "nothing was measured on this machine"
    except OSError as error:
        let_through(error)
        return None, f"the cache folder cannot be read ({error})"
    machine = _machine.machine_key()
    path = costs_file(machine)
    try:
        costs = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None, _of_other_keys(machine)
    except (OSError, ValueError) as error:
        let_through(error)
        return None, f"{path} cannot be used: {error}"
    if dict(costs.machine) != machine:
        return None, f"{path} was measured elsewhere"
    return costs, ""


def _of_other_keys(key: Mapping[str, Any]) -> str:
    """Say what was measured that does not fit: here before a change, or for other environments."""
    told = ""
    for path in files.newest(costs_folder().glob("costs-*.json")):
        try:
            costs = parse(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            let_through(error)
            continue  # damaged, and nobody's here
        found = "; ".join(_machine.differences(costs.machine, key))
        if costs.made.get("environment") == _machine.environment():
            return f"what was measured does not fit any more ({found})"
        told = told or f"what is kept for another environment is not used here ({found})"
    return told or "what was measured cannot be read"
