"""Products of matrices and vectors: every element is an exact sum of products, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import mul
from typing import Any, TypeAlias

from corepy import _dtypes
from corepy._dtypes import DType
from corepy._errors import bad_argument, wrong_shape
from corepy.backends.reference._array import ReferenceArray, Value
from corepy.backends.reference._elementwise import conj
from corepy.backends.reference._exact import ExactVector
from corepy.backends.reference._layout import (
    broadcast_values,
    common_shape,
    normalize_axes,
    normalize_axis,
)
from corepy.backends.reference._manipulation import moveaxis, permute_dims
from corepy.backends.reference._operands import ArrayLike, as_array, check_dtype, promote
from corepy.backends.reference._rounding import wrap

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


#: Makes a list of values ready for products, and multiplies two that are ready.
_Ready: TypeAlias = Callable[[list[Any]], Any]
_Dot: TypeAlias = Callable[[Any, Any], Value]


def _products(dtype: DType) -> tuple[_Ready, _Ready, _Dot]:
    """Return how left and right vectors of a numeric dtype are made ready, and their product."""
    part = _dtypes.real_of(dtype)
    if dtype.rank == 1:
        return list, list, lambda a, b: wrap(sum(map(mul, a, b)), dtype)
    if dtype.rank == 2:
        return ExactVector, ExactVector, lambda a, b: a.dot(b, part)

    def left(lane: list[complex]) -> ExactVector:
        return ExactVector([z.real for z in lane] + [z.imag for z in lane])

    def right(lane: list[complex]) -> tuple[ExactVector, ExactVector]:
        real, imag = [z.real for z in lane], [z.imag for z in lane]
        return ExactVector(real + [-value for value in imag]), ExactVector(imag + real)

    return left, right, lambda a, b: complex(a.dot(b[0], part), a.dot(b[1], part))


def _numeric(function: str, x1: ArrayLike, x2: ArrayLike) -> tuple[ReferenceArray, ReferenceArray]:
    first, second = promote(function, x1=x1, x2=x2)
    check_dtype(function, "x1", first, _dtypes.NUMERIC)
    return first, second


def matmul(x1: ArrayLike, x2: ArrayLike, /) -> ReferenceArray:
    """Multiply matrices.

    Parameters
    ----------
    x1 : array
        ``(..., M, K)``, or a vector ``(K,)``; with a numeric dtype.
    x2 : array
        ``(..., K, N)``, or a vector ``(K,)``; dtypes are promoted.

    Returns
    -------
    array
        ``(..., M, N)``, the leading dimensions broadcast; without ``M`` or ``N`` where the
        operand is a vector.

    Raises
    ------
    TypeError
        If an operand is not numeric, or they have no common dtype.
    ValueError
        If an operand is 0-D, the sizes ``K`` differ, or the stacks do not broadcast.
    """
    first, second = _numeric("matmul", x1, x2)
    for name, x in (("x1", first), ("x2", second)):
        if x.ndim == 0:
            raise wrong_shape("matmul", name, x.shape, "at least one dimension")
    left_shape = first.shape if first.ndim > 1 else (1, *first.shape)
    right_shape = second.shape if second.ndim > 1 else (*second.shape, 1)
    *left_stack, rows, inner = left_shape
    *right_stack, height, columns = right_shape
    if inner != height:
        expected = f"{inner} rows, as many as x1 of shape {first.shape} has columns"
        raise wrong_shape("matmul", "x2", second.shape, expected)
    stack = common_shape("matmul", [tuple(left_stack), tuple(right_stack)])
    left = broadcast_values(
        ReferenceArray(first.values, left_shape, first.dtype), (*stack, rows, inner)
    )
    right = broadcast_values(
        ReferenceArray(second.values, right_shape, second.dtype), (*stack, inner, columns)
    )
    ready_left, ready_right, dot = _products(first.dtype)
    values: list[Value] = []
    for i in range(math.prod(stack)):
        a = left[i * rows * inner : (i + 1) * rows * inner]
        b = right[i * inner * columns : (i + 1) * inner * columns]
        lefts = [ready_left(a[row * inner : (row + 1) * inner]) for row in range(rows)]
        rights = [ready_right(b[column::columns]) for column in range(columns)]
        values += [dot(one, other) for one in lefts for other in rights]
    kept_rows = (rows,) if first.ndim > 1 else ()
    kept_columns = (columns,) if second.ndim > 1 else ()
    return ReferenceArray(values, (*stack, *kept_rows, *kept_columns), first.dtype)


def matrix_transpose(x: ArrayLike, /) -> ReferenceArray:
    """Transpose a stack of matrices ``(..., M, N)`` to ``(..., N, M)``.

    Raises
    ------
    ValueError
        If `x` has less than 2 dimensions.
    """
    x = as_array("matrix_transpose", "x", x)
    if x.ndim < 2:
        raise wrong_shape("matrix_transpose", "x", x.shape, "at least 2 dimensions")
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def tensordot(
    x1: ArrayLike, x2: ArrayLike, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> ReferenceArray:
    """Contract axes of two arrays.

    Parameters
    ----------
    x1, x2 : array
        With numeric dtypes, which are promoted.
    axes : int or pair of sequences of int
        How many of the last axes of `x1` meet the first ones of `x2`; or which axes of each.

    Returns
    -------
    array
        Its shape is what is left of that of `x1`, then of that of `x2`.

    Raises
    ------
    TypeError
        If an operand is not numeric, or they have no common dtype.
    ValueError
        If `axes` is negative, or the contracted sizes differ.
    IndexError
        If there is no such axis.
    """
    first, second = _numeric("tensordot", x1, x2)
    if isinstance(axes, int):
        if not 0 <= axes <= min(first.ndim, second.ndim):
            expected = f"a number in [0, {min(first.ndim, second.ndim)}]"
            raise bad_argument("tensordot", "axes", axes, expected)
        left_axes = tuple(range(first.ndim - axes, first.ndim))
        right_axes = tuple(range(axes))
    else:
        left_axes = normalize_axes("tensordot", tuple(axes[0]), first.ndim, "axes")
        right_axes = normalize_axes("tensordot", tuple(axes[1]), second.ndim, "axes")
    sizes = [first.shape[i] for i in left_axes]
    if sizes != [second.shape[i] for i in right_axes]:
        expected = f"axes of equal sizes in the shapes {first.shape} and {second.shape}"
        raise bad_argument("tensordot", "axes", axes, expected)
    left_kept = tuple(i for i in range(first.ndim) if i not in left_axes)
    right_kept = tuple(i for i in range(second.ndim) if i not in right_axes)
    rows = tuple(first.shape[i] for i in left_kept)
    columns = tuple(second.shape[i] for i in right_kept)
    inner = math.prod(sizes)
    left = permute_dims(first, (*left_kept, *left_axes))
    right = permute_dims(second, (*right_axes, *right_kept))
    product = matmul(
        ReferenceArray(left.values, (math.prod(rows), inner), left.dtype),
        ReferenceArray(right.values, (inner, math.prod(columns)), right.dtype),
    )
    return ReferenceArray(product.values, (*rows, *columns), product.dtype)


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> ReferenceArray:
    """Return the dot products of vectors, of the conjugate of `x1` with `x2`.

    Parameters
    ----------
    x1, x2 : array
        With numeric dtypes, which are promoted; broadcast but for the axis.
    axis : int
        The axis of the vectors, counted in the operand of fewer dimensions; by default the last.

    Returns
    -------
    array
        Of the broadcast shape without the axis.

    Raises
    ------
    TypeError
        If an operand is not numeric, or they have no common dtype.
    ValueError
        If the vectors differ in size, or the other axes do not broadcast.
    IndexError
        If there is no such axis.
    """
    first, second = _numeric("vecdot", x1, x2)
    ndim = min(first.ndim, second.ndim)
    from_end = normalize_axis("vecdot", axis, ndim) - ndim
    left = moveaxis(conj(first), from_end, -1)
    right = moveaxis(second, from_end, -1)
    size = left.shape[-1]
    if size != right.shape[-1]:
        expected = f"size {size} along axis {axis} as x1"
        raise wrong_shape("vecdot", "x2", second.shape, expected)
    shape = common_shape("vecdot", [left.shape[:-1], right.shape[:-1]])
    a = broadcast_values(left, (*shape, size))
    b = broadcast_values(right, (*shape, size))
    ready_left, ready_right, dot = _products(first.dtype)
    lanes = [slice(i * size, (i + 1) * size) for i in range(math.prod(shape))]
    values = [dot(ready_left(a[lane]), ready_right(b[lane])) for lane in lanes]
    return ReferenceArray(values, shape, first.dtype)
