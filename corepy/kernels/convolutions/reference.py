"""Convolution as its formula reads, in the functions of any library."""

from __future__ import annotations

from typing import Any

from corepy.kernels._casts import cast
from corepy.kernels.convolutions._geometry import Geometry


def conv2d(xp: Any, x: Any, weight: Any, bias: Any, *, wide: Any, geometry: Geometry) -> Any:
    """Sum over the elements of the kernel: its weights times the image, shifted by its place."""
    g = geometry
    batch, channels = x.shape[:2]
    filters = weight.shape[0]
    rows, columns = g.size
    y = _padded(xp, cast(xp, x, wide), g)
    w = cast(xp, weight, wide)
    out: Any = None
    for i in range(g.kernel[0]):
        for j in range(g.kernel[1]):
            top, left = i * g.dilation[0], j * g.dilation[1]
            seen = y[
                :,
                :,
                top : top + (rows - 1) * g.stride[0] + 1 : g.stride[0],
                left : left + (columns - 1) * g.stride[1] + 1 : g.stride[1],
            ]
            seen = xp.reshape(seen, (batch, g.groups, channels // g.groups, rows * columns))
            turned = xp.reshape(
                w[:, :, i, j], (g.groups, filters // g.groups, channels // g.groups)
            )
            part = xp.matmul(turned, seen)
            out = part if out is None else out + part
    out = xp.reshape(out, (batch, filters, rows, columns))
    if bias is not None:
        out = out + xp.reshape(cast(xp, bias, wide), (filters, 1, 1))
    return cast(xp, out, x.dtype)


def _padded(xp: Any, x: Any, geometry: Geometry) -> Any:
    """Put zeros around images."""
    zero = xp.zeros_like(xp.sum(x[:1, :1, :1, :1]))  # of images without elements too
    for axis, (before, after) in zip((2, 3), geometry.padding):
        parts = [x]
        for count, place in ((before, 0), (after, 2)):
            if count:
                shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
                parts.insert(place, xp.broadcast_to(zero, shape))
        if len(parts) > 1:
            x = xp.concat(parts, axis=axis)
    return x
