"""Which table of routes is in force: the shipped one, this machine's own, a file, or none."""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from corepy._errors import RouteWarning, bad_argument, bad_type
from corepy.dispatch import _explain
from corepy.dispatch import _route_table as files
from corepy.dispatch._admitted import CANDIDATES, DTYPE_NAMES, ROUTABLE, admits
from corepy.dispatch._route_table import Option, Route, RouteTable
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


@dataclass(frozen=True, slots=True)
class InForce:
    """A table, and where it is from.

    Attributes
    ----------
    table : RouteTable or None
        None if routes are off.
    origin : str
        Where it is from, in words.
    notice : str or None
        What the user should know of another one that is not used.
    """

    table: RouteTable | None
    origin: str
    notice: str | None = None


_LOCK: Final = threading.RLock()
_source: str | None = None
_found: InForce | None = None


def in_force() -> InForce:
    """Return the table of routes in force.

    Raises
    ------
    ValueError
        If ``COREPY_ROUTES`` names a file that cannot be used.
    """
    global _found
    found = _found
    if found is None:
        with _LOCK:
            found = _found
            if found is None:
                wish = os.environ.get(ENVIRONMENT, "").strip()
                found = _found = _find(wish, ENVIRONMENT)
                if found.notice is not None:
                    warnings.warn(found.notice, RouteWarning, stacklevel=_explain.depth() + 1)
    return found


def _find(wish: str, argument: str) -> InForce:
    """Return the table that somebody wishes for."""
    forced = os.environ.get(FORCED)
    if forced and wish != "off":
        return InForce(_everything(forced), FORCED)
    if wish == "off":
        return InForce(None, "routes are off")
    if wish and wish != "shipped":
        return InForce(read(Path(wish), argument), f"the file {wish}")
    if not wish:
        try:
            table, origin = cached()
        except ValueError as error:
            return InForce(shipped(), _SHIPPED, f"{error}; the routes that ship are used")
        if table is not None:
            return InForce(table, origin)
    return InForce(shipped(), _SHIPPED)


_SHIPPED: Final = "the table that ships with corepy"


def read(path: Path, argument: str) -> RouteTable:
    """Return the table in a file.

    Raises
    ------
    ValueError
        If there is none, or it is not whole; `argument` is what the message names.
    """
    try:
        return files.parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{argument}: {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{argument}: {path} holds no table of routes: {error}") from None


def cached() -> tuple[RouteTable | None, str]:
    """Return the table that was frozen, or measured on this machine as it is now, and which.

    Raises
    ------
    ValueError
        If there is one that does not fit, saying why.
    """
    folder = files.cache_folder()
    if not any(folder.glob("*.json")):
        return None, ""  # before the key is asked for, which reads the libraries' metadata
    frozen = files.frozen_file()
    if frozen.is_file():
        return read(frozen, "corepy"), f"frozen in {frozen}"
    key = files.machine_key()
    path = files.cache_file(key)
    if path.is_file():
        table = read(path, "corepy")
        found = files.differences(table, key)
        if found:
            raise ValueError(f"corepy: {path} was measured elsewhere: {'; '.join(found)}")
        return table, f"measured on this machine, in {path}"
    others = sorted(folder.glob("routes-*.json"), key=lambda other: other.stat().st_mtime)
    if others:
        found = files.differences(read(others[-1], "corepy"), key)
        raise ValueError(
            f"corepy: the routes that `corepy tune` measured do not fit any more "
            f"({'; '.join(found)}): run it again"
        )
    return None, ""


def shipped() -> RouteTable:
    """Return the table that ships with corepy, as far as it is believed on this machine."""
    table = files.parse(files.SHIPPED.read_text(encoding="utf-8"))
    return table if files.is_akin(table) else _believed(table)


def _believed(table: RouteTable) -> RouteTable:
    """Return the routes whose gain is great enough to hold on a machine of another kind."""
    routes = tuple(
        replace(route, options=tuple(o for o in route.options if o.gain >= ELSEWHERE))
        for route in table.routes
    )
    return RouteTable(table.machine, table.made, table.start, routes)


def _everything(backend: str) -> RouteTable:
    """Return routes for all that a backend is admitted for, whatever it takes."""
    if backend not in CANDIDATES:
        raise bad_argument("corepy", FORCED, backend, f"one of {', '.join(CANDIDATES)}")
    option = (Option(backend, 99.0, busy=99.0),)
    routes = tuple(
        Route(name, dtype, form, 1, math.inf, option)
        for name, admission in ROUTABLE.items()
        for form in admission.forms
        for dtype in DTYPE_NAMES
        if admits(name, dtype, backend)
    )
    return RouteTable({"threads": get_num_threads()}, {}, {}, routes)


def routes() -> tuple[Route, ...]:
    """Return the routes in force, sorted by operation, dtype, form and size.

    Raises
    ------
    ValueError
        If ``COREPY_ROUTES`` names a file that cannot be used.
    """
    table = in_force().table
    return () if table is None else table.routes


class _RestoreRoutes:
    """Leave it, or use it as a context manager to switch back."""

    def __init__(self, before: str | None) -> None:
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
        comes with corepy. A path: that file, as ``corepy routes --export`` writes it. None: what
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
    if source is not None and not isinstance(source, (str, os.PathLike)):
        raise bad_type("set_routes", "source", source, '"off", "shipped", a path or None')
    if source == "":
        raise bad_argument("set_routes", "source", source, '"off", "shipped", a path or None')
    before = _source
    _switch(None if source is None else os.fspath(source))
    return _RestoreRoutes(before)


def _switch(source: str | None) -> None:
    global _source, _found
    with _LOCK:
        _found = None if source is None else _find(source, "set_routes: source")
        _source = source
    _refill()
