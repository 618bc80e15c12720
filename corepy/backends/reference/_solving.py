"""Determinants, inverses, powers and ranks of the linear algebra extension.

All but the logarithm of `slogdet`, `pinv` and `matrix_rank` is exact arithmetic on integers until
each element of the result is rounded once; a matrix counts as singular if and only if it is.
Numbers of very different size cost time: exact integers hold all bits between them.
"""

from __future__ import annotations

import math
import operator
from typing import NamedTuple, cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument, bad_type, unsolvable
from corepy.backends.reference import _spectral
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._integer_matrix import (
    Matrix,
    Number,
    eliminate,
    identity,
    power,
    strip_zeros,
)
from corepy.backends.reference._integer_matrix import solve as solve_exactly
from corepy.backends.reference._layout import Shape, broadcast_values, common_shape
from corepy.backends.reference._matrices import (
    Stack,
    as_stack,
    is_finite,
    nan_of,
    round_quotient,
    round_root,
    round_scalars,
    to_exact,
    unit_values,
)
from corepy.backends.reference._mpmath import context, exact, round_real
from corepy.backends.reference._operands import ArrayLike, as_array, check_dtype, promote
from corepy.backends.reference._rounding import round_to

__all__ = [
    "SlogdetResult",
    "det",
    "inv",
    "matrix_power",
    "matrix_rank",
    "pinv",
    "slogdet",
    "solve",
]

#: Distance from 1 to the next number, by precision.
_EPSILON = {_dtypes.float32: 2.0**-23, _dtypes.float64: 2.0**-52}
#: Precision of logarithms.
_LOG_BITS = 256


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: ReferenceArray
    logabsdet: ReferenceArray


# ------------------------------------------------------------------ determinants


def det(x: ArrayLike, /) -> ReferenceArray:
    """Return determinants.

    Parameters
    ----------
    x : array
        Shape ``(..., M, M)``, floating-point.

    Returns
    -------
    array
        Shape ``(...)`` and the dtype of `x`, each element rounded once; 1 for empty matrices and
        NaN for those with infinities or NaNs.

    Raises
    ------
    TypeError
        If `x` is not floating-point.
    ValueError
        If `x` is not a stack of square matrices.
    """
    stack = as_stack("det", x, square=True)
    values: list[Value] = []
    for scaled in stack.exact():
        if scaled is None:
            values.append(nan_of(stack.dtype))
        else:
            number, shift = _determinant(*scaled)
            values.append(round_quotient(number, 1, shift, stack.dtype))
    return stack.collect(values)


def slogdet(x: ArrayLike, /) -> SlogdetResult:
    """Return the signs of determinants, and the logarithms of their absolute values.

    Parameters and errors as in `det`.

    Returns
    -------
    SlogdetResult
        `sign`, of the dtype of `x`, and `logabsdet`, real of its precision: 0 and -infinity for
        singular matrices, NaN for those with infinities or NaNs. Both are rounded once.
    """
    stack = as_stack("slogdet", x, square=True)
    real = _dtypes.real_of(stack.dtype)
    signs: list[Value] = []
    logarithms: list[Value] = []
    mp = context(_LOG_BITS)
    for scaled in stack.exact():
        if scaled is None:
            signs.append(nan_of(stack.dtype))
            logarithms.append(math.nan)
            continue
        number, shift = _determinant(*scaled)
        square = number.real * number.real + number.imag * number.imag
        if square:
            signs.append(round_root(number, square, stack.dtype))
            # Half the logarithm of the square, which is exact for complex numbers too.
            logarithm = mp.log(exact(mp, square, -2 * shift)) / 2
            logarithms.append(round_real(logarithm, real))
        else:
            signs.append(0j if stack.dtype.kind == "c" else 0.0)
            logarithms.append(-math.inf)
    return SlogdetResult(stack.collect(signs), stack.collect(logarithms, dtype=real))


def _determinant(matrix: Matrix, shift: int) -> tuple[Number, int]:
    """Return the determinant of ``matrix / 2**shift`` as an integer and a shift."""
    reduced, rows, columns = _strip(matrix)
    independent, minor = eliminate(reduced)
    if len(independent) < len(matrix):
        return 0, 0
    return minor, shift * len(matrix) - sum(rows) - sum(columns)


def _strip(matrix: Matrix) -> tuple[Matrix, list[int], list[int]]:
    """Divide rows, then columns, by powers of two; return the exponents.

    Numbers as different as those of ``diag(1e300, 1e-300)`` become small integers.
    """
    reduced, rows = strip_zeros(matrix)
    transposed, columns = strip_zeros(list(zip(*reduced, strict=True)))
    return [list(row) for row in zip(*transposed, strict=True)], rows, columns


# ------------------------------------------------------------------ linear systems


