"""Moving an array, by name, to another backend, another device, or both."""

from __future__ import annotations

from typing import Any, cast

from corepy._dtypes import DTYPES
from corepy._errors import (
    BackendUnavailableError,
    UnsupportedOperationError,
    bad_type,
    listing,
)
from corepy._signals import let_through
from corepy.array_api._arguments import copy_argument
from corepy.array_api._array import Array
from corepy.devices._device import CPU, Device, as_device
from corepy.devices._pinned import pinned_copy, start
from corepy.devices._transfer import convert, to_host
from corepy.dispatch import (
    Operand,
    Table,
    adopt,
    creation_table,
    devices_present,
    landed,
    load,
    make,
    owner_of,
    run,
    table_of,
)
from corepy.dispatch import _explain as account
from corepy.dispatch._registry import load_usable

__all__ = ["pin_memory", "to"]


def to(
    x: Any,
    *,
    device: Device | str | None = None,
    backend: str | None = None,
    copy: bool | None = None,
    non_blocking: bool = False,
) -> Array:
    """Give an array to another backend, move it to another device, or both.

    Parameters
    ----------
    x : Array or native array
        Of any shape and dtype; a native array of any library that corepy has a backend for.
    device : Device, str or None
        None: the device of `x`, or if `backend` does not serve that, the first one it does.
    backend : str or None
        Name of the backend that is to hold the result. None: the backend of `x` if it serves
        `device`, else the one in which new arrays are created there.
    copy : bool or None
        True: always new memory. False: never. None: share memory where both backends can.
    non_blocking : bool
        Whether values may still be on their way between the host and a device when this returns,
        in the device's current stream; elsewhere it changes nothing. See Notes.

    Returns
    -------
    Array
        Of the same shape, dtype and values. An `Array` that is there already is returned itself.

    Raises
    ------
    TypeError
        If `x` is no array, its dtype is not the standard's, or another argument is of another
        type.
    ValueError
        If `copy` is False and a copy is needed; the message says why.
    BackendUnavailableError
        If the backend is unknown or not usable, does not serve the device, or nothing does.
    UnsupportedOperationError
        If the backend lacks the dtype on that device.
    InsufficientMemoryError
        If memory runs out, also after every library gave back what it keeps; `x` is untouched.
    BackendError
        If a library fails on the way; `x` is untouched.

    Notes
    -----
    With ``non_blocking=True`` an array on its way to a device can be used there at once, for the
    same stream computes. Memory of `pin_memory` is read until the copy is done, and may not be
    written to before; other memory may, for it is copied to pinned memory first. An array on its
    way to the host has its values when the stream is done: call `Stream.synchronize`, or
    `corepy.synchronize`, before you look.

    See Also
    --------
    corepy.array_api.asarray : the standard's way, which also changes the dtype.
    corepy.explain : counts the bytes that a call copied or moved, as ``"transfer"``.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.zeros(3)
    >>> x = to(values, backend="numpy", copy=False)
    >>> x[0] = 1.0
    >>> float(values[0])
    1.0
    """
    copying = copy_argument("to", copy)
    if not isinstance(non_blocking, bool):
        raise bad_type("to", "non_blocking", non_blocking, "a bool")
    array = _array(x, copy=copying)
    source = array._table
    target = _target(source, device, backend)
    if target.backend is source.backend.home:  # by name it is there, and its values elsewhere
        source = landed(array)._table
    if target is source:
        return cast("Array", run("astype", array, source.dtype, copy=True)) if copying else array
    if copying is False and target.device is not source.device:
        raise ValueError(
            f"to: copy is False; expected True or None, for x is on {source.device} and another "
            f"device, {target.device}, has memory of its own"
        )
    if non_blocking:
        sent = start(array._native, source.backend, source.device, target.backend, target.device)
        if sent is not None:
            account.moved(target.backend, target.device, array.nbytes, "to, non_blocking")
            return cast("Array", make(sent, target))
    try:
        native, copied = convert(
            array._native, source.backend, target.backend, target.device, copy=copying
        )
    except ValueError as error:
        if copying is not False:
            raise
        let_through(error)
        raise ValueError(
            f"to: copy is False; expected True or None, for {source.backend.name} and "
            f"{target.backend.name} cannot share this memory: {error}"
        ) from error
    if copied:
        reason = f"to, from {source.backend.name} on {source.device}"
        account.moved(target.backend, target.device, array.nbytes, reason)
    return cast("Array", make(native, target))


def pin_memory(x: Any) -> Array:
    """Copy values into pinned host memory, which a device copies while the host goes on.

    Parameters
    ----------
    x : Array or native array
        Of any shape and dtype, on any device.

    Returns
    -------
    Array
        On the host, in the backend ``numpy``. Where no library has pinned memory, for want of a
        GPU, in memory like any other.

    Raises
    ------
    TypeError
        If `x` is no array, or its dtype is not the standard's.
    InsufficientMemoryError
        If memory runs out, also after every library gave back what it keeps; `x` is untouched.
    BackendError
        If a library fails on the way; `x` is untouched.

    See Also
    --------
    corepy.to : with ``non_blocking=True``.
    """
    array = _array(x, "pin_memory")
    values = to_host(array._native, array._table.backend)
    devices_present()  # so that every library is there that may have some
    made = pinned_copy(values)
    table = table_of(load("numpy", "pin_memory"), CPU, array._table.dtype)
    return cast("Array", make(values.copy() if made is None else made, table))


def _array(x: object, function: str = "to", copy: bool | None = None) -> Array:
    if isinstance(x, Operand):
        return cast("Array", x)
    owner = owner_of(x)
    if owner is None:
        raise bad_type(function, "x", x, "an array of corepy or of a library it has a backend for")
    return cast("Array", adopt(function, "x", x, owner, copy))


def _target(source: Table, device: object, backend: object) -> Table:
    """Return the table of the result."""
    place = source.device if device is None else as_device(device, "to")
    if backend is None:
        owner, dtype = source.backend, source.dtype
        if place in owner.devices() and dtype in owner.capabilities(place).dtypes:
            return table_of(owner, place, dtype)
        return creation_table("to", place, dtype)
    if not isinstance(backend, str):
        raise bad_type("to", "backend", backend, "the name of a backend")
    owner = load_usable(backend, "to")
    served = owner.devices()
    if place not in served:
        if device is not None:
            raise BackendUnavailableError(
                f"to: backend {backend} has no device {place}; expected {listing(served)}"
            )
        place = served[0]
    there = owner.capabilities(place).dtypes
    if source.dtype not in there:
        raise UnsupportedOperationError(
            f"to: x has dtype {source.dtype}, which {backend} lacks on {place}; expected one of "
            + ", ".join(name for name, dtype in DTYPES.items() if dtype in there)
        )
    return table_of(owner, place, source.dtype)
