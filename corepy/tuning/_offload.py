"""`corepy tune --offload`: what moving and computing cost, for each accelerator of this machine.

The host and the device take turns, so that what the machine does meanwhile meets both. Transfers
are measured there and back, by bytes; operations with their operands in place, by amounts of work,
and the device waited for. A time that is too noisy is taken again for longer, and at last left out.
After each cell the file is replaced in one step, so that an interrupted tuning goes on where it
was, and two at once keep what both find. What does not mean on a device what it means here is found
first, and never offloaded.
"""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from corepy._dtypes import DTYPES
from corepy._signals import let_through, suppressed
from corepy.backends._base import Backend
from corepy.devices._device import CPU, Device
from corepy.devices._transfer import from_host
from corepy.dispatch import _fallback, _machine, _registry, _routes
from corepy.dispatch import _route_files as files
from corepy.dispatch._offload_costs import Costs, Curve, costs_file, parse
from corepy.dispatch._offload_costs import Device as Measured
from corepy.dispatch._offload_places import version_of
from corepy.dispatch._offload_values import brought_home
from corepy.dispatch._offload_work import MEASURED, WORK, key_of
from corepy.dispatch._settings import PRECISION
from corepy.tuning._cases import NUMPY, Case
from corepy.tuning._check import deviation, refusal
from corepy.tuning._clock import Renewed, Work, take_turns
from corepy.tuning._names import require_known
from corepy.tuning._tune import ATTEMPTS, LONGEST, Progress
from corepy.tuning._usual import as_usual

#: Bytes that are moved, and elements or sides of the operands of operations.
BYTES: Final = (8, 1 << 16, 1 << 20, 1 << 24)
ELEMENTS: Final = (1 << 10, 1 << 14, 1 << 18, 1 << 22)
SIDES: Final = (32, 128, 512, 1024)
#: Spread of a time, as a part of it, above which it is not believed.
NOISY: Final = 0.25
T = TypeVar("T")

#: Kinds of device that are no accelerators: a cluster has the host's processors.
_NO_ACCELERATORS: Final = ("cpu", "dask")


@dataclass(frozen=True, slots=True)
class Reckoned:
    """What a tuning came to.

    Attributes
    ----------
    costs : Costs
        Of the accelerators that are here now.
    undecided : tuple of str
        What the machine was too noisy for.
    """

    costs: Costs
    undecided: tuple[str, ...]


def found_accelerators() -> Iterator[tuple[Backend, Device]]:
    """Yield what operations could be offloaded to."""
    for backend in _registry.each_usable(_registry.records()):
        for device in backend.devices():
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
    require_known(wanted, MEASURED, "is not measured")
    places = list(found_accelerators())
    if not places:
        raise ValueError("no accelerator; expected a backend that serves another device than cpu")
    kept = _Kept(path, notice)
    todo = [(name, dtype) for name in wanted for dtype in MEASURED[name]]
    count = len(places) * (len(todo) + 1)
    for i, (backend, device) in enumerate(places):
        measuring = _Measuring(kept, backend, device, seconds, again=again)
        progress(i * (len(todo) + 1), count, f"transfers {device}")
        measuring.transfers()
        for j, (name, dtype) in enumerate(todo):
            progress(i * (len(todo) + 1) + j + 1, count, f"{name} {dtype} {device}")
            measuring.operation(name, dtype)
    progress(count, count, "")
    known = (kept.costs.of(b.name, device.name, version_of(b, device)) for b, device in places)
    now = tuple(each for each in known if each is not None)
    return Reckoned(replace(kept.costs, devices=now), tuple(kept.undecided))


#: What a measurement changes: an accelerator as it was known, and then as it is.
Finding: TypeAlias = Callable[[Measured], Measured]