def solve(x1: ArrayLike, x2: ArrayLike, /) -> ReferenceArray:
    """Solve systems of linear equations ``x1 @ x = x2``.

    Parameters
    ----------
    x1 : array
        Shape ``(..., M, M)``, floating-point.
    x2 : array
        Shape ``(M,)``, one right side for all systems; or ``(..., M, K)``, whose leading
        dimensions broadcast with those of `x1`.

    Returns
    -------
    array
        Shape ``(..., M)`` or ``(..., M, K)``, of the promoted dtype, each element rounded once.
        NaN where a matrix of `x1` or a column of `x2` has infinities or NaNs.

    Raises
    ------
    TypeError
        If an operand is not floating-point.
    ValueError
        If the shapes do not fit, or a matrix is singular.
    """
    a, b = promote("solve", x1=x1, x2=x2)
    left = as_stack("solve", a, "x1", square=True)
    if b.ndim == 1:
        right = as_stack("solve", ReferenceArray(b.values, (b.size, 1), b.dtype), "x2")
    else:
        right = as_stack("solve", b, "x2")
    if right.rows != left.rows:
        expected = f"({left.rows},) or (..., {left.rows}, K)"
        raise bad_argument("solve", "x2.shape", b.shape, expected)
    batch, pairs = _pairs("solve", left.batch, right.batch)
    values: list[Value] = []
    for i, j in pairs:
        found = _solution(left.matrices[i], right.matrices[j], left.rows, right.columns, a.dtype)
        if found is None:
            raise _singular("solve", left, i, "x1")
        values += found
    shape = b.shape if b.ndim == 1 else (right.rows, right.columns)
    return ReferenceArray(values, (*batch, *shape), a.dtype)


def inv(x: ArrayLike, /) -> ReferenceArray:
    """Invert matrices.

    Parameters
    ----------
    x : array
        Shape ``(..., M, M)``, floating-point.

    Returns
    -------
    array
        Of the shape and dtype of `x`, each element rounded once. A matrix with infinities or NaNs
        yields NaN.

    Raises
    ------
    TypeError
        If `x` is not floating-point.
    ValueError
        If `x` is not a stack of square matrices, or one of them is singular.
    """
    stack = as_stack("inv", x, square=True)
    n = stack.rows
    units = unit_values(n, stack.dtype)
    values: list[Value] = []
    for position, matrix in enumerate(stack.matrices):
        found = _solution(matrix, units, n, n, stack.dtype)
        if found is None:
            raise _singular("inv", stack, position)
        values += found
    return stack.collect(values, n, n)


def _singular(function: str, stack: Stack, position: int, argument: str = "x") -> ValueError:
    name = stack.name(position, argument)
    return unsolvable(f"{function}: {name} is singular; expected an invertible matrix")


def _pairs(function: str, first: Shape, second: Shape) -> tuple[Shape, list[tuple[int, int]]]:
    """Broadcast two batches; return the shape and which matrices meet."""
    shape = common_shape(function, (first, second))

    def positions(batch: Shape) -> list[int]:
        numbers: list[Value] = list(range(math.prod(batch)))
        places = ReferenceArray(numbers, batch, _dtypes.int64)
        return cast("list[int]", broadcast_values(places, shape))

    return shape, list(zip(positions(first), positions(second), strict=True))


def _solution(
    a: list[Value], b: list[Value], n: int, columns: int, dtype: DType
) -> list[Value] | None:
    """Solve one system; None if it is singular."""
    if not is_finite(a):
        return [nan_of(dtype)] * (n * columns)
    spoiled = {j for j in range(columns) if not is_finite(b[j::columns])}
    if spoiled:
        b = [0.0 if i % columns in spoiled else value for i, value in enumerate(b)]
    matrix, shift = to_exact(a, n, n, dtype)
    right, right_shift = to_exact(b, n, columns, dtype)
    solved = _solve_scaled(matrix, right)
    if solved is None:
        return None
    numbers, divisor, shifts = solved
    return [
        nan_of(dtype)
        if j in spoiled
        else round_quotient(number, divisor, extra + right_shift - shift, dtype)
        for row, extra in zip(numbers, shifts, strict=True)
        for j, number in enumerate(row)
    ]


def _solve_scaled(a: Matrix, b: Matrix) -> tuple[Matrix, Number, list[int]] | None:
    """Solve ``a @ x = b`` for integers, on small ones.

    Returns
    -------
    tuple or None
        Numbers, a divisor and a shift for each row: ``x = number / divisor / 2**shift``. None if
        `a` is singular.
    """
    reduced, rows, columns = _strip(a)
    most = max(rows, default=0)
    right = [
        [value * (1 << (most - exponent)) for value in row]
        for row, exponent in zip(b, rows, strict=True)
    ]
    solved = solve_exactly(reduced, right)
    if solved is None:
        return None
    return *solved, [exponent + most for exponent in columns]


# ------------------------------------------------------------------ powers


