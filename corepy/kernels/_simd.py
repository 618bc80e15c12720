"""What the fused kernels share: 16-bit floats, activations, and sums that fill vector registers.

As in `corepy._loops._simd`, special cases are selects. Only sums reassociate.

Rows come in the caller's dtype. float32 and float64 are computed in as they are; float16 and
bfloat16 come as the integers of their bits (uint16, told apart by a flag) and are widened to
float32 by `fetch` and rounded to nearest, ties to even, by `put`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from corepy._loops._simd import (
    LOWERING_32,
    LOWERING_64,
    bits,
    by_type,
    converts_halves,
    expect,
    for_floats,
    foresee,
    fused,
    fuses,
    inlined,
    lowering,
    number,
    polynomial,
    raised,
    reassociated,
)
from corepy._loops._streaming import HELD, stream_and_fetch
from corepy.kernels._compiled import kernel
from corepy.kernels._series import BELL_32, POLE, TAIL_32, TAIL_64

Array = npt.NDArray[Any]

#: Elements whose sum is taken in their own dtype; the sums of such blocks are added in float64.
_BLOCK: Final = 1024
#: The same of products: in one go a sum of 4 million was off by 5e-4, of 16 million by a hundredth.
DEEP: Final = 1 << 13
#: Bytes that are computed with while memory gives what is asked for.
_AHEAD: Final = 4096
#: Bytes of a row beside which the next one has room in the caches.
_NEAR: Final = 1 << 17
#: Bytes of which memory gives so many at once.
_LINE: Final = 64
_f4, _i4 = np.float32, np.int32


# ---------------------------------------------------------------------------- 16-bit floats


@intrinsic  # type: ignore[untyped-decorator]
def _half(context: Any, word: Any) -> Any:
    """Return the float32 of a float16. See `converts_halves`."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return builder.fpext(builder.bitcast(operands[0], ir.HalfType()), ir.FloatType())

    return types.float32(word), generate


@intrinsic  # type: ignore[untyped-decorator]
def _rounded_half(context: Any, value: Any) -> Any:
    """Return the float16 of a float32. See `converts_halves`."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return builder.bitcast(builder.fptrunc(operands[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(value), generate


@inlined
def _half_in_integers(word: Any) -> Any:
    magnitude = _i4(word) & _i4(0x7FFF)
    # Shifted into place, the exponent is 112 too small; subnormal numbers come out right as well.
    scaled = bits(_i4(magnitude << 13)) * _f4(2.0**112)
    special = _i4((magnitude << 13) | 0x7F800000)
    found = special if magnitude >= 0x7C00 else bits(scaled)
    return bits(_i4(found | ((_i4(word) & 0x8000) << 16)))


@inlined
def _rounded_half_in_integers(value: Any) -> Any:
    word = bits(value)
    magnitude = _i4(word & 0x7FFFFFFF)
    normal = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13
    # Adding 0.5 moves the last bit of a subnormal half to the last bit of a float32.
    subnormal = bits(_f4(bits(magnitude) + _f4(0.5))) - 0x3F000000
    found = subnormal if magnitude < 0x38800000 else normal
    found = 0x7C00 if magnitude >= 0x47800000 else found
    found = 0x7E00 if magnitude > 0x7F800000 else found
    return np.uint16(found | ((word >> 16) & 0x8000))


def from_half(word: Any) -> Any:
    """Return the float32 of a float16."""
    raise NotImplementedError("compiled code only")


@by_type(from_half)
def _from_half_by_processor(word: Any) -> Callable[..., Any]:
    # An intrinsic cannot stand for another function by itself, nor a dispatcher.
    if converts_halves():
        return lambda word: _half(word)  # noqa: PLW0108
    return lambda word: _half_in_integers(word)  # noqa: PLW0108


def _to_half(value: Any) -> Any:
    """Return the float16 of a float32, rounded to nearest, ties to even."""
    raise NotImplementedError("compiled code only")


@by_type(_to_half)
def _to_half_by_processor(value: Any) -> Callable[..., Any]:
    if converts_halves():
        return lambda value: _rounded_half(value)  # noqa: PLW0108
    return lambda value: _rounded_half_in_integers(value)  # noqa: PLW0108


@inlined
def from_brain(word: Any) -> Any:
    """Return the float32 of a bfloat16."""
    return bits(_i4(_i4(word) << 16))


@inlined
def _to_brain(value: Any) -> Any:
    """Return the bfloat16 of a float32, rounded to nearest, ties to even.

    In integers of 32 bits throughout: of those of 64, which Python's constants would make of them,
    half as many fit a register.
    """
    word = bits(value)
    odd = _i4(_i4(word >> _i4(16)) & _i4(1))
    rounded = _i4(_i4(word + _i4(0x7FFF)) + odd)
    quiet = _i4(_i4(word & _i4(-0x80000000)) | _i4(0x7FC00000))
    found = rounded if value == value else quiet  # noqa: PLR0124 (a NaN is not itself)
    return np.uint16(_i4(found) >> _i4(16))


def _fetch_half(row: Array, held: Array, brain: bool) -> Array:
    if brain:
        for j in range(row.size):
            held[j] = from_brain(row[j])
    else:
        for j in range(row.size):
            held[j] = from_half(row[j])
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


@by_type(scratch)
def _scratch(x: Any, size: Any) -> Callable[..., Any]:
    dtype = np.float64 if x.dtype == types.float64 else np.float32
    return lambda x, size: np.empty(size, dtype)


def fetch(row: Array, held: Array, brain: bool) -> Array:
    """Return a row in the dtype in which it is computed: itself, or widened into `held`."""
    raise NotImplementedError("compiled code only")


@by_type(fetch)
def _fetch(row: Any, held: Any, brain: Any) -> Callable[..., Any]:
    if row.dtype == types.uint16:
        return _fetch_half
    return lambda row, held, brain: row


@kernel
def pack(
    x: Array, at: int, stride: int, rows: int, size: int, held: Array, wide: int, brain: bool
) -> None:
    """Put rows into `held` in the dtype in which they are computed, `wide` elements apart."""
    for n in range(rows):
        start = at + n * stride
        line = held[n * wide : n * wide + size]
        values = fetch(x[start : start + size], line, brain)
        if x.itemsize == line.itemsize:  # else they are there
            for d in range(size):
                line[d] = values[d]


def put(values: Array, row: Array, brain: bool) -> None:
    """Round computed values into a row; nothing is to be done where they are the row's own."""
    raise NotImplementedError("compiled code only")


