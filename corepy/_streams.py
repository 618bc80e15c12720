"""Streams and events: what a device does meanwhile, and waiting for it.

A stream here is one for all libraries on a device: what CuPy and torch are asked for inside
``with corepy.stream("cuda:0"):`` goes to the same queue of the GPU, in order.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from types import TracebackType

from corepy._errors import BackendError, UnsupportedOperationError, bad_argument, bad_type
from corepy.backends._streams import Mark, Streams
from corepy.devices import Device
from corepy.devices._libraries import asked, serving
from corepy.devices._pinned import let_go
from corepy.dispatch import default_placement
from corepy.dispatch._select import present
from corepy.dispatch._streams import Block

__all__ = ["Event", "Stream", "stream"]


def stream(device: Device | str | None = None, *, ordered: bool = True) -> Stream:
    """Make a stream of a device, for all libraries that compute there.

    Parameters
    ----------
    device : Device, str or None
        None: the default device.
    ordered : bool
        True: a block waits for everything that was asked of the device's current streams before
        it, and what follows waits for the block, all on the device; the host waits for nothing.
        False: it does neither, as in torch and CuPy, so that streams overlap. Whoever reads
        in one stream what another made then waits by `Stream.wait`, and keeps arrays that are
        still read there.

    Returns
    -------
    Stream
        To enter with ``with``, any number of times.

    Raises
    ------
    TypeError, ValueError
        If an argument is none that it can be.
    BackendUnavailableError
        If no usable backend serves the device.
    BackendError
        If a library fails, as where the device is lost; so do blocks, and all that a stream does.

    Notes
    -----
    On devices whose libraries have no streams (``cpu``, ``mps``, and JAX everywhere) a block does
    nothing: there all is done in the order in which it was asked. JAX orders its work on a GPU by
    itself, and its arrays go to the other libraries, and come from them, by DLPack, which lets the
    stream of the one wait for that of the other.

    Examples
    --------
    >>> with stream("cpu") as s:
    ...     event = s.record()
    >>> event.query()
    True
    """
    if not isinstance(ordered, bool):
        raise bad_type("stream", "ordered", ordered, "a bool")
    place = default_placement().device if device is None else present("stream", device)
    return Stream(place, ordered)


class Stream:
    """A queue of work of one device; obtain it with `corepy.stream`.

    Attributes
    ----------
    device : Device
    address : int or None
        The ``cudaStream_t`` or ``hipStream_t``, for other libraries; None where there are none.
    """

    def __init__(self, device: Device, ordered: bool) -> None:
        self.device = device
        self.address: int | None = None
        self._ordered = ordered
        self._owner: object = None
        self._streams = _streams_of(device)
        if self._streams is not None:
            self.address, self._owner = asked("stream", device, self._streams.create)
        self._entered = _Entered()

    def __enter__(self) -> Stream:
        block = None
        if self.address is not None:
            block = Block(self.device, self.address, self._ordered)
            asked("stream", self.device, block.enter)
        self._entered.blocks.append(block)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._entered.blocks:
            raise UnsupportedOperationError(
                "stream: this thread is in no block of it; expected the thread that entered one"
            )
        block = self._entered.blocks.pop()
        if block is not None:
            try:
                asked("stream", self.device, block.leave)
            except BackendError:
                if error is None:  # else what was raised inside comes, which says more
                    raise

    def __repr__(self) -> str:
        where = "no stream of its own" if self.address is None else f"at {self.address:#x}"
        return f"corepy.Stream({self.device.name!r}, {where})"

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return version and address, for libraries that take streams by this protocol."""
        if self.address is None:
            raise UnsupportedOperationError(f"__cuda_stream__: {self.device} has no streams")
        return 0, self.address

    def record(self, *, timing: bool = False) -> Event:
        """Mark the point that the stream has come to.

        Parameters
        ----------
        timing : bool
            Whether `Event.elapsed_time` shall measure from or to it.

        Returns
        -------
        Event

        Raises
        ------
        TypeError
            If `timing` is no bool.
        """
        if not isinstance(timing, bool):
            raise bad_type("record", "timing", timing, "a bool")
        if self._streams is None or self.address is None:
            if timing:
                self.synchronize()
            return Event(self.device, None, time.perf_counter(), timing)
        record = partial(self._streams.record, self.address, timing=timing)
        mark = asked("record", self.device, record)
        return Event(self.device, self._streams, mark, timing)

    def wait(self, other: Event | Stream) -> None:
        """Let what the stream is asked from now on wait for an event, or for another stream.

        The host does not wait.

        Parameters
        ----------
        other : Event or Stream
            Of a stream, what it has been asked so far.

        Raises
        ------
        TypeError
            If `other` is neither.
        """
        if isinstance(other, Stream):
            other = other.record()
        if not isinstance(other, Event):
            raise bad_type("wait", "other", other, "an Event or a Stream")
        if self._streams is None or type(self._streams) is not type(other._streams):
            other.synchronize()  # of two libraries that share no events
        elif self.address is not None:
            wait = partial(self._streams.wait, self.address, other._mark)
            asked("wait", self.device, wait)

    def query(self) -> bool:
        """Say whether everything that the stream was asked is done; see `Event.query`.

        Returns
        -------
        bool
        """
        return self.record().query()

    def synchronize(self) -> None:
        """Wait until everything that the stream was asked is done.

        Libraries without streams are waited for altogether.
        """
        self.record().synchronize()


