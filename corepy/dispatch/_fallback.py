"""Where an operation runs when its array's own backend does not offer it.

First in another backend on the same device, which shares the memory; only then across to the host
and back, under the policy that `set_fallback` chose.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

from corepy._dtypes import DTYPES, DType
from corepy._errors import (
    FallbackError,
    FallbackWarning,
    UnsupportedOperationError,
    listing,
)
from corepy.backends._base import Backend, LeftToOthersError, Native
from corepy.devices._device import CPU, Device
from corepy.devices._transfer import convert, nbytes
from corepy.dispatch import _autocast, _explain, _registry
from corepy.dispatch._settings import FALLBACK

#: Operators that write into their first operand, by the one that makes a new array. A library
#: without the first computes with the second, and the `Array` takes the new native array.
INPLACE: Final = {
    "__iadd__": "add",
    "__isub__": "subtract",
    "__imul__": "multiply",
    "__itruediv__": "divide",
    "__ifloordiv__": "floor_divide",
    "__imod__": "remainder",
    "__ipow__": "pow",
    "__iand__": "bitwise_and",
    "__ior__": "bitwise_or",
    "__ixor__": "bitwise_xor",
    "__ilshift__": "bitwise_left_shift",
    "__irshift__": "bitwise_right_shift",
}

#: Why an operation runs elsewhere, for messages; `_lacking` says more of the first.
_OFFERS_NOT: Final = "does not offer it"
_LACKS_MEMORY: Final = "lacks the memory for it"

_warned: Final[set[tuple[str, str]]] = set()


def place(name: str, backend: Backend, device: Device, dtype: DType) -> tuple[Backend, Device]:
    """Return the backend that runs an operation on arrays of one backend, and on which device.

    Raises
    ------
    UnsupportedOperationError
        If no usable backend offers it for this dtype.
    """
    if _offered(name, backend, device, dtype) is not None:
        return backend, device
    return _other(name, backend, device, dtype)


def resolve(name: str, backend: Backend, device: Device, dtype: DType) -> Callable[..., Any]:
    """Return the native callable for an operation on arrays of one backend; errors as `place`."""
    native = _offered(name, backend, device, dtype)
    if native is not None:
        return _partly(native, name, backend, device, dtype) if name in backend.partly else native
    return _elsewhere(name, backend, device, dtype)


def _elsewhere(name: str, backend: Backend, device: Device, dtype: DType) -> Elsewhere:
    other, there = _other(name, backend, device, dtype)
    return Elsewhere(name, backend, device, other, there, _lacking(name, backend, device, dtype))


def _lacking(name: str, backend: Backend, device: Device, dtype: DType) -> str:
    """Say what a backend lacks of an operation that another one runs for it."""
    if _offered(name, backend, device, dtype) is not None:  # see `Backend.partly`
        return f"{_OFFERS_NOT} for these arguments"
    if any(_offered(name, backend, device, other) is not None for other in DTYPES.values()):
        return f"{_OFFERS_NOT} for this dtype"
    return _OFFERS_NOT


def _partly(
    native: Callable[..., Any], name: str, backend: Backend, device: Device, dtype: DType
) -> Callable[..., Any]:
    """Return a callable that runs elsewhere what a backend's own leaves to others."""

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return native(*args, **kwargs)
        except LeftToOthersError:
            pass
        return _elsewhere(name, backend, device, dtype)(*args, **kwargs)

    return run


def _other(name: str, backend: Backend, device: Device, dtype: DType) -> tuple[Backend, Device]:
    tried = [backend.name]
    for other, there in _candidates(backend, device):
        tried.append(other.name)
        if other.supports(INPLACE.get(name, name), dtype, there):
            return other, there
    raise UnsupportedOperationError(
        f"{name.rpartition('.')[2]}: no backend offers it for {dtype} on {device}; "
        f"tried {listing(tried)}"
    )


def _offered(
    name: str, backend: Backend, device: Device, dtype: DType
) -> Callable[..., Any] | None:
    """Return a backend's own callable, the one that makes a new array where it writes into none."""
    for offered in (name, INPLACE.get(name)):
        if offered is not None and backend.supports(offered, dtype, device):
            native = backend.operation_on(offered, device)
            if native is not None:
                return native
    return None


def _candidates(backend: Backend, device: Device) -> Iterator[tuple[Backend, Device]]:
    """Yield other backends: those on the device itself, then those on the host."""
    for place in dict.fromkeys((device, CPU)):
        for other in _registry.load_each(_registry.records()):
            if other is backend or place not in other.devices():
                continue
            if _registry.why_unusable(other) is None:
                yield other, place


