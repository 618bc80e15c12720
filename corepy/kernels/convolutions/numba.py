"""Convolution in compiled loops, where groups are too small for a product of matrices to pay."""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt

from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import put, scratch
from corepy.kernels.convolutions._geometry import Geometry

Array = npt.NDArray[Any]


#: Elements that are worked on together: sums and what is seen of an image stay in the first-level
#: cache over all elements of the kernel.
_STRETCH: Final = 4096


@kernel
def _planes(
    x: Array,
    weight: Array,
    together: int,
    down: int,
    right: int,
    row_step: int,
    column_step: int,
    out: Array,
    start: int,
    stop: int,
) -> None:
    filters, depth, height, width = weight.shape
    rows, columns = out.shape[2:]
    line = x.shape[3]
    # With a stride of 1 rows are one long row: what lies between them is computed for nothing.
    joined = min(rows, max(1, _STRETCH // line)) if down == right == 1 else 1
    values = scratch(x, joined * line)
    for task in range(start, stop):
        image, f = task // filters, task % filters
        first = f // together * depth
        for top in range(0, rows, joined):
            count = min(joined, rows - top)
            length = (count - 1) * line + columns
            for j in range(length):
                values[j] = 0.0
            for c in range(depth):
                plane = x[image, first + c].reshape(-1)
                for a in range(height):
                    for b in range(width):
                        share = weight[f, c, a, b]
                        seen = plane[(top * down + a * row_step) * line + b * column_step :]
                        if right == 1:
                            for j in range(length):
                                values[j] += share * seen[j]
                        else:
                            for j in range(length):
                                values[j] += share * seen[j * right]
            for i in range(count):
                put(values[i * line : i * line + columns], out[image, f, top + i], False)


def conv2d(x: Array, weight: Array, geometry: Geometry, out: Array) -> None:
    """Put the sums of products into `out`, of images that have their zeros around them."""
    g = geometry
    arguments = (x, weight, len(weight) // g.groups, *g.stride, *g.dilation, out)
    launch(_planes, arguments, len(x) * len(weight), out.size * weight[0].size // 4)
