"""Elementwise functions whose values JAX has otherwise than the standard, or too roughly.

Each is one compiled function of arrays of any dtype. It has the standard's values, and JAX's own
derivative: rewriting signs and infinities must not make a gradient wrong.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Array: TypeAlias = Any
Function: TypeAlias = Callable[..., Array]


def _differentiated_as(library: Function) -> Callable[[Function], Function]:
    """Compile a function that corrects the values of JAX's own, with JAX's derivative."""

    def decorate(values: Function) -> Function:
        function = jax.custom_jvp(values)

        def derivative(operands: tuple[Array, ...], tangents: tuple[Array, ...]) -> Any:
            return function(*operands), jax.jvp(library, operands, tangents)[1]

        function.defjvp(derivative)
        compiled: Function = jax.jit(function)
        return compiled

    return decorate


def _is_complex(x: Array) -> bool:
    return bool(x.dtype.kind == "c")


def _parts(z: Array) -> tuple[Array, Array]:
    return jnp.real(z), jnp.imag(z)


def _rotated(function: Function, z: Array) -> Array:
    """Return ``-i f(i z)``, which makes a circular function of a hyperbolic one."""
    x, y = _parts(z)
    real, imag = _parts(function(lax.complex(-y, x)))
    return lax.complex(imag, -real)


# ---------------------------------------------------------------------------- exponentials
# XLA multiplies out by components: infinities meet zeros, and zeros lose their signs
# (https://github.com/pearu/functional_algorithms/issues/55 lists some).


@_differentiated_as(jnp.exp)
def exp(z: Array) -> Array:
    return _exponential(jnp.exp(z), z, 0.0) if _is_complex(z) else jnp.exp(z)


@_differentiated_as(jnp.expm1)
def expm1(z: Array) -> Array:
    if not _is_complex(z):
        return jnp.expm1(z)
    # XLA takes cos(y) - 1 for a difference, which leaves nothing of it near multiples of 2 pi.
    # Where the one is lost anyway, exp overflows later.
    x, y = _parts(z)
    real = jnp.expm1(x) * jnp.cos(y) - 2 * jnp.sin(y / 2) ** 2
    found = lax.complex(jnp.where(z == 0, 0, real), jnp.imag(jnp.expm1(z)))
    return _exponential(jnp.where(x > 50, jnp.exp(z), found), z, -1.0)


def _exponential(found: Array, z: Array, least: float) -> Array:
    """Correct an exponential whose limit at minus infinity is `least`."""
    (x, y), (real, imag) = _parts(z), _parts(found)
    turning = ~jnp.isfinite(y)
    vanishes, explodes = (x == -jnp.inf) & turning, (x == jnp.inf) & turning
    real = jnp.where(vanishes, least, jnp.where(explodes, jnp.inf, real))
    imag = jnp.where(vanishes, jnp.copysign(0, y), jnp.where(y == 0, y, imag))
    return lax.complex(real, imag)


# XLA takes the real ones from exp(x +- log(2)), where rounding the sum costs 500 ulp of a large
# operand, and the complex ones from differences, which leave nothing of a small operand
# (https://github.com/tensorflow/tensorflow/issues/116944 has the large ones).


@_differentiated_as(jnp.sinh)
def sinh(z: Array) -> Array:
    if not _is_complex(z):
        return _hyperbolic_sine(z, jnp.ones_like(z))
    x, y = _parts(z)
    turning = ~jnp.isfinite(y)
    real = _hyperbolic_sine(x, jnp.cos(y))
    real = jnp.where((x == 0) & turning, x, jnp.where(jnp.isinf(x) & turning, x, real))
    imag = _hyperbolic_cosine(x, jnp.sin(y))
    return lax.complex(real, jnp.where(y == 0, y, imag))


@_differentiated_as(jnp.cosh)
def cosh(z: Array) -> Array:
    if not _is_complex(z):
        return _hyperbolic_cosine(z, jnp.ones_like(z))
    x, y = _parts(z)
    turning = ~jnp.isfinite(y)
    real = _hyperbolic_cosine(x, jnp.cos(y))
    real = jnp.where(jnp.isinf(x) & turning, jnp.inf, real)
    imag = _hyperbolic_sine(x, jnp.sin(y))
    imag = jnp.where((x == 0) & turning, 0, imag)
    return lax.complex(real, jnp.where(y == 0, jnp.copysign(1, x) * y, imag))


def _hyperbolic_sine(x: Array, factor: Array) -> Array:
    """Return ``sinh(x) * factor`` of reals."""
    grown = jnp.exp(jnp.abs(x))
    large = jnp.copysign((grown - 1 / grown) / 2, x)
    # Below 1, where the difference cancels, by its series.
    square, series = x * x, jnp.zeros_like(x)
    for n in range(18, 0, -2):
        series = (series + 1) * square / (n * (n + 1))
    found = jnp.where(jnp.abs(x) < 1, x + x * series, large) * factor
    return _unless_it_overflows(x, found, jnp.copysign(1, x) * factor)


def _hyperbolic_cosine(x: Array, factor: Array) -> Array:
    """Return ``cosh(x) * factor`` of reals."""
    grown = jnp.exp(jnp.abs(x))
    return _unless_it_overflows(x, (grown + 1 / grown) / 2 * factor, factor)


def _unless_it_overflows(x: Array, found: Array, factor: Array) -> Array:
    """Replace a product with ``exp(|x|) / 2`` where only the factor keeps it from overflow."""
    root = jnp.exp(jnp.abs(x) / 2)
    limit = math.log(jnp.finfo(x.dtype).max) - 1
    return jnp.where(jnp.abs(x) > limit, root * (factor / 2) * root, found)


@_differentiated_as(jnp.tanh)
def tanh(z: Array) -> Array:
    if not _is_complex(z):
        return jnp.tanh(z)
    # W. Kahan, "Branch cuts for complex elementary functions", 1987.
    x, y = _parts(z)
    tangent = jnp.tan(y)
    growth = 1 + tangent * tangent
    sine = sinh(x)
    below = 1 + growth * sine * sine
    far = (jnp.abs(x) > math.log(jnp.finfo(x.dtype).max) / 4) & jnp.isfinite(y)
    real = jnp.where(far, jnp.copysign(1, x), growth * jnp.sqrt(1 + sine * sine) * sine / below)
    imag = jnp.where(far, 4 * jnp.sin(y) * jnp.cos(y) * jnp.exp(-2 * jnp.abs(x)), tangent / below)
    real = jnp.where(x == 0, x, jnp.where(jnp.isinf(x), jnp.copysign(1, x), real))
    imag = jnp.where((x == 0) & ~jnp.isfinite(y), jnp.nan, imag)
    imag = jnp.where(jnp.isinf(x), jnp.copysign(0, y), jnp.where(y == 0, y, imag))
    return lax.complex(real, imag)


@_differentiated_as(jnp.sin)
def sin(z: Array) -> Array:
    return _rotated(sinh, z) if _is_complex(z) else jnp.sin(z)


@_differentiated_as(jnp.cos)
def cos(z: Array) -> Array:
    return cosh(lax.complex(-jnp.imag(z), jnp.real(z))) if _is_complex(z) else jnp.cos(z)


@_differentiated_as(jnp.tan)
def tan(z: Array) -> Array:
    return _rotated(tanh, z) if _is_complex(z) else jnp.tan(z)


# ---------------------------------------------------------------------------- their inverses
# XLA finds the right magnitudes; on the branch cuts it ignores the sign of a zero, which says on
# which side of the cut the operand lies (https://github.com/jax-ml/jax/issues/39110). Beside a NaN
# it makes something of a part that is large.


def _is_unknown(x: Array, y: Array) -> Array:
    """Say where one part is NaN and the other, which is finite, tells nothing of the result."""
    return (jnp.isnan(x) | jnp.isnan(y)) & ~jnp.isinf(x) & ~jnp.isinf(y)


@_differentiated_as(jnp.arcsinh)
def asinh(z: Array) -> Array:
    if not _is_complex(z):
        return jnp.arcsinh(z)
    (x, y), (real, imag) = _parts(z), _parts(jnp.arcsinh(z))
    real = jnp.where(_is_unknown(x, y), jnp.nan, real)
    imag = jnp.where(jnp.isnan(x) & (y == 0), 0, imag)
    return lax.complex(jnp.copysign(real, x), jnp.copysign(imag, y))


@_differentiated_as(jnp.arccosh)
def acosh(z: Array) -> Array:
    if not _is_complex(z):
        return jnp.arccosh(z)
    (x, y), (real, imag) = _parts(z), _parts(jnp.arccosh(z))
    real = jnp.where(_is_unknown(x, y), jnp.nan, real)
    imag = jnp.where((x == 0) & jnp.isnan(y), jnp.pi / 2, jnp.copysign(imag, y))
    return lax.complex(real, imag)


@_differentiated_as(jnp.arctanh)
def atanh(z: Array) -> Array:
    if not _is_complex(z):  # XLA subtracts two logarithms, and has bad ones (see log1p)
        far = jnp.abs(z)
        return jnp.copysign(log1p(2 * far / (1 - far)) / 2, z)
    (x, y), (real, imag) = _parts(z), _parts(jnp.arctanh(z))
    unknown = jnp.isnan(y) | (jnp.isnan(x) & jnp.isfinite(y))
    # Beside the poles at -1 and 1 XLA squares a distance that is too small for it.
    beside = (jnp.abs(x) == 1) & (y != 0) & jnp.isinf(real)
    real = jnp.where(beside, (math.log(2) - jnp.log(jnp.abs(y))) / 2, real)
    real = jnp.where((x == 0) & jnp.isnan(y), 0, real)
    imag = jnp.where(unknown, jnp.nan, imag)
    return lax.complex(jnp.copysign(real, x), jnp.copysign(imag, y))


@_differentiated_as(jnp.arcsin)
def asin(z: Array) -> Array:
    if _is_complex(z):
        return _rotated(asinh, z)
    # XLA halves its operand, and of the smallest ones nothing is left.
    return jnp.where(jnp.abs(z) < jnp.sqrt(jnp.finfo(z.dtype).eps), z, jnp.arcsin(z))


@_differentiated_as(jnp.arccos)
def acos(z: Array) -> Array:
    if not _is_complex(z):
        return jnp.arccos(z)
    (x, y), (real, imag) = _parts(z), _parts(jnp.arccos(z))
    real = jnp.where((x == 0) & jnp.isnan(y), jnp.pi / 2, real)
    imag = jnp.where(_is_unknown(x, y), jnp.nan, imag)
    return lax.complex(real, -jnp.copysign(imag, y))


@_differentiated_as(jnp.arctan)
def atan(z: Array) -> Array:
    return _rotated(atanh, z) if _is_complex(z) else jnp.arctan(z)


# ------------------------------------------------------------- magnitudes and what comes of them


@_differentiated_as(jnp.abs)
def abs(x: Array) -> Array:
    # An infinite component outweighs one that is NaN (https://github.com/jax-ml/jax/issues/37990).
    found = jnp.abs(x)
    return jnp.where(jnp.isinf(x), jnp.inf, found) if _is_complex(x) else found


def _by_size(z: Array) -> tuple[Array, Array]:
    """Return the greater and the smaller component of a complex number, without their signs."""
    x, y = (jnp.abs(part) for part in _parts(z))
    return jnp.maximum(x, y), jnp.minimum(x, y)


def _logarithm(library: Function, base: float = math.e) -> Function:
    """Correct a logarithm: its real part is one of the magnitude."""

    @_differentiated_as(library)
    def logarithm(z: Array) -> Array:
        found = library(z)
        if not _is_complex(z):
            return found
        great, small = _by_size(z)
        excess = (great - 1) * (great + 1) + small * small
        real = _real_logarithm(excess, jnp.real(found), base)
        return lax.complex(jnp.where(jnp.isinf(z), jnp.inf, real), jnp.imag(found))

    return logarithm


def _real_logarithm(excess: Array, real: Array, base: float = math.e) -> Array:
    """Correct the logarithm of a magnitude where XLA's `log1p` loses digits.

    The excess is that of its square over 1.
    """
    lost = (excess > -0.45) & (excess < -0.33)
    return jnp.where(lost, log1p(jnp.where(lost, excess, 0)) / (2 * math.log(base)), real)


@_differentiated_as(jnp.log1p)
def log1p(z: Array) -> Array:
    if not _is_complex(z):
        # XLA's polynomial loses 127 ulp of float64 near its end, at -0.41. Its logarithm is right,
        # and the digits that adding 1 rounds away are known.
        near = lax.optimization_barrier(1 + z)  # or XLA makes log1p of it
        found = jnp.log(near)
        lost = (z - (near - 1)) / near
        return jnp.where(jnp.isfinite(found) & (z != 0), found + lost, jnp.where(z == 0, z, found))
    found = _log1p(z)
    # Above its pole at -1 XLA squares a distance that is too small for it.
    (x, y), (real, imag) = _parts(z), _parts(found)
    real = _real_logarithm(x * (2 + x) + y * y, real)
    return lax.complex(jnp.where((x == -1) & jnp.isfinite(y), jnp.log(jnp.abs(y)), real), imag)


def _log1p(z: Array) -> Array:
    found = jnp.log1p(z)
    return lax.complex(jnp.where(jnp.isinf(z), jnp.inf, jnp.real(found)), jnp.imag(found))


@_differentiated_as(jnp.sqrt)
def sqrt(z: Array) -> Array:
    if not _is_complex(z):
        return jnp.sqrt(z)
    (x, y), (real, imag) = _parts(z), _parts(jnp.sqrt(z))
    unknown = jnp.isnan(y)
    real = jnp.where((unknown & (x == jnp.inf)) | jnp.isinf(y), jnp.inf, real)
    imag = jnp.where((unknown & (x == -jnp.inf)) | jnp.isinf(y), jnp.inf, imag)
    return lax.complex(real, jnp.where(unknown, imag, jnp.copysign(imag, y)))


@_differentiated_as(jnp.sign)
def sign(x: Array) -> Array:
    if _is_complex(x):  # the modulus of a quarter does not overflow, and has the same direction
        x = jnp.where(jnp.isinf(jnp.abs(x)) & jnp.isfinite(x), x / 4, x)
    # XLA passes zeros on as they are, and the standard's zero has no sign.
    return jnp.where(x == 0, 0, jnp.sign(x))


@_differentiated_as(jnp.pow)
def pow(x1: Array, x2: Array) -> Array:
    found = jnp.pow(x1, x2)
    if found.dtype.kind in "iu":  # JAX reads the low six bits of such an exponent, and no others
        return found * _high_power(x1.astype(found.dtype), x2.astype(found.dtype))
    if not _is_complex(found):
        return found
    # By way of the logarithm, XLA makes NaN of zero to a power that has an imaginary part.
    return jnp.where((x1 == 0) & (jnp.real(x2) > 0), 0, found)


#: The greatest exponent of integers of which JAX reads every bit.
LOW_EXPONENT: Final = 63


def _high_power(x1: Array, x2: Array) -> Array:
    """Return the power that an exponent's bits beyond the sixth stand for, without a look at them.

    They are an exponent of the 64th power, which of an even number is 0 and of an odd one 256 z + 1
    for some z: a sum, by the binomial theorem, of terms that end in 0, 8, 16, ... bits of zero. So
    neither further terms count, nor that z lacks its first eight bits.
    """
    dtype, bits = x1.dtype, 8 * x1.dtype.itemsize
    # A negative exponent, which has no right power, keeps JAX's.
    high = jnp.where(x2 > LOW_EXPONENT, x2 >> 6, 0)
    z = lax.integer_pow(x1, LOW_EXPONENT + 1) >> 8
    power = term = jnp.ones_like(high)
    for k in range(1, bits // 8):
        # 256 / k, as integers that wrap around are divided: by an odd one with its inverse.
        twos = k & -k
        ratio = 256 // twos * builtins.pow(k // twos, -1, 1 << bits) % (1 << bits)
        factor, before = (np.array(n, np.uint64).astype(dtype) for n in (ratio, k - 1))
        term = term * (high - before) * z * factor
        power = power + term
    return jnp.where(((x1 & 1) == 1) | (high == 0), power, 0)


@_differentiated_as(jnp.pow)
def low_pow(x1: Array, x2: Array) -> Array:
    """Return powers of integers to exponents of at most `LOW_EXPONENT`, without a look at them."""
    return jnp.pow(x1, x2)


# ---------------------------------------------------------------------------- division


@_differentiated_as(jnp.divide)
def divide(x1: Array, x2: Array) -> Array:
    # By a number that many share XLA multiplies by its reciprocal instead, and rounds twice. That
    # this is such a number it does not see, even beside a constant. (`lax.optimization_barrier`
    # hides it too, but a GPU then writes it to memory once for each quotient.)
    if x1.dtype.kind == "f" and x2.shape != jnp.broadcast_shapes(x1.shape, x2.shape):
        x2 = jnp.where(jnp.isnan(x1) | jnp.isnan(x2), x1 + x2, x2)
    return jnp.divide(x1, x2)


@_differentiated_as(jnp.floor_divide)
def floor_divide(x1: Array, x2: Array) -> Array:
    # As Python's divmod and NumPy, JAX gives nan for inf // 2, -1 for 1 // -inf and 0 for -0 // 1,
    # where the standard has inf, -0 and -0 (https://github.com/numpy/numpy/issues/23860).
    found = jnp.floor_divide(x1, x2)
    if found.dtype.kind != "f":
        return found
    quotient = jnp.true_divide(x1, x2)
    # As in NumPy, the floor of a quotient that is rounded to halves may be one off.
    size, most = jnp.abs(found), 2.0 ** jnp.finfo(found.dtype).nmant
    whole = jnp.floor(quotient)
    whole += jnp.rint(quotient - whole - jnp.remainder(x1, x2) / x2)
    found = jnp.where((size >= most / 2) & (size <= most), whole, found)
    special = (jnp.isinf(x1) ^ jnp.isinf(x2)) | (x1 == 0) | (x2 == 0)  # NaN before JAX 0.10.2
    # And a zero has the quotient's sign; JAX's of -0.125 // -1 is negative.
    return jnp.where(
        special,
        jnp.floor(quotient),
        jnp.where(found == 0, jnp.copysign(found, quotient), found),
    )


@_differentiated_as(jnp.remainder)
def remainder(x1: Array, x2: Array) -> Array:
    # A remainder of zero has the sign of the divisor; JAX leaves it that of the dividend.
    found = jnp.remainder(x1, x2)
    if found.dtype.kind != "f":
        return found
    return jnp.where(found == 0, jnp.copysign(found, x2), found)


FIXES: Final[dict[str, Function]] = {
    "abs": abs,
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atanh": atanh,
    "cos": cos,
    "cosh": cosh,
    "divide": divide,
    "exp": exp,
    "expm1": expm1,
    "log": _logarithm(jnp.log),
    "log10": _logarithm(jnp.log10, 10),
    "log1p": log1p,
    "log2": _logarithm(jnp.log2, 2),
    "pow": pow,
    "sign": sign,
    "sin": sin,
    "sinh": sinh,
    "sqrt": sqrt,
    "tan": tan,
    "tanh": tanh,
}
