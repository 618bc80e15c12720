"""Functions that compile into loops and let them fill vector registers.

Nothing here calls the C library, branches, or assumes that NaN, infinities or signed zeros do not
occur: special cases are selects. Nothing but ``contract`` (a fused multiply-add where the processor
has one) is allowed of LLVM's liberties with floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
from numba import njit, types
from numba.extending import intrinsic, overload

Function = TypeVar("Function", bound=Callable[..., Any])

_INLINE: Final[dict[str, Any]] = {
    "forceinline": True,
    "error_model": "numpy",
    "fastmath": {"contract"},
}


def inlined(function: Function) -> Function:
    """Compile a function into its callers; multiply-adds may be fused."""
    compiled: Function = njit(**_INLINE)(function)
    return compiled


def reassociated(function: Function) -> Function:
    """Compile a sum that may be taken in any order, which fills vector registers."""
    compiled: Function = njit(error_model="numpy", fastmath={"reassoc", "contract"})(function)
    return compiled


def by_type(function: Callable[..., Any]) -> Callable[[Function], Function]:
    """Let a function choose by the types of its arguments what stands for another."""
    decorate: Callable[[Function], Function]
    decorate = overload(function, jit_options=_INLINE, strict=False)  # names suffice
    return decorate


_f4, _f8, _i4 = np.float32, np.float64, np.int32

_BITS: Final = {
    types.float32: types.int32,
    types.float64: types.int64,
    types.int32: types.float32,
    types.int64: types.float64,
}


@intrinsic  # type: ignore[untyped-decorator]
def bits(context: Any, x: Any) -> Any:
    """Reinterpret a float as the integer of its bits, or such an integer as the float."""
    target = _BITS[x]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(target))

    return target(x), generate


def _exp_32(x: Any, more: Any) -> Any:
    x = _f4(-104.0) if x < _f4(-104.0) else x
    x = _f4(89.0) if x > _f4(89.0) else x
    shifted = x * _f4(1.44269504) + _f4(12582912.0)  # rounds x / log(2) in the last bits
    n = shifted - _f4(12582912.0)
    r = x - n * _f4(0.693359375) + n * _f4(2.12194440e-4) + more
    p = _f4(1.9875691500e-4)  # Cephes, expf
    p = p * r + _f4(1.3981999507e-3)
    p = p * r + _f4(8.3334519073e-3)
    p = p * r + _f4(4.1665795894e-2)
    p = p * r + _f4(1.6666665459e-1)
    p = p * r + _f4(5.0000001201e-1)
    p = p * r * r + r + _f4(1)
    k = _i4(bits(shifted) - _i4(0x4B400000))
    half = _i4(k >> 1)  # in two steps, so that subnormal and infinite results come out right
    return p * bits(_i4((half + 127) << 23)) * bits(_i4((k - half + 127) << 23))


def _exp_64(x: Any, more: Any) -> Any:
    x = -746.0 if x < -746.0 else x
    x = 710.0 if x > 710.0 else x
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = x - n * 6.93145751953125e-1 - n * 1.42860682030941723212e-6 + more
    p = 2.08767569878680989792e-9  # Taylor's series: the next term is below 2e-16
    p = p * r + 2.50521083854417187751e-8
    p = p * r + 2.75573192239858906526e-7
    p = p * r + 2.75573192239858906526e-6
    p = p * r + 2.48015873015873015873e-5
    p = p * r + 1.98412698412698412698e-4
    p = p * r + 1.38888888888888888889e-3
    p = p * r + 8.33333333333333333333e-3
    p = p * r + 4.16666666666666666667e-2
    p = p * r + 1.66666666666666666667e-1
    p = p * r + 0.5
    p = p * r * r + r + 1.0
    k = bits(shifted) - 0x4338000000000000
    half = k >> 1
    return p * bits((half + 1023) << 52) * bits((k - half + 1023) << 52)


def exp(x: Any, more: Any) -> Any:
    """Return ``exp(x + more)`` for a small `more`, to about one unit in the last place."""
    raise NotImplementedError("compiled code only")


@by_type(exp)
def _exp(x: Any, more: Any) -> Callable[..., Any]:
    return _exp_64 if x == types.float64 else _exp_32


def number(value: Any, like: Any) -> Any:
    """Return a number in the dtype of another one, which Python's own would widen."""
    raise NotImplementedError("compiled code only")


@by_type(number)
def _number(value: Any, like: Any) -> Callable[..., Any]:
    if like == types.float64:
        return lambda value, like: _f8(value)
    return lambda value, like: _f4(value)


def polynomial(coefficients: tuple[float, ...]) -> Any:
    """Make a function that evaluates a polynomial by Horner's rule, unrolled."""

    @intrinsic  # type: ignore[untyped-decorator]
    def horner(context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            constants = [context.get_constant(x, c) for c in reversed(coefficients)]
            value = constants[0]
            for constant in constants[1:]:
                product = builder.fmul(value, args[0], flags=("contract",))
                value = builder.fadd(product, constant, flags=("contract",))
            return value

        return x(x), generate

    return horner
