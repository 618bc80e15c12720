"""Sines, angles and lengths that fill vector registers, within 2 units in the last place.

Some are right on a part of their domain only; the loops that call them tell the rest apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corepy._loops._simd import bits, by_type, for_floats, fused, inlined, polynomial

_f4, _f8, _i4 = np.float32, np.float64, np.int32

#: Angles up to which `sine` and `cosine` are right: pi / 2 comes in three parts of 53 bits, and of
#: 24 bits in float32.
ANGLE_64, ANGLE_32 = 1e6, 7e4
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
# The sine without its first term and the cosine without two, interpolated at Chebyshev's nodes with
# 60 digits; the greatest errors are 2e-11 and 2e-12.
_sine_32 = polynomial((-0.1666666666, 0.00833333176, -0.0001984002555, 2.724209212e-6))
_cosine_32 = polynomial((0.04166666666, -0.001388888758, 2.48005493e-5, -2.729442043e-7))


@inlined
def _circular_32(x: Any, quarters: Any) -> Any:
    """Return the sine of `x` and some right angles."""
    shifted = x * _f4(0.636619772) + _f4(12582912.0)
    n = shifted - _f4(12582912.0)
    r = fused(-n, _f4(1.57079625), x)  # exact: as many bits go as come
    r = fused(-n, _f4(7.54978942e-08), r)
    r = fused(-n, _f4(5.39030295e-15), r)
    turn = _i4(bits(shifted) + quarters)
    z = r * r
    sine = fused(r * z, _sine_32(z), r)
    cosine = fused(z * z, _cosine_32(z), _f4(1) - _f4(0.5) * z)
    value = cosine if turn & 1 else sine
    return -value if turn & 2 else value


@inlined
def _turned_64(x: Any) -> Any:
    """Return the number of right angles nearest to `x` in the last bits, and what is left of it.

    That comes in two parts.
    """
    shifted = x * 0.6366197723675814 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    above = fused(-n, 1.5707963267948966, x)  # exact: as many bits go as come
    low = n * 6.123233995736766e-17
    r = above - low
    rest = ((above - r) - low) - fused(n, 6.123233995736766e-17, -low)
    return bits(shifted), r, rest - n * -1.4973849048591698e-33


@inlined
def _small_sine_64(r: Any, rest: Any) -> Any:
    z = r * r
    cube = z * r
    return r - ((z * (0.5 * rest - cube * _sine(z)) - rest) - cube * _SIXTH)


@inlined
def _small_cosine_64(r: Any, rest: Any) -> Any:
    z = r * r
    half = 0.5 * z
    one = 1.0 - half
    return one + (((1.0 - one) - half) + (z * z * _cosine(z) - r * rest))


@inlined
def _circular_64(x: Any, quarters: Any) -> Any:
    """Return the sine of `x` and some right angles."""
    turn, r, rest = _turned_64(x)
    turn = turn + quarters
    value = _small_cosine_64(r, rest) if turn & 1 else _small_sine_64(r, rest)
    return -value if turn & 2 else value


def sine(x: Any) -> Any:
    """Return the sine of a number up to `ANGLE_64` or `ANGLE_32`."""
    raise NotImplementedError("compiled code only")


by_type(sine)(
    for_floats(
        lambda x: x if x == 0.0 else _circular_64(x, 0),
        lambda x: x if x == _f4(0) else _circular_32(x, _i4(0)),
    )
)


def cosine(x: Any) -> Any:
    """Return the cosine of a number up to `ANGLE_64` or `ANGLE_32`."""
    raise NotImplementedError("compiled code only")


by_type(cosine)(for_floats(lambda x: _circular_64(x, 1), lambda x: _circular_32(x, _i4(1))))


def _tangent_32(x: Any) -> Any:
    a = _f8(x)
    shifted = a * 0.6366197723675814 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = fused(-n, 6.123233995736766e-17, fused(-n, 1.5707963267948966, a))
    z = r * r
    sine = fused(r * z, _sine_32(z), r)
    cosine = fused(z * z, _cosine_32(z), 1.0 - 0.5 * z)
    odd = bits(shifted) & 1
    value = _f4((cosine if odd else sine) / (-sine if odd else cosine))
    return x if x == _f4(0) else value


def _tangent_64(x: Any) -> Any:
    turn, r, rest = _turned_64(x)
    sine, cosine = _small_sine_64(r, rest), _small_cosine_64(r, rest)
    odd = turn & 1
    value = (cosine if odd else sine) / (-sine if odd else cosine)
    return x if x == 0.0 else value


def tangent(x: Any) -> Any:
    """Return the tangent of a number up to `ANGLE_64` or `ANGLE_32`."""
    raise NotImplementedError("compiled code only")


by_type(tangent)(for_floats(_tangent_64, _tangent_32))

# ``(atan(t) - t) / t**3`` of ``t * t``, up to 1 in float32 and 1 / 2 in float64, interpolated
# likewise; the greatest errors of ``atan(t)`` are 2e-9 and 2e-17.
_arc_32 = polynomial(
    (
        *(-0.3333333308, 0.1999994932, -0.1428400379, 0.1108826163, -0.08931826776),
        *(0.07031914246, -0.04896051397, 0.02630500106, -0.009144629734, 0.001488691934),
    )
)
_arc_64 = polynomial(
    (
        *(-0.33333333333333326, 0.199999999999915674, -0.142857142841006043),
        *(0.111111109897602724, -0.0909090435738315521, 0.0769219819514254781),
        *(-0.0666504970438873132, 0.0586647190609210436, -0.0515739080170177427),
        *(0.0428318648359616218, -0.0289466053443195459, 0.0111476528905894049),
    )
)


def _angle_32(y: Any, x: Any) -> Any:
    a, b = abs(x), abs(y)
    long, short = (a if a > b else b), (b if a > b else a)
    t = _f4(0) if a + b == _f4(0) else short / long
    z = t * t
    value = fused(t * z, _arc_32(z), t)
    value = _f4(1.57079637) - (value + _f4(4.37113883e-8)) if b > a else value
    value = _f4(3.14159274) - (value + _f4(8.74227766e-8)) if bits(x) < _i4(0) else value
    return np.copysign(value, y)


def _angle_64(y: Any, x: Any) -> Any:
    a, b = abs(x), abs(y)
    long, short = (a if a > b else b), (b if a > b else a)
    near = short > 0.5 * long  # to 45 degrees, from which the angle is measured then
    t = (short - long if near else short) / (short + long if near else long)
    t = 0.0 if a + b == 0.0 else t
    z = t * t
    value = fused(t * z, _arc_64(z), t)
    value = 0.7853981633974483 + (value + 3.061616997868383e-17) if near else value
    value = 1.5707963267948966 - (value - 6.123233995736766e-17) if b > a else value
    value = 3.141592653589793 - (value - 1.2246467991473532e-16) if bits(x) < 0 else value
    return np.copysign(value, y)


def angle(y: Any, x: Any) -> Any:
    """Return the angle of the point (x, y), whose coordinates' sum does not overflow."""
    raise NotImplementedError("compiled code only")


