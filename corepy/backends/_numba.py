"""Numba on the host: NumPy, with loops of its own for what NumPy does slowly.

Its native arrays are NumPy's, so nothing is copied between the two; an ndarray that a function is
given still belongs to the backend ``numpy``. Every operation is NumPy's by inheritance, unless it
stands in `_KERNELS`, and then too where the kernel would not pay or does not apply: on small
arrays, and on operands that are neither C- nor F-contiguous.

Kernels run in the calling thread and hold no GIL. They start no threads, and so settings of
Numba's or other libraries' threads neither matter nor change.

Accuracy: sums, means, variances and running sums of float32 accumulate in float64 and are rounded
once. Sums of float64 err, whatever their size, by at most 256 halves of a unit in the last place of
the sum of the absolute values if nothing fills vector registers, some 20 if it does (NumPy's by
some 20 and one more each time that the size doubles), and in practice by less than one; a variance
takes two such sums. The results of all other kernels equal NumPy's. Integer
sums, products and matrix products wrap around, as NumPy's do.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from corepy.backends import _numba_kernels as kernels
from corepy.backends._numba_kernels import BLOCK
from corepy.backends._numpy import NumPyBackend

Array = npt.NDArray[Any]


def _forced() -> int | None:
    """Return the one least size of all kernels that a private setting for the tests asks for."""
    text = os.environ.get("COREPY_NUMBA_THRESHOLD")
    if text is None:
        return None
    if not text.isdecimal():
        raise ValueError(f"COREPY_NUMBA_THRESHOLD is {text!r}; expected a number of elements")
    return max(1, int(text))


_FORCED: Final = _forced()


def _from(size: int) -> int:
    return size if _FORCED is None else _FORCED


# From how many elements a kernel pays for the checks before it: where NumPy takes several steps
# or its loop is slow, where it takes one, and where its loop is good as well. Found with
# benchmarks/numba_kernels.py.
_SMALL: Final = _from(1024)
_MEDIUM: Final = _from(8192)
_LARGE: Final = _from(32768)
#: Multiplications from which an integer matrix product pays.
_PRODUCTS: Final = _from(32768)
#: NumPy sums shorter rows faster, and finds the extremes of longer ones as fast.
_ROW: Final = _from(1024)
_LONG_ROW: Final = 1024
#: A mask that holds for fewer elements than one in so many is sparse: NumPy skips through it.
_SPARSE: Final = 16

_MINUS_ZERO: Final = np.float64(-0.0)  # the sum of nothing that leaves -0 as it is
_FLOATS: Final = (np.dtype(np.float32), np.dtype(np.float64))
_Shape = tuple[int, ...]
_Array: Final = np.ndarray


class NumbaBackend(NumPyBackend):
    """NumPy's operations on ``cpu``, some of them in kernels compiled by Numba."""

    name = "numba"

    def operation(self, name: str) -> Callable[..., Any] | None:
        kernel = _KERNELS.get(name)
        return super().operation(name) if kernel is None else kernel


_NUMPY: Final = NumPyBackend()


@cache
def _numpys(name: str) -> Callable[..., Array]:
    """Return what the NumPy backend runs, for operands that are not for the kernel."""
    function = _NUMPY.operation(name)
    if function is None:
        raise LookupError(f"{name}: the NumPy backend has no such operation")
    return function


# Looked up once: small arrays are most of what users have.
_NUMPY_CUMULATIVE_PROD: Final = _numpys("cumulative_prod")
_NUMPY_CUMULATIVE_SUM: Final = _numpys("cumulative_sum")
_NUMPY_MATMUL: Final = _numpys("matmul")
_NUMPY_MAX: Final = _numpys("max")
_NUMPY_MEAN: Final = _numpys("mean")
_NUMPY_MIN: Final = _numpys("min")
_NUMPY_PROD: Final = _numpys("prod")
_NUMPY_SIGN: Final = _numpys("sign")
_NUMPY_SQRT: Final = _numpys("sqrt")
_NUMPY_STD: Final = _numpys("std")
_NUMPY_SUM: Final = _numpys("sum")
_NUMPY_VAR: Final = _numpys("var")
_NUMPY_WHERE: Final = _numpys("where")