def on_host(name: str, backend: Backend, device: Device, dtype: DType) -> Callable[..., Any] | None:
    """Return what runs an operation on the host where a device lacks the memory for it.

    None if no backend offers it there.
    """
    for other, there in _candidates(backend, CPU):
        if other.supports(INPLACE.get(name, name), dtype, there):
            # Rounded there as well: the device has no memory for that either.
            native = Elsewhere(name, backend, device, other, there, _LACKS_MEMORY, rounding=dtype)
            return (
                _explain.traced(native, name, backend, device) if _explain.listening() else native
            )
    return None


def each(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to a value, or to each that a tuple or list of them holds.

    A function that called itself for those would hold itself, and with it the operands, until
    Python's collector runs.
    """
    if isinstance(value, (tuple, list)):
        made = [each(function, item) for item in value]
        return made if isinstance(value, list) else tuple(made)
    return function(value)


class Elsewhere:
    """A native callable of one backend that another one executes.

    `why` says why, for messages. What an in-place operator makes is written into its first operand
    where that backend writes in place, for arrays that share its memory: views see it. Where
    operands come as they are, and not as `corepy.autocast` would have them, `rounding` is their
    dtype.
    """

    def __init__(
        self,
        name: str,
        home: Backend,
        home_device: Device,
        backend: Backend,
        device: Device,
        why: str = _OFFERS_NOT,
        rounding: DType | None = None,
    ) -> None:
        self.name = INPLACE.get(name, name)
        self.why = why
        self.home = home
        self.home_device = home_device
        self.backend = backend
        self.device = device
        self.rounding = rounding
        self.write: Callable[..., Native] | None = None
        if name in INPLACE and home.operation_on(name, home_device) is not None:
            self.write = home.operation_on("__setitem__", home_device)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        crossing = self.device is not self.home_device
        moved = 0
        arrived: dict[int, Native] = {}  # what is both operands goes once
        given, permitted = (args, kwargs), crossing

        def by_host() -> None:
            nonlocal permitted
            if not permitted:
                permitted = True
                self._permit(*given)

        def there(value: Any) -> Any:
            nonlocal moved
            if self.home.owns(value):
                if id(value) not in arrived:
                    native, copied = convert(
                        value, self.home, self.backend, self.device, by_host=by_host
                    )
                    moved += nbytes(native, self.backend) if crossing or copied else 0
                    arrived[id(value)] = native
                return arrived[id(value)]
            return value

        def back(value: Any) -> Native:
            nonlocal moved
            if self.backend.owns(value):
                value = self.backend.normalize(value)  # NumPy's 0-D results are scalars
                native, copied = convert(
                    value, self.backend, self.home, self.home_device, by_host=by_host
                )
                moved += nbytes(native, self.home) if crossing or copied else 0
                return native
            return value

        if crossing:
            self._permit(args, kwargs)
        if "dtype" in kwargs:
            kwargs["dtype"] = self._translate(kwargs["dtype"])
        if "device" in kwargs:
            kwargs["device"] = self.device
        if self.name == "astype":
            args = (args[0], self._translate(args[1]))
        function = self.backend.operation_on(self.name, self.device)
        if function is None:
            raise UnsupportedOperationError(
                f"{self.name}: backend {self.backend.name} has no such operation on {self.device}; "
                f"expected the one that it says it supports"
            )
        if self.rounding is not None:
            function = _autocast.applied(function, self.name, self.backend, self.rounding)
        moving = {key: each(there, value) for key, value in kwargs.items()}
        result = each(back, function(*(each(there, arg) for arg in args), **moving))
        if self.write is not None:
            result = self.write(args[0], ..., result)
        _explain.note(f"{self.home.name} {self.why}", moved)
        return result

    def _translate(self, native_dtype: Any) -> Any:
        for dtype in DTYPES.values():
            if self.home.native_dtype(dtype) == native_dtype:
                return self.backend.native_dtype(dtype)
        return native_dtype

    def _arrays(self, values: Any) -> Iterator[Native]:
        for value in values:
            if self.home.owns(value):
                yield value
            elif isinstance(value, (tuple, list)):
                yield from self._arrays(value)

    def _permit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        policy = FALLBACK.get()
        if policy == "allow":
            return
        shares = "" if self.device is not self.home_device else ", whose memory it does not share,"
        where = " the host" if shares else ""
        arrays = {id(x): x for x in self._arrays((*args, *kwargs.values()))}
        size = sum(nbytes(x, self.home) for x in arrays.values())
        what = f"{size} bytes cross{where}, besides the result"
        if not arrays:
            what = f"the result crosses{where}"
        message = (
            f"{self.name}: {self.home.name} on {self.home_device} {self.why}; "
            f"{self.backend.name} on {self.device} runs it{shares} and {what}"
        )
        if policy == "raise":
            raise FallbackError(f'{message}, which fallback="raise" forbids')
        site = _explain.caller()
        if (self.name, site) not in _warned:
            warnings.warn(message, FallbackWarning, stacklevel=_explain.depth() + 1)
            _warned.add((self.name, site))  # unless a filter makes it an error, each time then
