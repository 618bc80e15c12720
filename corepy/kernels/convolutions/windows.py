"""Convolution of NumPy's arrays: windows laid side by side, and one product of matrices in BLAS."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from corepy.dispatch import make, ran
from corepy.kernels._arguments import Given
from corepy.kernels._memory import Host, aligned, compiled, delivered, place_of, supports
from corepy.kernels.convolutions._geometry import Geometry

#: Elements of windows that lie side by side at once: enough for BLAS to share them among threads,
#: and few enough for the last-level cache.
_BLOCK: Final = 1 << 20
#: Channels of a group up to which compiled loops are faster: there is little to multiply in each.
_FEW: Final = 4


def conv2d(
    x: Given, weight: Given, bias: Given | None, geometry: Geometry, out: Given | None
) -> Any:
    """Compute the convolution of arrays with elements, and deliver it."""
    shape = (x.shape[0], weight.shape[0], *geometry.size)
    wide = np.dtype(x.wide)
    place = _place(out, x, weight, bias)
    found = aligned(shape, wide) if place is None else place
    with np.errstate(all="ignore"):  # NaN and infinities are values like others
        if has_small_groups(weight, geometry) and supports(x, weight):
            from corepy.kernels.convolutions import numba

            compiled(x)
            # Compiled for memory of one kind alone: in order, aligned, and writable.
            added = np.zeros(shape[1], wide) if bias is None else bias.native
            inputs = (x.native, weight.native, added)
            y, w, b = (np.require(a, wide, ("C", "A", "W")) for a in inputs)
            numba.conv2d(y, w, b, geometry, found)
        else:
            ran("numpy", x.backend, place_of(x), "windows side by side, times the weights, in BLAS")
            y, w = _padded(x.native, wide, geometry), np.ascontiguousarray(weight.native, wide)
            _fill(found.reshape(shape[0], shape[1], -1), y, w, geometry)
            if bias is not None:
                found += bias.native.astype(wide, copy=False)[:, None, None]
        native = found.astype(x.native.dtype, copy=False)
    if place is not None:
        assert out is not None
        return out.value
    return delivered(native if x.table is None else make(native, x.table), out)


def has_small_groups(weight: Given, geometry: Geometry) -> bool:
    """Say whether a group has too few channels for a product of matrices to pay."""
    return geometry.groups > 1 and weight.shape[1] <= _FEW


def _place(out: Given | None, *inputs: Given | None) -> Host | None:
    """Return the memory that the caller gave for the result, if it can be filled as it is."""
    if out is None or out.dtype != out.wide:
        return None
    found: Host = out.native
    fits = found.flags.carray and found.dtype.isnative
    apart = not any(np.may_share_memory(found, g.native) for g in inputs if g is not None)
    return found if fits and apart else None


def _padded(x: Host, wide: np.dtype[Any], geometry: Geometry) -> Host:
    """Return images with their zeros, in the dtype of the computation."""
    (top, bottom), (left, right) = geometry.padding
    if top == bottom == left == right == 0:
        return x.astype(wide, copy=False)
    (height, width), padded = geometry.image, geometry.padded
    found = np.zeros((*x.shape[:2], *padded), wide)
    found[:, :, top : top + height, left : left + width] = x
    return found


def _fill(out: Host, x: Host, weight: Host, geometry: Geometry) -> None:
    """Put the sums of products into ``out (batch, filters, windows)``."""
    g = geometry
    batch, channels = x.shape[:2]
    filters = weight.shape[0]
    turned = weight.reshape(g.groups, filters // g.groups, -1)  # (groups, filters, depth)
    depth = turned.shape[2]
    rows, columns = g.size
    grouped = out.reshape(batch, g.groups, filters // g.groups, rows * columns)
    if g.kernel == g.stride == (1, 1) and x.flags.c_contiguous:  # each element is a window
        np.matmul(turned, x.reshape(batch, g.groups, depth, rows * columns), out=grouped)
        return
    s = x.strides
    over = (s[0], s[1], s[2] * g.dilation[0], s[3] * g.dilation[1])
    shape = (batch, channels, *g.kernel, rows, columns)
    seen = as_strided(x, shape, (*over, s[2] * g.stride[0], s[3] * g.stride[1]), writeable=False)
    step = max(1, min(rows, _BLOCK // (channels * g.kernel[0] * g.kernel[1] * columns)))
    side_by_side = np.empty(g.groups * depth * step * columns, x.dtype)
    for image, into in zip(seen, grouped, strict=True):
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            windows = (stop - start) * columns
            block = side_by_side[: g.groups * depth * windows]
            block.reshape(channels, *g.kernel, stop - start, columns)[...] = image[
                ..., start:stop, :
            ]
            part = into[..., start * columns : stop * columns]
            np.matmul(turned, block.reshape(g.groups, depth, windows), out=part)
