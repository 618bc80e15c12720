"""Routes: a large operation runs in the backend that was measured fastest for it.

Only between backends that share a device's memory (`_sites`), and only on operations that mean the
same in both (`_admitted`, `_admitted_devices`). The arrays stay those of their own backend. Where a
table has a route for an operation and dtype, the entry in the backend's `Table` becomes a router:

- operands with fewer than ``router.least`` elements run ``router.small``, the backend's own
  callable, after one comparison;
- larger ones go the way of the first of the route's options that is ready: its library loaded, the
  other cores free if it needs them on the host, the operands of a form that was measured;
- whatever the option refuses, raises or cannot share runs in the backend's own callable, whose
  result or exception is then the answer.

Libraries are imported once that pays (`_route_libraries`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from corepy import _openmp
from corepy._budget import budget, cores
from corepy._dtypes import DType
from corepy._signals import let_through
from corepy.backends._base import Backend
from corepy.backends._extents import EXTENTS
from corepy.devices._device import CPU, Device
from corepy.dispatch import _considerate, _explain, _registry, _single
from corepy.dispatch._crossings import NotLentError, crossing
from corepy.dispatch._fallback import Elsewhere
from corepy.dispatch._hot import guard
from corepy.dispatch._neighbours import NEIGHBOURS
from corepy.dispatch._reproducible import REPRODUCIBLE
from corepy.dispatch._route_libraries import LIBRARIES, Library
from corepy.dispatch._route_sources import in_force
from corepy.dispatch._route_table import UNHURRIED, Option, Route, RouteTable
from corepy.dispatch._routers import Call, router
from corepy.dispatch._settings import PRECISION
from corepy.dispatch._sites import MARGIN, Site, site_of

# ---------------------------------------------------------------------------- running

#: How many times as many elements as where a route begins are far from it, and how much longer
#: each of those may take the home: a Fourier transform of 10,000,000 took 4.3 times as long for
#: each as one of 17,321.
_FAR: Final = 4
_LEAP: Final = 6.0


class _Way:
    """One option of a route."""

    def __init__(
        self,
        name: str,
        home: Backend,
        place: tuple[Site, Device, DType],
        native: Callable[..., Any],
        route: Route,
        option: Option,
    ) -> None:
        self.name = name
        self.home = home
        self.site, self.device, self.dtype = place
        self.route = route
        self.option = option
        self.gain = option.gain
        self.library = LIBRARIES[option.backend]
        #: Whether it waits for threads of a library that does not notice other processes.
        self.waits = self.site.is_host and option.backend == "torch"
        #: Whether it is on trial or forced (`everything`), so that it steps aside for nobody, and
        #: its library is imported whatever that takes.
        self.tried = math.isinf(route.seconds)
        self.at_home = option.backend == home.name
        self.fast = option.backend == "torch" and route.dtype in self.site.routable[name].fast
        self._lacks = False
        #: By the bits of how many elements there were: the least seconds that one has taken.
        self._paces: dict[int, float] = {}
        self._call: Call | None = None
        if self.at_home:
            self._call = lambda args, params: native(*args, **params)

    def hindrance(self, threads: int) -> str | None:
        """Say why it may not be gone now, even if its library is there; None if it may."""
        if self.fast and PRECISION.get() != "fast":
            return 'it computes in single precision, which is for precision("fast")'
        if self._lacks:
            return "it cannot reach this device"
        why = None if self.at_home else self.library.hindrance(self.site)
        if why is None and self.site.is_host and not self.tried:
            why = hindrance(self.option, threads)
        return why

    def leads(self, threads: int) -> bool:
        """Say whether it may be gone now, if its library is there."""
        return self.hindrance(threads) is None

    def open(self, threads: int, more: float = 0.0) -> Call | None:
        """Return what is to be called; None if the library or its cores are not there.

        It is imported if that pays with the seconds that this call saves more.
        """
        if not self.leads(threads):
            return None
        if not self.at_home:
            backend = self.library.ready(self.site, math.inf if self.tried else more)
            if backend is None:
                return None
            if self._call is None:
                try:
                    self._call = crossing(self.name, self.home, backend, self.device, self.dtype)
                except LookupError:  # on another device of the machine, perhaps
                    self._lacks = True
                    return None
        return self._watched if self.waits else self._call

    def _watched(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Call, and take note of time that was lost to other processes."""
        assert self._call is not None  # it comes from `open`
        start = perf_counter()
        with _openmp.apart():
            made = self._call(args, params)
        taken = perf_counter() - start
        if taken < self.route.seconds:
            NEIGHBOURS.lost(False)
            return made
        size = max(getattr(x, "size", 0) for x in args)
        NEIGHBOURS.lost(taken > 1.5 * self._at_home_as_seen(size, taken))
        return made

    def _at_home_as_seen(self, size: int, taken: float) -> float:
        """Return the home's seconds for so many elements, of which this way has taken some now.

        Far from where the route begins these seconds may have grown faster than evenly, as the
        operands leave the caches. Then this way's do as well, and tell by how much.
        """
        even = self.at_home_for(size)
        if size <= _FAR * self.route.least:
            return even
        kind = size.bit_length()
        pace = self._paces[kind] = min(taken / size, self._paces.get(kind, math.inf))
        return max(even, min(pace * size * self.gain, _LEAP * even))

    def at_home_for(self, size: int) -> float:
        """Return the home's seconds for so many elements, as far as they grow evenly.

        Those of matrices grow with the third power of a side.
        """
        power = 1.5 if self.name.startswith("linalg.") and not self.route.form else 1.0
        return float(self.route.seconds * (size / self.route.least) ** power)

    def saves(self, at_home: float, lesser: float) -> float:
        """Return the seconds that it takes less than a lesser gain leaves of the home's."""
        return max(0.0, at_home / lesser - at_home / self.gain)


