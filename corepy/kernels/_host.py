"""Calls on the host's memory that were seen before: what they have launched, on other memory.

That is a compiled loop, of which `_compiled` tells, or torch's function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from corepy.array_api._array import Array
from corepy.devices._device import CPU
from corepy.dispatch import Table, load, make
from corepy.kernels._formulas import is_autocast
from corepy.kernels._replay import (
    LOOKS,
    NUMBERS,
    Launched,
    Plan,
    Seen,
    Unclear,
    is_of_numbers,
    note,
)
from corepy.kernels._ways import TORCH, routes_now

Host = npt.NDArray[Any]


def seen(values: Sequence[Any], names: tuple[str, ...]) -> Seen | None:
    """Look at the arguments of a call, of which arrays lie in one piece."""
    key: list[Any] = [names, routes_now()]
    arrays: list[Any] = []
    bases: list[Host] = []
    for value in values:
        kind = value.__class__
        if kind is Array:
            key.append(value._table)
            native = value._native
        elif kind in NUMBERS:
            key += (kind, value or repr(value))  # there are two zeros
            continue
        elif kind is tuple and is_of_numbers(value):
            key += (kind, repr(value))
            continue
        else:
            native = value
        if native.__class__ is not np.ndarray or not native.flags.carray:
            return None
        arrays.append(value)  # each, as several may be around one: what a call returns may be any
        for n, other in enumerate(bases):
            if native is other:
                key.append(n)
                break
        else:
            key += (kind, native.dtype, native.shape)
            bases.append(native)
    return Seen(tuple(key), arrays, bases)


def listen() -> None:
    """Look from now on at calls with arrays on the host, of which some are repeated."""
    LOOKS[np.ndarray] = LOOKS[Array] = seen


def by_torch(function: Callable[..., Any], natives: Sequence[Host | None]) -> Host:
    """Compute with torch's function on the memory of NumPy's arrays."""
    torch = load(TORCH)
    shared = (None if native is None else torch.from_numpy(native, CPU) for native in natives)
    return torch.to_numpy(function(*shared))


def note_torch(function: Callable[..., Any], natives: Sequence[Host | None]) -> None:
    """Note that `by_torch` has computed, with nothing else that decides than the function."""
    listen()
    note(lambda: _ByTorch(function, natives))


class _ByTorch(Launched):
    """A function of torch's that has computed."""

    def __init__(self, function: Callable[..., Any], natives: Sequence[Host | None]) -> None:
        self.function, self.natives = function, natives

    def plan(self, seen: Seen, made: list[Any], is_pair: bool) -> Plan | None:
        places: list[int | None] = []
        for native in self.natives:
            if native is None:
                places.append(None)
                continue
            place = next((n for n, base in enumerate(seen.bases) if base is native), None)
            if place is None:
                return None
            places.append(place)
        return None if is_pair else _ByTorchAgain(self.function, places, table(made[0]))


class _ByTorchAgain(Plan):
    """The same function on other memory."""

    def __init__(
        self, function: Callable[..., Any], places: list[int | None], table: Table | None
    ) -> None:
        self._function, self._places, self._table = function, places, table

    def run(self, seen: Seen) -> Any:
        if is_autocast():
            raise Unclear
        bases = seen.bases
        natives = [None if place is None else bases[place] for place in self._places]
        found = by_torch(self._function, natives)
        return found if self._table is None else make(found, self._table)


def table(array: Any) -> Table | None:
    """Return the table that a result is bound to, None for NumPy's own."""
    return array._table if array.__class__ is Array else None
