"""Elementwise functions whose values CuPy has otherwise than the standard."""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from corepy._errors import divided_by_zero, negative_power

Array = Any


def floor_divide(x1: Array, x2: Array) -> Array:
    if x1.dtype.kind in "iu":
        _without_zero(x1, x2)
        return cupy.floor_divide(x1, x2)
    x2 = _on_device_of(x1, x2)
    # CuPy rounds the quotient before it takes its floor (carray.cuh), so that 1 // 0.1 is 10. The
    # quotient of what is left by the exact remainder is a whole number but for rounding; where
    # something is infinite or zero, the standard wants the floor of what `divide` gives.
    quotient, rest = cupy.divide(x1, x2), cupy.fmod(x1, x2)
    whole = cupy.divide(x1 - rest, x2)
    whole = cupy.rint(cupy.where((rest != 0) & ((x2 < 0) != (rest < 0)), whole - 1, whole))
    whole = cupy.where(whole == 0, cupy.copysign(whole, quotient), whole)
    special = cupy.isinf(x1) | cupy.isinf(x2) | (x2 == 0)
    return cupy.where(special, cupy.floor(quotient), whole)


def remainder(x1: Array, x2: Array) -> Array:
    if x1.dtype.kind in "iu":
        _without_zero(x1, x2)
        return cupy.remainder(x1, x2)
    x2 = _on_device_of(x1, x2)
    # CuPy subtracts the floor of the rounded quotient times x2 (_routines_math.pyx): NaN beside an
    # infinite x2, and nothing left of the digits where the quotient is large. fmod is exact.
    rest = cupy.fmod(x1, x2)
    rest = cupy.where((rest != 0) & ((x2 < 0) != (rest < 0)), rest + x2, rest)
    return cupy.where(rest == 0, cupy.copysign(rest, x2), rest)


def _on_device_of(x: Array, value: Any) -> Array:
    """Return an operand that may be a Python scalar as an array."""
    return value if isinstance(value, cupy.ndarray) else cupy.full((), value, x.dtype)


def _without_zero(x1: Array, x2: Array) -> None:
    # CuPy answers 0.
    if x1.size and bool((x2 == 0).any() if isinstance(x2, cupy.ndarray) else x2 == 0):
        raise divided_by_zero()


def pow_(x1: Array, x2: Array) -> Array:
    # CuPy answers 0, 1 or -1 (integral_power in _routines_math.pyx).
    whole = x1.dtype.kind == "i" and x1.size
    if whole and bool((x2 < 0).any() if isinstance(x2, cupy.ndarray) else x2 < 0):
        raise negative_power()
    return cupy.power(x1, x2)


def sign(x: Array) -> Array:
    if x.dtype.kind != "c":
        return cupy.sign(x)
    modulus = cupy.abs(x)
    # Quotients by a subnormal modulus overflow, and a modulus may overflow itself.
    scale = cupy.ones_like(modulus)
    cupy.copyto(scale, 2.0**60, where=modulus < np.finfo(modulus.dtype).tiny)
    cupy.copyto(scale, 0.25, where=cupy.isinf(modulus) & cupy.isfinite(x))
    x = complex_of(x.real * scale, x.imag * scale)
    modulus = cupy.abs(x)
    # Divided by a complex number (arithmetic.h), what is nearly zero becomes NaN.
    result = complex_of(x.real / modulus, x.imag / modulus)
    cupy.copyto(result, 0, where=modulus == 0)
    return result


def expm1(x: Array) -> Array:
    if x.dtype.kind != "c":
        return cupy.expm1(x)
    special = cupy.exp(x) - 1
    # That is all that CuPy computes (complex.cuh): near zero nothing is left of the digits.
    real, imag = x.real, x.imag
    small = cupy.expm1(real) * cupy.cos(imag) - 2 * cupy.sin(imag / 2) ** 2
    result = complex_of(small, cupy.exp(real) * cupy.sin(imag))
    result = cupy.where(cupy.isfinite(result), result, special)
    # The standard wants +0 for the real part at zero.
    return cupy.where(x == 0, complex_of(cupy.zeros_like(real), imag), result)


def log(x: Array) -> Array:
    return _infinite_at_infinity(cupy.log(x), x)


def log10(x: Array) -> Array:
    return _infinite_at_infinity(cupy.log10(x), x)


def log2(x: Array) -> Array:
    if x.dtype.kind != "c":
        return cupy.log2(x)
    # CuPy divides by a complex number (complex.cuh): infinities become NaN, zeros lose their sign.
    result = log(x)
    for part in (result.real, result.imag):
        cupy.divide(part, math.log(2), part)
    return result


def _infinite_at_infinity(result: Array, x: Array) -> Array:
    if x.dtype.kind == "c":
        # Beside a NaN CuPy takes the logarithm of the sum of squares (clog.h), another NaN.
        cupy.copyto(result.real, math.inf, where=cupy.isinf(x))
    return result


def log1p(x: Array) -> Array:
    if x.dtype.kind != "c":
        return cupy.log1p(x)
    # CuPy adds the one and takes the logarithm (complex.cuh), which loses what the one rounds
    # away, and the sign of a zero. Near zero |1 + x|**2 - 1 is found without it.
    real, imag = x.real, x.imag
    close = cupy.log1p(real * (2 + real) + imag * imag) / 2
    close = complex_of(close, cupy.arctan2(imag, 1 + real))
    return cupy.where(cupy.abs(x) < 0.5, close, log(complex_of(real + 1, imag)))


def complex_of(real: Array, imag: Array) -> Array:
    """Put two parts together; their sum would lose infinities and signs."""
    made = cupy.empty(real.shape, np.result_type(real.dtype, np.complex64))
    made.real, made.imag = real, imag
    return made


def tanh(x: Array) -> Array:
    result = cupy.tanh(x)
    if x.dtype.kind != "c":
        return result
    real, imag = x.real, x.imag
    # C99 leaves the sign of the zero at infinity to sin(2 y); the standard takes that of y.
    limit = cupy.isinf(real) & cupy.isfinite(imag)
    cupy.copyto(result.imag, cupy.copysign(cupy.zeros_like(imag), imag), where=limit)
    # On the imaginary axis the real part is zero, also beside a NaN, which ctanh.h has there.
    cupy.copyto(result.real, real, where=(real == 0) & ~cupy.isfinite(imag))
    return result


def tan(x: Array) -> Array:
    result = cupy.tan(x)
    if x.dtype.kind == "c":
        # It is tanh, turned.
        real, imag = x.real, x.imag
        limit = cupy.isinf(imag) & cupy.isfinite(real)
        cupy.copyto(result.real, cupy.copysign(cupy.zeros_like(real), real), where=limit)
        cupy.copyto(result.imag, imag, where=(imag == 0) & ~cupy.isfinite(real))
    return result


def acosh(x: Array) -> Array:
    result = cupy.arccosh(x)
    if x.dtype.kind == "c":
        # C99's first editions have NaN there for the imaginary part too, as has catrig.h.
        cupy.copyto(result.imag, math.pi / 2, where=(x.real == 0) & cupy.isnan(x.imag))
    return result


def clip(x: Array, min: Array | None = None, max: Array | None = None) -> Array:
    # compat casts bounds by value, which waits for the device; ours have x's dtype already.
    if min is not None:
        x = cupy.maximum(x, min)
    if max is not None:
        return cupy.minimum(x, max)
    return x.copy() if min is None else x
