"""Attention of CuPy's arrays by torch, on the stand-in of `tests.kernels.cuda_on_host`.

Memory of the host stands for a GPU's, and torch believes that there is one: so it is known without
one which calls torch computes, in which stream, and that memory is shared and stays. A program of
its own, for it puts its stand-in in the place of CuPy.
"""

from __future__ import annotations

import ctypes
import gc
import shutil
import sys
import weakref
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from tests.kernels import cuda_on_host

cupy: Any = sys.modules["cupy"]
#: Addresses of the current streams; whether CuPy's records a graph; those that torch entered.
STATE = SimpleNamespace(cupy=0, torch=0, recording=False, entered=[], shared=0)


class Memory:
    """Of a pool of CuPy's."""

    identity = "Memory"


class UnownedMemory:
    def __init__(self, ptr: int, size: int, owner: object, device_id: int) -> None:
        assert device_id == 0
        self.ptr, self.size, self.owner = ptr, size, owner


class MemoryPointer:
    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, 0


class ndarray(cuda_on_host.ndarray):
    def __init__(
        self, values: Any, dtype: Any = None, memptr: Any = None, strides: Any = None
    ) -> None:
        if memptr is not None:
            room = memptr.mem.size - (memptr.ptr - memptr.mem.ptr)
            memory = (ctypes.c_char * room).from_address(memptr.ptr)
            values = np.ndarray(values, dtype, memory, strides=strides)
        super().__init__(values)
        self.itemsize, self.flags = values.itemsize, values.flags
        plain = SimpleNamespace(ptr=values.ctypes.data, device_id=0, mem=Memory())
        self.data = memptr or plain

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        assert stream == -1  # whoever asks has seen to the order
        STATE.shared += 1
        if self.dtype.name == "bfloat16":
            words = torch.from_numpy(self.host.view(np.int16))
            return words.view(torch.bfloat16).__dlpack__()
        return torch.from_numpy(self.host).__dlpack__()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.host[key] = value.host


ndarray.__module__ = "cupy"


@contextmanager
def _entered(stream: Any) -> Any:
    before, STATE.torch = STATE.torch, stream.cuda_stream
    STATE.entered.append(stream.cuda_stream)
    yield
    STATE.torch = before


def _external(address: int, device: int) -> Any:
    assert address > 1  # torch would make a new one
    assert device == 0
    return SimpleNamespace(cuda_stream=address)


def install() -> None:
    cuda_on_host.ndarray = cupy.ndarray = ndarray  # type: ignore[misc]
    cupy.cuda.get_current_stream = lambda number: SimpleNamespace(
        ptr=STATE.cupy, is_capturing=lambda: STATE.recording
    )
    cupy.cuda.UnownedMemory, cupy.cuda.MemoryPointer = UnownedMemory, MemoryPointer
    fakes = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "init": lambda: None,
        "stream": _entered,
        "ExternalStream": _external,
        "default_stream": lambda number: SimpleNamespace(cuda_stream=0),
        "current_stream": lambda number: SimpleNamespace(cuda_stream=STATE.torch),
    }
    for name, fake in fakes.items():
        setattr(torch.cuda, name, fake)
    if hasattr(torch._C, "_cuda_getCurrentRawStream"):
        torch._C._cuda_getCurrentRawStream = lambda number: STATE.torch


import corepy  # noqa: E402
from corepy import kernels  # noqa: E402
from corepy.kernels._device import _tensors  # noqa: E402
from tests.kernels.test_attention import expected_of  # noqa: E402


def operands(heads: int, queries: int, keys: int, dtype: Any) -> list[Any]:
    shapes = (2, heads, queries, 16), (2, 2, keys, 16), (2, 2, keys, 16)
    return [cuda_on_host.draw(*s, dtype=dtype, seed=n) for n, s in enumerate(shapes)]


def attend(arrays: list[Any], dtype: Any = "f4", **options: Any) -> tuple[str, int]:
    """Hold attention to what is expected; return who computed it, and how many it took at once."""
    expected, terms, _ = expected_of(*map(cuda_on_host.values_of, arrays), **options)
    asked = {**options}
    if "mask" in asked:
        asked["mask"] = cuda_on_host.array(asked["mask"])
    before = STATE.shared
    cuda_on_host.agrees(kernels.attention(*arrays, **asked), expected, dtype, 2 * terms)
    taken = STATE.shared - before
    found = corepy.explain(kernels.attention, *arrays, **asked)
    cuda_on_host.agrees(found.result, expected, dtype, 2 * terms)
    (row,) = found.records
    assert row.device == "cuda:0"
    return row.backend, taken


