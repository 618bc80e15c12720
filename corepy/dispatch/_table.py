"""Flat tables of native callables, one for each (backend, device, dtype), filled on first use.

An `Array` holds its native array and its table; two arrays with the same table share backend,
device and dtype, and one identity check says so. ``table["add"]`` is a pair: the native callable,
and the table of the result where the operation fixes it (None where the native result tells).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from corepy import _forks
from corepy._dtypes import DTYPES, SINGLE, DType, describe, float64, int64, real_of
from corepy._errors import UnsupportedOperationError, wrong_dtype
from corepy.backends._base import Backend
from corepy.devices._device import Device
from corepy.devices._pool import recycling
from corepy.dispatch import (
    _autocast,
    _explain,
    _fallback,
    _helped,  # noqa: F401  # which tells the hot path
    _offload,
    _offload_places,
    _route_sources,
    _routes,
)
from corepy.dispatch._hot import Slots, home
from corepy.dispatch._operations import OPERATIONS, Operation
from corepy.dispatch._reproducible import REPRODUCIBLE
from corepy.dispatch._settings import AUTOCAST, STRICT

Entry: TypeAlias = "tuple[Callable[..., Any], Table | None]"


#: Operations for which recycled memory is nothing: they give views, or zeros, which new memory
#: holds already.
_NEW: Final = (
    *("__setitem__", "broadcast_to", "expand_dims", "imag", "matrix_transpose", "moveaxis"),
    *("permute_dims", "real", "squeeze", "zeros"),
)


class Table(Slots):
    """The operations of one backend on one device for one dtype.

    Attributes
    ----------
    backend : Backend
    device : Device
    dtype : DType
    dtypes : frozenset of DType
        All that the backend has on the device.
    native_dtype : object
        The library's own object for the dtype.
    short : dict
        What the hot path in Python knows of operations on NumPy's arrays: by name, the callable for
        few elements, how many are no longer few, and the table of the result, or None where nothing
        is to be known; and what its short ways learned of calls. A new one takes its place when the
        entries are forgotten, so that nobody who is about to put something in brings back what was.
    calls : dict
        The same of operations that call the library at once for arrays of any size: `short` on
        NumPy's arrays; else another one, which only fills where the backend `repeats`, in the
        compiled form too. What selects by keys has no such table, but may have a quicker callable
        for an int or a slice alone.
    repeats : bool
        The backend's.
    normalize : callable
        The backend's.
    scalars_first, scalars_second : frozenset of str
        Operations that take Python scalars as they are, of those in `Capabilities`.
    of_float, of_int : callable or None
        What makes a scalar of NumPy's from a Python float that the dtype surely holds, and from an
        int of at most 53 bits.
    of_few : callable or None
        What takes the place of `of_float` beside few elements: NumPy computes with an array of no
        dimensions in two thirds of the time.
    """

    __slots__ = ("normalize", "of_few", "of_float", "of_int", "short")

    def __init__(self, backend: Backend, device: Device, dtype: DType) -> None:
        super().__init__()
        self.backend = backend
        self.device = device
        self.dtype = dtype
        able = backend.capabilities(device)
        self.dtypes = able.dtypes
        self.normalize = backend.normalize
        self.repeats = backend.repeats
        self.scalars_first = self._own(able.scalars_first)
        self.scalars_second = self._own(able.scalars_second)
        self.native_dtype = backend.native_dtype(dtype)
        self.siblings = {}
        self._forget_calls()
        number = self.native_dtype.type if backend.loop("add") is not None else None
        self.of_float = number if dtype is float64 else None
        self.of_few: Any = _zero_dimensional() if self.of_float is not None else None
        self.of_int = number if dtype is float64 or dtype is int64 else None

    def clear(self) -> None:
        """Forget every entry."""
        self._forget_calls()
        super().clear()

    def _forget_calls(self) -> None:
        self.short: dict[Any, Any] = {}
        self.calls = self.short if self.backend.loop("add") is not None else {}

    def _own(self, names: frozenset[str]) -> frozenset[str]:
        """Return the operations among some that take Python scalars: not those run elsewhere."""
        if self.dtype.rank == 3:
            return frozenset()
        supports = self.backend.supports
        return frozenset(name for name in names if supports(name, self.dtype, self.device))

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __missing__(self, name: str) -> Entry:
        operation = OPERATIONS[name]
        if self.dtype in operation.widened:
            return self._widened(operation)
        if self.dtype not in operation.dtypes:
            raise self._refusal(operation)
        place = name, self.backend, self.device, self.dtype
        result = None
        if operation.result is not None:
            fixed = operation.result(self.dtype)
            if fixed in self.dtypes:  # else the native result tells what stands in for it
                result = table_of(self.backend, self.device, fixed)
        while True:
            forgotten = _forgotten  # before any setting is looked at
            if self.backend.home is not None:
                native = _offload.entry(*place)
            else:
                native = _fallback.resolve(*place)
                native = self._routed(native, name, result)
                native = _autocast.applied(native, name, self.backend, self.dtype)
            with _LOCK:
                # Else what was found before another thread changed a setting would stay.
                if forgotten == _forgotten:
                    return self._stored(native, name, result)

    def _stored(self, native: Callable[..., Any], name: str, result: Table | None) -> Entry:
        """Store an entry, under the lock, and return it."""
        place = name, self.backend, self.device, self.dtype
        if _explain.listening():
            # Not stored: the tables fill with plain callables again once nobody listens.
            native = _offload.gated(native, *place)
            return _explain.traced(native, name, self.backend, self.device), result
        own = not isinstance(native, _fallback.Elsewhere)
        if own and self.backend.recycles and name not in _NEW:
            native = recycling(native)
        native = _offload.gated(native, *place)
        entry = self[name] = (native, result)
        self.settle(name, native, result, self.backend.loop(name) if own else None)
        if own and self.repeats:
            self.calls[name] = native, None, getattr(native, "plain", result)
        return entry

    def _routed(
        self, native: Callable[..., Any], name: str, result: Table | None
    ) -> Callable[..., Any]:
        """Return the router of a native callable, or the callable itself."""
        elsewhere = isinstance(native, _fallback.Elsewhere)
        loop = None if elsewhere else self.backend.loop(name)
        at_home = partial(home, self, name, native, result, loop)
        if _explain.listening():  # else the short way comes before the entry
            native = at_home()
        return _routes.routed(native, name, self.backend, self.device, self.dtype, at_home)

    def _refusal(self, operation: Operation) -> TypeError:
        expected = describe(operation.dtypes)
        return wrong_dtype(operation.label, operation.argument, self.dtype, self.device, expected)

    def _widened(self, operation: Operation) -> Entry:
        """Return an entry that converts its operands to the default floating-point dtype first."""
        wide = self.sibling(self.narrowed(float64))

        def native(*operands: Any) -> Any:
            if STRICT.touched and STRICT.get():
                raise self._refusal(operation)
            cast = self["astype"][0]
            return wide[operation.name][0](
                # A scalar, where the library takes it as it is, is one of Python's.
                *(
                    float(x) if isinstance(x, int) else cast(x, wide.native_dtype, copy=False)
                    for x in operands
                )
            )

        entry = self[operation.name] = (native, wide[operation.name][1])
        self.short[operation.name] = None
        return entry

    def sibling(self, dtype: DType, function: str = "dtype") -> Table:
        """Return the table of another dtype on the same backend and device.

        Raises
        ------
        UnsupportedOperationError
            If the backend lacks the dtype there; `function` is what the message names.
        """
        found: Table | None = self.siblings.get(dtype)
        if found is None:
            if dtype not in self.dtypes:
                names = (name for name, other in DTYPES.items() if other in self.dtypes)
                raise UnsupportedOperationError(
                    f"{function.rpartition('.')[2]}: the dtype would be {dtype}, which "
                    f"{self.backend.name} lacks on {self.device}; expected one of "
                    f"{', '.join(names)}"
                )
            found = self.siblings[dtype] = table_of(self.backend, self.device, dtype)
        return found

    def narrowed(self, dtype: DType) -> DType:
        """Return a default dtype, or the one of single precision where the device lacks it."""
        if dtype is self.dtype and dtype.rank < 3:  # of which there is an array already
            return dtype
        held = self.backend.capabilities(self.device).held
        return preferred(dtype, self.dtypes, frozenset() if self.dtype in held else held)

    def __repr__(self) -> str:
        return f"Table({self.backend.name}, {self.device}, {self.dtype})"

    def __reduce__(self) -> Any:
        raise TypeError("Table: tables belong to this process; pickle the Array instead")


def _zero_dimensional() -> Callable[[float], Any]:
    from numpy import asarray  # which a backend has loaded by now

    return asarray


def preferred(dtype: DType, there: frozenset[DType], held: frozenset[DType]) -> DType:
    """Return a default dtype, or the one of single precision where a device does better with it.

    Parameters
    ----------
    dtype : DType
    there : frozenset of DType
        The dtypes that the device has.
    held : frozenset of DType
        Those of them that it does not compute with.
    """
    single = SINGLE.get(dtype, dtype)
    # Of complex dtypes that a device only holds, the one of its default floating-point dtype.
    if real_of(dtype) in there - held or single not in there:
        return dtype if dtype in there else single
    return single


_LOCK: Final = _forks.lock()
_tables: Final[dict[tuple[Backend, Device, DType], Table]] = {}
#: How often entries were forgotten.
_forgotten = 0


def table_of(backend: Backend, device: Device, dtype: DType) -> Table:
    """Return the one table of a backend, device and dtype."""
    found = _tables.get((backend, device, dtype))
    if found is None:
        with _LOCK:
            found = _tables.get((backend, device, dtype))
            if found is None:
                found = _tables[backend, device, dtype] = Table(backend, device, dtype)
    return found


def forget_entries() -> None:
    """Empty every table, so that the next use of each operation resolves it anew."""
    global _forgotten
    with _LOCK:
        _forgotten += 1
        for table in _tables.values():
            table.clear()


for _setting in (AUTOCAST, REPRODUCIBLE):  # entries ask for them from the first time on
    _setting.preparations.append(forget_entries)
_explain.on_change(forget_entries, _LOCK)
_route_sources.on_change(forget_entries)
_offload_places.on_change(forget_entries)
