"""For advanced users: ask which backend would run an operation, and choose with memory in mind.

Ordinary programs need none of this: the dispatcher answers the same questions for each operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from corepy._errors import (
    BackendUnavailableError,
    CorepyError,
    InsufficientMemoryError,
    UnsupportedOperationError,
    bad_argument,
    bad_type,
    listing,
)
from corepy.backends._base import Backend
from corepy.devices import Device, OperationProperties, memory_info, require_memory
from corepy.devices._device import GPU_KINDS
from corepy.devices._libraries import asked, release
from corepy.devices._pinned import let_go
from corepy.dispatch import (
    OPERATIONS,
    default_placement,
    devices_present,
    load,
    loaded,
    placements,
    set_backend_priority,
    status,
    usable_backends,
)
from corepy.dispatch._fallback import INPLACE
from corepy.dispatch._registry import records
from corepy.dispatch._select import Placement, present

__all__ = [
    "best_available_backend",
    "init_backend",
    "list_devices",
    "select_backend",
    "synchronize",
]

#: The reasons for passing a backend over, the one that came closest to serving last: if none
#: serves, the closest decides the type of the error.
_REFUSALS: Final = (BackendUnavailableError, UnsupportedOperationError, InsufficientMemoryError)


def select_backend(
    operation: OperationProperties | str | None = None, priority: Sequence[str] | None = None
) -> str:
    """Return the name of the backend that would run an operation on new arrays.

    Parameters
    ----------
    operation : OperationProperties, str or None
        What is to run: its name in the standard, the bytes of its operands, and whether it needs
        a GPU. A name alone (``"add"``, ``"linalg.cholesky"``) says nothing of the others; None
        says nothing at all.
    priority : sequence of str or None
        As `set_backend_priority` takes it; by default the priority in force. After its entries
        the remaining backends are tried in their usual order.

    Returns
    -------
    str
        The first backend in that order which is usable, offers the operation for some dtype, has
        a GPU (``cuda``, ``rocm``, ``mps`` or ``xpu``) where one is required, and has the memory
        free.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If `operation` names none of the standard, or an entry of the priority, which may be that of
        ``COREPY_BACKEND_PRIORITY``, leads nowhere on any machine.
    BackendUnavailableError
        If `priority` cannot be honoured, or a GPU is required and no backend has one; the
        message gives each backend's reason.
    UnsupportedOperationError
        If no backend offers the operation.
    InsufficientMemoryError
        If the operands fit in the free memory of no device that could serve otherwise.

    Notes
    -----
    A device whose memory cannot be read (a server's, a cluster's) is not passed over for it.

    Examples
    --------
    >>> select_backend("add", priority=["numpy"])
    'numpy'
    """
    properties = _properties(operation)
    refusals: list[tuple[type[CorepyError], str]] = []
    tried = set()
    for placement in placements(priority, "select_backend"):
        refusal = _refusal(placement, properties)
        if refusal is None:
            return placement.backend.name
        refusals.append(refusal)
        tried.add(placement.backend.name)
    for name in usable_backends():
        if name not in tried:  # it does not serve the host, as Dask does not
            refusals.append((BackendUnavailableError, _unasked(load(name), properties)))
    raise _nothing_serves(properties, refusals)


def _properties(operation: object) -> OperationProperties | None:
    if operation is None:
        return None
    if isinstance(operation, str):
        operation = OperationProperties(operation, input_size_bytes=0)
    if not isinstance(operation, OperationProperties):
        expected = "an OperationProperties or an operation's name"
        raise bad_type("select_backend", "operation", operation, expected)
    name = operation.op_type
    if name not in OPERATIONS:
        from difflib import get_close_matches  # not at the top: only a misspelling needs it

        near = get_close_matches(name, OPERATIONS, n=3) or ["add", "sum", "linalg.cholesky"]
        expected = f"an operation of the standard, such as {listing(near)}"
        raise bad_argument("select_backend", "op_type", name, expected)
    return operation


def _refusal(
    placement: Placement, properties: OperationProperties | None
) -> tuple[type[CorepyError], str] | None:
    """Say why a placement cannot serve; None if it can."""
    if properties is None:
        return None
    backend, device = placement.backend, placement.device
    if properties.requires_gpu and device.kind not in GPU_KINDS:
        gpus = [other for other in backend.devices() if other.kind in GPU_KINDS]
        if not gpus:
            return BackendUnavailableError, _no_gpu(backend)
        device = gpus[0]
    if not _offers(backend, properties.op_type, device):
        return UnsupportedOperationError, f"{backend.name} does not offer it on {device}"
    free = _free_bytes(device) if properties.input_size_bytes else None
    if free is not None and properties.input_size_bytes > free:
        return InsufficientMemoryError, f"{backend.name} has {free} bytes free on {device}"
    return None


def _unasked(backend: Backend, properties: OperationProperties | None) -> str:
    """Say why a backend that nothing leads to was not tried."""
    if properties is not None and properties.requires_gpu:
        return _no_gpu(backend)
    return f"{backend.name} is used only where the priority names it"


def _no_gpu(backend: Backend) -> str:
    only = [listing(backend.devices())]
    kinds = records()[backend.name].kinds
    if not kinds or {*kinds} & {*GPU_KINDS}:  # others lack operations at the most
        only += backend.unserved()
    return f"{backend.name} has no GPU, only {'; '.join(only)}"


def _offers(backend: Backend, name: str, device: Device) -> bool:
    # Without its own in-place operator a library computes with the plain one.
    names = (name, INPLACE.get(name, name))
    return any(
        backend.supports(offered, dtype, device)
        for offered in names
        for dtype in OPERATIONS[name].dtypes
    )


def _free_bytes(device: Device) -> int | None:
    """Return a device's free memory, None where nobody can tell."""
    try:
        return memory_info(device).free_bytes
    except BackendUnavailableError:
        return None


