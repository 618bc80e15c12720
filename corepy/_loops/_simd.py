"""Functions that compile into loops and let them fill vector registers.

Nothing here calls the C library, branches, or assumes that NaN, infinities or signed zeros do not
occur: special cases are selects. Nothing but ``contract`` (a fused multiply-add where the processor
has one) is allowed of LLVM's liberties with floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
from llvmlite import binding, ir
from numba import config, njit, types
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


def for_floats(double: Callable[..., Any], single: Callable[..., Any]) -> Callable[..., Any]:
    """Choose between two functions, for `by_type`, by the dtype of the first argument."""
    return lambda x, *others: double if x == types.float64 else single


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


@intrinsic  # type: ignore[untyped-decorator]
def fused(context: Any, x: Any, y: Any, z: Any) -> Any:
    """Compute ``x * y + z``, rounded once. See `fuses`."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return builder.fma(*operands)

    return x(x, x, x), generate


def prefetch(builder: Any, place: Any, cache: int = 1) -> None:
    """Generate what lets the processor fetch a line of memory; one beyond the end is of no harm.

    Into its first cache, or its second one. For the first one few lines are on their way at a time
    (24 on a Zen 4, which is 13 GB/s of memory), so what is wanted a little later is better fetched
    into the second.
    """
    word, byte = ir.IntType(32), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    found = builder.module.globals.get("llvm.prefetch.p0")
    function = found or ir.Function(builder.module, kind, "llvm.prefetch.p0")
    # To read, to stay so near, as data.
    builder.call(function, [place, word(0), word(4 - cache), word(1)])


def _expecting(cache: int) -> Callable[..., None]:
    @intrinsic  # type: ignore[untyped-decorator]
    def expecting(context: Any, array: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, operands[0]).data
            place = builder.gep(data, [operands[1]])
            prefetch(builder, builder.bitcast(place, ir.IntType(8).as_pointer()), cache)
            return context.get_dummy_value()

        return types.void(array, index), generate

    return expecting  # type: ignore[no-any-return]


#: Let the processor fetch an element of an array; one beyond the end is of no harm.
expect = _expecting(1)
#: The same into its second cache: see `prefetch`.
foresee = _expecting(2)


def fuses() -> bool:
    """Say whether the processor that Numba compiles for rounds ``x * y + z`` once by itself.

    Where it does not, LLVM would call a function of the C library, which is slow, and ends the
    process where there is none.
    """
    return _computes("fma")


def converts_halves() -> bool:
    """Say whether the processor that Numba compiles for has conversions from float16 and to it.

    Where it does not, LLVM would call functions that no library here has.
    """
    return _computes("f16c")


def _computes(feature: str) -> bool:
    """Say whether x86 has one of its features; Arm's 64-bit processors have both of these."""
    if config.DISABLE_JIT:  # loops run in Python then, which cannot call the intrinsic
        return False
    if config.CPU_NAME not in (None, "host") or config.CPU_FEATURES is not None:
        return False  # another processor than this one was asked for
    if binding.get_default_triple().startswith(("aarch64", "arm64")):
        return True
    return bool(binding.get_host_cpu_features().get(feature))


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


