"""NumPy's own inner loops, run on stretches of the elements by threads that need no lock.

A ufunc holds a table of C functions, one for each combination of dtypes. Its layout is part of
NumPy's C interface (``numpy/ufuncobject.h``), and what is read here is compared with what the ufunc
says of itself in Python. Results are NumPy's to the last bit, and so are its warnings: where a
loop has set a flag of the processor's, NumPy computes those elements once more.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from corepy._loops._atomics import call
from corepy.backends.numba._compiled import kernel, launch

__all__ = ["by_rows", "extremes"]

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
_FLAGS: Final = {"x86_64": 0x1D, "AMD64": 0x1D, "aarch64": 0x0F, "arm64": 0x0F}


@cache
def _flags() -> tuple[int, int, int] | None:
    """Return the flags, and the addresses of what clears and tests them; None where unknown."""
    flags = _FLAGS.get(platform.machine())
    if flags is None or sys.implementation.name != "cpython" or config.DISABLE_JIT:
        return None
    try:
        library = ctypes.CDLL(None)
        clear, test = (
            ctypes.cast(each, ctypes.c_void_p).value
            for each in (library.feclearexcept, library.fetestexcept)
        )
    except (AttributeError, OSError, TypeError):  # the C library has no such functions, or no name
        return None
    return (flags, clear, test) if clear and test else None


@cache
def _loop(ufunc: np.ufunc, dtypes: tuple[np.dtype[Any], ...]) -> tuple[int, int] | None:
    """Return the addresses of the loop for some dtypes and of its data, None if not found."""
    table = _Table.from_address(id(ufunc))
    facts = ("nin", "nout", "nargs", "ntypes")
    if any(getattr(table, name) != getattr(ufunc, name) for name in facts) or not table.types:
        return None
    numbers = ctypes.string_at(table.types, table.nargs * table.ntypes)
    rows = [numbers[i : i + table.nargs] for i in range(0, len(numbers), table.nargs)]
    if rows != [bytes(np.dtype(c).num for c in text.replace("->", "")) for text in ufunc.types]:
        return None
    if ufunc is np.power and dtypes[0].kind in "iu":
        return None  # which takes the interpreter's lock to raise an error of negative powers
    wanted = bytes(dtype.num for dtype in dtypes)
    if wanted not in rows or not all(dtype.isnative for dtype in dtypes):
        return None
    row = rows.index(wanted)
    function = table.functions[row]
    return (function, table.data[row] or 0) if function else None


@intrinsic  # type: ignore[untyped-decorator]
def _run(context: Any, function: Any, places: Any, counts: Any, steps: Any, data: Any) -> Any:
    """Call ``void function(char **, intptr_t const *, intptr_t const *, void *)``."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 4)
        builder.call(builder.inttoptr(operands[0], kind.as_pointer()), operands[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


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
    loop, data, clear, test = addresses
    count = operands.shape[1]
    words = np.empty(count + 1, np.int64)
    first = words.ctypes.data
    steps = operands.ctypes.data + 16 * count
    for row in range(start, stop):
        for k in range(count):
            words[k] = operands[0, k] + row * operands[1, k]
        words[count] = min(length, size - row * length)
        call(clear, used, 0, 0)
        _run(loop, first, first + 8 * count, steps, data)
        raised[row] = call(test, used, 0, 0)


def _launched(
    ufunc: np.ufunc,
    operands: list[Array],
    strides: list[int],
    steps: list[int],
    length: int,
    size: int,
    work: int,
) -> Array | None:
    """Run a ufunc's loop on rows of so many elements, of `size` in all.

    Parameters
    ----------
    operands : list of ndarray
        The first row of each operand, and of the result.
    strides, steps : list of int
        Bytes from row to row, and within a row.

    Returns
    -------
    ndarray or None
        The flags that each row has set; None where there is no such loop.
    """
    flags = _flags()
    loop = None if flags is None else _loop(ufunc, tuple([x.dtype for x in operands]))
    if flags is None or loop is None:
        return None
    places = [x.__array_interface__["data"][0] for x in operands]
    described = np.array([places, strides, steps], np.int64)
    raised = np.empty(-(-size // length), np.int32)
    used, clear, test = flags
    arguments = ((*loop, clear, test), described, length, size, used, raised)
    launch(_rows, arguments, raised.size, work)
    return raised


def by_rows(
    ufunc: np.ufunc,
    out: Array,
    row: Callable[[int], list[Array]],
    strides: list[int],
    length: int,
    work: int,
) -> bool:
    """Run a ufunc on rows of elements in several threads; say whether that can be done.

    Parameters
    ----------
    out : ndarray
        The result: new memory, contiguous, in rows of so many elements but for the last.
    row : callable
        Gives the operands of a row by its number, all one-dimensional; those of a single value
        have a step of 0, or one element.
    strides : list of int
        Bytes from one row to the next, of the operands.
    work : int
        How much there is to do, in elements of a cheap loop.

    Raises
    ------
    FloatingPointError
        Where NumPy's own would, by `numpy.errstate`.
    """
    first = row(0)
    steps = [0 if x.size == 1 < length else x.strides[0] for x in first]
    strides, steps = [*strides, length * out.itemsize], [*steps, out.itemsize]
    raised = _launched(ufunc, [*first, out], strides, steps, length, out.size, work)
    if raised is None:
        return False
    if raised.tobytes().count(0) < raised.nbytes:
        seen = 0
        for i in np.flatnonzero(raised):
            if raised[i] & ~seen:  # NumPy warns of them, or raises them, or has them ignored
                seen |= int(raised[i])
                ufunc(*row(int(i)))
    return True


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
    parts = x[::length].copy()  # which are compared with themselves once more
    size = x.itemsize
    strides, steps = [size, length * size, size], [0, size, 0]
    done = _launched(ufunc, [parts, x, parts], strides, steps, length, x.size, x.nbytes // 8)
    return None if done is None else parts