# ---------------------------------------------------------------------------- layouts


def _order(x: Array) -> Literal["C", "F"] | None:
    """Return the order in which the elements stand side by side in memory, None if they do not."""
    flags = x.flags
    if not flags.aligned:
        return None
    return "C" if flags.c_contiguous else "F" if flags.f_contiguous else None


def _flat(x: Array) -> Array:
    """View a contiguous array in one dimension, in the order of memory."""
    return x.reshape(-1, order="A")


def _around(shape: _Shape, axes: int | _Shape | None) -> _Shape | None:
    """Return the numbers of elements before, along and after neighbouring axes, in C order."""
    if axes is None:
        return 1, math.prod(shape), 1
    places = (axes,) if isinstance(axes, int) else tuple(sorted(axes))
    if not places or places[-1] - places[0] != len(places) - 1:
        return None
    first, last = places[0], places[-1] + 1
    return math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])


def _split(x: Array, axes: int | _Shape | None) -> Array | None:
    """View an array as C-contiguous ``(before, along, after)`` of axes, None if it cannot be.

    An array in F order is transposed first: its results are in F order too.
    """
    order = _order(x)
    if order is None:
        return None
    if order == "F":
        last = x.ndim - 1
        if axes is not None:
            axes = last - axes if isinstance(axes, int) else tuple(last - axis for axis in axes)
        x = x.T
    shape = _around(x.shape, axes)
    return None if shape is None else x.reshape(shape)


def _reduced(shape: _Shape, axes: int | _Shape | None, keepdims: bool) -> _Shape:
    """Return the shape that a reduction leaves."""
    if axes is None and not keepdims:
        return ()
    over = range(len(shape)) if axes is None else (axes,) if isinstance(axes, int) else axes
    if keepdims:
        return tuple(1 if axis in over else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in over)


def _empty(x: Array, shape: _Shape, dtype: Any) -> Array:
    """Make memory for a result, in the order of the operand."""
    return np.empty(shape, dtype, order="C" if x.flags.c_contiguous else "F")


def _same_order(*operands: Array) -> tuple[Array, list[Array], list[int]] | None:
    """View operands of one shape in one dimension; single values come as a block of copies.

    Returns
    -------
    tuple or None
        The operand that has the shape of the result, the views, and a step of 1 for each, or 0
        for single values. None if the operands need other broadcasting, or differ in order.
    """
    model = max(operands, key=lambda x: (x.size, x.ndim))
    order = _order(model)
    if order is None:
        return None
    views, steps = [], []
    for x in operands:
        if x.shape == model.shape and x.flags.aligned and x.flags[order]:
            views.append(x.reshape(-1, order=order))
            steps.append(1)
        elif x.size == 1 and x.ndim <= model.ndim:
            views.append(np.repeat(x, BLOCK))
            steps.append(0)
        else:
            return None
    return model, views, steps


# ---------------------------------------------------------------------------- reductions

#: Zeros of the dtype that each kind accumulates in.
_ZERO: Final[dict[str, Any]] = {"f": np.float64(0), "i": np.int64(0), "u": np.uint64(0)}
#: The dtypes of results that the kernels accumulate right.
_SUMMED: Final = {"f": ("float32", "float64"), "i": ("int64",), "u": ("uint64",)}


def _accumulates(x: Array, dtype: np.dtype[Any]) -> bool:
    return dtype.name in _SUMMED.get(x.dtype.kind, ()) and dtype.itemsize >= x.dtype.itemsize


def _sum(x: Array, /, *, axis: Any, dtype: Any, keepdims: bool) -> Array:
    if x.size >= _LARGE and _accumulates(x, dtype):
        split = _split(x, axis)
        if split is not None and split.shape[2] == 1 and split.shape[1] >= _ROW:
            out = _empty(x, _reduced(x.shape, axis, keepdims), dtype)
            kernels.sum_rows(split[:, :, 0], _flat(out), _ZERO[x.dtype.kind])
            return out
    return _NUMPY_SUM(x, axis=axis, dtype=dtype, keepdims=keepdims)


