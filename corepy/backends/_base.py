"""The contract between the dispatcher and a library.

A backend is an adapter: it says which devices it serves, which native callable runs each
operation, and how its native arrays come and go. It promotes nothing, validates nothing and
wraps nothing; the dispatcher has done that before it calls.

What a native callable may rely on
    * It has the standard's name and signature, on native arrays: ``sum(x, /, *, axis, dtype,
      keepdims)``. Functions of the extensions are called ``"linalg.cholesky"``, ``"fft.fft"``.
    * Operands of an elementwise operation live on one device and have one dtype already, the
      promoted one, or, where the backend `promotes`, dtypes of one kind. Python scalars have become
      0-D native arrays, except where `Capabilities` says that the operation takes them as they
      are.
    * ``axis`` arguments are non-negative and in range, shapes are tuples of ints, ``dtype``
      arguments are the library's own, ``device`` is a `Device`, and both are always given where
      the standard has them (creation functions).
    * It returns native arrays, or a tuple of them, of the dtype that the standard demands.

Beside the standard's functions the table holds ``"__getitem__"`` ``(x, key)``, ``"__setitem__"``
``(x, key, value)`` which returns the array that now holds the values (the same one, or a new one
where the library is immutable), ``"astype"`` ``(x, dtype, *, copy)`` and, where the library
writes in place, ``"__iadd__"`` and its kin, which return their first operand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from corepy import _dtypes
from corepy._dtypes import DType, Scalar
from corepy._errors import UnsupportedOperationError
from corepy.backends._exports import HostExporter, Unordered
from corepy.devices._device import CPU, Device

if TYPE_CHECKING:
    import numpy as np

    from corepy._crew import Crew
    from corepy.backends._loop import Loop
    from corepy.backends._streams import Streams
    from corepy.devices._pool import MemoryStats
    from corepy.devices._probe import MemoryInfo

__all__ = ["Allocator", "Backend", "Capabilities", "LeftToOthersError", "Native"]

#: A library's own array. Only its backend knows more.
Native: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do on one device.

    Attributes
    ----------
    dtypes : frozenset of DType
        The dtypes it stores and computes with there.
    boolean_indexing, data_dependent_shapes : bool
        As in the standard's ``__array_namespace_info__().capabilities()``.
    max_dimensions : int or None
        The greatest number of dimensions, None where there is no limit.
    held : frozenset of DType
        Those of `dtypes` that it only stores there: every operation on them runs elsewhere, and
        no function chooses them by default where it could choose another.
    scalars_first, scalars_second : frozenset of str
        Operations whose callables take a Python scalar as their first, or second, operand beside
        an array of a real-valued dtype or of bool, a scalar of that kind which the dtype holds.
        Name one only if the results have the bits that they have beside a 0-D array of the dtype.
        It spares making that array, which on a GPU takes a kernel of its own.
    """

    dtypes: frozenset[DType] = _dtypes.ANY
    boolean_indexing: bool = True
    data_dependent_shapes: bool = True
    max_dimensions: int | None = None
    held: frozenset[DType] = frozenset()
    scalars_first: frozenset[str] = frozenset()
    scalars_second: frozenset[str] = frozenset()


class LeftToOthersError(Exception):
    """Raised by a native callable of `Backend.partly` for what it leaves to other backends."""


@dataclass(frozen=True, slots=True)
class Allocator:
    """How a library lends memory of its pools to another.

    Attributes
    ----------
    owner : str
        The backend that lends.
    allocate : callable
        ``allocate(bytes, number of the device, address of the stream)`` returns an address.
    free : callable
        ``free(address)``.
    """

    owner: str
    allocate: Callable[[int, int, int], int]
    free: Callable[[int], None]


