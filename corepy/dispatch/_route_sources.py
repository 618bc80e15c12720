"""Which table of routes is in force: the shipped one, this machine's own, a file, or none."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from corepy import _forks
from corepy._errors import (
    BackendUnavailableError,
    RouteWarning,
    bad_argument,
    bad_type,
    listing,
)
from corepy._signals import let_through
from corepy.devices._capabilities import detect_devices
from corepy.devices._device import CPU, KINDS, Device, as_device
from corepy.dispatch import _explain, _machine, _registry
from corepy.dispatch import _route_files as files
from corepy.dispatch._admitted import DTYPE_NAMES
from corepy.dispatch._admitted_devices import home_of
from corepy.dispatch._route_gpus import gpu_name, key_of
from corepy.dispatch._route_table import OTHERS, Option, Route, RouteTable, common, parse
from corepy.dispatch._sites import SITES, Site, site_of
from corepy.dispatch._threads import get_num_threads

ENVIRONMENT: Final = "COREPY_ROUTES"
#: A private setting for the tests: the backend that runs all that it is admitted for, from one
#: element.
FORCED: Final = "COREPY_ROUTES_FORCED"
#: The gain from which a route that was measured on a machine of another kind is believed.
ELSEWHERE: Final = 1.5

_refill: Callable[[], None]


def on_change(refill: Callable[[], None]) -> None:
    """Let the tables say how to empty them once other routes are in force."""
    global _refill
    _refill = refill


@dataclass(frozen=True, slots=True, eq=False)
class InForce:
    """A table, and where it is from; equal to itself alone, for what is chosen by it is kept by it.

    Attributes
    ----------
    table : RouteTable or None
        None if routes are off.
    origin : str
        Where it is from, in words.
    notice : str or None
        What the user should know of another one that is not used.
    aside : str or None
        The same where nothing is wrong with that, for who asks which routes there are.
    """

    table: RouteTable | None
    origin: str
    notice: str | None = None
    aside: str | None = None


_LOCK: Final = _forks.lock()
_source: str | None = None
#: The table of the file that `_source` names: it is read once, for files move, and so do programs.
_table: RouteTable | None = None
_found: dict[Device, InForce] = {}
#: All three.
_Choice: TypeAlias = "tuple[str | None, RouteTable | None, dict[Device, InForce]]"


def in_force(device: Device = CPU) -> InForce:
    """Return the table of routes in force on a device.

    Raises
    ------
    ValueError
        If ``COREPY_ROUTES`` names a file that cannot be used.
    """
    found = _found.get(device)
    if found is None:
        with _LOCK:
            found = _found.get(device)
            if found is None:
                wish = _source
                if wish is None:
                    wish = os.environ.get(ENVIRONMENT, "").strip()
                found = _found[device] = _find(wish, _table, device)
                if found.notice is not None:
                    warnings.warn(found.notice, RouteWarning, stacklevel=_explain.depth() + 1)
    return found


_OFF: Final = InForce(None, "routes are off")


def _find(wish: str, table: RouteTable | None, device: Device) -> InForce:
    """Return the table that somebody wishes for, who may have read the file already."""
    site = site_of(device)
    if site is None:
        return InForce(None, f"there are no routes on {device}")
    forced = os.environ.get(FORCED)
    if wish == "off":
        return _OFF
    if forced and _is_candidate(forced, site):
        return InForce(everything(forced, site), FORCED)
    if wish and wish != "shipped":
        table = read(Path(wish), ENVIRONMENT, _EXPECTED) if table is None else table
        if table.site is site:
            return InForce(table, f"the file {wish}")
        wish = ""  # it is of the host, and this a GPU, or the other way round
    gpu = None
    if device is not CPU:
        gpu = gpu_name(device)
        if gpu is None:
            return InForce(None, f"no routes were measured on {device}")
    aside = None
    if not wish:
        try:
            measured, told = cached(gpu)
        except ValueError as error:
            return InForce(shipped(gpu), _SHIPPED, f"{error}; the routes that ship are used")
        if measured is not None:
            return InForce(measured, told)
        aside = told or None
    ours = shipped(gpu)
    if ours is None:
        name = "" if gpu is None else f" for {gpu}"
        found = f"no routes were measured on {device}, and none ship{name}"
        return InForce(None, found, aside=aside)
    return InForce(ours, _SHIPPED, aside=aside)


def _is_candidate(forced: str, site: Site) -> bool:
    """Say whether a backend that is to run everything may run anything at a site."""
    able = {name for each in SITES.values() for name in each.candidates}
    if forced not in able:
        raise bad_argument("corepy", FORCED, forced, f"one of {', '.join(sorted(able))}")
    return forced in site.candidates


_SHIPPED: Final = "the table that ships with corepy"
#: What somebody may wish for.
_EXPECTED: Final = '"off", "shipped" or the path of a table'


def read(path: Path, argument: str, expected: str = "") -> RouteTable:
    """Return the table in a file.

    Raises
    ------
    ValueError
        If there is none, or it is not whole. The message names the argument, and where there is no
        such file what was expected of it.
    """
    try:
        return parse(files.text_of(path))
    except OSError as error:
        let_through(error)
        more = f"; expected {expected}" if expected else ""
        raise ValueError(f"{argument}: {path}: {error.strerror or error}{more}") from None
    except ValueError as error:
        let_through(error)
        raise ValueError(f"{argument}: {path} holds no table of routes: {error}") from None


def cached(gpu: str | None = None) -> tuple[RouteTable | None, str]:
    """Return the table that was frozen, or measured on this machine as it is now, and which.

    Without one, what was measured for other environments, in words; nothing if nothing was.

    Parameters
    ----------
    gpu : str, optional
        The name of the GPU that it is to be of; by default it is the host's.

    Raises
    ------
    ValueError
        If there is one that does not fit, or none can be looked for, saying why.
    """
    try:
        if not files.has_files():
            return None, ""  # before the key is asked for, which reads the libraries' metadata
        frozen = files.frozen_file(gpu)
        if frozen.is_file():
            return read(frozen, "corepy"), f"frozen in {frozen}"
        return measured(gpu)
    except OSError as error:  # another user's folder, perhaps
        let_through(error)
        raise ValueError(f"corepy: the cache folder cannot be read ({error})") from None


def measured(gpu: str | None = None) -> tuple[RouteTable | None, str]:
    """Return the table that was measured on this machine as it is now, and where it is.

    Or that was imported for it. Without one, as `cached`.

    Raises
    ------
    OSError, ValueError
        As `cached`.
    """
    key = key_of(gpu)
    for path in _files_for(key):
        if path.is_file():
            table = read(path, "corepy")
            # Its name says how many threads it is taken for.
            found = _machine.differences(table.key, {**key, "threads": table.key.get("threads")})
            if found:
                raise ValueError(f"corepy: {path} was measured elsewhere: {'; '.join(found)}")
            if table.is_imported:
                return table, f"imported; measured on {table.where}, in {path}"
            return table, f"measured on this machine, in {path}"
    return None, _of_other_keys(gpu, key)


def _of_other_keys(gpu: str | None, key: dict[str, Any]) -> str:
    """Say what tables there are of other environments; "" if none.

    Each environment has libraries of its own, so that one more of them is no fault of a table's.

    Raises
    ------
    ValueError
        If there is a table of this environment, which has changed since.
    """
    told = ""
    for path in files.others(gpu):
        try:
            table = read(path, "corepy")
        except ValueError:
            continue  # damaged, and nobody's here
        found = "; ".join(_machine.differences(table.key, key))
        if table.is_of_this_environment:
            what = "were imported" if table.is_imported else "`corepy tune` measured"
            raise ValueError(
                f"corepy: the routes that {what} {_where(gpu)}do not fit any more ({found}): "
                f"{'import them' if table.is_imported else 'run it'} again"
            )
        told = told or f"what is kept for another environment is not used here ({found})"
    return told


def otherwise(gpu: str | None = None) -> RouteTable | None:
    """Return the table whose routes hold for what a tuning of some operations does not measure.

    That which was measured on this machine before or imported, else the one that ships; None
    without any.
    """
    try:
        found, _ = measured(gpu)
    except (OSError, ValueError) as error:  # `corepy routes` says why
        let_through(error)
        found = None
    if found is not None and not found.is_imported:
        return found
    origin = _SHIPPED
    if found is not None:
        origin = f"a table that was imported, measured on {found.where}"
    found = found or shipped(gpu)
    return found and replace(found, made={**found.made, OTHERS: f"of {origin}"})


def unused(gpu: str | None = None) -> str | None:
    """Say why a table that is measured or imported now is not in force; None if it is."""
    wish = os.environ.get(ENVIRONMENT, "").strip()
    if wish:
        return f"{ENVIRONMENT} is {wish!r}"
    frozen = files.frozen_file(gpu)
    if frozen.is_file():
        return f"{frozen} is frozen: `corepy routes --thaw` lets it go"
    return None


def _files_for(key: dict[str, Any]) -> list[Path]:
    """Return where tables may be, the best first: of as many threads, or of as few more as can be.

    A program that is held to fewer threads than were measured has the routes that gain in these.
    """
    if "threads" not in key:
        return [files.cache_file(key)]  # on a GPU they do not matter
    most = max(key["threads"], key["cores"])
    counts = range(key["threads"], most + 1)
    return [files.cache_file({**key, "threads": count}) for count in counts]


def _where(gpu: str | None) -> str:
    return "" if gpu is None else f"on {gpu} "


def shipped(gpu: str | None = None) -> RouteTable | None:
    """Return the table that ships with corepy, as far as it is believed on this machine.

    None for a GPU of a name for which there is none, and where corepy came without its data.
    """
    if gpu is None:
        tables = [_parsed(path) for path in files.shipped_files()]
        if not tables:
            return None
        table = common(tables)
        return table if _machine.is_akin(table.machine) else _believed(table)
    path = files.shipped_file(gpu)
    if not path.is_file():
        return None
    table = _parsed(path)
    return table if table.gpu == gpu else None


def _parsed(path: Path) -> RouteTable:
    return parse(path.read_text(encoding="utf-8"))


def _believed(table: RouteTable) -> RouteTable:
    """Return the routes whose gain is great enough to hold on a machine of another kind."""
    routes = tuple(
        replace(route, options=tuple(o for o in route.options if o.gain >= ELSEWHERE))
        for route in table.routes
    )
    return RouteTable(table.machine, table.made, table.start, routes)


def everything(backend: str, site: Site) -> RouteTable:
    """Return routes for all that a backend is admitted for, whatever it takes."""
    option = (Option(backend, 99.0, busy=99.0),)
    routes = tuple(
        Route(name, dtype, form, 1, math.inf, option)
        for name, admission in site.routable.items()
        for form in admission.forms
        if site.is_host or home_of(form) != backend
        for dtype in DTYPE_NAMES
        if site.admits(name, dtype, backend)
    )
    machine = {"threads": get_num_threads()} if site.is_host else {"gpu": "any"}
    return RouteTable(machine, {}, {}, routes)


@contextmanager
def using(table: RouteTable | None) -> Iterator[None]:
    """Let entries be filled by other routes for a block: on the host, of tables nobody else has."""
    with _LOCK:
        before = in_force()
        _found[CPU] = InForce(table, "a trial")
        try:
            yield
        finally:
            _found[CPU] = before


def routes(device: Device | str = "cpu") -> tuple[Route, ...]:
    """Return the routes in force, sorted by operation, dtype, form and size.

    Parameters
    ----------
    device : Device or str
        On which: the host, or a GPU such as ``"cuda:0"``.

    Returns
    -------
    tuple of Route
        Empty where routes are off.

    Raises
    ------
    TypeError, ValueError
        If `device` is no device, or ``COREPY_ROUTES`` names a file that cannot be used.
    BackendUnavailableError
        If the device is not present, and no table of its kind was chosen by `set_routes` or
        ``COREPY_ROUTES``, whose routes it then has.
    """
    table = asked_for(known_device(device, "routes"), "routes").table
    return () if table is None else table.routes


def asked_for(device: Device, function: str) -> InForce:
    """Return the table in force on a device that somebody names.

    Raises
    ------
    ValueError
        As `in_force`.
    BackendUnavailableError
        If there is none, for the device is not present.
    """
    found = in_force(device)
    if found.table is None and not _is_present(device):
        there = [CPU, *(gpu.device for gpu in detect_devices().gpus)]
        raise BackendUnavailableError(
            f"{function}: device is {device.name!r}; expected one that is present: "
            f"{listing(there)}{_registry.why_not(device.kind)}"
        )
    return found


def _is_present(device: Device) -> bool:
    """Say whether the machine has a device: a driver tells of it, or a backend serves it."""
    if device is CPU or any(device is gpu.device for gpu in detect_devices().gpus):
        return True
    records = _registry.records().items()
    able = (name for name, r in records if not r.kinds or device.kind in r.kinds)
    return any(device in backend.devices() for backend in _registry.each_usable(able))


def known_device(device: object, function: str) -> Device:
    """Return the device that an object means, whether or not the machine has it.

    Raises
    ------
    TypeError, ValueError
        As `as_device`, and if neither corepy nor a backend knows devices of its kind.
    """
    place, records = as_device(device, function), _registry.records()
    kinds = dict.fromkeys((*KINDS, *(kind for r in records.values() for kind in r.kinds)))
    if place.kind not in kinds:
        # Of backends that packages announce the devices are known once they are loaded.
        announced = _registry.load_each(name for name, r in records.items() if not r.kinds)
        if not any(place in backend.devices() for backend in announced):
            raise bad_argument(function, "device", place.name, f"one of kind {listing(kinds)}")
    return place


class _RestoreRoutes:
    """Leave it, or use it as a context manager to switch back."""

    def __init__(self, before: _Choice) -> None:
        self._before = before

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        _switch(self._before)


def set_routes(source: str | os.PathLike[str] | None) -> _RestoreRoutes:
    """Choose the table of routes for the whole process.

    Parameters
    ----------
    source : {"off", "shipped"}, path or None
        ``"off"``: every operation runs in its arrays' own backend. ``"shipped"``: the table that
        comes with corepy. A path: that file, as ``corepy routes --export`` writes it, read at once
        and not again; it is of the host or of a GPU, and the other one keeps its own. None: what
        ``COREPY_ROUTES`` says, by default what `corepy tune` measured on this machine, else the
        shipped one.

    Returns
    -------
    context manager
        Used as ``with corepy.set_routes("off"):`` it restores what was before.

    Raises
    ------
    TypeError
        If `source` is none of these.
    ValueError
        If a file cannot be read or holds no table of routes; nothing has changed then.
    """
    expected = f"{_EXPECTED}, or None"
    wish = os.fspath(source) if isinstance(source, os.PathLike) else source
    if wish is not None and not isinstance(wish, str):  # nor a path of bytes
        raise bad_type("set_routes", "source", wish, expected)
    if wish == "":
        raise bad_argument("set_routes", "source", wish, expected)
    # All that can fail comes before anything changes.
    table = None
    if wish is not None and wish not in ("off", "shipped"):
        table = read(Path(wish), "set_routes: source", _EXPECTED)
    found = {} if wish is None else {CPU: _find(wish, table, CPU)}
    return _RestoreRoutes(_switch((wish, table, found)))


def _switch(choice: _Choice) -> _Choice:
    """Let a choice hold, and return the one before."""
    global _source, _table
    with _LOCK:
        before = _source, _table, dict(_found)
        _source, _table, found = choice
        _found.clear()
        _found.update(found)
    _refill()
    return before
