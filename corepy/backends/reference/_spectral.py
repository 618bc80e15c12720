"""Eigenvalues and singular values of integer matrices, to hundreds of bits.

Precision is chosen from the matrix. Of entries of B bits, a product of two is ``2**(2 * B)`` times
smaller than another at most. What a decomposition yields below ``2**-(2 * B + 64)`` is taken as
noise about a zero, because the working precision is twice that, and becomes an exact zero. How
many eigenvalues or singular values are zero does not depend on any threshold; elimination tells
exactly, and the precision grows until the smallest of the others stands clear of the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeAlias

from corepy.backends.reference._integer_matrix import (
    Matrix,
    Number,
    Vector,
    characteristic_polynomial,
    eliminate,
    inner,
)
from corepy.backends.reference._mpmath import Context, Real, context, exact
from corepy.backends.reference._polynomial import square_free_factors

__all__ = ["Vectors", "eig", "eigh", "eigvals", "pseudo_inverse", "svd", "svdvals"]

#: A real or complex number of mpmath.
_Scalar: TypeAlias = Any
#: Vectors of them.
Vectors: TypeAlias = list[list[_Scalar]]

_GUARD_BITS = 64


def _bits(numbers: list[Number]) -> int:
    return max(max(x.real.bit_length(), x.imag.bit_length()) for x in numbers)


def _scalar(mp: Context, number: Number) -> _Scalar:
    if isinstance(number, int):
        return exact(mp, number)
    return mp.mpc(exact(mp, number.real), exact(mp, number.imag))


def _is_complex(a: Matrix) -> bool:
    return any(not isinstance(number, int) for row in a for number in row)


def _working_bits(bits: int) -> int:
    """Return the precision at which noise stays below ``2**-bits``."""
    return 2 * bits + 2 * _GUARD_BITS


def _clean_bits(mp: Context) -> int:
    """Invert `_working_bits`."""
    return int(mp.prec) // 2 - _GUARD_BITS


def _without_noise(mp: Context, value: _Scalar, size: Real, bits: int) -> _Scalar:
    """Replace parts below ``2**-bits`` of a size by zeros."""
    least = mp.ldexp(size, -bits)
    if isinstance(value, mp.mpc):
        real = value.real if abs(value.real) > least else mp.zero
        imag = value.imag if abs(value.imag) > least else mp.zero
        return mp.mpc(real, imag)
    return value if abs(value) > least else mp.zero


def _clean(mp: Context, vector: list[_Scalar], bits: int) -> list[_Scalar]:
    """Remove noise from a vector of unit length."""
    return [_without_noise(mp, x, mp.one, bits) for x in vector]


def _phase(mp: Context, vector: list[_Scalar]) -> _Scalar:
    """Return the factor that makes the first component other than zero real and positive."""
    first = next(value for value in vector if value)
    return mp.conj(first) / abs(first)


# ------------------------------------------------------------------ Hermitian and singular


def _resolved(
    a: Matrix, rank: int, compute: Callable[[Context], tuple[list[Real], Any]]
) -> tuple[Context, int, list[Real], Any]:
    """Compute values at a precision that tells those of full rank from zero.

    Returns
    -------
    mp : Context
    bits : int
        What is below ``2**-bits`` of the greatest value is noise.
    values : list of real numbers
        As `compute` orders them, all but `rank` of them exact zeros.
    rest
        Whatever else `compute` returned.
    """
    bits = 2 * _bits([number for row in a for number in row]) + _GUARD_BITS
    while True:
        mp = context(_working_bits(bits))
        values, rest = compute(mp)
        order = sorted(range(len(values)), key=lambda i: -abs(values[i]))
        if not rank or abs(values[order[rank - 1]]) > mp.ldexp(abs(values[order[0]]), -bits):
            zeros = set(order[rank:])
            return mp, bits, [mp.zero if i in zeros else v for i, v in enumerate(values)], rest
        bits *= 2


def eigh(a: Matrix) -> tuple[list[Real], Vectors]:
    """Decompose a Hermitian matrix of at least one row.

    Returns
    -------
    values : list of real numbers
        Ascending.
    vectors : list of list
        Orthonormal, one for each value; the first component other than zero is positive.
    """
    n = len(a)
    solver = "eighe" if _is_complex(a) else "eigsy"

    def compute(mp: Context) -> tuple[list[Real], Any]:
        found, vectors = getattr(mp, solver)(mp.matrix([[_scalar(mp, x) for x in r] for r in a]))
        order = sorted(range(n), key=lambda i: found[i])
        return [found[i] for i in order], [[vectors[k, i] for k in range(n)] for i in order]

    mp, bits, values, vectors = _resolved(a, len(eliminate(a)[0]), compute)
    normal = []
    for vector in vectors:
        clean = _clean(mp, vector, bits)
        phase = _phase(mp, clean)
        normal.append(_clean(mp, [x * phase for x in clean], bits))
    return values, normal


def svd(a: Matrix, columns: int) -> tuple[Vectors, list[Real], Vectors]:
    """Decompose an (m, n) matrix, neither of them 0.

    Returns
    -------
    left : list of m vectors
        Orthonormal left singular vectors.
    values : list of min(m, n) real numbers
        Descending.
    right : list of n vectors
        Orthonormal right singular vectors, conjugated: the rows of the adjoint. The first
        component other than zero is positive.
    """
    solver = "svd_c" if _is_complex(a) else "svd_r"
    rank = len(eliminate(a)[0])

    def compute(mp: Context) -> tuple[list[Real], Any]:
        matrix = mp.matrix([[_scalar(mp, x) for x in row] for row in a])
        left, values, right = getattr(mp, solver)(matrix)
        return list(values), (left, right)

    mp, bits, values, (u, vh) = _resolved(a, rank, compute)
    left = [[u[i, k] for i in range(len(a))] for k in range(rank)]
    right = [[vh[k, j] for j in range(columns)] for k in range(rank)]
    # mpmath does not always complete the vectors of zeros to an orthonormal basis.
    _complete(mp, left, len(a))
    _complete(mp, right, columns)
    for k, vector in enumerate(right):
        phase = _phase(mp, _clean(mp, vector, bits))
        right[k] = _clean(mp, [x * phase for x in vector], bits)
        if k < rank:
            left[k] = [x * mp.conj(phase) for x in left[k]]
    left = [_clean(mp, vector, bits) for vector in left]
    return left, values, right


def _complete(mp: Context, vectors: Vectors, n: int) -> None:
    """Append vectors to orthonormal ones until there are `n`, their length."""
    while len(vectors) < n:
        # The first unit vector well off the space spanned so far. The squares of their lengths in
        # it add up to its dimension, so that one of them has at most 1 - 1/n there.
        covered = [mp.fsum(abs(vector[i]) ** 2 for vector in vectors) for i in range(n)]
        axis = next(i for i in range(n) if covered[i] < 1 - mp.one / (2 * n))
        rest = [mp.one if i == axis else mp.zero for i in range(n)]
        for vector in vectors:
            along = mp.conj(vector[axis])
            rest = [x - along * y for x, y in zip(rest, vector, strict=True)]
        length = mp.sqrt(1 - covered[axis])
        vectors.append([x / length for x in rest])


def svdvals(a: Matrix) -> list[Real]:
    """Return the singular values of a matrix that is not empty, descending."""
    solver = "svd_c" if _is_complex(a) else "svd_r"

    def compute(mp: Context) -> tuple[list[Real], Any]:
        matrix = mp.matrix([[_scalar(mp, x) for x in row] for row in a])
        return list(getattr(mp, solver)(matrix, compute_uv=False)), None

    return _resolved(a, len(eliminate(a)[0]), compute)[2]


def pseudo_inverse(a: Matrix, columns: int, rtol: float) -> Vectors:
    """Return the rows of the pseudo-inverse of an (m, n) matrix, neither of them 0.

    Singular values up to `rtol` of the greatest count as zeros.
    """
    left, values, right = svd(a, columns)
    mp = values[0].context
    least = mp.mpf(rtol) * values[0]
    kept = [k for k, value in enumerate(values) if value > least]
    rows = [
        [
            mp.fsum(mp.conj(right[k][j]) * mp.conj(left[k][i]) / values[k] for k in kept)
            for i in range(len(a))
        ]
        for j in range(columns)
    ]
    size = max(abs(x) for row in rows for x in row)
    return [[_without_noise(mp, x, size, _clean_bits(mp)) for x in row] for row in rows]


# ------------------------------------------------------------------ general


def eigvals(a: Matrix) -> list[_Scalar]:
    """Return the eigenvalues of a matrix of at least one row, by real and imaginary part."""
    polynomial = characteristic_polynomial(a)
    return [value for value, times, _ in _eigenvalues(polynomial) for _ in range(times)]


def eig(a: Matrix) -> tuple[list[_Scalar], Vectors]:
    """Decompose a matrix of at least one row.

    Returns
    -------
    values : list of complex numbers
        By real and imaginary part.
    vectors : list of list
        One of unit length for each value; the first component other than zero is positive. An
        eigenvalue that occurs several times has orthonormal ones. If it is defective, and has
        fewer than that, they are repeated.
    """
    polynomial = characteristic_polynomial(a)
    chain = _krylov_chain(a, polynomial)
    values = []
    vectors: Vectors = []
    for value, times, bits in _eigenvalues(polynomial):
        simple = _eigenvector(chain, value, bits) if times == 1 else None
        found = _null_space(a, value, times, bits) if simple is None else [simple]
        values += [value] * times
        vectors += [found[i % len(found)] for i in range(times)]
    return values, vectors


def _eigenvalues(polynomial: list[Number]) -> list[tuple[_Scalar, int, int]]:
    """Return the distinct eigenvalues in order, how often each occurs, and bits that hold."""
    found = []
    for factor, times in square_free_factors(polynomial):
        mp, roots, bits = _roots(factor)
        found += [(mp, root, times, bits) for root in roots]

    def position(item: tuple[Context, _Scalar, int, int]) -> tuple[Real, Real]:
        mp, root, _, bits = item
        # Real parts of conjugates agree but for noise, which must not decide.
        with mp.workprec(bits):
            return +root.real, +root.imag

    return [(root, times, bits) for _, root, times, bits in sorted(found, key=position)]


def _roots(p: list[Number]) -> tuple[Context, list[_Scalar], int]:
    """Find the roots of a monic polynomial that are known to be simple (Ehrlich-Aberth).

    Returns
    -------
    mp : Context
    roots : list of complex numbers
        Parts that are zero are so exactly.
    bits : int
        The relative precision that the roots have at least.
    """
    bits = _bits(p) + _GUARD_BITS
    goal = bits + _GUARD_BITS
    mp = context(2 * _GUARD_BITS)
    zeros = [mp.mpc(0)] if not p[-1] else []
    p = p[:-1] if zeros else p
    degree = len(p) - 1
    roots = _first_guesses(mp, p)
    while True:
        coefficients = [_scalar(mp, c) for c in p]
        # Half the bits is what rounding lets a step converge to, with room for ill condition.
        wanted = min(goal, mp.prec // 2)
        for _ in range(50 + degree):
            if _improve(mp, coefficients, roots, wanted):
                break
        else:
            wanted = 0
        if wanted == goal:
            break
        mp.prec *= 2
    return mp, zeros + [_without_noise(mp, z, abs(z), bits) for z in roots], bits


def _improve(mp: Context, p: list[_Scalar], roots: list[_Scalar], bits: int) -> bool:
    """Take one step; say whether no root moved by more than ``2**-bits`` of itself."""
    settled = True
    slope = [c * (len(p) - 1 - i) for i, c in enumerate(p[:-1])]
    for i, z in enumerate(roots):
        step = _evaluate(p, z) / _evaluate(slope, z)
        others = mp.fsum(1 / (z - other) for j, other in enumerate(roots) if j != i)
        step /= 1 - step * others
        roots[i] = z - step
        settled = settled and abs(step) <= mp.ldexp(abs(z), -bits)
    return settled


def _evaluate(p: list[_Scalar], z: _Scalar) -> _Scalar:
    """Return a polynomial at a point, by Horner's rule."""
    value = p[0]
    for coefficient in p[1:]:
        value = value * z + coefficient
    return value