def matrix_power(x: ArrayLike, n: int, /) -> ReferenceArray:
    """Raise square matrices to an integer power.

    Parameters
    ----------
    x : array
        Shape ``(..., M, M)``, floating-point.
    n : int
        A negative power is that of the inverse, and 0 gives identity matrices. The numbers that
        are computed with are about ``abs(n)`` times as long as those of `x`.

    Returns
    -------
    array
        Of the shape and dtype of `x`, each element rounded once. A matrix with infinities or NaNs
        yields NaN, if `n` is neither 0 nor 1.

    Raises
    ------
    TypeError
        If `x` is not floating-point or `n` not an integer.
    ValueError
        If `x` is not a stack of square matrices, or `n` negative and one of them singular.
    """
    stack = as_stack("matrix_power", x, square=True)
    size = stack.rows
    try:
        exponent = operator.index(n)
    except TypeError:
        raise bad_type("matrix_power", "n", n, "an int") from None
    values: list[Value] = []
    for position, matrix in enumerate(stack.matrices):
        if exponent == 0:
            values += unit_values(size, stack.dtype)
        elif exponent == 1 or not size:
            values += matrix
        elif not is_finite(matrix):
            values += [nan_of(stack.dtype)] * (size * size)
        else:
            number, shift = to_exact(matrix, size, size, stack.dtype)
            divisor: Number = 1
            if exponent < 0:
                solved = _solve_scaled(number, identity(size))
                if solved is None:
                    raise _singular("matrix_power", stack, position)
                number, divisor, shifts = solved
                # Bring the rows to one shift, and undo that of the matrix.
                most = max(shifts)
                number = [
                    [value * (1 << (most - own)) for value in row]
                    for row, own in zip(number, shifts, strict=True)
                ]
                shift = most - shift
            count = abs(exponent)
            divisor = power([[divisor]], count)[0][0]
            values += [
                round_quotient(value, divisor, shift * count, stack.dtype)
                for row in power(number, count)
                for value in row
            ]
    return stack.collect(values, size, size)


# ------------------------------------------------------------------ ranks and pseudo-inverses


def matrix_rank(x: ArrayLike, /, *, rtol: float | ArrayLike | None = None) -> ReferenceArray:
    """Count the singular values that are not negligible.

    Parameters
    ----------
    x : array
        Shape ``(..., M, N)``, floating-point.
    rtol : float or array, optional
        Singular values up to `rtol` times the greatest are negligible; an array broadcasts with
        the leading dimensions of `x`. By default ``max(M, N)`` times the distance from 1 to the
        next number of the precision of `x`.

    Returns
    -------
    array
        int64, of the shape of the leading dimensions.

    Raises
    ------
    TypeError
        If `x` is not floating-point, or `rtol` not real and floating.
    ValueError
        If `x` has less than two dimensions or contains infinities or NaNs, or `rtol` does not
        broadcast.
    """
    stack = as_stack("matrix_rank", x)
    singular = [_spectral.svdvals(matrix) for matrix, _ in stack.finite("matrix_rank")]
    shape, pairs, tolerances = _tolerances("matrix_rank", stack, rtol)
    ranks: list[Value] = [
        sum(value > value.context.mpf(tolerances[j]) * singular[i][0] for value in singular[i])
        if singular
        else 0
        for i, j in pairs
    ]
    return ReferenceArray(ranks, shape, _dtypes.int64)


def pinv(x: ArrayLike, /, *, rtol: float | ArrayLike | None = None) -> ReferenceArray:
    """Return Moore-Penrose pseudo-inverses.

    Parameters and errors as in `matrix_rank`: negligible singular values are left out.

    Returns
    -------
    array
        Shape ``(..., N, M)`` and the dtype of `x`, each element rounded once.
    """
    stack = as_stack("pinv", x)
    matrices = list(stack.finite("pinv"))
    shape, pairs, tolerances = _tolerances("pinv", stack, rtol)
    values: list[Value] = []
    for i, j in pairs if matrices else []:
        matrix, shift = matrices[i]
        for row in _spectral.pseudo_inverse(matrix, stack.columns, tolerances[j]):
            values += round_scalars(row, -shift, stack.dtype)
    return ReferenceArray(values, (*shape, stack.columns, stack.rows), stack.dtype)


def _tolerances(
    function: str, stack: Stack, rtol: float | ArrayLike | None
) -> tuple[Shape, list[tuple[int, int]], list[float]]:
    """Return the shape of the results, which matrix meets which tolerance, and the tolerances."""
    real = _dtypes.real_of(stack.dtype)
    if rtol is None:
        array = as_array(function, "rtol", max(stack.rows, stack.columns) * _EPSILON[real])
    elif isinstance(rtol, int | float):
        array = ReferenceArray([round_to(float(rtol), real)], (), real)
    else:
        array = as_array(function, "rtol", rtol)
        check_dtype(function, "rtol", array, _dtypes.REAL_FLOATING)
    shape, pairs = _pairs(function, stack.batch, array.shape)
    return shape, pairs, cast("list[float]", array.values)
