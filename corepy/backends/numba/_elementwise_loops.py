"""Compiled loops over elements, in blocks.

They run over slices that begin with 0: where an index might be negative, and so count from the end,
no vector register is filled.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._loops._simd import exp, fused, number
from corepy.backends.numba import _circles, _exponentials, _neighbours, _powers
from corepy.backends.numba._compiled import BLOCK, kernel

Array = npt.NDArray[Any]

# ---------------------------------------------------------------------------- of one


@kernel()
def exponentials(x: Array, out: Array, start: int, stop: int) -> None:
    """Put ``exp(x)`` of ``x (size,)``."""
    zero = number(0.0, x[0])
    a, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        into[i] = exp(a[i], zero)


@kernel()
def growths(x: Array, out: Array, start: int, stop: int) -> None:
    """Put ``expm1(x)``."""
    a, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        into[i] = _exponentials.expm1(a[i])


@kernel()
def hyperbolic_tangents(x: Array, out: Array, start: int, stop: int) -> None:
    """Put ``tanh(x)``."""
    a, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        into[i] = _exponentials.tanh(a[i])


@kernel()
def logarithms(x: Array, out: Array, start: int, stop: int) -> None:
    """Put ``log(x)``."""
    a, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        into[i] = _exponentials.log(a[i])


@kernel()
def logarithms_1p(x: Array, out: Array, start: int, stop: int) -> None:
    """Put ``log1p(x)``."""
    a, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        into[i] = _exponentials.log1p(a[i])


@kernel()
def logarithms_2(x: Array, out: Array, start: int, stop: int) -> None:
    """Put ``log2(x)``."""
    a, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        into[i] = _exponentials.log2(a[i])


@kernel()
def logarithms_10(x: Array, out: Array, start: int, stop: int) -> None:
    """Put ``log10(x)``."""
    a, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        into[i] = _exponentials.log10(a[i])


@kernel()
def arc_cosines(x: Array, out: Array, start: int, stop: int) -> None:
    """Put ``acos(x)``."""
    a, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        into[i] = _circles.arc_cosine(a[i])


@kernel()
def arc_sines(x: Array, out: Array, start: int, stop: int) -> None:
    """Put ``asin(x)``."""
    a, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        into[i] = _circles.arc_sine(a[i])


@kernel()
def arc_tangents(x: Array, out: Array, start: int, stop: int) -> None:
    """Put ``atan(x)``."""
    a, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        into[i] = _circles.arc_tangent(a[i])


@kernel()
def square_roots(x: Array, out: Array, start: int, stop: int) -> None:
    """Put the correctly rounded square roots."""
    a, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        into[i] = math.sqrt(a[i])


@kernel()
def signs(x: Array, out: Array, start: int, stop: int) -> None:
    """Put -1, 0 or 1 by the sign, and NaN for NaN."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    a, into = x[start * BLOCK : stop * BLOCK], out[start * BLOCK : stop * BLOCK]
    for i in range(into.size):
        value = a[i]
        sign = one if value > zero else (-one if value < zero else zero)
        into[i] = value if value != value else sign  # noqa: PLR0124


@kernel()
def clips(
    x: Array,
    low: Array,
    high: Array,
    out: Array,
    step_low: int,
    step_high: int,
    start: int,
    stop: int,
) -> None:
    """Put what lies between two bounds; one whose step is 0 is one value, as a block of copies.

    NaN of any operand is NaN, and zeros that are equal to a bound stay as they are.
    """
    for block in range(start, stop):
        first = block * BLOCK
        into, values = out[first : first + BLOCK], x[first : first + BLOCK]
        least = low[first * step_low : first * step_low + into.size]
        most = high[first * step_high : first * step_high + into.size]
        for i in range(into.size):
            value = values[i]
            value = value if value >= least[i] or value != value else least[i]  # noqa: PLR0124
            into[i] = value if value <= most[i] or value != value else most[i]  # noqa: PLR0124


# ---------------------------------------------------------------------------- with exceptions

