"""`explain`: who ran each operation, why, how long it took and what it moved.

Nothing of this stands in the way of ordinary calls. While somebody listens, the tables hand out
callables that report; when nobody does, they hand out the native ones again. `explain` hears its
own thread or task, `corepy.profile` every one.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from functools import partial, wraps
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

from corepy.backends._base import Backend
from corepy.devices._device import Device

_ROOT: Final = Path(__file__).parent.parent
#: Where frames are corepy at work; everything else is a caller.
_INSIDE: Final = tuple(
    str(_ROOT / layer)
    for layer in (
        "array_api",
        "backends",
        "devices",
        "dispatch",
        "kernels",
        "_graphs.py",
        "_moving.py",
    )
)


@dataclass(frozen=True, slots=True)
class Record:
    """One operation, or one movement of data, as it happened.

    Attributes
    ----------
    operation : str
        Name of the operation; ``"transfer"`` for a movement of its own.
    backend : str
        The backend that ran it.
    device : str
        Where it ran.
    seconds : float
        Time in the backend, the device synchronised.
    bytes_moved : int
        Bytes that crossed between devices or were copied between backends for it.
    reason : str
        Why that backend.
    caller : str
        ``file:line`` of the first frame outside corepy.
    start : float
        When it began, in seconds of `time.perf_counter`.
    thread : str
        Name of the thread that called.
    track : int
        Number of that thread, which no other one of its process has; 0 if it is not known.
    """

    operation: str
    backend: str
    device: str
    seconds: float
    bytes_moved: int
    reason: str
    caller: str
    start: float = 0.0
    thread: str = ""
    track: int = field(default=0, repr=False, compare=False)

    def __setstate__(self, state: Sequence[Any]) -> None:
        # What was pickled before threads had numbers has none.
        for each, value in zip(fields(self), (*state, 0), strict=False):
            object.__setattr__(self, each.name, value)


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines whose columns start one below the other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds * 1e6:.1f} us"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `explain` found.

    Attributes
    ----------
    result : object
        What the function returned.
    records : tuple of Record
        In the order in which the operations finished.
    """

    result: Any
    records: tuple[Record, ...]

    def summary(self) -> dict[str, int]:
        """Count the operations of each backend.

        Returns
        -------
        dict of str to int
            By the backend's name; transfers are none.
        """
        return dict(Counter(r.backend for r in self.records if r.operation != "transfer"))

    @property
    def bytes_moved(self) -> int:
        """Bytes that crossed between devices or were copied, over all operations."""
        return sum(record.bytes_moved for record in self.records)

    def __str__(self) -> str:
        rows = [("operation", "backend", "device", "time", "bytes moved", "why", "caller")]
        rows += [
            (
                r.operation,
                r.backend,
                r.device,
                duration(r.seconds),
                str(r.bytes_moved),
                r.reason,
                r.caller,
            )
            for r in self.records
        ]
        return "\n".join(aligned(rows))


#: What takes the records of somebody who listens.
Listener: TypeAlias = Callable[[Record], None]
_Function = TypeVar("_Function", bound=Callable[..., Any])


#: Numbers of threads: their names need not differ, and a later thread may get an ident again.
_tracks: Final = count(1)


class _Note(threading.local):
    """What the slow paths say of the operation that runs in their thread."""

    reason: str = ""
    bytes_moved: int = 0
    #: Who runs a kernel, and whether one is running: it counts as one operation.
    ran: tuple[str, Backend, Device] | None = None
    inside: bool = False
    #: Who runs an operation, and where, if that was decided for this call alone.
    backend: Any = None
    device: Any = None
    #: The function that is about to make an array where no operand leads, and why there.
    creation: tuple[str, str] = ("", "")
    #: Who is shown what operations are given, while a graph is recorded.
    witness: Callable[[Any], object] | None = None

    def __init__(self) -> None:  # each thread's own
        self.track = next(_tracks)


_note: Final = _Note()
#: Who listens to this thread or task, who to all of them, and who to anything.
_here: Final[ContextVar[tuple[Listener, ...]]] = ContextVar("corepy_listeners", default=())
_everywhere: tuple[Listener, ...] = ()
_listeners: tuple[Listener, ...] = ()
_refill: Callable[[], None]
_lock: AbstractContextManager[Any] = threading.RLock()


def on_change(refill: Callable[[], None], lock: AbstractContextManager[Any]) -> None:
    """Let the tables say how to empty them, and what guards them."""
    global _refill, _lock
    _refill, _lock = refill, lock


def listening() -> bool:
    """Say whether anybody, in any thread, is inside `explain` or `corepy.profile`."""
    return bool(_listeners)


@contextmanager
def listen(listener: Listener, *, everywhere: bool = False) -> Iterator[None]:
    """Let somebody listen to this thread or task, or to all of them, for the length of a block."""
    global _listeners, _everywhere
    listener = partial(listener)  # one of this block alone
    try:
        with _lock:
            _listeners += (listener,)
            if everywhere:
                _everywhere += (listener,)
            _refill()
        if not everywhere:
            _here.set((*_here.get(), listener))
        yield
    finally:
        try:
            _leave(listener)
        except BaseException:  # an interrupt, which may have come anywhere in it
            _leave(listener)
            raise


def _leave(listener: Listener) -> None:
    """Let somebody no longer listen; done twice, it is done."""
    global _listeners, _everywhere
    with _lock:
        _listeners = tuple(each for each in _listeners if each is not listener)
        _everywhere = tuple(each for each in _everywhere if each is not listener)
        _refill()
    here = _here.get()
    if listener in here:
        _here.set(tuple(each for each in here if each is not listener))


#: How many graphs are being recorded, in any thread.
_recordings = 0


