"""Reading and writing by keys and by indices, and operators that write in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from corepy._errors import beyond
from corepy.backends._keys import axes, check, check_value, is_element, within
from corepy.backends.torch._layout import (
    is_batched,
    is_plain,
    is_transformed,
    packed,
    shows,
)


def getitem(x: Tensor, key: Any) -> Tensor:
    if key.__class__ is int:
        try:
            chosen = x[key]
        except ValueError as error:  # "Overflow when unpacking long"
            raise beyond(key, 0, x.shape[0] if x.ndim else 0) from error
        return chosen.clone() if is_element(chosen, (key,)) else chosen
    if key.__class__ is slice and _goes_as_it_is(key):
        return x[key]
    x, parts = _opened(x, key)
    if any(_is_reversed(part) for part in parts):
        x, turned, parts = _forward(x, parts)
        x = flip(x, axis=tuple(turned))
    # '"index_cuda" not implemented for 'UInt16''.
    signed = _SIGNED.get(x.dtype) if x.device.type != "cpu" else None
    if signed is not None and any(isinstance(part, Tensor) for part in parts):
        return _selected(x.view(signed), parts).view(x.dtype)
    chosen = _selected(x, parts)
    return chosen.clone() if is_element(chosen, parts) else chosen


def _selected(x: Tensor, parts: tuple[Any, ...]) -> Tensor:
    """Read by a key, bounds checked also where nothing is selected, and torch looks at none."""
    looks = _looks(x)
    if not looks:
        _check_indices(x, parts)
    chosen = _indexable(x, parts)[parts]
    if looks and not chosen.numel():
        _check_indices(x, parts)
    return chosen


def _looks(x: Tensor) -> bool:
    """Say whether torch's kernels raise of an index out of bounds, as they do on the host.

    On CUDA an assertion fails in the kernel, after which the process cannot use the GPU any more
    (`index_elementwise_kernel` in IndexKernel.cu); others read what lies beyond.
    """
    return bool(x.device.type == "cpu")


def _indexable(x: Tensor, parts: tuple[Any, ...]) -> Tensor:
    """Return a tensor, or a copy, in which arrays of a key find the right elements."""
    return packed(x) if _has_arrays(parts) else x


#: torch multiplies steps with strides in 64 bits, and warns of bounds at their limits.
_NEAR: Final = 2**31


def _goes_as_it_is(key: slice) -> bool:
    """Say whether torch takes a slice: it runs forward, and no bound is far away."""
    for bound in (key.start, key.stop):
        if bound is not None and not -_NEAR <= bound <= _NEAR:
            return False
    return key.step is None or 0 < key.step <= _NEAR


def setitem(x: Tensor, key: Any, value: Tensor) -> Tensor:
    x = _batched_beside(x, value, *(key if isinstance(key, tuple) else (key,)))
    value = _elsewhere(x, value)
    view, parts = _opened(x, key)
    parts = tuple(_elsewhere(x, part) for part in parts)
    if any(_is_reversed(part) for part in parts):
        places = _places(view, parts)
        view, turned, parts = _forward(view, parts)
        if _has_arrays(parts):
            order = torch.arange(view.numel(), device=x.device).reshape(view.shape)
            indices = packed(_selected(order.flip(turned), parts))
            parts = tuple(map(packed, torch.unravel_index(indices, view.shape)))
        else:  # counted from the right, where broadcasting aligns
            chosen = view[parts].ndim
            axes = [place - chosen for place in places]
            value = flip(value, axis=tuple(axis for axis in axes if axis >= -value.ndim))
    target = _indexable(view, parts)
    if _has_arrays(parts) and _is_empty(target, parts):  # where torch looks at no shape
        check_value(value.shape, _selected(target, parts).shape)
    _check_indices(target, parts)  # also where torch looks itself, which writes what comes before
    try:
        target[parts] = value
    except RuntimeError:
        check_value(value.shape, target[parts].shape)
        raise
    if target is not view:
        view.copy_(target)
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
    if x is other:
        return other
    try:
        own, its = x.untyped_storage(), other.untyped_storage()
    except NotImplementedError:  # what torch.func transforms shows no storage
        return other.clone()
    # Memory that other libraries made has a storage for each tensor that was made of a part of it.
    start, its_start = own.data_ptr(), its.data_ptr()
    apart = start + own.nbytes() <= its_start or its_start + its.nbytes() <= start
    return other if apart else other.clone()


def _is_reversed(part: Any) -> bool:
    return isinstance(part, slice) and part.step is not None and part.step < 0


def _opened(x: Tensor, key: Any) -> tuple[Tensor, tuple[Any, ...]]:
    """Return a view of a tensor, and the parts of a key to it, of which torch misreads none."""
    if isinstance(key, Tensor) and key.dtype is torch.bool and 0 in key.shape:
        return x, _empty_mask(x, key)
    parts = key if isinstance(key, tuple) else (key,)
    # Beside arrays NumPy reads an int as an array too, and moves their axes to the front; torch
    # would take it first. A slice between them is where it shows.
    spread = _has_arrays(parts)
    native = tuple([_part(x, parts, i, spread) for i in range(len(parts))])
    if spread and len(parts) > 2:
        return _with_ellipsis(x, native)
    return x, native


def _has_arrays(parts: tuple[Any, ...]) -> bool:
    return any(
        isinstance(part, Tensor) and (part.ndim > 0 or part.dtype is torch.bool) for part in parts
    )


#: The axes that each part of a key indexes.
_axes: Final = partial(axes, mask=torch.bool)


def _is_empty(x: Tensor, parts: tuple[Any, ...]) -> bool:
    """Say whether it is plain to see that a key selects nothing."""
    if 0 in x.shape:
        return True
    several = sum(isinstance(part, Tensor) for part in parts) > 1
    for i, part in enumerate(parts):
        if isinstance(part, Tensor):
            # A mask beside indices, which torch makes indices of, is read for them anyway.
            blank = several and part.dtype is torch.bool and not part.any()
            empty = 0 in part.shape or blank
        else:
            bound = isinstance(part, slice) and (part.start is not None or part.stop is not None)
            empty = bound and not range(*part.indices(x.shape[_axes(parts, x.ndim)[i].start]))
        if empty:
            return True
    return False


def _check_indices(x: Tensor, parts: tuple[Any, ...]) -> None:
    """Refuse indices out of bounds, in the parts of a key as they come from `_opened`."""
    for part, indexed in zip(parts, _axes(parts, x.ndim)):
        axis = indexed.start
        if isinstance(part, int):
            check(axis, x.shape[axis], part)
        elif isinstance(part, Tensor) and part.dtype is not torch.bool:
            _check_array(x, part, axis)


def _check_array(x: Tensor, indices: Tensor, axis: int) -> None:
    if not indices.numel() or not shows(indices):
        return
    # A look at them would end the recording. (torch.compile cannot trace the question.)
    if not (indices.is_cuda and torch.cuda.is_current_stream_capturing()):
        least, most = torch.stack(torch.aminmax(indices)).tolist()  # one wait for a device
        check(axis, x.shape[axis], least, most)


def _with_ellipsis(x: Tensor, parts: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """Move the axes of arrays to the front, where an Ellipsis for no axis stands among these.

    In NumPy it keeps arrays apart as a slice does; torch drops it.
    """
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), -1)
    arrays = [i for i, part in enumerate(parts) if isinstance(part, Tensor)]
    indexed = _axes(parts, x.ndim)
    if indexed[at] or not arrays[0] < at < arrays[-1]:
        return x, parts
    others = [i for i, part in enumerate(parts) if i not in arrays and i != at]
    order = [axis for i in arrays + others for axis in indexed[i]]
    return x.permute(order), tuple(parts[i] for i in arrays + others)


def _empty_mask(x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """Let a mask without elements select none of dimensions of any size, as NumPy does."""
    fits = all(n in (0, m) for n, m in zip(mask.shape, x.shape, strict=False))
    return torch.nonzero(mask, as_tuple=True) if fits else (mask,)


def _part(x: Tensor, parts: tuple[Any, ...], i: int, spread: bool) -> Any:
    part = parts[i]
    if isinstance(part, Tensor):
        # torch reads uint8 as a mask, and refuses most other small integers.
        index = part if part.dtype in (torch.bool, torch.int64) else part.to(torch.int64)
        alone = index.ndim == 0 and index.dtype is torch.int64
        return index.reshape(1) if spread and alone else index
    if isinstance(part, slice):
        if _goes_as_it_is(part):
            return part
        return within(part, x.shape[_axes(parts, x.ndim)[i].start])
    # Filled there: a copy from the host would wait, and cannot be recorded in a graph.
    return torch.full((1,), part, device=x.device) if spread and isinstance(part, int) else part


def _forward(x: Tensor, parts: tuple[Any, ...]) -> tuple[Tensor, list[int], tuple[Any, ...]]:
    """Replace the slices of negative step, which torch lacks.

    https://github.com/pytorch/pytorch/issues/59786

    Returns
    -------
    tuple of (tensor, list of int, tuple)
        A view in which those slices run forward, the axes to flip in it, and the key of the rest.
    """
    ahead, turned, rest = [slice(None)] * x.ndim, [], list(parts)
    for i, (part, indexed) in enumerate(zip(parts, _axes(parts, x.ndim))):
        if _is_reversed(part):
            axis = indexed.start
            chosen = range(*part.indices(x.shape[axis]))
            ahead[axis] = slice(chosen[-1], chosen[0] + 1, -part.step) if chosen else slice(0, 0)
            turned.append(axis)
            rest[i] = slice(None)
    return x[tuple(ahead)], turned, tuple(rest)


def _places(x: Tensor, parts: tuple[Any, ...]) -> list[int]:
    """Return the axes of the result, by a key without arrays, that run backward."""
    axis, found = 0, []
    for part, indexed in zip(parts, _axes(parts, x.ndim)):
        if _is_reversed(part):
            found.append(axis)
        if not isinstance(part, int):
            axis += 1 if part is None else len(indexed)
    return found


#: torch moves unsigned integers beyond 8 bits, but does not flip them, nor pick them on CUDA.
_SIGNED: Final = {
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
}


def flip(x: Tensor, *, axis: tuple[int, ...] | None) -> Tensor:
    axes = tuple(range(x.ndim)) if axis is None else axis
    x = packed(x)
    signed = _SIGNED.get(x.dtype)
    return x.flip(axes) if signed is None else x.view(signed).flip(axes).view(x.dtype)


def shifted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let fftshift and its inverse take no axes, for which torch wants shifts."""

    def shift(x: Tensor, *, axes: tuple[int, ...] | None) -> Tensor:
        return x.clone() if axes == () or x.ndim == 0 else function(x, axes)

    return shift


