"""What the compiled kernels share: 16-bit floats, exponentials and sums that fill vector registers.

Nothing here calls the C library, branches, or assumes that NaN, infinities or signed zeros do not
occur: special cases are selects. Only `sum_of` and `squares_of` reassociate, and nothing but
``contract`` (a fused multiply-add where the processor has one) is allowed elsewhere.

Rows come in the caller's dtype. float32 and float64 are computed in as they are; float16 and
bfloat16 come as the integers of their bits (uint16, told apart by a flag) and are widened to
float32 by `fetch` and rounded to nearest, ties to even, by `put`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import intrinsic, overload

from corepy.kernels._series import TAIL_32, TAIL_64

Array = npt.NDArray[Any]

Function = TypeVar("Function", bound=Callable[..., Any])

_INLINE: Final[dict[str, Any]] = {
    "forceinline": True,
    "error_model": "numpy",
    "fastmath": {"contract"},
}


def _inlined(function: Function) -> Function:
    """Compile a function into its callers; multiply-adds may be fused."""
    compiled: Function = njit(**_INLINE)(function)
    return compiled


def _reassociated(function: Function) -> Function:
    """Compile a sum that may be taken in any order, which fills vector registers."""
    compiled: Function = njit(error_model="numpy", fastmath={"reassoc", "contract"})(function)
    return compiled


def _by_type(function: Callable[..., Any]) -> Callable[[Function], Function]:
    """Let a function choose by the types of its arguments what stands for another."""
    decorate: Callable[[Function], Function]
    decorate = overload(function, jit_options=_INLINE, strict=False)  # names suffice
    return decorate


#: Elements whose sum is taken in their own dtype; the sums of such blocks are added in float64.
_BLOCK: Final = 1024
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


# ---------------------------------------------------------------------------- 16-bit floats


@_inlined
def _from_half(word: Any) -> Any:
    magnitude = _i4(word) & _i4(0x7FFF)
    # Shifted into place, the exponent is 112 too small; subnormal numbers come out right as well.
    scaled = bits(_i4(magnitude << 13)) * _f4(2.0**112)
    special = _i4((magnitude << 13) | 0x7F800000)
    found = special if magnitude >= 0x7C00 else bits(scaled)
    return bits(_i4(found | ((_i4(word) & 0x8000) << 16)))


@_inlined
def _to_half(value: Any) -> Any:
    word = bits(value)
    magnitude = _i4(word & 0x7FFFFFFF)
    normal = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13
    # Adding 0.5 moves the last bit of a subnormal half to the last bit of a float32.
    subnormal = bits(_f4(bits(magnitude) + _f4(0.5))) - 0x3F000000
    found = subnormal if magnitude < 0x38800000 else normal
    found = 0x7C00 if magnitude >= 0x47800000 else found
    found = 0x7E00 if magnitude > 0x7F800000 else found
    return np.uint16(found | ((word >> 16) & 0x8000))


@_inlined
def _from_brain(word: Any) -> Any:
    return bits(_i4(_i4(word) << 16))


@_inlined
def _to_brain(value: Any) -> Any:
    word = bits(value)
    rounded = (word + 0x7FFF + ((word >> 16) & 1)) >> 16
    quiet = ((word >> 16) & 0x8000) | 0x7FC0
    return np.uint16(quiet if (word & 0x7FFFFFFF) > 0x7F800000 else rounded)


def _fetch_half(row: Array, held: Array, brain: bool) -> Array:
    if brain:
        for j in range(row.size):
            held[j] = _from_brain(row[j])
    else:
        for j in range(row.size):
            held[j] = _from_half(row[j])
    return held


def _put_half(values: Array, row: Array, brain: bool) -> None:
    if brain:
        for j in range(row.size):
            row[j] = _to_brain(values[j])
    else:
        for j in range(row.size):
            row[j] = _to_half(values[j])


def scratch(x: Array, size: int) -> Array:
    """Make memory of the dtype in which `x` is computed."""
    raise NotImplementedError("compiled code only")


@_by_type(scratch)
def _scratch(x: Any, size: Any) -> Callable[..., Any]:
    dtype = np.float64 if x.dtype == types.float64 else np.float32
    return lambda x, size: np.empty(size, dtype)


def fetch(row: Array, held: Array, brain: bool) -> Array:
    """Return a row in the dtype in which it is computed: itself, or widened into `held`."""
    raise NotImplementedError("compiled code only")


@_by_type(fetch)
def _fetch(row: Any, held: Any, brain: Any) -> Callable[..., Any]:
    if row.dtype == types.uint16:
        return _fetch_half
    return lambda row, held, brain: row


def put(values: Array, row: Array, brain: bool) -> None:
    """Round computed values into a row.

    All results take this way, so that no loop that computes writes to memory that might be its
    operand's: the compiler would have to assume the worst, and leave the vector registers empty.
    """
    raise NotImplementedError("compiled code only")


@_by_type(put)
def _put(values: Any, row: Any, brain: Any) -> Callable[..., Any]:
    if row.dtype == types.uint16:
        return _put_half

    def copy(values: Array, row: Array, brain: bool) -> None:
        for j in range(row.size):
            row[j] = values[j]

    return copy


# ---------------------------------------------------------------------------- functions


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


@_by_type(exp)
def _exp(x: Any, more: Any) -> Callable[..., Any]:
    return _exp_64 if x == types.float64 else _exp_32


def number(value: Any, like: Any) -> Any:
    """Return a number in the dtype of another one, which Python's own would widen."""
    raise NotImplementedError("compiled code only")