@contextmanager
def recorded(witness: Callable[[Any], object]) -> Iterator[None]:
    """Show somebody what operations of this thread are given, for as long as a graph is recorded.

    Nobody waits for a device meanwhile, in any thread, which would end the recording.
    """
    global _recordings
    before = _note.witness
    with listen(_unheard):
        with _lock:
            _recordings += 1
        _note.witness = witness
        try:
            yield
        finally:
            _note.witness = before
            with _lock:
                _recordings -= 1


def _unheard(record: Record) -> None:
    """Listen to nothing."""


def settle(backend: Backend, device: Device) -> None:
    """Wait for a device, so that times are those of the work, unless a graph is recorded."""
    if not _recordings:
        backend.synchronize(device)


def _listening_here() -> tuple[Listener, ...]:
    if _note.inside:
        return ()
    return (*_here.get(), *_everywhere)


def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """Call a function and say of each operation in it who ran it.

    Parameters
    ----------
    function : callable
        Any function that uses `corepy.array_api`.
    *args, **kwargs
        Its arguments.

    Returns
    -------
    Explanation
        With the function's ``result``, a tuple of ``records``, and a table as its ``str``.

    Raises
    ------
    TypeError
        If `function` is not callable. What the function itself raises passes through.

    Notes
    -----
    Only operations of the calling thread or task are recorded, those inside another `explain`
    included. Others run a little slower meanwhile.
    """
    if not callable(function):
        from corepy._errors import bad_type

        raise bad_type("explain", "function", function, "a callable")
    records: list[Record] = []
    with listen(records.append):
        result = function(*args, **kwargs)
    return Explanation(result, tuple(records))


def note(
    reason: str = "",
    bytes_moved: int = 0,
    backend: Backend | None = None,
    device: Device | None = None,
) -> None:
    """Tell whoever listens about the operation that is about to finish.

    `backend` is the one that runs it, and `device` where, if that was decided for this call alone.
    """
    _note.reason = reason or _note.reason
    _note.bytes_moved += bytes_moved
    _note.backend = backend or _note.backend
    _note.device = device or _note.device


def creating(function: str, reason: str) -> None:
    """Tell whoever listens why the array that a function is about to make is made where it is."""
    _note.creation = function.removesuffix("_like"), reason


def _why_here(operation: str) -> str:
    """Say why an operation runs where it does that has no operand, but may be like an array."""
    function, reason = _note.creation
    _note.creation = "", ""
    return reason if operation.rpartition(".")[2] == function else _AT_HOME


def also(reason: str) -> None:
    """Add to what was told of the operation that is about to finish."""
    _note.reason = f"{_note.reason or _AT_HOME}; {reason}"


_AT_HOME: Final = "the operands live in it"


def moved(backend: Backend, device: Device, bytes_moved: int, reason: str) -> None:
    """Record a movement of data that no operation asked for by name."""
    listeners = _listening_here()
    if listeners:
        thread, now = threading.current_thread().name, time.perf_counter()
        place = backend.name, device.name
        row = Record(
            *("transfer", *place, 0.0, bytes_moved, reason),
            *(caller(), now, thread, _note.track),
        )
        for listener in listeners:
            listener(row)


def traced(
    native: Callable[..., Any], name: str, backend: Backend, device: Device
) -> Callable[..., Any]:
    """Wrap a native callable so that it reports to those who listen to its thread."""

    def report(*args: Any, **kwargs: Any) -> Any:
        listeners = _listening_here()
        if not listeners:
            return native(*args, **kwargs)
        if _note.witness is not None:
            _note.witness((args, kwargs))
        _note.reason, _note.bytes_moved, _note.backend, _note.device = "", 0, None, None
        usual = _AT_HOME if args and backend.owns(args[0]) else _why_here(name)
        start = time.perf_counter()
        result = native(*args, **kwargs)
        settle(backend, device)
        seconds = time.perf_counter() - start
        ran = _note.backend or getattr(native, "backend", backend)
        row = Record(
            name,
            ran.name,
            (_note.device or getattr(native, "device", device)).name,
            seconds,
            _note.bytes_moved,
            _note.reason or usual,
            caller(),
            start,
            threading.current_thread().name,
            _note.track,
        )
        for listener in listeners:
            listener(row)
        return result

    return report


def ran(implementation: str, backend: Backend, device: Device, reason: str) -> None:
    """Tell whoever listens who runs the kernel that was called, unless `note` has told why."""
    if _listeners:
        _note.ran, _note.reason = (implementation, backend, device), _note.reason or reason


def one_operation(function: _Function) -> _Function:
    """Let a fused kernel report as one operation, whatever its implementation is made of.

    The implementation says by `ran` which one it is.
    """

    @wraps(function)
    def report(*args: Any, **kwargs: Any) -> Any:
        if not _listeners or not (listeners := _listening_here()):
            return function(*args, **kwargs)
        if _note.witness is not None:
            _note.witness((args, kwargs))
        try:
            _note.reason, _note.bytes_moved, _note.ran, _note.inside = "", 0, None, True
            start = time.perf_counter()
            result = function(*args, **kwargs)
            found = _note.ran
            if found is not None:
                settle(*found[1:])
        finally:
            _note.inside = False
        seconds = time.perf_counter() - start
        if found is not None:
            place = found[0], found[2].name
            thread = threading.current_thread().name
            row = Record(
                *(function.__name__, *place, seconds, _note.bytes_moved, _note.reason),
                *(caller(), start, thread, _note.track),
            )
            for listener in listeners:
                listener(row)
        return result

    return cast(_Function, report)


def caller() -> str:
    """Return ``file:line`` of the nearest frame outside corepy."""
    frame = sys._getframe(depth())
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def depth() -> int:
    """Return how far up the nearest frame outside corepy is, seen from the caller of this."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame = frame.f_back
        level += 1
    return level
