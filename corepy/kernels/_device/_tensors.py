"""CuPy's arrays as torch's tensors: the same memory, in the stream that is CuPy's current one.

What torch computes so is ordered among the work of CuPy's stream as CuPy's own is. torch takes the
memory of a result, and of what it needs meanwhile, for that stream, and gives it to others there
when nothing refers to it, as CuPy's pool does. While a graph is recorded CuPy's pool is to hold all
memory, so that torch takes no part.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import cupy

from corepy._errors import BackendUnavailableError
from corepy._extensions import is_there
from corepy.backends.cupy._lending import DEFAULT, is_capturing, is_plain, view
from corepy.dispatch import load
from corepy.kernels._device._cupy import torch_stream
from corepy.kernels._device._runtime import VECTOR_BYTES


@cache
def computes_on(number: int) -> bool:
    """Say whether torch computes on a GPU, which is one of CUDA: with ROCm nobody has tried."""
    if not is_there("torch") or cupy.cuda.runtime.is_hip:
        return False
    try:
        load("torch")  # what is wrong with it is kept for `corepy info`
    except BackendUnavailableError:
        return False
    torch = sys.modules["torch"]
    if torch.version.hip is not None or not torch.cuda.is_available():
        return False
    if number >= torch.cuda.device_count():
        return False
    torch.cuda.init()
    return True


def takes(*natives: Any) -> bool:
    """Say whether torch may compute with some arrays, which are on one GPU, in its stream.

    The kernels of torch move several elements at a time, and so rows have to begin where these may.
    """
    laid = (is_laid(native.shape, native.strides, native.itemsize) for native in natives)
    return all(laid) and is_at_home(*natives)


def is_at_home(*natives: Any) -> bool:
    """Say what `takes` does of arrays that `is_laid` has looked at, which may be on two GPUs."""
    number = natives[0].data.device_id
    for native in natives:
        if native.data.device_id != number or not is_plain(native):
            return False
    return computes_on(number) and not is_capturing(number)


def is_laid(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Say whether rows follow each other, or begin at multiples of what torch's kernels move."""
    expected, dense, spaced = itemsize, True, strides[-1] == itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        dense = dense and (n == 1 or stride == expected)
        expected *= n
    return dense or (spaced and all(s >= 0 and s % VECTOR_BYTES == 0 for s in strides[:-1]))


def computed(function: Callable[..., Any], *natives: Any) -> Any:
    """Return the tensor that a function makes of tensors, all of them as arrays of CuPy.

    The result has the dtype of the first array.
    """
    torch, first = sys.modules["torch"], natives[0]
    number = first.data.device_id
    share = torch.from_dlpack
    # Without any order between streams, for there will be but one.
    tensors = [share(native.__dlpack__(stream=-1)) for native in natives]
    address = cupy.cuda.get_current_stream(number).ptr
    if address == torch_stream(number):
        found = function(*tensors)
    else:
        with torch.cuda.stream(_stream(address, number)):
            found = function(*tensors)
    return _array(found, first.dtype, number)


@lru_cache(maxsize=64)
def _stream(address: int, number: int) -> Any:
    """Return torch's object for a stream."""
    cuda = sys.modules["torch"].cuda
    if address in DEFAULT:
        return cuda.default_stream(number)
    return cuda.ExternalStream(address, device=number)


def _array(tensor: Any, dtype: Any, number: int) -> Any:
    """Return the memory of a tensor, which lives as long, as an array."""
    strides = None
    if not tensor.is_contiguous():
        strides = tuple(step * dtype.itemsize for step in tensor.stride())
    return view(tensor.data_ptr(), tuple(tensor.shape), dtype, strides, tensor, number)
