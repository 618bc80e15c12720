"""Moving native arrays between backends and devices.

Host memory is the meeting point: every backend gives its values to NumPy and takes them from
there, sharing memory where the two libraries can. Two libraries on one accelerator share its memory
by DLPack, which orders their streams as well.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from corepy._errors import BackendError, CorepyError
from corepy._signals import let_through
from corepy.devices import _shortage
from corepy.devices._device import CPU, Device

if TYPE_CHECKING:
    import numpy as np

    from corepy.backends._base import Backend, Native
    from corepy.backends._streams import Streams

T = TypeVar("T")


def convert(
    native: Native,
    source: Backend,
    target: Backend,
    device: Device,
    *,
    copy: bool | None = None,
    by_host: Callable[[], None] | None = None,
) -> tuple[Native, bool]:
    """Give a native array of one backend to another.

    Parameters
    ----------
    native : native array of `source`
    source, target : Backend
    device : Device
        A device of `target`.
    copy : bool or None
        True: always new memory; False: raise ``ValueError`` if a copy is needed; None: share
        where possible.
    by_host : callable, optional
        Is called before values go from one library to another on an accelerator by the host,
        since the two share nothing; what it raises ends this.

    Returns
    -------
    tuple of (native array, bool)
        The array of `target`, and whether its memory is new.

    Raises
    ------
    ValueError
        If `copy` is False and memory cannot be shared.
    BackendError
        If a library fails on the way; `native` is untouched.
    """
    if source is target and source.device_of(native) is device and not copy:
        return native, False
    if device is not CPU and source is not target and source.device_of(native) is device:
        found = _shared(native, source, target, device, copy=copy)
        if found is not None:
            return found
        if by_host is not None:
            by_host()
    host = to_host(native, source, copy=copy)
    if copy is False and host.size == 0:
        copy = None  # there is nothing to copy, whatever flags its memory has
    # The copy that was asked for is made by now; what was made may be shared.
    made = from_host(host, target, device, copy=None if copy else copy)
    shared = source.shares_memory(native, host) and target.shares_memory(made, host)
    return made, not shared


def _shared(
    native: Native, source: Backend, target: Backend, device: Device, *, copy: bool | None
) -> tuple[Native, bool] | None:
    """Share memory of an accelerator, or copy it there; None if the libraries cannot."""
    streams, others = target.streams(device), source.streams(device)
    if copy is not False and streams is not None and others is None:
        return _taken(native, source, target, device, streams)
    apart = False
    if streams is not None and others is not None:
        apart = tried(partial(_differ, streams, others), target, device, device)

    def exchange() -> tuple[Native, bool]:
        # Who imports takes all memory for writable, so that JAX exports a copy.
        offered = source.exporter(native)
        exporter = source.legacy_exporter(offered, copy=copy)
        made, new = target.import_(exporter, device)
        return made, new or exporter is not offered

    found = _exchanged(exchange, target, device)
    if found is None or (found[1] and copy is False):
        return None
    if _lent.witness is not None:
        _lent.witness(native)
    made, new = found
    if new or not (copy or (apart and copy is None)):
        return found
    made = _copied(made, target, device)
    if apart and streams is not None:
        # DLPack lets the consumer's stream wait for the producer's, and nothing the other way:
        # memory that the producer frees goes to the next in its own stream.
        from corepy.devices import _pinned  # which needs this module

        _pinned.let_go()
        tried(partial(_pinned.keep, streams, native), target, device, device)
    return made, True


class _Lent(threading.local):
    """Who is shown what a library lends to another in this thread."""

    witness: Callable[[Native], object] | None = None


_lent: Final = _Lent()


@contextmanager
def lending(witness: Callable[[Native], object]) -> Iterator[None]:
    """Show somebody the arrays of accelerators that this thread lends from library to library.

    What is made of them has their memory, and nobody needs to have them any more.
    """
    before, _lent.witness = _lent.witness, witness
    try:
        yield
    finally:
        _lent.witness = before


#: Addresses of one and the same stream, the default one.
DEFAULT: Final = (0, 1)


def _differ(one: Streams, other: Streams) -> bool:
    """Say whether two libraries work in different streams of a device, and record neither."""
    first, second = one.current(), other.current()
    if first == second or (first in DEFAULT and second in DEFAULT):
        return False
    return not (one.is_capturing() or other.is_capturing())


def _taken(
    native: Native, source: Backend, target: Backend, device: Device, streams: Streams
) -> tuple[Native, bool] | None:
    """Copy memory of a library whose own stream nobody can wait for, and be done with it.

    DLPack lets the consumer's stream wait for the producer's, and nothing the other way: what is
    given back while the consumer still reads it, as JAX's memory is, is written to at once.
    """
    found = _exchanged(lambda: target.import_(source.exporter(native), device), target, device)
    if found is None:
        return None
    made = _copied(found[0], target, device)
    tried(lambda: streams.finish(streams.record(streams.current())), target, device, device)
    return made, True


def _copied(native: Native, backend: Backend, device: Device) -> Native:
    dtype = backend.native_dtype(backend.dtype_of(native))
    return tried(
        lambda: backend.execute("astype", [native, dtype], copy=True), backend, device, device
    )


#: What libraries say, in a ``RuntimeError``, of an array that they do not exchange: a dtype that
#: one of them lacks, a tensor that needs its gradient, an old release.
_REFUSAL: Final = re.compile(
    r"support|implement|dtype|type code|device type|gradient|INVALID_ARGUMENT", re.IGNORECASE
)


def _exchanged(exchange: Callable[[], T], backend: Backend, device: Device) -> T | None:
    """Exchange an array by DLPack; None where a library refuses: by the host it goes, then."""

    def run() -> T | None:
        try:
            return exchange()
        except (AttributeError, BufferError, NotImplementedError, TypeError):
            return None
        except RuntimeError as error:
            let_through(error)
            if _REFUSAL.search(str(error)) and not _shortage.is_shortage(error, device):
                return None
            raise

    return tried(run, backend, device, device)


def to_host(native: Native, source: Backend, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """Return the values of a native array in host memory; arguments and errors as `convert`."""
    start = source.device_of(native)
    return tried(lambda: source.to_numpy(native, copy=copy), source, start, CPU)


def look(native: Native, source: Backend) -> np.ndarray[Any, Any]:
    """Return the values of a native array for printing; errors as `to_host`."""
    return tried(lambda: source.peek(native), source, source.device_of(native), CPU)


def from_host(
    array: np.ndarray[Any, Any], target: Backend, device: Device, *, copy: bool | None = None
) -> Native:
    """Make a native array of values in host memory; arguments and errors as `convert`.

    Values in another byte order than the machine's, which loops of libraries would misread, are
    copied to its own.
    """
    if not array.dtype.isnative:
        if copy is False:
            raise ValueError("the values have another byte order; expected the machine's own")
        array, copy = array.astype(array.dtype.newbyteorder("=")), None
    return tried(lambda: target.from_numpy(array, device, copy=copy), target, CPU, device)


def tried(move: Callable[[], T], backend: Backend, start: Device, end: Device) -> T:
    """Move an array; where memory runs out, once more after every library gave back its caches."""
    try:
        return move()
    except (OSError, RuntimeError, MemoryError) as error:
        let_through(error)
        told = [p for p in (end, start) if p is not CPU and _shortage.is_told(error, p)]
        if not told and not _shortage.is_shortage(error, end):
            raise _failed(backend, start, end, error) from error
        place = (*told, end)[0]  # the one that gets the array, where no library tells
        first = error
    try:
        return _shortage.again("transfer", place, move, first)
    except (OSError, RuntimeError) as error:
        let_through(error)
        raise _failed(backend, start, end, error) from error


def _failed(backend: Backend, start: Device, end: Device, error: Exception) -> Exception:
    """Word the private error of a library or driver; corepy's own say enough already."""
    if isinstance(error, CorepyError):
        return error
    return BackendError(
        f"transfer: {backend.name} failed to move an array from {start} to {end}; "
        f"the array is untouched ({type(error).__name__}: {error})"
    )


def nbytes(native: Native, backend: Backend) -> int:
    """Return the bytes that the elements of a native array take; unknown dimensions count 0."""
    shape = backend.shape_of(native)
    return math.prod(n or 0 for n in shape) * backend.dtype_of(native).itemsize
