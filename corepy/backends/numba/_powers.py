"""Powers that fill vector registers, within 1 unit in the last place."""

from __future__ import annotations

from typing import Any

import numpy as np

from corepy._loops._simd import by_type, for_floats, fused, inlined, number, polynomial
from corepy.backends.numba._exponentials import parts, power_of_two, short_log2

_f4, _f8 = np.float32, np.float64


# The series of `short_log2` without the first two terms, ``2 / log(2)`` and a third of it; the
# greatest error is 1e-21. ``2**r`` where ``abs(r) <= 0.5``, in float64 without the first two terms;
# the greatest errors are 3e-9 and 2e-17.
_log2_64 = polynomial(
    (
        *(0.57707801635558536, 0.412198583111143869, 0.320598897967154688, 0.262308191468153038),
        *(0.221952788585039165, 0.192380566033368347, 0.168885291076509457, 0.169129717258091145),
    )
)
_exp2_32 = polynomial(
    (
        *(1.0, 0.693147206702832596, 0.240226509222887581, 0.0555032722667030206),
        *(0.00961805667852463808, 0.00134004281776158379, 0.000154614446985691291),
    )
)
_exp2_64 = polynomial(
    (
        *(0.240226506959100761, 0.0555041086648215825, 0.00961812910761866481),
        *(0.00133335581464232755, 0.000154035304247783619, 0.0000152527338206912832),
        *(1.32154516318517624e-6, 1.01780673310211211e-7, 7.07097817957715819e-9),
        4.45409071740593382e-10,
    )
)


def _power_32(x: Any, y: Any) -> Any:
    power = short_log2(_f8(abs(x))) * _f8(y)
    power = -160.0 if power < -160.0 else power
    power = 140.0 if power > 140.0 else power
    shifted = power + 6755399441055744.0
    r = power - (shifted - 6755399441055744.0)
    return _f4(_exp2_32(r) * power_of_two(shifted)), _f4(0)


def _power_64(x: Any, y: Any) -> Any:
    # The logarithm has to be right to 2**-64, for it is multiplied: each of its terms comes as the
    # nearest float and what that lacks.
    exponent, fraction = parts(abs(x))
    f, below = fraction - 1.0, fraction + 1.0
    share = 1.0 / below
    s = f * share
    s_rest = (fused(-s, below, f) - s * (fraction - (below - 1.0))) * share
    z = s * s
    z_rest = fused(s, s, -z) + (s + s) * s_rest
    tail = z * _log2_64(z)
    third = 0.9617966939259756 + tail
    third_rest = (0.9617966939259756 - third) + tail + 5.0577616648125906e-17
    term = z * third
    term_rest = fused(z, third, -term) + (z * third_rest + z_rest * third)
    slope = 2.8853900817779268 + term
    slope_rest = (2.8853900817779268 - slope) + term + (term_rest + 4.0710547481862064e-17)
    product = s * slope
    product_rest = fused(s, slope, -product) + (s * slope_rest + s_rest * slope)
    log = exponent + product
    log_rest = (exponent - log) + product + product_rest
    power = y * log
    power_rest = fused(y, log, -power) + y * log_rest
    shifted = power + 6755399441055744.0
    above = power - (shifted - 6755399441055744.0)
    r = above + power_rest
    r_rest = (above - r) + power_rest
    first = r * 0.6931471805599453
    first_rest = fused(r, 0.6931471805599453, -first)
    first_rest += r * 2.3190468138462996e-17 + r_rest * 0.6931471805599453
    one = 1.0 + first
    rest = (1.0 - one) + first + (first_rest + r * r * _exp2_64(r))
    return (one + rest) * power_of_two(shifted), power


def power(x: Any, y: Any) -> Any:
    """Return ``abs(x)**y`` of a normal number and a finite one, and its logarithm.

    The logarithm is to base 2; a float64 is right where it is less than 1020. In float32 it comes
    as 0, for the power is right wherever it ends.
    """
    raise NotImplementedError("compiled code only")


by_type(power)(for_floats(_power_64, _power_32))


@inlined
def signed_power(value: Any, x: Any, y: Any) -> Any:
    """Return ``x**y`` of what is not infinite, given what it is of ``abs(x)`` if that is normal."""
    none, unit, half = number(0.0, x), number(1.0, x), y * number(0.5, y)
    whole = np.floor(y) == y
    odd = whole and np.floor(half) != half
    edge = none if y > none else (number(np.inf, x) if y < none else y)
    value = edge if x == none else value
    value = -value if odd and np.copysign(unit, x) < none else value
    value = value if x >= none or (whole and x < none) else number(np.nan, x)  # also of a NaN
    return unit if x == unit or y == none else value
