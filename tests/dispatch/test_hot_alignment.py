"""Complex numbers of single precision that lie as float32 does: NumPy calls them aligned.

Loops that move them as items of 8 bytes ask for no more; the sanitizers see those that do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp


def between_words(shape: tuple[int, ...]) -> Any:
    """Make complex64 whose first byte lies in the middle of a word of 8 bytes."""
    count = int(np.prod(shape))
    room = np.arange(2.0 * count + 2, dtype="float32")
    first = 1 if room.ctypes.data % 8 == 0 else 0
    made = room[first : first + 2 * count].view("complex64").reshape(shape)
    assert made.ctypes.data % 8 == 4
    assert made.flags.aligned
    return made


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda ns, x: x + x,
    "add beside rows": lambda ns, x: x + x[0],
    "add beside columns": lambda ns, x: x * x[:, :1],
    "add to the transpose": lambda ns, x: x.T + ns.asarray(x.T, copy=True),
    "gaps": lambda ns, x: x[::2, 1:] + x[::2, :-1],
    "backwards": lambda ns, x: x[::-1] - x[:, ::-1],
    "copy of gaps": lambda ns, x: ns.asarray(x[:, ::2], copy=True),
    "copy of the transpose": lambda ns, x: ns.reshape(x.T, (-1,)),
    "concat": lambda ns, x: ns.concat([x, x], axis=1),
    "stack": lambda ns, x: ns.stack([x, x], axis=-1),
    "flip": lambda ns, x: ns.roll(ns.flip(x), 3),
    "mask": lambda ns, x: x[ns.abs(x) > 9],
    "nonzero": lambda ns, x: ns.nonzero(x)[0],
    "repeat": lambda ns, x: ns.repeat(x, 3, axis=0),
    "tile": lambda ns, x: ns.tile(x, (2, 2)),
    "take": lambda ns, x: ns.take(x, ns.asarray([2, 0, 1]), axis=0),
    "take elements": lambda ns, x: x[ns.asarray([2, 0]), ns.asarray([1, 1])],
    "tril": lambda ns, x: ns.tril(x),
    "where": lambda ns, x: ns.where(ns.abs(x) > 9, x, -x),
    "where beside rows": lambda ns, x: ns.where(ns.abs(x) > 9, x, x[0]),
    "sum": lambda ns, x: ns.sum(x, axis=0),
    "elements": lambda ns, x: ns.stack([element * element for element in x[0]]),
}


@pytest.mark.parametrize("shape", [(3, 5), (40, 5), (60, 90), (300, 7)])
@pytest.mark.parametrize("name", CALLS)
def test_single_precision_complex_numbers_between_words(name: str, shape: tuple[int, ...]) -> None:
    native = between_words(shape)
    found = CALLS[name](xp, xp.asarray(native, copy=False))
    np.testing.assert_allclose(np.asarray(found), CALLS[name](np, native), rtol=1e-5)


@pytest.mark.parametrize("shape", [(3, 5), (60, 90)])
def test_they_are_written_where_they_lie(shape: tuple[int, ...]) -> None:
    writes: list[Callable[[Any, Any], Any]] = [
        lambda ns, x: x.__setitem__(ns.abs(x) > 9, 1j),
        lambda ns, x: x.__setitem__(ns.abs(x) > 9, x[ns.abs(x) > 9] * 2),
        lambda ns, x: x.__setitem__(slice(None, None, -1), x * 1),
        lambda ns, x: x.__setitem__(..., x[:1]),
        lambda ns, x: x.__setitem__((0, 0), x[1, 1]),
        lambda ns, x: x.__setitem__(ns.asarray([1, 2]), x[:2] * 1),
        lambda ns, x: x.__iadd__(x),
        lambda ns, x: x[:, ::2].__iadd__(x[:, :1] * 1),
        lambda ns, x: x.__isub__(1j),
    ]
    for write in writes:
        native, wanted = between_words(shape), between_words(shape)
        write(xp, xp.asarray(native, copy=False))
        write(np, wanted)
        np.testing.assert_array_equal(native, wanted)