def take(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    # index_select knows no negative indices (https://github.com/pytorch/pytorch/issues/146211).
    indices = indices.to(torch.int64)
    if not _looks(x):
        _check_array(x, indices, axis)
    try:
        return x[(slice(None),) * axis + (indices,)]
    except IndexError:  # which counts the arrays of a key in the place of its axes
        _check_array(x, indices, axis)
        raise


def unstack(x: Tensor, *, axis: int) -> tuple[Tensor, ...]:
    return tuple(torch.unbind(x, axis))


def take_along_axis(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    # take_along_dim wraps indices that are out of bounds instead of refusing them
    # (https://github.com/pytorch/pytorch/issues/196106).
    indices, length = indices.to(torch.int64), x.shape[axis]
    _check_array(x, indices, axis)
    return torch.take_along_dim(x, torch.where(indices < 0, indices + length, indices), axis)


# ---------------------------------------------------------------------------- in place


def _batched_beside(x: Tensor, *others: Any) -> Tensor:
    """Return a tensor, or a copy that stands for as many as another one inside `torch.func.vmap`.

    One tensor has no place for what is written into each of these.
    """
    if not is_transformed() or is_batched(x):
        return x
    for other in others:
        if isinstance(other, Tensor) and is_batched(other):
            return other.new_zeros(x.shape, dtype=x.dtype).copy_(x)
    return x


def inplace(write: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def update(x1: Tensor, x2: Tensor) -> Tensor:
        x1 = _batched_beside(x1, x2)
        write(x1, _apart(x1, x2))
        return x1  # a function that writes to its parts returns a view of it

    return update


def written(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Write the result of a function with a fix into its first operand."""

    def update(x1: Tensor, x2: Tensor) -> Tensor:
        x1 = _batched_beside(x1, x2)
        # What is kept for a gradient must not be what is overwritten.
        return x1.copy_(function(x1 if is_plain(x1) else x1.clone(), x2))

    return update
