"""The operations that one library may run on another's arrays of a GPU, as cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from corepy._dtypes import DTYPES
from corepy._errors import BackendUnavailableError
from corepy.backends._base import Backend, Native
from corepy.devices._capabilities import detect_devices
from corepy.devices._device import Device
from corepy.devices._transfer import from_host, to_host
from corepy.dispatch._admitted_devices import form_of
from corepy.dispatch._crossings import crossing
from corepy.dispatch._operations import OPERATIONS
from corepy.dispatch._registry import load
from corepy.dispatch._route_table import Option, Route, RouteTable
from corepy.dispatch._routers import Call
from corepy.dispatch._routes import Choice
from corepy.dispatch._sites import Site, site_of
from corepy.tuning._cases import Case
from corepy.tuning._check import deviation
from corepy.tuning._clock import Work
from corepy.tuning._names import require_known

_DTYPES: Final = ("float32", "float64", "int64")
#: Elements of the largest operand, a square matrix where it is one. A launch takes a GPU some 10 us
#: whoever asks for it, in which it moves a million of them.
FIRST: Final = 1 << 24
GREATER: Final = (1 << 26,)
SMALLER: Final = (1 << 22, 1 << 20, 1 << 18)
#: Elements that are drawn, for that takes long; greater arrays repeat them.
DRAWN: Final = 1 << 20
#: Operands, results and what is needed meanwhile, of both libraries, by the largest operand.
_ROOM: Final = 8


@dataclass(frozen=True, slots=True)
class DeviceCase:
    """An operation on the arrays that a library has on a GPU; compare `Case`."""

    inner: Case
    backend: Backend
    device: Device
    candidates: tuple[str, ...]

    @property
    def operation(self) -> str:
        """The operation's name."""
        return self.inner.operation

    @property
    def dtype(self) -> str:
        """The name of the dtype of its operands."""
        return self.inner.dtype

    @property
    def form(self) -> str:
        """As tables have it."""
        return form_of(self.backend.name, self.inner.form)

    @property
    def label(self) -> str:
        """How it is called in lists."""
        return f"{self.operation} {self.dtype} {self.form}"

    @property
    def squares(self) -> bool:
        """Whether time grows faster than the number of elements."""
        return self.inner.squares

    def wait(self) -> None:
        """Wait until the GPU has done what it was asked for."""
        self.backend.synchronize(self.device)

    def sizes(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return the first size, the greater and the smaller ones, in elements."""
        item = np.dtype(self.dtype).itemsize * _ROOM
        memory = [gpu.memory for gpu in detect_devices().gpus if gpu.device is self.device]
        free = memory[0].total_bytes if memory else None
        return FIRST, tuple(n for n in GREATER if free is None or n * item <= free), SMALLER

    def operands(
        self, size: int, rng: np.random.Generator
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of native callables, with so many elements at the most."""
        args, params = self.inner.operands(min(size, DRAWN), rng)
        tile = self.backend.operation_on("tile", self.device)
        assert tile is not None  # both libraries have it
        repeats = size // DRAWN
        moved = []
        for host in args:
            native = self._there(host)
            if repeats > 1:
                sides = (math.isqrt(repeats),) * 2 if host.ndim == 2 else (repeats,)
                native = tile(native, sides)
            moved.append(native)
        return tuple(moved), self._params(params)

    @property
    def home(self) -> Call:
        """What others are compared with: the callable of the arrays' own library."""
        native = self._native()
        return lambda args, params: native(*args, **params)

    def work(self, backend: str | None, args: tuple[Any, ...], params: dict[str, Any]) -> Work:
        """Return a call that a backend runs, None being the home."""
        return partial(self.home if backend is None else self._by(backend), args, params)

    def _by(self, name: str) -> Call:
        """Return what a router does on the way to a backend, whatever the size."""
        option = Option(name, gain=math.inf)
        route = Route(self.operation, self.dtype, self.form, 1, math.inf, (option,))
        table = RouteTable({"gpu": "any"}, {}, {}, (route,))
        dtype = DTYPES[self.dtype]
        return Choice(self.operation, self.backend, self.device, dtype, self._native(), table)

    def deviation(self, name: str) -> str | None:
        """Return where a candidate means something else than the home, None if nowhere."""
        dtype = DTYPES[self.dtype]
        there = crossing(self.operation, self.backend, load(name), self.device, dtype)
        return deviation(self.inner, self._brought(self.home), self._brought(there))

    def _native(self) -> Callable[..., Any]:
        native = self.backend.operation_on(self.operation, self.device)
        assert native is not None  # `device_cases` asked
        return native

    def _brought(self, call: Call) -> Call:
        """Return what takes the host's arrays there and brings results back."""

        def brought(args: tuple[Any, ...], params: dict[str, Any]) -> Any:
            moved = tuple(self._there(x) for x in args)
            return to_host(self.backend.normalize(call(moved, self._params(params))), self.backend)

        return brought

    def _there(self, host: Any) -> Native:
        return from_host(np.asarray(host), self.backend, self.device)

    def _params(self, params: dict[str, Any]) -> dict[str, Any]:
        native = self.backend.native_dtype
        return {
            key: native(DTYPES[value.name]) if isinstance(value, np.dtype) else value
            for key, value in params.items()
        }


def libraries_on(device: Device) -> tuple[Site, list[Backend]]:
    """Return the libraries that share the memory of a device, loaded.

    Raises
    ------
    ValueError
        If there are not two of them, saying why.
    """
    site = site_of(device)
    if site is None or site.is_host:
        raise ValueError(f"device is {device}; expected a GPU of CUDA, such as cuda:0")
    found, reasons = [], []
    for name in site.homes:
        try:
            backend = load(name, "tune")
        except BackendUnavailableError as error:
            reasons.append(str(error).removeprefix("tune: "))
            continue
        if device in backend.devices():
            found.append(backend)
        else:
            reasons.append(f"{name} has {', '.join(map(str, backend.devices()))}")
    if len(found) < 2:
        raise ValueError(
            f"device is {device}; expected one on which {' and '.join(site.homes)} compute: "
            f"{'; '.join(reasons)}"
        )
    return site, found


def device_cases(
    site: Site, device: Device, libraries: Iterable[Backend], only: Iterable[str] = ()
) -> Iterator[DeviceCase]:
    """Yield every case that another library may win on a device.

    Raises
    ------
    ValueError
        If `only` names an operation that cannot be routed there.
    """
    wanted, found = frozenset(only), tuple(libraries)
    require_known(wanted, site.admitted, f"is no operation that can be routed on {device}")
    for name, admission in site.admitted.items():
        if wanted and name not in wanted:
            continue
        for dtype in _DTYPES:
            if dtype not in admission.dtypes or DTYPES[dtype] not in OPERATIONS[name].dtypes:
                continue
            able = [each for each in found if each.supports(name, DTYPES[dtype], device)]
            for home in able:
                others = tuple(each.name for each in able if each is not home)
                if others:
                    for form in admission.own_forms:
                        yield DeviceCase(Case(name, dtype, form, ()), home, device, others)
