"""Elementary functions that fill vector registers, within 2 units in the last place.

As in `corepy._loops._simd`, whose exponential they share, special cases are selects. Those that say
so are right on a part of their domain only; the loops that call them tell the rest apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from corepy._loops._simd import bits, by_type, exp, fused, growth_32, growth_64, inlined, polynomial

_f4, _f8, _i4 = np.float32, np.float64, np.int32


def _of(double: Callable[..., Any], single: Callable[..., Any]) -> Callable[..., Any]:
    """Choose between two functions by the dtype of the first argument."""
    return lambda x, *others: double if x == types.float64 else single


# ---------------------------------------------------------------------------- exponentials


@inlined
def _growth_of_32(z: Any) -> Any:
    """Return ``exp(z) - 1`` in two parts, where it neither overflows nor is subnormal."""
    shifted = z * _f4(1.44269504) + _f4(12582912.0)  # rounds z / log(2) in the last bits
    n = shifted - _f4(12582912.0)
    above = z - n * _f4(0.693359375)  # exact
    low = n * _f4(-2.12194440e-4)
    r = above - low
    rest = (above - r) - low  # what r has lost
    half = bits(_i4((_i4(bits(shifted) - _i4(0x4B400000)) + 126) << 23))  # 2**n / 2
    one, product = half - _f4(0.5), half * r
    total = one + product
    lost = product - (total - one)
    lost = half * (r * r * growth_32(r) + rest) + lost
    high = total + lost
    return high + high, (lost - (high - total)) * _f4(2)


@inlined
def _growth_of_64(z: Any) -> Any:
    shifted = z * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    above = z - n * 6.93145751953125e-1
    low = n * 1.42860682030941723212e-6
    r = above - low
    rest = (above - r) - low
    half = bits((bits(shifted) - 0x4338000000000000 + 1022) << 52)
    one, product = half - 0.5, half * r
    total = one + product
    lost = product - (total - one)
    lost = half * (r * r * growth_64(r) + rest) + lost
    high = total + lost
    return high + high, (lost - (high - total)) * 2.0


def _expm1_32(x: Any) -> Any:
    z = _f4(-20.0) if x < _f4(-20.0) else x
    high, _ = _growth_of_32(_f4(89.0) if z > _f4(89.0) else z)
    return x if abs(x) < _f4(2.0**-30) else high


def _expm1_64(x: Any) -> Any:
    z = -45.0 if x < -45.0 else x
    high, _ = _growth_of_64(710.0 if z > 710.0 else z)
    return x if abs(x) < 2.0**-60 else high


def expm1(x: Any) -> Any:
    """Return ``exp(x) - 1``."""
    raise NotImplementedError("compiled code only")


by_type(expm1)(_of(_expm1_64, _expm1_32))


def _tanh_32(x: Any) -> Any:
    z = abs(x) + abs(x)
    high, low = _growth_of_32(_f4(20.0) if z > _f4(20.0) else z)
    whole = high + _f4(2)
    share = _f4(1) / whole
    quotient = high * share
    rest = fused(-quotient, whole, high) + (low - quotient * (low + (high - (whole - _f4(2)))))
    value = np.copysign(quotient + rest * share, x)
    return x if z < _f4(2.0**-30) else value


def _tanh_64(x: Any) -> Any:
    z = abs(x) + abs(x)
    high, low = _growth_of_64(40.0 if z > 40.0 else z)
    whole = high + 2.0
    share = 1.0 / whole
    quotient = high * share
    rest = fused(-quotient, whole, high) + (low - quotient * (low + (high - (whole - 2.0))))
    value = np.copysign(quotient + rest * share, x)
    return x if z < 2.0**-60 else value


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent."""
    raise NotImplementedError("compiled code only")


by_type(tanh)(_of(_tanh_64, _tanh_32))


# ---------------------------------------------------------------------------- logarithms

# FreeBSD's msun, e_logf.c and e_log.c: ``(log(1 + f) - s * (f - f * f / 2)) / s`` of ``s * s``,
# where ``s = f / (2 + f)``.
_series_32 = polynomial((0.66666662693, 0.40000972152, 0.28498786688, 0.24279078841))
_series_64 = polynomial(
    (
        6.666666666666735130e-01,
        3.999999999940941908e-01,
        2.857142874366239149e-01,
        2.222219843214978396e-01,
        1.818357216161805012e-01,
        1.531383769920937332e-01,
        1.479819860511658591e-01,
    )
)


