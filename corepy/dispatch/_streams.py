"""The streams that this thread's work goes to: one for all libraries on a device.

A block enters a stream in every library that computes on its device, and in those that are loaded
inside it. Where it is ordered, it begins when what was asked of the device before is done, and what
follows waits for it; so nobody can see a value too early, nor get memory that is still read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

from corepy._errors import BackendError, UnsupportedOperationError, bad_argument, bad_type, listing
from corepy.backends._base import Backend
from corepy.backends._streams import Streams
from corepy.devices._device import Device
from corepy.devices._libraries import asked, serving


class _Here(threading.local):
    """The blocks that a thread is in, the innermost last."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []


_here: Final = _Here()


class Block:
    """One ``with`` block of a stream.

    Parameters
    ----------
    device : Device
    address : int
        The stream's.
    ordered : bool
        Whether it waits for what came before, and lets what follows wait for it.
    """

    def __init__(self, device: Device, address: int, ordered: bool) -> None:
        self.device = device
        self._address = address
        self._ordered = ordered
        self._contexts = ExitStack()
        #: Where libraries were before, by the addresses of those streams.
        self._before: dict[int, Streams] = {}

    def enter(self) -> None:
        """Let every loaded library work in the stream."""
        try:
            for backend in serving(self.device):
                self.take(backend)
        except BaseException:
            self._contexts.close()
            raise
        _here.blocks.append(self)

    def take(self, backend: Backend) -> None:
        """Let a library work in the stream until the block ends."""
        streams = backend.streams(self.device)
        if streams is None:
            return
        before = streams.current()
        if before != self._address and before not in self._before:
            if self._ordered:
                streams.wait(self._address, streams.record(before))
            self._before[before] = streams
        self._contexts.enter_context(streams.using(self._address))

    def leave(self) -> None:
        """Let the libraries go on where they were."""
        _here.blocks.remove(self)
        self._contexts.close()
        if self._ordered:
            for before, streams in self._before.items():
                streams.wait(before, streams.record(self._address))


def hold(backend: Backend) -> None:
    """Let a library that was loaded just now join the blocks that this thread is in."""
    for block in _here.blocks:
        if block.device in backend.devices():
            block.take(backend)


@contextmanager
def entered(function: str, stream: Any, *devices: Device) -> Iterator[None]:
    """Enter the stream that a function was given for work on one of some devices.

    Parameters
    ----------
    function : str
        What messages name.
    stream : int or object with ``__cuda_stream__``
        Its address, or a stream of any library.
    *devices : Device
        An address means a stream of the first that has any.

    Raises
    ------
    TypeError
        If `stream` is neither.
    ValueError
        If none of the devices has streams and it is not corepy's own of one of them, or it is one
        of another device.
    BackendError
        If a library fails, as where the device is lost.
    """
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None and (isinstance(stream, bool) or not hasattr(stream, "__index__")):
        expected = "None, a stream of corepy or another library, or its address"
        raise bad_type(function, "stream", stream, expected)
    places = [d for d in devices if any(b.streams(d) is not None for b in serving(d))]
    own = getattr(stream, "device", None)
    if not places:
        if isinstance(own, Device) and own in devices:  # corepy's own, whose blocks do nothing
            yield
            return
        names = listing(dict.fromkeys(devices))
        raise bad_argument(function, "stream", stream, f"None: there are no streams on {names}")
    if isinstance(own, Device) and own not in places:
        raise bad_argument(function, "stream", stream, f"None, or one of {listing(places)}")
    try:
        address = stream.__index__() if protocol is None else protocol()[1]
    except UnsupportedOperationError as error:
        raise bad_argument(function, "stream", stream, f"None, or one that is: {error}") from None
    if address < 0:
        raise bad_argument(function, "stream", stream, "None, or the address of a stream")
    block = Block(own if isinstance(own, Device) else places[0], address, ordered=True)
    asked(function, block.device, block.enter)
    try:
        yield
    except BaseException:
        with suppress(BackendError):  # what was raised inside says more
            asked(function, block.device, block.leave)
        raise
    asked(function, block.device, block.leave)