def _first_guesses(mp: Context, p: list[Number]) -> list[_Scalar]:
    """Spread guesses over circles of the radii that the coefficients suggest.

    The slopes of the upper hull of the points ``(i, log2(abs(p[i])))`` are these radii, and the
    length of an edge is the number of roots on it (Bini's choice).
    """
    points = [(i, _bits([c])) for i, c in enumerate(p) if c]
    hull: list[tuple[int, int]] = []
    for x, y in points:
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x0) > (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    guesses = []
    for (start, before), (end, after) in pairwise(hull):
        count = end - start
        radius = mp.power(2, mp.mpf(after - before) / count)
        # Each circle is turned by an angle of its own, so that guesses are not symmetric.
        guesses += [radius * mp.expj(2 * mp.pi * k / count + 0.7 + start) for k in range(count)]
    return guesses


def _krylov_chain(a: Matrix, polynomial: list[Number]) -> Matrix:
    """Return the vectors ``b[k]`` for `_eigenvector`.

    The adjugate of ``z - a`` times a vector v is the sum of ``z**(n-1-k) * b[k]`` with ``b[0] = v``
    and ``b[k] = a @ b[k-1] + polynomial[k] * v``.
    """
    # Components without a pattern, so that no eigenvector of the transpose is orthogonal to it.
    start: Vector = [7919 * (i + 1) % 101 + 1 for i in range(len(a))]
    chain = [start]
    for coefficient in polynomial[1:-1]:
        product = [inner(row, chain[-1]) for row in a]
        chain.append([x + coefficient * y for x, y in zip(product, start, strict=True)])
    return chain


def _eigenvector(chain: Matrix, value: _Scalar, bits: int) -> list[_Scalar] | None:
    """Return the eigenvector of a simple eigenvalue; None if it is lost in cancellation.

    Where ``z - a`` has rank n - 1, each column of its adjugate is a multiple of the eigenvector.
    """
    mp = value.context
    vector = []
    size = mp.zero
    for components in zip(*chain, strict=True):
        numbers = [_scalar(mp, x) for x in components]
        vector.append(_evaluate(numbers, value))
        with mp.workprec(_GUARD_BITS):  # enough to see how much of it cancelled
            size = max(size, _evaluate([abs(x) for x in numbers], abs(value)))
    if max(map(abs, vector)) <= mp.ldexp(size, -2 * _GUARD_BITS):
        return None
    return _normalized(mp, vector, bits)


def _null_space(a: Matrix, value: _Scalar, limit: int, bits: int) -> Vectors:
    """Return orthonormal vectors that ``a - value`` takes to zero: 1 to `limit` of them."""
    mp = value.context
    n = len(a)
    rows = [[_scalar(mp, x) for x in row] for row in a]
    for i, row in enumerate(rows):
        row[i] -= value
    size = max(abs(x) for row in rows for x in row)
    columns = list(range(n))
    rank = 0
    while rank < n - 1:
        pivot, i, j = max(
            ((abs(rows[i][j]), i, j) for i in range(rank, n) for j in columns[rank:]),
            key=lambda entry: entry[0],
        )
        if rank >= n - limit and pivot <= mp.ldexp(size, -bits):
            break
        rows[rank], rows[i] = rows[i], rows[rank]
        place = columns.index(j)
        columns[rank], columns[place] = columns[place], columns[rank]
        pivot_row = [x / rows[rank][j] for x in rows[rank]]
        rows[rank] = pivot_row
        for k, row in enumerate(rows):
            if k != rank and row[j]:
                rows[k] = [x - row[j] * y for x, y in zip(row, pivot_row, strict=True)]
        rank += 1
    vectors: Vectors = []
    for free in columns[rank:]:
        vector = [mp.mpc(0)] * n
        vector[free] = mp.mpc(1)
        for row, column in zip(rows, columns[:rank], strict=False):
            vector[column] = -row[free]
        for other in vectors:
            along = mp.fdot(zip(vector, map(mp.conj, other), strict=True))
            vector = [x - along * y for x, y in zip(vector, other, strict=True)]
        vectors.append(_normalized(mp, vector, bits))
    return vectors


def _normalized(mp: Context, vector: list[_Scalar], bits: int) -> list[_Scalar]:
    """Scale a vector to unit length and its first component other than zero to be positive."""
    length = mp.sqrt(mp.fsum(abs(x) ** 2 for x in vector))
    vector = _clean(mp, [x / length for x in vector], bits)
    phase = _phase(mp, vector)
    return _clean(mp, [x * phase for x in vector], bits)
