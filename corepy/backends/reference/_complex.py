"""Elementwise functions of one or two complex numbers, with every special case of the standard.

`cmath` follows C99, which the standard does too, but raises where C99 signals: at poles, at
infinite angles and on overflow. Those cases are written out here. Sums, products and quotients
are exact before each component is rounded once; the other functions are correctly rounded by
component where `mpmath` is installed, and otherwise within a few ulp of the modulus.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable

from corepy import _dtypes
from corepy._dtypes import DType
from corepy.backends.reference import _real
from corepy.backends.reference._exact import exact_dot, exact_sqrt, hypotenuse, to_integers
from corepy.backends.reference._precise import refine_complex
from corepy.backends.reference._rounding import round_ratio

__all__ = [
    "absolute",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "divide",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "multiply",
    "pow",
    "round_parts",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]

_NAN = complex(math.nan, math.nan)


# ------------------------------------------------------------------ arithmetic


def multiply(x: complex, y: complex, part: DType = _dtypes.float64) -> complex:
    """Return the product; each component is rounded once to the dtype `part`."""
    if not (cmath.isfinite(x) and cmath.isfinite(y)):
        return x * y
    real = exact_dot((x.real, -x.imag), (y.real, y.imag), part)
    imag = exact_dot((x.real, x.imag), (y.imag, y.real), part)
    return complex(real, imag)


def divide(x: complex, y: complex, part: DType = _dtypes.float64) -> complex:
    """Return the quotient; each component is rounded once to the dtype `part`.

    Division by zero divides each component of `x` by it. With infinities or NaNs among the
    operands, where the standard leaves the result open, it is Python's.
    """
    if y == 0:
        divisor = math.copysign(0.0, y.real)
        return complex(_real.divide(x.real, divisor), _real.divide(x.imag, divisor))
    if not (cmath.isfinite(x) and cmath.isfinite(y)):
        return x / y
    (a, b), scale = to_integers((x.real, x.imag))
    (c, d), shift = to_integers((y.real, y.imag))

    def component(numerator: int, zero: float) -> float:
        if not numerator:
            return zero if zero == 0.0 else 0.0
        # (n / 2**(scale + shift)) / (m / 2**(2 * shift)), with the powers gathered on one side
        below = (c * c + d * d) << max(scale - shift, 0)
        return round_ratio(numerator << max(shift - scale, 0), below, part)

    return complex(
        component(a * c + b * d, x.real * y.real + x.imag * y.imag),
        component(b * c - a * d, x.imag * y.real - x.real * y.imag),
    )


def absolute(x: complex, part: DType = _dtypes.float64) -> float:
    """Return the modulus, rounded once to the dtype `part`."""
    return hypotenuse((x.real, x.imag), part)


def sign(x: complex, part: DType = _dtypes.float64) -> complex:
    """Return ``x / abs(x)``; each component is rounded once to the dtype `part`."""
    if x == 0:
        return 0j
    if cmath.isnan(x):
        return _NAN
    if cmath.isinf(x):
        return complex(_real.divide(x.real, math.inf), _real.divide(x.imag, math.inf))
    (a, b), _ = to_integers((x.real, x.imag))
    square = a * a + b * b
    return complex(
        math.copysign(exact_sqrt(a * a, square, part), x.real),
        math.copysign(exact_sqrt(b * b, square, part), x.imag),
    )


def round_parts(x: complex) -> complex:
    return complex(_real.round(x.real), _real.round(x.imag))


# ------------------------------------------------------------------ exponentials


def _grow(exponent: float, factor: float) -> float:
    """Return ``factor * e**exponent`` where ``e**exponent`` alone may overflow."""
    if factor == 0.0:
        return factor
    half = _real.exp(exponent / 2)
    return factor * half * half


def exp(z: complex) -> complex:
    a, b = z.real, z.imag
    if not math.isfinite(b):
        if math.isinf(a):
            return 0j if a < 0 else complex(math.inf, math.nan)
        return _NAN
    try:
        rough = cmath.exp(z)
    except OverflowError:
        rough = complex(_grow(a, math.cos(b)), _grow(a, math.sin(b)))
    return refine_complex("exp", rough, z)


def expm1(z: complex) -> complex:
    a, b = z.real, z.imag
    if z == 0:
        return complex(0.0, b)
    if not cmath.isfinite(z):
        power = exp(z)
        return complex(power.real - 1.0, power.imag)
    half = math.sin(b / 2)
    growth = _real.expm1(a)
    real = growth * math.cos(b) - 2.0 * half * half if math.isfinite(growth) else exp(z).real
    return refine_complex("expm1", complex(real, exp(z).imag), z)


def sinh(z: complex) -> complex:
    a, b = z.real, z.imag
    if not math.isfinite(b):
        return complex(a if a == 0.0 or math.isinf(a) else math.nan, math.nan)
    try:
        rough = cmath.sinh(z)
    except OverflowError:
        grown = abs(a) - math.log(2)
        rough = complex(
            _grow(grown, math.copysign(1.0, a) * math.cos(b)), _grow(grown, math.sin(b))
        )
    return refine_complex("sinh", rough, z)


def cosh(z: complex) -> complex:
    a, b = z.real, z.imag
    if not math.isfinite(b):
        if a == 0.0:
            return complex(math.nan, 0.0)
        return complex(abs(a) if math.isinf(a) else math.nan, math.nan)
    if math.isnan(a) and b == 0.0:
        return z
    try:
        rough = cmath.cosh(z)
    except OverflowError:
        grown = abs(a) - math.log(2)
        rough = complex(
            _grow(grown, math.cos(b)), _grow(grown, math.copysign(1.0, a) * math.sin(b))
        )
    return refine_complex("cosh", rough, z)


def tanh(z: complex) -> complex:
    a, b = z.real, z.imag
    if math.isinf(a):
        return complex(math.copysign(1.0, a), 0.0 if math.isnan(b) else math.copysign(0.0, b))
    if not math.isfinite(b):
        return complex(a, math.nan) if a == 0.0 else _NAN
    return refine_complex("tanh", cmath.tanh(z), z)


# ------------------------------------------------------------------ logarithms and roots


def log(z: complex) -> complex:
    return _refine_log("log", _rough_log(z), z)


def _rough_log(z: complex) -> complex:
    return cmath.log(z) if z else complex(-math.inf, math.atan2(z.imag, z.real))


def _refine_log(name: str, rough: complex, z: complex) -> complex:
    # At zero the angle hangs on the signs of the zeros, which mpmath does not have.
    return refine_complex(name, rough, z) if z else rough


def log1p(z: complex) -> complex:
    rough = _rough_log(complex(1.0 + z.real, z.imag))
    if abs(z.real) < 0.5 and abs(z.imag) < 0.5:  # where 1 + z cancels
        modulus = math.log1p(z.real * (2.0 + z.real) + z.imag * z.imag) / 2
        rough = complex(modulus, rough.imag)
    return refine_complex("log1p", rough, z)


def log2(z: complex) -> complex:
    rough = _rough_log(z)
    return _refine_log("log2", complex(rough.real / math.log(2), rough.imag / math.log(2)), z)


def log10(z: complex) -> complex:
    rough = _rough_log(z)
    return _refine_log("log10", complex(rough.real / math.log(10), rough.imag / math.log(10)), z)


def sqrt(z: complex) -> complex:
    return refine_complex("sqrt", cmath.sqrt(z), z)


def pow(x: complex, y: complex) -> complex:
    """Return ``exp(y * log(x))``; anything to the power of zero is one, as for real numbers."""
    if y == 0:
        return 1 + 0j
    if not (cmath.isfinite(x) and cmath.isfinite(y)):
        return exp(y * _rough_log(x))
    if x == 0:
        return 0j if y.real > 0 else _NAN
    if math.copysign(1.0, x.imag) < 0:  # below the branch cut, which mpmath counts as above it
        return pow(x.conjugate(), y.conjugate()).conjugate()
    try:
        rough = x**y
    except (OverflowError, ZeroDivisionError):  # the latter at huge exponents, of any base
        rough = exp(y * _rough_log(x))
    return refine_complex("pow", rough, x, y)


# ------------------------------------------------------------------ inverse functions


def _inverse(name: str, rough: Callable[[complex], complex]) -> Callable[[complex], complex]:
    def kernel(z: complex) -> complex:
        return refine_complex(name, rough(z), z)

    kernel.__name__ = kernel.__qualname__ = name
    return kernel


asin = _inverse("asin", cmath.asin)
acos = _inverse("acos", cmath.acos)
asinh = _inverse("asinh", cmath.asinh)


def acosh(z: complex) -> complex:
    if z.real == 0.0 and math.isnan(z.imag):
        return complex(math.nan, math.pi / 2)
    return refine_complex("acosh", cmath.acosh(z), z)


def atanh(z: complex) -> complex:
    if z.imag == 0.0 and abs(z.real) == 1.0:
        return complex(math.copysign(math.inf, z.real), z.imag)
    return refine_complex("atanh", cmath.atanh(z), z)


# ------------------------------------------------------------------ rotated by a right angle


def _rotated(function: Callable[[complex], complex]) -> Callable[[complex], complex]:
    """Make ``-1j * function(1j * z)`` of a function, without the products' spurious NaNs."""

    def kernel(z: complex) -> complex:
        turned = function(complex(-z.imag, z.real))
        return complex(turned.imag, -turned.real)

    return kernel


sin = _rotated(sinh)
tan = _rotated(tanh)
atan = _rotated(atanh)


def cos(z: complex) -> complex:
    return cosh(complex(-z.imag, z.real))
