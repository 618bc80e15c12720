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
from corepy.kernels._memory import is_fixed, is_passing, new_array
from corepy.kernels._replay import (
    NUMBERS,
    Launched,
    Plan,
    Seen,
    Unclear,
    is_of_numbers,
    note,
)

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


class Loop(NamedTuple):
    """A loop, its arguments, its rows and how much there is to do: see `_sharing.launch`."""

    function: Callable[..., None]
    arguments: tuple[Any, ...]
    rows: int
    work: int


def launch(function: Callable[..., None], arguments: tuple[Any, ...], rows: int, work: int) -> None:
    """Run a loop on its rows, as `corepy._loops._sharing.launch`, and note it."""
    in_turn(Loop(function, arguments, rows, work))


def in_turn(*loops: Loop) -> None:
    """Run loops one after the other, and note them as one launch."""
    for loop in loops:
        _sharing.launch(*loop)
    note(lambda: _Loops(loops))


listen()


class _Memory(NamedTuple):
    """Whose memory an argument of a loop is.

    Attributes
    ----------
    loop, place : int
        Which argument of which loop.
    number : int
        Which array of the caller's, which result, or which one between loops.
    dtype : dtype or None
        As the loop takes it, None for its own.
    shape : tuple of int or None
        Likewise.
    """

    loop: int
    place: int
    number: int
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...] | None

    def of(self, array: Host) -> Host:
        """Show an array as the loop takes it."""
        if self.dtype is not None:
            array = array.view(self.dtype)
        return array if self.shape is None else array.reshape(self.shape)


class _Loops(Launched):
    """Loops that have run on their rows."""

    def __init__(self, loops: tuple[Loop, ...]) -> None:
        self.loops = loops

    def plan(self, seen: Seen, made: list[Any], is_pair: bool) -> Plan | None:
        results = [new._native if new.__class__ is Array else new for new in made]
        if any(result.__class__ is not np.ndarray for result in results):
            return None
        natives = [*seen.bases, *results]
        owners = {_address(native): n for n, native in enumerate(natives)}
        if len(owners) < len(natives):
            raise Unclear
        memories: list[_Memory] = []
        for n, loop in enumerate(self.loops):
            for place, argument in enumerate(loop.arguments):
                if not isinstance(argument, np.ndarray):
                    if not _is_number(argument):
                        return None
                    continue
                number = owners.get(_address(argument))
                if number is None:
                    if is_fixed(argument):
                        continue
                    if not is_passing(argument):
                        return None  # what was made of the values of another one
                    number = owners[_address(argument)] = len(natives)
                    natives.append(argument)
                native = natives[number]
                if argument.nbytes != native.nbytes or not argument.flags.carray:
                    return None
                dtype = None if argument.dtype == native.dtype else argument.dtype
                shape = None if argument.shape == native.shape else argument.shape
                memories.append(_Memory(n, place, number, dtype, shape))
        of_results = range(len(seen.bases), len(seen.bases) + len(results))
        if not {memory.number for memory in memories}.issuperset(of_results):
            return None
        kinds = [(a.shape, a.dtype, table(new)) for a, new in zip(results, made, strict=True)]
        passed = [(a.shape, a.dtype) for a in natives[of_results.stop :]]
        return _Again(self.loops, memories, kinds, passed, is_pair)


def _is_number(argument: Any) -> bool:
    """Say whether an argument of a loop is a number, or a tuple of some."""
    if argument.__class__ is tuple:
        return is_of_numbers(argument)
    return argument.__class__ in NUMBERS or isinstance(argument, np.generic)


#: Shape and dtype of a result, and the table that it is bound to, None for NumPy's own.
_Kind: TypeAlias = tuple[tuple[int, ...], np.dtype[Any], Table | None]


class _Again(Plan):
    """Loops on other memory."""

    def __init__(
        self,
        loops: tuple[Loop, ...],
        memories: list[_Memory],
        made: list[_Kind],
        passed: list[tuple[tuple[int, ...], np.dtype[Any]]],
        pair: bool,
    ) -> None:
        self._memories, self._made, self._passed, self._is_pair = memories, made, passed, pair
        replaced = {(memory.loop, memory.place) for memory in memories}
        self._loops = []
        for n, loop in enumerate(loops):
            kept = [None if (n, m) in replaced else a for m, a in enumerate(loop.arguments)]
            self._loops.append(loop._replace(arguments=tuple(kept)))

    def run(self, seen: Seen) -> Any:
        results = [new_array(shape, dtype) for shape, dtype, _ in self._made]
        natives = [*seen.bases, *results]
        natives += [np.empty(shape, dtype) for shape, dtype in self._passed]
        every = [list(loop.arguments) for loop in self._loops]
        for memory in self._memories:
            every[memory.loop][memory.place] = memory.of(natives[memory.number])
        for loop, arguments in zip(self._loops, every, strict=True):
            _sharing.launch(loop.function, tuple(arguments), loop.rows, loop.work)
        found = [
            native if table is None else make(native, table)
            for native, (_, _, table) in zip(results, self._made, strict=True)
        ]
        return tuple(found) if self._is_pair else found[0]


def _address(array: Host) -> int:
    return int(array.__array_interface__["data"][0])
