"""Norms in compiled loops: a row stays in the first-level cache from its first look to its last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from corepy._loops._simd import by_type, inlined, number
from corepy._loops._streaming import fence
from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import (
    after,
    apart,
    expect_row,
    expect_rows,
    fetch,
    is_far,
    moments_of,
    put,
    scratch,
    send,
    squares_of,
    sum_of,
    target,
)

Array = npt.NDArray[Any]

#: Elements that are computed at once: so many that they fill the widest registers, and so few that
#: channels of small images leave none to be computed one by one.
_LANES = 16
#: Elements up to which a row is short, and of how many short rows are fetched and put at once.
_SHORT, _BLOCK = 256, 1024


@kernel
def _scaled(row: Array, scale: Any, weight: Array, into: Array) -> None:
    for j in range(row.size):
        into[j] = row[j] * scale * weight[j]


@inlined
def _scale_of_row(row: Any, size: int, eps: float) -> Any:
    return number(1.0 / np.sqrt(squares_of(row) / size + eps), row[0])


@kernel
def _rms_short_rows(
    x: Array, weight: Array, eps: float, brain: bool, out: Array, start: int, stop: int
) -> None:
    """As `_rms_rows`, of rows that are done sooner than each is fetched and put by itself."""
    size = x.shape[1]
    several = _BLOCK // size
    held, values = scratch(x, several * size), scratch(x, several * size)
    flat, results = x.reshape(-1), out.reshape(-1)
    there = apart(out, x)
    far, rounded = there and is_far(out, size), np.empty(several * size, out.dtype)
    for first in range(start, stop, several):
        last = min(first + several, stop)
        rows = fetch(flat[first * size : last * size], held, brain)
        if not far:
            expect_rows(x, last, last + several)
        into = target(results[first * size : last * size], values, there and not far)
        for at in range(0, (last - first) * size, size):
            row = rows[at : at + size]
            _scaled(row, _scale_of_row(row, size, eps), weight, into[at : at + size])
        if far:
            following = x.ctypes.data + last * size * x.itemsize
            send(into, results[first * size : last * size], rounded, brain, following)
        else:
            put(into, results[first * size : last * size], brain)
    if far:
        fence()


@kernel
def _rms_row(
    x: Array,
    weight: Array,
    eps: float,
    there: bool,
    held: Array,
    values: Array,
    brain: bool,
    out: Array,
) -> None:
    """Normalize a row. Apart from the loop over all, which would count who uses its scratch."""
    row = fetch(x, held, brain)
    scale = _scale_of_row(row, x.size, eps)
    expect_row(x, x.size, x.size)  # the next one, while this one is in the cache
    into = target(out, values, there)
    _scaled(row, scale, weight, into)
    put(into, out, brain)


@kernel
def _rms_far_row(
    x: Array,
    weight: Array,
    eps: float,
    held: Array,
    values: Array,
    rounded: Array,
    brain: bool,
    out: Array,
) -> None:
    row = fetch(x, held, brain)
    _scaled(row, _scale_of_row(row, x.size, eps), weight, values)
    send(values, out, rounded, brain, after(x))


@kernel
def _rms_rows(
    x: Array, weight: Array, eps: float, brain: bool, out: Array, start: int, stop: int
) -> None:
    size = x.shape[1]
    held, values = scratch(x, size), scratch(x, size)
    there = apart(out, x)
    if there and is_far(out, size):
        rounded = np.empty(size, out.dtype)
        for i in range(start, stop):
            _rms_far_row(x[i], weight, eps, held, values, rounded, brain, out[i])
        fence()
    else:
        for i in range(start, stop):
            _rms_row(x[i], weight, eps, there, held, values, brain, out[i])


@kernel
def _add_row(
    x: Array,
    residual: Array,
    held: Array,
    added: Array,
    values: Array,
    brain: bool,
    summed: Array,
) -> None:
    row, other = fetch(x, held, brain), fetch(residual, added, brain)
    for j in range(x.size):
        values[j] = row[j] + other[j]
    put(values, summed, brain)
    expect_row(x, x.size, x.size)
    expect_row(residual, x.size, x.size)


@kernel
def _rms_rows_of_sums(
    x: Array,
    residual: Array,
    weight: Array,
    eps: float,
    brain: bool,
    summed: Array,
    out: Array,
    start: int,
    stop: int,
) -> None:
    """As `_rms_rows`, of sums as they are rounded."""
    size = x.shape[1]
    held, added, values = scratch(x, size), scratch(x, size), scratch(x, size)
    there = apart(out, summed)
    if there and is_far(out, size):
        rounded = np.empty(size, out.dtype)
        for i in range(start, stop):
            _add_row(x[i], residual[i], held, added, values, brain, summed[i])
            _rms_far_row(summed[i], weight, eps, held, values, rounded, brain, out[i])
        fence()
    else:
        for i in range(start, stop):
            _add_row(x[i], residual[i], held, added, values, brain, summed[i])
            _rms_row(summed[i], weight, eps, there, held, values, brain, out[i])


def _layered(
    row: Array, weight: Array, bias: Array, eps: float, values: Array, into: Array
) -> None:
    """Normalize a row; elements far from zero lose nothing."""
    raise NotImplementedError("compiled code only")


def _layered_32(
    row: Array, weight: Array, bias: Array, eps: float, values: Array, into: Array
) -> None:
    first = np.float64(row[0])
    total, squares = moments_of(row, first)
    mean = total / row.size
    high = number(first + mean, into[0])
    low = number(first + mean - high, into[0])  # what its rounding took away
    scale = number(1.0 / np.sqrt(squares / row.size - mean * mean + eps), into[0])
    for j in range(row.size):
        into[j] = ((row[j] - high) - low) * scale * weight[j] + bias[j]


def _layered_64(
    row: Array, weight: Array, bias: Array, eps: float, values: Array, into: Array
) -> None:
    mean = sum_of(row) / row.size
    for j in range(row.size):
        values[j] = row[j] - mean
    rest = sum_of(values) / row.size  # the mean has no more digits than the elements
    for j in range(row.size):
        values[j] -= rest
    scale = 1.0 / np.sqrt(squares_of(values) / row.size + eps)
    for j in range(row.size):
        into[j] = values[j] * scale * weight[j] + bias[j]


@by_type(_layered)
def _layered_by_type(
    row: Any, weight: Any, bias: Any, eps: Any, values: Any, into: Any
) -> Callable[..., Any]:
    return _layered_64 if row.dtype == types.float64 else _layered_32


@kernel
def _layer_row(
    x: Array,
    weight: Array,
    bias: Array,
    eps: float,
    there: bool,
    held: Array,
    values: Array,
    brain: bool,
    out: Array,
) -> None:
    """Normalize a row. Apart from the loop over all, which would count who uses its scratch."""
    into = target(out, values, there)
    _layered(fetch(x, held, brain), weight, bias, eps, values, into)
    put(into, out, brain)


@kernel
def _layer_far_row(
    x: Array,
    weight: Array,
    bias: Array,
    eps: float,
    held: Array,
    values: Array,
    rounded: Array,
    brain: bool,
    out: Array,
) -> None:
    _layered(fetch(x, held, brain), weight, bias, eps, held, values)
    send(values, out, rounded, brain, after(x))


@kernel
def _layer_rows(
    x: Array,
    weight: Array,
    bias: Array,
    eps: float,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    size = x.shape[1]
    held, values = scratch(x, size), scratch(x, size)
    there = apart(out, x)
    if there and is_far(out, size):
        rounded = np.empty(size, out.dtype)
        for i in range(start, stop):
            _layer_far_row(x[i], weight, bias, eps, held, values, rounded, brain, out[i])
        fence()
    else:
        for i in range(start, stop):
            _layer_row(x[i], weight, bias, eps, there, held, values, brain, out[i])


@inlined
def _scale_of(variance: Any, weight: Any, eps: float) -> Any:
    return weight / np.sqrt(variance + number(eps, variance))


@intrinsic  # type: ignore[untyped-decorator]
def _normalize(
    context: Any, row: Any, mean: Any, scale: Any, bias: Any, into: Any, start: Any
) -> Any:
    """Put ``(row - mean) * scale + bias`` into `into`, `_LANES` elements from `start` on.

    Written out, for of a loop over rows of some dozen elements LLVM makes one that fills registers
    for more than these, and leaves all to what is computed one by one.
    """
    number = row.dtype

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        row, *numbers, into, start = operands
        single = context.get_value_type(number)
        wide = ir.VectorType(single, _LANES)

        def place(kind: Any, array: Any) -> Any:
            data = context.make_array(kind)(context, builder, array).data
            return builder.bitcast(builder.gep(data, [start]), wide.as_pointer())

        def spread(value: Any) -> Any:
            filled = ir.Constant(wide, ir.Undefined)
            for lane in range(_LANES):
                filled = builder.insert_element(filled, value, ir.IntType(32)(lane))
            return filled

        mean, scale, bias = map(spread, numbers)
        size = single.get_abi_size(context.target_data)
        centred = builder.fsub(builder.load(place(signature.args[0], row), align=size), mean)
        product = builder.fmul(centred, scale, flags=("contract",))
        found = builder.fadd(product, bias, flags=("contract",))
        builder.store(found, place(signature.args[4], into), align=size)
        return context.get_dummy_value()

    return types.void(row, number, number, number, into, types.intp), generate


@kernel
def _batch_row(
    x: Array,
    mean: Any,
    scale: Any,
    bias: Any,
    there: bool,
    held: Array,
    values: Array,
    brain: bool,
    out: Array,
) -> None:
    """Normalize a row. Apart from the loop over all, which would count who uses its scratch."""
    row = fetch(x, held, brain)
    into = target(out, values, there)
    last = x.size - _LANES
    for j in range(0, last + 1, _LANES):
        _normalize(row, mean, scale, bias, into, j)
    _normalize(row, mean, scale, bias, into, last)  # some of it for the second time
    put(into, out, brain)


@kernel
def _batch_rows(
    x: Array,
    mean: Array,
    variance: Array,
    weight: Array,
    bias: Array,
    eps: float,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    channels, size = mean.size, x.shape[1]
    held, values, scales = scratch(x, size), scratch(x, size), np.empty_like(mean)
    for c in range(channels):
        scales[c] = _scale_of(variance[c], weight[c], eps)
    there = apart(out, x)
    for i in range(start, stop):
        c = i % channels
        _batch_row(x[i], mean[c], scales[c], bias[c], there, held, values, brain, out[i])


@kernel
def _batch_columns(
    x: Array,
    mean: Array,
    variance: Array,
    weight: Array,
    bias: Array,
    eps: float,
    brain: bool,
    out: Array,
    start: int,
    stop: int,
) -> None:
    size, channels = x.shape[1], mean.size
    after = size // channels
    held, values = scratch(x, size), scratch(x, size)
    means, scales, biases = scratch(x, size), scratch(x, size), scratch(x, size)
    for c in range(channels):
        scale = _scale_of(variance[c], weight[c], eps)
        for j in range(c * after, (c + 1) * after):
            means[j], scales[j], biases[j] = mean[c], scale, bias[c]
    there = apart(out, x)
    for i in range(start, stop):
        row = fetch(x[i], held, brain)
        into = target(out[i], values, there)
        for j in range(size):
            into[j] = (row[j] - means[j]) * scales[j] + biases[j]
        put(into, out[i], brain)


def rms_norm(
    x: Array,
    weight: Array,
    eps: float,
    brain: bool,
    residual: Array | None,
    summed: Array | None,
    out: Array,
) -> None:
    """Put the norms of ``x (rows, size)`` into `out`, and ``x + residual`` into `summed`."""
    work = x.nbytes // 8
    if residual is not None and summed is not None:
        arguments = (x, residual, weight, eps, brain, summed, out)
        launch(_rms_rows_of_sums, arguments, len(x), work)
    else:
        rows = _rms_short_rows if x.shape[1] <= _SHORT else _rms_rows
        launch(rows, (x, weight, eps, brain, out), len(x), work)


def layer_norm(x: Array, weight: Array, bias: Array, eps: float, brain: bool, out: Array) -> None:
    """Put the norms of ``x (rows, size)`` into `out`."""
    launch(_layer_rows, (x, weight, bias, eps, brain, out), len(x), x.size)


def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    weight: Array,
    bias: Array,
    eps: float,
    brain: bool,
    out: Array,
) -> None:
    """Put normalized channels of ``x (before, channels, after)`` into `out`."""
    before, channels, after = x.shape
    few = after < _LANES  # then as columns, so that loops are long
    shape = (before, channels * after) if few else (before * channels, after)
    arguments = (x.reshape(shape), mean, variance, weight, bias, eps, brain, out.reshape(shape))
    launch(_batch_columns if few else _batch_rows, arguments, shape[0], x.nbytes // 8)
