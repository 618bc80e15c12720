"""Exponentials and logarithms that fill vector registers, within 2 units in the last place.

As in `corepy._loops._simd`, whose exponential they share, special cases are selects.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corepy._loops._simd import (
    bits,
    by_type,
    exp,
    for_floats,
    fused,
    growth_32,
    growth_64,
    inlined,
    polynomial,
    spread_polynomial,
)

_f4, _f8, _i4 = np.float32, np.float64, np.int32


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


by_type(expm1)(for_floats(_expm1_64, _expm1_32))


# ``(tanh(x) / x - 1) / x**2`` of ``x**2`` where ``abs(x) <= 0.7``, and ``exp(2 * r)`` where
# ``abs(r) <= log(2) / 4``: Remez' algorithm with 50 digits. Of the tangent the first is off by
# 7e-10, and the others, of the exponential, by 2e-9 and 3e-18.
_bending_32 = polynomial(
    (
        *(-0.33333324634, 0.13332983435, -0.053920954766),
        *(0.021571061257, -0.007883310966, 0.0018956675956),
    )
)
_doubly_32 = polynomial(
    (
        *(1.0, 2.0000000730772, 1.9999996812727, 1.3333135351857),
        *(0.6666917096426, 0.2679967511199, 0.0885551421700),
    )
)
_doubly_64 = spread_polynomial(
    (
        *(1.0, 2.0000000000000000607, 2.0000000000000070739, 1.333333333333293487),
        *(0.66666666666388430377, 0.26666666667389754214, 0.088888889287835803346),
        *(0.025396824873782017902, 0.0063491805492700157177, 0.0014109502746733205912),
        *(0.00028295468734184788515, 0.000051188328015608002014),
    )
)
# The same of the tangent where ``abs(x) <= 0.625``, as a fraction: Cephes, tanh.c.
_above_64 = polynomial(
    (-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1)
)
_below_64 = polynomial(
    (4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0)
)


def _tanh_32(x: Any) -> Any:
    u = abs(x)
    z = _f4(10.0) if u > _f4(10.0) else u
    shifted = z * _f4(2.8853900818) + _f4(12582912.0)  # rounds 2 * z / log(2) in the last bits
    r = z - (shifted - _f4(12582912.0)) * _f4(0.34657359028)
    e = bits(_i4(bits(_doubly_32(r)) + _i4(bits(shifted) << 23)))
    square = u * u
    small = u * square * _bending_32(square) + u
    return np.copysign(_f4(1) - _f4(2) / (e + _f4(1)) if u > _f4(0.7) else small, x)


def _tanh_64(x: Any) -> Any:
    u = abs(x)
    z = 20.0 if u > 20.0 else u
    shifted = z * 2.8853900817779268147 + 6755399441055744.0
    r = z - (shifted - 6755399441055744.0) * 0.34657359027997265471
    e = bits(bits(_doubly_64(r)) + (bits(shifted) << 52))
    square = u * u
    large = u > 0.625
    above = -2.0 if large else u * square * _above_64(square)
    below = e + 1.0 if large else _below_64(square)
    return np.copysign((1.0 if large else u) + above / below, x)


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent."""
    raise NotImplementedError("compiled code only")


by_type(tanh)(for_floats(_tanh_64, _tanh_32))

#: Up to what `sinh` and `cosh` do not come near to overflowing.
HYPERBOLIC_64, HYPERBOLIC_32 = 700.0, 87.0


def _sinh_32(x: Any) -> Any:
    z = abs(x)
    high, low = _growth_of_32(z)
    share = _f4(1) / (high + _f4(1))
    twice = high + fused(high, share, fused(low * share, share, low))
    return x if z < _f4(2.0**-30) else np.copysign(_f4(0.5) * twice, x)


def _sinh_64(x: Any) -> Any:
    z = abs(x)
    high, low = _growth_of_64(z)
    share = 1.0 / (high + 1.0)
    twice = high + fused(high, share, fused(low * share, share, low))
    return x if z < 2.0**-60 else np.copysign(0.5 * twice, x)


