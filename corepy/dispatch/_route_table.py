"""Tables of routes: what they hold, and the text of their files.

A table is a JSON file. The one that ships with corepy, the cache that `corepy tune` writes and the
ones that `corepy routes --export` makes have one form, which `parse` checks from top to bottom.
Those of the cache say besides for whom they are kept (`corepy.dispatch._route_files.keep`), which
no other file has.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Final

from corepy.dispatch import _machine
from corepy.dispatch._admitted_devices import home_of
from corepy.dispatch._sites import CUDA, HOST, Site

#: Version of the files' form; another one is not read.
FORMAT: Final = 1
#: Under which a table that was measured in part says whose routes it has for all else.
OTHERS: Final = "others"
#: How many times faster than NumPy a candidate has to be where the other cores are busy; one that
#: is no faster alone runs only there.
UNHURRIED: Final = 1.5


@dataclass(frozen=True, slots=True)
class Option:
    """A backend that runs an operation faster than that of the arrays.

    Attributes
    ----------
    backend : str
    gain : float
        The time of the arrays' own, of NumPy on the host, by this one's, on an idle machine.
    company : float
        The time right after an operation of another library by the time alone; the worst of them.
    busy : float or None
        The gain while another process keeps the other cores busy; None for backends that step
        aside by themselves.
    single : float or None
        The gain where both may use one thread; None if that was not measured.
    """

    backend: str
    gain: float
    company: float = 1.0
    busy: float | None = None
    single: float | None = None

    def gain_in(self, threads: int, measured: int) -> float:
        """Reckon what it gains in fewer threads.

        Parameters
        ----------
        threads : int
            How many there are.
        measured : int
            In how many `gain` was measured.

        Returns
        -------
        float
        """
        if threads >= measured:
            return self.gain
        if self.single is None:
            return self.gain * threads / measured  # as if threads were all that it gained by
        return self.single if threads == 1 else max(self.single, self.gain * threads / measured)

    def at_worst(self, other: Option) -> Option:
        """Join it with what was measured elsewhere.

        Parameters
        ----------
        other : Option
            Of the same backend.

        Returns
        -------
        Option
            What holds in both places.
        """
        gain, company = min(self.gain, other.gain), max(self.company, other.company)
        busy, single = _lesser(self.busy, other.busy), _lesser(self.single, other.single)
        return Option(self.backend, gain, company, busy, single)


def _lesser(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else min(one, other)


@dataclass(frozen=True, slots=True)
class Route:
    """Who runs an operation, from a size up to the next route's.

    Attributes
    ----------
    operation, dtype : str
    form : str
        The form of the operands, such as ``"rows"`` of a reduction along the last axis; often
        there is but one, ``""``. On a GPU, and of kernels, with the arrays' library before it.
    least : int
        Elements of the largest operand from which it holds.
    seconds : float
        The time of the arrays' own backend at that size.
    options : tuple of Option
        The best first; empty where it is best.
    """

    operation: str
    dtype: str
    form: str
    least: int
    seconds: float
    options: tuple[Option, ...]

    @property
    def place(self) -> tuple[str, str, str, int]:
        """By what a table's routes are told apart, and sorted."""
        return self.operation, self.dtype, self.form, self.least


