"""Devices: one interned object per memory space."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Final

from corepy import _forks
from corepy._errors import bad_argument, bad_type

#: Kinds of device the vocabulary knows; ``gpu`` is no device but a wish for any of these.
GPU_KINDS: Final = ("cuda", "rocm", "mps", "xpu")
#: Kinds that come numbered: ``cuda`` means ``cuda:0``.
_NUMBERED: Final = ("cuda", "rocm", "tpu", "xpu", "opencl", "webgpu")
#: All kinds that a user may name without a backend that brings its own.
KINDS: Final = ("cpu", "gpu", "cuda", "rocm", "mps", "tpu", "xpu", "opencl", "webgpu", "dask")
_NUMBER: Final = re.compile("0|[1-9][0-9]*")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*(:[a-z0-9_]+)?")


class Device:
    """A memory space, such as ``cpu`` or ``cuda:0``.

    There is exactly one object per device, whether or not the machine has it; compare by identity.

    Parameters
    ----------
    name : Device or str
        As `as_device` takes it: ``Device("cuda")`` is ``Device("cuda:0")``.

    Attributes
    ----------
    name : str
        ``"cpu"``, ``"cuda:0"``, ...
    kind : str
        The part before the colon.
    index : int or None
        The number after the colon, where there is one.
    """

    __slots__ = ("index", "kind", "name")

    name: str
    kind: str
    index: int | None

    def __new__(cls, name: Device | str) -> Device:
        return as_device(name, "Device", "name")

    def __repr__(self) -> str:
        return f"corepy.Device({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return as_device, (self.name,)


_DEVICES: Final[dict[str, Device]] = {}
_LOCK: Final = _forks.lock()
_first_gpu: Callable[[str, str], Device]
_backends: Callable[[], Container[str]] = tuple


def bind(first_gpu: Callable[[str, str], Device]) -> None:
    """Let the dispatcher say which device ``gpu`` is, given the function and argument to name."""
    global _first_gpu
    _first_gpu = first_gpu


def bind_backends(backends: Callable[[], Container[str]]) -> None:
    """Let the registry name the backends, for the message to those who take one for a device."""
    global _backends
    _backends = backends


def is_name(name: str) -> bool:
    """Say whether a string has the form of a device's name, or of a kind's alone."""
    kind, colon, number = name.partition(":")
    if not colon or kind not in KINDS:
        return _NAME.fullmatch(name) is not None
    # JAX may divide the host, into ``cpu``, ``cpu:1`` and so on.
    numbered = kind in _NUMBERED or (kind == "cpu" and number != "0")
    return numbered and _NUMBER.fullmatch(number) is not None


def as_device(device: object, function: str = "as_device", argument: str = "device") -> Device:
    """Find the device that an object means.

    Parameters
    ----------
    device : Device or str
        A `Device`, or its name; a numbered kind alone means its first (``"cuda"`` is
        ``"cuda:0"``). ``"gpu"`` is the first GPU that a usable backend serves.
    function, argument : str
        What the message names when the object means no device.

    Returns
    -------
    Device
        The one object of that device, whether or not the machine has it.

    Raises
    ------
    TypeError
        If the object is neither.
    ValueError
        If the string is not of the form of a device's name, or is a backend's.
    BackendUnavailableError
        If it is ``"gpu"``, and there is none.
    """
    if isinstance(device, Device):
        return device
    if not isinstance(device, str):
        raise bad_type(function, argument, device, "a Device or its name")
    name = f"{device}:0" if device in _NUMBERED else device
    found = _DEVICES.get(name)
    if found is None:
        if name == "gpu":
            return _first_gpu(function, argument)
        is_backend = name in _backends()
        if is_backend or not is_name(name):
            expected = 'a device name such as "cpu" or "cuda:0"'
            if is_backend:
                expected += f': this is a backend, see corepy.to(x, backend="{name}")'
            elif name == "cpu:0":
                expected = '"cpu", which has no number'
            raise bad_argument(function, argument, device, expected)
        with _LOCK:  # two threads that meet here must end with the same object
            found = _DEVICES.get(name) or _made(name)
    return found


def _made(name: str) -> Device:
    """Make the object of a device."""
    made = object.__new__(Device)
    made.name = name
    made.kind, _, index = name.partition(":")
    made.index = int(index) if index.isdigit() else None
    _DEVICES[name] = made  # whole, for others look there without the lock
    return made


CPU: Final = as_device("cpu")
