"""Stacks of matrices: cutting arrays into exact matrices, and rounding what comes of them."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument, unsolvable
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._exact import exact_sqrt, to_integers
from corepy.backends.reference._integer_matrix import Gaussian, Matrix, Number
from corepy.backends.reference._layout import Shape
from corepy.backends.reference._mpmath import Real, round_real
from corepy.backends.reference._operands import ArrayLike, as_array, check_dtype
from corepy.backends.reference._rounding import round_ratio

__all__ = [
    "Stack",
    "as_stack",
    "is_finite",
    "nan_of",
    "round_quotient",
    "round_root",
    "round_scalar",
    "round_scalars",
    "to_exact",
    "unit_values",
]


@dataclass(frozen=True, slots=True)
class Stack:
    """An array of shape ``(..., M, N)`` as the sequence of its matrices.

    Attributes
    ----------
    batch : tuple of int
        The leading dimensions.
    rows, columns : int
    dtype : DType
    matrices : list of list
        The values of each matrix, in row-major order.
    """

    batch: Shape
    rows: int
    columns: int
    dtype: DType
    matrices: list[list[Value]]

    def exact(self) -> Iterator[tuple[Matrix, int] | None]:
        """Give each matrix as one of integers, None for one with infinities or NaNs."""
        for values in self.matrices:
            yield (
                to_exact(values, self.rows, self.columns, self.dtype) if is_finite(values) else None
            )

    def finite(self, function: str) -> Iterator[tuple[Matrix, int]]:
        """Give each matrix as one of integers; none if they are empty.

        Raises
        ------
        ValueError
            If one of them has infinities or NaNs.
        """
        if not self.rows * self.columns:
            return
        for position, scaled in enumerate(self.exact()):
            if scaled is None:
                raise unsolvable(
                    f"{function}: {self.name(position)} has infinities or NaNs; "
                    "expected finite values"
                )
            yield scaled

    def collect(
        self, values: list[Value], *shape: int, dtype: DType | None = None
    ) -> ReferenceArray:
        """Make the array of results, which have a shape each and are listed one by one."""
        return ReferenceArray(values, (*self.batch, *shape), dtype or self.dtype)

    def name(self, position: int, argument: str = "x") -> str:
        """Name a matrix of the stack for a message, ``x[1, 0]``."""
        index: list[str] = []
        for size in reversed(self.batch):
            position, place = divmod(position, size)
            index.insert(0, str(place))
        return f"{argument}[{', '.join(index)}]" if index else argument


def as_stack(function: str, x: ArrayLike, argument: str = "x", *, square: bool = False) -> Stack:
    """Cut an array into its matrices.

    Raises
    ------
    TypeError
        If its dtype is not floating-point.
    ValueError
        If it has less than two dimensions or, with `square`, other matrices than square ones.
    """
    x = as_array(function, argument, x)
    check_dtype(function, argument, x, _dtypes.FLOATING)
    wanted = "(..., M, M)" if square else "(..., M, N)"
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise bad_argument(function, f"{argument}.shape", x.shape, wanted)
    *batch, rows, columns = x.shape
    size = rows * columns
    matrices = [x.values[i * size : (i + 1) * size] for i in range(math.prod(batch))]
    return Stack(tuple(batch), rows, columns, x.dtype, matrices)


def is_finite(values: list[Value]) -> bool:
    return all(map(cmath.isfinite, values))


def nan_of(dtype: DType) -> Value:
    return complex(math.nan, math.nan) if dtype.kind == "c" else math.nan


def unit_values(n: int, dtype: DType) -> list[Value]:
    """Return the values of the identity matrix."""
    one, zero = (1 + 0j, 0j) if dtype.kind == "c" else (1.0, 0.0)
    return [one if i == j else zero for i in range(n) for j in range(n)]


def to_exact(values: list[Value], rows: int, columns: int, dtype: DType) -> tuple[Matrix, int]:
    """Write finite floats, the elements of a matrix, as integers over a power of two.

    Returns
    -------
    matrix : list of rows
        Integers, or Gaussian integers for a complex dtype.
    shift : int
        The values are the integers divided by ``2**shift``, which is not negative.
    """
    numbers: list[Number]
    if dtype.kind == "c":
        complexes = cast("list[complex]", values)
        parts, shift = to_integers([part for z in complexes for part in (z.real, z.imag)])
        numbers = list(map(Gaussian, parts[0::2], parts[1::2]))
    else:
        integers, shift = to_integers(cast("list[float]", values))
        numbers = list(integers)
    return [numbers[i * columns : (i + 1) * columns] for i in range(rows)], shift


# ------------------------------------------------------------------ rounding


def round_quotient(number: Number, divisor: Number, shift: int, dtype: DType) -> Value:
    """Round ``number / divisor / 2**shift`` to a floating dtype; `shift` of either sign."""
    if isinstance(divisor, Gaussian):
        number = number * divisor.conjugate()
        divisor = divisor.real * divisor.real + divisor.imag * divisor.imag
    if divisor < 0:
        number, divisor = -number, -divisor
    below = divisor << max(shift, 0)
    above = max(-shift, 0)
    part = _dtypes.real_of(dtype)
    real = round_ratio(number.real << above, below, part)
    if dtype.kind != "c":
        return real
    return complex(real, round_ratio(number.imag << above, below, part))


def round_root(number: Number, square: int, dtype: DType) -> Value:
    """Round ``number / sqrt(square)`` to a floating dtype."""
    part = _dtypes.real_of(dtype)

    def rounded(integer: int) -> float:
        root = exact_sqrt(integer * integer, square, part)
        return -root if integer < 0 else root

    if dtype.kind != "c":
        return rounded(number.real)
    return complex(rounded(number.real), rounded(number.imag))


def round_scalar(value: Real, shift: int, dtype: DType) -> Value:
    """Round ``value / 2**shift``, a number of mpmath, to a floating dtype."""
    mp = value.context
    part = _dtypes.real_of(dtype)
    real = round_real(mp.ldexp(value.real, -shift), part)
    if dtype.kind != "c":
        return real
    return complex(real, round_real(mp.ldexp(value.imag, -shift), part))


def round_scalars(values: list[Real], shift: int, dtype: DType) -> list[Value]:
    return [round_scalar(value, shift, dtype) for value in values]
