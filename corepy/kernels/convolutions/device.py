"""Convolutions in device kernels, for arrays whose library has none of its own."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from corepy.kernels._arguments import Given
from corepy.kernels._device import TILES, Program, Result, launch, memory
from corepy.kernels._device._sharing import by_elements, by_tiles
from corepy.kernels.convolutions._geometry import Geometry

_program = Program(__file__, headers=(TILES,))
#: Filters of a group from which tiles are full enough to pay: a work-item has four of their rows.
_TILED: Final = 16


def conv2d(
    x: Given, weight: Given, bias: Given | None, geometry: Geometry, out: Given | None
) -> Any:
    """Return the convolution of images that may be empty."""
    g = geometry
    batch, filters, places = x.shape[0], weight.shape[0], g.size[0] * g.size[1]
    result = Result(
        x, out, read_again=(x, weight, bias), shape=(batch, filters, *g.size), dtype=x.dtype
    )
    together = filters // g.groups
    if together < _TILED:
        name = "one_by_one"
        grid, block, _ = by_elements(x, batch * filters * places, 1)
    else:
        name = "in_tiles"
        grid, block = by_tiles(x, g.groups, together, batch * places)
    (above, _), (before, _) = g.padding
    sizes = batch, filters, weight.shape[1], g.groups, *g.image, *g.size
    launch(
        *(x, _program, name),
        grid=grid,
        block=block,
        arguments=(
            *(memory(x), memory(weight), None if bias is None else memory(bias), result.memory),
            *map(np.int64, (*sizes, *g.stride, above, before, *g.dilation)),
        ),
        X=x.dtype,
        B=x.dtype if bias is None else bias.dtype,
        HEIGHT=g.kernel[0],
        WIDTH=g.kernel[1],
    )
    return result.array()
