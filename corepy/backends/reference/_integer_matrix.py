"""Linear algebra on matrices of integers and Gaussian integers, where nothing is rounded.

A matrix of floats is one of integers over a power of two. Everything that linear algebra computes
with the four operations then stays exact: elimination divides by what is known to divide
(Bareiss), so that entries are minors of the matrix and grow no longer than those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import mul
from typing import TypeAlias

__all__ = [
    "Gaussian",
    "Matrix",
    "Number",
    "Vector",
    "characteristic_polynomial",
    "eliminate",
    "identity",
    "inner",
    "multiply",
    "orthogonalize",
    "power",
    "solve",
    "strip_zeros",
]


class Gaussian:
    """A complex number with integer parts.

    ``//`` is the exact quotient of numbers that divide. ``int`` has the same attributes and
    operations, so most functions here take both and mixtures of them.
    """

    __slots__ = ("imag", "real")

    def __init__(self, real: int, imag: int) -> None:
        self.real = real
        self.imag = imag

    def __repr__(self) -> str:
        return f"Gaussian({self.real}, {self.imag})"

    def __bool__(self) -> bool:
        return bool(self.real or self.imag)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int | Gaussian):
            return self.real == other.real and self.imag == other.imag
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Gaussian:
        return Gaussian(-self.real, -self.imag)

    def __add__(self, other: Number) -> Gaussian:
        return Gaussian(self.real + other.real, self.imag + other.imag)

    __radd__ = __add__

    def __sub__(self, other: Number) -> Gaussian:
        return Gaussian(self.real - other.real, self.imag - other.imag)

    def __rsub__(self, other: int) -> Gaussian:
        return Gaussian(other - self.real, -self.imag)

    def __mul__(self, other: Number) -> Gaussian:
        a, b, c, d = self.real, self.imag, other.real, other.imag
        return Gaussian(a * c - b * d, a * d + b * c)

    __rmul__ = __mul__

    def __floordiv__(self, other: Number) -> Gaussian:
        a, b, c, d = self.real, self.imag, other.real, other.imag
        if not d:
            return Gaussian(a // c, b // c)
        norm = c * c + d * d
        return Gaussian((a * c + b * d) // norm, (b * c - a * d) // norm)

    def __rfloordiv__(self, other: int) -> Gaussian:
        return Gaussian(other, 0) // self

    def conjugate(self) -> Gaussian:
        return Gaussian(self.real, -self.imag)


Number: TypeAlias = int | Gaussian
Vector: TypeAlias = list[Number]
Matrix: TypeAlias = list[list[Number]]


# ------------------------------------------------------------------ products


def inner(x: Iterable[Number], y: Iterable[Number]) -> Number:
    """Return the sum of the products, nothing conjugated."""
    total: Number = sum(map(mul, x, y))
    return total


def identity(n: int) -> Matrix:
    return [[int(row == column) for column in range(n)] for row in range(n)]


def multiply(a: Matrix, b: Matrix) -> Matrix:
    """Return the matrix product of an (m, k) and a (k, n) matrix, k at least 1."""
    columns = list(zip(*b, strict=True))
    return [[inner(row, column) for column in columns] for row in a]


def power(a: Matrix, exponent: int) -> Matrix:
    """Raise a square matrix to a positive power."""
    result: Matrix | None = None
    while True:
        if exponent & 1:
            result = a if result is None else multiply(result, a)
        exponent >>= 1
        if not exponent:
            return a if result is None else result
        a = multiply(a, a)


def strip_zeros(rows: Sequence[Sequence[Number]]) -> tuple[Matrix, list[int]]:
    """Divide each row by the greatest power of two that divides it; return the exponents too."""
    stripped: Matrix = []
    exponents = []
    for row in rows:
        used = 0
        for value in row:
            used |= value.real | value.imag
        zeros = max((used & -used).bit_length() - 1, 0)
        stripped.append([value // (1 << zeros) for value in row])
        exponents.append(zeros)
    return stripped, exponents


# ------------------------------------------------------------------ elimination


def eliminate(a: Matrix) -> tuple[list[int], Number]:
    """Find the rank and the determinant by fraction-free elimination.

    Returns
    -------
    columns : list of int
        The first columns that are independent of the columns before them: as many as the rank.
    minor : int or Gaussian
        The last pivot, with the sign of the row exchanges: the determinant of a square matrix
        of full rank. 1 if the rank is 0.
    """
    rows = [list(row) for row in a]
    columns: list[int] = []
    last: Number = 1
    sign = 1
    for column in range(len(rows[0]) if rows else 0):
        top = len(columns)
        found = next((i for i in range(top, len(rows)) if rows[i][column]), None)
        if found is None:
            continue
        if found != top:
            rows[top], rows[found] = rows[found], rows[top]
            sign = -sign
        pivot_row = rows[top]
        pivot = pivot_row[column]
        for i in range(top + 1, len(rows)):
            factor = rows[i][column]
            rows[i] = [
                (pivot * x - factor * y) // last for x, y in zip(rows[i], pivot_row, strict=True)
            ]
        last = pivot
        columns.append(column)
        if len(columns) == len(rows):
            break
    return columns, sign * last


def solve(a: Matrix, b: Matrix) -> tuple[Matrix, Number] | None:
    """Solve ``a @ x = b`` for a square matrix.

    Returns
    -------
    tuple or None
        ``(numerators, denominator)`` with ``x = numerators / denominator``, the denominator
        being the determinant but for its sign; None if the matrix is singular.
    """
    n = len(a)
    rows = [[*left, *right] for left, right in zip(a, b, strict=True)]
    last: Number = 1
    for step in range(n):
        found = next((i for i in range(step, n) if rows[i][step]), None)
        if found is None:
            return None
        rows[step], rows[found] = rows[found], rows[step]
        pivot_row = rows[step]
        pivot = pivot_row[step]
        for i in range(n):
            if i != step:
                factor = rows[i][step]
                rows[i] = [
                    (pivot * x - factor * y) // last
                    for x, y in zip(rows[i], pivot_row, strict=True)
                ]
        last = pivot
    return [row[n:] for row in rows], last


# ------------------------------------------------------------------ orthogonal vectors


def orthogonalize(vectors: Iterable[Vector], limit: int) -> list[tuple[Vector, int]]:
    """Orthogonalize vectors in their order, without fractions (Gram-Schmidt).

    Parameters
    ----------
    vectors : iterable of vectors
        Those that depend on the ones before them are skipped.
    limit : int
        Stop at so many; their common length at most.

    Returns
    -------
    list of (vector, square)
        Orthogonal vectors and the squares of their lengths.
    """
    basis: list[tuple[Vector, int]] = []
    # The Gram determinant of the vectors up to here; each new vector is a multiple of it.
    gram = [1]
    for vector in vectors:
        if len(basis) == limit:
            break
        rest = vector
        for (other, _), before, after in zip(basis, gram, gram[1:], strict=False):
            along = inner([x.conjugate() for x in other], vector)
            rest = [(after * x - along * y) // before for x, y in zip(rest, other, strict=True)]
        square = sum(x.real * x.real + x.imag * x.imag for x in rest)
        if square:
            gram.append(square // gram[-1])
            basis.append((rest, square))
    return basis


# ------------------------------------------------------------------ eigenvalues


def characteristic_polynomial(a: Matrix) -> Vector:
    """Return the coefficients of ``det(z - a)``, the leading 1 first (Faddeev-LeVerrier)."""
    coefficients: Vector = [1]
    shifted = identity(len(a))
    for step in range(1, len(a) + 1):
        product = multiply(a, shifted)
        trace = sum((row[i] for i, row in enumerate(product)), start=0 * a[0][0])
        coefficient = -trace // step
        coefficients.append(coefficient)
        for i, row in enumerate(product):
            row[i] = row[i] + coefficient
        shifted = product
    return coefficients
