"""How the fused kernels are compiled and launched; multiply-adds may be fused in all of them.

A launch that follows from shapes, dtypes and numbers is repeated on other memory (`_replay`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from corepy._loops import _sharing
from corepy._loops._compile import compiler
from corepy.array_api._array import Array
from corepy.dispatch import Table, make
from corepy.kernels._host import Host, listen, table
from corepy.kernels._memory import is_fixed, new_array
from corepy.kernels._replay import NUMBERS, Launched, Plan, Seen, Unclear, note

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

#: Files with functions that kernels of others call.
_SHARED: Final = (
    *("_compiled.py", "_simd.py", "_series.py", "_tiles.py"),
    *("attention/_spans.py", "matrices/numba.py"),
)

_compile = compiler(Path(__file__).parent / name for name in _SHARED)


def kernel(function: Kernel) -> Kernel:
    """Compile a kernel on its first call, and keep it on disk."""
    return _compile(fastmath={"contract"})(function)


def launch(function: Callable[..., None], arguments: tuple[Any, ...], rows: int, work: int) -> None:
    """Run a loop on its rows, as `corepy._loops._sharing.launch`, and note it."""
    _sharing.launch(function, arguments, rows, work)
    note(lambda: _Loop(function, arguments, rows, work))


listen()


class _Memory(NamedTuple):
    """Whose memory an argument of a loop is.

    Attributes
    ----------
    place : int
        Which argument.
    number : int
        Which array of the caller's, or which result.
    dtype : dtype or None
        As the loop takes it, None for its own.
    shape : tuple of int
        Likewise.
    """

    place: int
    number: int
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]

    def of(self, array: Host) -> Host:
        """Show an array as the loop takes it."""
        return (array if self.dtype is None else array.view(self.dtype)).reshape(self.shape)


class _Loop(Launched):
    """A loop that has run on its rows."""

    def __init__(
        self, function: Callable[..., None], arguments: tuple[Any, ...], rows: int, work: int
    ) -> None:
        self.function, self.arguments, self.rows, self.work = function, arguments, rows, work

    def plan(self, seen: Seen, made: list[Any], is_pair: bool) -> Plan | None:
        results = [new._native if new.__class__ is Array else new for new in made]
        if any(result.__class__ is not np.ndarray for result in results):
            return None
        natives = [*seen.bases, *results]
        owners = {_address(native): n for n, native in enumerate(natives)}
        if len(owners) < len(natives):
            raise Unclear
        given: list[_Memory] = []
        taken: list[_Memory] = []
        for place, argument in enumerate(self.arguments):
            if isinstance(argument, np.ndarray):
                number = owners.get(_address(argument))
                if number is None:
                    if not is_fixed(argument):
                        return None  # what was made of the values of another one
                    continue
                native = natives[number]
                if argument.nbytes != native.nbytes or not argument.flags.carray:
                    return None
                dtype = None if argument.dtype == native.dtype else argument.dtype
                if number < len(seen.bases):
                    given.append(_Memory(place, number, dtype, argument.shape))
                else:
                    number -= len(seen.bases)
                    taken.append(_Memory(place, number, dtype, argument.shape))
            elif argument.__class__ not in NUMBERS and not isinstance(argument, np.generic):
                return None
        if {memory.number for memory in taken} != set(range(len(made))):
            return None
        kinds = [(a.shape, a.dtype, table(new)) for a, new in zip(results, made, strict=True)]
        return _Again(self, given, taken, kinds, is_pair)


#: Shape and dtype of a result, and the table that it is bound to, None for NumPy's own.
_Kind: TypeAlias = tuple[tuple[int, ...], np.dtype[Any], Table | None]


class _Again(Plan):
    """A loop on other memory."""

    def __init__(
        self, loop: _Loop, given: list[_Memory], taken: list[_Memory], made: list[_Kind], pair: bool
    ) -> None:
        self._function, self._rows, self._work = loop.function, loop.rows, loop.work
        self._given, self._taken, self._made, self._is_pair = given, taken, made, pair
        memories = {memory.place for memory in (*given, *taken)}
        self._arguments = [
            None if place in memories else argument for place, argument in enumerate(loop.arguments)
        ]

    def run(self, seen: Seen) -> Any:
        arguments, bases = self._arguments.copy(), seen.bases
        for memory in self._given:
            arguments[memory.place] = memory.of(bases[memory.number])
        results = [new_array(shape, dtype) for shape, dtype, _ in self._made]
        for memory in self._taken:
            arguments[memory.place] = memory.of(results[memory.number])
        _sharing.launch(self._function, tuple(arguments), self._rows, self._work)
        found = [
            native if table is None else make(native, table)
            for native, (_, _, table) in zip(results, self._made, strict=True)
        ]
        return tuple(found) if self._is_pair else found[0]


def _address(array: Host) -> int:
    return int(array.__array_interface__["data"][0])
