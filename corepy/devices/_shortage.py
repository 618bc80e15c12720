"""Running out of memory: who has some to give back, and the error when that does not help.

Each library keeps the memory of arrays that are gone for its next ones, and none knows of the
others' hoards. So when one runs out on a device, values go home that nobody wanted to lie there,
every library there gives back what it keeps, and what failed is tried once more.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TypeVar

from corepy._errors import BackendUnavailableError, CorepyError, InsufficientMemoryError
from corepy.devices._device import CPU, Device
from corepy.devices._libraries import release, serving
from corepy.devices._memory import memory_info

T = TypeVar("T")


def _nobody(device: Device) -> None:
    """Send nothing home: all that lies on a device is there by its user's wish."""


_send_home: Callable[[Device], None] = _nobody


def on_shortage(send_home: Callable[[Device], None]) -> None:
    """Let the dispatcher say how to free a device of what it keeps there by its own choice."""
    global _send_home
    _send_home = send_home


def is_shortage(error: BaseException, device: Device) -> bool:
    """Say whether a library raised an error because memory of a device, or the host's, ran out."""
    if isinstance(error, CorepyError):  # tried again already, where memory was what lacked
        return False
    return isinstance(error, MemoryError) or is_told(error, device)


def is_told(error: BaseException, device: Device) -> bool:
    """Say whether a library on a device knows an error as its own for a lack of memory."""
    return any(backend.is_out_of_memory(error) for backend in serving(device))


def insist(function: str, device: Device, run: Callable[[], T]) -> T:
    """Run what changes nothing, and once more as `again` does where memory runs out."""
    try:
        return run()
    except Exception as error:
        if not is_shortage(error, device):
            raise
        return again(function, device, run, error)


def again(function: str, device: Device, run: Callable[[], T], first: BaseException) -> T:
    """Run once more what failed for want of memory, after all that may go has left the device.

    Parameters
    ----------
    function : str
        What messages name.
    device : Device
        Where memory ran out.
    run : callable
        What failed, having changed nothing.
    first : exception
        How it failed.

    Raises
    ------
    InsufficientMemoryError
        If memory runs out again.
    """
    traceback.clear_frames(first.__traceback__)  # which hold the memory of what it had made by then
    _send_home(device)  # first: libraries then have that memory to give back
    freed = sum(release(place) for place in {device, CPU})
    try:
        return run()
    except Exception as error:
        if not is_shortage(error, device):
            raise
        traceback.clear_frames(error.__traceback__)
        raise shortage(function, device, freed, error) from first


def shortage(
    function: str, device: Device, freed: int, error: BaseException, hint: str = ""
) -> InsufficientMemoryError:
    """Word the error of a device whose memory does not suffice."""
    told = " ".join(str(error).split()) or "it says no more"
    try:
        memory = memory_info(device)
        left = f"{memory.free_bytes} of {memory.total_bytes} bytes are free"
    except (BackendUnavailableError, MemoryError):  # to read it takes memory as well
        left = "what is free cannot be read"
    return InsufficientMemoryError(
        f"{function}: the memory of {device} does not suffice, and its operands are untouched; "
        f"libraries gave back {freed} bytes, {left}{hint} ({type(error).__name__}: {told})"
    )
