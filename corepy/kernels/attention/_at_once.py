"""The calls of attention that are most frequent on GPUs, computed after few looks.

A GPU is done with a thousand tokens in 30 us, in which Python looks at all arguments just once.
"""

from __future__ import annotations

import math
import sys
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from corepy.kernels._arguments import FLOATS, name_of, torch_layout
from corepy.kernels._ways import is_usual
from corepy.kernels.attention.torch import STEEPEST, function_of, pays


def at_once(q: Any, k: Any, v: Any, causal: Any, causal_align: Any, scale: Any) -> Any:
    """Compute attention by torch's function if that is what all further looks would end with.

    Returns
    -------
    array or None
        None where one would find something else, an error, or somebody who listens.
    """
    torch = sys.modules.get("torch")
    kind = q.__class__
    if torch is None or k.__class__ is not kind or v.__class__ is not kind or not is_usual():
        return None
    # What is neither of these may equal one of them, or be nothing to look up.
    if causal.__class__ is not bool or causal_align.__class__ is not str:
        return None
    if scale is not None and scale.__class__ is not float:
        return None
    if torch.is_autocast_enabled("cuda"):
        return None
    how = causal, causal_align, scale
    if kind is torch.Tensor:
        if torch.compiler.is_compiling() or not _is_on_gpu(q):
            return None
        layout = torch_layout()
        if layout.is_heard() or layout.is_transformed():
            return None
        found = _how_of_tensors(q.dtype, k.dtype, v.dtype, q.shape, k.shape, v.shape, *how)
        if found is None or k.device != q.device or v.device != q.device:
            return None
        if q.stride(-1) != 1 or k.stride(-1) != 1 or v.stride(-1) != 1:
            return None
        return function_of(*found)(q, k, v)
    cupy = sys.modules.get("cupy")
    if cupy is None or kind is not cupy.ndarray:
        return None
    strides = q.strides, k.strides, v.strides
    found = _how_of_arrays(strides, q.dtype, k.dtype, v.dtype, q.shape, k.shape, v.shape, *how)
    if found is None:
        return None
    tensors = _tensors()
    if not tensors.is_at_home(q, k, v):
        return None
    return tensors.computed(function_of(*found), q, k, v)


@lru_cache(maxsize=4096)
def _how_of_tensors(
    dtype: Any,
    k_dtype: Any,
    v_dtype: Any,
    shape: tuple[int, ...],
    k_shape: tuple[int, ...],
    v_shape: tuple[int, ...],
    causal: bool,
    causal_align: str,
    scale: float | None,
) -> tuple[bool, float, bool] | None:
    """Return what `function_of` takes, or None where torch's function does not serve."""
    if len(shape) != 4 or len(k_shape) != 4 or v_shape != k_shape or 0 in shape or 0 in k_shape:
        return None
    batch, heads, queries, size = shape
    _, kv_heads, keys, _ = k_shape
    if k_shape[0] != batch or k_shape[3] != size or heads % kv_heads:
        return None
    if name_of(dtype) not in FLOATS or k_dtype != dtype or v_dtype != dtype:
        return None
    if scale is None:
        scale = 1 / math.sqrt(size)
    if not 0 < scale <= STEEPEST or causal_align not in ("bottom-right", "top-left"):
        return None
    if causal and causal_align == "bottom-right":
        if queries not in (1, keys):
            return None
        causal = queries != 1  # else it sees every key
    shared = heads != kv_heads
    if causal and not pays(name_of(dtype), shared, queries != keys):
        return None  # what is hidden would not stay so
    return causal, scale, shared


@lru_cache(maxsize=4096)
def _how_of_arrays(
    strides: tuple[tuple[int, ...], ...], dtype: Any, *looks: Any
) -> tuple[bool, float, bool] | None:
    """Return the same for arrays of CuPy, of which torch's function takes fewer."""
    found = _how_of_tensors(dtype, *looks)
    if found is None:
        return None
    shapes = looks[2:5]
    causal, _, shared = found
    if not pays(name_of(dtype), shared, causal and shapes[0][2] != shapes[1][2]):
        return None
    laid = map(_tensors().is_laid, shapes, strides, (dtype.itemsize,) * 3)
    return found if all(laid) else None


@cache
def _tensors() -> Any:
    """Return the module that lends arrays of CuPy, without the time that a statement takes."""
    return import_module("corepy.kernels._device._tensors")


def _is_on_gpu(tensor: Any) -> bool:
    """Say whether compiled kernels of the host have no part in it."""
    return bool(tensor.is_cuda)
