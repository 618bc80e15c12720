"""Numbers of as many bits as asked, by mpmath: what ``linalg`` and ``fft`` are computed with."""

from __future__ import annotations

from typing import Any, TypeAlias

from corepy._dtypes import DType
from corepy.backends.reference._rounding import round_ratio

try:
    import mpmath
except ImportError as error:
    raise ImportError(
        "the reference backend computes linalg and fft with mpmath; "
        "install it with `pip install mpmath`"
    ) from error

__all__ = ["Context", "Real", "context", "exact", "ratio", "round_real"]

#: A context of mpmath, and a real number in it. The library has no types of its own.
Context: TypeAlias = Any
Real: TypeAlias = Any


def context(bits: int) -> Context:
    """Make a context of its own that computes with that many bits.

    mpmath's global context, whose precision a user may have set, is left alone, and threads
    do not meet.
    """
    mp = mpmath.MPContext()
    mp.prec = bits
    return mp


def exact(mp: Context, integer: int, exponent: int = 0) -> Real:
    """Make ``integer * 2**exponent`` with all its bits, however few the context keeps."""
    return mp.make_mpf(mpmath.libmp.from_man_exp(integer, exponent))


def ratio(value: Real) -> tuple[int, int]:
    """Return ``(integer, exponent)`` of a finite number: its value is ``integer * 2**exponent``."""
    sign, mantissa, exponent, _ = value._mpf_
    return -int(mantissa) if sign else int(mantissa), exponent


def round_real(value: Real, dtype: DType) -> float:
    """Round a real number to a real floating dtype; infinity on overflow."""
    if not value or not value.context.isfinite(value):
        return float(value)
    integer, exponent = ratio(value)
    # An exponent far outside of every dtype is not worth an integer of as many bits.
    exponent = min(max(exponent, -integer.bit_length() - 4000), 4000)
    return round_ratio(integer << max(exponent, 0), 1 << max(-exponent, 0), dtype)
