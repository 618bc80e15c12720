"""Where new arrays are created: the user's priority, and the defaults where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Final, TypeAlias

from corepy import _dtypes, _forks
from corepy._dtypes import DType
from corepy._errors import (
    BackendUnavailableError,
    UnsupportedOperationError,
    bad_argument,
    bad_type,
    listing,
)
from corepy.backends._base import Backend
from corepy.devices import _device, _libraries
from corepy.devices._capabilities import gpu_kinds
from corepy.devices._device import CPU, GPU_KINDS, KINDS, Device, as_device, is_name
from corepy.dispatch import _explain, _hot, _registry
from corepy.dispatch._settings import PRIORITY, STRICT
from corepy.dispatch._table import Table, preferred, table_of

Priority: TypeAlias = "tuple[str, ...]"

ENVIRONMENT: Final = "COREPY_BACKEND_PRIORITY"
#: Kinds of device that become the default by themselves, before the host, when one is present
#: and supports every dtype. Others need to be asked for.
_ACCELERATORS: Final = ("cuda", "rocm")
#: Why a placement is one where no wish led.
_FULL, _HOST = "an accelerator with every dtype is present", "the host"
#: Kinds of device that `gpu_kinds` finds, so that no library is loaded to look for them.
_FOUND: Final = ("cuda", "rocm", "mps")


@dataclass(frozen=True, slots=True)
class Placement:
    """A backend on one of its devices, and the wish that led there."""

    backend: Backend
    device: Device
    why: str


# ---------------------------------------------------------------------------- the user's wish


def set_backend_priority(priority: Sequence[str]) -> None:
    """Choose where new arrays are created, in order of preference.

    Parameters
    ----------
    priority : sequence of str
        Backend names (``"torch"``), kinds of device (``"gpu"``, ``"cpu"``), device names
        (``"cuda:1"``), or both (``"torch:mps"``). A kind of device that this machine lacks is
        passed over as long as another entry can serve.

    Raises
    ------
    TypeError
        If `priority` is a single string or holds anything but strings.
    ValueError
        If an entry can lead nowhere on any machine, such as ``"numpy:"`` or ``"cuda:x"``.
    BackendUnavailableError
        If a name is unknown, a named backend is not usable, or no entry can serve. The message
        says what is usable, and why the named one is not.

    Notes
    -----
    Set on the main thread it holds for every thread that has not chosen its own; set in another
    thread or an asynchronous task it holds there only. ``COREPY_BACKEND_PRIORITY``, a
    comma-separated list, is read once, and holds where nothing was set.
    """
    PRIORITY.set(_checked("set_backend_priority", priority))


def backend_priority(priority: Sequence[str]) -> AbstractContextManager[None]:
    """Choose as `set_backend_priority` does, for the extent of a ``with`` block.

    Parameters
    ----------
    priority : sequence of str
        As in `set_backend_priority`.

    Returns
    -------
    context manager
        Leaving it, what was before holds again, for threads without a choice of their own too,
        whatever was set inside.

    Raises
    ------
    TypeError, ValueError, BackendUnavailableError
        As of `set_backend_priority`, and at once.
    """
    return PRIORITY.scoped(_checked("backend_priority", priority))


def set_backend(name: str) -> None:
    """Create new arrays in one backend: short for ``set_backend_priority([name])``.

    Parameters
    ----------
    name : str
        An entry of a priority.

    Raises
    ------
    TypeError
        If `name` is no string.
    ValueError
        If it can lead nowhere on any machine, such as ``"numpy:"``.
    BackendUnavailableError
        If it is unknown, or of nothing that is usable here.
    """
    if not isinstance(name, str):
        raise bad_type("set_backend", "name", name, "a str")
    PRIORITY.set(_checked("set_backend", [name]))


def get_backend_priority() -> tuple[str, ...]:
    """Tell where new arrays are created.

    Returns
    -------
    tuple of str
        The priority in force; empty where the defaults hold.

    Raises
    ------
    ValueError
        If ``COREPY_BACKEND_PRIORITY`` holds an entry that leads nowhere on any machine.
    """
    return PRIORITY.get() or _from_environment()


def _checked(function: str, priority: Sequence[str]) -> Priority:
    """Return a priority whose every name is known and usable, and which leads somewhere."""
    if isinstance(priority, str) or not isinstance(priority, Sequence):
        raise bad_type(function, "priority", priority, "a sequence of str, such as ['numpy']")
    for entry in priority:
        if not isinstance(entry, str):
            raise bad_type(function, "priority", entry, "a str in each entry")
        _require_form(function, entry)
    wish = tuple(priority)
    leads = [next(_placements(function, entry), None) for entry in wish]
    if not any(leads):
        raise _leads_nowhere(function, wish)
    return wish


def _leads_nowhere(function: str, wish: Priority) -> BackendUnavailableError:
    return BackendUnavailableError(
        f"{function}: priority is {list(wish)}; expected at least one entry that this machine "
        f"has: {listing(_registry.usable_backends())}"
        f"{_registry.why_not(*(kind for entry in wish for kind in _kinds(entry)))}"
    )


@lru_cache(maxsize=1)
def _from_environment() -> Priority:
    text = os.environ.get(ENVIRONMENT, "")
    wish = tuple(entry.strip() for entry in text.split(",") if entry.strip())
    for entry in wish:  # what each leads to is found as it is needed
        _require_form(ENVIRONMENT, entry)
    return wish


def _require_form(function: str, entry: str) -> None:
    """Refuse an entry of a priority that leads nowhere on any machine, as ``"numpy:"`` does."""
    name, colon, rest = entry.partition(":")
    if colon and not is_name(rest if name in _registry.records() else entry):
        expected = 'a backend, a device or both, such as "torch", "cuda:1" or "torch:mps"'
        raise bad_argument(function, "priority", entry, expected)


# ---------------------------------------------------------------------------- what it leads to


def _placements(function: str, entry: str) -> Iterator[Placement]:
    """Yield what one entry of a priority leads to, loading no more than is asked for."""
    name, _, rest = entry.partition(":")
    known = _registry.records()
    if name in known:
        backend = _registry.load_usable(name, function)
        devices = backend.devices()
        if rest == "gpu":
            gpus = tuple(device for device in devices if device.kind in GPU_KINDS)
            if not gpus:
                raise BackendUnavailableError(
                    f"{function}: backend {name} has no gpu; expected {listing(devices)}"
                    f"{_registry.why_not(*GPU_KINDS)}"
                )
            devices = gpus
        elif rest:
            wanted = as_device(rest, function, "priority")
            if wanted not in devices:  # unless backend and kind of device share a name
                wanted = next((device for device in devices if device.name == entry), wanted)
            if wanted not in devices:
                raise BackendUnavailableError(
                    f"{function}: backend {name} has no device {wanted}; "
                    f"expected {listing(devices)}{_registry.why_not(wanted.kind)}"
                )
            devices = (wanted,)
        yield Placement(backend, devices[0], f"{entry!r} in the priority")
    elif name in KINDS or any(name in record.kinds for record in known.values()):
        kinds = _kinds(entry)
        for backend in _usable(kinds):
            for device in backend.devices():
                if device.name == entry or (not rest and device.kind in kinds):
                    yield Placement(backend, device, f"{entry!r} in the priority")
    else:
        raise BackendUnavailableError(
            f"{function}: priority has {entry!r}; expected a backend "
            f"({listing(known)}) or a kind of device ({listing(KINDS)})"
        )


def _kinds(entry: str) -> tuple[str, ...]:
    """Return the kinds of device that an entry of a priority means, where it names no backend."""
    return GPU_KINDS if entry == "gpu" else (entry.partition(":")[0],)


def _usable(kinds: Sequence[str]) -> Iterator[Backend]:
    """Yield the usable backends that may serve kinds of device, loading them one by one."""
    records = _registry.records().items()
    wanted = (name for name, r in records if not r.kinds or set(r.kinds) & set(kinds))
    return _registry.each_usable(wanted)


def _accelerators() -> tuple[str, ...]:
    """Return the kinds of accelerator that this machine may have, asking no library."""
    found = gpu_kinds()
    return tuple(kind for kind in _ACCELERATORS if kind in found)


def _defaults() -> Iterator[Placement]:
    """Yield the placements without a wish: full accelerators first, then the host."""
    kinds = _accelerators()
    for backend in _usable(kinds) if kinds else ():
        for device in backend.devices():
            can = backend.capabilities(device)
            if device.kind in kinds and can.dtypes - can.held >= _dtypes.ANY:
                yield Placement(backend, device, _FULL)
    if "numpy" in _registry.records():  # where it is broken, the search would end at the reference
        _registry.load("numpy", "corepy")
    for backend in _usable(("cpu",)):
        if CPU in backend.devices():
            yield Placement(backend, CPU, _HOST)


#: One for all orders: what takes long under it is the import of a library.
_LOCK: Final = _forks.lock()


class _Order:
    """The placements of a priority, each found when it is first asked for, and kept."""

    def __init__(self, wish: Priority) -> None:
        self._wish = wish
        self._rest = self._search()
        self._found: list[Placement] = []

    def _search(self) -> Iterator[Placement]:
        leads = False
        # What somebody set led somewhere then; a backend may be gone since.
        asked = ENVIRONMENT if PRIORITY.get() != self._wish else "set_backend_priority"
        for entry in self._wish:
            for placement in _placements(asked, entry):
                leads = True
                yield placement
        if self._wish and not leads and self._wish == _from_environment():
            raise _leads_nowhere(ENVIRONMENT, self._wish)  # others have been looked at before
        yield from _defaults()

    def __iter__(self) -> Iterator[Placement]:
        for i in count():
            if i == len(self._found):
                with _LOCK:
                    if i == len(self._found) and not self._find():
                        return
            yield self._found[i]

    def _find(self) -> bool:
        """Append the next placement that is new."""
        try:
            for placement in self._rest:
                if all(
                    placement.backend is not other.backend or placement.device is not other.device
                    for other in self._found
                ):
                    self._found.append(placement)
                    return True
        except BaseException:  # of a broken wish, or Ctrl-C while a library is imported
            # Next time from the beginning: what has raised would pass over the rest of the wish.
            self._rest = self._search()
            raise
        return False

    def serving(self, place: Device) -> Iterator[Backend]:
        """Yield the backends that serve a device, in order."""
        seen: set[Backend] = set()
        is_default = place is CPU or place.kind in _ACCELERATORS
        for placement in self:
            if not is_default and placement.why in (_FULL, _HOST):
                break  # to go on would import the libraries of other devices
            if placement.backend not in seen and place in placement.backend.devices():
                seen.add(placement.backend)
                yield placement.backend
        for backend in _usable((place.kind,)):
            if backend not in seen and place in backend.devices():
                yield backend


@lru_cache(maxsize=64)
def _order(wish: Priority, generation: int) -> _Order:
    return _Order(wish)


def _current() -> _Order:
    return _order(get_backend_priority(), _registry.generation())


def placements(
    priority: Sequence[str] | None = None, function: str = "placements"
) -> tuple[Placement, ...]:
    """Return the usable placements in the order in which new arrays try them.

    Parameters
    ----------
    priority : sequence of str or None
        None for the one in force.
    function : str
        What messages name.
    """
    if priority is None:
        return tuple(_current())
    return tuple(_order(_checked(function, priority), _registry.generation()))


def default_placement() -> Placement:
    """Return where an array without ``device=`` is created, and why."""
    return _first(get_backend_priority(), _registry.generation())


@lru_cache(maxsize=64)
def _first(wish: Priority, generation: int) -> Placement:
    return next(iter(_order(wish, generation)))


def default_table(function: str, device: object, wanted: DType) -> Table:
    """Return the table of a new array whose dtype nobody named: `wanted` if the device has it."""
    if device is None or isinstance(device, Device):
        homes = _hot.homes(False, device)
        found: Table | None = homes.get(wanted)
        if found is None:
            found = creation_table(function, device, default_dtype(wanted, device, function))
            homes[wanted] = found
            return found
        return _told(function, device, found)
    return creation_table(function, device, default_dtype(wanted, device, function))


@lru_cache(maxsize=1024)
def _table(wish: Priority, generation: int, device: Device | None, dtype: DType) -> Table | None:
    place = default_placement().device if device is None else device
    for backend in _order(wish, generation).serving(place):
        if dtype in backend.capabilities(place).dtypes:
            return table_of(backend, place, dtype)
    return None


def _dtypes_of(
    place: Device, enough: frozenset[DType] = _dtypes.ANY, *, computed: bool = False
) -> frozenset[DType]:
    """Return the dtypes of a device; those of the first backends, if they are enough.

    All that a backend there has, or only what one computes with.
    """
    found: frozenset[DType] = frozenset()
    for backend in _current().serving(place):
        can = backend.capabilities(place)
        found |= can.dtypes - can.held if computed else can.dtypes
        if found >= enough:
            break
    return found


def creation_table(function: str, device: object, dtype: DType) -> Table:
    """Return the table in which a new array is created.

    Parameters
    ----------
    function : str
        What messages name.
    device : Device, str or None
        None for the default device.
    dtype : DType

    Raises
    ------
    TypeError
        If the device is named by a string in strict mode.
    BackendUnavailableError
        If the device is not present.
    UnsupportedOperationError
        If no backend there has the dtype.
    """
    homes = None
    if device is None or isinstance(device, Device):
        homes = _hot.homes(True, device)
        found: Table | None = homes.get(dtype)
        if found is not None:
            return _told(function, device, found)
    if isinstance(device, str) and STRICT.get():
        raise bad_type(function, "device", device, "a Device (strict mode)")
    place = None if device is None else as_device(device, function)
    table = _table(get_backend_priority(), _registry.generation(), place, dtype)
    if table is not None:
        if homes is not None:
            homes[dtype] = table
        return _told(function, place, table)
    place = default_placement().device if place is None else place
    there = dtypes_on(place, function)
    raise UnsupportedOperationError(
        f"{function}: dtype is {dtype}, which {place} lacks; expected one of "
        + ", ".join(name for name, d in _dtypes.DTYPES.items() if d in there)
    )


def _told(function: str, asked: Device | None, table: Table) -> Table:
    """Return the table of a new array; whoever listens is told why it is this one."""
    if _explain.listening():
        _explain.creating(function, _why(table) if asked is None else f"{asked} was asked for")
    return table


def _why(table: Table) -> str:
    """Say why a new array whose device nobody named is made in a table."""
    first = default_placement()
    if table.backend is first.backend:
        return f"new arrays are made in it: {first.why}"
    return (
        f"new arrays are made on {first.device}: {first.why}, "
        f"where {first.backend.name} lacks {table.dtype}"
    )


def default_dtype(wanted: DType, device: object = None, function: str = "default_dtypes") -> DType:
    """Return the default dtype of a kind on a device.

    Parameters
    ----------
    wanted : DType
        The default where a device has every dtype: float64, complex128 or int64.
    device : Device, str or None
        None for the default device.
    function : str
        What messages name.

    Returns
    -------
    DType
        The same, or the one of single precision where the device lacks it.
    """
    place = None if device is None else as_device(device, function)
    return _default_dtype(get_backend_priority(), _registry.generation(), place, wanted)


@lru_cache(maxsize=256)
def _default_dtype(wish: Priority, generation: int, device: Device | None, wanted: DType) -> DType:
    place = default_placement().device if device is None else device
    enough = frozenset({wanted, _dtypes.real_of(wanted)})
    computed = _dtypes_of(place, enough, computed=True)
    if enough <= computed:
        return wanted
    there = _dtypes_of(place)
    return preferred(wanted, there, there - computed) if there else wanted


def dtypes_on(device: object = None, function: str = "dtypes") -> frozenset[DType]:
    """Return the dtypes of a device, over all usable backends that serve it.

    Raises
    ------
    BackendUnavailableError
        If the device is not present.
    """
    place = default_placement().device if device is None else as_device(device, function)
    return _dtypes_of(place) or _dtypes_of(present(function, place))


def devices_present() -> tuple[Device, ...]:
    """Return every device that a usable backend serves, the default one first.

    Notes
    -----
    Backends that could add nothing to the host are not loaded for this.
    """
    found = dict.fromkeys([default_placement().device, CPU])  # NumPy is always there
    absent = set(_FOUND) - gpu_kinds()
    records = _registry.records().items()
    wanted = (name for name, r in records if not r.kinds or set(r.kinds) - absent - {"cpu"})
    for backend in _registry.each_usable(wanted):
        found |= dict.fromkeys(backend.devices())
    return tuple(found)


def present(function: str, device: Device | str) -> Device:
    """Return a device that a usable backend serves.

    Raises
    ------
    BackendUnavailableError
        If none does; the message, which names `function`, says why.
    """
    place, found = as_device(device, function), devices_present()
    if place not in found:
        raise BackendUnavailableError(
            f"{function}: device is {place.name!r}; expected one that is present: {listing(found)}"
            f"{_registry.why_not(place.kind)}"
        )
    return place


def _first_gpu(function: str, argument: str) -> Device:
    """Return the first device that a priority of ``gpu`` leads to."""
    found = next(_placements(function, "gpu"), None)
    if found is None:
        raise BackendUnavailableError(
            f"{function}: {argument} is 'gpu'; expected one that is present: "
            f"{listing(devices_present())}{_registry.why_not(*GPU_KINDS)}"
        )
    return found.device


_device.bind(_first_gpu)
_libraries.bind_present(present)
