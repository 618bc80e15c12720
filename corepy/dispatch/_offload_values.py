"""Values of host arrays that lie on an accelerator, and the backend that stands for their home."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from corepy._dtypes import DType, Scalar
from corepy._signals import let_through
from corepy.backends._base import Backend, Capabilities, Native
from corepy.devices import _shortage
from corepy.devices._device import CPU, Device
from corepy.devices._transfer import to_host
from corepy.dispatch import _explain
from corepy.dispatch._offload_places import Accelerator

if TYPE_CHECKING:
    import numpy as np

Function = Callable[..., Any]


class Resident:
    """The native array of a host array whose values lie on an accelerator.

    Attributes
    ----------
    accelerator : Accelerator
    home : Backend
        The backend whose array it stands for.
    shape : tuple of int
    dtype : DType
    there : native array or None
        The values, until they have come home.
    lost : float
        Seconds that operations would have taken less if it had been at home.
    """

    __slots__ = ("__weakref__", "_came", "accelerator", "dtype", "home", "lost", "shape", "there")

    def __init__(self, native: Native, accelerator: Accelerator, home: Backend) -> None:
        self.accelerator = accelerator
        self.home = home
        shape: Any = accelerator.backend.shape_of(native)
        self.shape: tuple[int, ...] = tuple(shape)
        self.dtype = accelerator.backend.dtype_of(native)
        self.there: Native | None = native
        #: Holds `here`, which who is first puts there at once, without a lock.
        self._came: dict[None, np.ndarray[Any, Any]] = {}
        self.lost = 0.0
        _residents.add(ref(self, _residents.discard))

    @property
    def here(self) -> np.ndarray[Any, Any] | None:
        """The values at home, None until they have come."""
        return self._came.get(None)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * self.dtype.itemsize

    def fetch(self) -> np.ndarray[Any, Any]:
        """Move the values home, unless they are there.

        Raises
        ------
        BackendError
            If the library fails; the values stay where they are.
        """
        there, place = self.there, self.accelerator
        if there is not None:
            # Not under a lock: a transfer may take long, free memory under other locks, or end in a
            # signal's handler that asks for the values too. Who comes second throws theirs away.
            with place.in_order():
                found = brought_home(there, place.backend)
            first = self._came.setdefault(None, found) is found
            self.there = None
            if first:
                _explain.moved(self.home, CPU, self.nbytes, f"home from {place.device}")
        return self._came[None]


#: All that there are. A weak set or dictionary takes a microsecond for each.
_residents: Final[set[ref[Resident]]] = set()


class _Sending(threading.local):
    """Whether a thread sends values home, for which memory may run out in turn."""

    now: bool = False


_sending: Final = _Sending()


def send_home(device: Device | None = None) -> None:
    """Move the values that lie on a device home, on any by default; what fails stays there."""
    if _sending.now:
        return
    _sending.now = True
    try:
        for found in list(_residents):
            x = found()
            if x is not None and (device is None or x.accelerator.device is device):
                try:
                    x.fetch()
                except Exception as error:
                    let_through(error)
    finally:
        _sending.now = False


# Who runs out of memory on a device never asked for these to lie there.
_shortage.on_shortage(send_home)
if hasattr(os, "register_at_fork"):  # a child has no devices, but all that lies on the host
    os.register_at_fork(before=send_home)


def brought_home(native: Native, backend: Backend) -> np.ndarray[Any, Any]:
    """Return the values of an accelerator's array in memory that is nobody else's.

    Some devices work in the host's memory, and some libraries lend theirs for reading.
    """
    found = to_host(native, backend)
    lent = not found.flags.writeable or backend.shares_memory(native, found)
    return found.copy() if lent else found


def fetched(native: Native) -> Any:
    """Return a native array of an `OffloadBackend`, or what holds some, as the home backend's."""
    if native.__class__ is Resident:
        return native.fetch()
    if isinstance(native, (tuple, list)):
        return type(native)(fetched(item) for item in native)
    return native


class OffloadBackend(Backend):
    """Stands for a backend of the host where values of its arrays are resident elsewhere.

    Its native arrays are those of the home backend, and `Resident`. Results that are not resident
    are made the home backend's by `corepy.dispatch._run.wrap`.
    """

    def __init__(self, home: Backend) -> None:
        self.home = self._home = home
        self.name = home.name  # type: ignore[misc]

    def is_available(self) -> bool:
        return True

    def capabilities(self, device: Device) -> Capabilities:
        return self._home.capabilities(device)

    def operation(self, name: str) -> Function | None:
        return self._home.operation(name)

    def owns(self, obj: object) -> bool:
        return obj.__class__ is Resident or self._home.owns(obj)

    def dtype_of(self, native: Native) -> DType:
        return native.dtype if native.__class__ is Resident else self._home.dtype_of(native)

    def native_dtype(self, dtype: DType) -> Any:
        return self._home.native_dtype(dtype)

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> Native:
        return self._home.scalar(value, dtype, device)

    def item(self, native: Native) -> Scalar:
        if native.__class__ is Resident:
            there = native.there
            if there is not None:  # one number comes, and the array stays
                with native.accelerator.in_order():
                    return native.accelerator.backend.item(there)
        return self._home.item(fetched(native))

    def to_numpy(self, native: Native, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self._home.to_numpy(fetched(native), copy=copy)

    def peek(self, native: Native) -> np.ndarray[Any, Any]:
        if native.__class__ is Resident:
            there = native.there
            if there is not None:
                with native.accelerator.in_order():
                    return to_host(there, native.accelerator.backend)
        return self._home.peek(fetched(native))

    def from_numpy(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None
    ) -> Native:
        return self._home.from_numpy(array, device, copy=copy)

    def shares_memory(self, native: Native, array: np.ndarray[Any, Any]) -> bool:
        if native.__class__ is Resident and native.here is None:
            return False
        return self._home.shares_memory(fetched(native), array)

    def normalize(self, native: Native) -> Native:
        return native if native.__class__ is Resident else self._home.normalize(native)

    def is_writable(self, native: Native) -> bool:
        return native.__class__ is Resident or self._home.is_writable(native)

    def exporter(self, native: Native) -> Any:
        return self._home.exporter(fetched(native))

    def legacy_exporter(self, native: Native, *, copy: bool | None) -> Any:
        return self._home.legacy_exporter(native, copy=copy)


_standing: Final[dict[Backend, OffloadBackend]] = {}


def standing_for(home: Backend) -> OffloadBackend:
    """Return the one `OffloadBackend` of a backend."""
    found = _standing.get(home)
    if found is None:
        found = _standing.setdefault(home, OffloadBackend(home))
    return found