def _mean(x: Array, /, *, axis: Any, keepdims: bool) -> Array:
    if x.size >= _LARGE and x.dtype in _FLOATS:
        split = _split(x, axis)
        if split is not None and split.shape[2] == 1 and split.shape[1] >= _ROW:
            out = _empty(x, _reduced(x.shape, axis, keepdims), np.float64)
            kernels.sum_rows(split[:, :, 0], _flat(out), _ZERO["f"])
            out /= split.shape[1]
            return out.astype(x.dtype, copy=False)
    return _NUMPY_MEAN(x, axis=axis, keepdims=keepdims)


def _variance(x: Array, axis: Any, correction: float, keepdims: bool) -> Array | None:
    """Return the variance in float64, None where NumPy has to find it."""
    split = _split(x, axis) if x.size >= _SMALL and x.dtype in _FLOATS else None
    if split is None or split.shape[1] <= correction:
        return None
    out = _empty(x, _reduced(x.shape, axis, keepdims), np.float64)
    freedom = float(split.shape[1] - correction)
    if split.shape[2] == 1:
        kernels.variance_rows(split[:, :, 0], _flat(out), freedom)
    else:
        kernels.variance_columns(split, _flat(out).reshape(split.shape[::2]), freedom)
    return out


def _var(x: Array, /, *, axis: Any, correction: float, keepdims: bool) -> Array:
    found = _variance(x, axis, correction, keepdims)
    if found is None:
        return _NUMPY_VAR(x, axis=axis, correction=correction, keepdims=keepdims)
    return found.astype(x.dtype, copy=False)


def _std(x: Array, /, *, axis: Any, correction: float, keepdims: bool) -> Array:
    found = _variance(x, axis, correction, keepdims)
    if found is None:
        return _NUMPY_STD(x, axis=axis, correction=correction, keepdims=keepdims)
    return np.asarray(np.sqrt(found)).astype(x.dtype, copy=False)


def _prod(x: Array, /, *, axis: Any, dtype: Any, keepdims: bool) -> Array:
    # Integers only: factors of floats in another order overflow elsewhere.
    if x.size >= _MEDIUM and x.dtype.kind in "iu" and _accumulates(x, dtype):
        split = _split(x, axis)
        if split is not None and split.shape[2] == 1:
            out = _empty(x, _reduced(x.shape, axis, keepdims), dtype)
            kernels.product_rows(split[:, :, 0], _flat(out), dtype.type(1))
            return out
    return _NUMPY_PROD(x, axis=axis, dtype=dtype, keepdims=keepdims)


def _order_keys(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], Any, Any, Any, Any]:
    """Return what makes sortable integers of a dtype's bits, as `kernels.extreme_rows` says.

    Their dtype, the shift, the mask, and the keys of the least and the greatest value.
    """
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        of = dtype.type
        return dtype, of(0), of(0), of(limits.min), of(limits.max)
    bits = np.dtype(f"i{dtype.itemsize}")
    mask = bits.type(np.iinfo(bits).max)
    low, high = np.array([-np.inf, np.inf], dtype).view(bits)
    return bits, bits.type(8 * dtype.itemsize - 1), mask, low ^ mask, high


_KEYS: Final = {
    np.dtype(name): _order_keys(np.dtype(name))
    for name in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
}


def _extreme(x: Array, axis: Any, keepdims: bool, least: bool) -> Array:
    split = _split(x, axis)
    if split is not None and split.shape[2] == 1 and split.shape[1] <= _LONG_ROW:
        bits, shift, mask, low, high = _KEYS[x.dtype]
        out = _empty(x, _reduced(x.shape, axis, keepdims), x.dtype)
        keys = split[:, :, 0].view(bits)
        kernels.extreme_rows(keys, _flat(out).view(bits), shift, mask, low, high, least)
        return out
    return _numpys("min" if least else "max")(x, axis=axis, keepdims=keepdims)


def _max(x: Array, /, *, axis: Any, keepdims: bool) -> Array:
    if x.size < _MEDIUM:
        return _NUMPY_MAX(x, axis=axis, keepdims=keepdims)
    return _extreme(x, axis, keepdims, least=False)