by_type(angle)(for_floats(_angle_64, _angle_32))


def arc_tangent(x: Any) -> Any:
    """Return the arc of a tangent."""
    raise NotImplementedError("compiled code only")


by_type(arc_tangent)(for_floats(lambda x: angle(x, 1.0), lambda x: angle(x, _f4(1))))


@inlined
def _other_side_64(x: Any) -> Any:
    """Return the length of the leg beside another one, in a right triangle of hypotenuse 1."""
    return np.sqrt(fused(-x, x, 1.0))


@inlined
def _other_side_32(x: Any) -> Any:
    return np.sqrt(fused(-x, x, _f4(1)))


def arc_sine(x: Any) -> Any:
    """Return the arc of a sine; NaN beyond 1."""
    raise NotImplementedError("compiled code only")


by_type(arc_sine)(
    for_floats(lambda x: angle(x, _other_side_64(x)), lambda x: angle(x, _other_side_32(x)))
)


def arc_cosine(x: Any) -> Any:
    """Return the arc of a cosine; NaN beyond 1."""
    raise NotImplementedError("compiled code only")


by_type(arc_cosine)(
    for_floats(lambda x: angle(_other_side_64(x), x), lambda x: angle(_other_side_32(x), x))
)

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


by_type(length)(for_floats(_length_64, _length_32))
