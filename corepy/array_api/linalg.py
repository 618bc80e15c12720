"""The linear algebra extension; its decompositions are in `_decompositions.py`.

https://data-apis.org/array-api/2025.12/extensions/linear_algebra_functions.html
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument, bad_type, broadcast_mismatch, wrong_dtype
from corepy.array_api._arguments import (
    axes_of,
    axis_of,
    flag_of,
    matrices_of,
    number_of,
    square_of,
)
from corepy.array_api._decompositions import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from corepy.array_api._linear_algebra import (
    matmul,
    matrix_transpose,
    pair_of,
    tensordot,
    vecdot,
)
from corepy.array_api._manipulation import broadcast_shapes
from corepy.array_api._statistical import accumulator
from corepy.dispatch import (
    Operand,
    as_companion,
    as_operand,
    broadcasts,
    cast_to,
    create,
    gathered,
    index_value,
    known_size,
    known_sizes,
    operation,
    run,
    same,
    same_sizes,
    to_real,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def __dir__() -> list[str]:
    """Return the names of the standard, without those of what they are made of."""
    return sorted(__all__)


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Array
    logabsdet: Array


@operation(_dtypes.NUMERIC, same, extension="linalg", argument="x1")
def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Cross product of vectors of three elements.

    Parameters
    ----------
    x1, x2 : Array
        With numeric dtypes, and shapes that broadcast but for `axis`, which has size 3.
    axis : int

    Returns
    -------
    Array
        Of the broadcast shape and the promoted dtype.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If `axis` has another size, or the shapes do not broadcast.
    IndexError
        If `axis` is out of range.
    DeviceMismatchError
        If the operands live on different devices.
    """
    a, b = pair_of("cross", x1, x2)
    width = max(a.ndim, b.ndim)
    place = axis_of("cross", axis, width) - width
    for name, x in (("x1", a), ("x2", b)):
        axis_of("cross", place, x.ndim)
        if known_size(x, place) != 3:
            raise bad_argument("cross", f"{name}.shape", x.shape, f"size 3 along axis {axis}")
    if not broadcasts([a.shape, b.shape]):
        raise broadcast_mismatch("cross", (a.shape, b.shape))
    return cast("Array", run("linalg.cross", a, b, axis=place))


@operation(_dtypes.FLOATING, extension="linalg")
def det(x: Array, /) -> Array:
    """Determinant.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, M)``, with a floating-point dtype.

    Returns
    -------
    Array
        Of shape ``(...)`` and the dtype of `x`.

    Raises
    ------
    TypeError
        If `x` is no array or has another dtype.
    ValueError
        If a matrix is not square.
    """
    return cast("Array", run("linalg.det", square_of("det", x)))


@operation(result=same, extension="linalg")
def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """Diagonal of each matrix in a stack.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, N)``.
    offset : int
        0 the main diagonal, positive above it, negative below.

    Returns
    -------
    Array
        Of shape ``(..., min(M, N))``, shorter for other offsets.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If `x` has fewer than two dimensions.
    """
    x = matrices_of("diagonal", x)
    return cast("Array", run("linalg.diagonal", x, offset=_offset("diagonal", offset, x)))


def _offset(function: str, offset: Any, x: Array) -> int:
    # Diagonals beyond the corners are all empty; keeping them near spares libraries overflow.
    number = index_value(function, "offset", offset)
    if number == 0:
        return 0
    rows, columns = known_sizes(x, (-2, -1))
    return max(-rows, min(columns, number))


@operation(_dtypes.FLOATING, extension="linalg")
def inv(x: Array, /) -> Array:
    """Inverse.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, M)``, with a floating-point dtype.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If `x` is no array or has another dtype.
    ValueError
        If a matrix is not square.
    LinAlgError
        NumPy's, which is a ValueError: if one is singular.
    """
    return cast("Array", run("linalg.inv", square_of("inv", x)))


@operation(_dtypes.FLOATING, to_real, extension="linalg")
def matrix_norm(
    x: Array, /, *, keepdims: bool = False, ord: int | float | str | None = "fro"
) -> Array:
    """Norm of each matrix in a stack.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, N)``, with a floating-point dtype.
    keepdims : bool
        Whether the two dimensions stay, with size one.
    ord : {1, 2, inf, -1, -2, -inf, "fro", "nuc", None}
        Greatest or least column sum, singular value, row sum; Frobenius (also None) or nuclear. Of
        none the greatest is 0, the least ``inf``.

    Returns
    -------
    Array
        Of shape ``(...)`` and the real dtype of the precision of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If `x` has fewer than two dimensions, `ord` is another one, or a matrix holds NaN or an
        infinity, where the library can tell.
    """
    x = matrices_of("matrix_norm", x)
    keep = flag_of("matrix_norm", "keepdims", keepdims)
    kind = "fro" if ord is None else ord
    if kind.__class__ not in (str, int, float):
        raise bad_type("matrix_norm", "ord", ord, f"one of {_NORMS}")
    if kind not in _NORMS:
        raise bad_argument("matrix_norm", "ord", ord, f"one of {_NORMS}")
    if 0 in x.shape and x.dtype in _dtypes.FLOATING:  # libraries make this of it, or an error
        *stack, rows, columns = known_sizes(x)
        # Sums of no elements are 0; where there is no sum, or singular value, the least is inf.
        counts: dict[Any, int] = {-1: columns, -2: min(rows, columns), -math.inf: rows}
        shape = (*stack, 1, 1) if keep else tuple(stack)
        return _filled(x, shape, _dtypes.real_of(x.dtype), 0.0 if counts.get(kind, 1) else math.inf)
    return cast("Array", run("linalg.matrix_norm", x, keepdims=keep, ord=kind))


