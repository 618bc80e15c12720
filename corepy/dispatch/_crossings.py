"""Crossings: how a backend runs an operation of another library's arrays in the same memory.

Both ways without a copy. What is made lives as long as the array of either library that refers to
it, in the pool of the one that made it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from corepy._dtypes import DTYPES, DType
from corepy.backends._base import Backend, Native
from corepy.devices._device import CPU, Device
from corepy.dispatch._routers import Call
from corepy.dispatch._sites import HOST


class NotLentError(Exception):
    """An operation is not for another library now: its message says why."""


def bound(name: str, backend: Backend) -> Call:
    """Return what runs an operation of NumPy's arrays in a backend, by lists of arguments.

    Raises
    ------
    LookupError
        If the backend has no such operation.
    """
    function = _function(name, backend, CPU)
    if backend.name in HOST.homes:
        return lambda args, params: function(*args, **params)
    return _HostCrossing(function, backend)


def crossing(name: str, home: Backend, backend: Backend, device: Device, dtype: DType) -> Call:
    """Return what runs an operation of a library's arrays of a dtype in a backend.

    Raises
    ------
    LookupError
        If the backend has no such operation, or does not compute on the device.
    """
    if device is CPU:
        return bound(name, backend)
    if device not in backend.devices() or not backend.supports(name, dtype, device):
        raise LookupError(f"{name}: {backend.name} has it not for {dtype} on {device}")
    return _DeviceCrossing(name, home, backend, device, dtype)


def _function(name: str, backend: Backend, device: Device) -> Callable[..., Any]:
    function = backend.operation_on(name, device)
    if function is None:
        raise LookupError(f"{name}: {backend.name} has no such operation")
    return function


class _HostCrossing:
    """An operation of NumPy's arrays that another library runs on the same memory."""

    def __init__(self, function: Callable[..., Any], backend: Backend) -> None:
        import numpy as np  # which home backends have imported by now

        self.function = function
        self.backend = backend
        self.array, self.scalar, self.dtype = np.ndarray, np.generic, np.dtype

    def __call__(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        there = self._there
        given = {key: there(value) for key, value in params.items()}
        return self._back(self.function(*[there(x) for x in args], **given))

    def _there(self, value: Any) -> Any:
        if value.__class__ is self.array:
            return self.backend.from_numpy(value, CPU, copy=False)
        if isinstance(value, self.scalar):
            return self.backend.scalar(value.item(), DTYPES[value.dtype.name], CPU)
        if isinstance(value, self.dtype):
            return self.backend.native_dtype(DTYPES[value.name])
        return value

    def _back(self, made: Native) -> Any:
        if isinstance(made, (tuple, list)):
            return tuple(map(self._back, made))
        return self.backend.to_numpy(made)


class _DeviceCrossing:
    """An operation of a library's arrays on an accelerator that another one runs there.

    All of it is asked of the stream that is current in the library of the arrays, in order with
    what came before and comes after; so DLPack need not order anything.
    """

    def __init__(
        self, name: str, home: Backend, backend: Backend, device: Device, dtype: DType
    ) -> None:
        own, other = home.streams(device), backend.streams(device)
        counting = home.counting()
        if own is None or other is None or counting is None:
            raise LookupError(f"{name}: {home.name} and {backend.name} share no stream")
        self.function = _function(name, backend, device)
        self.home, self.backend, self.device, self.dtype = home, backend, device, dtype
        self.own, self.other = own, other
        self.array = counting[0]
        able, dtypes = backend.capabilities(device), DTYPES.values()
        self.taken = name in able.scalars_first, name in able.scalars_second
        self.dtypes = {home.native_dtype(d): backend.native_dtype(d) for d in dtypes}

    def __call__(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        address, theirs = self.own.current(), self.other.current()
        # The default stream has two addresses, and is never recorded.
        if address > 1 and self.own.is_capturing():
            raise NotLentError("a graph is recorded")  # whose memory is the library's own
        same = address == theirs or (address <= 1 and theirs <= 1)
        with nullcontext() if same else self.other.using(address):
            operands = [self._there(x, place) for place, x in enumerate(args)]
            given = {key: self.dtypes.get(value, value) for key, value in params.items()}
            made = self.function(*operands, **given)
        return self._shared(self.backend.normalize(made), self.backend, self.home)

    def _there(self, value: Any, place: int) -> Any:
        if value.__class__ is self.array:
            if not self.home.lends(value):
                raise NotLentError(f"{self.home.name} needs it itself")
            return self._shared(value, self.home, self.backend)
        if isinstance(value, (bool, int, float)):
            if self.taken[min(place, 1)]:
                return value
            return self.backend.scalar(value, self.dtype, self.device)
        raise NotLentError(f"an operand is of type {type(value).__name__}")

    def _shared(self, native: Native, source: Backend, target: Backend) -> Native:
        exporter = source.legacy_exporter(source.exporter(native), copy=False)
        return target.borrow(exporter, self.device)
