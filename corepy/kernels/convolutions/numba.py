"""Convolution in compiled loops, where groups are too small for a product of matrices to pay."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._loops._simd import inlined
from corepy.kernels._compiled import kernel, launch
from corepy.kernels._simd import scratch
from corepy.kernels.convolutions._geometry import Geometry

Array = npt.NDArray[Any]

#: Sums that are worked on together: they, and what is seen of an image, stay in the first-level
#: cache over all elements of the kernel.
_STRETCH: Final = 4096
#: Sums that fill whole registers of any width, some at a time.
_WHOLE: Final = 64
#: Elements of the kernel whose products are added in one pass over the sums.
_PASS: Final = 4


@inlined
def _deal(plane: Array, lines: Array, starts: Array, held: Array, at: int) -> None:
    """Deal out an image: its rows to where ``lines (height,)`` says, from the `at`-th element on.

    The columns that are so many apart as there are ``starts (stride, 2)`` come to lie together:
    from the first one on, at the second of a start.
    """
    height, width = plane.shape
    stride = len(starts)
    for row in range(height):
        for first, to in starts:
            into = np.uint64(at + lines[row] + to)
            if stride == 1:
                for j in range(width):
                    held[into + np.uint64(j)] = plane[row, j]
            else:
                for j in range((width - first + stride - 1) // stride):
                    held[into + np.uint64(j)] = plane[row, first + j * stride]


@kernel
def _planes(
    x: Array,
    weight: Array,
    bias: Array,
    together: int,
    lines: Array,
    starts: Array,
    places: Array,
    line: int,
    plane: int,
    out: Array,
    start: int,
    stop: int,
) -> None:
    filters, taps = weight.shape
    rows, columns = out.shape[2:]
    depth = x.shape[1] * together // filters
    joined = min(rows, max(1, _STRETCH // line))
    values, held = scratch(x, joined * line + _WHOLE), scratch(x, depth * plane + _WHOLE)
    held[:] = 0.0  # what no image covers stays so
    dealt = -1
    for task in range(start, stop):
        image, f = task // filters, task % filters
        if dealt != task // together:
            dealt = task // together
            first = f // together * depth
            for channel in range(depth):
                _deal(x[image, first + channel], lines, starts, held, channel * plane)
        for top in range(0, rows, joined):
            count = min(joined, rows - top)
            # Rows are one long row, and fill whole registers: what lies between them, and behind
            # them, is computed for nothing.
            length = ((count - 1) * line + columns + _WHOLE - 1) // _WHOLE * _WHOLE
            p, a = weight[f, 0], np.uint64(top * line + places[0])
            for j in range(length):
                values[j] = bias[f] + p * held[a + np.uint64(j)]
            single = (taps - 1) % _PASS + 1
            for t in range(1, single):
                p, a = weight[f, t], np.uint64(top * line + places[t])
                for j in range(length):
                    values[j] += p * held[a + np.uint64(j)]
            for t in range(single, taps, _PASS):
                p, q, r, s = weight[f, t], weight[f, t + 1], weight[f, t + 2], weight[f, t + 3]
                a, b = np.uint64(top * line + places[t]), np.uint64(top * line + places[t + 1])
                c, d = np.uint64(top * line + places[t + 2]), np.uint64(top * line + places[t + 3])
                for j in range(length):
                    k = np.uint64(j)
                    values[j] = (
                        values[j]
                        + p * held[a + k]
                        + q * held[b + k]
                        + r * held[c + k]
                        + s * held[d + k]
                    )
            for i in range(count):
                for j in range(columns):
                    out[image, f, top + i, j] = values[np.uint64(i * line + j)]


def conv2d(x: Array, weight: Array, bias: Array, geometry: Geometry, out: Array) -> None:
    """Put sums of products, and a bias of each filter, into `out`."""
    g = geometry
    filters, depth = weight.shape[:2]
    down, right = (min(step, size) for step, size in zip(g.stride, g.padded))
    height, width = -(-g.padded[0] // down), -(-g.padded[1] // right)
    # What strides pass over is in other parts: neighbouring windows see neighbours in one of them.
    parts = (depth, down, right, height, width)

    def place(channel: Any, row: Any, column: Any) -> Array:
        where = (channel, row % down, column % right, row // down, column // right)
        return np.asarray(np.ravel_multi_index(where, parts)).reshape(-1)

    c, a, b = np.ogrid[:depth, : g.kernel[0], : g.kernel[1]]
    places = place(c, a * g.dilation[0], b * g.dilation[1])
    lines = place(0, np.arange(x.shape[2]) + g.padding[0][0], 0)
    firsts = np.arange(min(right, x.shape[3]))
    starts = np.stack([firsts, place(0, 0, firsts + g.padding[1][0])], axis=1)
    arguments = (
        *(x, weight.reshape(filters, -1), bias, filters // g.groups),
        *(lines, starts, places, width, down * right * height * width, out),
    )
    launch(_planes, arguments, len(x) * filters, out.size * weight[0].size // 4)
