"""Convolution by torch's own function."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from corepy.kernels.convolutions._geometry import Geometry


def conv2d(x: Any, weight: Any, bias: Any, *, wide: str, geometry: Geometry) -> Any:
    """Convolve tensors; the bias may be of the wider dtype."""
    import torch

    function, g, dtype = torch.nn.functional, geometry, x.dtype
    # On the host 16-bit floats are widened; elsewhere they are what the hardware multiplies best.
    if x.device.type == "cpu" or (bias is not None and bias.dtype != dtype):
        x, weight = x.to(getattr(torch, wide)), weight.to(getattr(torch, wide))
    (top, bottom), (left, right) = g.padding
    even = top == bottom and left == right
    if not even:
        x = function.pad(x, (left, right, top, bottom))
    with _without_tf32(x.device.type):
        found = function.conv2d(
            x,
            weight,
            None if bias is None else bias.to(x.dtype),
            stride=g.stride,
            padding=(top, left) if even else 0,
            dilation=g.dilation,
            groups=g.groups,
        )
    return found.to(dtype)


def _without_tf32(device: str) -> AbstractContextManager[Any]:
    """Keep cuDNN from cutting float32 to 10 bits, which for convolutions it does unless told."""
    import torch

    cudnn = torch.backends.cudnn
    if device != "cuda" or not cudnn.allow_tf32 or torch.compiler.is_compiling():
        return nullcontext()
    found: AbstractContextManager[Any] = cudnn.flags(
        enabled=cudnn.enabled,
        benchmark=cudnn.benchmark,
        deterministic=cudnn.deterministic,
        allow_tf32=False,
    )
    return found