# A block that holds a number for which the fast way is not right is marked in ``failed (blocks,)``
# and left to a slower function.


@kernel()
def sines(x: Array, out: Array, failed: Array, step: int, start: int, stop: int) -> None:
    """Put ``sin(x)`` up to `_circles.ANGLE_64` or `ANGLE_32`."""
    most = number(_circles.ANGLE_64 if out.itemsize == 8 else _circles.ANGLE_32, x[0])
    for block in range(start, stop):
        into, a = out[block * BLOCK : (block + 1) * BLOCK], x[block * BLOCK : (block + 1) * BLOCK]
        bad = False
        for i in range(into.size):
            bad |= abs(a[i]) > most
            into[i] = _circles.sine(a[i])
        failed[block] = bad


@kernel()
def cosines(x: Array, out: Array, failed: Array, step: int, start: int, stop: int) -> None:
    """Put ``cos(x)`` up to `_circles.ANGLE_64` or `ANGLE_32`."""
    most = number(_circles.ANGLE_64 if out.itemsize == 8 else _circles.ANGLE_32, x[0])
    for block in range(start, stop):
        into, a = out[block * BLOCK : (block + 1) * BLOCK], x[block * BLOCK : (block + 1) * BLOCK]
        bad = False
        for i in range(into.size):
            bad |= abs(a[i]) > most
            into[i] = _circles.cosine(a[i])
        failed[block] = bad


@kernel()
def tangents(x: Array, out: Array, failed: Array, step: int, start: int, stop: int) -> None:
    """Put ``tan(x)`` up to `_circles.ANGLE_64` or `ANGLE_32`."""
    most = number(_circles.ANGLE_64 if out.itemsize == 8 else _circles.ANGLE_32, x[0])
    for block in range(start, stop):
        into, a = out[block * BLOCK : (block + 1) * BLOCK], x[block * BLOCK : (block + 1) * BLOCK]
        bad = False
        for i in range(into.size):
            bad |= abs(a[i]) > most
            into[i] = _circles.tangent(a[i])
        failed[block] = bad


@kernel()
def hyperbolic_sines(x: Array, out: Array, failed: Array, step: int, start: int, stop: int) -> None:
    """Put ``sinh(x)`` up to `_exponentials.HYPERBOLIC_64` or `HYPERBOLIC_32`."""
    most = number(
        _exponentials.HYPERBOLIC_64 if out.itemsize == 8 else _exponentials.HYPERBOLIC_32, x[0]
    )
    for block in range(start, stop):
        into, a = out[block * BLOCK : (block + 1) * BLOCK], x[block * BLOCK : (block + 1) * BLOCK]
        bad = False
        for i in range(into.size):
            bad |= abs(a[i]) > most
            into[i] = _exponentials.sinh(a[i])
        failed[block] = bad


@kernel()
def hyperbolic_cosines(
    x: Array, out: Array, failed: Array, step: int, start: int, stop: int
) -> None:
    """Put ``cosh(x)`` up to `_exponentials.HYPERBOLIC_64` or `HYPERBOLIC_32`."""
    most = number(
        _exponentials.HYPERBOLIC_64 if out.itemsize == 8 else _exponentials.HYPERBOLIC_32, x[0]
    )
    for block in range(start, stop):
        into, a = out[block * BLOCK : (block + 1) * BLOCK], x[block * BLOCK : (block + 1) * BLOCK]
        bad = False
        for i in range(into.size):
            bad |= abs(a[i]) > most
            into[i] = _exponentials.cosh(a[i])
        failed[block] = bad


@kernel()
def angles(
    x1: Array, x2: Array, out: Array, failed: Array, step1: int, step2: int, start: int, stop: int
) -> None:
    """Put ``atan2(x1, x2)`` where the sum of their sizes does not overflow."""
    for block in range(start, stop):
        first = block * BLOCK
        into = out[first : first + BLOCK]
        a = x1[first * step1 : first * step1 + into.size]
        b = x2[first * step2 : first * step2 + into.size]
        bad = False
        for i in range(into.size):
            bad |= abs(a[i]) + abs(b[i]) == np.inf
            into[i] = _circles.angle(a[i], b[i])
        failed[block] = bad


