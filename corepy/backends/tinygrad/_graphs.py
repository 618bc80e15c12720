"""What operations are made of: nodes of tinygrad's graphs, which its algebra leaves alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from tinygrad import Tensor
from tinygrad import dtypes as tiny
from tinygrad.uop.ops import Ops

from corepy.backends._base import LeftToOthersError
from corepy.backends.tinygrad._arrays import BY_NATIVE, computed, upload
from corepy.devices._device import Device

Array = Any
Function = Callable[..., Any]

#: tinygrad's names of kinds of device.
KINDS: Final = {"opencl": "CL", "webgpu": "WEBGPU"}


def place_of(device: Device) -> str:
    """Return tinygrad's name of a device."""
    return KINDS[device.kind] + (f":{device.index}" if device.index else "")


def is_float(x: Array) -> bool:
    return bool(tiny.is_float(x.dtype))


def alu(operation: Any, x: Array, *others: Array) -> Array:
    """Return an operation of tinygrad's graphs on operands that are broadcast here."""
    if others:
        shape = np.broadcast_shapes(x.shape, *(y.shape for y in others))
        x, *rest = (y.expand(shape) if y.shape != shape else y for y in wide(shape, x, *others))
        return x.alu(operation, *rest)
    return x.alu(operation)


def wide(shape: tuple[int, ...], *xs: Array) -> list[Array]:
    """Give operands as many dimensions as a shape has."""
    return [x.reshape((1,) * (len(shape) - x.ndim) + x.shape) for x in xs]


def opaque(x: Array) -> Array:
    """Hide from tinygrad's algebra what a sum adds up: it takes factors out of sums."""
    return x.alu(Ops.NEG).alu(Ops.NEG) if is_float(x) else x


def constant(shape: tuple[int, ...], value: Any, like: Array, dtype: Any = None) -> Array:
    """Return one value from memory in a shape: a constant of a graph would be folded."""
    name = BY_NATIVE[like.dtype if dtype is None else dtype].name
    return upload(np.full(1, value, name), like.device).reshape((1,) * len(shape)).expand(shape)


def axes_of(axis: int | Sequence[int]) -> Sequence[int]:
    return (axis,) if isinstance(axis, int) else axis


def moveaxis(x: Array, source: Any, destination: Any) -> Array:
    moved = dict(zip(axes_of(destination), axes_of(source), strict=True))
    rest = iter(axis for axis in range(x.ndim) if axis not in moved.values())
    return x.permute([moved[i] if i in moved else next(rest) for i in range(x.ndim)])


def astype(x: Array, dtype: Any, *, copy: bool = True) -> Array:
    if dtype not in computed(x.device):
        raise LeftToOthersError
    if x.dtype == dtype:
        return Tensor(x.uop)  # to write replaces what an array holds, so that copies may share
    if dtype == tiny.bool:
        return x.ne(x.const_like(0))
    return x.cast(dtype)


def same(x: Array) -> Array:
    return Tensor(x.uop)


def not_equal(x1: Array, x2: Array) -> Array:
    return alu(Ops.CMPNE, x1, x2)


def equal(x1: Array, x2: Array) -> Array:
    return not_equal(x1, x2).logical_not()


def isnan(x: Array) -> Array:
    return x.ne(x)


def choose(condition: Array, x1: Array, x2: Array) -> Array:
    return alu(Ops.WHERE, condition, x1, x2)