@inlined
def _log_32(x: Any, rest: Any) -> Any:
    tiny = x < _f4(1.17549435e-38)
    word = bits(x * _f4(2.0**25) if tiny else x)
    exponent = _i4(_i4(word - 0x3F3504F3) >> 23)
    f = bits(_i4(word - _i4(exponent << 23))) - _f4(1)
    k = _f4(exponent) - (_f4(25) if tiny else _f4(0))
    s = f / (_f4(2) + f)
    z = s * s
    half = _f4(0.5) * f * f
    low = k * _f4(9.0580006145e-06) + rest
    value = k * _f4(6.9313812256e-01) - ((half - (s * (half + z * _series_32(z)) + low)) - f)
    value = x if x == _f4(np.inf) else value
    value = _f4(-np.inf) if x == _f4(0) else value
    return value if x >= _f4(0) else _f4(np.nan)


@inlined
def _log_64(x: Any, rest: Any) -> Any:
    tiny = x < 2.2250738585072014e-308
    word = bits(x * 2.0**54 if tiny else x)
    exponent = (word - 0x3FE6A09E667F3BCD) >> 52
    f = bits(word - (exponent << 52)) - 1.0
    k = _f8(exponent) - (54.0 if tiny else 0.0)
    s = f / (2.0 + f)
    z = s * s
    half = 0.5 * f * f
    low = k * 1.90821492927058770002e-10 + rest
    value = k * 6.93147180369123816490e-01 - ((half - (s * (half + z * _series_64(z)) + low)) - f)
    value = x if x == np.inf else value
    value = -np.inf if x == 0.0 else value
    return value if x >= 0.0 else np.nan


def log(x: Any) -> Any:
    """Return the natural logarithm."""
    raise NotImplementedError("compiled code only")


by_type(log)(_of(lambda x: _log_64(x, 0.0), lambda x: _log_32(x, _f4(0))))


def _log1p_32(x: Any) -> Any:
    u = _f4(1) + x
    rest = _f4(1) - (u - x) if u > _f4(2) else x - (u - _f4(1))
    value = _log_32(u, rest / u)
    value = x if x == _f4(np.inf) else value
    value = _f4(-np.inf) if x == _f4(-1) else value
    return x if x == _f4(0) else value


def _log1p_64(x: Any) -> Any:
    u = 1.0 + x
    rest = 1.0 - (u - x) if u > 2.0 else x - (u - 1.0)
    value = _log_64(u, rest / u)
    value = x if x == np.inf else value
    value = -np.inf if x == -1.0 else value
    return x if x == 0.0 else value


def log1p(x: Any) -> Any:
    """Return ``log(1 + x)``."""
    raise NotImplementedError("compiled code only")


by_type(log1p)(_of(_log1p_64, _log1p_32))


@inlined
def _scaled_log_64(x: Any, high: float, low: float, two_high: float, two_low: float) -> Any:
    """Return the logarithm to a base, after FreeBSD's e_log2.c and e_log10.c.

    ``high + low`` is that of e, ``two_high + two_low`` of 2; the high parts end in zeros.
    """
    tiny = x < 2.2250738585072014e-308
    word = bits(x * 2.0**54 if tiny else x)
    exponent = (word - 0x3FE6A09E667F3BCD) >> 52
    f = bits(word - (exponent << 52)) - 1.0
    k = _f8(exponent) - (54.0 if tiny else 0.0)
    s = f / (2.0 + f)
    z = s * s
    half = 0.5 * f * f
    a = bits(bits(f - half) & -0x100000000)
    b = (f - a) - half + s * (half + z * _series_64(z))
    one, other = k * two_high, a * high
    total = one + other
    rest = k * two_low + ((a + b) * low + b * high) + ((one - total) + other)
    value = total + rest
    value = x if x == np.inf else value
    value = -np.inf if x == 0.0 else value
    return value if x >= 0.0 else np.nan


@inlined
def log2(x: Any) -> Any:
    """Return the logarithm to base 2 in float64."""
    return _scaled_log_64(x, 1.44269504072144627571, 1.67517131648865118353e-10, 1.0, 0.0)


@inlined
def log10(x: Any) -> Any:
    """Return the logarithm to base 10 in float64."""
    return _scaled_log_64(
        x,
        4.34294481878168880939e-01,
        2.50829467116452752298e-11,
        3.01029995663611771306e-01,
        3.69423907715893078616e-13,
    )


