"""Copies between the host and a device that the host does not wait for.

A device copies by itself only to and from memory of the host that stays where it is: pinned memory.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from corepy import _forks
from corepy._errors import BackendError, InsufficientMemoryError, UnsupportedOperationError
from corepy._signals import let_through
from corepy.devices._device import CPU, Device
from corepy.devices._libraries import asked, loaded_backends, on_release
from corepy.devices._transfer import tried

if TYPE_CHECKING:
    import numpy as np

    from corepy.backends._base import Backend, Native
    from corepy.backends._streams import Mark, Streams

_LOCK: Final = _forks.lock()
#: Where pinned memory of ours begins: where it ends, and whose it is.
_blocks: Final[dict[int, tuple[int, weakref.ref[Any]]]] = {}
#: What copies that are on their way read and write, with the points at which they are done.
_on_their_way: Final[list[tuple[Streams, Mark, object]]] = []
#: What CUDA and HIP say of cudaErrorStreamCaptureUnsupported.
_RECORDING: Final = "when stream is capturing"


def pinned_copy(
    values: np.ndarray[Any, Any], streams: Streams | None = None, function: str = "pin_memory"
) -> np.ndarray[Any, Any] | None:
    """Copy an array into pinned memory; None if no library has any. Errors as `_allocate`."""
    made = _allocate(values.shape, values.dtype, streams, function)
    if made is not None:
        made[...] = values
    return made


def _allocate(
    shape: tuple[int, ...], dtype: np.dtype[Any], streams: Streams | None, function: str
) -> np.ndarray[Any, Any] | None:
    """Take pinned memory of a library, or of the first that has some.

    Raises
    ------
    InsufficientMemoryError
        If no more can be pinned: the system has limits of its own for that.
    BackendError
        If the library fails, as where the device is lost.
    """
    holds = [streams] if streams is not None else _holds()
    for hold in holds:
        try:
            made = hold.pinned(shape, dtype)
        except (MemoryError, RuntimeError) as error:
            let_through(error)
            raise _unpinned(function, error) from error
        if made is not None:
            first = made.ctypes.data
            with _LOCK:
                _blocks[first] = first + made.nbytes, weakref.ref(made)
            return made
    return None


def _unpinned(function: str, error: Exception) -> Exception:
    """Word the private error of a library that was asked for pinned memory."""
    told = f"({type(error).__name__}: {' '.join(str(error).split())})"
    lacks = [backend.is_out_of_memory for backend in loaded_backends()]
    if isinstance(error, MemoryError) or any(is_shortage(error) for is_shortage in lacks):
        return InsufficientMemoryError(
            f"{function}: the host has no more memory to pin, and the array is untouched {told}"
        )
    return BackendError(f"{function}: no memory could be pinned; the array is untouched {told}")


def _holds() -> list[Streams]:
    found = [
        backend.streams(device) for backend in loaded_backends() for device in backend.devices()
    ]
    return [streams for streams in found if streams is not None]


def is_pinned(array: np.ndarray[Any, Any]) -> bool:
    """Say whether an array lies, in one piece, in pinned memory that was allocated here."""
    if not array.flags.c_contiguous:
        return False
    first = array.ctypes.data
    with _LOCK:
        for start in [start for start, (_, owner) in _blocks.items() if owner() is None]:
            del _blocks[start]
        return any(
            start <= first and first + array.nbytes <= end for start, (end, _) in _blocks.items()
        )


def start(
    native: Native, source: Backend, here: Device, target: Backend, there: Device
) -> Native | None:
    """Begin to copy an array from the host to a device or back; None where that cannot be done.

    Returns
    -------
    native array of `target`
        Its values are there when the current stream of the device is done.

    Raises
    ------
    UnsupportedOperationError
        If that stream is being recorded: the copy would be done at each replay, of memory that
        nobody keeps for it.
    BackendError
        If the library fails, as where the device is lost.
    """
    let_go()
    device, library = (there, target) if here is CPU else (here, source)
    held = library.streams(device)
    if held is not None and asked("to", device, held.is_capturing):
        raise UnsupportedOperationError(
            f"to: a copy from {here} to {there} cannot be recorded; expected arrays of {device} "
            f"alone inside a graph"
        )
    try:
        if here is CPU and there is not CPU:
            streams = target.streams(there)
            return None if streams is None else _send(native, source, target, there, streams)
        if there is CPU and here is not CPU:
            streams = source.streams(here)
            return None if streams is None else _fetch(native, source, here, target, streams)
    # The library has no such memory, or not of this array, or no more: then the host waits.
    except (UnsupportedOperationError, InsufficientMemoryError):
        return None
    return None


def _send(
    native: Native, source: Backend, target: Backend, there: Device, streams: Streams
) -> Native | None:
    values: Any = source.to_numpy(native)
    if not is_pinned(values):
        values = pinned_copy(values, streams, "to")
        if values is None:
            return None
    made = tried(lambda: streams.send(values), target, CPU, there)
    asked("to", there, lambda: keep(streams, (values, made)))
    return made


def _fetch(
    native: Native, source: Backend, here: Device, target: Backend, streams: Streams
) -> Native | None:
    import numpy as np

    dtype = np.dtype(source.dtype_of(native).name)
    out = _allocate(source.known_shape(native), dtype, streams, "to")
    if out is None:
        return None
    tried(lambda: streams.fetch(native, out), source, here, CPU)
    mark = asked("to", here, lambda: keep(streams, (native, out)))
    try:
        return target.from_numpy(out, CPU, copy=False)
    except ValueError:  # it copies, so the values have to be there
        asked("to", here, lambda: streams.finish(mark))
        return target.from_numpy(out, CPU)


def keep(streams: Streams, arrays: object) -> Mark:
    """Keep the memory of both sides until the copy is done; pools would lend it to others."""
    mark = streams.record(streams.current())
    with _LOCK:
        _on_their_way.append((streams, mark, arrays))
    return mark


def let_go() -> None:
    """Forget the copies that are done."""
    with _LOCK:
        _on_their_way[:] = [copy for copy in _on_their_way if not _is_over(*copy[:2])]


def _is_over(streams: Streams, mark: Mark) -> bool:
    try:
        return streams.is_done(mark)
    except RuntimeError as error:
        # Nobody may ask while a stream is recorded in a stricter mode than ours, in whatever
        # thread, and the copy may be on its way. Else the device is lost, or the mark was recorded
        # and nobody can ever ask for it.
        return _RECORDING not in str(error)


on_release(let_go)