class Backend(ABC):
    """Adapter to one library that executes operations on one or more devices.

    Subclasses say what the library can do and where it deviates, and nothing more. See
    ``examples/remote_backend`` for a complete one outside this package.

    Notes
    -----
    The dispatcher checks what it calls these methods with, the same everywhere:

    native : native array
        An array of this library, as `owns` knows it.
    device : Device
        One of `devices`.
    dtype : DType
        Of the standard, and one that the device has; of `rounded`, the name of a 16-bit float.
    name : str
        An operation's, as the table has it: ``"add"``, ``"linalg.cholesky"``.
    exporter : object
        What `exporter` or `legacy_exporter` of another backend returns.
    value : scalar
        One of Python's, which the dtype holds.
    array : numpy.ndarray
        In host memory.
    copy : bool or None
        True: always new memory. False: raise ``ValueError`` if memory cannot be shared. None:
        share where possible.

    They raise what each says, and whatever the library raises: of that the dispatcher makes the
    exception that corepy documents, with the function's name.
    """

    #: The name users write in a priority list.
    name: ClassVar[str]
    #: Whether operands of two dtypes of one kind may come unconverted, because the library
    #: promotes them exactly as the standard's table does.
    promotes: ClassVar[bool] = False

    #: Whether its arrays may lie on another device than the host. Those that cannot say nothing of
    #: where they belong: ``asarray`` brings them to the default device, as it does with lists.
    placed: ClassVar[bool] = True
    #: Whether NumPy allocates its results, so that large ones may lie in recycled memory.
    recycles: ClassVar[bool] = False
    #: Operations whose callables may raise `LeftToOthersError`, by which other backends run them
    #: for these arguments, as those that the table lacks.
    partly: ClassVar[frozenset[str]] = frozenset()

    #: Whether its native arrays have attributes ``ndim`` and ``shape`` with every size, so that a
    #: call that was seen goes to the library at once (`corepy.dispatch._short_calls`).
    repeats: ClassVar[bool] = False

    #: The backend whose arrays its arrays stand for, where their values may be resident elsewhere
    #: (`corepy.dispatch._offload`). Other operands come to such an array, not it to them.
    home: Backend | None = None

    # ------------------------------------------------------------------ what it can do

    @abstractmethod
    def is_available(self) -> bool:
        """Say whether operations can run now (a server answers, a driver responds).

        Whatever it raises counts as False, and what that says is the reason that ``corepy info``
        and messages give; of a `corepy.CorepyError`, such as `BackendError`, the text alone.
        """

    @abstractmethod
    def capabilities(self, device: Device) -> Capabilities:
        """Return what the backend can do on one of its devices."""

    @abstractmethod
    def operation(self, name: str) -> Callable[..., Any] | None:
        """Return the native callable for an operation, None where the library has none."""

    def operation_on(self, name: str, device: Device) -> Callable[..., Any] | None:
        """Return the native callable for an operation on arrays of one device, None without one.

        Asked once for each device and dtype. Override it where a library needs something else on
        one of its devices.
        """
        return self.operation(name)

    def devices(self) -> tuple[Device, ...]:
        """Return the devices served, the default one first.

        Asked, as all that follows, whether or not the backend is available; it raises nothing.
        """
        return (CPU,)

    def unserved(self) -> tuple[str, ...]:
        """Say what is missing that the library could serve, and why.

        Devices, for a driver that is too old, or operations, for want of another library. Shown by
        ``corepy info``, and the reasons for devices where somebody wishes for one.
        """
        return ()

    def supports(self, name: str, dtype: DType, device: Device) -> bool:
        """Say whether an operation runs natively on arrays of this dtype.

        Override it where a library offers a function, but not for every dtype.
        """
        return dtype in self.capabilities(device).dtypes and self.operation(name) is not None

    def loop(self, name: str) -> Loop | None:
        """Return what `operation` gives on small NumPy arrays, None where no loop does it.

        For libraries whose native arrays are NumPy's. Where the callable that `operation` returns
        has an attribute ``least``, the loop is called for fewer elements than that.
        """
        return None

    def single(self, name: str) -> Callable[..., Any] | None:
        """Return what computes an operation of float32 in float32, where `operation` takes more.

        It is asked under ``corepy.precision("fast")``, and gives None where it finds no answer;
        `operation` has the last word then.
        """
        return None

    def execute(self, operation: str, inputs: Sequence[Native], /, **params: Any) -> Any:
        """Run one operation on native arrays.

        Parameters
        ----------
        operation : str
            Name in the operation table, such as ``"add"`` or ``"linalg.cholesky"``.
        inputs : sequence of native arrays
            The positional operands.
        **params
            The keyword arguments, as the module's docstring describes them.

        Raises
        ------
        UnsupportedOperationError
            If the table has no such operation.
        """
        first = inputs[0] if inputs else None
        if isinstance(first, (tuple, list)):
            first = first[0] if first else None
        if self.owns(first):
            function = self.operation_on(operation, self.device_of(first))
        else:
            function = self.operation(operation)
        if function is None:
            raise UnsupportedOperationError(
                f"{operation}: backend {self.name} has no such operation; expected one of its table"
            )
        return function(*inputs, **params)

    # ------------------------------------------------------------------ its native arrays

    @abstractmethod
    def owns(self, obj: object) -> bool:
        """Say whether `obj`, any object, is an array of this library (without importing others)."""

    @abstractmethod
    def dtype_of(self, native: Native) -> DType:
        """Return the dtype of a native array; raise ``TypeError`` if the standard has none such."""

    @abstractmethod
    def native_dtype(self, dtype: DType) -> Any:
        """Return the library's own object for a dtype."""

    @abstractmethod
    def scalar(self, value: Scalar, dtype: DType, device: Device) -> Native:
        """Make a 0-D native array of a Python scalar that is known to fit."""

    @abstractmethod
    def item(self, native: Native) -> Scalar:
        """Return the one element of a native array as a Python scalar."""

    @abstractmethod
    def to_numpy(self, native: Native, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the values in host memory."""

    def peek(self, native: Native) -> np.ndarray[Any, Any]:
        """Return the values to be looked at, as printing does; nobody writes into them."""
        return self.to_numpy(native)

    def outline(self, native: Native) -> str | None:
        """Return what is printed of an array without values to look at, None if it has them.

        Override it where functions are traced: what such an array prints is what their author asks.
        """
        return None

    @abstractmethod
    def from_numpy(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None
    ) -> Native:
        """Make a native array on a device from host memory."""

    def shares_memory(self, native: Native, array: np.ndarray[Any, Any]) -> bool:
        """Say whether a native array uses the memory of a host array.

        Override it where `to_numpy` costs more than a look, as it does for remote and lazy arrays.
        """
        if self.device_of(native).kind != "cpu":
            return False  # and asking for its values would move them all

        import numpy as np

        return bool(np.may_share_memory(self.to_numpy(native), array))

    def shape_of(self, native: Native) -> tuple[int | None, ...]:
        """Return the shape, with None for dimensions that are not known yet."""
        shape: tuple[int | None, ...] = native.shape
        return shape

    def known_shape(self, native: Native) -> tuple[int, ...]:
        """Return the shape, and compute the dimensions for it that `shape_of` does not know.

        Override it where this takes less than computing all values.
        """
        shape = self.shape_of(native)
        return self.peek(native).shape if None in shape else cast("tuple[int, ...]", shape)

    def device_of(self, native: Native) -> Device:
        """Return the device a native array lives on."""
        return self.devices()[0]

    def normalize(self, native: Native) -> Native:
        """Turn whatever a native callable returned into a native array.

        Called only when the class of a result is not the class of the operand, as with the
        scalars that NumPy returns for 0-D operands.
        """
        return native

    def adopt(self, native: Native) -> Native:
        """Turn an array that a user brought into one that operations take, sharing its memory.

        A ``RuntimeError`` that says why it cannot be used becomes a `BackendError`.
        """
        return self.normalize(native)

    def adopts_by_copy(self, native: Native) -> str | None:
        """Say why `adopt` has to copy the values, so that ``copy=False`` cannot be had.

        Returns
        -------
        str or None
            What the array is or has, and what is expected; None where it is not copied.
        """
        return None

    def unwrapped(self, native: Native) -> Native:
        """Return what `Array.unwrap` gives to users.

        Override it where something is no array of the library's: raise `UnsupportedOperationError`.
        """
        return native

    def is_writable(self, native: Native) -> bool:
        """Say whether ``__setitem__`` may write into this memory."""
        return True

    def exporter(self, native: Native) -> Any:
        """Return the object that exports a native array by DLPack, None where nothing can.

        Override it where the library has no DLPack, but computes into host memory all the same.
        """
        if hasattr(native, "__dlpack__"):
            return native
        if self.device_of(native).kind != "cpu":
            return None
        values = self.to_numpy(native)
        return values if self.shares_memory(native, values) else HostExporter(lambda: values)

    def import_(self, exporter: Any, device: Device) -> tuple[Native, bool]:
        """Make an array of memory that another library exports by DLPack, on the same device.

        Called for the memory of accelerators only; the host's comes as NumPy's arrays.

        Returns
        -------
        tuple of (native array, bool)
            The array, and whether its memory is new.

        Raises
        ------
        BufferError
            If this library cannot: then the values cross the host.
        """
        raise BufferError(f"{self.name} imports no memory of {device}")

    def legacy_exporter(self, native: Native, *, copy: bool | None) -> Any:
        """Return the object that exports a native array by DLPack before version 1.0.

        Consumers of these versions take all memory for writable. Override it where a library
        exports read-only memory to them all the same: return a copy, or raise ``BufferError`` if
        `copy` is False.
        """
        return native

    def counting(self) -> tuple[type, Callable[[Native], int]] | None:
        """Return the class of its arrays and what counts the elements of one.

        None if other libraries never run operations on its arrays of an accelerator
        (`corepy.dispatch._sites`). Else `layout` and `lends` say more of an array of that class.
        """
        return None

    def layout(self, native: Native) -> Any:
        """Return what has ``shape``, ``ndim``, ``size``, ``dtype`` and ``flags`` as NumPy has them.

        Of `flags` ``forc`` and ``c_contiguous``: whether elements lie in one piece, and by rows.
        """
        return native

    def borrow(self, exporter: Any, device: Device) -> Native:
        """Make an array of another library's memory, in whose stream this one is about to work.

        Called for what `legacy_exporter` of that library's backend returns. So nobody has to wait
        for anybody. Override it where there is a shorter way than `import_`.

        Raises
        ------
        BufferError
            If that takes a copy.
        """
        made, new = self.import_(Unordered(exporter), device)
        if new:
            raise BufferError(f"{self.name} copies")
        return made

    def lends(self, native: Native) -> bool:
        """Say whether another library may compute with an array's memory, and nobody miss it.

        Not where the library takes note of what is computed, nor with memory that others do not
        take. Whether it has the layout for it, others say.
        """
        return False

    def crew(self) -> Crew | None:
        """Return threads that help with NumPy's inner loops on the host; None if it has none."""
        return None

    def limit_threads(self, count: int) -> str | None:
        """Let the library use `count` threads of the host; if it cannot be told, say why not.

        Called when the backend is loaded, if somebody set a budget before, and at each change.
        A library that computes in the calling thread alone has nothing to do.
        """
        return None

    def threads(self) -> int | None:
        """Return how many threads of the host the library would use; None if it cannot tell.

        Where nobody asked for a number, and fewer can run at once than there are processors, it
        decides whether `limit_threads` is called: a library that was held to fewer keeps them.
        """
        return None

    def autocast(self, operation: str, dtype: str) -> Callable[..., Any] | None:
        """Return what computes a product as `corepy.autocast` says, None where no one call does.

        Parameters
        ----------
        operation : str
            ``"matmul"``, ``"tensordot"`` or ``"vecdot"``: its signature is that of the operation.
        dtype : {"bfloat16", "float16"}
            To what the float32 operands are rounded. Sums and the result are float32.
        """
        return None

    def rounded(self, native: Native, dtype: str) -> Native:
        """Return a float32 array with every element rounded to a 16-bit float, as float32.

        Used where `autocast` gives None. Override it for arrays elsewhere than in host memory.

        Raises
        ------
        UnsupportedOperationError
            If the library cannot.
        """
        device = self.device_of(native)
        if device is not CPU:
            raise UnsupportedOperationError(
                f"autocast: {self.name} on {device} does not round to {dtype}"
            )
        import numpy as np

        from corepy.backends._rounding import rounded

        return self.from_numpy(rounded(np, self.to_numpy(native), dtype), device)

    def allow_tf32(self, allowed: bool) -> str | None:
        """Let products and convolutions of float32 be computed in TF32; if it cannot, say why not.

        Called by `corepy.enable_tf32`, and when a backend is loaded after it. Until then, and where
        `allowed` is False, they have to be computed in float32. A library without TF32 has nothing
        to do.
        """
        return None

    def computed(self, native: Native) -> Native:
        """Return a native array whose values are there or on their way.

        Override it where the library is lazy and computes by itself only what somebody reads.
        """
        return native

    def synchronize(self, device: Device) -> None:
        """Wait until everything asked of a device is done; nothing to do where it always is."""

    # ------------------------------------------------------------------ memory and streams

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Say whether `error`, of the library and other than ``MemoryError``, means that.

        The operation is then run again, so one that writes in place has to ask for its memory
        before it writes, as all known libraries do.
        """
        return False

    def empty_cache(self, device: Device) -> int:
        """Give back the memory that the library keeps on a device; return how many bytes.

        Called when any library runs out there. Nothing to do where it keeps none.
        """
        return 0

    def memory_stats(self, device: Device) -> MemoryStats | None:
        """Tell what the library holds on a device, None where it does not count."""
        return None

    def memory_info(self, device: Device) -> MemoryInfo | None:
        """Tell how much memory a device has and how much of it is free; None if nobody knows.

        Asked for devices whose drivers corepy does not know to ask itself.
        """
        return None

    def hardware(self, device: Device) -> str | None:
        """Name the hardware, and its driver's version, as the library knows them.

        None if it does not tell. Costs that were measured on other hardware are measured again.
        """
        return None

    def limit_memory(self, device: Device, limit: int | None) -> str | None:
        """Let the library take `limit` bytes of a device at most; if it cannot, say why not.

        None takes the limit away.
        """
        return "the library has no limit to set"

    def lend_allocator(self) -> Allocator | None:
        """Return how others allocate from this library's pools, None where they cannot."""
        return None

    def use_allocator(self, allocator: Allocator | None) -> str | None:
        """Allocate by the `allocator` of another library, or again by its own where that is None.

        Memory that was allocated before stays where it is. If the library cannot, say why not.
        """
        return "the library takes no other's memory"

    def streams(self, device: Device) -> Streams | None:
        """Return what orders the library's work on a device, None where it has no streams."""
        return None


def native_function(namespace: Any, name: str) -> Callable[..., Any] | None:
    """Return a library's own function of an operation, such as ``linalg.inv``, if it has one."""
    extension, _, function = name.rpartition(".")
    home = getattr(namespace, extension) if extension else namespace
    found: Callable[..., Any] | None = getattr(home, function, None)
    return found
