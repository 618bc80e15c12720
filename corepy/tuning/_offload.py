"""`corepy tune --offload`: what moving and computing cost, for each accelerator of this machine.

The host and the device take turns, so that what the machine does meanwhile meets both. Transfers
are measured there and back, by bytes; operations with their operands in place, by amounts of work,
and the device waited for. A time that is too noisy is taken again for longer, and at last left out.
After each cell the file is replaced in one step, so that an interrupted tuning goes on where it
was. What does not mean on a device what it means here is found first, and never offloaded.
"""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from corepy._dtypes import DTYPES
from corepy.backends._base import Backend
from corepy.devices._device import CPU, Device
from corepy.devices._transfer import from_host
from corepy.dispatch import _fallback, _registry, _routes
from corepy.dispatch import _route_table as files
from corepy.dispatch._offload_costs import Costs, Curve, costs_file, parse
from corepy.dispatch._offload_costs import Device as Measured
from corepy.dispatch._offload_places import version_of
from corepy.dispatch._offload_values import brought_home
from corepy.dispatch._offload_work import MEASURED, WORK, key_of
from corepy.dispatch._settings import PRECISION
from corepy.tuning._cases import NUMPY, Case
from corepy.tuning._check import deviation
from corepy.tuning._clock import Work, take_turns
from corepy.tuning._tune import ATTEMPTS, LONGEST, Progress
from corepy.tuning._usual import as_usual

#: Bytes that are moved, and elements or sides of the operands of operations.
BYTES: Final = (8, 1 << 16, 1 << 20, 1 << 24)
ELEMENTS: Final = (1 << 10, 1 << 14, 1 << 18, 1 << 22)
SIDES: Final = (32, 128, 512, 1024)
#: Spread of a time, as a part of it, above which it is not believed.
NOISY: Final = 0.25
#: Kinds of device that are no accelerators: a cluster has the host's processors.
_NO_ACCELERATORS: Final = ("cpu", "dask")


@dataclass(frozen=True, slots=True)
class Reckoned:
    """What a tuning came to.

    Attributes
    ----------
    costs : Costs
    undecided : tuple of str
        What the machine was too noisy for.
    """

    costs: Costs
    undecided: tuple[str, ...]


def found_accelerators() -> Iterator[tuple[Backend, Device]]:
    """Yield what operations could be offloaded to."""
    for backend in _registry.load_each(_registry.records()):
        for device in backend.devices() if backend.is_available() else ():
            if device.kind not in _NO_ACCELERATORS:
                yield backend, device


@as_usual()
def tune_offload(
    only: Iterable[str] = (),
    *,
    again: bool = False,
    seconds: float = 0.15,
    path: Path | None = None,
    progress: Progress = lambda number, count, label: None,
    notice: Callable[[str], None] = lambda text: None,
) -> Reckoned:
    """Measure the accelerators of this machine, going on where an earlier tuning was interrupted.

    Parameters
    ----------
    only : iterable of str
        Operations to measure; by default all.
    again : bool
        Whether to measure also what is known already.
    seconds : float
        Time for the rounds of a cell.
    path : Path, optional
        The file; by default in the user's cache folder.
    progress : callable
        Is told the number of the case that begins, how many there are, and its name.
    notice : callable
        Is told what the user should know.

    Returns
    -------
    Reckoned
        The costs, and what was too noisy to decide.

    Raises
    ------
    ValueError
        If `only` names an operation that is not measured, or there is no accelerator.
    OSError
        If the file cannot be written.
    """
    wanted = tuple(only) or tuple(MEASURED)
    unknown = [name for name in wanted if name not in MEASURED]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not measured; expected one of {', '.join(MEASURED)}")
    places = list(found_accelerators())
    if not places:
        raise ValueError("no accelerator; expected a backend that serves another device than cpu")
    kept = _Kept(path, notice)
    todo = [(name, dtype) for name in wanted for dtype in MEASURED[name]]
    count = len(places) * (len(todo) + 1)
    for i, (backend, device) in enumerate(places):
        if again:
            kept.forget(backend, device, todo)
        measuring = _Measuring(kept, backend, device, seconds)
        progress(i * (len(todo) + 1), count, f"transfers {device}")
        measuring.transfers()
        for j, (name, dtype) in enumerate(todo):
            progress(i * (len(todo) + 1) + j + 1, count, f"{name} {dtype} {device}")
            measuring.operation(name, dtype)
    progress(count, count, "")
    return Reckoned(kept.costs, tuple(kept.undecided))


