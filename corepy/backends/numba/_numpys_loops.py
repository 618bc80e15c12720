"""NumPy's own inner loops, run on stretches of the elements by threads that need no lock.

A ufunc holds a table of C functions, one for each combination of dtypes. Its layout is part of
NumPy's C interface (``numpy/ufuncobject.h``), as is that of arrays (``numpy/ndarraytypes.h``); what
is read there is compared with what NumPy says in Python. Results are NumPy's to the last bit, and
so are its warnings: where a loop has set a flag of the processor's, NumPy computes those elements
once more.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from corepy._loops._atomics import call
from corepy.backends.numba._compiled import kernel, launch

__all__ = ["NumPyLoop", "addresses_of", "call_loop", "extremes", "flags", "loop_of", "tell"]

Array = npt.NDArray[Any]


class _Table(ctypes.Structure):
    """The beginning of ``PyUFuncObject``."""

    _fields_ = (
        ("head", ctypes.c_byte * object.__basicsize__),
        *((name, ctypes.c_int) for name in ("nin", "nout", "nargs", "identity")),
        *((name, ctypes.POINTER(ctypes.c_void_p)) for name in ("functions", "data")),
        *((name, ctypes.c_int) for name in ("ntypes", "reserved")),
        *((name, ctypes.c_void_p) for name in ("name", "types")),
    )


#: The processor's flags for invalid operations, division by zero, overflow and underflow, as the C
#: library numbers them.
_FLAGS: Final = {"x86_64": 0x1D, "aarch64": 0x0F, "arm64": 0x0F}


@cache
def flags() -> tuple[int, int, int] | None:
    """Return the processor's flags, and where what clears and tests them is; None if unknown."""
    asked = _FLAGS.get(platform.machine())
    if asked is None or sys.implementation.name != "cpython" or config.DISABLE_JIT:
        return None
    try:
        library = ctypes.CDLL(None)
        clear, test = (
            ctypes.cast(each, ctypes.c_void_p).value
            for each in (library.feclearexcept, library.fetestexcept)
        )
    except (AttributeError, OSError, TypeError):  # the C library has no such functions, or no name
        return None
    return (asked, clear, test) if clear and test else None


class _Layout(ctypes.Structure):
    """The beginning of ``PyArrayObject``."""

    _fields_ = (
        ("head", ctypes.c_byte * object.__basicsize__),
        ("data", ctypes.c_void_p),
    )


def _address(x: Array) -> int:
    """Return where the elements of an ndarray begin, in a quarter of the time that NumPy takes."""
    return _Layout.from_address(id(x)).data or 0


@cache
def _tells_addresses() -> bool:
    x = np.arange(3)[1:]
    return bool(_address(x) == x.__array_interface__["data"][0])


def addresses_of(ufunc: np.ufunc, dtypes: tuple[np.dtype[Any], ...]) -> tuple[int, int] | None:
    """Return the addresses of the loop for some dtypes and of its data, None if not found."""
    if ufunc is np.power and dtypes[0].kind in "iu":
        return None  # which takes the interpreter's lock to raise an error of negative powers
    table = _Table.from_address(id(ufunc))
    facts = ("nin", "nout", "nargs", "ntypes")
    if any(getattr(table, name) != getattr(ufunc, name) for name in facts) or not table.types:
        return None
    numbers = ctypes.string_at(table.types, table.nargs * table.ntypes)
    rows = [numbers[i : i + table.nargs] for i in range(0, len(numbers), table.nargs)]
    if rows != [bytes(np.dtype(c).num for c in text.replace("->", "")) for text in ufunc.types]:
        return None
    wanted = bytes(dtype.num for dtype in dtypes)
    if wanted not in rows or not all(dtype.isnative for dtype in dtypes):
        return None
    row = rows.index(wanted)
    function = table.functions[row]
    data = table.data[row] if table.data else None
    return (function, data or 0) if function else None


