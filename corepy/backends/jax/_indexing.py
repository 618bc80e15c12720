"""Indexing as Python has it: bounds are checked wherever the indices are known.

JAX takes the nearest element for an index out of bounds, and writes nothing there
(https://github.com/jax-ml/jax/issues/11277). While JAX traces (in ``jax.jit``, ``jax.vmap``) the
values of an index array are not known, and that is what happens still.

Keys of integers, slices and integer arrays run as compiled functions of the indices and of where
slices begin: JAX spends 30 to 200 us on such a key, and compiled code 6. A slice that skips
elements is compiled in with its bounds, as JAX does. Masks would be compiled for each number of
elements: NumPy applies these on the host, and JAX by its own way elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from corepy.backends._keys import axes, broadcast_together, check, check_value, within
from corepy.backends.jax import _values

Array: TypeAlias = Any
#: The part of a key that is compiled in: None and "..." as they are, "i" where an index stands, the
#: length of a slice without gaps, and the bounds of any other one; slices have no hash.
Pattern: TypeAlias = "tuple[str | int | tuple[int | None, ...] | None, ...]"

_jit: Final[Callable[[Callable[..., Array]], Callable[..., Array]]] = jax.jit

_WHOLE: Final = (None, None, None)


def getitem(x: Array, key: Any) -> Array:
    """Return the elements that a key selects."""
    if key.__class__ is int:
        _check(key, 0, x.shape[0] if x.shape else 0)
        return _select(x, (key,), ("i",))
    parts, places = _checked(x, key)
    found = _compiled(x, parts, places)
    if found is not None:
        return _select(x, *found)
    selected = _values.select(x, parts)
    if selected is not None:
        return selected
    view, parts = _with_axes(x, parts, places)
    try:
        return view[parts]
    except ValueError as error:  # arrays beside masks of other lengths
        raise IndexError(str(error)) from error


def setitem(x: Array, key: Any, value: Array) -> Array:
    """Return a new array with a value where a key selects."""
    parts, places = _checked(x, key)
    if len(parts) == 1 and _is_mask(parts[0]) and value.shape == ():
        return _fill(x, parts[0], value)  # the one write by a mask whose shapes are known
    found = _compiled(x, parts, places)
    if found is not None:
        return _replace(x, found[0], value, found[1])
    written = _values.replace(x, parts, value)
    if written is not None:
        return written
    chosen = _chosen(x, parts) if value.shape else None
    if chosen is not None:
        check_value(value.shape, chosen)
    view, parts = _with_axes(x, parts, places)
    try:
        return view.at[parts].set(value).reshape(x.shape)
    except ValueError as error:
        if value.shape:
            raise
        raise IndexError(str(error)) from error  # a scalar fits: it is the key


def _with_axes(
    x: Array, parts: tuple[Any, ...], places: list[range]
) -> tuple[Array, tuple[Any, ...]]:
    """Make a mask without dimensions an index, or none, into an axis of its own.

    Beside other parts of a key JAX takes it for something else than NumPy does.
    """
    new: list[int] = []
    key = list(parts)
    for i, (part, place) in enumerate(zip(parts, places)):
        if _is_mask(part) and part.ndim == 0:
            new.append(place.start + len(new))
            key[i] = jnp.zeros(int(bool(part)), jnp.int64)
    return (jnp.expand_dims(x, new), tuple(key)) if new else (x, parts)


def take(x: Array, indices: Array, *, axis: int) -> Array:
    """Return elements at indices along an axis."""
    _check(indices, axis, x.shape[axis])
    return _take(x, indices, axis=axis)


def take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    """Return elements at indices of their own for each position."""
    _check(indices, axis, x.shape[axis])
    return _take_along_axis(x, indices, axis=axis)


# ---------------------------------------------------------------------------- compiled


def _compiled(
    x: Array, parts: tuple[Any, ...], places: list[range]
) -> tuple[tuple[Any, ...], Pattern] | None:
    """Split a key into its indices and its pattern; None where it should not be compiled."""
    indices: list[Any] = []
    pattern: list[Any] = []
    for part, place in zip(parts, places):
        if _is_mask(part):
            return None
        if part is None:
            pattern.append(None)
        elif part is Ellipsis:
            pattern.append("...")
        else:
            word: Any = "i"
            if isinstance(part, slice):
                part, word = _word_of(part, x.shape[place.start])
                # All of a trace is compiled anyway, and derivatives of such programs by JAX may be
                # lowered when it has left our context of 64 bits.
                if word != _WHOLE and isinstance(x, jax.core.Tracer):
                    return None
            pattern.append(word)
            if part is not None:
                indices.append(part)
    return tuple(indices), tuple(pattern)


def _word_of(part: slice, size: int) -> tuple[int | None, int | tuple[int | None, ...]]:
    """Return where a slice begins, None if that is compiled in, and its word in a pattern."""
    start, stop, step = part.indices(size)
    if step != 1:
        return None, (part.start, part.stop, part.step)
    if start == 0 and stop == size:
        return None, _WHOLE
    return start, max(0, stop - start)


def _opened(
    x: Array, indices: tuple[Any, ...], pattern: Pattern
) -> tuple[Array, tuple[Any, ...], list[Any] | None]:
    """Return the part of an array that slices without gaps bound, the key within it, and its place.

    The place is None where no slice has bounds: then that part is the whole array.
    """
    left = iter(indices)
    sizes: list[int] = [*x.shape]
    starts: list[Any] = [0] * x.ndim
    key: list[Any] = []
    axis = 0
    for word in pattern:
        if word is None:
            key.append(None)
        elif word == "...":
            key.append(Ellipsis)
            axis += x.ndim - sum(each not in (None, "...") for each in pattern)
        else:
            if isinstance(word, int):
                starts[axis], sizes[axis] = next(left), word
                word = _WHOLE
            key.append(slice(*word) if isinstance(word, tuple) else _wide(next(left)))
            axis += 1
    if not any(isinstance(word, int) for word in pattern):
        return x, tuple(key), None
    place = [_wide(start) for start in starts]
    return jax.lax.dynamic_slice(x, place, sizes), tuple(key), place


def _wide(index: Any) -> Array:
    # JAX adds the size of the axis to a negative index in the index's own dtype, which may be too
    # small for it (https://github.com/jax-ml/jax/issues/31396).
    return jnp.asarray(index, dtype=jnp.int64)


@partial(jax.jit, static_argnums=2)
def _select(x: Array, indices: tuple[Any, ...], pattern: Pattern) -> Array:
    part, key, _ = _opened(x, indices, pattern)
    return part[key]


@partial(jax.jit, static_argnums=3)
def _replace(x: Array, indices: tuple[Any, ...], value: Array, pattern: Pattern) -> Array:
    part, key, place = _opened(x, indices, pattern)
    check_value(value.shape, part[key].shape)  # of shapes alone, so that nothing is read
    part = part.at[key].set(value)
    return part if place is None else jax.lax.dynamic_update_slice(x, part, place)


@_jit
def _fill(x: Array, mask: Array, value: Array) -> Array:
    return jnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)), value, x)


@partial(jax.jit, static_argnames="axis")
def _take(x: Array, indices: Array, *, axis: int) -> Array:
    if x.shape[axis] == 0 == indices.size:  # JAX gives the array itself, whatever their shape
        return x.reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1 :])
    return jnp.take(x, _wide(indices), axis=axis)


@partial(jax.jit, static_argnames="axis")
def _take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    return jnp.take_along_axis(x, _wide(indices), axis=axis)


# ---------------------------------------------------------------------------- bounds


def _is_mask(part: Any) -> bool:
    return getattr(part, "dtype", None) == np.bool_


def _checked(x: Array, key: Any) -> tuple[tuple[Any, ...], list[range]]:
    """Return the parts of a key, none of which is out of bounds, masks as long as their axes.

    And the axes that each of them indexes.

    Raises
    ------
    IndexError
        If one is, a mask has another shape than what it indexes, or arrays do not broadcast.
    """
    parts = list(key) if isinstance(key, tuple) else [key]
    places = axes(parts, x.ndim)
    for i, (part, place) in enumerate(zip(parts, places)):
        axis = place.start
        if part is None or part is Ellipsis:
            continue
        if isinstance(part, slice):
            parts[i] = within(part, x.shape[axis])  # JAX reads bounds and steps in 32 bits
        elif _is_mask(part):
            parts[i] = _fitting(part, x.shape[axis : place.stop])
        else:
            _check(part, axis, x.shape[axis])
    broadcast_together(
        part.shape for part in parts if hasattr(part, "shape") and not _is_mask(part)
    )
    return tuple(parts), places


def _fitting(mask: Array, shape: tuple[int, ...]) -> Array:
    """Return a mask of a shape; an empty one, which selects nothing, may lack axes' elements."""
    if mask.shape == shape:
        return mask
    if all(n in (0, m) for n, m in zip(mask.shape, shape, strict=True)):
        return jnp.zeros(shape, dtype=bool)
    raise IndexError(f"a mask of shape {mask.shape} indexes axes of shape {shape}")


def _check(index: Any, axis: int, size: int) -> None:
    """Refuse indices beyond an axis, where they are known."""
    check(axis, size, *_extremes(index))


def _chosen(x: Array, parts: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Return the shape of what a key selects; None while JAX traces its indices."""
    if any(isinstance(part, jax.core.Tracer) for part in parts):
        return None
    shape: tuple[int, ...] = np.broadcast_to(np.False_, x.shape)[_values.on_host(parts)].shape
    return shape


def _extremes(index: Any) -> tuple[int, ...]:
    if isinstance(index, int):
        return index, index
    if isinstance(index, jax.core.Tracer) or index.size == 0:
        return ()  # not known, or none
    # On the host NumPy reads JAX's memory, at a third of the cost of a compiled function.
    if next(iter(index.devices())).platform == "cpu":
        host = np.asarray(index)
        return int(host.min()), int(host.max())
    least, most = _bounds(index).tolist()
    return least, most


@_jit
def _bounds(index: Array) -> Array:
    return jnp.stack([jnp.min(index), jnp.max(index)])
