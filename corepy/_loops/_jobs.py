"""Work that several threads share without the interpreter's lock.

Whoever calls a loop puts it on a *board*, works on it, and takes it off. Threads that watch the
board join in: each takes the next stretch of rows as long as there are any. That costs the caller
less than a microsecond, where to call another thread through the interpreter costs tens, as the
threads wait for its lock again after each stretch.

A *board* is some words of memory: the job that is on it and how many threads have joined, how many
jobs there were, how many threads watch, and how often they were called away. A *job* is the address
of a function, how its rows are shared, and its arguments, which the caller's frame keeps alive.
"""

from __future__ import annotations

import ctypes
import types as python
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import config, types
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic

from corepy._crew import Entrance
from corepy._loops._atomics import add, call, load, pause, replace, store
from corepy._loops._bells import Bell
from corepy._loops._compile import _Cache, compiler, digest, kept

__all__ = ["Board", "Flag", "raised", "shared"]

Flag = npt.NDArray[np.int64]

#: Bytes that processors hand to each other; what several of them write is so far apart.
_LINE: Final = 128
#: Of a board: the job, and in the bits that its address leaves free how many have joined.
_JOB: Final = 0
_POSTED: Final = _LINE
_WATCHED: Final = 2 * _LINE
_CALLS: Final = 2 * _LINE + 8
_REST: Final = 2 * _LINE + 16
_BELL: Final = 2 * _LINE + 24
_WAIT: Final = 2 * _LINE + 32
_RING: Final = 2 * _LINE + 40
#: How many sleep for whom nobody has rung yet.
_ASLEEP: Final = 3 * _LINE
#: Of a job: how many stretches are taken, how many of them from the last one back, and what does
#: not change.
_TAKEN: Final = 0
_BACK: Final = 8
_FUNCTION: Final = _LINE
_PARTS: Final = _LINE + 8
_ROWS: Final = _LINE + 16
_MOST: Final = _LINE + 24
_FAILED: Final = _LINE + 32
_ARGUMENTS: Final = 2 * _LINE
_SIZE: Final = 4096

#: Turns of a loop for which threads wait for each other at once: 30 to 90 us on processors that can
#: pause, as threads that have slept need some 20 to wake. On others it is over sooner.
_TURNS: Final = 2000
#: Turns for which a thread watches for the next job: some 40 us. With 200 other libraries' threads
#: would find its processor taken, and do theirs on the caller's.
_PATIENCE: Final = 1600
#: Turns for which somebody who was called leaves the interpreter's lock to the caller, who is about
#: to begin: to wait for the lock takes as long as to wake.
_GRACE: Final = 200
#: Microseconds for which a caller sleeps then, again and again.
_NAP: Final = 50

_FILES: Final = (Path(__file__), Path(__file__).with_name("_atomics.py"))
_compiled = compiler(_FILES[1:])()


# ---------------------------------------------------------------------------- without the lock


