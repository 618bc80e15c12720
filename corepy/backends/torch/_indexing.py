"""Reading and writing by keys and by indices, and operators that write in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from corepy.backends._slices import FAR, near
from corepy.backends.torch._layout import is_batched


def getitem(x: Tensor, key: Any) -> Tensor:
    if key.__class__ is int:
        try:
            return x[key]
        except ValueError as error:  # "Overflow when unpacking long"
            raise IndexError(f"index {key} is out of bounds") from error
    if key.__class__ is slice and _goes_as_it_is(key):
        return x[key]
    parts = _parts(x, key)
    if any(_is_reversed(part) for part in parts):
        x, turned, parts = _forward(x, parts)
        x = flip(x, axis=tuple(turned))
    # '"index_cuda" not implemented for 'UInt16''.
    signed = _SIGNED.get(x.dtype) if x.device.type != "cpu" else None
    if signed is not None and any(isinstance(part, Tensor) for part in parts):
        return x.view(signed)[parts].view(x.dtype)
    return x[parts]


def _goes_as_it_is(key: slice) -> bool:
    """Say whether torch takes a slice: it runs forward, and no bound is far away."""
    for bound in (key.start, key.stop):
        if bound is not None and not -FAR <= bound <= FAR:
            return False
    return key.step is None or 0 < key.step <= FAR


def setitem(x: Tensor, key: Any, value: Tensor) -> Tensor:
    value = _elsewhere(x, value)
    view, parts = x, tuple(_elsewhere(x, part) for part in _parts(x, key))
    if any(_is_reversed(part) for part in parts):
        view, turned, parts = _forward(x, parts)
        order = torch.arange(view.numel(), device=x.device).reshape(view.shape)
        parts = torch.unravel_index(order.flip(turned)[parts], view.shape)
    try:
        view[parts] = value
    except RuntimeError as error:
        chosen = tuple(view[parts].shape)
        if not _stretches(tuple(value.shape), chosen):
            raise ValueError(
                f"its shape is {tuple(value.shape)}; expected one that broadcasts to {chosen}"
            ) from error
        raise
    return x


def _elsewhere(x: Tensor, other: Any) -> Any:
    """As `_apart`, of `x` itself too: a key may turn it round, and torch refuses it as indices."""
    return other.clone() if other is x else _apart(x, other)


def _apart(x: Tensor, other: Any) -> Any:
    """Return an operand in memory of its own if what is written into `x` could change it.

    torch reads what it has just written, silently where the overlap is strided
    (https://github.com/pytorch/pytorch/issues/144861).
    """
    if not isinstance(other, Tensor):
        return other  # a Python scalar, or a part of a key
    try:
        same = x.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    except NotImplementedError:  # what torch.func transforms shows no storage
        same = True
    return other.clone() if same and x is not other else other


def _stretches(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    while len(shape) > len(target) and shape[0] == 1:
        shape = shape[1:]
    tail = target[len(target) - len(shape) :]
    fits = all(n in (1, m) for n, m in zip(shape, tail, strict=False))
    return len(shape) <= len(target) and fits


def _is_reversed(part: Any) -> bool:
    return isinstance(part, slice) and part.step is not None and part.step < 0


def _parts(x: Tensor, key: Any) -> tuple[Any, ...]:
    """Return the parts of a key, of which torch would misread some."""
    if isinstance(key, Tensor) and key.dtype is torch.bool and 0 in key.shape:
        return _empty_mask(x, key)
    parts = key if isinstance(key, tuple) else (key,)
    # Beside arrays NumPy reads an int as an array too, and moves their axes to the front; torch
    # would take it first. A slice between them is where it shows.
    spread = any(isinstance(part, Tensor) and part.ndim > 0 for part in parts)
    if spread and any(isinstance(part, Tensor) and 0 in part.shape for part in parts):
        _check_ints(x, parts)
    return tuple(_part(part, spread) for part in parts)


def _check_ints(x: Tensor, parts: tuple[Any, ...]) -> None:
    """Refuse ints out of bounds beside arrays of no indices, where torch looks at none."""
    axis, used = 0, sum(_width(part) for part in parts)
    for part in parts:
        if isinstance(part, int) and not -x.shape[axis] <= part < x.shape[axis]:
            raise IndexError(f"index {part} is out of bounds for axis {axis} of {x.shape[axis]}")
        axis += x.ndim - used if part is Ellipsis else _width(part)


def _empty_mask(x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """Let a mask without elements select none of dimensions of any size, as NumPy does."""
    fits = all(n in (0, m) for n, m in zip(mask.shape, x.shape, strict=False))
    return torch.nonzero(mask, as_tuple=True) if fits else (mask,)


def _part(part: Any, spread: bool) -> Any:
    if isinstance(part, Tensor):
        # torch reads uint8 as a mask, and refuses most other small integers.
        index = part if part.dtype in (torch.bool, torch.int64) else part.to(torch.int64)
        alone = index.ndim == 0 and index.dtype is torch.int64
        return index.reshape(1) if spread and alone else index
    if isinstance(part, slice):
        return near(part)
    return torch.tensor([part]) if spread and isinstance(part, int) else part


def _forward(x: Tensor, parts: tuple[Any, ...]) -> tuple[Tensor, list[int], tuple[Any, ...]]:
    """Replace the slices of negative step, which torch lacks.

    https://github.com/pytorch/pytorch/issues/59786

    Returns
    -------
    tuple of (tensor, list of int, tuple)
        A view in which those slices run forward, the axes to flip in it, and the key of the rest.
    """
    used = sum(_width(part) for part in parts)
    ahead, turned, rest, axis = [slice(None)] * x.ndim, [], list(parts), 0
    for i, part in enumerate(parts):
        if part is Ellipsis:
            axis += x.ndim - used
            continue
        if _is_reversed(part):
            chosen = range(*part.indices(x.shape[axis]))
            ahead[axis] = slice(chosen[-1], chosen[0] + 1, -part.step) if chosen else slice(0, 0)
            turned.append(axis)
            rest[i] = slice(None)
        axis += _width(part)
    return x[tuple(ahead)], turned, tuple(rest)


def _width(part: Any) -> int:
    """Return how many axes a part of a key indexes."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, Tensor) and part.dtype is torch.bool else 1


#: torch moves unsigned integers beyond 8 bits, but does not flip them, nor pick them on CUDA.
_SIGNED: Final = {
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
}


def flip(x: Tensor, *, axis: tuple[int, ...] | None) -> Tensor:
    axes = tuple(range(x.ndim)) if axis is None else axis
    signed = _SIGNED.get(x.dtype)
    return x.flip(axes) if signed is None else x.view(signed).flip(axes).view(x.dtype)


def shifted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let fftshift and its inverse take no axes, for which torch wants shifts."""

    def shift(x: Tensor, *, axes: tuple[int, ...] | None) -> Tensor:
        return x.clone() if axes == () or x.ndim == 0 else function(x, axes)

    return shift


def take(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    # index_select knows no negative indices (https://github.com/pytorch/pytorch/issues/146211).
    return x[(slice(None),) * axis + (indices.to(torch.int64),)]


def unstack(x: Tensor, *, axis: int) -> tuple[Tensor, ...]:
    return tuple(torch.unbind(x, axis))


def take_along_axis(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    # take_along_dim wraps indices that are out of bounds instead of refusing them
    # (https://github.com/pytorch/pytorch/issues/196106).
    indices, length = indices.to(torch.int64), x.shape[axis]
    seen = indices.numel() and not is_batched(indices)
    if seen and not (-length <= int(indices.min()) <= int(indices.max()) < length):
        raise IndexError(f"indices reach beyond axis {axis} of size {length}")
    return torch.take_along_dim(x, torch.where(indices < 0, indices + length, indices), axis)


# ---------------------------------------------------------------------------- in place


def inplace(write: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def update(x1: Tensor, x2: Tensor) -> Tensor:
        return write(x1, _apart(x1, x2))

    return update


def written(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Write the result of a function with a fix into its first operand."""

    def update(x1: Tensor, x2: Tensor) -> Tensor:
        return x1.copy_(function(x1, x2))

    return update
