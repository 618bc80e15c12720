"""Sums, variances, extremes and running totals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.backends._numpy_loops import RUNNING, WIDE
from corepy.backends._numpy_rows import ROW_LOOPS
from corepy.backends.numba import _reduction_loops as loops
from corepy.backends.numba._compiled import launch
from corepy.backends.numba._glue import Operation, operation, size_from
from corepy.backends.numba._layout import FLOATS, empty_for, flat, holds, reduced, split
from corepy.backends.numba._numpys_loops import extremes

Array = npt.NDArray[Any]

# From how many elements a loop pays for the checks before it: where NumPy takes several steps or
# its loop is slow, where it takes one, and where its loop is good as well. Found with
# benchmarks/numba_kernels.py.
_SMALL: Final = 1024
_MEDIUM: Final = 8192
_SOME: Final = 16_384
_LARGE: Final = 32_768
#: Bytes from which NumPy's own loops are worth a second thread: those that can be called without
#: the interpreter's lock, and others.
_BIG: Final = 1 << 20
_HUGE: Final = 6 << 20
#: NumPy sums shorter rows faster; longer ones of integers too, and finds their extremes as fast.
_ROW: Final = size_from(64)
_LONG_ROW: Final = 1024

#: Elements from which threads sum and count rows before NumPy's backend has, whose loops for them
#: (`ROW_LOOPS`) wait for memory alone from some million elements on.
_BEYOND_ROWS: Final = {"sum": size_from(1 << 22), "count_nonzero": size_from(1 << 20)}

#: Elements of a long vector whose running sums depend on each other.
_SEGMENT: Final = 4096

_MINUS_ZERO: Final = np.float64(-0.0)  # the sum of nothing that leaves -0 as it is
#: The least sizes of results that the loops accumulate right, by their kind.
_SUMMED: Final = {"f": 4, "i": 8, "u": 8}


def _accumulates(x: Array, dtype: np.dtype[Any]) -> bool:
    kind, size = dtype.kind, dtype.itemsize
    return (
        kind == x.dtype.kind and size >= max(x.dtype.itemsize, _SUMMED.get(kind, 99)) and size <= 8
    )


def _is_numpys(name: str, x: Array, length: int) -> bool:
    """Say whether NumPy's backend reduces rows of a length as fast, in one thread."""
    loop = ROW_LOOPS.get(name)
    if loop is None or x.dtype not in FLOATS or not x.flags.c_contiguous:
        return False
    return length > loop.longer and x.size < _BEYOND_ROWS[name]


# ---------------------------------------------------------------------------- sums


