"""How many threads NumPy's BLAS uses and where they wake, for the length of an operation."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from corepy._apart import Apart, Undo
from corepy._budget import budget

__all__ = ["apart", "can_hold", "held", "numpys", "single"]


@cache
def can_hold() -> bool:
    """Say whether there is a way to tell NumPy's BLAS how many threads to use."""
    return find_spec("threadpoolctl") is not None and bool(_libraries())


class Library(NamedTuple):
    """A loaded build of BLAS, with its functions bound: to look for them takes longer than they do.

    Attributes
    ----------
    name : str
        ``openblas``, ``mkl`` and so on.
    path : str
    dynlib : ctypes.CDLL
    get_num_threads, set_num_threads : callable
    """

    name: str
    path: str
    dynlib: Any
    get_num_threads: Callable[[], int]
    set_num_threads: Callable[[int], None]


@cache
def _libraries() -> list[Library]:
    from threadpoolctl import ThreadpoolController

    return [_bound(x) for x in ThreadpoolController().select(user_api="blas").lib_controllers]


def _bound(found: Any) -> Library:
    """Return a library that `threadpoolctl` has found."""
    name, dynlib = found.internal_api, found.dynlib
    get = set_ = None
    if name == "openblas" and found.threading_layer != "openmp":
        get, set_ = (_symbol(dynlib, f"openblas_{verb}_num_threads") for verb in ("get", "set"))
    if get is None or set_ is None:
        # Since 3.7 `threadpoolctl` lets only the thread that set the number first change it, while
        # that one lives; ours agree among themselves who does
        # (https://github.com/joblib/threadpoolctl).
        get = found.get_num_threads
        set_ = getattr(found, "_real_set_num_threads", found.set_num_threads)
    return Library(name, found.filepath, dynlib, get, set_)


def _symbol(dynlib: Any, name: str) -> Any:
    """Return OpenBLAS's function, whatever is around its name in that build, None without it."""
    for before, after in itertools.product(("", "scipy_"), ("", "64_", "_64")):
        function = getattr(dynlib, f"{before}{name}{after}", None)
        if function is not None:
            return function
    return None


@cache
def numpys() -> list[Any]:
    """Return the builds of OpenBLAS that NumPy has brought, as `ctypes` sees them."""
    import numpy as np

    site = Path(np.__file__).parents[1]
    homes = site / "numpy.libs", site / "numpy"
    return [
        library.dynlib
        for library in _libraries()
        if library.name == "openblas"
        and any(Path(library.path).is_relative_to(home) for home in homes)
    ]


class _Hold:
    """BLAS held to a number of threads from the first block that asks to the end of the last.

    The number is BLAS's own, for the whole process: of threads of ours that hold it at once, the
    least wish counts. None of them may put back the number that it found, as that may be
    another's; so what the first one found is put back when the last one leaves.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._count = 0
        self._before: list[int] = []

    def enter(self, count: int) -> None:
        with self._lock:
            if not self._holders:
                self._count = count
                self._before = [library.get_num_threads() for library in _libraries()]
                for library, before in zip(_libraries(), self._before, strict=True):
                    if before > count:
                        library.set_num_threads(count)
            elif count < self._count:
                self._count = count
                for library in _libraries():
                    if library.get_num_threads() > count:
                        library.set_num_threads(count)
            self._holders += 1

    def leave(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
            most = budget()
            for library, before in zip(_libraries(), self._before, strict=True):
                # Who has asked for another number meanwhile has it.
                if before > self._count and library.get_num_threads() == self._count:
                    library.set_num_threads(before if most is None else min(before, most))


_HOLD: Final = _Hold()


class _Held(AbstractContextManager[None]):
    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> None:
        _HOLD.enter(self._count)

    def __exit__(self, *error: object) -> None:
        _HOLD.leave()


_SINGLE: Final = _Held(1)


def held(count: int) -> AbstractContextManager[None]:
    """Hold BLAS to so many threads at most for the length of a block, in the whole process.

    Its threads wait for each other in a loop: where several of ours call it, or another process
    has a core, that takes many times as long as the work. Where several threads hold BLAS, the
    least wish counts. It costs some microseconds.
    """
    return _Held(count)


def single() -> AbstractContextManager[None]:
    """Hold BLAS to one thread for the length of a block, in the whole process."""
    return _SINGLE


#: A bit for each processor; who has few of them has all in the first word.
_Mask = ctypes.c_uint64 * 16
_BYTES: Final = ctypes.sizeof(_Mask)


class _Placeable(NamedTuple):
    """A library that places its threads, by their numbers and masks of processors."""

    library: Library
    get: Callable[[int, int, Any], int]
    set: Callable[[int, int, Any], int]


@cache
def _placeable() -> list[_Placeable]:
    """Return the libraries that place their threads: OpenBLAS, unless they are of OpenMP."""
    found = []
    for library in _libraries():
        if hasattr(library.dynlib, "openblas_setaffinity"):
            kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p)
            get, set_ = (
                kind((f"openblas_{verb}affinity", library.dynlib)) for verb in ("get", "set")
            )
            found.append(_Placeable(library, get, set_))
    return found


def _keep_off(processor: int) -> Undo | None:
    """Keep BLAS's threads from a processor; return what undoes that."""
    if not can_hold():
        return None
    placed = []
    for place in _placeable():
        # Asked anew each time: the number beyond the last is that of the calling thread.
        for thread in range(place.library.get_num_threads() - 1):
            before = _Mask()
            if place.get(thread, _BYTES, ctypes.addressof(before)):
                continue  # it stays where it is
            word = before[0]
            apart = word & ~(1 << processor)
            if apart and apart != word:
                before[0] = apart
                place.set(thread, _BYTES, ctypes.addressof(before))
                before[0] = word
                placed.append((place, thread, before))
    return partial(_put_back, placed) if placed else None


def _put_back(placed: list[tuple[_Placeable, int, Any]]) -> None:
    for place, thread, before in placed:
        place.set(thread, _BYTES, ctypes.addressof(before))


_APART: Final = Apart(_keep_off)


def apart() -> AbstractContextManager[None]:
    """Let BLAS's threads wake apart from the caller's processor for the length of a block.

    That costs some 20 us, and less than one where the caller has not slept since BLAS was called
    last; see `corepy._places`.
    """
    return _APART