# ---------------------------------------------------------------------------- circles

#: Angles up to which `sine` and `cosine` are right: pi / 2 comes in three parts of 53 bits.
ANGLE = 1e6
# FreeBSD's msun, k_sin.c and k_cos.c: without the first term of the sine, which stands alone.
_SIXTH = -1.66666666666666324348e-01
_sine = polynomial(
    (
        8.33333333332248946124e-03,
        -1.98412698298579493134e-04,
        2.75573137070700676789e-06,
        -2.50507602534068634195e-08,
        1.58969099521155010221e-10,
    )
)
_cosine = polynomial(
    (
        4.16666666666666019037e-02,
        -1.38888888888741095749e-03,
        2.48015872894767294178e-05,
        -2.75573143513906633035e-07,
        2.08757232129817482790e-09,
        -1.13596475577881948265e-11,
    )
)


@inlined
def _circular(x: Any, quarters: Any) -> Any:
    """Return the sine of `x` and some right angles."""
    shifted = x * 0.6366197723675814 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    above = fused(-n, 1.5707963267948966, x)  # exact: as many bits go as come
    low = n * 6.123233995736766e-17
    r = above - low
    rest = ((above - r) - low) - fused(n, 6.123233995736766e-17, -low)
    rest = rest - n * -1.4973849048591698e-33
    turn = bits(shifted) + quarters
    z = r * r
    cube = z * r
    sine = r - ((z * (0.5 * rest - cube * _sine(z)) - rest) - cube * _SIXTH)
    half = 0.5 * z
    one = 1.0 - half
    cosine = one + (((1.0 - one) - half) + (z * z * _cosine(z) - r * rest))
    value = cosine if turn & 1 else sine
    return -value if turn & 2 else value


@inlined
def sine(x: Any) -> Any:
    """Return the sine of a float64 up to `ANGLE`."""
    return x if x == 0.0 else _circular(x, 0)


@inlined
def cosine(x: Any) -> Any:
    """Return the cosine of a float64 up to `ANGLE`."""
    return _circular(x, 1)


# ---------------------------------------------------------------------------- of two

#: Lengths between which `length` of float64 neither overflows nor loses digits.
SHORTEST, LONGEST = 1e-140, 1e150


def _length_64(x: Any, y: Any) -> Any:
    a, b = abs(x), abs(y)
    long, short = (a if a > b else b), (b if a > b else a)
    return np.sqrt(fused(long, long, short * short))


def _length_32(x: Any, y: Any) -> Any:
    a, b = _f8(x), _f8(y)  # squares are exact, and cannot overflow
    return _f4(np.sqrt(a * a + b * b))


def length(x: Any, y: Any) -> Any:
    """Return ``sqrt(x * x + y * y)`` of finite numbers; see `SHORTEST`."""
    raise NotImplementedError("compiled code only")


by_type(length)(_of(_length_64, _length_32))


@inlined
def _sum_of_doubles(x: Any, y: Any) -> Any:
    difference = x - y
    large = x if difference > 0.0 else y
    return large + log1p(exp(-abs(difference), 0.0))


def _sum_of_exponentials_64(x: Any, y: Any) -> Any:
    return _sum_of_doubles(x, y)


def sum_of_exponentials(x: Any, y: Any) -> Any:
    """Return ``log(exp(x) + exp(y))`` of finite numbers."""
    raise NotImplementedError("compiled code only")


by_type(sum_of_exponentials)(
    _of(
        _sum_of_exponentials_64,
        lambda x, y: _f4(_sum_of_doubles(_f8(x), _f8(y))),
    )
)


def _neighbour_32(x: Any, y: Any) -> Any:
    away = (y > x) == (x > _f4(0))
    word = bits(x)
    found = bits(_i4(word + _i4(1) if away else word - _i4(1)))
    found = np.copysign(bits(_i4(1)), y) if x == _f4(0) else found
    return y if x == y else found


def _neighbour_64(x: Any, y: Any) -> Any:
    away = (y > x) == (x > 0.0)
    word = bits(x)
    found = bits(word + 1 if away else word - 1)
    found = np.copysign(bits(np.int64(1)), y) if x == 0.0 else found
    return y if x == y else found


def neighbour(x: Any, y: Any) -> Any:
    """Return the number after `x` in the direction of `y`, neither of them NaN."""
    raise NotImplementedError("compiled code only")


by_type(neighbour)(_of(_neighbour_64, _neighbour_32))