def check_who_computes() -> None:
    bfloat16 = ml_dtypes.bfloat16
    assert attend(operands(4, 5, 5, bfloat16), bfloat16, causal=True) == ("torch", 3)
    assert attend(operands(4, 1, 7, bfloat16), bfloat16, causal=True) == ("torch", 3)
    assert attend(operands(2, 5, 7, "f4"), scale=0.5) == ("torch", 3)
    assert attend(operands(4, 5, 7, "f4")) == ("cupy", 0)  # heads that share, in float32
    skewed = {"causal": True, "causal_align": "top-left"}
    assert attend(operands(2, 5, 7, "f4"), **skewed) == ("torch", 3)
    assert attend(operands(4, 5, 7, bfloat16), bfloat16, **skewed) == ("cupy", 0)
    assert attend(operands(2, 5, 7, "f4"), causal=True) == ("cupy", 0)  # aligned at the end
    assert attend(operands(2, 5, 7, "f4"), mask=np.ones((5, 7), bool)) == ("cupy", 0)
    with corepy.reproducible():
        assert attend(operands(2, 5, 7, "f4")) == ("cupy", 0)


def check_layouts() -> None:
    q, k, v = operands(2, 6, 6, "f4")
    turned = [cuda_on_host.ndarray(x.host.swapaxes(1, 2).copy().swapaxes(1, 2)) for x in (q, k, v)]
    assert attend(turned) == ("torch", 3)
    assert attend([x[:, :, :, 1:] for x in (q, k, v)]) == ("cupy", 0)  # rows begin anywhere
    unified = Memory()
    unified.identity = "ManagedMemory"
    q.data.mem = unified
    assert attend([q, k, v]) == ("cupy", 0)


def check_streams() -> None:
    arrays = operands(2, 5, 7, "f4")
    for mine, its, entered in ((0, 0, []), (768, 0, [768] * 2), (768, 768, []), (0, 512, [0] * 2)):
        STATE.cupy, STATE.torch = mine, its
        STATE.entered.clear()
        assert attend(arrays) == ("torch", 3)
        assert STATE.entered == entered
        assert STATE.torch == its
    STATE.cupy, STATE.recording = 768, True
    assert attend(arrays) == ("cupy", 0)  # a graph's memory is CuPy's
    STATE.cupy, STATE.torch, STATE.recording = 0, 0, False


def check_memory() -> None:
    q, k, v = operands(2, 5, 5, "f4")
    found = kernels.attention(q, k, v)
    tensor = weakref.ref(found.data.mem.owner)
    values = found.host.copy()
    del q, k, v
    gc.collect()
    np.testing.assert_array_equal(found.host, values)
    assert tensor() is not None
    del found
    gc.collect()
    assert tensor() is None
    x = operands(2, 5, 5, "f4")[0]
    expected = cuda_on_host.values_of(kernels.attention(x, x, x))
    out = cuda_on_host.array(np.zeros_like(x.host))
    assert kernels.attention(x, x, x, out=out) is out
    np.testing.assert_array_equal(out.host, expected)


def check_errors() -> None:
    q, k, v = operands(2, 5, 5, "f4")
    refused: list[tuple[Any, dict[str, Any], type[Exception]]] = [
        ((q, k, v[:, :, :3]), {}, ValueError),
        ((q, k[:, :, :, :8], v[:, :, :, :8]), {}, ValueError),
        ((q[:1], k, v), {}, ValueError),
        ((q, operands(2, 5, 5, "f8")[1], v), {}, TypeError),
        ((q, k, v), {"causal": 1}, TypeError),
        ((q, k, v), {"causal_align": "top"}, ValueError),
        ((q, k, v), {"scale": np.inf}, ValueError),
        ((q, k, v), {"scale": True}, TypeError),
    ]
    for arrays, options, error in refused:
        with pytest.raises(error, match="^attention: "):
            kernels.attention(*arrays, **options)


def main() -> None:
    install()
    check_who_computes()
    check_layouts()
    check_streams()
    check_memory()
    check_errors()
    torch.cuda.is_available = lambda: False
    _tensors.computes_on.cache_clear()
    assert attend(operands(2, 5, 7, "f4")) == ("cupy", 0)
    shutil.rmtree(cuda_on_host.FOLDER)
    print("ok")


if __name__ == "__main__":
    main()