@kernel()
def powers(
    x1: Array, x2: Array, out: Array, failed: Array, step1: int, step2: int, start: int, stop: int
) -> None:
    """Put ``x1 ** x2`` of what is not infinite; of float64 the result and `x1` are normal, or 0."""
    wide = out.itemsize == 8
    tiny, most = number(2.0**-1022 if wide else 0.0, x1[0]), number(1020.0, x1[0])
    for block in range(start, stop):
        first = block * BLOCK
        into = out[first : first + BLOCK]
        a = x1[first * step1 : first * step1 + into.size]
        b = x2[first * step2 : first * step2 + into.size]
        bad = special = False
        for i in range(into.size):
            into[i], power = _powers.power(a[i], b[i])
            size = abs(a[i])
            outside = size < tiny or size == np.inf or abs(power) >= most
            bad |= (outside and size > 0) or abs(b[i]) == np.inf
            special |= not (a[i] > 0 and b[i] == b[i])
        if special:
            for i in range(into.size):
                into[i] = _powers.signed_power(into[i], a[i], b[i])
        failed[block] = bad


@kernel()
def lengths(
    x1: Array, x2: Array, out: Array, failed: Array, step1: int, step2: int, start: int, stop: int
) -> None:
    """Put ``hypot(x1, x2)``; an operand whose step is 0 is one value, as a block of copies."""
    wide = out.itemsize == 8
    for block in range(start, stop):
        first = block * BLOCK
        into = out[first : first + BLOCK]
        a = x1[first * step1 : first * step1 + into.size]
        b = x2[first * step2 : first * step2 + into.size]
        bad = False
        for i in range(into.size):
            s, t = abs(a[i]), abs(b[i])
            if wide:
                longest = s if s > t else t
                inside = longest <= _circles.LONGEST and longest >= _circles.SHORTEST
                bad |= not ((inside and s == s and t == t) or s + t == 0)  # noqa: PLR0124
            else:
                bad |= not s + t < np.inf
            into[i] = _circles.length(a[i], b[i])
        failed[block] = bad


@kernel()
def sums_of_exponentials(
    x1: Array, x2: Array, out: Array, failed: Array, step1: int, step2: int, start: int, stop: int
) -> None:
    """Put ``log(exp(x1) + exp(x2))``."""
    for block in range(start, stop):
        first = block * BLOCK
        into = out[first : first + BLOCK]
        a = x1[first * step1 : first * step1 + into.size]
        b = x2[first * step2 : first * step2 + into.size]
        for i in range(into.size):
            into[i] = _exponentials.sum_of_exponentials(a[i], b[i])
        failed[block] = False


@kernel()
def neighbours(
    x1: Array, x2: Array, out: Array, failed: Array, step1: int, step2: int, start: int, stop: int
) -> None:
    """Put the numbers after `x1` in the direction of `x2`, unless one is NaN."""
    for block in range(start, stop):
        first = block * BLOCK
        into = out[first : first + BLOCK]
        a = x1[first * step1 : first * step1 + into.size]
        b = x2[first * step2 : first * step2 + into.size]
        bad = False
        for i in range(into.size):
            x, y = a[i], b[i]
            bad |= not (x == x and y == y)  # noqa: PLR0124
            into[i] = _neighbours.neighbour(x, y)
        failed[block] = bad