class _Kept:
    """The costs so far, in a file that is whole after each cell."""

    def __init__(self, path: Path | None, notice: Callable[[str], None]) -> None:
        machine = files.machine_key()
        self.path = costs_file(machine) if path is None else path
        made = {"command": "corepy tune --offload", "date": datetime.date.today().isoformat()}
        self.costs = Costs(machine, made, {}, ())
        self.undecided: list[str] = []
        try:
            before = parse(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            notice(f"{self.path}: {error}: measuring anew")
            return
        if dict(before.machine) == machine:
            self.costs = replace(before, made=made)
        else:
            notice(f"{self.path} is of another version or machine: measuring anew")

    def device(self, backend: Backend, device: Device) -> Measured:
        """Return what is known of an accelerator as it is now."""
        version = version_of(backend, device)
        found = self.costs.of(backend.name, device.name)
        if found is None or found.version != version:
            return Measured(backend.name, device.name, version)
        return found

    def forget(self, backend: Backend, device: Device, todo: list[tuple[str, str]]) -> None:
        """Let go of what is to be measured again; the host's times are replaced as they come."""
        found = self.device(backend, device)
        keys = {f"{name}/{dtype}" for name, dtype in todo}
        work = {key: curve for key, curve in found.work.items() if key not in keys}
        refused = {key: why for key, why in found.refused.items() if key not in keys}
        found = replace(found, up=None, down=None, work=work, refused=refused)
        self.costs = self.costs.with_device(found)

    def keep(self, device: Measured, host: dict[str, Curve] | None = None) -> None:
        """Keep what was found, on disk too."""
        self.costs = self.costs.with_device(device)
        if host is not None:
            self.costs = replace(self.costs, host={**self.costs.host, **host})
        files.write(self.path, self.costs.dump())


class _Measuring:
    """One accelerator under measurement."""

    def __init__(self, kept: _Kept, backend: Backend, device: Device, seconds: float) -> None:
        self.kept = kept
        self.backend = backend
        self.device = device
        self.seconds = seconds

    def transfers(self) -> None:
        """Measure the way there and back."""
        for size in BYTES:
            known = self.kept.device(self.backend, self.device)
            if known.up is not None and size in dict(known.up.points):
                continue
            host = np.ones(size // 4, np.float32)  # which every device has
            there = self._there(host)
            found = self._times(
                f"transfer {size}",
                {
                    "up": partial(self._sent, host),
                    "down": partial(brought_home, there, self.backend),
                },
            )
            if found is not None:
                up, down = (
                    _added(curve, size, found[name])
                    for name, curve in (("up", known.up), ("down", known.down))
                )
                self.kept.keep(replace(known, up=up, down=down))

    def operation(self, name: str, dtype: str) -> None:
        """Measure an operation at one size after another, unless it means something else there."""
        key = f"{name}/{dtype}"
        if not self.backend.supports(name, DTYPES[dtype], self.device):
            return
        known = self.kept.device(self.backend, self.device)
        if key in known.refused:
            return
        case = Case(name, dtype, "all" if name == "sum" else "", ())
        fast = name.startswith("linalg.") and dtype == "float32"
        with PRECISION.scoped("fast" if fast else "full"), np.errstate(all="ignore"):
            if key not in known.work:
                why = self._deviation(case)
                if why is not None:
                    self.kept.keep(replace(known, refused={**known.refused, key: why}))
                    return
            for side in SIDES if case.is_linear else ELEMENTS:
                if not self._cell(case, key, side * side if case.is_linear else side):
                    break

    def _deviation(self, case: Case) -> str | None:
        native = self._native(case)

        def there(args: tuple[Any, ...], params: dict[str, Any]) -> Any:
            made = native(*map(self._there, args), **self._params(params))
            if isinstance(made, (tuple, list)):
                return tuple(brought_home(x, self.backend) for x in made)
            return brought_home(self.backend.normalize(made), self.backend)

        try:
            return deviation(case, case.home, there)
        except Exception as error:  # whatever a library raises is a reason not to use it
            return f"{type(error).__name__}: {error}"

    def _native(self, case: Case) -> Callable[..., Any]:
        native = self.backend.operation_on(case.operation, self.device)
        assert native is not None  # `supports` says so
        return native

    def _there(self, value: Any) -> Any:
        return from_host(value, self.backend, self.device)

    def _params(self, params: dict[str, Any]) -> dict[str, Any]:
        dtypes = {
            key: self.backend.native_dtype(DTYPES[value.name])
            for key, value in params.items()
            if isinstance(value, np.dtype)
        }
        return {**params, **dtypes}

    def _cell(self, case: Case, key: str, size: int) -> bool:
        """Measure one size; say whether a greater one would not take too long."""
        name, dtype = case.operation, DTYPES[case.dtype]
        args, params = case.operands(size, np.random.default_rng(size))
        load, curve = WORK[name].load(args, params), key_of(name, case.dtype)
        assert load is not None  # what is measured can be offloaded
        assert curve is not None
        amount = load.amount * curve[1]
        known, host = self.kept.device(self.backend, self.device), self.kept.costs.host.get(key)
        there, here = known.work.get(key), host
        if not (_has(there, amount) and _has(here, amount)):
            own = _fallback.resolve(name, NUMPY, CPU, dtype)
            home = _routes.routed(own, name, NUMPY, CPU, dtype)
            native, moved = self._native(case), [self._there(x) for x in args]
            found = self._times(
                f"{case.label} {size}",
                {
                    "host": partial(home, *args, **params),
                    "there": lambda: self._waited(native(*moved, **self._params(params))),
                },
            )
            if found is None:
                return True
            there = _added(there, amount, found["there"])
            here = _added(here, amount, found["host"])
            self.kept.keep(replace(known, work={**known.work, key: there}), {key: here})
        assert there is not None  # by now they have at least this point
        assert here is not None
        growth = 8.0 if case.is_linear else 16.0
        return min(there(amount), here(amount)) * growth <= LONGEST

    def _sent(self, value: Any) -> Any:
        return self._waited(self._there(value))

    def _waited(self, made: Any) -> Any:
        for part in made if isinstance(made, (tuple, list)) else (made,):
            self.backend.computed(part)
        self.backend.synchronize(self.device)
        return made

    def _times(self, label: str, works: dict[str, Work]) -> dict[str, float] | None:
        """Return what each takes, None if the machine is too noisy to tell."""
        for attempt in range(ATTEMPTS):
            times = take_turns(works, self.seconds * 2**attempt)
            middles = {name: statistics.median(taken) for name, taken in times.items()}
            if all(_spread(taken) <= NOISY * middles[name] for name, taken in times.items()):
                return {name: float(f"{middle:.4g}") for name, middle in middles.items()}
        self.kept.undecided.append(f"{label} on {self.backend.name} {self.device}")
        return None


def _spread(times: list[float]) -> float:
    middle = statistics.median(times)
    return 1.4826 * statistics.median(abs(taken - middle) for taken in times)


def _has(curve: Curve | None, amount: float) -> bool:
    return curve is not None and any(math.isclose(amount, known) for known, _ in curve.points)


def _added(curve: Curve | None, amount: float, seconds: float) -> Curve:
    point = Curve(((float(amount), seconds),))
    return point if curve is None else curve.with_point(float(amount), seconds)