def hindrance(option: Option, threads: int) -> str | None:
    """Say why an option gains nothing now, with the threads it may have and the cores it finds.

    Parameters
    ----------
    option : Option
    threads : int
        How many it had when it was measured.

    Returns
    -------
    str or None
        None if it gains.
    """
    limit = budget()
    if option.gain < MARGIN:
        busy = NEIGHBOURS.busy(min(threads, limit or threads))
        return None if busy else "it gains only beside busy cores"
    if limit is not None and option.gain_in(limit, threads) < MARGIN:
        return f"it gains nothing in {limit} of {threads} threads"
    if option.backend != "torch":
        return None  # its loops notice busy cores by themselves
    if NEIGHBOURS.pausing():
        return "a call of it lost time to other processes a moment ago"
    # Some gains are great enough to remain beside busy cores; that was measured.
    if (option.busy or 0.0) >= MARGIN or not NEIGHBOURS.busy(min(threads, limit or threads)):
        return None
    return "other processes keep the cores busy"


def is_worth(option: Option, threads: int) -> bool:
    """Say whether an option gains now, as `hindrance`."""
    return hindrance(option, threads) is None


#: From which argument on operands have one dtype, if not from the first.
_ALIKE_FROM: Final = {"__getitem__": 2, "astype": 2, "roll": 2, "take": 2, "where": 1}


class _Single:
    """A Python scalar beside arrays, as `Backend.layout` would give it."""

    shape: tuple[int, ...] = ()
    ndim = 0
    size = 1
    forc = c_contiguous = True

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    @property
    def flags(self) -> _Single:
        return self


#: Calls at most that go the home's way without a look at libraries which are not imported.
_UNSEEN: Final = 15


class _Step:
    """Ways from a size on, and how long nobody has to look at them again.

    To look at ways takes microseconds. Where the library of all that are better is not imported yet
    and a call saves next to nothing of what importing costs, the next few calls count as this one.
    """

    __slots__ = ("_left", "_modules", "_saved", "_size", "_unseen", "least", "ways")

    def __init__(self, least: int, ways: list[_Way]) -> None:
        self.least = least
        self.ways = ways
        #: What a call saved that was looked at, how large it was, and how many modules there were.
        self._saved: list[tuple[Library, float]] = []
        self._size = self._modules = 0
        #: Calls that count as it, and how many of them are left.
        self._unseen = self._left = 0

    def is_settled(self, size: int) -> bool:
        """Say whether a call may go the home's way at once."""
        if not self._left or size > 2 * self._size or len(sys.modules) != self._modules:
            return False
        if _explain.listening():
            return False
        self._left -= 1
        return True

    def book(self, saved: list[tuple[Library, float]], size: int) -> None:
        """Take note of what libraries would have saved in a call, and in those since the last."""
        for library, seconds in self._saved:
            library.saved += (self._unseen - self._left) * seconds
        unseen = float(_UNSEEN)
        for library, seconds in saved:
            library.saved += seconds
            if library.backend is not None:
                unseen = 0.0
            elif seconds:
                unseen = min(unseen, (library.price - library.saved) / seconds / 8)
        self._unseen = self._left = max(0, int(unseen)) if saved and size else 0
        self._saved, self._size, self._modules = saved, size, len(sys.modules)