@kernel()
def floor_quotients(
    x1: Array, x2: Array, out: Array, failed: Array, step1: int, step2: int, start: int, stop: int
) -> None:
    """Put the floors of ``x1 / x2``.

    The rounded quotient never lies below the floor of the exact one, and above it by one at most
    while it is less than `limit`, from where on a float holds integers only. The exact remainder,
    of the sign opposite to that of `x2` then, tells.
    """
    one, limit = number(1.0, x1[0]), number(2.0**52 if out.itemsize == 8 else 2.0**23, x1[0])
    for block in range(start, stop):
        first = block * BLOCK
        into = out[first : first + BLOCK]
        a = x1[first * step1 : first * step1 + into.size]
        b = x2[first * step2 : first * step2 + into.size]
        bad = False
        for i in range(into.size):
            quotient = a[i] / b[i]
            floor = np.floor(quotient)
            rest = fused(-floor, b[i], a[i])
            bad |= not (abs(quotient) < limit and rest == rest)  # noqa: PLR0124
            above = (rest < 0) != (b[i] < 0) and rest != 0
            into[i] = floor - one if above else floor
        failed[block] = bad


@kernel()
def remainders(
    x1: Array, x2: Array, out: Array, failed: Array, step1: int, step2: int, start: int, stop: int
) -> None:
    """Put ``x1 - floor(x1 / x2) * x2``, of the sign of `x2`; the rest as in `floor_quotients`."""
    one, limit = number(1.0, x1[0]), number(2.0**52 if out.itemsize == 8 else 2.0**23, x1[0])
    for block in range(start, stop):
        first = block * BLOCK
        into = out[first : first + BLOCK]
        a = x1[first * step1 : first * step1 + into.size]
        b = x2[first * step2 : first * step2 + into.size]
        bad = False
        for i in range(into.size):
            quotient = a[i] / b[i]
            floor = np.floor(quotient)
            rest = fused(-floor, b[i], a[i])
            bad |= not (abs(quotient) < limit and rest == rest)  # noqa: PLR0124
            above = (rest < 0) != (b[i] < 0) and rest != 0
            rest = fused(one - floor, b[i], a[i]) if above else rest
            into[i] = np.copysign(rest, b[i]) if rest == 0 else rest
        failed[block] = bad


#: Up to this all integers are floats of 64 bits.
_EXACT: Final = 2**53


@kernel()
def integer_quotients(
    x1: Array, x2: Array, out: Array, failed: Array, step1: int, step2: int, start: int, stop: int
) -> None:
    """Put the floors of quotients of integers up to `_EXACT`, which are not divided by 0.

    No vector register divides integers. As in `floor_quotients` the rounded quotient's floor is
    right or one too much, which the sign of the remainder tells.
    """
    for block in range(start, stop):
        first = block * BLOCK
        into = out[first : first + BLOCK]
        a = x1[first * step1 : first * step1 + into.size]
        b = x2[first * step2 : first * step2 + into.size]
        bad = False
        for i in range(into.size):
            s, t = np.int64(a[i]), np.int64(b[i])
            bad |= (s > _EXACT) | (s < -_EXACT) | (t > _EXACT) | (t < -_EXACT) | (t == 0)
            floor = np.int64(np.floor(np.float64(s) / np.float64(t if t else 1)))
            rest = s - floor * t
            into[i] = floor - (((rest ^ t) < 0) & (rest != 0))
        failed[block] = bad


@kernel()
def integer_remainders(
    x1: Array, x2: Array, out: Array, failed: Array, step1: int, step2: int, start: int, stop: int
) -> None:
    """Put ``x1 - floor(x1 / x2) * x2``, as in `integer_quotients`."""
    for block in range(start, stop):
        first = block * BLOCK
        into = out[first : first + BLOCK]
        a = x1[first * step1 : first * step1 + into.size]
        b = x2[first * step2 : first * step2 + into.size]
        bad = False
        for i in range(into.size):
            s, t = np.int64(a[i]), np.int64(b[i])
            bad |= (s > _EXACT) | (s < -_EXACT) | (t > _EXACT) | (t < -_EXACT) | (t == 0)
            floor = np.int64(np.floor(np.float64(s) / np.float64(t if t else 1)))
            rest = s - floor * t
            into[i] = rest + (t if ((rest ^ t) < 0) & (rest != 0) else 0)
        failed[block] = bad
