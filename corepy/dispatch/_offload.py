"""Offload: a large operation on host arrays runs on an accelerator where that is measured to pay.

The arrays stay arrays of the host: device ``cpu``, their own backend, the same dtypes and errors.
Only where the values lie changes, and nobody sees that but by the time it takes.

- The entry of an operation that may start (`corepy.dispatch._offload_work.STARTS`) in a table of
  NumPy's arrays is a gate: small operands pass after one comparison, others are reckoned up.
- A result computed on an accelerator is a `Resident`: its values lie there alone. The `Array`
  around it belongs to the tables of an `OffloadBackend`, which stands for the home backend.
- Values lie in one place at a time. What is resident was never seen by anybody; the first use of
  host memory (``__array__``, a write, an operation that runs here) moves the values home, and lets
  those on the device go. So no write can miss a copy. Values on a device are never written to.
- Whatever fails on the accelerator runs at home, whose answer or exception is what comes.

A result that is used bit by bit would pay the latency of the device again and again. As one rents
skis until the rent comes to their price, a `Resident` counts the seconds that it lost by not being
at home, and goes home when they come to those of the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from corepy._dtypes import DTYPES, DType
from corepy._signals import let_through
from corepy.backends._base import Backend, Native
from corepy.devices._device import CPU, Device
from corepy.devices._transfer import from_host
from corepy.dispatch import _autocast, _explain, _fallback, _routes
from corepy.dispatch._admitted import HOMES
from corepy.dispatch._offload_places import Accelerator, accelerators, are_wanted
from corepy.dispatch._offload_values import Resident, fetched
from corepy.dispatch._offload_work import STARTS, WORK, Load, Work, key_of
from corepy.dispatch._operations import OPERATIONS
from corepy.dispatch._reproducible import is_reproducible
from corepy.dispatch._settings import OFFLOAD, PRECISION
from corepy.dispatch._sites import MARGIN

Function = Callable[..., Any]

# ---------------------------------------------------------------------------- reckoning


@dataclass(frozen=True, slots=True)
class Reckoning:
    """What an operation takes here and on one accelerator, in seconds.

    Attributes
    ----------
    accelerator : Accelerator
    moved : int
        Bytes that would go there.
    up, compute, down : float
        For moving the operands there, for computing there, and for the way home of the result.
    fetch, here : float
        For moving resident operands home, and for computing here.
    """

    accelerator: Accelerator
    moved: int
    up: float
    compute: float
    down: float
    fetch: float
    here: float

    @property
    def away(self) -> float:
        """All that it takes there."""
        return self.up + self.compute + self.down

    @property
    def home(self) -> float:
        """All that it takes here."""
        return self.fetch + self.here

    def __str__(self) -> str:
        fetch = f" ({_time(self.fetch)} of it to fetch operands)" if self.fetch else ""
        return (
            f"{self.accelerator.device} takes {_time(self.away)} ({self.moved} bytes there "
            f"{_time(self.up)}, compute {_time(self.compute)}, back {_time(self.down)}), "
            f"the host {_time(self.home)}{fetch}"
        )


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} us" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


class Choice:
    """What runs an operation on arrays of which some may be resident.

    Parameters
    ----------
    name : str
        The operation.
    home : Backend
        That of the host arrays.
    dtype : DType
        Of the operands.
    native : callable
        Runs it on the home backend's native arrays.
    """

    def __init__(self, name: str, home: Backend, dtype: DType, native: Function) -> None:
        self.name = name
        self.home = home
        self.dtype = dtype
        self.native = native
        self.work: Work | None = WORK.get(name)
        self.curve = key_of(name, dtype.name)
        result = OPERATIONS[name].result
        self.result = None if result is None else result(dtype)
        #: NumPy computes these in double precision (`corepy.precision`).
        self.fast = name.startswith("linalg.") and dtype.name in ("float32", "complex64")
        self._calls: dict[Accelerator, Function | None] = {}
        import numpy as np  # which the home backend has imported by now

        self.array, self.scalar, self.kind = np.ndarray, np.generic, np.dtype

    def call_of(self, place: Accelerator) -> Function | None:
        """Return what runs it on an accelerator, None where that may not or cannot be."""
        if place not in self._calls:
            backend, curve = place.backend, self.curve
            usable = (
                curve is not None
                and curve[0] in place.work
                and curve[0] in place.host
                and curve[0] not in place.refused
                and backend.supports(self.name, self.dtype, place.device)
                and (self.result or self.dtype) in backend.capabilities(place.device).dtypes
            )
            call = backend.operation_on(self.name, place.device) if usable else None
            if call is not None:
                call = _autocast.applied(call, self.name, backend, self.dtype)
            self._calls[place] = call
        return self._calls[place]

    def __call__(self, *args: Any, **params: Any) -> Any:
        # NumPy's scalars are not worth a look, and what takes arrays in tuples runs at home.
        given = {id(x): x for x in (*args, *params.values())}.values()  # what comes twice goes once
        arrays = [x for x in given if x.__class__ is Resident or isinstance(x, self.array)]
        residents = [x for x in arrays if x.__class__ is Resident and x.there is not None]
        best, why = self._best(arrays, residents, args, params), ""
        if best is not None:
            # Where nothing is there yet, it has to gain as much as a route has to.
            margin = 1.0 if residents else MARGIN
            if best.away * margin < best.home and not self._is_due(best, residents):
                try:
                    return self._away(best, args, params)
                except Exception as error:
                    let_through(error)
                    # The host has the last word, as with routes: its answer, or its exception.
                    why = f"offload: {best.accelerator.device} failed ({type(error).__name__})"
            else:
                why = f"no offload: {best}" if _explain.listening() else ""
        made = self.native(*map(fetched, args), **{k: fetched(v) for k, v in params.items()})
        if why and _explain.listening():
            _explain.also(why)
        return made

    def _best(
        self, arrays: list[Any], residents: list[Resident], args: Any, params: Any
    ) -> Reckoning | None:
        """Return the reckoning for the accelerator that takes least, None if none may run it."""
        if self.work is None or OFFLOAD.get() != "auto" or is_reproducible():
            return None
        if not residents and self.name not in STARTS:
            return None
        if self.fast and PRECISION.get() != "fast":
            return None
        if not arrays or any(x.size == 0 for x in arrays):
            return None
        load = self.work.load(args, params)
        if load is None:
            return None
        found = [
            self._reckoned(place, load, arrays)
            for place in accelerators()
            if self.call_of(place) is not None
        ]
        return min(found, key=lambda reckoning: reckoning.away, default=None)

    def _reckoned(self, place: Accelerator, load: Load, arrays: list[Any]) -> Reckoning:
        assert self.curve is not None  # else there would be no call
        key, scale = self.curve
        moved, up, fetch = 0, 0.0, 0.0
        for x in arrays:
            if x.__class__ is Resident and x.there is not None:
                back = x.accelerator.down(x.nbytes)
                fetch += back
                if x.accelerator is place:
                    continue
                up += back
            moved += x.nbytes
            up += place.up(x.nbytes)
        result = load.elements * (self.result or self.dtype).itemsize
        amount = load.amount * scale
        compute, here = place.work[key](amount), place.host[key](amount)
        return Reckoning(place, moved, up, compute, place.down(result), fetch, here)

    def _is_due(self, best: Reckoning, residents: list[Resident]) -> bool:
        """Say whether resident operands had better go home, and book what staying loses."""
        if not residents:
            return False
        lost = max(0.0, best.away - best.here)
        for x in residents:
            x.lost += lost
        return max(x.lost for x in residents) >= best.fetch

    def _away(self, best: Reckoning, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Run it on an accelerator."""
        place = best.accelerator
        call = self.call_of(place)
        assert call is not None  # it was reckoned with
        arrived: dict[int, Native] = {}

        def there(value: Any) -> Any:
            if value.__class__ is Resident:
                values = value.there
                if values is not None and value.accelerator is place:
                    return values
                value = value.fetch()
            if isinstance(value, self.array):
                if id(value) not in arrived:  # one that is both operands goes once
                    arrived[id(value)] = from_host(value, place.backend, place.device)
                return arrived[id(value)]
            if isinstance(value, self.scalar):
                dtype = DTYPES[value.dtype.name]
                return place.backend.scalar(value.item(), dtype, place.device)
            if isinstance(value, self.kind):
                return place.backend.native_dtype(DTYPES[value.name])
            return value

        with place.in_order():
            moving = {key: _fallback.each(there, value) for key, value in params.items()}
            made = call(*(_fallback.each(there, x) for x in args), **moving)
            results = self._results(made, place, self._expected(args, params))
            if _explain.listening():
                _explain.settle(place.backend, place.device)
                _explain.note(f"offload: {best}", best.moved, place.backend, place.device)
        return results

    def _expected(self, args: tuple[Any, ...], params: dict[str, Any]) -> DType | None:
        """Return the dtype that the results have to have, None where only the library knows."""
        wanted = args[1] if self.name == "astype" else params.get("dtype")
        return DTYPES[wanted.name] if isinstance(wanted, self.kind) else self.result

    def _results(self, made: Any, place: Accelerator, expected: DType | None) -> Any:
        if isinstance(made, (tuple, list)):
            return tuple(self._results(item, place, expected) for item in made)
        # A lazy library fails where it computes, and the host runs what fails here and now.
        found = Resident(place.backend.computed(place.backend.normalize(made)), place, self.home)
        if expected is not None and found.dtype is not expected:
            raise TypeError(f"it gives {found.dtype}; expected {expected}")
        return found


