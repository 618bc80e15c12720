"""Elementwise functions of one or two real floats, with every special case of the standard.

They compute in float64; for float32 the result is rounded once more. The transcendental ones are
correctly rounded where `mpmath` is installed and otherwise as good as `math`, within one ulp.
The second rounding moves a float32 only where the float64 lands exactly on a tie, so its error
stays below 0.50000001 ulp; for ``+ - * /`` and ``sqrt`` it is harmless altogether.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from types import MappingProxyType

from corepy import _dtypes
from corepy._dtypes import DType
from corepy.backends.reference._exact import hypotenuse
from corepy.backends.reference._precise import refine

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "divide",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "maximum",
    "minimum",
    "nextafter",
    "pow",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]

_python_round = round
_NO_POLES: Mapping[float, float] = MappingProxyType({})


def _transcendental(
    name: str,
    rough: Callable[[float], float],
    poles: Mapping[float, float] = _NO_POLES,
) -> Callable[[float], float]:
    """Complete a function of `math`: IEEE 754 results instead of exceptions, then refined."""

    def kernel(x: float) -> float:
        if x in poles:
            return poles[x]
        try:
            value = rough(x)
        except ValueError:  # outside the domain
            return math.nan
        except OverflowError:
            return math.copysign(math.inf, x)
        return refine(name, value, x)

    kernel.__name__ = kernel.__qualname__ = name
    return kernel


exp = _transcendental("exp", math.exp)
expm1 = _transcendental("expm1", math.expm1)
log = _transcendental("log", math.log, {0.0: -math.inf})
log1p = _transcendental("log1p", math.log1p, {-1.0: -math.inf})
log2 = _transcendental("log2", math.log2, {0.0: -math.inf})
log10 = _transcendental("log10", math.log10, {0.0: -math.inf})
sin = _transcendental("sin", math.sin)
cos = _transcendental("cos", math.cos)
tan = _transcendental("tan", math.tan)
asin = _transcendental("asin", math.asin)
acos = _transcendental("acos", math.acos)
atan = _transcendental("atan", math.atan)
sinh = _transcendental("sinh", math.sinh)
tanh = _transcendental("tanh", math.tanh)
asinh = _transcendental("asinh", math.asinh)
acosh = _transcendental("acosh", math.acosh)
atanh = _transcendental("atanh", math.atanh, {1.0: math.inf, -1.0: -math.inf})
_cosh = _transcendental("cosh", math.cosh)


def cosh(x: float) -> float:
    return _cosh(abs(x))  # even, and so is its overflow


def sqrt(x: float) -> float:
    return math.nan if x < 0.0 else math.sqrt(x)


# ------------------------------------------------------------------ rounding to integers


def _integral(function: Callable[[float], int]) -> Callable[[float], float]:
    """Keep what is no finite number, and the sign where the result is zero."""

    def kernel(x: float) -> float:
        return math.copysign(float(function(x)), x) if math.isfinite(x) else x

    return kernel


floor = _integral(math.floor)
ceil = _integral(math.ceil)
trunc = _integral(math.trunc)
round = _integral(_python_round)


# ------------------------------------------------------------------ signs


def sign(x: float) -> float:
    if x == 0.0 or math.isnan(x):
        return abs(x)
    return math.copysign(1.0, x)


def signbit(x: float) -> bool:
    return math.copysign(1.0, x) < 0.0


# ------------------------------------------------------------------ two operands


def divide(a: float, b: float) -> float:
    if b:
        return a / b
    if a == 0.0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def floor_divide(a: float, b: float, part: DType = _dtypes.float64) -> float:
    """Return ``floor(a / b)`` as the standard prefers it, not paired with `remainder`.

    The quotient is exact before it is floored, and then rounded towards negative infinity to the
    nearest value that the dtype `part` has; too large ones become infinite.
    """
    quotient = divide(a, b)
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0.0 or b == 0.0:
        return quotient
    top, below = a.as_integer_ratio()
    factor, bottom = b.as_integer_ratio()
    whole = (top * bottom) // (below * factor)
    try:
        nearest = float(whole)
    except OverflowError:
        return math.copysign(math.inf, whole > 0 or -1.0)
    if part is _dtypes.float32:
        nearest = array("f", [nearest])[0]
    if math.isfinite(nearest) and nearest > whole:
        return nextafter(nearest, -math.inf, part)
    return nearest


def remainder(a: float, b: float) -> float:
    """Return what Python's ``%`` does, NaN for a zero divisor."""
    return a % b if b else math.nan


def pow(a: float, b: float) -> float:
    try:
        value = math.pow(a, b)
    except ValueError:
        if a != 0.0:  # a negative base, and no integer for exponent
            return math.nan
        return math.copysign(math.inf, a) if b % 2.0 == 1.0 else math.inf
    except OverflowError:
        return -math.inf if a < 0.0 and b % 2.0 == 1.0 else math.inf
    return refine("pow", value, a, b)


def atan2(a: float, b: float) -> float:
    value = math.atan2(a, b)
    return refine("atan2", value, a, b) if b else value  # mpmath has no negative zero


def hypot(a: float, b: float, part: DType = _dtypes.float64) -> float:
    """Return the hypotenuse, rounded once to the dtype `part`."""
    return hypotenuse((a, b), part)


def logaddexp(a: float, b: float) -> float:
    if a == b:  # equal infinities too, whose difference is NaN
        return a if math.isinf(a) else _logaddexp(a, b)
    if math.isnan(a) or math.isnan(b):
        return math.nan
    high, low = (a, b) if a > b else (b, a)
    if math.isinf(high) or math.isinf(low):
        return high + 0.0  # the logarithm of 1 is no -0.0
    return _logaddexp(high, low)


def _logaddexp(high: float, low: float) -> float:
    return refine("logaddexp", high + math.log1p(math.exp(low - high)), high, low)


def maximum(a: float, b: float) -> float:
    return a if a >= b or math.isnan(a) else b


def minimum(a: float, b: float) -> float:
    return a if a <= b or math.isnan(a) else b


def nextafter(a: float, b: float, part: DType = _dtypes.float64) -> float:
    """Return the neighbour of `a` towards `b` among the values of the dtype `part`."""
    if a == b or math.isnan(a) or math.isnan(b):
        return b if a == b else math.nan
    if part is not _dtypes.float32:
        return math.nextafter(a, b)
    if a == 0.0:
        return math.copysign(math.ldexp(1.0, -149), b)
    # Floats of one sign are ordered as the integers of their bits are.
    bits = array("I", array("f", [a]).tobytes())
    bits[0] += 1 if (b > a) == (a > 0.0) else -1
    return array("f", bits.tobytes())[0]
