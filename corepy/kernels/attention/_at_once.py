"""The calls of attention that are most frequent on GPUs, computed after few looks.

A GPU is done with a thousand tokens in 30 us, in which Python looks at all arguments just once.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from corepy.kernels._arguments import FLOATS, name_of
from corepy.kernels._choice import is_usual
from corepy.kernels._memory import is_transformed
from corepy.kernels.attention.torch import function_of, pays


def at_once(q: Any, k: Any, v: Any, causal: Any, causal_align: Any, scale: Any) -> Any:
    """Compute attention by torch's function if that is what all further looks would end with.

    Returns
    -------
    array or None
        None where one would find something else, an error, or somebody who listens.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    kind = q.__class__
    if kind is torch.Tensor:
        if torch.compiler.is_compiling() or not _is_on_gpu(q):
            return None
    elif not _is_of_cupy(kind):
        return None
    if k.__class__ is not kind or v.__class__ is not kind or not is_usual():
        return None
    shape, others, dtype = q.shape, k.shape, q.dtype
    if len(shape) != 4 or len(others) != 4 or v.shape != others or 0 in shape or 0 in others:
        return None
    batch, heads, queries, size = shape
    _, kv_heads, keys, _ = others
    if others[0] != batch or others[3] != size or heads % kv_heads:
        return None
    name = name_of(dtype)
    if name not in FLOATS or k.dtype != dtype or v.dtype != dtype:
        return None
    if scale is None:
        scale = 1 / math.sqrt(size)
    elif scale.__class__ is not float or not math.isfinite(scale):
        return None
    if causal_align == "bottom-right":
        if causal is True and queries != keys:
            if queries != 1:
                return None
            causal = False  # it sees every key
    elif causal_align != "top-left":
        return None
    if causal is not True and causal is not False:
        return None
    shared = heads != kv_heads
    if kind is torch.Tensor:
        if k.device != q.device or v.device != q.device:
            return None
        if is_transformed(q, k, v):
            return None
        return function_of(causal, scale, shared)(q, k, v)
    cupy = sys.modules.get("cupy")
    if (
        cupy is None
        or kind is not cupy.ndarray
        or not pays(name, shared, causal and queries != keys)
    ):
        return None
    if not q.data.device_id == k.data.device_id == v.data.device_id:
        return None
    from corepy.kernels._device import _tensors

    if not _tensors.takes(q, k, v):
        return None
    return _tensors.computed(function_of(causal, scale, shared), q, k, v)


def _is_of_cupy(kind: type) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and kind is cupy.ndarray


def _is_on_gpu(tensor: Any) -> bool:
    """Say whether compiled kernels of the host have no part in it."""
    return bool(tensor.is_cuda)