@by_type(put)
def _put(values: Any, row: Any, brain: Any) -> Callable[..., Any]:
    if row.dtype == types.uint16:
        return _put_half

    def copy(values: Array, row: Array, brain: bool) -> None:
        if values.ctypes.data != row.ctypes.data:
            for j in range(row.size):
                row[j] = values[j]

    return copy


@inlined
def apart(out: Array, x: Array) -> bool:
    """Say whether a result lies elsewhere than an operand, which it does wholly or not at all."""
    return bool(out.ctypes.data != x.ctypes.data)


@inlined
def expect_row(x: Array, at: int, size: int) -> None:
    """Let the processor fetch `size` elements of a flat array; those beyond it are of no harm."""
    for j in range(at, at + size, _LINE // x.itemsize):
        expect(x, j)


@inlined
def foresee_row(x: Array, at: int, size: int) -> None:
    """Do as `expect_row`, into the second cache: for what is read a little later."""
    for j in range(at, at + size, _LINE // x.itemsize):
        foresee(x, j)


@inlined
def expect_rows(x: Array, start: int, stop: int) -> None:
    """Let the processor fetch rows of ``x (rows, size)``; those beyond the end are of no harm."""
    size = x.shape[1]
    expect_row(x, start * size, (stop - start) * size)


@inlined
def is_far(out: Array, row: int) -> bool:
    """Say whether a result is written past the caches, `row` elements at a time.

    With as much that is read it is too large for any cache to hold, and such rows are not.
    """
    return bool(2 * out.size * out.itemsize > HELD and row * out.itemsize <= _NEAR)


def _send_words(values: Array, row: Array, rounded: Array, brain: bool, following: int) -> None:
    words = rounded[: row.size]
    put(values, words, brain)
    stream_and_fetch(row.ctypes.data, words.ctypes.data, row.size * row.itemsize, following)


def _send_floats(values: Array, row: Array, rounded: Array, brain: bool, following: int) -> None:
    stream_and_fetch(row.ctypes.data, values.ctypes.data, row.size * row.itemsize, following)


def send(values: Array, row: Array, rounded: Array, brain: bool, following: int) -> None:
    """Do as `put`, past the caches, and fetch meanwhile what is computed with next.

    That is as many bytes from the address `following` on. What is in 16 bits is `rounded`
    first. A `fence` has to follow.
    """
    raise NotImplementedError("compiled code only")


@by_type(send)
def _send(values: Any, row: Any, rounded: Any, brain: Any, following: Any) -> Callable[..., Any]:
    return _send_words if row.dtype == types.uint16 else _send_floats


@inlined
def after(row: Array) -> int:
    """Return where in memory begins what is to be fetched while a row is sent.

    That is the next row, or of short ones a later one: memory takes longer than they do.
    """
    return row.ctypes.data + max(row.size * row.itemsize, _AHEAD)


def target(row: Array, values: Array, apart: bool) -> Array:
    """Return where a loop writes what belongs in a row: there, if that is apart from its operands.

    Else to `values`, and `put` copies them. Of a loop that writes where it reads the compiler would
    have to assume the worst, and leave the vector registers empty.
    """
    raise NotImplementedError("compiled code only")


@by_type(target)
def _target(row: Any, values: Any, apart: Any) -> Callable[..., Any]:
    if row.dtype == types.uint16:
        return lambda row, values, apart: values
    return lambda row, values, apart: row if apart else values


# ---------------------------------------------------------------------------- functions


@inlined
def sigmoid(x: Any) -> Any:
    """Return ``1 / (1 + exp(-x))`` of a `floored` number, and anything for a NaN.

    With full relative precision, however small it is. An infinity times it would be a NaN.
    """
    ceiling = number(43.0, x)
    high = raised(ceiling if x > ceiling else x)
    return high / (number(1.0, x) / lowering(x) + high)


def _upper(x: Any) -> Any:
    """Return a float of the first half of the digits, whose square is exact."""
    raise NotImplementedError("compiled code only")


by_type(_upper)(
    for_floats(lambda x: bits(bits(x) & ~0x7FFFFFF), lambda x: bits(_i4(bits(x) & ~0xFFF)))
)


# They take away the factor of `raised` as well.
_polynomial_32 = polynomial(tuple(c * LOWERING_32 for c in TAIL_32))
_polynomial_64 = polynomial(tuple(c * LOWERING_64 for c in TAIL_64))


_bell_of_square = polynomial(BELL_32)


@inlined
def _split_bell(u: Any) -> Any:
    high, half = _upper(u), number(-0.5, u)
    return raised(half * high * high, half * (u - high) * (u + high))


@inlined
def _fused_bell(u: Any) -> Any:
    half = number(-0.5, u) * u
    square = half * u
    return raised(square, fused(half, u, -square))


@inlined
def _fused_bell_32(u: Any) -> Any:
    """Do as `raised`, of the square itself: two operations less."""
    square = u * u
    shifted = square * _f4(-0.72134752) + _f4(12582912.0 + 64)
    n = shifted - _f4(12582912.0 + 64)
    p = _bell_of_square(square + n * _f4(1.38629436) + fused(u, u, -square))
    return bits(_i4(bits(p) + _i4(bits(shifted) << 23)))


def _bell(u: Any) -> Any:
    """Return ``exp(-u * u / 2)``, `raised`, which the rounding of the square does not spoil."""
    raise NotImplementedError("compiled code only")


@by_type(_bell)
def _bell_by_type(u: Any) -> Callable[..., Any]:
    if not fuses():
        return lambda u: _split_bell(u)  # noqa: PLW0108 (a dispatcher is no function)
    if u == types.float64:
        return lambda u: _fused_bell(u)  # noqa: PLW0108
    return lambda u: _fused_bell_32(u)  # noqa: PLW0108


def _end(u: Any) -> Any:
    """Return where the normal distribution's tail is nothing in the dtype of a number."""
    raise NotImplementedError("compiled code only")


by_type(_end)(for_floats(lambda u: 39.0, lambda u: _f4(15.0)))


def _series(y: Any) -> Any:
    """Evaluate the polynomial of `corepy.kernels._series`, times `lowering`."""
    raise NotImplementedError("compiled code only")


# An intrinsic cannot stand for another function by itself.
by_type(_series)(
    for_floats(
        lambda y: _polynomial_64(y),  # noqa: PLW0108
        lambda y: _polynomial_32(y),  # noqa: PLW0108
    )
)


def _signed(x: Any, like: Any) -> Any:
    """Return a number that is zero, or has the sign of another one, with that sign."""
    raise NotImplementedError("compiled code only")


by_type(_signed)(
    for_floats(
        lambda x, like: bits(bits(x) | (bits(like) & -0x8000000000000000)),
        lambda x, like: bits(_i4(bits(x) | (bits(like) & _i4(-0x80000000)))),
    )
)


@inlined
def gelu(x: Any) -> Any:
    """Return x times the normal distribution up to it, with full relative precision."""
    zero, end = number(0.0, x), _end(x)
    u = abs(x)
    u = end if u > end else u
    share = u / (u + number(POLE, x))
    tail = _bell(u) * share * _series(number(2.0, x) * share - number(1.0, x))  # times u
    return _signed((x if x > zero else zero) - tail, x)


# ---------------------------------------------------------------------------- reductions


@inlined
def _flip_32(word: Any) -> Any:
    return _i4(word ^ (_i4(word >> 31) & 0x7FFFFFFF))


@inlined
def _flip_64(word: Any) -> Any:
    return word ^ ((word >> 63) & 0x7FFFFFFFFFFFFFFF)


def key(x: Any) -> Any:
    """Return an integer that sorts as the float does; a NaN is beyond the infinity of its sign.

    Taking the greatest float fills vector registers only under the assumption that none is NaN.
    """
    raise NotImplementedError("compiled code only")


by_type(key)(for_floats(lambda x: _flip_64(bits(x)), lambda x: _flip_32(bits(x))))


def unkey(key: Any) -> Any:
    """Return the float that a `key` stands for."""
    raise NotImplementedError("compiled code only")


@by_type(unkey)
def _unkey(key: Any) -> Callable[..., Any]:
    if key == types.int64:
        return lambda key: bits(_flip_64(key))
    return lambda key: bits(_flip_32(key))


@reassociated
def _block_of(row: Array) -> Any:
    total = row.dtype.type(0)
    for j in range(row.size):
        total += row[j]
    return total


@reassociated
def sum_of(row: Array) -> float:
    """Sum a row in float64."""
    total = 0.0
    for j in range(row.size):
        total += row[j]
    return total


@reassociated
def moments_of(row: Array, origin: float) -> tuple[float, float]:
    """Sum how far elements lie from one of them, and the squares of that, in float64.

    The variance is that of float32 to more digits than it has: even where the origin lies farthest
    from the others, the mean of so many squares is no more times larger than there are elements.
    """
    total = squares = 0.0
    for j in range(row.size):
        off = row[j] - origin
        total += off
        squares += off * off
    return total, squares


@inlined
def sum_of_weights(row: Array) -> float:
    """Sum a row of numbers that are not negative: blocks in its dtype, and these in float64."""
    total = 0.0
    for start in range(0, row.size, _BLOCK):
        total += _block_of(row[start : start + _BLOCK])
    return total


@reassociated
def _block_of_squares(row: Array) -> Any:
    total = row.dtype.type(0)
    for j in range(row.size):
        total += row[j] * row[j]
    return total


@inlined
def squares_of(row: Array) -> float:
    """Sum the squares of a row: blocks in the row's dtype, and these in float64."""
    total = 0.0
    for start in range(0, row.size, _BLOCK):
        total += _block_of_squares(row[start : start + _BLOCK])
    return total


@reassociated
def sum_of_products(left: Array, right: Array) -> Any:
    """Sum the products of two rows in their dtype."""
    total = left.dtype.type(0)
    for j in range(left.size):
        total += left[j] * right[j]
    return total


@reassociated
def sums_of_products(left: Array, rows: Array, at: int, step: int) -> tuple[Any, Any, Any, Any]:
    """Sum the products of a row and each of four others, a step apart from a place in memory on.

    Memory gives four rows at a time in three quarters of what it takes for one after the other.
    """
    size = left.size
    first, second = rows[at : at + size], rows[at + step : at + step + size]
    at += 2 * step
    third, fourth = rows[at : at + size], rows[at + step : at + step + size]
    a = b = c = d = left.dtype.type(0)
    for j in range(size):
        x = left[j]
        a += x * first[j]
        b += x * second[j]
        c += x * third[j]
        d += x * fourth[j]
    return a, b, c, d


@reassociated
def _products_of_words(left: Array, words: Array, brain: bool) -> Any:
    total = left.dtype.type(0)
    if brain:
        for j in range(left.size):
            total += left[j] * from_brain(words[j])
    else:
        for j in range(left.size):
            total += left[j] * from_half(words[j])
    return total


def sum_of_products_in_place(left: Array, row: Array, brain: bool) -> Any:
    """Sum the products of a row that was widened and one that `fetch` would widen."""
    raise NotImplementedError("compiled code only")


@by_type(sum_of_products_in_place)
def _sum_of_products_in_place(left: Any, row: Any, brain: Any) -> Callable[..., Any]:
    if row.dtype == types.uint16:
        return lambda left, row, brain: _products_of_words(left, row, brain)  # noqa: PLW0108
    return lambda left, row, brain: sum_of_products(left, row)
