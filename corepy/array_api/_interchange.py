"""How an `Array` crosses to other devices and libraries: DLPack, NumPy's protocol and the buffer's.

https://data-apis.org/array-api/2025.12/design_topics/data_interchange.html
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, cast

from corepy._errors import bad_type
from corepy._signals import let_through
from corepy.array_api._arguments import device_argument
from corepy.devices._device import CPU, Device
from corepy.devices._transfer import convert, nbytes, to_host
from corepy.dispatch import Operand, creation_table, entered, make, table_of
from corepy.dispatch import _explain as account

if TYPE_CHECKING:
    from typing import Protocol

    import numpy as np

    from corepy.array_api._array import Array

    class HasArray(Protocol):
        """What NumPy converts by its own protocol."""

        def __array__(self, *args: Any, **kwargs: Any) -> Any:
            """Return the values as an array of NumPy's."""

    class HasDLPack(Protocol):
        """What libraries exchange by DLPack."""

        def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
            """Export the memory."""


_DLPACK_CPU: Final = 1  # as DLPack numbers kinds of device


class Interchange(Operand):
    """The methods of `Array` that other libraries call, and `to_device`."""

    __slots__ = ()

    def to_device(self, device: Device | str, /, *, stream: Any = None) -> Array:
        """Move the array to a device.

        Parameters
        ----------
        device : Device or str
        stream : None, or a stream
            In which the array is copied, of either device: that of `corepy.stream`, another
            library's with ``__cuda_stream__``, or the address of one. What comes after waits for
            it. None: the current one. Where neither device has streams, only `corepy.stream` of
            one of them, which changes nothing there.

        Returns
        -------
        Array
            On that device; the same object if it is there already.

        Raises
        ------
        TypeError
            If `device` or `stream` is of another type.
        ValueError
            If `stream` is of neither device, or an address where they have no streams.
        BackendUnavailableError
            If the device is not present.
        UnsupportedOperationError
            If no backend there has the dtype.
        InsufficientMemoryError
            If memory runs out, also after every library gave back what it keeps.
        BackendError
            If a library fails to move the array, which is left as it was.
        """
        place = device_argument("to_device", device)
        source = self._table
        if stream is not None:
            creation_table("to_device", place, source.dtype)  # loads who has streams there
            with entered("to_device", stream, place, source.device):
                return self.to_device(place)
        if place is source.device:
            return cast("Array", self)
        target = creation_table("to_device", place, source.dtype)
        home = source.backend  # stays in charge where it can
        if place in home.devices() and source.dtype in home.capabilities(place).dtypes:
            target = table_of(home, place, source.dtype)
        native, _ = convert(self._native, source.backend, target.backend, place)
        size = nbytes(self._native, home)
        account.moved(target.backend, place, size, f"to_device from {source.device}")
        return cast("Array", make(native, target))

    def _come_home(self, function: str) -> None:
        """Tell whoever listens that all values leave the device for the host."""
        table = self._table
        if table.device.kind != "cpu":
            size = nbytes(self._native, table.backend)
            account.moved(table.backend, CPU, size, f"{function} from {table.device}")

    def __dlpack_device__(self, /) -> tuple[int, int]:
        """Return the DLPack device type and id of the native array.

        Returns
        -------
        tuple of (int, int)

        Raises
        ------
        BufferError
            If its library does not speak DLPack.
        """
        kind, index = self._exporter("__dlpack_device__").__dlpack_device__()
        return int(kind), int(index)

    def __dlpack__(
        self,
        /,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the array as a DLPack capsule.

        Parameters
        ----------
        stream : int or None
            Stream of the consumer; None on the host.
        max_version : tuple of int or None
            Newest version of DLPack that the consumer takes. Read-only memory needs (1, 0).
        dl_device : tuple of int or None
            Device wanted by the consumer.
        copy : bool or None
            Whether the memory must, must not or may be new.

        Returns
        -------
        PyCapsule

        Raises
        ------
        TypeError
            If `max_version` or `dl_device` is no pair of ints.
        BufferError
            If the memory cannot be exported as wanted.
        """
        for name, pair in (("max_version", max_version), ("dl_device", dl_device)):
            if pair is not None and not _is_pair(pair):
                raise bad_type("__dlpack__", name, pair, "a tuple of two ints, or None")
        native = self._exporter("__dlpack__")
        if stream is not None and native.__dlpack_device__()[0] == _DLPACK_CPU:
            # Of which MLX would take any, and of the error nobody is sure.
            raise BufferError(f"__dlpack__: stream is {stream!r}; expected None on the host")
        if max_version is None or max_version < (1, 0):
            max_version = None  # which every library understands, as some do not older numbers
            native = self._table.backend.legacy_exporter(native, copy=copy)
        try:
            return native.__dlpack__(
                stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
            )
        except (TypeError, ValueError, OverflowError) as error:
            let_through(error)
            # What cannot be done without a copy is a ValueError to most libraries; what cannot be
            # done for a device is one to NumPy before 2.4.
            asked = copy is False or dl_device is not None
            refused = asked and isinstance(error, ValueError)
            raise (BufferError if refused else type(error))(f"__dlpack__: {error}") from None
        except (BufferError, RuntimeError, AssertionError) as error:  # the last two: of a stream
            let_through(error)
            raise BufferError(f"__dlpack__: {error}") from None

    def _exporter(self, function: str) -> Any:
        """Return the object that speaks DLPack for the native array."""
        table = self._table
        found = table.backend.exporter(self._native)
        if found is None:
            raise BufferError(
                f"{function}: {table.backend.name} on {table.device} exports no DLPack"
            )
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the values as a NumPy array; shares memory where `copy` and `dtype` allow."""
        import numpy as np

        table, native = self._table, self._native
        if dtype is None and not copy and table.device is CPU and native.__class__ is np.ndarray:
            return native.view()  # as below
        if table.device.kind != "cpu" and copy is False:
            raise ValueError(f"__array__: x is on {table.device}; expected copy other than False")
        host = to_host(native, table.backend, copy=None if copy else copy)
        self._come_home("__array__")
        made = np.asarray(host, dtype) if copy is None else np.array(host, dtype, copy=copy)
        # The caller may give it another shape or dtype in place, which is not for ours to have.
        return made.view() if made is host else made

    def __buffer__(self, flags: int, /) -> memoryview:
        """Export host memory by the buffer protocol (Python 3.12 and later call this).

        Raises
        ------
        BufferError
            If the array has no host memory to share, or is read-only and the consumer wants to
            write.
        """
        backend, device = self._table.backend, self._table.device
        if device.kind != "cpu":
            raise BufferError(f"buffer: x is on {device}; expected host memory")
        try:
            host: np.ndarray[Any, Any] | None = to_host(self._native, backend, copy=False)
        except ValueError as error:  # no copy is made to be thrown away
            let_through(error)
            host = None
        if host is None or not backend.shares_memory(self._native, host):
            # NumPy takes a buffer for memory without a copy; refused, it asks `__array__`.
            raise BufferError(
                f"buffer: {backend.name} shares no memory; expected an array that does"
            )
        view = host.data
        if flags & 1 and view.readonly:  # PyBUF_WRITABLE
            raise BufferError("buffer: x is read-only; expected writable memory")
        return view

    def __bytes__(self) -> bytes:
        """Return the elements' memory, in C order: as NumPy has it."""
        return to_host(self._native, self._table.backend).tobytes()


for _name, _method in vars(Interchange).items():
    if isinstance(_method, FunctionType):  # messages of Python's say where a method is from
        _method.__qualname__ = f"Array.{_name}"


def _is_pair(value: object) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(hasattr(part, "__index__") for part in value)
    )