def _nothing_serves(
    properties: OperationProperties | None, refusals: Sequence[tuple[type[CorepyError], str]]
) -> CorepyError:
    closest = max((kind for kind, _ in refusals), key=_REFUSALS.index)
    wanted = {
        BackendUnavailableError: f"a usable backend with a {listing(GPU_KINDS)} device",
        UnsupportedOperationError: "a usable backend that offers it",
        InsufficientMemoryError: "a usable backend with that much memory free",
    }[closest]
    reasons = [reason for _, reason in refusals]
    reasons += [f"{row.name} is not usable: {row.reason}" for row in status() if not row.usable]
    return closest(
        f"select_backend: operation is {properties}; expected {wanted} ({'; '.join(reasons)})"
    )


def best_available_backend() -> str:
    """Return the name of the backend in which new arrays are created.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If ``COREPY_BACKEND_PRIORITY`` holds an entry that leads nowhere on any machine.
    BackendUnavailableError
        If ``COREPY_BACKEND_PRIORITY`` names a backend that is unknown or not usable.
    """
    return default_placement().backend.name


def list_devices() -> tuple[Device, ...]:
    """Return every device that a usable backend serves, the default one first.

    Returns
    -------
    tuple of Device

    Raises
    ------
    ValueError
        If ``COREPY_BACKEND_PRIORITY`` holds an entry that leads nowhere on any machine.
    BackendUnavailableError
        If ``COREPY_BACKEND_PRIORITY`` names a backend that is unknown or not usable.

    See Also
    --------
    corepy.detect_devices : the machine's hardware, whether or not a backend can use it.
    """
    return devices_present()


def synchronize(device: Device | str | None = None) -> None:
    """Wait until everything that was asked of a device is done.

    Parameters
    ----------
    device : Device, str or None
        None waits for every device. Every backend that serves the device is waited for.

    Raises
    ------
    TypeError, ValueError
        If `device` is no device, or ``COREPY_BACKEND_PRIORITY`` holds an entry that leads nowhere
        on any machine.
    BackendUnavailableError
        If no usable backend serves it.
    BackendError
        If a library fails, as where the device is lost.

    Notes
    -----
    Needed only to measure time: whoever reads a value waits for it.
    """
    wanted = devices_present() if device is None else (present("synchronize", device),)
    for backend in loaded():  # the others have nothing to finish
        for place in backend.devices():
            if place in wanted:
                asked("synchronize", place, partial(backend.synchronize, place))
    let_go()


def init_backend(priority: Sequence[str], required_bytes: int | None = None) -> str:
    """Set the priority, provided that its first device has enough memory free.

    Parameters
    ----------
    priority : sequence of str
        As `set_backend_priority` takes it.
    required_bytes : int or None
        What the program will allocate; None asks for nothing.

    Returns
    -------
    str
        The name of the backend in which new arrays are now created.

    Raises
    ------
    TypeError, ValueError
        If an argument is none that it can be.
    BackendUnavailableError
        If the priority cannot be honoured, or the memory of its first device cannot be read.
    InsufficientMemoryError
        If less is free there.

    Notes
    -----
    Whatever is raised, the priority is the one from before. What libraries keep in their pools
    counts as used; where it is lacking, they give it back before anything is raised.
    """
    if priority is None:  # which `placements` takes for the one in force
        raise bad_type("init_backend", "priority", priority, "a sequence of str")
    first = placements(priority, "init_backend")[0]
    if required_bytes is not None:
        try:
            require_memory(first.device, required_bytes, "init_backend")
        except InsufficientMemoryError:
            if not release(first.device):
                raise
            require_memory(first.device, required_bytes, "init_backend")
    set_backend_priority(priority)
    return first.backend.name