# ---------------------------------------------------------------------------- entries of tables


def gated(native: Function, name: str, backend: Backend, device: Device, dtype: DType) -> Function:
    """Return the gate of an operation that may be offloaded, or its native callable.

    Parameters
    ----------
    native : callable
        What runs on the host.
    name : str
        The operation.
    backend : Backend
        That of the operands.
    device : Device
        Theirs.
    dtype : DType
        Theirs.

    Returns
    -------
    callable
        With the attribute ``least``, the number of elements of the greatest operand from which
        anything else than `native` may run.
    """
    if not are_wanted() or device is not CPU or name not in STARTS or backend.name not in HOMES:
        return native
    curve, places = key_of(name, dtype.name), accelerators()
    if curve is None or not places:
        return native
    amount = min(_amount(place, curve[0]) for place in places) / curve[1]
    # What operands with so many elements amount to, unless they are a column and a row: that
    # product is its result, which would have to come home.
    limit = max(1, int(amount ** (2 / 3)))
    least = 0 if _explain.listening() else limit
    amount = 0.0 if _explain.listening() else amount
    choice, load_of = Choice(name, backend, dtype, native), STARTS[name].load

    def gate(*args: Any, **params: Any) -> Any:
        for x in args:
            if getattr(x, "size", 0) >= least:
                break
        else:
            return native(*args, **params)
        load = load_of(args, params)
        if load is None or load.amount < amount:
            return native(*args, **params)
        return choice(*args, **params)

    # A router may have a lesser one.
    vars(gate)["least"] = min(limit, getattr(native, "least", limit))
    return gate


#: Seconds that a reckoning takes: what is shorter than this and two latencies is not worth one.
_RECKONING: Final = 2e-5


def _amount(place: Accelerator, key: str) -> float:
    """Return an amount of work that the host does before one number is there and back."""
    curve = place.host.get(key)
    return 0.0 if curve is None else curve.within(place.up(1) + place.down(1) + _RECKONING)


def entry(name: str, backend: Backend, device: Device, dtype: DType) -> Function:
    """Return what runs an operation on arrays that may be resident; errors as `resolve`."""
    home = backend.home
    assert home is not None  # it is asked for an OffloadBackend
    native = _fallback.resolve(name, home, device, dtype)
    native = _routes.routed(native, name, home, CPU, dtype)
    native = _autocast.applied(native, name, home, dtype)
    return Choice(name, home, dtype, native)
