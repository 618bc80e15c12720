"""Functions that MLX lacks, or has otherwise than the standard."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import mlx.core as mx
import numpy as np

from corepy._dtypes import Scalar
from corepy.backends._keys import axes, check, within
from corepy.backends.mlx._arrays import (
    BY_NATIVE,
    FOREIGN,
    LARGE,
    TRACED,
    Array,
    HostArray,
    from_host,
    seen,
    values_of,
)
from corepy.devices._device import Device

#: How many elements 32 bits may fail to count.
_MANY: Final = 2**31


def astype(x: Array, dtype: mx.Dtype | np.dtype[Any], *, copy: bool = True) -> Array | HostArray:
    if isinstance(dtype, np.dtype):
        return values_of(x).astype(dtype)
    if x.dtype != dtype:
        return x.astype(dtype)
    return mx.array(x) if copy else x


# ---------------------------------------------------------------------------- creation


def full(shape: tuple[int, ...], value: Scalar, *, dtype: mx.Dtype, device: Device) -> Array:
    return mx.full(shape, from_host(np.array(value, BY_NATIVE[dtype].name)), dtype)


def zeros(shape: tuple[int, ...], *, dtype: mx.Dtype, device: Device) -> Array:
    return mx.zeros(shape, dtype)


def ones(shape: tuple[int, ...], *, dtype: mx.Dtype, device: Device) -> Array:
    return mx.ones(shape, dtype)


def eye(n_rows: int, n_cols: int, *, k: int, dtype: mx.Dtype, device: Device) -> Array:
    return mx.eye(n_rows, n_cols, k, dtype)


# ---------------------------------------------------------------------------- indexing


def getitem(x: Array, key: Any) -> Array:
    parts = key if isinstance(key, tuple) else (key,)
    arrays = [part for part in parts if isinstance(part, mx.array)]
    if not arrays:
        checked = _checked(x, parts)
        if not _is_far(checked):
            return x[checked]
    elif len(parts) == 1 and arrays[0].dtype != mx.bool_ and x.ndim:
        return take(x, arrays[0], axis=0)
    # Boolean masks are missing in MLX, and arrays beside slices go unchecked.
    return from_host(values_of(x)[_host_key(key)])


def setitem(x: Array, key: Any, value: Array) -> Array:
    parts = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(part, mx.array) for part in parts):
        checked = _checked(x, parts)
        if not _is_far(checked):
            if id(x) in FOREIGN:
                x = x.astype(x.dtype)  # an mx.array of our own, on this memory until it is written
            x[checked] = value
            return x
    host = values_of(x).copy()
    host[_host_key(key)] = values_of(value)
    return from_host(host)


def _host_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_host_key(part) for part in key)
    return values_of(key) if isinstance(key, mx.array) else key


def _checked(x: Array, parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return a key without arrays in a form that MLX survives.

    Integers out of bounds read and write whatever lies there, and a step of 0 ends the process.
    """
    found: list[Any] = []
    for part, indexed in zip(parts, axes(parts, x.ndim), strict=True):
        axis = indexed.start
        if isinstance(part, slice):
            part = within(part, x.shape[axis])
        elif isinstance(part, int):
            check(axis, x.shape[axis], part)
        found.append(part)
    return tuple(found)


def _is_far(parts: tuple[Any, ...]) -> bool:
    """Say whether a checked key has a slice that MLX cannot count.

    It adds the step to the length in 32 bits, and gives a negative size beyond these.
    """
    for part in parts:
        if isinstance(part, slice) and part.step is not None:
            stop = -1 if part.stop is None else part.stop
            if abs(stop - part.start) + abs(part.step) > _MANY:
                return True
    return False


def _check_indices(indices: Array, axis: int, size: int) -> None:
    """Refuse arrays of indices that hold one out of bounds, for the same reason."""
    found = seen(indices)
    if found.size:
        check(axis, size, int(found.min()), int(found.max()))


def take(x: Array, indices: Array, *, axis: int) -> Array:
    _check_indices(indices, axis, x.shape[axis])
    return mx.take(x, indices, axis)


def take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    _check_indices(indices, axis, x.shape[axis])
    return mx.take_along_axis(x, indices, axis)


# ---------------------------------------------------------------------------- elementwise


