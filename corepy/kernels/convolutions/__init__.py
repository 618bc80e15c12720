"""Convolution over images, by each library's own function where it has one, else by kernels."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from operator import index
from typing import Any, Final, Literal

from corepy._errors import bad_argument, bad_type
from corepy.array_api._arguments import addressable
from corepy.kernels._arguments import (
    Given,
    beside,
    destination,
    floating,
    misshapen,
    parameter,
    unusable,
    whole,
)
from corepy.kernels._choice import by_torch, choose, torch_takes
from corepy.kernels._device import on_device
from corepy.kernels._formulas import by_reference
from corepy.kernels._replay import replayed
from corepy.kernels._ways import FORMULA, TORCH
from corepy.kernels.convolutions import libraries, reference, torch, windows
from corepy.kernels.convolutions._geometry import Geometry, Pair

__all__ = ["conv2d"]

Padding = Literal["same", "valid"] | int | tuple[Any, Any]


@replayed
def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: Padding = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    out: Any = None,
) -> Any:
    """Slide filters over images: the cross-correlation that networks call a convolution.

    Parameters
    ----------
    x : array (batch, channels, height, width)
        Of float16, bfloat16, float32 or float64.
    weight : array (out_channels, channels // groups, kernel_height, kernel_width)
        Of the dtype of `x`; not turned around, as in torch.
    bias : array (out_channels,) or None
        Of the dtype of `x`, or float32 beside 16-bit floats. None: no bias.
    stride : int or pair of int
        Steps from one window to the next, along height and width; one number stands for both, here
        and below.
    padding : int, pair, "same" or "valid"
        Zeros around each image: as many on both sides, or a pair (before, after) for each axis,
        ``((top, bottom), (left, right))``. ``"valid"``: none. ``"same"``: as many as let the result
        have the size of the image, an odd one of them after it; for a stride of 1.
    dilation : int or pair of int
        Steps from one element of the kernel to the next.
    groups : int
        Into how many groups channels are divided, in order; each has filters of its own. With as
        many as there are channels the convolution is depthwise.
    out : array or None
        Where to put the result. None: new memory.

    Returns
    -------
    array (batch, out_channels, out_height, out_width)
        In the library, dtype and device of `x`. Along each axis of `size` elements there are
        ``(size + before + after - dilation * (kernel - 1) - 1) // stride + 1``.

    Raises
    ------
    TypeError
        If an argument is of another type, library or dtype.
    ValueError
        If a shape or number does not fit, a window is larger than the padded image, or `out` is
        read-only.
    MemoryError
        If no memory holds the padded images.
    DeviceMismatchError
        If an array lives on another device than `x`.

    Notes
    -----
    Computed in float32, or float64 where `x` has that, and rounded once, after the bias; on
    accelerators torch computes 16-bit floats in its own way, which accumulates in float32 too. In
    what order products are summed is each library's own, and some use Winograd's algorithm, by
    which a NaN or infinity may reach the neighbours of the windows that hold it.

    References
    ----------
    Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016,
    https://arxiv.org/abs/1603.07285

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(9.0).reshape(1, 1, 3, 3)
    >>> conv2d(x, np.ones((1, 1, 2, 2)))[0, 0].tolist()
    [[8.0, 12.0], [20.0, 24.0]]
    >>> conv2d(x, np.ones((1, 1, 3, 3)), padding="same", bias=np.ones(1))[0, 0, 1].tolist()
    [22.0, 37.0, 28.0]
    """
    name = "conv2d"
    g = floating(name, "x", x)
    if len(g.shape) != 4:
        raise misshapen(g, "(batch, channels, height, width)")
    w = beside("weight", weight, g, (g.dtype,))
    count = whole(name, "groups", groups, 1)
    channels = g.shape[1]
    if channels % count:
        raise bad_argument(name, "groups", groups, f"a divisor of the {channels} channels of x")
    if len(w.shape) != 4 or w.shape[1] != channels // count or 0 in w.shape[2:]:
        names = f"(out_channels, {channels // count}, kernel_height, kernel_width)"
        raise misshapen(w, f"{names} beside x of shape {g.shape} in {count} groups")
    if w.shape[0] % count:
        raise bad_argument(
            name, "groups", groups, f"a divisor of the {w.shape[0]} filters of weight"
        )
    b = parameter("bias", bias, g, w.shape[:1])
    steps, spread = _pair(name, "stride", stride, 1), _pair(name, "dilation", dilation, 1)
    kernel = (w.shape[2], w.shape[3])
    geometry = Geometry(
        stride=steps,
        padding=_padding(padding, kernel, steps, spread),
        dilation=spread,
        groups=count,
        image=(g.shape[2], g.shape[3]),
        kernel=kernel,
    )
    if min(geometry.size) < 1:
        found = f"has shape {w.shape}, of which a window takes {geometry.extent}"
        raise unusable(w, found, f"at most {geometry.padded}, the size of a padded image")
    most = max(channels, w.shape[0])
    sizes = g.shape[0], most, *geometry.padded
    addressable(name, *sizes, holder="images with their padding have")
    if max(*steps, *spread) > max(geometry.padded):
        # Longer steps than an image lead nowhere else, and libraries count them in 64 bits.
        geometry = replace(
            geometry,
            stride=_least(steps, geometry.padded),
            dilation=_least(spread, geometry.padded),
        )
    to = destination("out", out, g, (g.shape[0], w.shape[0], *geometry.size))
    if g.library != TORCH and on_device(g, w, b):
        from corepy.kernels.convolutions import device

        return device.conv2d(g, w, b, geometry, to)
    if 0 not in (*g.shape, *w.shape):
        if g.library == TORCH or _is_torchs(g, w, b, geometry):
            function = partial(torch.conv2d, wide=g.wide, geometry=geometry)
            return by_torch(g, function, w, b, out=to)
        if g.library == "numpy":
            return windows.conv2d(g, w, b, geometry, to)
        if (native := libraries.function_for(g)) is not None:
            return libraries.conv2d(native, g, w, b, geometry, to)
    return by_reference(reference.conv2d, g, (w, b), (to,), geometry=geometry)


def _least(steps: Pair, sizes: Pair) -> Pair:
    return min(steps[0], sizes[0]), min(steps[1], sizes[1])


def _is_torchs(x: Given, weight: Given, bias: Given | None, geometry: Geometry) -> bool:
    """Say whether a table of routes gives arrays of NumPy to torch."""
    if x.library != "numpy":
        return False

    def able(way: str) -> bool:
        return way == TORCH and torch_takes(x, weight, bias)

    products = x.shape[0] * weight.size * math.prod(geometry.size)
    form = "grouped" if windows.has_small_groups(weight, geometry) else ""
    return choose(x, able, products, lambda: FORMULA, form) == TORCH


def _pair(function: str, argument: str, value: Any, least: int) -> tuple[int, int]:
    """Return an integer for height and one for width."""
    if isinstance(value, tuple | list):
        if len(value) != 2:
            raise bad_argument(function, argument, value, "an integer, or a pair of them")
        height, width = (whole(function, argument, n, least) for n in value)
        return height, width
    both = whole(function, argument, value, least)
    return both, both


_PADDING: Final = "'same', 'valid', an integer, or a pair"


def _padding(
    value: Any, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return how many zeros are before and after, along height and width."""
    name = "conv2d"
    if isinstance(value, str):
        if value == "valid":
            return (0, 0), (0, 0)
        if value != "same":
            raise bad_argument(name, "padding", value, _PADDING)
        if stride != (1, 1):
            raise bad_argument(name, "padding", value, f"numbers, with a stride of {stride}")
        totals = [d * (k - 1) for d, k in zip(dilation, kernel)]
        top, left = (total // 2 for total in totals)
        return (top, totals[0] - top), (left, totals[1] - left)
    if not isinstance(value, tuple | list):
        try:
            index(value)
        except TypeError:
            raise bad_type(name, "padding", value, _PADDING) from None
        value = (value, value)
    if len(value) != 2:
        raise bad_argument(name, "padding", value, "an integer, or one or a pair for each axis")
    height, width = (_pair(name, "padding", axis, 0) for axis in value)
    return height, width
