"""Linear algebra functions of the main namespace.

https://data-apis.org/array-api/2025.12/API_specification/linear_algebra_functions.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from corepy import _dtypes
from corepy._errors import bad_argument, bad_type, broadcast_mismatch
from corepy.array_api._arguments import axes_of, axis_of, matrices_of, size_of
from corepy.dispatch import (
    Operand,
    broadcasts,
    is_operand,
    is_scalar,
    operation,
    plain,
    run,
    same,
    same_sizes,
    unify,
)

if TYPE_CHECKING:
    from corepy.array_api._array import Array


def pair_of(function: str, x1: Any, x2: Any) -> tuple[Array, Array]:
    """Bring two array operands to one table; scalars are no operands of linear algebra."""
    if isinstance(x1, Operand) and isinstance(x2, Operand) and x1._table is x2._table:
        return cast("Array", x1), cast("Array", x2)
    for name, x in (("x1", x1), ("x2", x2)):
        if is_scalar(plain(x)):
            raise bad_type(function, name, x, "an array")
    a, b = unify(function, ("x1", "x2"), (x1, x2))
    return a, b


def matmul_operator(x1: Any, x2: Any) -> Any:
    """Run the operator ``@``: NotImplemented where an operand is no array."""
    known = isinstance(x1, Operand) and isinstance(x2, Operand)
    if known or all(is_operand(x) and not is_scalar(plain(x)) for x in (x1, x2)):
        return matmul(x1, x2)
    return NotImplemented


@operation(_dtypes.NUMERIC, same, argument="x1")
def matmul(x1: Array, x2: Array, /) -> Array:
    """Matrix product.

    Parameters
    ----------
    x1, x2 : Array
        Of shapes ``(..., M, K)`` and ``(..., K, N)``; a 1-D operand is a row on the left and a
        column on the right.

    Returns
    -------
    Array
        Of shape ``(..., M, N)``, without the dimensions of 1-D operands, and the promoted dtype.

    Raises
    ------
    TypeError
        If an operand is no array, or has no numeric dtype.
    ValueError
        If an operand is 0-D or the shapes do not fit.
    DeviceMismatchError
        If the operands live on different devices.
    """
    a, b = pair_of("matmul", x1, x2)
    left, right = a.shape, b.shape
    if len(left) == len(right) == 2 and left[1] == right[0]:  # as most are
        return cast("Array", run("matmul", a, b))
    for name, shape in (("x1", left), ("x2", right)):
        if not shape:
            raise bad_argument("matmul", f"{name}.shape", shape, "at least one dimension")
    inner = -2 if len(right) > 1 else 0
    if not same_sizes(a, b, [(-1, inner)]) or not broadcasts([left[:-2], right[:-2]]):
        raise ValueError(
            f"matmul: operands have shapes {a.shape} and {b.shape}; expected (..., M, K) and "
            f"(..., K, N)"
        )
    return cast("Array", run("matmul", a, b))


@operation(result=same)
def matrix_transpose(x: Array, /) -> Array:
    """Transpose each matrix in a stack.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, N)``.

    Returns
    -------
    Array
        Of shape ``(..., N, M)``.

    Raises
    ------
    TypeError
        If `x` is no array.
    ValueError
        If `x` has fewer than two dimensions.
    """
    x = matrices_of("matrix_transpose", x)
    return cast("Array", run("matrix_transpose", x))


@operation(_dtypes.NUMERIC, same, argument="x1")
def tensordot(
    x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Array:
    """Contract axes of two arrays.

    Parameters
    ----------
    x1, x2 : Array
        With numeric dtypes.
    axes : int or tuple of two sequences of int
        How many of the last axes of `x1` and the first of `x2`, or which of each.

    Returns
    -------
    Array
        Of the other axes of `x1`, then those of `x2`, and the promoted dtype.

    Raises
    ------
    TypeError
        If an argument is of another type, or a dtype is not numeric.
    ValueError
        If there are fewer axes than are to go, or their sizes do not fit.
    IndexError
        If an axis is out of range.
    DeviceMismatchError
        If the operands live on different devices.
    """
    a, b = pair_of("tensordot", x1, x2)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise bad_argument("tensordot", "axes", axes, "an int, or two sequences of int")
        left = axes_of("tensordot", _sequence(axes[0]), a.ndim, "axes[0]")
        right = axes_of("tensordot", _sequence(axes[1]), b.ndim, "axes[1]")
    else:
        count = size_of("tensordot", "axes", axes)
        if count > min(a.ndim, b.ndim):
            raise bad_argument("tensordot", "axes", axes, f"at most {min(a.ndim, b.ndim)}")
        left, right = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    if len(left) != len(right) or not same_sizes(a, b, zip(left, right, strict=True)):
        sizes = [a.shape[i] for i in left], [b.shape[i] for i in right]
        raise bad_argument(
            "tensordot", "axes", axes, f"axes of equal sizes, not {sizes[0]} and {sizes[1]}"
        )
    return cast("Array", run("tensordot", a, b, axes=(left, right)))


def _sequence(axes: Any) -> tuple[Any, ...]:
    return tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)


@operation(_dtypes.NUMERIC, same, argument="x1")
def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Dot product of vectors along an axis, the first conjugated.

    Parameters
    ----------
    x1, x2 : Array
        With numeric dtypes, and shapes that broadcast but for `axis`.
    axis : int
        Negative, and present in both.

    Returns
    -------
    Array
        Of the broadcast shape without `axis`, and the promoted dtype.

    Raises
    ------
    TypeError
        If an argument is of another type, or a dtype is not numeric.
    ValueError
        If the sizes along `axis` differ, or the other dimensions do not broadcast.
    IndexError
        If `axis` is out of range.
    DeviceMismatchError
        If the operands live on different devices.
    """
    a, b = pair_of("vecdot", x1, x2)
    left, right = a.shape, b.shape
    if not left or not right:
        raise broadcast_mismatch("vecdot", (left, right))
    # A non-negative axis counts in the broadcast shape, where the shorter operand has leading ones.
    width = max(len(left), len(right))
    place = axis_of("vecdot", axis, width) - width
    axis_of("vecdot", place, min(len(left), len(right)))
    if left != right and not (same_sizes(a, b, [(place, place)]) and broadcasts([left, right])):
        raise broadcast_mismatch("vecdot", (left, right))
    return cast("Array", run("vecdot", a, b, axis=place))
