"""Compiled steps of long Fourier transforms, around NumPy's own of short ones."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.backends.numba._compiled import BLOCK, kernel
from corepy.backends.numba._numpys_loops import call_loop

Array = npt.NDArray[Any]

#: Columns and rows that are transformed at a time: they fill cache lines, and stay in the cache; a
#: multiple of what a vector register holds.
TOGETHER: Final = 16
#: Elements that are multiplied at a time. By as many are rows longer than they are, which is also
#: so that they do not all begin in one set of the cache.
RUN: Final = 16
#: Bits of an exponent that the finer table of roots of unity has.
FINE: Final = 10
_MASK: Final = (1 << FINE) - 1


@kernel()
def _transform(
    addresses: tuple[int, int],
    factor: Array,
    x: Array,
    out: Array,
    sizes: tuple[int, int, int],
) -> None:
    """Transform so many rows of ``x``, and elements of them, into those of ``out``."""
    words = np.empty(11, np.int64)
    words[0], words[1], words[2] = x.ctypes.data, factor.ctypes.data, out.ctypes.data
    words[3], words[4], words[5] = sizes
    words[6], words[7], words[8] = x.strides[0], 0, out.strides[0]
    words[9], words[10] = x.itemsize, out.itemsize
    place = words.ctypes.data
    call_loop(addresses[0], place, place + 24, place + 48, addresses[1])


@kernel()
def transform_each(
    addresses: tuple[int, int], factor: Array, x: Array, out: Array, start: int, stop: int
) -> None:
    """Transform the rows of ``x (rows, n)`` into those of ``out (rows, m)``.

    A task is `TOGETHER` rows. NumPy fills a vector register with as many rows as it takes, from the
    first one on, and takes those that are left one by one, which rounds otherwise: so it has the
    same ones left in however many calls.
    """
    mine, into = x[start * TOGETHER : stop * TOGETHER], out[start * TOGETHER : stop * TOGETHER]
    _transform(addresses, factor, mine, into, (len(mine), x.shape[1], out.shape[1]))


@kernel()
def _root(fine: Array, coarse: Array, exponent: int) -> Any:
    return fine[np.uint64(exponent & _MASK)] * coarse[np.uint64(exponent >> FINE)]


@kernel()
def _copy_in(x: Array, first: int, count: int, some: Array) -> None:
    for i in range(x.shape[0]):
        for c in range(count):
            some[np.uint64(c), np.uint64(i)] = x[np.uint64(i), np.uint64(first + c)]


@kernel()
def _copy_out(some: Array, first: int, count: int, out: Array) -> None:
    for i in range(out.shape[0]):
        for c in range(count):
            out[np.uint64(i), np.uint64(first + c)] = some[np.uint64(c), np.uint64(i)]


@kernel()
def _turn_in(x: Array, first: int, count: int, some: Array) -> None:
    """Put so many columns of `x` into the rows of `some`."""
    if count == TOGETHER:  # as many as the compiler knows
        _copy_in(x, first, TOGETHER, some)
    else:
        _copy_in(x, first, count, some)


@kernel()
def _turn_out(some: Array, first: int, count: int, out: Array) -> None:
    """Undo `_turn_in`."""
    if count == TOGETHER:
        _copy_out(some, first, TOGETHER, out)
    else:
        _copy_out(some, first, count, out)


@kernel()
def transform_each_column(
    addresses: tuple[int, int], factor: Array, x: Array, out: Array, start: int, stop: int
) -> None:
    """Transform the columns of each matrix of ``x (k, n, columns)`` into those of ``out``.

    A task is some columns of one matrix. ``out (k, m, columns)`` may be `x` itself.
    """
    points, columns = x.shape[1:]
    some = np.empty((TOGETHER, points + RUN), x.dtype)
    found = np.empty((TOGETHER, out.shape[1] + RUN), out.dtype)
    tasks = -(-columns // TOGETHER)
    for task in range(start, stop):
        matrix, first = task // tasks, task % tasks * TOGETHER
        count = min(TOGETHER, columns - first)
        _turn_in(x[matrix], first, count, some)
        _transform(addresses, factor, some, found, (count, points, out.shape[1]))
        _turn_out(found, first, count, out[matrix])


@kernel()
def _multiply_by_powers(x: Array, size: int, fine: Array, coarse: Array, power: int) -> None:
    """Multiply `x` by the powers of a power of a root of unity, and some of what is beyond `size`.

    That of each run of elements is looked up, and that of each element in a run: as many products
    as the compiler can put into vector registers.
    """
    steps = np.empty(RUN, x.dtype)
    for i in range(RUN):
        steps[i] = _root(fine, coarse, power * i)
    for begin in range(0, size, RUN):
        base = _root(fine, coarse, power * begin)
        for i in range(RUN):
            x[np.uint64(begin + i)] *= base * steps[np.uint64(i)]


@kernel()
def transform_columns(
    addresses: tuple[int, int],
    factor: Array,
    x: Array,
    fine: Array,
    coarse: Array,
    out: Array,
    start: int,
    stop: int,
) -> None:
    """Transform the columns of ``x (n1, n2)`` and turn them: the first half of a transform.

    A task is some columns. ``fine`` and ``coarse`` are the powers of the root of unity of
    ``n1 * n2``, by the lower and the upper bits of the exponent; ``out`` is as `x`.
    """
    rows, columns = x.shape
    some = np.empty((TOGETHER, rows + RUN), x.dtype)
    for task in range(start, stop):
        first = task * TOGETHER
        count = min(TOGETHER, columns - first)
        _turn_in(x, first, count, some)
        _transform(addresses, factor, some, some, (count, rows, rows))
        for c in range(count):
            _multiply_by_powers(some[c], rows, fine, coarse, first + c)
        _turn_out(some, first, count, out)


@kernel()
def transform_rows(
    addresses: tuple[int, int], factor: Array, x: Array, out: Array, start: int, stop: int
) -> None:
    """Transform the rows of ``x (n1, n2)`` into the columns of ``out (n2, n1)``: the second half.

    A task is some rows.
    """
    rows, columns = x.shape
    some = np.empty((TOGETHER, columns + RUN), x.dtype)
    for task in range(start, stop):
        first = task * TOGETHER
        count = min(TOGETHER, rows - first)
        _transform(addresses, factor, x[first : first + count], some, (count, columns, columns))
        _turn_out(some, first, count, out)


@kernel()
def separate(half: Array, fine: Array, coarse: Array, out: Array, start: int, stop: int) -> None:
    """Make the transform of ``2 m`` real elements of that of ``half (m,)``, pairs of them.

    A task is a block of the lower half of ``out (m + 1,)``, and its mirror image.
    """
    size = half.size
    for block in range(start, stop):
        for k in range(block * BLOCK, min((block + 1) * BLOCK, size // 2 + 1)):
            low, high = half[k], half[size - k if k else 0].conjugate()
            low, high = 0.5 * low, 0.5 * high  # what they add up to may overflow else
            even, odd = low + high, low - high
            turned = _root(fine, coarse, k) * odd
            turned = complex(turned.imag, -turned.real)
            out[k] = even + turned
            out[size - k] = (even - turned).conjugate()


@kernel()
def join(x: Array, fine: Array, coarse: Array, half: Array, start: int, stop: int) -> None:
    """Undo `separate`, but for a factor of two: ``x (m + 1,)`` to ``half (m,)``."""
    size = half.size
    for block in range(start, stop):
        for k in range(block * BLOCK, min((block + 1) * BLOCK, size // 2 + 1)):
            low, high = x[k], x[size - k].conjugate()
            if k == 0:  # these two are real
                low, high = complex(low.real, 0.0), complex(high.real, 0.0)
            even, odd = low + high, low - high
            turned = _root(fine, coarse, k) * odd
            turned = complex(-turned.imag, turned.real)
            half[k] = even + turned
            if k:
                half[size - k] = (even - turned).conjugate()
