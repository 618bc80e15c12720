"""A step of Adam in one compiled pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from corepy._loops._simd import number
from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import fetch, foresee_row, put, scratch

Array = npt.NDArray[Any]

#: Elements that are worked on together; with all that is kept of them they fill a quarter of the
#: first-level cache, and more of them were slower.
_BLOCK = 256
#: Elements before theirs that memory is asked for, as four arrays are read at once.
_AHEAD = 2048


@kernel
def _step(
    parameter: Array,
    gradient: Array,
    first: Array,
    second: Array,
    settings: tuple[float, ...],
    brain: bool,
    new_parameter: Array,
    new_first: Array,
    new_second: Array,
    start: int,
    stop: int,
) -> None:
    size = parameter.size
    held_p, held_g = scratch(parameter, _BLOCK), scratch(gradient, _BLOCK)
    held_m, held_v = scratch(first, _BLOCK), scratch(second, _BLOCK)
    p, m, v = scratch(parameter, _BLOCK), scratch(first, _BLOCK), scratch(second, _BLOCK)
    like = p[0]
    rate, decay = number(settings[0], like), number(settings[1], like)
    beta1, rest1 = number(settings[2], like), number(1.0 - settings[2], like)
    beta2, rest2 = number(settings[3], like), number(1.0 - settings[3], like)
    correction, eps = number(settings[4], like), number(settings[5], like)
    for block in range(start, stop):
        a = block * _BLOCK
        b = min(a + _BLOCK, size)
        old = fetch(parameter[a:b], held_p[: b - a], brain)
        slope = fetch(gradient[a:b], held_g[: b - a], brain)
        old_m = fetch(first[a:b], held_m[: b - a], brain)
        old_v = fetch(second[a:b], held_v[: b - a], brain)
        foresee_row(parameter, a + _AHEAD, _BLOCK)
        foresee_row(gradient, a + _AHEAD, _BLOCK)
        foresee_row(first, a + _AHEAD, _BLOCK)
        foresee_row(second, a + _AHEAD, _BLOCK)
        # One loop each, for a loop that writes to three arrays is not put into vector registers.
        for j in range(b - a):
            m[j] = beta1 * old_m[j] + rest1 * slope[j]
        for j in range(b - a):
            v[j] = beta2 * old_v[j] + rest2 * (slope[j] * slope[j])
        for j in range(b - a):
            p[j] = old[j] * decay - rate * m[j] / (np.sqrt(v[j]) * correction + eps)
        put(p[: b - a], new_parameter[a:b], brain)
        put(m[: b - a], new_first[a:b], brain)
        put(v[: b - a], new_second[a:b], brain)


def adam_step(
    old: tuple[Array, ...], new: tuple[Array, ...], settings: tuple[float, ...], brain: bool
) -> None:
    """Put a parameter and its moments after a step into arrays that may be the old ones.

    Parameters
    ----------
    old : tuple of array
        Parameter, gradient, and both moments, all of one dimension.
    new : tuple of array
        The parameter and both moments.
    settings : tuple of float
        The rate with the first correction, what decay leaves, both betas, the second correction,
        and eps.
    brain : bool
        Whether 16-bit words are bfloat16.
    """
    size = old[0].size
    launch(_step, (*old, settings, brain, *new), -(-size // _BLOCK), 4 * size)
