"""Exact arithmetic on floats: sums, products and roots that are rounded once, at the end.

Every finite float is an integer over a power of two. Brought to one such power, floats add and
multiply as Python's unbounded integers do, without any error; `round_ratio` ends the calculation.
Infinities and NaNs have no place there: what they make of a sum is decided apart.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable, Sequence
from operator import mul

from corepy import _dtypes
from corepy._dtypes import DType
from corepy.backends.reference._rounding import round_ratio, round_scaled

__all__ = [
    "ExactComplexProduct",
    "ExactProduct",
    "ExactSum",
    "ExactVector",
    "exact_dot",
    "exact_sqrt",
    "exact_sum",
    "hypotenuse",
    "to_integers",
]

#: Bits of a square root beyond which one more, set when the root is inexact, decides every tie.
_ROOT_BITS = 64
#: Bits to which longer products are cut. The last bit remembers that something was cut off, so
#: a rounding goes wrong only for a product that is this close to a tie and none itself.
_PRODUCT_BITS = 4096


def to_integers(values: Sequence[float]) -> tuple[list[int], int]:
    """Write finite floats as integers over a common power of two.

    Returns
    -------
    integers : list of int
    shift : int
        Each value is its integer divided by ``2**shift``.
    """
    ratios = [value.as_integer_ratio() for value in values]
    shift = max((bottom.bit_length() for _, bottom in ratios), default=1) - 1
    return [top << (shift + 1 - bottom.bit_length()) for top, bottom in ratios], shift


def exact_sum(values: Sequence[float], dtype: DType) -> float:
    """Add floats and round the sum once to a real floating dtype.

    The sum of no values is 0.0, and a sum of negative zeros alone -0.0, as IEEE addition has it.
    """
    special = sum(value for value in values if not math.isfinite(value))
    if special:  # an infinity or NaN: a true value, unlike the 0 of an empty sum
        return special
    integers, shift = to_integers(values)
    total = sum(integers)
    if not total:
        return _zero(values)
    return round_ratio(total, 1 << shift, dtype)


class ExactVector:
    """Floats made ready for exact dot products, as many as they are needed for."""

    def __init__(self, values: Sequence[float]) -> None:
        self._values = values
        self._finite = all(map(math.isfinite, values))
        self._integers, self._shift = to_integers(values) if self._finite else ([], 0)

    def dot(self, other: ExactVector, dtype: DType) -> float:
        """Add the products with an equally long vector; round once to a real floating dtype."""
        if not (self._finite and other._finite):
            # Only what is not finite matters; other products may overflow, but do not count.
            pairs = zip(self._values, other._values, strict=True)
            return sum(x * y for x, y in pairs if not (math.isfinite(x) and math.isfinite(y)))
        total = sum(map(mul, self._integers, other._integers))
        if not total:
            return _zero(list(map(mul, self._values, other._values)))
        return round_ratio(total, 1 << (self._shift + other._shift), dtype)


def exact_dot(a: Sequence[float], b: Sequence[float], dtype: DType) -> float:
    """Add the products of two equally long sequences and round once to a real floating dtype."""
    return ExactVector(a).dot(ExactVector(b), dtype)


class ExactProduct:
    """A product of floats that is kept exact until it is rounded; 1.0 to begin with.

    "Exact" ends at thousands of bits, of which a dtype keeps 53: see `_PRODUCT_BITS`.
    """

    def __init__(self) -> None:
        self._top = 1
        self._shift = 0
        self._sign = 1.0
        # Beside zeros, infinities and NaNs the other magnitudes do not matter.
        self._special = 1.0

    def multiply(self, value: float) -> None:
        """Multiply by one more float."""
        self._sign *= math.copysign(1.0, value)
        if value == 0.0 or not math.isfinite(value):
            self._special *= abs(value)
        else:
            top, bottom = value.as_integer_ratio()
            self._top *= top
            self._shift += bottom.bit_length() - 1
            excess = _excess(self._top)
            self._top = _shorten(self._top, excess)
            self._shift -= excess

    def rounded(self, dtype: DType) -> float:
        """Return the product, rounded once to a real floating dtype."""
        if self._special != 1.0:
            return self._special * self._sign
        return round_scaled(self._top, -self._shift, dtype)


class ExactComplexProduct:
    """A product of complex numbers that is kept exact until it is rounded.

    From the first infinity or NaN on it is Python's.
    """

    def __init__(self) -> None:
        self._real = 1
        self._imag = 0
        self._shift = 0
        self._special: complex | None = None

    def multiply(self, value: complex) -> None:
        """Multiply by one more complex number."""
        if self._special is not None:
            self._special *= value
        elif not cmath.isfinite(value):
            self._special = self.rounded(_dtypes.float64) * value
        else:
            (real, imag), shift = to_integers((value.real, value.imag))
            self._real, self._imag = (
                self._real * real - self._imag * imag,
                self._real * imag + self._imag * real,
            )
            self._shift += shift
            excess = _excess(max(abs(self._real), abs(self._imag)))
            self._real = _shorten(self._real, excess)
            self._imag = _shorten(self._imag, excess)
            self._shift -= excess

    def rounded(self, dtype: DType) -> complex:
        """Return the product, each component rounded once to a real floating dtype."""
        if self._special is not None:
            return self._special
        below = 1 << self._shift
        return complex(round_ratio(self._real, below, dtype), round_ratio(self._imag, below, dtype))


class ExactSum:
    """A sum of floats that is kept exact until it is rounded; 0.0 to begin with."""

    def __init__(self) -> None:
        self._top = 0
        self._shift = 0
        self._special = 0.0
        self._zero = 0.0
        self._empty = True

    def add(self, value: float) -> None:
        """Add one more float."""
        # Negative zeros alone add up to -0.0, as in IEEE addition; anything else spoils that.
        alike = self._empty or _is_negative_zero(self._zero)
        self._zero = -0.0 if alike and _is_negative_zero(value) else 0.0
        self._empty = False
        if not math.isfinite(value):
            self._special += value
            return
        top, bottom = value.as_integer_ratio()
        shift = bottom.bit_length() - 1
        if shift > self._shift:
            self._top <<= shift - self._shift
            self._shift = shift
        self._top += top << (self._shift - shift)

    def rounded(self, dtype: DType) -> float:
        """Return the sum, rounded once to a real floating dtype."""
        if self._special:
            return self._special
        if not self._top:
            return self._zero
        return round_ratio(self._top, 1 << self._shift, dtype)


def exact_sqrt(numerator: int, denominator: int, dtype: DType) -> float:
    """Return the square root of a non-negative rational, rounded once to a real floating dtype."""
    if not numerator:
        return 0.0
    missing = 2 * _ROOT_BITS - numerator.bit_length() + denominator.bit_length()
    shift = max(0, missing + 1) // 2
    square, rest = divmod(numerator << (2 * shift), denominator)
    root = math.isqrt(square)
    inexact = bool(rest) or root * root != square
    # One more bit, set when something was cut off, keeps the rounding on the right side of ties.
    return round_ratio(2 * root + inexact, 1 << (shift + 1), dtype)


def hypotenuse(parts: Iterable[float], dtype: DType = _dtypes.float64) -> float:
    """Return the root of a sum of squares, rounded once; any infinity makes it infinite."""
    sizes = [abs(part) for part in parts]
    if math.inf in sizes:
        return math.inf
    if any(map(math.isnan, sizes)):
        return math.nan
    integers, shift = to_integers(sizes)
    return exact_sqrt(sum(map(mul, integers, integers)), 1 << (2 * shift), dtype)


def _excess(integer: int) -> int:
    """Return how many bits a product has to lose; cutting seldom keeps that cheap."""
    length = integer.bit_length()
    return length - _PRODUCT_BITS if length > 2 * _PRODUCT_BITS else 0


def _shorten(integer: int, bits: int) -> int:
    """Drop low bits; the last one left is set if any of them was."""
    if not bits:
        return integer
    kept = integer >> bits
    return kept if kept << bits == integer else kept | 1


def _zero(terms: Sequence[float]) -> float:
    """Return the zero that terms which cancel add up to: -0.0 only if all of them are."""
    return -0.0 if terms and all(map(_is_negative_zero, terms)) else 0.0


def _is_negative_zero(value: float) -> bool:
    return value == 0.0 and math.copysign(1.0, value) < 0.0
