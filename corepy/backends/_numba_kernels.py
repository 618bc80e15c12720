"""Loops compiled by Numba for what NumPy does slowly.

Every kernel takes C-contiguous arrays in the shape that its docstring names, fills ``out`` and
holds no GIL. It is compiled on its first call for a combination of dtypes, which takes up to a
second, and kept on disk for later processes: beside this file where that folder can be written,
else in the user's cache folder, or in ``NUMBA_CACHE_DIR`` where that is set. Numba notices an
edit of the file that holds a kernel, but not of one that it calls: so all of them stand here.

No kernel assumes that NaN, infinities or signed zeros do not occur. Where sums are reassociated
(``fastmath={"reassoc", "contract"}``), it is within one block, to let them fill vector registers;
the sums of blocks are added with their rounding errors (Knuth's TwoSum).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from llvmlite import binding
from numba import config, njit
from numba.extending import intrinsic

Array = npt.NDArray[Any]
Kernel = TypeVar("Kernel", bound=Callable[..., Any])

#: Elements that are worked on together: they fit the first-level cache with their results, and a
#: single value that stands for an array comes as that many copies of it.
BLOCK: Final = 1024
#: Elements of one partial sum: 8 to 32 additions follow each other in one lane of a register, by
#: its width; in NumPy's pairwise summation 16, and then as many as the size has bits.
_PARTIAL: Final = 256
#: A tile of a matrix: its rows stay in the second-level cache.
_TILE_ROWS: Final = 128
_TILE_COLUMNS: Final = 256


def kernel(fastmath: Set[str] = frozenset()) -> Callable[[Kernel], Kernel]:
    """Compile a function on its first call, and keep the machine code on disk."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}

    def decorate(function: Kernel) -> Kernel:
        try:
            compiled: Kernel = njit(cache=True, **options)(function)
        except RuntimeError:  # no folder can be written: each process compiles for itself
            compiled = njit(**options)(function)
        return compiled

    return decorate


_REASSOCIATED: Final = frozenset({"reassoc", "contract"})


# ---------------------------------------------------------------------------- sums


@kernel(_REASSOCIATED)
def _partial_sum(x: Array, zero: Any) -> Any:
    total = zero
    for i in range(x.size):
        total += x[i]
    return total


@kernel(_REASSOCIATED)
def _partial_squares(x: Array, mean: Any) -> Any:
    total = 0.0
    for i in range(x.size):
        deviation = x[i] - mean
        total += deviation * deviation
    return total


@kernel()
def _sum(x: Array, zero: Any) -> Any:
    """Sum partial sums with what each addition rounds off, which is exact and added at the end."""
    if x.size <= _PARTIAL:
        return _partial_sum(x, zero)
    total = lost = zero
    for start in range(0, x.size, _PARTIAL):
        value = _partial_sum(x[start : start + _PARTIAL], zero)
        before = total
        total = before + value
        added = total - before
        lost += (before - (total - added)) + (value - added)
    return total + lost if lost == lost else total  # noqa: PLR0124 (nothing is lost of infinity)


@kernel()
def _squares(x: Array, mean: Any) -> Any:
    """Sum squared deviations from a mean, as `_sum` does."""
    if x.size <= _PARTIAL:
        return _partial_squares(x, mean)
    total = lost = 0.0
    for start in range(0, x.size, _PARTIAL):
        value = _partial_squares(x[start : start + _PARTIAL], mean)
        before = total
        total = before + value
        added = total - before
        lost += (before - (total - added)) + (value - added)
    return total + lost if lost == lost else total  # noqa: PLR0124


@kernel()
def sum_rows(x: Array, out: Array, zero: Any) -> None:
    """Sum each row of ``x (rows, length)`` into ``out (rows,)``.

    `zero` has the dtype in which sums accumulate: float64 for floats of either size.
    """
    for i in range(x.shape[0]):
        out[i] = _sum(x[i], zero)


@kernel()
def variance_rows(x: Array, out: Array, freedom: float) -> None:
    """Put the sum of squared deviations by `freedom` of each row of ``x (rows, length)``.

    In two passes and in float64, so that values far from zero lose nothing.
    """
    for i in range(x.shape[0]):
        row = x[i]
        mean = _sum(row, 0.0) / row.size
        out[i] = _squares(row, mean) / freedom