_NORMS: Final = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


@operation(_dtypes.FLOATING, same, extension="linalg")
def matrix_power(x: Array, n: int, /) -> Array:
    """Integer power of square matrices.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, M)``, with a floating-point dtype.
    n : int
        0 gives the identity, a negative one powers of the inverse.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If a matrix is not square.
    LinAlgError
        NumPy's, which is a ValueError: if one is singular and `n` negative.
    """
    x = square_of("matrix_power", x)
    return cast("Array", run("linalg.matrix_power", x, index_value("matrix_power", "n", n)))


@operation(_dtypes.FLOATING, extension="linalg")
def matrix_rank(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """Number of singular values above a tolerance.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, N)``, with a floating-point dtype.
    rtol : float, Array or None
        Relative to the greatest singular value; by default ``max(M, N) * eps``.

    Returns
    -------
    Array
        Of shape ``(...)`` and dtype int64; 0 for matrices without elements.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If `x` has fewer than two dimensions, or the shape of `rtol` does not fit the stack.
    LinAlgError
        NumPy's, which is a ValueError: if a matrix holds NaN or an infinity, where
        the library can tell.
    OverflowError
        If `rtol` is an int beyond the range of float64.
    DeviceMismatchError
        If `x` and `rtol` live on different devices.
    """
    x = matrices_of("matrix_rank", x)
    x, tolerance = _with_rtol("matrix_rank", x, rtol)
    if 0 in known_sizes(x, (-2, -1)) and x.dtype in _dtypes.FLOATING:  # no greatest singular value
        return _filled(x, known_sizes(x)[:-2], _dtypes.int64, 0)
    return cast("Array", run("linalg.matrix_rank", x, rtol=tolerance))


def _filled(x: Array, shape: tuple[int, ...], dtype: DType, value: float) -> Array:
    """Return an array of one value, in the backend and on the device of another."""
    return cast("Array", create("full", x._table.sibling(dtype), shape, value))


def _with_rtol(function: str, x: Array, rtol: Any) -> tuple[Array, Any]:
    """Return matrices and a tolerance: a number, or an array of the dtype of singular values."""
    if rtol is None or (isinstance(rtol, (int, float)) and not isinstance(rtol, bool)):
        return x, None if rtol is None else number_of(function, "rtol", rtol)
    if not (isinstance(rtol, Operand) or hasattr(rtol, "shape")):
        raise bad_type(function, "rtol", rtol, "a float, an array or None")
    tolerance = as_companion(function, "rtol", rtol, x._table)
    if tolerance.dtype not in _dtypes.REAL:
        expected = _dtypes.describe(_dtypes.REAL)
        raise wrong_dtype(function, "rtol", tolerance.dtype, tolerance.device, expected)
    sizes, several = known_sizes(x), known_sizes(tolerance)
    stack = sizes[:-2]
    if several and several != stack:
        if not broadcasts([stack, several]):
            expected = f"one that broadcasts with {stack}, the stack of x"
            raise bad_argument(function, "rtol.shape", several, expected)
        common = broadcast_shapes(stack, several)
        if common != stack:  # NumPy and torch take no tolerances of more matrices than there are
            x = cast("Array", run("broadcast_to", x, (*common, *sizes[-2:])))
    real = _dtypes.real_of(x.dtype)
    return x, cast_to(gathered(function, "x", x._table, "rtol", tolerance), real, function)


@operation(_dtypes.NUMERIC, same, extension="linalg", argument="x1")
def outer(x1: Array, x2: Array, /) -> Array:
    """Products of all pairs of elements of two vectors.

    Parameters
    ----------
    x1, x2 : Array
        Of shapes ``(M,)`` and ``(N,)``, with numeric dtypes.

    Returns
    -------
    Array
        Of shape ``(M, N)`` and the promoted dtype.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If an operand is not 1-D.
    DeviceMismatchError
        If the operands live on different devices.
    """
    a, b = pair_of("outer", x1, x2)
    for name, x in (("x1", a), ("x2", b)):
        if x.ndim != 1:
            raise bad_argument("outer", f"{name}.shape", x.shape, "one dimension")
    return cast("Array", run("linalg.outer", a, b))


@operation(_dtypes.FLOATING, same, extension="linalg")
def pinv(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """Moore-Penrose pseudo-inverse.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, N)``, with a floating-point dtype.
    rtol : float, Array or None
        Singular values at most this, relative to the greatest, count as zero; by default
        ``max(M, N) * eps``.

    Returns
    -------
    Array
        Of shape ``(..., N, M)`` and the dtype of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If `x` has fewer than two dimensions, or the shape of `rtol` does not fit the stack.
    LinAlgError
        NumPy's, which is a ValueError: if a matrix holds NaN or an infinity, where
        the library can tell.
    OverflowError
        If `rtol` is an int beyond the range of float64.
    DeviceMismatchError
        If `x` and `rtol` live on different devices.
    """
    x = matrices_of("pinv", x)
    x, tolerance = _with_rtol("pinv", x, rtol)
    return cast("Array", run("linalg.pinv", x, rtol=tolerance))


@operation(_dtypes.FLOATING, extension="linalg", into=SlogdetResult)
def slogdet(x: Array, /) -> SlogdetResult:
    """Sign of the determinant and natural logarithm of its absolute value.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, M)``, with a floating-point dtype.

    Returns
    -------
    SlogdetResult
        ``sign`` of the dtype of `x` and ``logabsdet`` of its real dtype, of shape ``(...)``.

    Raises
    ------
    TypeError
        If `x` is no array or has another dtype.
    ValueError
        If a matrix is not square.
    """
    return SlogdetResult(*run("linalg.slogdet", square_of("slogdet", x)))


@operation(_dtypes.FLOATING, extension="linalg", argument="x1")
def solve(x1: Array, x2: Array, /) -> Array:
    """Solve ``x1 @ x = x2``.

    Parameters
    ----------
    x1 : Array
        Of shape ``(..., M, M)``, with a floating-point dtype.
    x2 : Array
        Of shape ``(M,)``, or ``(..., M, K)`` with stacks that broadcast.

    Returns
    -------
    Array
        Of the shape of `x2` broadcast with the stacks, and the promoted dtype.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If the shapes do not fit.
    LinAlgError
        NumPy's, which is a ValueError: if a matrix is singular.
    DeviceMismatchError
        If the operands live on different devices.
    """
    a, b = pair_of("solve", x1, x2)
    a = square_of("solve", a, "x1")
    vector = b.ndim == 1
    fits = b.ndim > 0 and same_sizes(a, b, [(-1, 0 if vector else -2)])
    stacks = [a.shape[:-2], () if vector else b.shape[:-2]]
    if not fits or not broadcasts(cast("list[tuple[Any, ...]]", stacks)):
        raise ValueError(
            f"solve: operands have shapes {a.shape} and {b.shape}; expected (..., M, M) and "
            f"(M,) or (..., M, K)"
        )
    return cast("Array", run("linalg.solve", a, b))


@operation(_dtypes.NUMERIC, extension="linalg")
def trace(x: Array, /, *, offset: int = 0, dtype: DType | None = None) -> Array:
    """Sum along a diagonal of each matrix in a stack.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, N)``, with a numeric dtype.
    offset : int
        0 the main diagonal, positive above it, negative below.
    dtype : DType or None
        By default int64 or uint64 for integers, else that of `x`.

    Returns
    -------
    Array
        Of shape ``(...)`` and that dtype.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If `x` has fewer than two dimensions, or its dtype does not convert to `dtype`.
    """
    x = matrices_of("trace", x)
    x._table["linalg.trace"]
    wanted = accumulator("trace", x, dtype)
    if wanted.rank < x.dtype.rank:
        raise bad_argument("trace", "dtype", wanted.name, f"one that {x.dtype} converts to")
    return cast("Array", run("linalg.trace", x, offset=_offset("trace", offset, x), dtype=wanted))


@operation(_dtypes.FLOATING, to_real, extension="linalg")
def vector_norm(
    x: Array,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: int | float = 2,
) -> Array:
    """Norm of vectors.

    Parameters
    ----------
    x : Array
        With a floating-point dtype.
    axis : int, tuple of int or None
        The axes of the vectors; None for all.
    keepdims : bool
        Whether the axes stay, with size one.
    ord : int or float
        Order of the norm; 0 counts the elements that are not zero, ``inf`` and ``-inf`` give the
        greatest and least magnitude. Of no elements the norm is 0, of a negative order ``inf``.

    Returns
    -------
    Array
        Of the real dtype of the precision of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If an axis comes twice, or `ord` is NaN.
    IndexError
        If an axis is out of range.
    OverflowError
        If `ord` is an int beyond the range of float64.
    """
    x = as_operand("vector_norm", "x", x)
    axes = None if axis is None else axes_of("vector_norm", axis, x.ndim)
    keep = flag_of("vector_norm", "keepdims", keepdims)
    order = number_of("vector_norm", "ord", ord)
    if math.isnan(order):
        raise bad_argument("vector_norm", "ord", ord, "a number")
    if 0 in x.shape and x.dtype in _dtypes.FLOATING:  # libraries make this of it, or an error
        gone = range(x.ndim) if axes is None else axes
        sizes = enumerate(known_sizes(x))
        shape = [1 if i in gone else n for i, n in sizes if keep or i not in gone]
        return _filled(x, tuple(shape), _dtypes.real_of(x.dtype), math.inf if order < 0 else 0.0)
    return cast("Array", run("linalg.vector_norm", x, axis=axes, keepdims=keep, ord=order))
