"""Fused kernels: what transformer blocks need and no array library ships.

Every function takes and returns the caller's own arrays, those of NumPy, torch, JAX, CuPy,
pyopencl, any other library that corepy has a backend for, or `corepy.Array`, on whatever device
they live. On the host and from some size on it runs in loops compiled by Numba, if that is
installed; on devices of OpenCL, CUDA and ROCm in kernels written in C; else, and wherever gradients
or traces pass through, in the library's own functions.

Inputs of float16 and bfloat16 are computed in float32, those of float32 and float64 in their own
dtype, with sums over an axis in float32 or wider; results are rounded once, at the end.

``import corepy`` does not load this package; its first use does.
"""

from corepy.kernels.activations import gelu, silu, swiglu
from corepy.kernels.adam import adam_step
from corepy.kernels.attention import KVCache, PagedKVCache, attention
from corepy.kernels.convolutions import conv2d
from corepy.kernels.matrices import (
    attention_scores,
    gemm,
    gemv,
    matmul_vec,
    weighted_sum_rows,
)
from corepy.kernels.norms import batch_norm, layer_norm, rms_norm
from corepy.kernels.quantized import dequantize, matmul_int4, matmul_int8, quantize
from corepy.kernels.rotary import rope, rope_tables
from corepy.kernels.softmaxes import softmax

__all__ = [
    "KVCache",
    "PagedKVCache",
    "adam_step",
    "attention",
    "attention_scores",
    "batch_norm",
    "conv2d",
    "dequantize",
    "gelu",
    "gemm",
    "gemv",
    "layer_norm",
    "matmul_int4",
    "matmul_int8",
    "matmul_vec",
    "quantize",
    "rms_norm",
    "rope",
    "rope_tables",
    "silu",
    "softmax",
    "swiglu",
    "weighted_sum_rows",
]
