"""Copying elements between layouts, on the device."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np

from corepy.kernels._arguments import Given
from corepy.kernels._device._runtime import ITEM_SIZE, WORDS, Memory, Program, coalesced, launch
from corepy.kernels._device._sharing import groups_to_move

_program = Program(__file__, "copy.c")
_BLOCK = 256
#: Axes that the kernel goes along.
_AXES = 4


def copy(x: Given, source: Memory, out: Memory) -> None:
    """Copy the elements of `source` into `out`, of the same shape and dtype, where `x` lives."""
    axes = coalesced(source.shape, source.strides, out.strides)
    outer, inner = axes[:-_AXES], axes[-_AXES:]
    inner = [(1, 0, 0)] * (_AXES - len(inner)) + inner
    sizes, froms, tos = zip(*inner, strict=True)
    total = int(np.prod(sizes))
    groups = groups_to_move(x, total, _BLOCK)
    integers = [np.int64(n) for n in (total, *islice(sizes, 1, None), *froms, *tos)]
    for place in np.ndindex(*(axis[0] for axis in outer)):
        from_, to = (sum(i * axis[n] for i, axis in zip(place, outer, strict=True)) for n in (1, 2))
        launch(
            x,
            _program,
            "copy",
            grid=(groups,),
            block=(_BLOCK,),
            arguments=(
                replace(source, start=source.start + from_),
                replace(out, start=out.start + to, written=True),
                *integers,
            ),
            X=WORDS[ITEM_SIZE[source.dtype]],
        )