@dataclass(frozen=True)
class RouteTable:
    """All routes of one machine, or of one GPU.

    Attributes
    ----------
    machine : dict
        What `machine_key` said there, or `corepy.dispatch._route_gpus.gpu_key`.
    made : dict
        ``command``, ``date``, ``load`` (cores that other processes used meanwhile), and
        ``others`` if what was not measured has routes from elsewhere.
    start : dict of str to float
        Seconds that importing a backend's library takes.
    routes : tuple of Route
        Sorted by operation, dtype, form and size.
    alone : dict of str to int
        By operation, rows of a matrix up to which BLAS in one thread is as fast as in several.
    kept : dict
        Of a table of the cache, what `keep` says of it; else empty.
    """

    machine: Mapping[str, Any]
    made: Mapping[str, Any]
    start: Mapping[str, float]
    routes: tuple[Route, ...]
    alone: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _by_operation(self) -> dict[tuple[str, str], dict[str, list[Route]]]:
        found: dict[tuple[str, str], dict[str, list[Route]]] = {}
        for route in self.routes:
            forms = found.setdefault((route.operation, route.dtype), {})
            forms.setdefault(route.form, []).append(route)
        return found

    def forms(self, operation: str, dtype: str) -> Mapping[str, list[Route]]:
        """Return the routes of an operation and dtype by form, by rising size."""
        return self._by_operation.get((operation, dtype), {})

    def forms_of(self, home: str, operation: str, dtype: str) -> dict[str, list[Route]]:
        """As `forms`, of the arrays of one backend, by the forms that the operation itself has."""
        found = self.forms(operation, dtype)
        if self.site.is_host:
            return dict(found)
        return {
            form.removeprefix(home).lstrip(): routes
            for form, routes in found.items()
            if home_of(form) == home
        }

    @property
    def gpu(self) -> str | None:
        """The name of the GPU that it is of, None if it is of the host."""
        return self.machine.get("gpu")

    @property
    def where(self) -> str:
        """What it was measured on, in words."""
        return self.gpu or f"{self.machine.get('cpu')}, {self.machine.get('cores')} cores"

    @property
    def key(self) -> Mapping[str, Any]:
        """The key under which it is in force: that of its machine, unless it was imported."""
        found: Mapping[str, Any] = self.kept.get("machine", self.machine)
        return found

    @property
    def is_imported(self) -> bool:
        """Whether it came to the cache from a file, wherever that was made."""
        return "machine" in self.kept

    @property
    def is_of_this_environment(self) -> bool:
        """Whether it was kept for the installation of Python that runs now."""
        return self.kept.get("environment") == _machine.environment()

    @property
    def site(self) -> Site:
        """Who takes part where it is of."""
        return HOST if self.gpu is None else CUDA

    @property
    def threads(self) -> int:
        """How many threads operations had when this was measured; on a GPU that is nothing."""
        return int(self.machine["threads"]) if self.gpu is None else 1

    def dump(self) -> str:
        """Return the text of its file, a line for each route; of the cache no other one tells."""
        return self.text({})

    def text(self, kept: Mapping[str, Any]) -> str:
        """As `dump`, with what `corepy.dispatch._route_files.keep` says of it."""
        head = {
            "format": FORMAT,
            "made": dict(self.made),
            "machine": dict(self.machine),
            **({"kept": dict(kept)} if kept else {}),
            "start": dict(self.start),
            **({"alone": dict(self.alone)} if self.alone else {}),
        }
        rows = ",\n  ".join(json.dumps(_row(route)) for route in self.routes)
        text = json.dumps(head, indent=1).removesuffix("\n}")
        return f'{text},\n "routes": [\n  {rows}\n ]\n}}\n'


def _row(route: Route) -> dict[str, Any]:
    return {
        "operation": route.operation,
        "dtype": route.dtype,
        "form": route.form,
        "from": route.least,
        "seconds": route.seconds,
        "options": [asdict(option) for option in route.options],
    }


def common(tables: Sequence[RouteTable]) -> RouteTable:
    """Return the routes that all of some tables of hosts have, each at its worst."""
    first, *rest = tables
    if not rest:
        return first
    places = {(route.operation, route.dtype, route.form) for route in first.routes}
    routes = [route for place in sorted(places) for route in _common_steps(*place, tables)]
    start = {name: max(t.start.get(name, 0.0) for t in tables) for t in tables for name in t.start}
    machine = {
        "cpu": ", and ".join(str(table.machine["cpu"]) for table in tables),
        "threads": max(table.threads for table in tables),
    }
    return RouteTable({**first.machine, **machine}, first.made, start, tuple(routes))


def _common_steps(
    operation: str, dtype: str, form: str, tables: Sequence[RouteTable]
) -> Iterator[Route]:
    ways = [table.forms(operation, dtype).get(form, []) for table in tables]
    before: tuple[Option, ...] = ()
    for least in sorted({route.least for routes in ways for route in routes}):
        # Of each table the route that holds from this size on; none where it begins later.
        held = [[route for route in routes if route.least <= least][-1:] for routes in ways]
        options: tuple[Option, ...] = held[0][0].options if all(held) else ()
        for routes in held[1:]:
            others = {option.backend: option for route in routes for option in route.options}
            options = tuple(
                option.at_worst(others[option.backend])
                for option in options
                if option.backend in others
            )
        if options != before:
            seconds = max(routes[0].seconds for routes in held if routes)
            yield Route(operation, dtype, form, least, seconds, options)
        before = options


# ---------------------------------------------------------------------------- reading