class _Entered(threading.local):
    """The blocks of one stream that a thread is in."""

    def __init__(self) -> None:
        self.blocks: list[Block | None] = []


def _streams_of(device: Device) -> Streams | None:
    """Return the hold of the first library that has streams there; its streams serve all."""
    for backend in serving(device):
        found = backend.streams(device)
        if found is not None:
            return found
    return None


class Event:
    """A point in a stream; `Stream.record` makes it.

    Attributes
    ----------
    device : Device
    """

    def __init__(self, device: Device, streams: Streams | None, mark: Mark, timing: bool) -> None:
        self.device = device
        self._streams = streams
        self._mark = mark
        self._timing = timing

    def __repr__(self) -> str:
        return f"corepy.Event({self.device.name!r}{', with its time' if self._timing else ''})"

    def query(self) -> bool:
        """Say whether everything before the event is done.

        Libraries without streams do not say how far they are. Where nothing else is left to wait
        for, they are waited for altogether.

        Returns
        -------
        bool

        Raises
        ------
        BackendError
            If a library fails, as where the device is lost.
        """
        streams = self._streams
        if streams is not None and not asked(
            "query", self.device, partial(streams.is_done, self._mark)
        ):
            return False
        self._finish_others("query")
        return True

    def synchronize(self) -> None:
        """Wait until everything before the event is done.

        Libraries without streams are waited for altogether.

        Raises
        ------
        BackendError
            If a library fails, as where the device is lost.
        """
        if self._streams is not None:
            asked("synchronize", self.device, partial(self._streams.finish, self._mark))
        self._finish_others("synchronize")
        let_go()

    def _finish_others(self, function: str) -> None:
        for backend in serving(self.device):
            if self._streams is None or backend.streams(self.device) is None:
                asked(function, self.device, partial(backend.synchronize, self.device))

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this event to a later one; waits for both.

        Parameters
        ----------
        end : Event
            Of the same device.

        Returns
        -------
        float

        Raises
        ------
        TypeError
            If `end` is no event.
        ValueError
            If one was recorded without ``timing=True``, they are of different devices, or of
            streams of two libraries, one of which was loaded after the first stream was made.
        """
        if not isinstance(end, Event):
            raise bad_type("elapsed_time", "end", end, "an Event")
        if end.device is not self.device:
            raise bad_argument("elapsed_time", "end", end.device.name, f"one of {self.device}")
        if not (self._timing and end._timing):
            raise ValueError(
                "elapsed_time: an event has no time; expected record(timing=True) of both"
            )
        if type(self._streams) is not type(end._streams):
            raise ValueError(
                "elapsed_time: the events are of streams of two libraries, which know no time "
                "between them; expected both of one stream"
            )
        self.synchronize()
        end.synchronize()
        if self._streams is None:
            return 1e3 * float(end._mark - self._mark)
        elapsed = partial(self._streams.elapsed, self._mark, end._mark)
        return asked("elapsed_time", self.device, elapsed)