@intrinsic  # type: ignore[untyped-decorator]
def call_loop(context: Any, function: Any, places: Any, counts: Any, steps: Any, data: Any) -> Any:
    """Call ``void function(char **, intptr_t const *, intptr_t const *, void *)``."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 4)
        builder.call(builder.inttoptr(operands[0], kind.as_pointer()), operands[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


#: Rows after which flags are looked at, which takes as long as some hundred elements.
_TOGETHER: Final = 16


@kernel()
def _some(
    addresses: tuple[int, int, int, int],
    operands: Array,
    length: int,
    size: int,
    start: int,
    stop: int,
) -> None:
    """Run a loop on some rows, whatever flags it sets; see `_rows`."""
    loop, data, _, _ = addresses
    count = operands.shape[1]
    words = np.empty(count + 1, np.int64)
    first = words.ctypes.data
    steps = operands.ctypes.data + 16 * count
    for row in range(start, stop):
        for k in range(count):
            words[k] = operands[0, k] + row * operands[1, k]
        words[count] = min(length, size - row * length)
        call_loop(loop, first, first + 8 * count, steps, data)


@kernel()
def _rows(
    addresses: tuple[int, int, int, int],
    operands: Array,
    length: int,
    size: int,
    used: int,
    raised: Array,
    start: int,
    stop: int,
) -> None:
    """Run a loop on rows of so many elements, of ``size`` in all.

    ``operands (3, count)`` are the places where the operands and the result begin, their strides
    from row to row, and their steps in a row. ``raised (rows,)`` gets the flags of each row. The
    addresses are those of the loop, of its data, and of the functions that clear and test flags.
    """
    clear, test = addresses[2:]
    raised[start:stop] = 0
    for first in range(start, stop, _TOGETHER):
        last = min(first + _TOGETHER, stop)
        call(clear, used, 0, 0)
        _some(addresses, operands, length, size, first, last)
        if call(test, used, 0, 0):  # which they were is found out by running them once more
            for row in range(first, last):
                call(clear, used, 0, 0)
                _some(addresses, operands, length, size, row, row + 1)
                raised[row] = call(test, used, 0, 0)


class NumPyLoop:
    """The loop of a ufunc for operands of some dtypes.

    Attributes
    ----------
    dtype : dtype
        What the result has.
    """

    __slots__ = ("_addresses", "_ufunc", "_used", "dtype")

    def __init__(
        self,
        ufunc: np.ufunc,
        dtype: np.dtype[Any],
        used: int,
        addresses: tuple[int, int, int, int],
    ) -> None:
        self._ufunc = ufunc
        self._used = used
        self._addresses = addresses
        self.dtype = dtype

    def launch(
        self,
        operands: Sequence[Array],
        strides: list[int],
        steps: list[int],
        length: int,
        size: int,
        work: int,
    ) -> Array:
        """Run it on rows of so many elements, of `size` in all, in several threads.

        Parameters
        ----------
        operands : sequence of ndarray
            The operands, and the result: ndarrays themselves, no scalars of NumPy's.
        strides, steps : list of int
            Bytes from row to row of each, and within a row.
        work : int
            How much there is to do, in elements of a cheap loop.

        Returns
        -------
        ndarray
            The processor's flags that each row has set.
        """
        places = [_address(x) for x in operands]
        described = np.array([places, strides, steps], np.int64)
        raised = np.empty(-(-size // length), np.int32)
        arguments = (self._addresses, described, length, size, self._used, raised)
        launch(_rows, arguments, raised.size, work)
        return raised

    def run(
        self,
        operands: Sequence[Array],
        strides: list[int],
        steps: list[int],
        out: Array,
        length: int,
        again: Callable[[int], list[Array]],
        work: int,
    ) -> None:
        """Run it on rows of so many elements, and warn as NumPy does.

        Parameters
        ----------
        operands, strides, steps, length, work
            As of `launch`, but without the result.
        out : ndarray
            The result: new memory, contiguous.
        again : callable
            Gives the operands of a row by its number.

        Raises
        ------
        FloatingPointError
            Where NumPy's own would, by `numpy.errstate`.
        """
        size = self.dtype.itemsize
        strides, steps = [*strides, length * size], [*steps, size]
        raised = self.launch((*operands, out), strides, steps, length, out.size, work)
        tell(raised, lambda i: self._ufunc(*again(i)))


def tell(raised: Array, again: Callable[[int], object]) -> None:
    """Let NumPy tell of the flags that rows have set: it warns, raises an error, or ignores them.

    Parameters
    ----------
    raised : ndarray
        The flags of each row.
    again : callable
        Has NumPy compute a row once more, by its number.
    """
    if raised.tobytes().count(0) == raised.nbytes:
        return
    seen = 0
    for i in np.flatnonzero(raised):
        if raised[i] & ~seen:
            seen |= int(raised[i])
            again(int(i))


@cache
def loop_of(ufunc: np.ufunc, *dtypes: np.dtype[Any]) -> NumPyLoop | None:
    """Return the loop that a ufunc runs for operands of some dtypes, None where it is not found."""
    told = flags()
    if told is None or not _tells_addresses():
        return None
    resolved = ufunc.resolve_dtypes((*dtypes, None))
    found = addresses_of(ufunc, resolved)
    if found is None or resolved[:-1] != dtypes:
        return None
    used, clear, test = told
    return NumPyLoop(ufunc, resolved[-1], used, (*found, clear, test))


def extremes(ufunc: np.ufunc, x: Array, length: int) -> Array | None:
    """Reduce memory chunk by chunk by `numpy.maximum` or `numpy.minimum`, in several threads.

    Parameters
    ----------
    x : ndarray
        One-dimensional and contiguous.
    length : int
        Elements of a chunk.

    Returns
    -------
    ndarray or None
        What each chunk is reduced to; None where that cannot be done.
    """
    loop = loop_of(ufunc, x.dtype, x.dtype)
    if loop is None:
        return None
    parts = x[::length].copy()  # which are compared with themselves once more
    size = x.itemsize
    strides, steps = [size, length * size, size], [0, size, 0]
    loop.launch((parts, x, parts), strides, steps, length, x.size, x.nbytes // 8)
    return parts