def log1p(x: Array) -> Array:
    made = mx.log1p(x)
    if x.dtype != mx.complex64 or mx.metal.is_available():  # which has no float64
        return made
    # MLX rounds in between, and loses every digit of log(abs(1 + x)) where that is near 0.
    real, imag = (part(x).astype(mx.float64) for part in (mx.real, mx.imag))
    beyond = real * (2 + real) + imag * imag  # abs(1 + x)**2 - 1
    near_0 = mx.log(mx.square(1 + real) + mx.square(imag))
    size = (mx.where(beyond < -0.5, near_0, mx.log1p(beyond)) / 2).astype(mx.float32)
    return _complex_of(mx.where(mx.isfinite(size), size, mx.real(made)), mx.imag(made))


def _complex_of(real: Array, imag: Array) -> Array:
    return mx.squeeze(mx.view(mx.stack([real, imag], -1), mx.complex64), -1)


def tanh(x: Array) -> Array:
    made = mx.tanh(x)
    if x.dtype != mx.complex64:
        return made
    # C99 leaves the sign of the zero at infinity to sin(2 y); the standard takes that of y.
    real, imag = mx.real(x), mx.imag(x)
    limit = mx.isinf(real) & mx.isfinite(imag)
    return _complex_of(mx.real(made), mx.where(limit, imag * 0, mx.imag(made)))


def tan(x: Array) -> Array:
    made = mx.tan(x)
    if x.dtype != mx.complex64:
        return made
    real, imag = mx.real(x), mx.imag(x)  # it is tanh, turned
    limit = mx.isinf(imag) & mx.isfinite(real)
    return _complex_of(mx.where(limit, real * 0, mx.real(made)), mx.imag(made))


def sign(x: Array) -> Array:
    return mx.where(mx.isnan(x), x, mx.sign(x))  # MLX: 0


def clip(x: Array, min: Array | None = None, max: Array | None = None) -> Array:
    if min is None and max is None:
        return x.astype(x.dtype)
    return mx.clip(x, min, max)


# ---------------------------------------------------------------------------- manipulation


def reshape(x: Array, shape: tuple[int, ...], *, copy: bool | None) -> Array:
    if copy is False:  # MLX copies where it has to, and does not say so, as NumPy does
        values_of(x).reshape(shape, copy=False)
    made = mx.reshape(x, shape)
    return mx.array(made) if copy else made


def permute_dims(x: Array, *, axes: tuple[int, ...]) -> Array:
    return mx.transpose(x, axes)


def moveaxis(x: Array, source: Any, destination: Any) -> Array:
    # MLX moves one axis only.
    moved = dict(zip(_axes(destination), _axes(source), strict=True))
    rest = iter(axis for axis in range(x.ndim) if axis not in moved.values())
    return mx.transpose(x, [moved[i] if i in moved else next(rest) for i in range(x.ndim)])


def _axes(axis: int | Sequence[int]) -> Sequence[int]:
    return (axis,) if isinstance(axis, int) else axis


def roll(x: Array, shift: Any, *, axis: Any) -> Array:
    # MLX takes shifts of 32 bits.
    if axis is None:
        return mx.roll(x, shift % max(x.size, 1))
    places = _axes(axis)
    shifts = (shift,) * len(places) if isinstance(shift, int) else shift
    steps = tuple(n % max(x.shape[i], 1) for n, i in zip(shifts, places, strict=True))
    return mx.roll(x, steps, tuple(places))


def repeat(x: Array, repeats: Any, *, axis: int | None) -> Array:
    if not isinstance(repeats, mx.array):
        return mx.repeat(x, repeats, axis)
    flat = mx.reshape(x, (-1,)) if axis is None else x  # MLX takes no arrays of counts
    place = axis or 0
    counts = np.broadcast_to(seen(repeats), (flat.shape[place],))
    chosen = np.repeat(np.arange(flat.shape[place]), counts)
    return mx.take(flat, mx.array(chosen), place)


# ---------------------------------------------------------------------------- searching, sorting