@kernel()
def variance_columns(x: Array, out: Array, freedom: float) -> None:
    """As `variance_rows`, over the middle axis of ``x (stack, length, columns)``.

    Into ``out (stack, columns)``, columns by blocks, in partial sums of some rows.
    """
    stack, length, columns = x.shape
    width = min(columns, _TILE_COLUMNS)
    mean, total, partial = np.empty(width), np.empty(width), np.empty(width)
    for s in range(stack):
        for first in range(0, columns, _TILE_COLUMNS):
            last = min(first + _TILE_COLUMNS, columns)
            mean[:] = 0.0
            for step in range(2):
                total[:] = 0.0
                for start in range(0, length, _PARTIAL):
                    partial[:] = 0.0
                    for i in range(start, min(start + _PARTIAL, length)):
                        row = x[s, i, first:last]
                        if step == 0:
                            for j in range(row.size):
                                partial[j] += row[j]
                        else:
                            for j in range(row.size):
                                deviation = row[j] - mean[j]
                                partial[j] += deviation * deviation
                    for j in range(width):
                        total[j] += partial[j]
                if step == 0:
                    for j in range(width):
                        mean[j] = total[j] / length
            for j in range(last - first):
                out[s, first + j] = total[j] / freedom


@kernel(_REASSOCIATED)
def product_rows(x: Array, out: Array, one: Any) -> None:
    """Multiply the integers of each row of ``x (rows, length)``; overflow wraps around."""
    for i in range(x.shape[0]):
        row = x[i]
        product = one
        for j in range(row.size):
            product *= row[j]
        out[i] = product


# ---------------------------------------------------------------------------- running


@kernel()
def running_sums(x: Array, out: Array, zero: Any) -> None:
    """Sum ``x (stack, length, columns)`` along its middle axis up to each element.

    `out` may begin with one more element, `zero` then. Sums accumulate in its dtype, float64.
    """
    stack, length, columns = x.shape
    first = out.shape[1] - length
    totals = np.full(columns, zero)
    for s in range(stack):
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
def running_products(x: Array, out: Array) -> None:
    """Multiply ``x (stack, length, columns)`` along its middle axis up to each element.

    One after the other, in the dtype of `out`: intermediate overflow is part of the result.
    """
    stack, length, columns = x.shape
    first = out.shape[1] - length
    for s in range(stack):
        if first:
            out[s, 0] = 1
        if columns == 1:
            product = x[s, 0, 0]
            out[s, first, 0] = product
            for i in range(1, length):
                product *= x[s, i, 0]
                out[s, i + first, 0] = product
        else:
            out[s, first] = x[s, 0]
            for i in range(1, length):
                row, before, products = x[s, i], out[s, i + first - 1], out[s, i + first]
                for j in range(columns):
                    products[j] = before[j] * row[j]


# ---------------------------------------------------------------------------- extremes


@kernel()
def extreme_rows(
    keys: Array, out: Array, shift: Any, mask: Any, low: Any, high: Any, least: bool
) -> None:
    """Put the greatest or least element of each row of ``keys (rows, length)`` into `out`.

    Floats come as integers of their bits. All of these but the sign are inverted where the sign
    is set (``bits ^ (bits >> shift & mask)``), which sorts them as integers: -0 before +0, and
    NaN above `high`, which stands for infinity, or below `low`, by its sign. Integers come as
    they are, with a `mask` of 0. Comparing integers fills vector registers as it stands; with
    floats it would have to assume that there is no NaN.
    """
    for i in range(keys.shape[0]):
        row = keys[i]
        smallest = greatest = row[0] ^ ((row[0] >> shift) & mask)
        for j in range(row.size):
            key = row[j] ^ ((row[j] >> shift) & mask)
            smallest = min(smallest, key)
            greatest = max(greatest, key)
        nan_above, nan_below = greatest > high, smallest < low
        found = smallest if nan_below or (least and not nan_above) else greatest
        out[i] = found ^ ((found >> shift) & mask)


@kernel()
def arg_extreme_columns(x: Array, out: Array, least: bool) -> None:
    """Put where the extremes along the middle axis of ``x (stack, length, columns)`` stand.

    The first one of several, or the first NaN, into ``out (stack, columns)``.
    """
    stack, length, columns = x.shape
    best = np.empty(columns, x.dtype)
    for s in range(stack):
        found = out[s]
        for j in range(columns):
            best[j] = x[s, 0, j]
            found[j] = 0
        for i in range(1, length):
            row = x[s, i]
            for j in range(columns):
                value, before = row[j], best[j]
                beyond = value < before if least else value > before
                if beyond or (value != value and before == before):  # noqa: PLR0124
                    best[j] = value
                    found[j] = i


# ---------------------------------------------------------------------------- elementwise


@kernel()
def square_roots(x: Array, out: Array) -> None:
    """Put the correctly rounded square roots of ``x (size,)``."""
    for i in range(x.size):
        out[i] = math.sqrt(x[i])


