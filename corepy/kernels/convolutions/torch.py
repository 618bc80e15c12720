"""Convolution by torch's own function."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from corepy.dispatch import get_tf32
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
    with _tf32(x.device.type):
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


def _tf32(device: str) -> AbstractContextManager[Any]:
    """Let cuDNN cut float32 to 11 bits, as it does unless told, if `corepy.enable_tf32` says so."""
    import torch

    cudnn, allowed = torch.backends.cudnn, get_tf32()
    if device != "cuda" or cudnn.allow_tf32 == allowed or torch.compiler.is_compiling():
        return nullcontext()
    found: AbstractContextManager[Any] = cudnn.flags(
        enabled=cudnn.enabled,
        benchmark=cudnn.benchmark,
        deterministic=cudnn.deterministic,
        allow_tf32=allowed,
    )
    return found