def _add_rows(x: Array, out: Array, divisor: float, means: Array | None = None) -> None:
    """Sum the rows of ``x (rows, length)`` into `out`, or their squared deviations from means."""
    chunks = -(-x.shape[1] // loops.CHUNK)
    totals = np.empty((len(x), chunks))
    losses = np.empty((len(x), chunks))
    if means is None:
        launch(loops.sum_chunks, (x, loops.CHUNK, totals, losses), totals.size, x.size)
    else:
        launch(loops.square_chunks, (x, means, totals, losses), totals.size, x.size)
    loops.add_chunks(totals, losses, out, divisor)


def _add_columns(x: Array, out: Array, divisor: float, means: Array | None = None) -> None:
    """Sum along the middle axis of ``x (stack, length, columns)`` into ``out (stack, columns)``."""
    stack, length, columns = x.shape
    chunks = -(-length // loops.ROWS)
    partials = np.empty((stack, chunks, columns))
    tiles = -(-columns // loops.WIDTH)
    if means is None:
        launch(loops.sum_columns, (x, partials), stack * chunks * tiles, x.size)
    else:
        launch(loops.square_columns, (x, means, partials), stack * chunks * tiles, x.size)
    launch(loops.add_columns, (partials, out, divisor), stack * tiles, 2 * partials.size)


def _add(x: Array, out: Array, divisor: float, means: Array | None = None) -> None:
    """Sum along the middle axis of ``x (before, along, after)`` into ``out (before, after)``."""
    if x.shape[2] > 1:
        _add_columns(x, out, divisor, means)
    else:
        rows = None if means is None else means[:, 0]
        _add_rows(x[:, :, 0], out[:, 0], divisor, rows)


def _by_columns(
    loop: Callable[..., None], options: tuple[Any, ...], x: Array, join: np.ufunc
) -> Array:
    """Reduce the middle axis of ``x (stack, length, columns)`` chunk by chunk, and those then."""
    stack, length, columns = x.shape
    partials = np.empty((stack, -(-length // loops.ROWS), columns), x.dtype)
    tasks = stack * partials.shape[1] * -(-columns // loops.WIDTH)
    launch(loop, (x, partials, *options), tasks, x.size)
    joined: Array = partials[:, 0] if partials.shape[1] == 1 else join.reduce(partials, axis=1)
    return joined


def _as_in(x: Array, values: Array, shape: tuple[int, ...]) -> Array:
    """Return values, which are in the order of the operand's memory, in a result's shape."""
    out = empty_for(x, shape, values.dtype)
    flat(out)[...] = values.reshape(-1)
    return out


def _added(x: Array, axis: Any, keepdims: bool, dtype: Any, *, mean: bool) -> Array | None:
    """Return the sums or means of floats."""
    found = split(x, axis)
    if found is None or found.shape[1] == 0:
        return None
    if found.shape[2] == 1 and (
        found.shape[1] < _ROW or (x.dtype == dtype and _is_numpys("sum", x, found.shape[1]))
    ):
        return None
    out = empty_for(x, reduced(x.shape, axis, keepdims), dtype)
    divisor = float(found.shape[1]) if mean else 1.0
    _add(found, flat(out).reshape(found.shape[::2]), divisor)
    return out


@operation("sum", _LARGE)
def _sum(x: Array, /, *, axis: Any, dtype: Any, keepdims: bool) -> Array | None:
    if not _accumulates(x, dtype):
        return None
    if x.dtype.kind == "f":
        return _added(x, axis, keepdims, dtype, mean=False)
    found = split(x, axis)
    shape = reduced(x.shape, axis, keepdims)
    if found is not None and found.shape[2] > 1 and x.dtype == dtype:
        return _as_in(x, _by_columns(loops.sum_columns, (), found, np.add), shape)
    if found is None or found.shape[2] != 1 or found.shape[1] < _ROW:
        return None
    if len(found) == 1:
        # By chunks, and those then.
        chunks = np.empty(-(-x.size // loops.CHUNK), dtype)
        launch(loops.integer_chunks, (found[0, :, 0], chunks), chunks.size, x.size)
        return np.asarray(np.add.reduce(chunks)).reshape(shape)
    out = empty_for(x, shape, dtype)
    launch(loops.integer_rows, (found[:, :, 0], flat(out)), len(found), x.size)
    return out


@operation("mean", _LARGE)
def _mean(x: Array, /, *, axis: Any, keepdims: bool) -> Array | None:
    return _added(x, axis, keepdims, x.dtype, mean=True) if x.dtype in FLOATS else None


def _variance(x: Array, axis: Any, correction: float, keepdims: bool) -> Array | None:
    """Return the variance in float64, in two passes: values far from zero lose nothing."""
    if x.dtype not in FLOATS:
        return None
    found = split(x, axis)
    if found is None:
        return _variance_in_steps(x, axis, correction, keepdims)
    length = found.shape[1]
    if length <= correction:
        return None
    out = empty_for(x, reduced(x.shape, axis, keepdims), np.float64)
    means = np.empty(found.shape[::2])
    _add(found, means, float(length))
    _add(found, flat(out).reshape(means.shape), float(length - correction), means)
    return out


def _variance_in_steps(x: Array, axis: Any, correction: float, keepdims: bool) -> Array | None:
    """Return the variance along axes that others lie between: of the last ones first."""
    if not x.flags.c_contiguous or not x.flags.aligned or not axis:
        return None
    last = max(axis) + 1
    first = last - 1
    while first - 1 in axis:
        first -= 1
    rest = tuple(place for place in axis if place < first)
    count = math.prod(x.shape[place] for place in axis)
    if count <= correction:
        return None
    blocks = x.reshape(math.prod(x.shape[:first]), -1, math.prod(x.shape[last:]))
    sums = np.empty(blocks.shape[::2])
    left = sums.reshape(x.shape[:first] + x.shape[last:])  # without the last axes
    _add(blocks, sums, 1.0)
    means = np.add.reduce(left, axis=rest, keepdims=True) / count
    _add(blocks, sums, 1.0, np.broadcast_to(means, left.shape).reshape(sums.shape))
    total: Array = np.add.reduce(left, axis=rest) / (count - correction)
    return total.reshape(reduced(x.shape, axis, keepdims))


@operation("var", _SMALL)
def _var(x: Array, /, *, axis: Any, correction: float, keepdims: bool) -> Array | None:
    found = _variance(x, axis, correction, keepdims)
    return None if found is None else found.astype(x.dtype, copy=False)


@operation("std", _SMALL)
def _std(x: Array, /, *, axis: Any, correction: float, keepdims: bool) -> Array | None:
    found = _variance(x, axis, correction, keepdims)
    return None if found is None else np.asarray(np.sqrt(found)).astype(x.dtype, copy=False)


@operation("prod", _MEDIUM)
def _prod(x: Array, /, *, axis: Any, dtype: Any, keepdims: bool) -> Array | None:
    found = split(x, axis) if _accumulates(x, dtype) else None
    if found is None or found.shape[2] != 1 or not found.shape[1]:
        return None
    rows = found[:, :, 0]
    shape = reduced(x.shape, axis, keepdims)
    if x.dtype.kind != "f":
        out = empty_for(x, shape, dtype)
        launch(loops.product_rows, (rows, flat(out)), len(rows), x.size)
        return out
    if rows.shape[1] < _ROW or x.size < size_from(_SOME):
        return None
    chunks = len(rows), -(-rows.shape[1] // loops.CHUNK)
    mantissas, exponents = np.empty(chunks), np.empty(chunks, np.int64)
    failed = np.empty(chunks, np.bool_)
    launch(loops.product_chunks, (rows, mantissas, exponents, failed), failed.size, 2 * x.size)
    if holds(failed):
        return None
    out = empty_for(x, shape, dtype)
    loops.join_products(mantissas, exponents, flat(out))
    return out


# ---------------------------------------------------------------------------- extremes


def _order_keys(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], Any, Any, Any, Any]:
    """Return what makes sortable integers of a dtype's bits, as `loops.extreme_rows` says.

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


def _reduce_stretch(
    reduce: Callable[..., Any], x: Array, out: Array, size: int, start: int, stop: int
) -> None:
    for i in range(start, stop):
        out[i] = reduce(x[i * size : (i + 1) * size])


def _in_chunks(reduce: Callable[..., Any], x: Array, dtype: Any) -> Array | None:
    """Reduce contiguous memory by NumPy's function in several threads, chunk by chunk."""
    if x.nbytes < size_from(_HUGE):
        return None
    chunks = -(-x.size // loops.CHUNK)
    parts = np.empty(chunks, dtype)
    launch(_reduce_stretch, (reduce, flat(x), parts, loops.CHUNK), chunks, x.nbytes // 8)
    return parts


def _is_one_row(x: Array, axis: Any) -> bool:
    """Say whether all elements are reduced to one, more of them than NumPy is slow with."""
    return (axis is None or x.ndim == 1) and x.size > _LONG_ROW


def _extreme(x: Array, axis: Any, keepdims: bool, least: bool) -> Array | None:
    if x.nbytes < size_from(_BIG) and _is_one_row(x, axis):
        return None
    found = split(x, axis) if x.dtype in _KEYS else None
    if found is None or not found.shape[1]:
        return None
    shape = reduced(x.shape, axis, keepdims)
    ufunc = np.minimum if least else np.maximum
    if found.shape[2] > 1:
        if x.size < size_from(_LARGE):
            return None
        return _as_in(x, _by_columns(loops.extreme_columns, (least,), found, ufunc), shape)
    if found.shape[1] <= _LONG_ROW:
        bits, shift, mask, low, high = _KEYS[x.dtype]
        out = empty_for(x, shape, x.dtype)
        keys = found[:, :, 0].view(bits)
        into = flat(out).view(bits)
        launch(loops.extreme_rows, (keys, into, shift, mask, low, high, least), len(keys), x.size)
        return out
    if len(found) > 1:
        rows = extremes(ufunc, flat(x), found.shape[1])
        return None if rows is None else _as_in(x, rows, shape)
    parts = extremes(ufunc, flat(x), loops.CHUNK // 4)
    return None if parts is None else np.asarray(ufunc.reduce(parts)).reshape(shape)


@operation("max", _SOME)
def _max(x: Array, /, *, axis: Any, keepdims: bool) -> Array | None:
    return _extreme(x, axis, keepdims, least=False)


@operation("min", _SOME)
def _min(x: Array, /, *, axis: Any, keepdims: bool) -> Array | None:
    return _extreme(x, axis, keepdims, least=True)


def _arg_extreme(x: Array, axis: int | None, keepdims: bool, least: bool) -> Array | None:
    if x.nbytes < size_from(_HUGE) and _is_one_row(x, axis):
        return None
    found = split(x, axis) if x.dtype in _KEYS else None
    if found is None:
        return None
    shape = reduced(x.shape, axis, keepdims)
    if found.shape[2] > 1:
        out = empty_for(x, shape, np.int64)
        into = flat(out).reshape(found.shape[::2])
        launch(loops.arg_extreme_columns, (found, into, least), len(found), 2 * x.size)
        return out
    # Of memory in F order the places would count in another order.
    if len(found) > 1 or not (x.flags.c_contiguous or x.ndim == 1):
        return None
    find = np.ndarray.argmin if least else np.ndarray.argmax
    places = _in_chunks(find, x, np.int64)
    if places is None:
        return None
    places += np.arange(places.size) * loops.CHUNK
    best: Array = flat(x)[places]
    return np.asarray(places[find(best)]).reshape(shape)


@operation("argmax", _SOME)
def _argmax(x: Array, /, *, axis: int | None, keepdims: bool) -> Array | None:
    return _arg_extreme(x, axis, keepdims, least=False)


@operation("argmin", _SOME)
def _argmin(x: Array, /, *, axis: int | None, keepdims: bool) -> Array | None:
    return _arg_extreme(x, axis, keepdims, least=True)


@operation("count_nonzero", _SOME)
def _count_nonzero(x: Array, /, *, axis: Any, keepdims: bool) -> Array | None:
    found = split(x, axis)
    if found is None or found.shape[2] != 1 or len(found) != 1:
        return None
    if x.dtype.kind == "b" or _is_numpys("count_nonzero", x, x.size):  # booleans by eights
        return None
    counts = np.empty(-(-x.size // loops.CHUNK), np.int64)
    launch(loops.count_chunks, (flat(x), counts), counts.size, x.size)
    return np.asarray(np.add.reduce(counts)).reshape(reduced(x.shape, axis, keepdims))


# ---------------------------------------------------------------------------- running


def _longer(x: Array, axis: int, dtype: Any, initial: bool) -> tuple[Array, Array]:
    """Make the result of a running operation, and its view as ``(before, along, after)``."""
    shape = tuple(size + (initial and place == axis) for place, size in enumerate(x.shape))
    out = empty_for(x, shape, dtype)
    view = split(out, axis)
    if view is None:
        raise AssertionError("new memory is contiguous")
    return out, view


def _runs_in_numpy(name: str, x: Array, rows: Array) -> bool:
    """Say whether NumPy's backend has a loop for an array that is not worth waking threads for.

    `rows` is the array as ``(before, along, after)``.
    """
    few = x.size < size_from(RUNNING) and rows.shape[2] == 1
    return few and x.dtype.name in WIDE.get(name, {})


def _run_up(x: Array, out: Array) -> bool:
    """Sum up to each element of a long vector; say whether no sum of a segment overflows."""
    segments = -(-x.size // _SEGMENT)
    totals, losses = np.empty((1, segments)), np.empty((1, segments))
    rows = x[None]
    launch(loops.sum_chunks, (rows, _SEGMENT, totals, losses), segments, x.size)
    if not loops.add_up(totals[0], losses[0], _MINUS_ZERO):
        return False
    tasks = -(-segments // 4)
    launch(loops.running_segments, (x, out, _SEGMENT, totals[0]), tasks, 2 * x.size)
    return True


@operation("cumulative_sum", _SMALL)
def _cumulative_sum(x: Array, /, *, axis: int, dtype: Any, include_initial: bool) -> Array | None:
    # int64 stays with NumPy, whose backend has a loop that is as fast.
    found = split(x, axis) if x.dtype in FLOATS and _accumulates(x, dtype) else None
    if found is None:
        return None
    if not include_initial and dtype == x.dtype and _runs_in_numpy("cumulative_sum", x, found):
        return None
    out, view = _longer(x, axis, dtype, include_initial)
    if found.shape[2] == 1 and found.shape[1] >= 8 * _SEGMENT:
        first = view.shape[1] - found.shape[1]
        view[:, :first] = 0
        if all(_run_up(row[:, 0], into[first:, 0]) for row, into in zip(found, view, strict=True)):
            return out
    launch(loops.running_sums, (found, view, _MINUS_ZERO), len(found), 4 * x.size)
    return out


@operation("cumulative_prod", _SMALL)
def _cumulative_prod(x: Array, /, *, axis: int, dtype: Any, include_initial: bool) -> Array | None:
    found = split(x, axis) if x.dtype in FLOATS and x.dtype == dtype else None
    if found is None or (not include_initial and _runs_in_numpy("cumulative_prod", x, found)):
        return None
    out, view = _longer(x, axis, dtype, include_initial)
    launch(loops.running_products, (found, view), len(found), 4 * x.size)
    return out


OPERATIONS: Final[dict[str, Operation]] = {
    made.__name__: made
    for made in (
        *(_sum, _mean, _var, _std, _prod, _max, _min, _argmax, _argmin, _count_nonzero),
        *(_cumulative_sum, _cumulative_prod),
    )
}