@kernel()
def signs(x: Array, out: Array) -> None:
    """Put -1, 0 or 1 by the sign of ``x (size,)``, and NaN for NaN."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    for i in range(x.size):
        value = x[i]
        sign = one if value > zero else (-one if value < zero else zero)
        out[i] = value if value != value else sign  # noqa: PLR0124


@kernel()
def choose(
    condition: Array, x1: Array, x2: Array, out: Array, step: int, step1: int, step2: int
) -> None:
    """Put `x1` where the condition holds and `x2` elsewhere, into ``out (size,)``.

    An operand whose step is 0 is one value, given as a block of copies.
    """
    for start in range(0, out.size, BLOCK):
        into = out[start : start + BLOCK]
        which = condition[start * step : start * step + into.size]
        yes = x1[start * step1 : start * step1 + into.size]
        no = x2[start * step2 : start * step2 + into.size]
        for i in range(into.size):
            into[i] = yes[i] if which[i] else no[i]


@intrinsic  # type: ignore[untyped-decorator]
def _fused(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """Compute ``x * y + z``, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return builder.fma(*operands)

    return x(x, x, x), generate


def fuses() -> bool:
    """Say whether the processor that Numba compiles for rounds ``x * y + z`` once by itself.

    Where it does not, LLVM would call a function of the C library, which is slow, and ends the
    process where there is none.
    """
    if config.DISABLE_JIT:  # kernels run in Python then, which cannot call the intrinsic
        return False
    if config.CPU_NAME not in (None, "host") or config.CPU_FEATURES is not None:
        return False  # another processor than this one was asked for
    if binding.get_default_triple().startswith(("aarch64", "arm64")):
        return True
    return bool(binding.get_host_cpu_features().get("fma"))


@kernel()
def floor_quotients(
    x1: Array, x2: Array, out: Array, failed: Array, step1: int, step2: int, limit: Any
) -> None:
    """Put the floors of ``x1 / x2`` into ``out (size,)``.

    The rounded quotient never lies below the floor of the exact one, and above it by one at most
    while it is less than `limit`, from where on a float holds integers only. The exact remainder,
    of the sign opposite to that of `x2` then, tells. A block that holds a greater quotient, NaN
    or an infinity is marked in ``failed (blocks,)`` and left to a slower function.
    """
    one = x1.dtype.type(1)
    for block in range(failed.size):
        start = block * BLOCK
        into = out[start : start + BLOCK]
        a = x1[start * step1 : start * step1 + into.size]
        b = x2[start * step2 : start * step2 + into.size]
        bad = False
        for i in range(into.size):
            quotient = a[i] / b[i]
            floor = np.floor(quotient)
            rest = _fused(-floor, b[i], a[i])
            bad |= not (abs(quotient) < limit and rest == rest)  # noqa: PLR0124
            above = (rest < 0) != (b[i] < 0) and rest != 0
            into[i] = floor - one if above else floor
        failed[block] = bad


@kernel()
def remainders(
    x1: Array, x2: Array, out: Array, failed: Array, step1: int, step2: int, limit: Any
) -> None:
    """Put ``x1 - floor(x1 / x2) * x2``, of the sign of `x2`; the rest as in `floor_quotients`."""
    one = x1.dtype.type(1)
    for block in range(failed.size):
        start = block * BLOCK
        into = out[start : start + BLOCK]
        a = x1[start * step1 : start * step1 + into.size]
        b = x2[start * step2 : start * step2 + into.size]
        bad = False
        for i in range(into.size):
            quotient = a[i] / b[i]
            floor = np.floor(quotient)
            rest = _fused(-floor, b[i], a[i])
            bad |= not (abs(quotient) < limit and rest == rest)  # noqa: PLR0124
            above = (rest < 0) != (b[i] < 0) and rest != 0
            rest = _fused(one - floor, b[i], a[i]) if above else rest
            into[i] = np.copysign(rest, b[i]) if rest == 0 else rest
        failed[block] = bad


# ---------------------------------------------------------------------------- others


@kernel()
def compress(x: Array, mask: Array, out: Array) -> None:
    """Put the elements of ``x (size,)`` where the mask holds; `out` has just as many.

    Each element is written and kept only if the place moves on: no branch to mispredict.
    """
    taken = 0
    i = 0
    while taken < out.size:
        out[taken] = x[i]
        taken += mask[i]
        i += 1


@kernel()
def integer_products(x1: Array, x2: Array, out: Array) -> None:
    """Multiply stacks of integer matrices; overflow wraps around.

    ``x1 (1 or stack, n, k)`` and ``x2 (1 or stack, k, m)`` into ``out (stack, n, m)``, by tiles
    of `x2` that stay in the cache.
    """
    stack, rows, columns = out.shape
    length = x1.shape[2]
    out[:] = 0
    for s in range(stack):
        left, right = x1[min(s, x1.shape[0] - 1)], x2[min(s, x2.shape[0] - 1)]
        for top in range(0, length, _TILE_ROWS):
            for first in range(0, columns, _TILE_COLUMNS):
                last = min(first + _TILE_COLUMNS, columns)
                for i in range(rows):
                    into = out[s, i, first:last]
                    for k in range(top, min(top + _TILE_ROWS, length)):
                        factor = left[i, k]
                        row = right[k, first:last]
                        for j in range(row.size):
                            into[j] += factor * row[j]