def from_json(text: str) -> Any:
    """Return what JSON holds.

    Raises
    ------
    ValueError
        If it is none, or nested beyond what can be read.
    """
    try:
        return json.loads(text)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"it is no JSON ({error})") from None


def parse(text: str) -> RouteTable:
    """Return the table that a file's text holds.

    Raises
    ------
    ValueError
        If it holds none, saying what is wrong: a table that is half right is not used.
    """
    content = from_json(text)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise ValueError(f"its format is {found!r}; expected {FORMAT}")
    machine, made, start = (_mapping(content, key) for key in ("machine", "made", "start"))
    site = HOST
    if "gpu" in machine:
        site = CUDA
        if not isinstance(machine["gpu"], str) or not machine["gpu"]:
            raise ValueError(f"machine.gpu is {machine['gpu']!r}; expected the name of a GPU")
    else:
        _count("machine.threads", machine.get("threads"), 1, "threads")
    held = machine.get("versions", {})
    if not isinstance(held, dict) or not all(isinstance(each, str) for each in held.values()):
        raise ValueError(f"machine.versions is {held!r}; expected an object of strings")
    kept = _mapping({"kept": {}, **content}, "kept")
    if not isinstance(kept.get("machine", {}), dict):
        raise ValueError(f"kept.machine is {kept['machine']!r}; expected an object")
    for name, seconds in start.items():
        _number(f"start.{name}", seconds, 0)
    alone = _mapping({"alone": {}, **content}, "alone")
    for name, most in alone.items():
        _count(f"alone.{name}", most, 0, "rows")
    rows = content.get("routes")
    if not isinstance(rows, list):
        raise ValueError("routes is missing; expected a list")
    routes = tuple(sorted((_route(row, site) for row in rows), key=lambda route: route.place))
    if len({route.place for route in routes}) < len(routes):
        raise ValueError("two routes are for the same operation, dtype, form and size")
    return RouteTable(machine, made, start, routes, alone, kept)


def _mapping(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    if not isinstance(value, dict):
        raise ValueError(f"{key} is {value!r}; expected an object")
    return value


def _count(key: str, value: object, least: int, of: str) -> int:
    """Return a number of something; JSON's may be greater than any size in memory."""
    if not isinstance(value, bool) and isinstance(value, int) and least <= value <= sys.maxsize:
        return value
    raise ValueError(f"{key} is {value!r}; expected a number of {of}")


#: The greatest number that may be measured: sums and products of such stay in the range of floats.
MOST: Final = 1e100


def _number(key: str, value: object, least: float) -> float:
    if not isinstance(value, bool) and isinstance(value, (int, float)) and least <= value <= MOST:
        return value
    raise ValueError(f"{key} is {value!r}; expected a number of at least {least}, {MOST} at most")


def _route(row: Any, site: Site) -> Route:
    if not isinstance(row, dict) or not isinstance(row.get("options"), list):
        raise ValueError(f"a route is {row!r}; expected an object with options")
    form = row.get("form")
    operation, dtype = (str(row.get(key)) for key in ("operation", "dtype"))
    if not any(site.admits(operation, dtype, backend) for backend in site.named):
        raise ValueError(f"{operation!r} of {dtype!r} is no operation that can be routed")
    forms = site.routable[operation].forms
    if not isinstance(form, str) or form not in forms:
        raise ValueError(f"{operation} has no form {form!r}; expected {forms}")
    least = _count(f"{operation}: from", row.get("from"), 1, "elements")
    seconds = _number(f"{operation}: seconds", row.get("seconds"), 0)
    options = tuple(_option(operation, dtype, option, site) for option in row["options"])
    if not site.is_host and any(option.backend == home_of(form) for option in options):
        raise ValueError(f"{operation} of {dtype}: {home_of(form)!r} is where the arrays live")
    return Route(operation, dtype, form, least, seconds, options)


def _option(operation: str, dtype: str, row: Any, site: Site) -> Option:
    backend = row.get("backend") if isinstance(row, dict) else None
    if not isinstance(backend, str) or not site.admits(operation, dtype, backend):
        raise ValueError(f"{operation} of {dtype}: {backend!r} is not admitted for it")
    return Option(
        backend,
        _number(f"{operation}: gain", row.get("gain"), 1),
        _number(f"{operation}: company", row.get("company"), 0),
        *[
            None if row.get(name) is None else _number(f"{operation}: {name}", row[name], 0)
            for name in ("busy", "single")
        ],
    )
