"""Rounding to the dtypes: the only place where the reference backend loses information.

Python computes with exact integers and IEEE 754 double precision. Everything narrower is made
here: `round_to` rounds one value, `round_all` a whole list, `round_ratio` an exact rational.
"""

from __future__ import annotations

import math
from array import array
from typing import cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy.backends.reference._array import Value

__all__ = ["round_all", "round_ratio", "round_scaled", "round_to", "wrap"]

#: Beyond this power of two numbers overflow, below its inverse they vanish, in any dtype.
_EXPONENT_LIMIT = 1200


def wrap(value: int, dtype: DType) -> int:
    """Reduce an integer modulo ``2**bits`` into the range of an integer dtype."""
    if dtype.kind == "u":
        return value & ((1 << dtype.bits) - 1)
    half = 1 << (dtype.bits - 1)
    return ((value + half) & (2 * half - 1)) - half


def round_to(value: Value, dtype: DType) -> Value:
    """Round one Python scalar to a dtype.

    Parameters
    ----------
    value : bool, int, float or complex
        A scalar of the dtype's kind. An integer is accepted for a floating dtype and rounded
        once, even where double precision cannot hold it.
    dtype : DType
        float32 and complex64 round half to even, overflow to infinity and keep NaN and signed
        zeros; integer dtypes wrap modulo ``2**bits``; float64, complex128 and bool change
        nothing.

    Returns
    -------
    bool, int, float or complex
        A scalar of the same kind that the dtype holds exactly.
    """
    if dtype.rank == 2 and isinstance(value, int):
        return round_ratio(value, 1, dtype)
    return round_all([value], dtype)[0]


def round_all(values: list[Value], dtype: DType) -> list[Value]:
    """Round every value of a list as `round_to` does; integers for floating dtypes excepted."""
    if dtype.rank == 1:
        integers = cast("list[int]", values)
        if dtype.kind == "u":
            mask = (1 << dtype.bits) - 1
            return [value & mask for value in integers]
        half = 1 << (dtype.bits - 1)
        mask = 2 * half - 1
        return [((value + half) & mask) - half for value in integers]
    if dtype is _dtypes.float32:
        return _round_floats(cast("list[float]", values))  # type: ignore[return-value]
    if dtype is _dtypes.complex64:
        complexes = cast("list[complex]", values)
        reals = _round_floats([value.real for value in complexes])
        imags = _round_floats([value.imag for value in complexes])
        return list(map(complex, reals, imags))
    return values


def round_ratio(numerator: int, denominator: int, dtype: DType) -> float:
    """Round the exact rational ``numerator / denominator`` to a real floating dtype, once.

    Parameters
    ----------
    numerator : int
    denominator : int
        Positive.
    dtype : DType
        float32 or float64.

    Returns
    -------
    float
        The nearest value, ties to even; infinity on overflow, 0.0 for a zero numerator.
    """
    magnitude = numerator.bit_length() - denominator.bit_length()
    if magnitude < -_EXPONENT_LIMIT:
        return -0.0 if numerator < 0 else 0.0
    try:
        nearest = numerator / denominator  # Python rounds the quotient of two integers correctly
    except OverflowError:
        return -math.inf if numerator < 0 else math.inf
    if dtype is not _dtypes.float32 or math.isinf(nearest):
        return nearest
    # A second rounding could meet a tie that the first one made. Round to odd instead: an
    # inexact double gets an odd last bit, which no float32 and no tie between two of them has.
    top, bottom = nearest.as_integer_ratio()
    rest = numerator * bottom - top * denominator
    if rest and not _is_odd(nearest):
        nearest = math.nextafter(nearest, -math.inf if rest < 0 else math.inf)
    return _round_floats([nearest])[0]


def round_scaled(integer: int, exponent: int, dtype: DType) -> float:
    """Round ``integer * 2**exponent`` to a real floating dtype, once, however far it is from 1."""
    magnitude = integer.bit_length() + exponent
    if magnitude > _EXPONENT_LIMIT and integer:
        return -math.inf if integer < 0 else math.inf
    if magnitude < -_EXPONENT_LIMIT:
        return -0.0 if integer < 0 else 0.0
    if exponent >= 0:
        return round_ratio(integer << exponent, 1, dtype)
    return round_ratio(integer, 1 << -exponent, dtype)


def _round_floats(values: list[float]) -> list[float]:
    # The array converts with the C cast, which rounds half to even and overflows to infinity.
    return array("f", values).tolist()


def _is_odd(value: float) -> bool:
    """Say whether the last bit of a double is set."""
    return bool(array("Q", array("d", [value]).tobytes())[0] & 1)