def _min(x: Array, /, *, axis: Any, keepdims: bool) -> Array:
    if x.size < _MEDIUM:
        return _NUMPY_MIN(x, axis=axis, keepdims=keepdims)
    return _extreme(x, axis, keepdims, least=True)


def _arg_extreme(x: Array, axis: int | None, keepdims: bool, least: bool) -> Array:
    split = _split(x, axis) if x.size >= _MEDIUM and axis is not None else None
    if split is not None and split.shape[2] > 1:
        out = _empty(x, _reduced(x.shape, axis, keepdims), np.int64)
        kernels.arg_extreme_columns(split, _flat(out).reshape(split.shape[::2]), least)
        return out
    return _numpys("argmin" if least else "argmax")(x, axis=axis, keepdims=keepdims)


def _argmax(x: Array, /, *, axis: int | None, keepdims: bool) -> Array:
    return _arg_extreme(x, axis, keepdims, least=False)


def _argmin(x: Array, /, *, axis: int | None, keepdims: bool) -> Array:
    return _arg_extreme(x, axis, keepdims, least=True)


# ---------------------------------------------------------------------------- running


def _longer(x: Array, axis: int, dtype: Any, initial: bool) -> tuple[Array, Array]:
    """Make the result of a running operation, and its view as ``(before, along, after)``."""
    shape = tuple(size + (initial and place == axis) for place, size in enumerate(x.shape))
    out = _empty(x, shape, dtype)
    view = _split(out, axis)
    if view is None:
        raise AssertionError("new memory is contiguous")
    return out, view


def _cumulative_sum(x: Array, /, *, axis: int, dtype: Any, include_initial: bool) -> Array:
    # int64 stays with NumPy, whose loop is as fast.
    if x.size >= _SMALL and x.dtype in _FLOATS and _accumulates(x, dtype):
        split = _split(x, axis)
        if split is not None:
            out, view = _longer(x, axis, dtype, include_initial)
            kernels.running_sums(split, view, _MINUS_ZERO)
            return out
    return _NUMPY_CUMULATIVE_SUM(x, axis=axis, dtype=dtype, include_initial=include_initial)


def _cumulative_prod(x: Array, /, *, axis: int, dtype: Any, include_initial: bool) -> Array:
    if x.size >= _SMALL and x.dtype in _FLOATS and x.dtype == dtype:
        split = _split(x, axis)
        if split is not None:
            out, view = _longer(x, axis, dtype, include_initial)
            kernels.running_products(split, view)
            return out
    return _NUMPY_CUMULATIVE_PROD(x, axis=axis, dtype=dtype, include_initial=include_initial)


# ---------------------------------------------------------------------------- elementwise


def _sqrt(x: Array, /) -> Array:
    order = _order(x) if x.size >= _MEDIUM and x.dtype in _FLOATS else None
    if order is None:
        return _NUMPY_SQRT(x)
    out = np.empty(x.shape, x.dtype, order)
    kernels.square_roots(_flat(x), _flat(out))
    return out


def _sign(x: Array, /) -> Array:
    order = _order(x) if x.size >= _SMALL and x.dtype in _FLOATS else None
    if order is None:
        return _NUMPY_SIGN(x)
    out = np.empty(x.shape, x.dtype, order)
    kernels.signs(_flat(x), _flat(out))
    return out


#: From here on a float holds integers only, so that quotients tell nothing of their floors.
_LIMIT: Final = {
    np.dtype(np.float32): np.float32(2**23),
    np.dtype(np.float64): np.float64(2**52),
}