class Choice:
    """What a router does with operands that are large enough."""

    def __init__(
        self,
        name: str,
        home: Backend,
        device: Device,
        dtype: DType,
        native: Callable[..., Any],
        table: RouteTable,
    ) -> None:
        site = table.site
        admission = site.admitted[name]
        self.site = site
        self.home = home
        self.native = native
        self.former = admission.former
        self.operands = admission.operands
        self.extent = EXTENTS.get(name)
        if site.is_host:
            import numpy as np

            self.array: type = np.ndarray
        else:
            counting = home.counting()
            assert counting is not None  # `routed` asked
            self.array = counting[0]
            self.single = _Single(home.native_dtype(dtype))
        # A backend that promotes as the standard does is given operands unconverted, and torch
        # would promote them otherwise.
        self.alike = _ALIKE_FROM.get(name, 0)
        self.threads = table.threads
        for library in LIBRARIES.values():
            library.price = table.start.get(library.name, library.price)
        place = site, device, dtype
        #: By form: sizes from which other ways are best, the greatest first.
        self.forms: dict[str, list[_Step]] = {}
        for form, routes in table.forms_of(home.name, name, dtype.name).items():
            steps = []
            for route in routes:
                options = _open_options(route.options, table)
                ways = [_Way(name, home, place, native, route, option) for option in options]
                steps.append(_Step(route.least, ways))
            if any(step.ways for step in steps):
                self.forms[form] = steps[::-1]
        #: Elements from which there is another way, by form.
        self.leasts = {
            form: min(step.least for step in steps if step.ways)
            for form, steps in self.forms.items()
        }
        self.least = min(self.leasts.values(), default=None)

    def __call__(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if REPRODUCIBLE.touched and REPRODUCIBLE.get():
            if _explain.listening():
                _explain.note("reproducible: the operands live in it, and routes are off")
            return self.native(*args, **params)
        seen = args if self.site.is_host else self._seen(args)
        size = self._size(seen)
        form = self.former(seen, params) if self.least is not None and size >= self.least else None
        for step in self.forms.get(form, ()):  # type: ignore[arg-type]
            if size >= step.least:
                if step.is_settled(size):
                    break
                return self._go(step, size, args, params)
        return self.native(*args, **params)

    def _seen(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the operands as formers look at them, of which scalars are one element each."""
        layout, array, single = self.home.layout, self.array, self.single
        return tuple([layout(x) if isinstance(x, array) else single for x in args])

    def _size(self, args: tuple[Any, ...]) -> int:
        """Return the elements of the largest operand or the result; 0 where NumPy has to run it."""
        if self.extent is not None:
            return self.extent(*args)
        size: int = args[0].size
        if self.operands > 1:
            for x in args[1 : self.operands]:
                size = max(size, x.size)
        elif self.site.is_host and args[0].__class__ is not self.array:
            return 0
        alike = args[self.alike :]
        if len(alike) > 1 and any(x.dtype is not alike[0].dtype for x in alike[1:]):
            return 0
        return size if size > 1 or args[0].ndim else 0

    def _go(self, step: _Step, size: int, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        passed: tuple[str, str] | None = None
        ways = step.ways
        for way in ways:
            more = 0.0
            if way.library.backend is None:  # a call that takes longer need not be one of many
                more = way.saves(way.at_home_for(size), self._gain_without(way, ways, 1.0))
            call = way.open(self.threads, more)
            if call is None:
                why = self._shut(way) if _explain.listening() else ""
                passed = passed or (way.option.backend, why)
                continue
            try:
                made = (
                    call(args, params)
                    if way is ways[0]
                    else self._timed(step, way, size, args, params)
                )
            except Exception as error:
                let_through(error)
                # The backend's own callable has the last word: it has an answer, or raises what
                # its users know.
                unlent = isinstance(error, NotLentError)
                why = str(error) if unlent else f"it raised {type(error).__name__}"
                passed = way.option.backend, why
                continue
            if _explain.listening():
                beside = "NumPy" if self.site.is_host else self.home.name
                _explain.note(
                    f"route: measured {way.gain:.{self.site.digits}f}x {beside} "
                    f"from {way.route.least} elements",
                    backend=self.home if way.at_home else way.library.backend,
                )
            return made
        if passed and _explain.listening():
            _explain.note(
                f"the operands live in it; the route to {passed[0]} is not open: {passed[1]}"
            )
        return self._timed(step, None, size, args, params)

    def _shut(self, way: _Way) -> str:
        """Say why a way is not open."""
        return way.hindrance(self.threads) or way.library.missing()

    def _timed(
        self,
        step: _Step,
        way: _Way | None,
        size: int,
        args: tuple[Any, ...],
        params: dict[str, Any],
    ) -> Any:
        """Go a lesser way, and book what a library that is not imported yet would have saved."""
        ways = step.ways
        start = perf_counter()
        call = None if way is None else way.open(self.threads)
        made = self.native(*args, **params) if call is None else call(args, params)
        gain = 1.0 if way is None else way.gain
        # A GPU goes on when the call is back: there it is what was measured that counts.
        at_home = (perf_counter() - start) * gain if self.site.is_host else ways[0].route.seconds
        better = ways if way is None else ways[: ways.index(way)]
        saved = [
            (best.library, best.saves(at_home, self._gain_without(best, ways, gain)))
            for best in better
            if best.leads(self.threads)
        ]
        step.book(saved, size if way is None else 0)  # a lesser way is looked for each time
        return made

    def _gain_without(self, way: _Way, ways: list[_Way], least: float) -> float:
        """Return what is gained without a library by those that are there or cost less to import.

        What these save as well is none of its merit, however much more it saves in the end.
        """
        others = [
            other.gain
            for other in ways
            if other is not way
            and (other.library.backend is not None or other.library.price < way.library.price)
            and other.leads(self.threads)
        ]
        return max([least, *others])


def _open_options(options: tuple[Option, ...], table: RouteTable) -> list[Option]:
    """Return the options that this machine has the libraries and the cores for."""
    site, records = table.site, _registry.records()
    threads = cores() if site.is_host else table.threads
    return [
        option
        for option in options
        if (
            option.gain_in(threads, table.threads) >= site.margin
            or (option.busy or 0.0) >= UNHURRIED
        )
        and option.backend in records
        and records[option.backend].probe() is None
    ]


# ---------------------------------------------------------------------------- routers


def routed(
    native: Callable[..., Any],
    name: str,
    backend: Backend,
    device: Device,
    dtype: DType,
    at_home: Callable[[], Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """Return the router of an operation, or its native callable where there is no route.

    Parameters
    ----------
    native : callable
        What the backend itself runs.
    name : str
        The operation.
    backend : Backend
        That of the operands.
    device : Device
        On which they are.
    dtype : DType
        Theirs.
    at_home : callable, optional
        Makes what runs in the place of `native` where no route leads elsewhere.

    Returns
    -------
    callable
        With the attributes ``small``, the callable that runs small operands, and ``least``, the
        number of elements of the largest operand from which anything else may run; and with
        ``blocks`` where products that fall into blocks of one thread of BLAS each need not ask it,
        unless their results are to be reproducible. Other products of fewer elements than
        ``hindered`` need not where `_considerate.unhindered` says so.
    """
    site = site_of(device)
    if site is None or backend.name not in site.homes:
        return native
    if not site.is_host:
        return _routed_on_device(native, name, backend, device, dtype, site)
    # A backend's own callable may look at sizes itself, and then has the same attributes.
    small, least = getattr(native, "small", native), getattr(native, "least", None)
    own = native
    chosen = [] if least is None else [least]
    table = in_force().table
    if _considerate.concerns(name, dtype):
        rows = None if table is None else table.alone.get(name)
        own = _considerate.considerate(_single.chosen(native, name, backend, dtype), name, rows)
        least = min(_considerate.least(), _considerate.LEAST if least is None else least)
    choice = None
    if table is not None and name in site.admitted and table.forms(name, dtype.name):
        home = own if at_home is None or own is not native else at_home()
        choice = Choice(name, backend, CPU, dtype, home, table)
    if choice is not None and choice.least is not None:
        # Where the backend's own callable chooses as well, nobody knows for which forms.
        leasts = choice.leasts if least is None else None
        made = router(name, small, min(choice.least, least or choice.least), choice, leasts)
    elif own is native or least is None:
        return native
    else:
        made = router(name, small, least, lambda args, params: own(*args, **params))
    vars(made)["blocks"] = own is not native
    if own is not native:
        if choice is not None and choice.least is not None:
            chosen.append(choice.least)
        vars(made)["hindered"] = min(chosen, default=sys.maxsize)
    return made


def _routed_on_device(
    native: Callable[..., Any],
    name: str,
    backend: Backend,
    device: Device,
    dtype: DType,
    site: Site,
) -> Callable[..., Any]:
    """As `routed`, on an accelerator."""
    counting = backend.counting()
    if name not in site.admitted or counting is None or isinstance(native, Elsewhere):
        return native
    table = in_force(device).table
    if table is None or not table.forms_of(backend.name, name, dtype.name):
        return native
    choice = Choice(name, backend, device, dtype, native, table)
    return native if choice.least is None else guard(native, choice.least, choice, *counting)
