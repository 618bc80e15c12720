"""The discrete Fourier transform by its definition, on exact integers.

A floating-point number is an integer times a power of two, so a block of them is a block of
integers over one common power. The roots of unity come as integers too, rounded to so many bits
that they cannot matter: then ``sum(x[j] * root[j * k % n])`` is a sum of products of integers,
exact but for the roots, and each output is rounded to its dtype once, at the very end. Python's
integers make the plain O(n**2) sum fast enough (256 points take some 50 ms).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from typing import Literal, TypeAlias, cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._exact import to_integers
from corepy.backends.reference._layout import Shape, gather, lanes, offsets, strides_of
from corepy.backends.reference._mpmath import context
from corepy.backends.reference._rounding import round_ratio

__all__ = ["Normalization", "transform"]

#: What a transform divides by: nothing, the root of its number of points, or this number.
Normalization: TypeAlias = Literal["none", "ortho", "full"]

#: Bits carried below the last bit of the smallest input.
_GUARD_BITS = 128
#: A component below 2**-64 of the last bit of the smallest input is taken as zero: it is where
#: rounded roots of unity fail to cancel. A sum of these roots times integers of 53 bits that is
#: that small without being zero has to be constructed on purpose.
_ZERO_BITS = 64


@lru_cache(maxsize=64)
def _roots_of_unity(n: int, bits: int) -> tuple[list[int], list[int]]:
    """Return ``cos(2 pi j / n)`` and ``sin(2 pi j / n)`` for each j, times ``2**bits``."""
    mp = context(bits + 32)
    angles = [mp.mpf(2 * j) / n for j in range(n)]
    return (
        [int(mp.nint(mp.ldexp(mp.cospi(angle), bits))) for angle in angles],
        [int(mp.nint(mp.ldexp(mp.sinpi(angle), bits))) for angle in angles],
    )


class _Block:
    """Complex fixed-point numbers in row-major order: what one transform runs over.

    Attributes
    ----------
    re, im : list of int
        The numbers, times ``2**(bits - exponent)``.
    shape : tuple of int
    bits : int
        Bits below the last one of the smallest input.
    exponent : int
        The power of two of that last bit.
    """

    __slots__ = ("bits", "exponent", "im", "re", "shape")

    def __init__(self, values: list[Value], shape: Shape, padded: Shape) -> None:
        values = _resize(values, shape, padded)
        numbers = cast("list[complex]", values)
        integers, shift = to_integers([part for z in numbers for part in (z.real, z.imag)])
        # Large floats have many trailing zeros, which would only make the sums slower.
        used = 0
        for integer in integers:
            used |= integer
        zeros = max((used & -used).bit_length() - 1, 0)
        self.exponent = zeros - shift
        largest = max((abs(i).bit_length() for i in integers), default=0) - zeros
        needed = max(largest, 0) + _GUARD_BITS + len(values).bit_length()
        self.bits = -(-needed // 64) * 64  # in steps, so that roots of unity serve again
        fixed = [integer >> zeros << self.bits for integer in integers]
        self.re = fixed[0::2]
        self.im = fixed[1::2]
        self.shape = padded

    def rotate(self, n: int, sign: int, outputs: int) -> None:
        """Transform the last axis, which then becomes the first one.

        Done once for each axis this brings the axes back into their order.
        """
        cos, sin = _roots_of_unity(n, self.bits)
        half = 1 << (self.bits - 1)
        lines = [
            (self.re[start : start + n], self.im[start : start + n])
            for start in range(0, len(self.re), n)
        ]
        has_imag = any(self.im)
        re_out, im_out = [], []
        for k in range(outputs):
            steps = [j * k % n for j in range(n)]
            cos_k = [cos[step] for step in steps]
            sin_k = [sign * sin[step] for step in steps]
            for re, im in lines:
                real = sum(map(mul, re, cos_k))
                imag = sum(map(mul, re, sin_k))
                if has_imag:
                    real -= sum(map(mul, im, sin_k))
                    imag += sum(map(mul, im, cos_k))
                re_out.append((real + half) >> self.bits)
                im_out.append((imag + half) >> self.bits)
        self.re, self.im = re_out, im_out
        self.shape = (outputs, *self.shape[:-1])

    def mirror(self, n: int) -> None:
        """Complete the last axis to `n` points with the conjugates of those that are there.

        The imaginary parts of the points that mirror into themselves are dropped.
        """
        given = self.shape[-1]
        re, im = [], []
        for start in range(0, len(self.re), given):
            line_re = self.re[start : start + given]
            line_im = self.im[start : start + given]
            line_im[0] = 0
            if n % 2 == 0:
                line_im[-1] = 0
            mirrored = slice((n - 1) // 2, 0, -1)
            re += line_re + line_re[mirrored]
            im += line_im + [-part for part in line_im[mirrored]]
        self.re, self.im = re, im
        self.shape = (*self.shape[:-1], n)

    def rounded(self, parts: list[int], divisor: tuple[int, int], dtype: DType) -> list[float]:
        """Divide by ``divisor[0] / divisor[1]`` and round to a real dtype."""
        shift = self.exponent - self.bits
        top = divisor[1] << max(shift, 0)
        bottom = divisor[0] << max(-shift, 0)
        zero = 1 << (self.bits - _ZERO_BITS)
        return [
            round_ratio(part * top, bottom, dtype) if abs(part) >= zero else 0.0 for part in parts
        ]


def transform(
    x: ReferenceArray,
    axes: Shape,
    sizes: Sequence[int],
    *,
    sign: int,
    divide: Normalization,
    real_axis: int | None = None,
    real_output: bool = False,
) -> ReferenceArray:
    """Transform over some axes, rounding each output once.

    Parameters
    ----------
    x : ReferenceArray
        Of a floating-point dtype.
    axes : tuple of int
        Distinct, non-negative axes.
    sizes : sequence of int
        Points of the transform along each axis, at least 1.
    sign : int
        -1 or 1, the sign of the exponent.
    divide : {"none", "ortho", "full"}
    real_axis : int, optional
        The one of the axes of which the input (or, with `real_output`, the output) is real, so
        that the other side has only ``size // 2 + 1`` points along it.
    real_output : bool

    Returns
    -------
    ReferenceArray
        Complex, or real with `real_output`. A block of `x` that holds an infinity or a NaN
        transforms to NaN throughout.
    """
    # A transform of real input starts with its real axis, one with real output ends with it;
    # `rotate` takes the last axis first.
    points = dict(zip(axes, sizes, strict=True))
    order = tuple(axis for axis in axes if axis != real_axis)
    if real_axis is not None:
        order = (real_axis, *order) if real_output else (*order, real_axis)

    def halved(half: bool) -> Shape:
        return tuple(
            points[axis] // 2 + 1 if half and axis == real_axis else points[axis] for axis in order
        )

    shape = tuple(x.shape[axis] for axis in order)
    padded = halved(real_output)
    result = halved(not real_output)
    total = math.prod(sizes)
    real = _dtypes.real_of(x.dtype)
    values: list[Value] = []
    for lane in lanes(x, order):
        if not all(map(_is_finite, lane)):
            count = math.prod(result)
            values += [math.nan] * count if real_output else [complex(math.nan, math.nan)] * count
            continue
        block = _Block(lane, shape, padded)
        for axis, outputs in zip(reversed(order), reversed(result), strict=True):
            if real_output and axis == real_axis:
                block.mirror(points[axis])
            block.rotate(points[axis], sign, outputs)
        divisor = _divisor(divide, total, block.bits)
        parts = block.rounded(block.re, divisor, real)
        if real_output:
            values += parts
        else:
            values += map(complex, parts, block.rounded(block.im, divisor, real))
    dtype = real if real_output else _dtypes.complex_of(real)
    return _restore(values, x.shape, order, result, dtype)


def _divisor(divide: Normalization, total: int, bits: int) -> tuple[int, int]:
    """Return what to divide by as a ratio of integers."""
    if divide == "none":
        return 1, 1
    if divide == "full":
        return total, 1
    return math.isqrt(total << (2 * bits)), 1 << bits


def _is_finite(value: Value) -> bool:
    return math.isfinite(value.real) and math.isfinite(value.imag)


def _resize(values: list[Value], shape: Shape, wanted: Shape) -> list[Value]:
    """Trim each axis, or pad it with zeros, to its wanted size."""
    if shape == wanted:
        return values
    common = tuple(map(min, shape, wanted))
    resized: list[Value] = [0.0] * math.prod(wanted)
    sources = offsets(common, strides_of(shape))
    for source, target in zip(sources, offsets(common, strides_of(wanted)), strict=True):
        resized[target] = values[source]
    return resized


def _restore(
    values: list[Value], shape: Shape, moved: Shape, sizes: Shape, dtype: DType
) -> ReferenceArray:
    """Put the axes that `lanes` moved to the end back to where they were."""
    kept = [axis for axis in range(len(shape)) if axis not in moved]
    order = (*kept, *moved)
    lengths = (*(shape[axis] for axis in kept), *sizes)
    strides = strides_of(lengths)
    places = [order.index(axis) for axis in range(len(shape))]
    return gather(
        ReferenceArray(values, lengths, dtype),
        tuple(lengths[place] for place in places),
        [strides[place] for place in places],
    )