class _Kept:
    """The costs so far, in a file that is whole after each cell."""

    def __init__(self, path: Path | None, notice: Callable[[str], None]) -> None:
        self.machine = _machine.machine_key()
        self.path = costs_file(self.machine) if path is None else path
        self.made = {
            "command": "corepy tune --offload",
            "date": datetime.date.today().isoformat(),
            "environment": _machine.environment(),
        }
        self.costs = Costs(self.machine, self.made, {}, ())
        self.undecided: list[str] = []
        self._findings: list[Callable[[Costs], Costs]] = []
        try:
            self._read()
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            let_through(error)
            notice(f"{error}: measuring anew")

    def _read(self) -> None:
        """Take up what the file holds."""
        if self.path.exists() and not self.path.is_file():
            return  # a pipe or a device, which is written to alone
        try:
            found = parse(self.path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None
        if dict(found.machine) != self.machine:
            raise ValueError(f"{self.path} is of another version or machine")
        self.costs = replace(found, made=self.made)

    def device(self, backend: Backend, device: Device) -> Measured:
        """Return what is known of an accelerator as it is now."""
        return _known(self.costs, backend, device)

    def keep(
        self,
        backend: Backend,
        device: Device,
        finding: Finding,
        host: tuple[str, float, float] | None = None,
    ) -> None:
        """Keep what was found, on disk too, beside what another tuning has kept meanwhile.

        `host` is the key, the amount and the seconds of an operation on the host.
        """

        def found(costs: Costs) -> Costs:
            costs = costs.with_device(finding(_known(costs, backend, device)))
            if host is None:
                return costs
            key, amount, seconds = host
            curve = _added(costs.host.get(key), amount, seconds)
            return replace(costs, host={**costs.host, key: curve})

        self._findings.append(found)
        with suppressed(OSError, ValueError):  # then what is known here is all that there is
            self._read()
        # All of them: the other one may have replaced the file without the last.
        for each in self._findings:
            self.costs = each(self.costs)
        files.write(self.path, self.costs.dump())


def _known(costs: Costs, backend: Backend, device: Device) -> Measured:
    version = version_of(backend, device)
    found = costs.of(backend.name, device.name, version)
    return Measured(backend.name, device.name, version) if found is None else found


class _Measuring:
    """One accelerator under measurement."""

    def __init__(
        self, kept: _Kept, backend: Backend, device: Device, seconds: float, *, again: bool
    ) -> None:
        self.kept = kept
        self.backend = backend
        self.device = device
        self.seconds = seconds
        self.again = again

    def transfers(self) -> None:
        """Measure the way there and back."""
        for size in BYTES:
            known = self.kept.device(self.backend, self.device)
            if not self.again and _has(known.up, size):
                continue
            host = np.ones(size // 4, np.float32)  # which every device has
            sent = partial(self._sent, host)
            # Each array once: JAX keeps what it has brought, and would not bring it again.
            home = Renewed(partial(brought_home, backend=self.backend), sent)
            found = self._times(f"transfer {size}", {"up": sent, "down": home})
            if found is not None:
                self.kept.keep(self.backend, self.device, partial(_moved, size, found))

    def operation(self, name: str, dtype: str) -> None:
        """Measure an operation at one size after another, unless it means something else there."""
        key = f"{name}/{dtype}"
        if not self.backend.supports(name, DTYPES[dtype], self.device):
            return
        known = self.kept.device(self.backend, self.device)
        if key in known.refused and not self.again:
            return
        case = Case(name, dtype, "all" if name == "sum" else "", ())
        fast = name.startswith("linalg.") and dtype == "float32"
        with PRECISION.scoped("fast" if fast else "full"), np.errstate(all="ignore"):
            if key not in known.work or self.again:
                why = refusal(partial(self._deviation, case))
                if why is not None:
                    self.kept.keep(self.backend, self.device, partial(_refused, key, why))
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

        return deviation(case, case.home, there)

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
        there, here = self._curves(key)
        if self.again or not (_has(there, amount) and _has(here, amount)):
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
            worked = partial(_worked, key, amount, found["there"])
            self.kept.keep(self.backend, self.device, worked, (key, amount, found["host"]))
            there, here = self._curves(key)
        assert there is not None  # by now they have at least this point
        assert here is not None
        growth = 8.0 if case.is_linear else 16.0
        return min(there(amount), here(amount)) * growth <= LONGEST

    def _curves(self, key: str) -> tuple[Curve | None, Curve | None]:
        """Return what is known of an operation there and here."""
        known = self.kept.device(self.backend, self.device)
        return known.work.get(key), self.kept.costs.host.get(key)

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


def _moved(size: int, seconds: Mapping[str, float], known: Measured) -> Measured:
    up, down = _added(known.up, size, seconds["up"]), _added(known.down, size, seconds["down"])
    return replace(known, up=up, down=down)


def _worked(key: str, amount: float, seconds: float, known: Measured) -> Measured:
    work = {**known.work, key: _added(known.work.get(key), amount, seconds)}
    return replace(known, work=work, refused=_without(key, known.refused))


def _refused(key: str, why: str, known: Measured) -> Measured:
    refused = {**known.refused, key: why}
    return replace(known, work=_without(key, known.work), refused=refused)


def _without(key: str, known: Mapping[str, T]) -> dict[str, T]:
    return {other: value for other, value in known.items() if other != key}


def _has(curve: Curve | None, amount: float) -> bool:
    return curve is not None and any(math.isclose(amount, known) for known, _ in curve.points)


def _added(curve: Curve | None, amount: float, seconds: float) -> Curve:
    point = Curve(((float(amount), seconds),))
    return point if curve is None else curve.with_point(float(amount), seconds)
