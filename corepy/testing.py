"""Fake devices: what an accelerator does to a program, tried out on any laptop.

A fake device computes with NumPy in memory of its own. What differs on a real one differs here
too: dtypes that are missing, operations that are missing, transfers that are counted and that can
fail, arrays that no other library recognises.

    with corepy.testing.fake_devices(lacks=["sqrt"]) as fake:
        x = xp.asarray([1.0, 4.0], device="fake:no_float64")
        assert x.dtype == xp.float32
        y = xp.sqrt(x)  # crosses to the host and back, with a FallbackWarning
        assert fake.bytes_left == 8
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from corepy._dtypes import ANY, SINGLE, DType, Scalar, complex128, float64, int64, uint64
from corepy._errors import bad_argument, bad_type
from corepy.backends._base import Backend, Capabilities
from corepy.devices._device import Device, as_device
from corepy.dispatch import OPERATIONS, index_value, register_backend, unregister_backend

if TYPE_CHECKING:
    import numpy as np

__all__ = ["DEVICES", "DeviceLost", "FakeArray", "FakeBackend", "fake_devices"]

#: The fake devices and their dtypes: one as Apple's MPS, one as JAX is by default, one complete.
DEVICES: Final[dict[str, frozenset[DType]]] = {
    "fake:no_float64": ANY - {float64, complex128},
    "fake:no_x64": ANY - {float64, complex128, int64, uint64},
    "fake:device1": ANY,
}


class DeviceLost(RuntimeError):
    """What the fake library raises when a transfer fails or a device is gone, as a driver would."""


class FakeArray:
    """The array of the fake library. Neither NumPy nor any other library can read it.

    Parameters
    ----------
    values : numpy.ndarray
        Memory that belongs to the device alone.
    device : Device
    """

    __slots__ = ("_values", "device")

    def __init__(self, values: np.ndarray[Any, Any], device: Device) -> None:
        self._values = values
        self.device = device

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        shape: tuple[int, ...] = self._values.shape
        return shape


class FakeBackend(Backend):
    """A library that computes on fake devices.

    Parameters
    ----------
    offers : collection of str or None
        Operations that it has; None for all that NumPy has.
    lacks : collection of str
        Operations that it does not have all the same.
    devices : mapping of str to frozenset of DType
        The devices and the dtypes of each, the default one first.
    available : bool
        Whether it answers when asked if it can run.

    Attributes
    ----------
    arrived, left : int
        How many arrays came from the host to a device, and how many the other way.
    bytes_arrived, bytes_left : int
        How many bytes they had.

    Raises
    ------
    TypeError
        If `offers` or `lacks` is of another type, as a single name is.
    ValueError
        If one of them holds a name that no operation has.
    """

    name = "fake"

    def __init__(
        self,
        offers: Collection[str] | None = None,
        *,
        lacks: Collection[str] = (),
        devices: Mapping[str, frozenset[DType]] = DEVICES,
        available: bool = True,
    ) -> None:
        from corepy.backends._numpy import NumPyBackend

        for argument, names in (("offers", offers or ()), ("lacks", lacks)):
            if isinstance(names, str) or not isinstance(names, Collection):
                raise bad_type("FakeBackend", argument, names, "a collection of str")
            for operation in names:
                if operation not in OPERATIONS:
                    expected = "names of operations, such as 'sqrt' or 'linalg.qr'"
                    raise bad_argument("FakeBackend", argument, operation, expected)
        self.offers = offers
        self.lacks = lacks
        self.available = available
        self.arrived = self.left = self.bytes_arrived = self.bytes_left = 0
        self._dtypes = {as_device(name): dtypes for name, dtypes in devices.items()}
        self._numpy = NumPyBackend()
        self._transfers_left: int | None = None
        self._lost: list[Device] = []

    # ------------------------------------------------------------------ what it can do

    def is_available(self) -> bool:
        """Return what the maker of this backend chose."""
        return self.available

    def devices(self) -> tuple[Device, ...]:
        """Return the fake devices."""
        return tuple(self._dtypes)

    def capabilities(self, device: Device) -> Capabilities:
        """Return the dtypes of a fake device."""
        return Capabilities(dtypes=self._dtypes[device])

    def operation(self, name: str) -> Callable[..., Any] | None:
        """Return NumPy's callable on fake arrays, None where the backend is to lack it."""
        if name in self.lacks or (self.offers is not None and name not in self.offers):
            return None
        native = self._numpy.operation(name)
        if native is None:
            return None

        def run(*args: Any, **params: Any) -> Any:
            place = _place(name, args, params)
            self._answer(place)
            plain = {key: _inside(value) for key, value in params.items()}
            return self._fake(native(*map(_inside, args), **plain), place)

        return run

    def _fake(self, made: Any, place: Device) -> Any:
        """Turn NumPy's results into the device's."""
        if isinstance(made, (tuple, list)):
            return tuple(self._fake(item, place) for item in made)
        values = self._numpy.normalize(made)
        if values.dtype.kind in "iu":  # indices and counts: a library has the widest that it can
            dtype = self._numpy.dtype_of(values)
            wide = dtype in self._dtypes[place]
            values = values if wide else values.astype(SINGLE.get(dtype, dtype).name)
        self._require(values, place)
        return FakeArray(values, place)

    def _require(self, values: np.ndarray[Any, Any], place: Device) -> None:
        """Refuse what the device cannot hold, in the words of a library."""
        if self._numpy.dtype_of(values) not in self._dtypes[place]:
            raise TypeError(f"{place} does not support {values.dtype}")

    # ------------------------------------------------------------------ its native arrays

    def owns(self, obj: object) -> bool:
        """Say whether `obj`, any object, is a fake array."""
        return isinstance(obj, FakeArray)

    def dtype_of(self, native: FakeArray) -> DType:
        """Return the dtype of a fake array."""
        return self._numpy.dtype_of(native._values)

    def native_dtype(self, dtype: DType) -> Any:
        """Return the dtype object of the fake library, which is NumPy's."""
        return self._numpy.native_dtype(dtype)

    def device_of(self, native: FakeArray) -> Device:
        """Return the fake device of an array."""
        return native.device

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> FakeArray:
        """Make a 0-D fake array."""
        made: FakeArray = self._fake(self._numpy.scalar(value, dtype, device), device)
        return made

    def rounded(self, native: FakeArray, dtype: str) -> FakeArray:
        """Return float32 rounded to a 16-bit float, as NumPy does it."""
        return FakeArray(self._numpy.rounded(native._values, dtype), native.device)

    def is_writable(self, native: FakeArray) -> bool:
        """Say whether NumPy writes to an array: not to views that repeat elements."""
        return self._numpy.is_writable(native._values)

    def item(self, native: FakeArray) -> Scalar:
        """Return the one element of a fake array."""
        self._answer(native.device)
        return self._numpy.item(native._values)

    # ------------------------------------------------------------------ transfers

    def to_numpy(self, native: FakeArray, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Move values to the host. Memory is never shared."""
        _refuse_sharing(copy)
        self._transfer(native.device)
        self.left += 1
        self.bytes_left += native._values.nbytes
        return native._values.copy()

    def from_numpy(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None
    ) -> FakeArray:
        """Move values from the host. Memory is never shared."""
        _refuse_sharing(copy)
        self._transfer(device)
        self._require(array, device)
        self.arrived += 1
        self.bytes_arrived += array.nbytes
        return FakeArray(array.copy(), device)

    def shares_memory(self, native: FakeArray, array: np.ndarray[Any, Any]) -> bool:
        """Say no: nothing on the host shares a device's memory."""
        return False

    @contextmanager
    def fail_transfers(self, *, after: int = 0) -> Iterator[None]:
        """Let every transfer fail, in either direction, for the extent of a ``with`` block.

        Parameters
        ----------
        after : int
            How many transfers succeed first.

        Raises
        ------
        TypeError
            If `after` is no int.
        ValueError
            If it is negative.
        """
        if index_value("fail_transfers", "after", after) < 0:
            raise bad_argument("fail_transfers", "after", after, "0 or more")
        before, self._transfers_left = self._transfers_left, after
        try:
            yield
        finally:
            self._transfers_left = before

    @contextmanager
    def lose_device(self, device: Device | str) -> Iterator[None]:
        """Let a device be gone for the extent of a ``with`` block.

        Its operations and transfers raise `DeviceLost`. `devices` still has it, as libraries count
        theirs once.

        Parameters
        ----------
        device : Device or str
            One of the backend's.

        Raises
        ------
        TypeError
            If it is neither a device nor a name.
        ValueError
            If it is none of them.
        """
        place = as_device(device, "lose_device")
        if place not in self._dtypes:
            raise bad_argument("lose_device", "device", place.name, "one of the backend's")
        self._lost.append(place)
        try:
            yield
        finally:
            self._lost.remove(place)  # once: it may be gone for a block around this one

    def _answer(self, device: Device) -> None:
        if device in self._lost:
            raise DeviceLost(f"{device} is gone")

    def _transfer(self, device: Device) -> None:
        self._answer(device)
        if self._transfers_left is None:
            return
        if self._transfers_left == 0:
            raise DeviceLost(f"{device} does not respond")
        self._transfers_left -= 1


@contextmanager
def fake_devices(
    *, offers: Collection[str] | None = None, lacks: Collection[str] = ()
) -> Iterator[FakeBackend]:
    """Add the backend ``fake`` with its `DEVICES` for the extent of a ``with`` block.

    Parameters
    ----------
    offers : collection of str or None
        Operations of the standard that it has, such as ``"add"`` or ``"linalg.cholesky"``; None
        for all.
    lacks : collection of str
        Operations that it does not have.

    Yields
    ------
    FakeBackend
        With the counts of its transfers, and `FakeBackend.fail_transfers`.

    Raises
    ------
    TypeError
        If an argument is of another type, as a single name is.
    ValueError
        If one holds a name that no operation has.

    Notes
    -----
    The devices never become the default by themselves: name one in ``device=``, or in a priority
    such as ``["fake:no_x64"]``. Operations that are missing fall back as on a real device.
    """
    backend = FakeBackend(offers, lacks=lacks)
    register_backend("fake", backend)
    try:
        yield backend
    finally:
        unregister_backend("fake")


def _refuse_sharing(copy: bool | None) -> None:
    if copy is False:
        raise ValueError("fake devices share no memory")


def _inside(value: Any) -> Any:
    """Replace fake arrays by their values, in sequences and indexing keys too."""
    if isinstance(value, FakeArray):
        return value._values
    if isinstance(value, (tuple, list)):
        return type(value)(_inside(item) for item in value)
    return value


def _arrays(value: Any) -> Iterator[FakeArray]:
    if isinstance(value, FakeArray):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _arrays(item)


def _place(name: str, args: tuple[Any, ...], params: dict[str, Any]) -> Device:
    """Return the device on which an operation runs; operands on two are a library's error."""
    places = {array.device for array in _arrays((*args, *params.values()))}
    if "device" in params:
        places.add(params["device"])
    if len(places) != 1:
        raise RuntimeError(f"{name}: operands are on {len(places)} devices, expected one")
    return places.pop()