def sinh(x: Any) -> Any:
    """Return the hyperbolic sine of a number up to `HYPERBOLIC_64` or `HYPERBOLIC_32`."""
    raise NotImplementedError("compiled code only")


by_type(sinh)(for_floats(_sinh_64, _sinh_32))


def _cosh_32(x: Any) -> Any:
    e = exp(abs(x), _f4(0))
    return fused(_f4(0.5), e, _f4(0.5) / e)


def _cosh_64(x: Any) -> Any:
    e = exp(abs(x), 0.0)
    return fused(0.5, e, 0.5 / e)


def cosh(x: Any) -> Any:
    """Return the hyperbolic cosine of a number up to `HYPERBOLIC_64` or `HYPERBOLIC_32`."""
    raise NotImplementedError("compiled code only")


by_type(cosh)(for_floats(_cosh_64, _cosh_32))


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
def parts(x: Any) -> Any:
    """Return the exponent, and the fraction from ``sqrt(0.5)`` on, of a positive normal float64.

    Registers of 256 bits neither shift signed integers of 64 bits nor make floats of them, so the
    exponent comes as the last digits of 2**52.
    """
    word = bits(x) + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
    above = bits(np.int64(np.uint64(word) >> np.uint64(52)) | 0x4330000000000000)
    return above - (2.0**52 + 1023.0), bits((word & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD)


@inlined
def power_of_two(shifted: Any) -> Any:
    """Return ``2**n`` where a float64 is n more than ``1.5 * 2**52``."""
    return bits((bits(shifted) << 52) + 0x3FF0000000000000)


@inlined
def _terms_64(x: Any) -> Any:
    """Return what the logarithm of a positive float64 is made of.

    The exponent, and of ``f``, the fraction less 1: itself, ``f / (2 + f)`` and ``f * f / 2``.
    """
    tiny = x < 2.2250738585072014e-308
    exponent, fraction = parts(x * 2.0**54 if tiny else x)
    f = fraction - 1.0
    return exponent - (54.0 if tiny else 0.0), f, f / (2.0 + f), 0.5 * f * f


@inlined
def _log_64(x: Any, rest: Any) -> Any:
    k, f, s, half = _terms_64(x)
    z = s * s
    low = k * 1.90821492927058770002e-10 + rest
    value = k * 6.93147180369123816490e-01 - ((half - (s * (half + z * _series_64(z)) + low)) - f)
    value = x if x == np.inf else value
    value = -np.inf if x == 0.0 else value
    return value if x >= 0.0 else np.nan


def log(x: Any) -> Any:
    """Return the natural logarithm."""
    raise NotImplementedError("compiled code only")


by_type(log)(for_floats(lambda x: _log_64(x, 0.0), lambda x: _log_32(x, _f4(0))))


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


by_type(log1p)(for_floats(_log1p_64, _log1p_32))


@inlined
def _scaled_log_64(x: Any, high: float, low: float, two_high: float, two_low: float) -> Any:
    """Return the logarithm to a base, after FreeBSD's e_log2.c and e_log10.c.

    ``high + low`` is that of e, ``two_high + two_low`` of 2; the high parts end in zeros.
    """
    k, f, s, half = _terms_64(x)
    z = s * s
    a = bits(bits(f - half) & -0x100000000)
    b = (f - a) - half + s * (half + z * _series_64(z))
    one, other = k * two_high, a * high
    total = one + other
    rest = k * two_low + ((a + b) * low + b * high) + ((one - total) + other)
    value = total + rest
    value = x if x == np.inf else value
    value = -np.inf if x == 0.0 else value
    return value if x >= 0.0 else np.nan


# ``log2(fraction) / s`` of ``s * s``, where ``s = (fraction - 1) / (fraction + 1)``, interpolated
# at Chebyshev's nodes with 60 digits; the greatest error is 5e-12.
_log2_32 = polynomial(
    (
        *(2.88539008178999316, 0.961796673443228247, 0.577083567703490271),
        *(0.411673658400769443, 0.34071413665261477),
    )
)


@inlined
def short_log2(x: Any) -> Any:
    """Return the logarithm to base 2 of a positive float64 to the digits of a float32."""
    exponent, fraction = parts(x)
    s = (fraction - 1.0) / (fraction + 1.0)
    return exponent + s * _log2_32(s * s)


@inlined
def _scaled_log_32(x: Any, factor: float) -> Any:
    value = _f4(short_log2(_f8(x)) * factor)
    value = x if x == _f4(np.inf) else value
    value = _f4(-np.inf) if x == _f4(0) else value
    return value if x >= _f4(0) else _f4(np.nan)


def log2(x: Any) -> Any:
    """Return the logarithm to base 2."""
    raise NotImplementedError("compiled code only")


by_type(log2)(
    for_floats(
        lambda x: _scaled_log_64(x, 1.44269504072144627571, 1.67517131648865118353e-10, 1.0, 0.0),
        lambda x: _scaled_log_32(x, 1.0),
    )
)


def log10(x: Any) -> Any:
    """Return the logarithm to base 10."""
    raise NotImplementedError("compiled code only")


def _log10_64(x: Any) -> Any:
    return _scaled_log_64(
        x,
        4.34294481878168880939e-01,
        2.50829467116452752298e-11,
        3.01029995663611771306e-01,
        3.69423907715893078616e-13,
    )


by_type(log10)(for_floats(_log10_64, lambda x: _scaled_log_32(x, 0.301029995663981195)))


# ---------------------------------------------------------------------------- of two

# ``log1p(u) / s`` of ``s * s``, where ``s = u / (2 + u)`` and `u` is at most 1, interpolated
# likewise; in float64 without its first term, 2. The greatest errors are 3e-12 and 5e-18 of
# ``log1p(u)``. And ``exp(r)`` where ``abs(r) <= log(2) / 2``, to 3e-9.
_growing_32 = polynomial(
    (
        *(2.00000000000486918, 0.666666662376758061, 0.400000614508813001, 0.285681444708631789),
        *(0.223051522973823427, 0.171223168322623607, 0.218612894448813267),
    )
)
_growing_64 = polynomial(
    (
        *(0.666666666666666586, 0.400000000000145952, 0.285714285671054295),
        *(0.222222227177644653, 0.181817894192041761, 0.153855705401836971),
        *(0.13314136415820519, 0.120011469534528415, 0.0880035969739308586, 0.161648489872387232),
    )
)
_rising_32 = polynomial(
    (
        *(1.0, 1.0000000377334783, 0.500000004713932146, 0.166664154379872431),
        *(0.041666352801020472, 0.00837513278114401294, 0.00139411164060630535),
    )
)


def _sum_of_exponentials_64(x: Any, y: Any) -> Any:
    difference = 0.0 if x == y else x - y  # of infinities too
    large = x if difference > 0.0 else y
    u = exp(-abs(difference), 0.0)
    whole = 2.0 + u
    share = 1.0 / whole
    s = u * share
    rest = (fused(-s, whole, u) - s * ((2.0 - whole) + u)) * share  # what s lacks
    z = s * s
    return large + (fused(s * z, _growing_64(z), s + s) + (rest + rest))


def _sum_of_exponentials_32(x: Any, y: Any) -> Any:
    a, b = _f8(x), _f8(y)  # which cancel where the result is about 0
    difference = 0.0 if a == b else -abs(a - b)
    difference = -160.0 if difference < -160.0 else difference
    shifted = difference * 1.4426950408889634 + 6755399441055744.0
    r = difference - (shifted - 6755399441055744.0) * 0.6931471805599453
    u = _rising_32(r) * power_of_two(shifted)
    s = u / (2.0 + u)
    return _f4((a if a > b else b) + s * _growing_32(s * s))


def sum_of_exponentials(x: Any, y: Any) -> Any:
    """Return ``log(exp(x) + exp(y))``."""
    raise NotImplementedError("compiled code only")


by_type(sum_of_exponentials)(for_floats(_sum_of_exponentials_64, _sum_of_exponentials_32))
