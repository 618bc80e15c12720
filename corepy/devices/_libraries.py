"""The memory that libraries keep on devices: counting it, limiting it, giving it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from corepy._errors import (
    BackendError,
    CorepyError,
    UnsupportedOperationError,
    bad_argument,
    bad_type,
)
from corepy._signals import let_through
from corepy.devices import _pool
from corepy.devices._device import CPU, Device, as_device
from corepy.devices._pool import MemoryStats

if TYPE_CHECKING:
    from corepy.backends._base import Backend

__all__ = ["empty_cache", "memory_stats", "set_memory_limit"]

T = TypeVar("T")

_loaded: Callable[[], Iterable[Backend]] = tuple
_why_unusable: Callable[[Backend], str | None]
_release_small: Callable[[], None]
_let_go: Callable[[], None]
_present: Callable[[str, Device], Device]


def bind(
    loaded: Callable[[], Iterable[Backend]],
    why_unusable: Callable[[Backend], str | None],
    release_small: Callable[[], None],
) -> None:
    """Let the registry say which backends are loaded, and why one of them cannot run anything now.

    And the hot path let go of small arrays.
    """
    global _loaded, _why_unusable, _release_small
    _loaded, _why_unusable, _release_small = loaded, why_unusable, release_small


def bind_present(present: Callable[[str, Device], Device]) -> None:
    """Let the dispatcher say whether a device is there, and refuse one that is not."""
    global _present
    _present = present


def on_release(let_go: Callable[[], None]) -> None:
    """Let `corepy.devices._pinned` say how to forget the copies that are done."""
    global _let_go
    _let_go = let_go


def loaded_backends() -> tuple[Backend, ...]:
    """Return the loaded backends."""
    return tuple(_loaded())


def serving(device: Device) -> list[Backend]:
    """Return the loaded backends that compute on a device; the others keep no memory there."""
    return [backend for backend in _loaded() if device in backend.devices()]


def usable(device: Device) -> list[Backend]:
    """Return those of the backends that serve a device which can run operations now."""
    return [backend for backend in serving(device) if _why_unusable(backend) is None]


def users(function: str, device: Device) -> list[Backend]:
    """Return the usable backends of a device, loading them if none is; refuse a device absent."""
    return usable(device) or usable(_present(function, device))


def asked(function: str, device: Device, call: Callable[[], T]) -> T:
    """Ask a library something of a device that is no operation, such as to wait for it.

    Raises
    ------
    BackendError
        If the library fails, as where the device is lost.
    """
    try:
        return call()
    except CorepyError:
        raise
    except (OSError, RuntimeError) as error:
        let_through(error)
        raise BackendError(f"{function}: {type(error).__name__} on {device}: {error}") from error


def release(device: Device) -> int:
    """Let every library give back what it keeps for later on a device; return the bytes."""
    _let_go()
    freed = 0
    if device is CPU:
        _release_small()
        freed = _pool.release()
    return freed + sum(
        asked("empty_cache", device, partial(backend.empty_cache, device))
        for backend in usable(device)
    )


def memory_stats(device: Device | str = "cpu") -> MemoryStats:
    """Tell what the pools of memory on a device hold.

    Parameters
    ----------
    device : Device or str
        ``cpu`` has corepy's pool, an accelerator those of the libraries there.

    Returns
    -------
    MemoryStats
        The sum over the pools, each of which tells what it counts: CuPy, tinygrad and torch on
        ``mps`` no peak, torch no blocks.
        On the host all zeros where corepy was not compiled, or ``COREPY_PURE_PYTHON=1``.

    Raises
    ------
    TypeError, ValueError
        If `device` is no device.
    BackendUnavailableError
        If the device is not there; the message says why.
    BackendError
        If a library fails, as where the device is lost.
    UnsupportedOperationError
        If no library counts the memory that it has there.
    """
    place = as_device(device, "memory_stats")
    if place is CPU:
        return _pool.statistics()
    found = [
        asked("memory_stats", place, partial(backend.memory_stats, place))
        for backend in users("memory_stats", place)
    ]
    counted = [stats for stats in found if stats is not None]
    if not counted:
        raise UnsupportedOperationError(
            f"memory_stats: device is {place}; expected cpu, or one on which a library "
            f"counts its memory, as CuPy, torch, JAX, MLX and tinygrad do on accelerators"
        )
    return MemoryStats(
        *(sum(getattr(stats, field.name) for stats in counted) for field in fields(MemoryStats))
    )


def empty_cache(device: Device | str = "cpu") -> int:
    """Give the memory that waits for results back to the system.

    Parameters
    ----------
    device : Device or str
        As in `memory_stats`.

    Returns
    -------
    int
        How many bytes that were, in corepy's pool or in those of all libraries there.

    Raises
    ------
    TypeError, ValueError
        If `device` is no device.
    BackendUnavailableError
        If the device is not there; the message says why.
    BackendError
        If a library fails, as where the device is lost.

    Notes
    -----
    Seldom needed: where memory runs out, it is done before the operation is run once more.
    """
    place = as_device(device, "empty_cache")
    if place is not CPU:
        users("empty_cache", place)
    return release(place)


def set_memory_limit(limit: int | None, device: Device | str) -> dict[str, str]:
    """Set how much memory of an accelerator each library may take.

    Parameters
    ----------
    limit : int or None
        In bytes, for each library's pool apart; None takes the limit away. Beyond it an operation
        is out of memory as beyond the device's own: see `set_fallback` for what follows.
    device : Device or str
        Such as ``cuda:0``. On the host libraries have no limit: `set_memory_pool` sets how much
        may wait there.

    Returns
    -------
    dict
        Why a library has no limit now, by the name of its backend; empty if all obey.

    Raises
    ------
    TypeError
        If `limit` is no int, or `device` no device.
    ValueError
        If `limit` is not positive or above ``2**63 - 1``, or `device` not of the form of a
        device's name.
    BackendUnavailableError
        If the device is not there; the message says why.
    BackendError
        If a library fails, as where the device is lost.
    UnsupportedOperationError
        If `device` is the host.
    """
    place = as_device(device, "set_memory_limit")
    if limit is not None:
        if limit.__class__ is not int:
            raise bad_type("set_memory_limit", "limit", limit, "an int or None")
        if not 0 < limit < 1 << 63:  # beyond that each library fails in a way of its own
            expected = "more than 0 and less than 2**63, or None"
            raise bad_argument("set_memory_limit", "limit", limit, expected)
    if place is CPU:
        raise UnsupportedOperationError(
            "set_memory_limit: device is cpu; expected an accelerator, for set_memory_pool bounds "
            "what waits on the host"
        )
    told = {
        backend.name: asked("set_memory_limit", place, partial(backend.limit_memory, place, limit))
        for backend in users("set_memory_limit", place)
    }
    return {name: why for name, why in told.items() if why is not None}