def to_index(function: Callable[..., Array], on_host: Callable[..., Any]) -> Callable[..., Array]:
    reduce = reducing(function, on_host)

    def counted(x: Array, *, axis: Any, keepdims: bool) -> Array:
        # MLX counts in int32 and uint32, and fails to keep the dimensions where there are none.
        return reduce(x, axis=axis, keepdims=keepdims and x.ndim > 0).astype(mx.int64)

    return counted


def count_nonzero(x: Array, *, axis: Any, keepdims: bool) -> Array:
    axes = range(x.ndim) if axis is None else _axes(axis)
    if math.prod(x.shape[i] for i in axes) < _MANY:
        return mx.count_nonzero(x, axis=axis, keepdims=keepdims)
    # MLX counts in int32, which holds the size of any one axis.
    longest = max(axes, key=lambda i: x.shape[i])
    counts = mx.count_nonzero(x, axis=longest, keepdims=True)
    return mx.sum(counts.astype(mx.int64), axis=axis, keepdims=keepdims)


def ascending(x: Array, *, axis: int, stable: bool) -> Array:
    return mx.sort(x, axis)  # which is stable


def argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    if not descending:
        return mx.argsort(x, axis).astype(mx.int64)
    # Sorting backwards what is sorted backwards keeps equal elements in their order.
    order = mx.argsort(mx.flip(x, axis), axis).astype(mx.int64)
    return x.shape[axis] - 1 - mx.flip(order, axis)


# ---------------------------------------------------------------------------- statistics


def reducing(function: Callable[..., Array], on_host: Callable[..., Any]) -> Callable[..., Array]:
    def reduce(x: Array, *, axis: Any, keepdims: bool) -> Array:
        if x.size:
            return function(x, axis=axis, keepdims=keepdims)
        # MLX loops for ever over some empty arrays: mx.all(mx.zeros((0, 3)).T, axis=1).
        return from_host(np.asarray(on_host(values_of(x), axis=axis, keepdims=keepdims)))

    return reduce


# The following have no dtype argument in MLX, and give 32 bits for fewer.


def accumulating(
    function: Callable[..., Array], on_host: Callable[..., HostArray]
) -> Callable[..., Array | HostArray]:
    def reduce(x: Array, *, axis: Any, dtype: Any, keepdims: bool) -> Array | HostArray:
        if isinstance(dtype, np.dtype):
            return np.asarray(on_host(values_of(x), axis, dtype, keepdims=keepdims))
        if x.dtype.size < dtype.size and x.size * dtype.size > LARGE and TRACED.get(id(x)) is not x:
            # MLX would widen all elements first, and ends the process where there is no memory.
            wide = np.dtype(BY_NATIVE[dtype].name)
            return from_host(np.asarray(on_host(values_of(x), axis, wide, keepdims=keepdims)))
        return plain(x.astype(dtype), axis=axis, keepdims=keepdims).astype(dtype)

    plain = reducing(function, on_host)
    return reduce


def cumulating(
    function: Callable[..., Array], on_host: Callable[..., HostArray], initial: int
) -> Callable[..., Array | HostArray]:
    def cumulate(x: Array, *, axis: int, dtype: Any, include_initial: bool) -> Array | HostArray:
        if isinstance(dtype, np.dtype):
            return on_host(values_of(x), axis=axis, dtype=dtype, include_initial=include_initial)
        made = function(x.astype(dtype), axis=axis)
        if not include_initial:
            return made
        edge = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        return mx.concat([mx.full(edge, initial, dtype), made], axis)

    return cumulate


# ---------------------------------------------------------------------------- linear algebra


def vecdot(x1: Array, x2: Array, *, axis: int) -> Array:
    # MLX counts the axis in the operand of fewer dimensions, and may not find it.
    return mx.vecdot(*mx.broadcast_arrays(x1, x2), axis=axis)


def tensordot(x1: Array, x2: Array, *, axes: Any) -> Array:
    return mx.tensordot(x1, x2, [list(part) for part in axes])


def diagonal(x: Array, *, offset: int) -> Array:
    return mx.diagonal(x, offset, x.ndim - 2, x.ndim - 1)


# ---------------------------------------------------------------------------- transforms


def over_axes(function: Callable[..., Array]) -> Callable[..., Array]:
    def transform(x: Array, **params: Any) -> Array:
        return function(x, **params) if x.ndim else mx.array(x)  # MLX wants a dimension

    return transform