@_by_type(number)
def _number(value: Any, like: Any) -> Callable[..., Any]:
    if like == types.float64:
        return lambda value, like: _f8(value)
    return lambda value, like: _f4(value)


@_inlined
def sigmoid(x: Any) -> Any:
    """Return ``1 / (1 + exp(-x))`` with full relative precision, however small it is."""
    zero, one = number(0.0, x), number(1.0, x)
    small = exp(-x if x > zero else x, zero)  # exp(-abs(x)), which cannot overflow
    return (small if x < zero else one) / (one + small)


def _polynomial(coefficients: tuple[float, ...]) -> Any:
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


_polynomial_32 = _polynomial(TAIL_32)
_polynomial_64 = _polynomial(TAIL_64)


def _tail_32(u: Any) -> Any:
    # u * u in two parts, so that its rounding does not spoil the exponential.
    high = bits(_i4(bits(u) & ~0xFFF))
    part = exp(_f4(-0.5) * high * high, _f4(-0.5) * (u - high) * (u + high))
    t = _f4(1) / (_f4(1) + _f4(0.25) * u)
    s = t + t - _f4(1)
    return part * t * _polynomial_32(s)


def _tail_64(u: Any) -> Any:
    high = bits(bits(u) & ~0x7FFFFFF)
    part = exp(-0.5 * high * high, -0.5 * (u - high) * (u + high))
    t = 1.0 / (1.0 + 0.25 * u)
    s = t + t - 1.0
    return part * t * _polynomial_64(s)


def tail(u: Any) -> Any:
    """Return the normal distribution's tail beyond ``u``, which lies in 0 to 40 or is NaN."""
    raise NotImplementedError("compiled code only")


@_by_type(tail)
def _tail(u: Any) -> Callable[..., Any]:
    return _tail_64 if u == types.float64 else _tail_32


# ---------------------------------------------------------------------------- reductions


@_inlined
def _flip_32(word: Any) -> Any:
    return _i4(word ^ (_i4(word >> 31) & 0x7FFFFFFF))


@_inlined
def _flip_64(word: Any) -> Any:
    return word ^ ((word >> 63) & 0x7FFFFFFFFFFFFFFF)


def key(x: Any) -> Any:
    """Return an integer that sorts as the float does; a NaN is beyond the infinity of its sign.

    Taking the greatest float fills vector registers only under the assumption that none is NaN.
    """
    raise NotImplementedError("compiled code only")


@_by_type(key)
def _key(x: Any) -> Callable[..., Any]:
    if x == types.float64:
        return lambda x: _flip_64(bits(x))
    return lambda x: _flip_32(bits(x))


def unkey(key: Any) -> Any:
    """Return the float that a `key` stands for."""
    raise NotImplementedError("compiled code only")


@_by_type(unkey)
def _unkey(key: Any) -> Callable[..., Any]:
    if key == types.int64:
        return lambda key: bits(_flip_64(key))
    return lambda key: bits(_flip_32(key))


@_reassociated
def sum_of(row: Array) -> float:
    """Sum a row in float64."""
    total = 0.0
    for j in range(row.size):
        total += row[j]
    return total


@_reassociated
def _block_of_squares(row: Array) -> Any:
    total = row.dtype.type(0)
    for j in range(row.size):
        total += row[j] * row[j]
    return total


@_inlined
def squares_of(row: Array) -> float:
    """Sum the squares of a row: blocks in the row's dtype, and these in float64."""
    total = 0.0
    for start in range(0, row.size, _BLOCK):
        total += _block_of_squares(row[start : start + _BLOCK])
    return total


@_reassociated
def sum_of_products(left: Array, right: Array) -> Any:
    """Sum the products of two rows in their dtype."""
    total = left.dtype.type(0)
    for j in range(left.size):
        total += left[j] * right[j]
    return total