def spread_polynomial(coefficients: tuple[float, ...]) -> Any:
    """Make a function that evaluates a polynomial by Estrin's scheme: pairs, and pairs of these.

    It waits for fewer steps one after the other than Horner's rule, for some multiplications more.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def estrin(context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = [context.get_constant(x, c) for c in coefficients]
            power = args[0]
            while len(values) > 1:
                pairs = []
                for low, high in zip(values[::2], values[1::2]):
                    product = builder.fmul(high, power, flags=("contract",))
                    pairs.append(builder.fadd(product, low, flags=("contract",)))
                values = pairs + values[2 * len(pairs) :]
                if len(values) > 1:
                    power = builder.fmul(power, power)
            return values[0]

        return x(x), generate

    return estrin


#: ``(expm1(r) - r) / r**2`` where ``abs(r) <= log(2) / 2``, interpolated at Chebyshev's nodes with
#: 60 digits; the greatest errors are 1.4e-9 and 1.1e-16.
growth_32 = polynomial(
    (0.5000000014, 0.1666666668, 0.0416664642, 0.008333310845, 0.001393373072, 0.0001989108046)
)
growth_64 = polynomial(
    (
        0.500000000000000103,
        0.166666666666666675,
        0.0416666666666238205,
        0.0083333333333300382,
        0.00138888889173670806,
        0.00019841269863171556,
        0.0000248015210578682052,
        2.75572682769056962e-6,
        2.76202015910315488e-7,
        2.5100472505694996e-8,
    )
)


def _exp_32(x: Any, more: Any) -> Any:
    x = _f4(-104.0) if x < _f4(-104.0) else x
    x = _f4(89.0) if x > _f4(89.0) else x
    shifted = x * _f4(1.44269504) + _f4(12582912.0)  # rounds x / log(2) in the last bits
    n = shifted - _f4(12582912.0)
    r = x - n * _f4(0.693359375) + n * _f4(2.12194440e-4) + more
    p = r * r * growth_32(r) + r + _f4(1)
    k = _i4(bits(shifted) - _i4(0x4B400000))
    half = _i4(k >> 1)  # in two steps, so that subnormal and infinite results come out right
    return p * bits(_i4((half + 127) << 23)) * bits(_i4((k - half + 127) << 23))


def _exp_64(x: Any, more: Any) -> Any:
    x = -746.0 if x < -746.0 else x
    x = 710.0 if x > 710.0 else x
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = x - n * 6.93145751953125e-1 - n * 1.42860682030941723212e-6 + more
    p = r * r * growth_64(r) + r + 1.0
    k = bits(shifted) - 0x4338000000000000
    half = k >> 1
    return p * bits((half + 1023) << 52) * bits((k - half + 1023) << 52)


def exp(x: Any, more: Any) -> Any:
    """Return ``exp(x + more)`` for a small `more`, to about one unit in the last place."""
    raise NotImplementedError("compiled code only")


by_type(exp)(for_floats(_exp_64, _exp_32))


#: ``exp(r)`` where ``abs(r) <= log(2) / 2``, found likewise; the greatest error is 1.1e-8.
_rise_32 = polynomial((1.0, 1.0, 0.5, 0.166665763, 0.0416665524, 0.00836323295, 0.00139262504))


def plus(x: Any, more: Any) -> Any:
    """Return ``x + more``, or `x` where `more` is None: adding a zero takes time too."""
    raise NotImplementedError("compiled code only")


@by_type(plus)
def _plus(x: Any, more: Any) -> Callable[..., Any]:
    if isinstance(more, (types.NoneType, types.Omitted)):
        return lambda x, more: x
    return lambda x, more: x + more


def _raised_32(x: Any, more: Any = None) -> Any:
    shifted = x * _f4(1.44269504) + _f4(12582912.0 + 64)
    n = shifted - _f4(12582912.0 + 64)
    # One constant will do: what it lacks, times the greatest n, is 3e-7.
    p = _rise_32(plus(x - n * _f4(0.69314718), more))
    return bits(_i4(bits(p) + _i4(bits(shifted) << 23)))


def _raised_64(x: Any, more: Any = None) -> Any:
    shifted = x * 1.4426950408889634 + (6755399441055744.0 + 512)
    n = shifted - (6755399441055744.0 + 512)
    r = plus(x - n * 6.93145751953125e-1 - n * 1.42860682030941723212e-6, more)
    p = r * r * growth_64(r) + r + 1.0
    return bits(bits(p) + (bits(shifted) << 52))


def raised(x: Any, more: Any = None) -> Any:
    """Return ``exp(x + more)`` times a power of two, the inverse of `lowering`.

    For `x` from -120 to 43 in float32, -800 to 350 in float64, and anything for a NaN. The factor
    keeps the result a normal number, and what is subnormal is rounded once, when it is taken away.
    """
    raise NotImplementedError("compiled code only")


@by_type(raised)
def _raised(x: Any, more: Any = None) -> Callable[..., Any]:
    return _raised_64 if x == types.float64 else _raised_32


LOWERING_32: Final = 2.0**-64
LOWERING_64: Final = 2.0**-512


def lowering(like: Any) -> Any:
    """Return the number that takes the factor of `raised` away: 2**-64, in float64 2**-512."""
    raise NotImplementedError("compiled code only")


by_type(lowering)(for_floats(lambda like: LOWERING_64, lambda like: _f4(LOWERING_32)))


def floored(x: Any) -> Any:
    """Return a number, or the one whose exponential is rounded to zero where that is greater."""
    raise NotImplementedError("compiled code only")


by_type(floored)(
    for_floats(
        lambda x: -746.0 if x < -746.0 else x, lambda x: _f4(-104.0) if x < _f4(-104.0) else x
    )
)


@inlined
def decay(x: Any, more: Any = None) -> Any:
    """Return ``exp(x + more)`` where `x` is at most 0 or a NaN, in less time than `exp`.

    To about one unit in the last place near 0, in float32 to three at -80.
    """
    x = floored(x)
    return raised(x, more) * lowering(x) + x * number(0.0, x)  # a NaN, whose bits were moved


def number(value: Any, like: Any) -> Any:
    """Return a number in the dtype of another one, which Python's own would widen."""
    raise NotImplementedError("compiled code only")


@by_type(number)
def _number(value: Any, like: Any) -> Callable[..., Any]:
    if like == types.float64:
        return lambda value, like: _f8(value)
    return lambda value, like: _f4(value)
