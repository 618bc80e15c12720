"""How the elements of arrays lie in memory, and views of them as the loops want them."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from corepy.backends.numba._compiled import BLOCK

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

#: The floats that loops compute with; float16 is not of the standard.
FLOATS: Final[tuple[np.dtype[Any], ...]] = (np.dtype(np.float32), np.dtype(np.float64))


def order(x: Array) -> Literal["C", "F"] | None:
    """Return the order in which the elements stand side by side in memory, None if they do not."""
    flags = x.flags
    if not flags.aligned:
        return None
    return "C" if flags.c_contiguous else "F" if flags.f_contiguous else None


def flat(x: Array) -> Array:
    """View a contiguous array in one dimension, in the order of memory."""
    return x if x.ndim == 1 else x.reshape(-1, order="A")


def bits(x: Array) -> Array:
    """View values that are only moved as unsigned integers: one loop serves all of a size."""
    return x if x.itemsize > 8 else x.view(f"u{x.itemsize}")


def around(shape: Shape, axes: int | Shape | None) -> Shape | None:
    """Return the numbers of elements before, along and after neighbouring axes, in C order."""
    if axes is None:
        return 1, math.prod(shape), 1
    places = (axes,) if isinstance(axes, int) else tuple(sorted(axes))
    if not places or places[-1] - places[0] != len(places) - 1:
        return None
    first, last = places[0], places[-1] + 1
    return math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])


def split(x: Array, axes: int | Shape | None) -> Array | None:
    """View an array as C-contiguous ``(before, along, after)`` of axes, None if it cannot be.

    An array in F order is transposed first: its results are in F order too.
    """
    found = order(x)
    if found is None:
        return None
    if found == "F":
        last = x.ndim - 1
        if axes is not None:
            axes = last - axes if isinstance(axes, int) else tuple(last - axis for axis in axes)
        x = x.T
    if axes is None or x.ndim == 1:
        return x.reshape(1, -1, 1) if axes != () else None
    shape = around(x.shape, axes)
    return None if shape is None else x.reshape(shape)


def reduced(shape: Shape, axes: int | Shape | None, keepdims: bool) -> Shape:
    """Return the shape that a reduction leaves."""
    if axes is None and not keepdims:
        return ()
    over = range(len(shape)) if axes is None else (axes,) if isinstance(axes, int) else axes
    if keepdims:
        return tuple(1 if axis in over else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in over)


def empty_for(x: Array, shape: Shape, dtype: Any) -> Array:
    """Make memory for a result, in the order of the operand."""
    return np.empty(shape, dtype, order="C" if x.flags.c_contiguous else "F")


def holds(flags: Array) -> bool:
    """Say whether any of some flags is set; `numpy.any` takes longer than a small operation."""
    return b"\1" in flags.tobytes()


def alike(*operands: Array) -> tuple[Array, Literal["C", "F"], list[int]] | None:
    """Find out whether operands of one shape lie alike in memory; single values do with any.

    Returns
    -------
    tuple or None
        The operand that has the shape of the result, its order, and a step of 1 for each, or 0
        for single values. None if the operands need other broadcasting, or differ in order.
    """
    model = operands[0]
    for x in operands[1:]:
        if x.size > model.size or (x.size == model.size and x.ndim > model.ndim):
            model = x
    found = order(model)
    if found is None:
        return None
    steps: list[int] = []
    for x in operands:
        if x is model or (x.shape == model.shape and (flags := x.flags).aligned and flags[found]):
            steps.append(1)
        elif x.size == 1 and x.ndim <= model.ndim:
            steps.append(0)
        else:
            return None
    return model, found, steps


def same_order(*operands: Array) -> tuple[Array, list[Array], list[int]] | None:
    """View operands that are `alike` in one dimension; single values come as a block of copies.

    Returns
    -------
    tuple or None
        The operand that has the shape of the result, the views, and the steps.
    """
    found = alike(*operands)
    if found is None:
        return None
    model, order, steps = found
    views = [
        (x if x.ndim == 1 else x.reshape(-1, order=order)) if step else np.repeat(x, BLOCK)
        for x, step in zip(operands, steps, strict=True)
    ]
    return model, views, steps
