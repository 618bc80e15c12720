"""Correct rounding of transcendental functions, where `mpmath` is installed.

Python's `math` is good to about one unit in the last place, `cmath` to a few. With mpmath (an
extra of its own) the same value is computed again to 160 bits and rounded: beyond the hardest
cases known for double precision. Without it the first value stands.
"""

from __future__ import annotations

import cmath
import importlib
import math
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from corepy import _dtypes
from corepy._extensions import is_there, why_broken
from corepy.backends.reference._rounding import round_scaled

__all__ = ["lacking", "refine", "refine_complex"]

#: An mpmath number: sign, mantissa, exponent, bits; a complex one is a pair of them.
_Number: TypeAlias = Any
#: Working precisions in bits. Where cancellation left less than a float takes, the results of two
#: differ, or that of the last one; 2600 bits span all of double precision.
_PRECISIONS = (160, 320, 2600)
#: How near a rough value has to be for its sign to be worth something.
_AGREEMENT = 1e-6


@cache
def _library() -> Any:
    """Return mpmath's functional layer, which keeps no state; None if it cannot be used."""
    return None if lacking() else importlib.import_module("mpmath.libmp")


def lacking() -> str | None:
    """Say what is missing for want of mpmath, None if it can be used."""
    if not is_there("mpmath"):
        return "linalg and fft need mpmath: pip install mpmath"
    why = why_broken("mpmath")
    return f"linalg and fft need mpmath, which is not usable: {why}" if why else None


def refine(name: str, rough: float, *args: float) -> float:
    """Round a real function correctly.

    Parameters
    ----------
    name : str
        Name of the function, such as ``"exp"``.
    rough : float
        Its value to about an ulp. Zeros, infinities and NaNs are taken as they are.
    *args : float
        Where it is to be evaluated. At infinity the rough value is taken as it is.

    Returns
    -------
    float
        The value, rounded once to float64; `rough` itself if mpmath cannot be used.
    """
    lib = _library()
    if lib is None or rough == 0.0 or not all(map(math.isfinite, (rough, *args))):
        return rough
    function = _real_function(lib, name)
    exact = [lib.from_float(arg) for arg in args]
    return _settle(rough, lambda bits: function(*exact, bits))


def refine_complex(name: str, rough: complex, *args: complex) -> complex:
    """Round a complex function correctly, each component by itself; as `refine`.

    The signs stay those of `rough`: mpmath has no signed zero and hence one side of each branch
    cut only. The magnitudes are the same on both.
    """
    lib = _library()
    if lib is None or not all(map(cmath.isfinite, args)):
        return rough
    function = _complex_function(lib, name)
    exact = [(lib.from_float(arg.real), lib.from_float(arg.imag)) for arg in args]

    def component(value: float, index: int) -> float:
        if value == 0.0 or not math.isfinite(value):
            return value
        return _settle(value, lambda bits: function(*exact, bits)[index])

    return complex(component(rough.real, 0), component(rough.imag, 1))


def _settle(rough: float, evaluate: Callable[[int], _Number]) -> float:
    """Evaluate with more bits until they change nothing, near the rough value; keep its sign.

    A rough value that never agrees was all cancellation, and its sign is worth nothing either.
    """
    before = math.nan
    for bits in _PRECISIONS:
        value = _to_float(evaluate(bits))
        agrees = math.isclose(abs(value), abs(rough), rel_tol=_AGREEMENT)
        if agrees and (value == before or bits == _PRECISIONS[-1]):
            return math.copysign(value, rough)
        before = value
    return value


def _to_float(number: _Number) -> float:
    sign, mantissa, exponent, _ = number
    return round_scaled(-int(mantissa) if sign else int(mantissa), exponent, _dtypes.float64)


# ------------------------------------------------------------------ the functions


@cache
def _real_function(lib: Any, name: str) -> Callable[..., _Number]:
    one = lib.fone

    def expm1(x: _Number, bits: int) -> _Number:
        wide = bits + max(0, -(x[2] + x[3]))  # as many bits as the subtraction cancels
        return lib.mpf_sub(lib.mpf_exp(x, wide), one, bits)

    def log1p(x: _Number, bits: int) -> _Number:
        return lib.mpf_log(lib.mpf_add(one, x), bits)

    def log2(x: _Number, bits: int) -> _Number:
        return lib.mpf_div(lib.mpf_log(x, bits), lib.mpf_ln2(bits), bits)

    def log10(x: _Number, bits: int) -> _Number:
        return lib.mpf_div(lib.mpf_log(x, bits), lib.mpf_ln10(bits), bits)

    def logaddexp(high: _Number, low: _Number, bits: int) -> _Number:
        ratio = lib.mpf_exp(lib.mpf_sub(low, high, bits), bits)
        return lib.mpf_add(high, lib.mpf_log(lib.mpf_add(one, ratio, bits), bits), bits)

    own: dict[str, Callable[..., _Number]] = {
        "expm1": expm1,
        "log1p": log1p,
        "log2": log2,
        "log10": log10,
        "logaddexp": logaddexp,
    }
    return own[name] if name in own else _library_function(lib, f"mpf_{name}")


@cache
def _complex_function(lib: Any, name: str) -> Callable[..., _Number]:
    one = (lib.fone, lib.fzero)

    def expm1(z: _Number, bits: int) -> _Number:
        return lib.mpc_sub(lib.mpc_exp(z, bits), one, bits)

    def log1p(z: _Number, bits: int) -> _Number:
        return lib.mpc_log((lib.mpf_add(lib.fone, z[0]), z[1]), bits)

    def log2(z: _Number, bits: int) -> _Number:
        return lib.mpc_div_mpf(lib.mpc_log(z, bits), lib.mpf_ln2(bits), bits)

    def log10(z: _Number, bits: int) -> _Number:
        return lib.mpc_div_mpf(lib.mpc_log(z, bits), lib.mpf_ln10(bits), bits)

    own: dict[str, Callable[..., _Number]] = {
        "expm1": expm1,
        "log1p": log1p,
        "log2": log2,
        "log10": log10,
    }
    return own[name] if name in own else _library_function(lib, f"mpc_{name}")


def _library_function(lib: Any, name: str) -> Callable[..., _Number]:
    function: Callable[..., _Number] = getattr(lib, name)
    return function