def _divided(name: str, kernel: Callable[..., None], x1: Array, x2: Array) -> Array:
    """Run a kernel of floors or remainders, and NumPy's function on the blocks that it leaves."""
    function = _numpys(name)
    if max(x1.size, x2.size) < _SMALL or x1.dtype not in _FLOATS or x1.dtype != x2.dtype:
        return function(x1, x2)
    same = _same_order(x1, x2)
    if same is None:
        return function(x1, x2)
    model, (a, b), (step1, step2) = same
    out = np.empty(model.shape, model.dtype, _order(model))
    flat = _flat(out)
    failed = np.empty(-(-flat.size // BLOCK), np.bool_)
    kernel(a, b, flat, failed, step1, step2, _LIMIT[model.dtype])
    for start, stop in _runs(failed):
        part = slice(start * BLOCK, stop * BLOCK)
        flat[part] = function(a[part] if step1 else a[0], b[part] if step2 else b[0])
    return out


def _runs(flags: Array) -> list[tuple[int, int]]:
    """Return the bounds of the stretches in which flags are set."""
    if not flags.any():
        return []
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _floor_divide(x1: Array, x2: Array, /) -> Array:
    return _divided("floor_divide", kernels.floor_quotients, x1, x2)


def _remainder(x1: Array, x2: Array, /) -> Array:
    return _divided("remainder", kernels.remainders, x1, x2)


def _ifloor_divide(x1: Array, x2: Array, /) -> Array:
    x1[...] = _floor_divide(x1, x2)
    return x1


def _iremainder(x1: Array, x2: Array, /) -> Array:
    x1[...] = _remainder(x1, x2)
    return x1


# ---------------------------------------------------------------------------- choosing


def _bits(x: Array) -> Array:
    """View values that are only moved as unsigned integers: one kernel serves all of a size."""
    return x if x.itemsize > 8 else x.view(f"u{x.itemsize}")


def _where(condition: Array, x1: Array, x2: Array, /) -> Array:
    if max(condition.size, x1.size, x2.size) >= _LARGE and x1.dtype == x2.dtype:
        same = _same_order(condition, x1, x2)
        if same is not None:
            model, (which, yes, no), steps = same
            out = np.empty(model.shape, x1.dtype, _order(model))
            kernels.choose(which, _bits(yes), _bits(no), _bits(_flat(out)), *steps)
            return out
    return _NUMPY_WHERE(condition, x1, x2)


def _getitem(x: Array, key: Any, /) -> Array:
    if (
        key.__class__ is _Array
        and key.size >= _MEDIUM
        and key.dtype == np.bool_
        and key.shape == x.shape
        and x.ndim
        and _order(x) == "C"
        and key.flags.c_contiguous
    ):
        count = int(np.count_nonzero(key))
        if count * _SPARSE >= key.size or _FORCED:
            out = np.empty(count, x.dtype)
            kernels.compress(_bits(x.reshape(-1)), key.reshape(-1), _bits(out))
            return out
    found: Array = x[key]
    return found


# ---------------------------------------------------------------------------- matrices


def _matmul(x1: Array, x2: Array, /) -> Array:
    if x1.dtype.kind in "iu" and x1.dtype == x2.dtype and min(x1.ndim, x2.ndim) >= 2:
        stack = x1.shape[:-2] or x2.shape[:-2]
        shape = (*stack, x1.shape[-2], x2.shape[-1])
        plain = all(x.shape[:-2] in ((), stack) for x in (x1, x2))
        if plain and math.prod(shape) * x1.shape[-1] >= _PRODUCTS:
            out = np.empty(shape, x1.dtype)
            kernels.integer_products(_stacked(x1), _stacked(x2), _stacked(out))
            return out
    return _NUMPY_MATMUL(x1, x2)


def _stacked(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


_KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "__getitem__": _getitem,
    "argmax": _argmax,
    "argmin": _argmin,
    "cumulative_prod": _cumulative_prod,
    "cumulative_sum": _cumulative_sum,
    "linalg.matmul": _matmul,
    "matmul": _matmul,
    "max": _max,
    "mean": _mean,
    "min": _min,
    "prod": _prod,
    "sign": _sign,
    "sqrt": _sqrt,
    "std": _std,
    "sum": _sum,
    "var": _var,
    "where": _where,
}
if kernels.fuses():
    _KERNELS.update(
        {
            "__ifloordiv__": _ifloor_divide,
            "__imod__": _iremainder,
            "floor_divide": _floor_divide,
            "remainder": _remainder,
        }
    )
