"""Compiled loops that reduce, in float64 and in parts that depend on sizes alone.

So a result is the same in however many threads it was found. Where sums are taken in any order, it
is within one partial sum, to let them fill vector registers; partial sums are added with what each
addition rounds off (Knuth's TwoSum), which is exact and added at the end.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._loops._simd import bits, inlined
from corepy.backends.numba._compiled import REASSOCIATED, kernel

Array = npt.NDArray[Any]

#: Elements of one partial sum: 8 to 32 additions follow each other in one lane of a register, by
#: its width; in NumPy's pairwise summation 16, and then as many as the size has bits.
PARTIAL: Final = 256
#: Elements of a row, and rows of a column, that one thread adds up.
CHUNK: Final = 32_768
ROWS: Final = 512
#: Columns that are worked on together.
WIDTH: Final = 512


# ---------------------------------------------------------------------------- sums along rows


@kernel(fastmath=REASSOCIATED)
def _partial_sum(x: Array) -> Any:
    total = -0.0  # which leaves -0 as it is
    for i in range(x.size):
        total += x[i]
    return total


@kernel(fastmath=REASSOCIATED)
def _partial_squares(x: Array, mean: Any) -> Any:
    total = 0.0
    for i in range(x.size):
        deviation = x[i] - mean
        total += deviation * deviation
    return total


@kernel()
def sum_chunks(x: Array, size: int, totals: Array, losses: Array, start: int, stop: int) -> None:
    """Sum floats ``x (rows, length)`` by chunks of a size into ``totals (rows, chunks)``.

    In float64; ``losses (rows, chunks)`` gets what the additions have rounded off.
    """
    chunks = totals.shape[1]
    for task in range(start, stop):
        i, chunk = task // chunks, task % chunks
        row = x[i, chunk * size : (chunk + 1) * size]
        total = _partial_sum(row[:PARTIAL])
        lost = 0.0
        for first in range(PARTIAL, row.size, PARTIAL):
            value = _partial_sum(row[first : first + PARTIAL])
            before = total
            total = before + value
            added = total - before
            lost += (before - (total - added)) + (value - added)
        totals[i, chunk], losses[i, chunk] = total, lost


@kernel()
def square_chunks(
    x: Array, means: Array, totals: Array, losses: Array, start: int, stop: int
) -> None:
    """Sum squared deviations from ``means (rows,)``, as `sum_chunks` does."""
    chunks = totals.shape[1]
    for task in range(start, stop):
        i, chunk = task // chunks, task % chunks
        row = x[i, chunk * CHUNK : (chunk + 1) * CHUNK]
        total = _partial_squares(row[:PARTIAL], means[i])
        lost = 0.0
        for first in range(PARTIAL, row.size, PARTIAL):
            value = _partial_squares(row[first : first + PARTIAL], means[i])
            before = total
            total = before + value
            added = total - before
            lost += (before - (total - added)) + (value - added)
        totals[i, chunk], losses[i, chunk] = total, lost


@kernel()
def add_chunks(totals: Array, losses: Array, out: Array, divisor: Any) -> None:
    """Add chunks up into ``out (rows,)``, and divide."""
    for i in range(totals.shape[0]):
        total, lost = totals[i, 0], losses[i, 0]
        for chunk in range(1, totals.shape[1]):
            value = totals[i, chunk]
            before = total
            total = before + value
            added = total - before
            lost += losses[i, chunk] + ((before - (total - added)) + (value - added))
        # Nothing is lost of infinity.
        out[i] = (total + lost if lost == lost else total) / divisor  # noqa: PLR0124


@kernel()
def integer_rows(x: Array, out: Array, start: int, stop: int) -> None:
    """Sum the integers of each row of ``x (rows, length)``; overflow wraps around."""
    for i in range(start, stop):
        row = x[i]
        total = out.dtype.type(0)
        for j in range(row.size):
            total += row[j]
        out[i] = total


@kernel()
def integer_chunks(x: Array, out: Array, start: int, stop: int) -> None:
    """Sum integers ``x (size,)`` by chunks into ``out (chunks,)``; overflow wraps around."""
    for chunk in range(start, stop):
        some = x[chunk * CHUNK : (chunk + 1) * CHUNK]
        total = out.dtype.type(0)
        for i in range(some.size):
            total += some[i]
        out[chunk] = total


@kernel()
def count_chunks(x: Array, counts: Array, start: int, stop: int) -> None:
    """Count the elements of ``x (size,)`` that are not 0, by chunks."""
    for chunk in range(start, stop):
        some = x[chunk * CHUNK : (chunk + 1) * CHUNK]
        zero = x.dtype.type(0)
        total = 0
        for i in range(some.size):
            total += some[i] != zero
        counts[chunk] = total


@kernel(fastmath=REASSOCIATED)
def product_rows(x: Array, out: Array, start: int, stop: int) -> None:
    """Multiply the integers of each row of ``x (rows, length)``; overflow wraps around."""
    for i in range(start, stop):
        row = x[i]
        product = out.dtype.type(1)
        for j in range(row.size):
            product *= row[j]
        out[i] = product


# ---------------------------------------------------------------------------- products of floats


#: Numbers of single precision, zero and the subnormal ones too, whose product no double can round
#: to zero or infinity: their exponents lie between -149 and 128.
_TOGETHER: Final = 6


@kernel(fastmath=REASSOCIATED)
def _partial_product(x: Array) -> tuple[float, int, Any]:
    """Multiply the mantissas, from 1 to 2, and add the exponents of up to `PARTIAL` numbers."""
    product, exponents = 1.0, 0
    special: Any = 0
    for i in range(x.size):
        word = bits(np.float64(x[i]))
        exponent = (word >> 52) & 0x7FF
        special += np.int64(((exponent + 1) & 0x7FF) < 2)
        exponents += exponent
        product *= bits((word & ~0x7FF0000000000000) | 0x3FF0000000000000)
    return product, exponents - 1023 * x.size, special


@kernel()
def _multiply_together(x: Array, out: Array) -> None:
    """Multiply so many elements of `x` each into one of `out`, from as many stretches."""
    n = out.size
    a, b, c = x[:n], x[n : 2 * n], x[2 * n : 3 * n]
    d, e, f = x[3 * n : 4 * n], x[4 * n : 5 * n], x[5 * n : 6 * n]
    for i in range(n):
        first = np.float64(a[i]) * np.float64(b[i]) * np.float64(c[i])
        out[i] = first * (np.float64(d[i]) * np.float64(e[i]) * np.float64(f[i]))


@kernel()
def product_chunks(
    x: Array, mantissas: Array, exponents: Array, failed: Array, start: int, stop: int
) -> None:
    """Multiply the floats of ``x (rows, length)`` by chunks, with their exponents apart.

    So no partial product overflows, and all orders are alike. Into ``mantissas``, of size 1 to 2,
    ``exponents`` and ``failed``, all ``(rows, chunks)``: failed is a chunk that holds zero, an
    infinity, NaN, or a subnormal number of double precision.
    """
    chunks = mantissas.shape[1]
    together = _TOGETHER if x.itemsize == 4 else 1
    some = np.empty(PARTIAL)
    for task in range(start, stop):
        i, chunk = task // chunks, task % chunks
        row = x[i, chunk * CHUNK : (chunk + 1) * CHUNK]
        product, total, bad = 1.0, 0, 0
        first = 0
        while first < row.size:
            count = min(PARTIAL, (row.size - first) // together)
            if together > 1 and count:
                _multiply_together(row[first : first + count * together], some[:count])
                mantissa, exponent, special = _partial_product(some[:count])
                first += count * together
            else:
                mantissa, exponent, special = _partial_product(row[first : first + PARTIAL])
                first += PARTIAL
            bad += special
            word = bits(product * mantissa)
            total += exponent + ((word >> 52) & 0x7FF) - 1023
            product = bits((word & ~0x7FF0000000000000) | 0x3FF0000000000000)
        mantissas[i, chunk], exponents[i, chunk], failed[i, chunk] = product, total, bad > 0


@kernel()
def join_products(mantissas: Array, exponents: Array, out: Array) -> None:
    """Multiply chunks up into ``out (rows,)``."""
    for i in range(len(mantissas)):
        product, total = 1.0, 0
        for chunk in range(mantissas.shape[1]):
            word = bits(product * mantissas[i, chunk])
            total += exponents[i, chunk] + ((word >> 52) & 0x7FF) - 1023
            product = bits((word & ~0x7FF0000000000000) | 0x3FF0000000000000)
        # Beyond all exponents there is nothing but zero and infinity.
        out[i] = math.ldexp(product, min(max(total, -9999), 9999))


# ---------------------------------------------------------------------------- sums of columns


@kernel()
def sum_columns(x: Array, partials: Array, start: int, stop: int) -> None:
    """Sum ``x (stack, length, columns)`` along its middle axis, some rows at a time.

    Into ``partials (stack, chunks, columns)``, of float64 for floats, and of their own dtype for
    integers, where overflow wraps around; a task is a block of columns of a chunk.
    """
    wide = partials.dtype.type
    _, chunks, columns = partials.shape
    tiles = -(-columns // WIDTH)
    for task in range(start, stop):
        chunk, tile = task // tiles, task % tiles
        s, c = chunk // chunks, chunk % chunks
        left, right = tile * WIDTH, min((tile + 1) * WIDTH, columns)
        total = partials[s, c, left:right]
        total[:] = 0
        first, last = c * ROWS, min((c + 1) * ROWS, x.shape[1])
        paired = last - (last - first) % 4
        for i in range(first, paired, 4):
            a, b = x[s, i, left:right], x[s, i + 1, left:right]
            d, e = x[s, i + 2, left:right], x[s, i + 3, left:right]
            for j in range(total.size):
                total[j] += (wide(a[j]) + b[j]) + (wide(d[j]) + e[j])
        for i in range(paired, last):
            a = x[s, i, left:right]
            for j in range(total.size):
                total[j] += a[j]


@kernel()
def square_columns(x: Array, means: Array, partials: Array, start: int, stop: int) -> None:
    """Sum squared deviations from ``means (stack, columns)``, as `sum_columns` does."""
    _, chunks, columns = partials.shape
    tiles = -(-columns // WIDTH)
    for task in range(start, stop):
        chunk, tile = task // tiles, task % tiles
        s, c = chunk // chunks, chunk % chunks
        left, right = tile * WIDTH, min((tile + 1) * WIDTH, columns)
        total, mean = partials[s, c, left:right], means[s, left:right]
        total[:] = 0.0
        first, last = c * ROWS, min((c + 1) * ROWS, x.shape[1])
        paired = last - (last - first) % 2
        for i in range(first, paired, 2):
            a, b = x[s, i, left:right], x[s, i + 1, left:right]
            for j in range(total.size):
                one, other = a[j] - mean[j], b[j] - mean[j]
                total[j] += one * one + other * other
        for i in range(paired, last):
            a = x[s, i, left:right]
            for j in range(total.size):
                one = a[j] - mean[j]
                total[j] += one * one


@kernel()
def add_columns(partials: Array, out: Array, divisor: float, start: int, stop: int) -> None:
    """Add partial sums up into ``out (stack, columns)``, and divide; a task is a block of these."""
    _, chunks, columns = partials.shape
    tiles = -(-columns // WIDTH)
    lost = np.empty(WIDTH)
    for task in range(start, stop):
        s, tile = task // tiles, task % tiles
        left, right = tile * WIDTH, min((tile + 1) * WIDTH, columns)
        total = partials[s, 0, left:right]
        lost[:] = 0.0
        for c in range(1, chunks):
            values = partials[s, c, left:right]
            for j in range(total.size):
                before, value = total[j], values[j]
                found = before + value
                added = found - before
                lost[j] += (before - (found - added)) + (value - added)
                total[j] = found
        into = out[s, left:right]
        for j in range(total.size):
            found = total[j] + lost[j] if lost[j] == lost[j] else total[j]
            into[j] = found / divisor


# ---------------------------------------------------------------------------- running


@kernel()
def running_sums(x: Array, out: Array, zero: Any, start: int, stop: int) -> None:
    """Sum ``x (stack, length, columns)`` along its middle axis up to each element.

    `out` may begin with one more element, `zero` then. Sums accumulate in its dtype, float64.
    """
    _, length, columns = x.shape
    first = out.shape[1] - length
    totals = np.full(columns, zero)
    for s in range(start, stop):
        if first:
            out[s, 0] = 0
        if columns == 1:
            total = zero
            for i in range(length):
                total += x[s, i, 0]
                out[s, i + first, 0] = total
        else:
            totals[:] = zero
            for i in range(length):
                row, sums = x[s, i], out[s, i + first]
                for j in range(columns):
                    totals[j] += row[j]
                    sums[j] = totals[j]


@kernel()
def add_up(totals: Array, losses: Array, zero: Any) -> bool:
    """Turn the sums of ``totals (segments,)`` into those of all before; say whether all are finite.

    `losses` are what their additions have rounded off.
    """
    total, lost = zero, 0.0
    for segment in range(totals.size):
        value = totals[segment]
        totals[segment] = total + lost if lost else total
        before = total
        total = before + value
        added = total - before
        lost += losses[segment] + ((before - (total - added)) + (value - added))
    return bool(np.isfinite(total) and np.isfinite(lost))


@kernel()
def running_segments(
    x: Array, out: Array, length: int, totals: Array, start: int, stop: int
) -> None:
    """Sum up to each element of ``x (size,)``, from ``totals (segments,)`` on in each segment.

    Four segments at a time, because each addition waits for the one before it.
    """
    for task in range(start, stop):
        first = 4 * task
        begin = first * length
        if begin + 4 * length <= x.size:
            a, b = x[begin : begin + length], x[begin + length : begin + 2 * length]
            c, d = x[begin + 2 * length : begin + 3 * length], x[begin + 3 * length :]
            into_a, into_b = out[begin : begin + length], out[begin + length : begin + 2 * length]
            into_c, into_d = out[begin + 2 * length : begin + 3 * length], out[begin + 3 * length :]
            p, q, r, s = totals[first], totals[first + 1], totals[first + 2], totals[first + 3]
            for i in range(length):
                p += a[i]
                q += b[i]
                r += c[i]
                s += d[i]
                into_a[i], into_b[i], into_c[i], into_d[i] = p, q, r, s
        else:  # the last segments
            for segment in range(first, totals.size):
                p = totals[segment]
                for i in range(segment * length, min((segment + 1) * length, x.size)):
                    p += x[i]
                    out[i] = p


@kernel()
def running_products(x: Array, out: Array, start: int, stop: int) -> None:
    """Multiply ``x (stack, length, columns)`` along its middle axis up to each element.

    One after the other, in the dtype of `out`: intermediate overflow is part of the result.
    """
    _, length, columns = x.shape
    first = out.shape[1] - length
    for s in range(start, stop):
        if first:
            out[s, 0] = 1
        if columns == 1:
            product = x[s, 0, 0]
            out[s, first, 0] = product
            for i in range(1, length):
                product *= x[s, i, 0]
                out[s, i + first, 0] = product
        else:
            for j in range(columns):
                out[s, first, j] = x[s, 0, j]
            for i in range(1, length):
                row, before, products = x[s, i], out[s, i + first - 1], out[s, i + first]
                for j in range(columns):
                    products[j] = before[j] * row[j]


# ---------------------------------------------------------------------------- extremes


@kernel()
def extreme_rows(
    keys: Array,
    out: Array,
    shift: Any,
    mask: Any,
    low: Any,
    high: Any,
    least: bool,
    start: int,
    stop: int,
) -> None:
    """Put the greatest or least element of each row of ``keys (rows, length)`` into `out`.

    Floats come as integers of their bits. All of these but the sign are inverted where the sign
    is set (``bits ^ (bits >> shift & mask)``), which sorts them as integers: -0 before +0, and
    NaN above `high`, which stands for infinity, or below `low`, by its sign. Integers come as
    they are, with a `mask` of 0. Comparing integers fills vector registers as it stands; with
    floats it would have to assume that there is no NaN.
    """
    for i in range(start, stop):
        row = keys[i]
        smallest = greatest = row[0] ^ ((row[0] >> shift) & mask)
        for j in range(row.size):
            key = row[j] ^ ((row[j] >> shift) & mask)
            smallest = min(smallest, key)
            greatest = max(greatest, key)
        nan_above, nan_below = greatest > high, smallest < low
        found = smallest if nan_below or (least and not nan_above) else greatest
        out[i] = found ^ ((found >> shift) & mask)


@inlined
def _greater(x: Any, y: Any) -> Any:
    """Return the greater of two elements, or a NaN of these."""
    return y if y > x or y != y else x  # noqa: PLR0124  not equal to itself: a NaN


@inlined
def _lesser(x: Any, y: Any) -> Any:
    return y if y < x or y != y else x  # noqa: PLR0124


@kernel()
def extreme_columns(x: Array, partials: Array, least: bool, start: int, stop: int) -> None:
    """Put extremes along the middle axis of ``x (stack, length, columns)``, some rows at a time.

    Into ``partials (stack, chunks, columns)``; a task is a block of columns of a chunk.
    """
    _, chunks, columns = partials.shape
    tiles = -(-columns // WIDTH)
    for task in range(start, stop):
        chunk, tile = task // tiles, task % tiles
        s, c = chunk // chunks, chunk % chunks
        left, right = tile * WIDTH, min((tile + 1) * WIDTH, columns)
        found = partials[s, c, left:right]
        first, last = c * ROWS, min((c + 1) * ROWS, x.shape[1])
        for j in range(right - left):
            found[j] = x[s, first, left + j]
        paired = last - (last - first) % 4
        # Several rows at a time, and what was found first: it is stored whether it changes or not,
        # not by a mask, which takes some processors fifteen times as long.
        for i in range(first, paired, 4):
            a, b = x[s, i, left:right], x[s, i + 1, left:right]
            d, e = x[s, i + 2, left:right], x[s, i + 3, left:right]
            if least:
                for j in range(found.size):
                    one, other = _lesser(a[j], b[j]), _lesser(d[j], e[j])
                    found[j] = _lesser(_lesser(found[j], one), other)
            else:
                for j in range(found.size):
                    one, other = _greater(a[j], b[j]), _greater(d[j], e[j])
                    found[j] = _greater(_greater(found[j], one), other)
        for i in range(paired, last):
            a = x[s, i, left:right]
            for j in range(found.size):
                found[j] = _lesser(found[j], a[j]) if least else _greater(found[j], a[j])


@inlined
def _is_beyond(value: Any, before: Any, least: bool) -> Any:
    """Say whether a value takes another's place: by its size, or as the first NaN."""
    beyond = value < before if least else value > before
    return beyond or (value != value and before == before)  # noqa: PLR0124


@kernel()
def arg_extreme_columns(x: Array, out: Array, least: bool, start: int, stop: int) -> None:
    """Put where the extremes along the middle axis of ``x (stack, length, columns)`` stand.

    The first one of several, or the first NaN, into ``out (stack, columns)``.
    """
    _, length, columns = x.shape
    best = np.empty(columns, x.dtype)
    for s in range(start, stop):
        found = out[s]
        for j in range(columns):
            best[j] = x[s, 0, j]
            found[j] = 0
        # Two at a time, for the reason that `extreme_columns` has.
        for i in range(1, length - 1, 2):
            row, after = x[s, i], x[s, i + 1]
            for j in range(columns):
                value, place = best[j], found[j]
                is_beyond = _is_beyond(row[j], value, least)
                value, place = row[j] if is_beyond else value, i if is_beyond else place
                is_beyond = _is_beyond(after[j], value, least)
                best[j] = after[j] if is_beyond else value
                found[j] = i + 1 if is_beyond else place
        if length % 2 == 0:
            row = x[s, length - 1]
            for j in range(columns):
                if _is_beyond(row[j], best[j], least):
                    found[j] = length - 1