@_compiled
def _begin(part: int, parts: int, rows: int) -> int:
    """Return the first row of a stretch: in the middle they are short, so that all end together."""
    if rows == parts:
        return part
    near = min(part, parts - part)
    before = (rows + -rows * (parts - 2 * near) ** 2 // parts**2) // 2
    return rows - before if near < part else before


@_compiled
def _work(job: int, caller: bool) -> None:
    """Work on stretches of a job until there are no more.

    The caller takes them from the first one on, who joins from the last one back: so each finds in
    its own cache what it wrote in the job before.
    """
    parts, rows, function = load(job + _PARTS), load(job + _ROWS), load(job + _FUNCTION)
    part = -1
    while add(job + _TAKEN, 1) < parts:
        part = part + 1 if caller else parts - 1 - add(job + _BACK, 1)
        start, stop = _begin(part, parts, rows), _begin(part + 1, parts, rows)
        if start < stop and call(function, job, start, stop):
            store(job + _FAILED, 1)


@_compiled
def _take_off(board: int, job: int) -> int:
    """Take a job off its board as soon as nobody works on it; return how often that took a nap.

    Not in Python: a signal's exception would leave while others still write to the job's arrays.
    """
    naps = 0
    while True:
        for _ in range(_TURNS):
            if replace(board + _JOB, job, 0):
                return naps
            pause()
        naps += 1
        rest = load(board + _REST)
        if rest:
            call(rest, _NAP, 0, 0)


@_compiled
def _ring(board: int, most: int) -> None:
    """Wake so many of those that sleep."""
    for _ in range(most):
        asleep = load(board + _ASLEEP)
        if not asleep:
            return
        if replace(board + _ASLEEP, asleep, asleep - 1):
            call(load(board + _RING), load(board + _BELL), 0, 0)


@_compiled
def _sleep(board: int, known: int) -> None:
    """Sleep until somebody rings, unless watchers have been called away."""
    add(board + _ASLEEP, 1)
    while add(board + _CALLS, 0) != known:  # who called may have seen nobody asleep
        asleep = load(board + _ASLEEP)
        if not asleep:  # somebody has rung
            break
        if replace(board + _ASLEEP, asleep, asleep - 1):
            return
    while call(load(board + _WAIT), load(board + _BELL), 0, 0):  # a signal has woken it
        pass


@_compiled
def _run(board: int, job: int, rows: int, parts: int, most: int) -> int:
    store(job + _TAKEN, 0)
    store(job + _BACK, 0)
    store(job + _ROWS, rows)
    store(job + _PARTS, parts)
    store(job + _MOST, most)
    store(job + _FAILED, 0)
    naps = 0
    if replace(board + _JOB, 0, job):
        add(board + _POSTED, 1)
        _ring(board, most - load(board + _WATCHED))
        _work(job, True)
        naps = _take_off(board, job)
    else:  # another thread's job is there
        store(job + _PARTS, 1)
        _work(job, True)
    return int(2 * naps + load(job + _FAILED))


@_compiled
def _watch(board: int, known: int, turns: int) -> bool:
    """Join in jobs until there was none for a while; say whether watchers were called away."""
    add(board + _WATCHED, 1)
    seen, idle = -1, 0
    while idle < turns:
        idle += 1
        word = load(board + _JOB)
        if word:
            posted, job = load(board + _POSTED), word & -_LINE
            # A job that is gone by now leaves another word, or is there anew.
            wanted = posted != seen and word - job < load(job + _MOST)
            if wanted and replace(board + _JOB, word, word + 1):
                _work(job, False)
                add(board + _JOB, -1)
                seen, idle = posted, 0
        elif load(board + _CALLS) != known:
            break
        pause()
    add(board + _WATCHED, -1)
    return bool(load(board + _CALLS) != known)


@_compiled
def _attend(board: int, told: Flag, known: int, turns: int) -> None:
    store(told.ctypes.data, 1)
    while not _watch(board, known, turns) and load(board + _BELL):
        _sleep(board, known)
    for _ in range(_GRACE):
        pause()


@_compiled
def _raised(flag: Flag, turns: int) -> bool:
    address = flag.ctypes.data
    for _ in range(turns):
        if load(address):
            return True
        pause()
    return False


def raised(flag: Flag) -> bool:
    """Wait a moment for a flag to become other than zero, and say whether it has."""
    return not config.DISABLE_JIT and bool(_raised(flag, _TURNS))


# ---------------------------------------------------------------------------- boards


def _enter(board: int, job: int, rows: int, parts: int, most: int) -> int:
    return int(_run(board, job, rows, parts, most))


_enter.__qualname__ += f"_{digest(_FILES)}"


@cache
def _entered() -> Any:
    """Return `_run` as a function of C's, which has to be kept as long as its address is."""
    # What `cfunc` makes, but for the cache, which shall not be Numba's own here either.
    made = CFunc(_enter, ((types.int64,) * 5, types.int64), {}, {})
    with suppress(RuntimeError):  # no folder can be written: each process compiles for itself
        made._cache = _Cache(_enter)
    made.compile()
    return made


def _memory() -> tuple[npt.NDArray[np.int64], int]:
    """Make the memory of a board or a job, all zero, at the beginning of a line."""
    words = np.zeros((_SIZE + _LINE) // 8, np.int64)
    words = words[-words.ctypes.data % _LINE // 8 :]
    return words, words.ctypes.data


def _sleeper() -> int:
    """Return the address of the system's ``usleep``, 0 where it has none."""
    try:
        return ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value or 0
    except (AttributeError, OSError, TypeError):
        return 0


class Board:
    """Where a job is seen by the threads that watch."""

    def __init__(self) -> None:
        self._words, self._address = _memory()
        self._words[_REST // 8] = _sleeper()
        if not config.DISABLE_JIT:
            self._bell = Bell()
            self._words[_BELL // 8] = self._bell.address
            self._words[_WAIT // 8] = self._bell.wait
            self._words[_RING // 8] = self._bell.ring
        # Memory is used again for the next job, but stays: who looks at one may be late.
        self._jobs: list[tuple[npt.NDArray[np.int64], int]] = []
        self._entered: list[tuple[npt.NDArray[np.int64], int]] = []

    @property
    def watchers(self) -> int:
        """How many threads watch."""
        return int(self._words[_WATCHED // 8])

    @property
    def calls(self) -> int:
        """How often watchers were called away."""
        return int(self._words[_CALLS // 8])

    @property
    def rings(self) -> bool:
        """Whether threads sleep here until they are called away, or for the next job."""
        return bool(self._words[_BELL // 8])

    def call_away(self, count: int) -> None:
        """End the watching of all threads, and the sleep of so many."""
        self._words[_CALLS // 8] += 1
        if self.rings:
            _ring(self._address, count)

    def attend(self, told: Flag, calls: int) -> None:
        """Join in jobs until watchers are called away, or, if no bell `rings`, for a while.

        Parameters
        ----------
        told : Flag
            Set first. Who waits for it finds the interpreter's lock free: it is released before.
        calls : int
            How often they were called when the caller last looked for what it is wanted for.
        """
        if config.DISABLE_JIT:
            told[0] = 1
        else:
            _attend(self._address, told, calls, _PATIENCE)

    def entrance(self) -> Entrance | None:
        """Return how other compiled code puts a job here; None where nothing is compiled."""
        if config.DISABLE_JIT:
            return None
        memory = _memory()
        self._entered.append(memory)
        job, board = memory[1], self._address
        return Entrance(
            *(_entered().address, board, board + _WATCHED, job),
            *(job + _FUNCTION, job + _ARGUMENTS, _NAP * 1e-6),
        )

    def run(
        self, loop: Callable[..., int], arguments: tuple[Any, ...], rows: int, parts: int, most: int
    ) -> tuple[bool, float]:
        """Run a loop that is `shared`, with so many watchers at the most, some of whom may sleep.

        Returns
        -------
        bool
            Whether the loop has raised an exception anywhere.
        float
            Seconds at the least that the calling thread waited for others.
        """
        job = self._jobs.pop() if self._jobs else _memory()
        result = loop(self._address, job[1], rows, parts, most, *arguments)
        self._jobs.append(job)
        return result % 2 != 0, result // 2 * _NAP * 1e-6


# ---------------------------------------------------------------------------- loops


def _borrowed(builder: Any, kind: Any, value: Any) -> Any:
    """Return an argument whose arrays have no owner: the caller's frame holds them.

    A loop counts the owners of its slices. Threads would wait for each other at every row to do it
    in one place.
    """
    if isinstance(kind, types.Array):
        for place in range(2):  # what counts the owners, and the object behind it
            nobody = value.type.elements[place](None)
            value = builder.insert_value(value, nobody, place)
    elif isinstance(kind, types.BaseTuple):
        for i, each in enumerate(kind):
            element = _borrowed(builder, each, builder.extract_value(value, i))
            value = builder.insert_value(value, element, i)
    return value


def _packer(kernel: Any) -> Any:
    """Make the function that packs the arguments of a kernel into a job, which calls it then."""

    @intrinsic  # type: ignore[untyped-decorator]
    def pack(context: Any, job: Any, arguments: Any) -> Any:
        taken = tuple(arguments)
        wanted = (*taken, types.int64, types.int64)
        called = types.Dispatcher(kernel).get_call_type(context, wanted, {})

        def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
            compiled = kernel.get_compile_result(called)
            context.active_code_library.add_linking_library(compiled.library)
            packed = ir.LiteralStructType([context.get_value_type(each) for each in taken])
            if context.get_abi_sizeof(packed) > _SIZE - _ARGUMENTS:
                raise ValueError(f"{kernel.py_func.__name__}: its arguments do not fit a job")

            def place(builder: Any, job: Any, offset: int, kind: Any) -> Any:
                address = builder.add(job, ir.IntType(64)(offset))
                return builder.inttoptr(address, kind.as_pointer())

            # A function that finds the arguments in the job, and tells whether it raised.
            module, word, status = builder.module, ir.IntType(64), ir.IntType(32)
            stretch = ir.Function(
                module, ir.FunctionType(status, [word] * 3), module.get_unique_name("stretch")
            )
            stretch.linkage = "internal"
            inner = ir.IRBuilder(stretch.append_basic_block())
            job, start, stop = stretch.args
            found = inner.load(place(inner, job, _ARGUMENTS, packed))
            values = [inner.extract_value(found, i) for i in range(len(taken))]
            function = context.declare_function(module, compiled.fndesc)
            ended, _ = context.call_conv.call_function(
                inner, function, called.return_type, called.args, [*values, start, stop]
            )
            inner.ret(inner.zext(ended.is_error, status))

            job, given = operands
            values = [
                _borrowed(builder, kind, builder.extract_value(given, i))
                for i, kind in enumerate(taken)
            ]
            into = place(builder, job, _ARGUMENTS, packed)
            for i, value in enumerate(values):
                builder.store(value, builder.gep(into, [status(0), status(i)]))
            builder.store(builder.ptrtoint(stretch, word), place(builder, job, _FUNCTION, word))
            return context.get_dummy_value()

        return types.void(job, arguments), generate

    return pack


def _template(board: int, job: int, rows: int, parts: int, most: int, *arguments: Any) -> int:
    _pack(job, arguments)  # type: ignore[name-defined]  # noqa: F821
    return _run(board, job, rows, parts, most)


def shared(kernel: Any) -> Callable[..., int] | None:
    """Return what runs a kernel in the calling thread and those that join; None if it cannot.

    For `Board.run` to call: ``(board, job, rows, parts, most, *arguments)``.
    """
    # Else it is a function of Python's, or Numba compiles nothing.
    return _shared(kernel) if isinstance(kernel, Dispatcher) else None


@cache
def _shared(kernel: Any) -> Callable[..., int]:
    of = kernel.py_func
    # Numba keeps it beside the kernel's source, and compiles it anew when that is edited.
    code = _template.__code__.replace(co_filename=of.__code__.co_filename)
    names = {"_pack": _packer(kernel), "_run": _run, "__name__": of.__module__}
    function = python.FunctionType(code, names, of.__name__)
    function.__qualname__ = f"{of.__qualname__}_shared_{digest(_FILES)}"
    return kept(function)
