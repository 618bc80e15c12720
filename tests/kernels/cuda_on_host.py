"""Device kernels as CuPy launches them, on a stand-in for CuPy that runs CUDA's source on the host.

A C++ compiler compiles the very source, and a thread runs each work-item. So it is known, without a
GPU, that arguments arrive in their places, and that warps and groups exchange what they should. A
program of its own, for it puts its stand-in in the place of CuPy.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

FOLDER = Path(tempfile.mkdtemp(prefix="corepy-cuda-"))
COMPILER = ("c++", "-std=c++20", "-O0", "-fPIC", "-pthread", "-w")


@cache
def prepared() -> str:
    """Return the name of what stands in for CUDA, compiled once: it takes as long as a kernel."""
    header = FOLDER / "cuda_on_host.h"
    shutil.copy(Path(__file__).with_name(header.name), header)
    subprocess.run([*COMPILER, "-x", "c++-header", header.name], cwd=FOLDER, check=True)
    return str(header)


class Device(nullcontext[None]):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.id = number
        self.attributes = {"MultiProcessorCount": 1}

    def synchronize(self) -> None:
        """Nothing to wait for."""


class ndarray:
    """Memory of the host."""

    device = Device(0)

    def __init__(self, values: Any) -> None:
        self.host = values
        self.shape, self.dtype, self.strides = values.shape, values.dtype, values.strides
        self.nbytes = values.nbytes
        self.data = SimpleNamespace(ptr=values.ctypes.data, device_id=0)

    def __getitem__(self, key: Any) -> ndarray:
        return ndarray(self.host[key])


class RawKernel:
    """A kernel in a library of its own."""

    def __init__(self, code: str, name: str) -> None:
        entry = (
            f'extern "C" void start(unsigned groups, unsigned items, void **arguments)\n'
            f"{{ launch({name}, groups, items, arguments); }}\n"
        )
        folder = Path(tempfile.mkdtemp(dir=FOLDER))
        (folder / "kernel.cpp").write_text(code + entry)
        flags = ["-shared", "-include", prepared(), "-o", "kernel.so"]
        subprocess.run([*COMPILER, *flags, "kernel.cpp"], cwd=folder, check=True)
        self.start = ctypes.CDLL(str(folder / "kernel.so")).start
        self.kernel = self  # what CuPy loads for a device

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        shared_mem: int,
        stream: Any = None,
    ) -> None:
        assert grid[1:] == block[1:] == (1, 1)
        values = [np.asarray(self._scalar(a)) for a in args]
        pointers = (ctypes.c_void_p * len(values))(*(v.ctypes.data for v in values))
        self.start(grid[0], block[0], pointers)

    @staticmethod
    def _scalar(argument: Any) -> Any:
        if argument is None:
            return np.uint64(0)
        return argument if isinstance(argument, np.generic) else np.uint64(argument.ptr)


def array(values: Any, *, blocking: bool = False) -> Any:
    return ndarray(np.array(values))


def values_of(x: Any) -> Any:
    """Return what float64 holds of an array."""
    return x.host.astype("f8")


def stand_in() -> ModuleType:
    module: Any = ModuleType("cupy")
    module.__spec__ = ModuleSpec("cupy", None)
    module.ndarray, module.RawKernel, module.__version__ = ndarray, RawKernel, "14.0"
    module.asarray, module.asnumpy = array, lambda x: x.host
    module.empty = lambda shape, dtype: array(np.full(shape, 77, dtype))
    runtime = SimpleNamespace(getDevice=lambda: 0, getDeviceCount=lambda: 1, is_hip=False)
    module.cuda = SimpleNamespace(Device=Device, runtime=runtime)
    ndarray.__module__ = "cupy"
    return module  # type: ignore[no-any-return]


sys.modules["cupy"] = stand_in()

import corepy  # noqa: E402
from corepy import kernels  # noqa: E402
from tests.kernels import libraries  # noqa: E402
from tests.kernels.test_attention import expected_of  # noqa: E402
from tests.kernels.test_convolutions import expected_of as convolution_of  # noqa: E402

BOUNDS = {"f4": 1e-5, ml_dtypes.bfloat16: 1.6e-2}


def agrees(got: Any, expected: Any, dtype: Any, scale: Any = None) -> None:
    assert type(got) is ndarray
    assert got.dtype == dtype
    size = np.abs(expected) if scale is None else scale
    error = np.abs(values_of(got) - expected)
    assert (error <= BOUNDS[dtype] * size + 1e-37).all(), error.max()


def draw(*shape: int, dtype: Any = "f4", seed: int = 0) -> Any:
    return array(libraries.sample(*shape, seed=seed, dtype=dtype))


def check_norms(*shape: int) -> None:
    x, r, w = draw(*shape), draw(*shape, seed=1), draw(shape[-1])
    out, summed = kernels.rms_norm(x, w, 1e-5, residual=r)
    exact = (values_of(x) + values_of(r)).astype("f4").astype("f8")
    np.testing.assert_array_equal(values_of(summed), exact)
    agrees(out, libraries.rms_norm(exact, values_of(w), 1e-5), "f4")
    expected, terms = libraries.layer_norm(values_of(x), values_of(w), 0.0, 1e-5)
    agrees(kernels.layer_norm(x, w, None, 1e-5), expected, "f4", terms)


def check_softmax(*shape: int) -> None:
    x, mask = draw(*shape), np.random.default_rng(0).random(shape) < 0.7
    expected = libraries.softmax(values_of(x), -1, 0.5, mask)
    agrees(kernels.softmax(x, -1, scale=0.5, mask=array(mask)), expected, "f4")


def check_elements() -> None:
    x, y = draw(6, 64), draw(6, 64, seed=1)
    agrees(kernels.swiglu(x, y), values_of(x) * libraries.silu(values_of(y)), "f4")
    agrees(kernels.silu(x[::-1, ::2]), libraries.silu(values_of(x)[::-1, ::2]), "f4")
    assert kernels.silu(x, out=y) is y
    agrees(y, libraries.silu(values_of(x)), "f4")
    spread = ndarray(np.lib.stride_tricks.as_strided(y.host, (6, 64), (0, 4)))
    with pytest.raises(ValueError, match="^silu: out has elements that share their memory"):
        kernels.silu(x, out=spread)
    none = ndarray(np.zeros((0, 64), "f4"))  # of which all strides are zero
    assert kernels.silu(draw(0, 64), out=none) is none


def check_rope() -> None:
    x, places = draw(5, 64), np.arange(5)[::-1] + 1
    cos, sin = kernels.rope_tables(9, 64, like=x)
    tables = values_of(cos), values_of(sin)
    expected, terms = libraries.rope(values_of(x), *tables, places, True)
    got = kernels.rope(x, cos, sin, layout="interleaved", positions=array(places))
    agrees(got, expected, "f4", terms)


def check_adam(dtype: Any) -> None:
    p, g, m, v = (array(np.abs(values_of(draw(500, seed=n))).astype(dtype)) for n in range(4))
    p8, g8, m8, v8 = map(values_of, (p, g, m, v))
    kernels.adam_step(p, g, m, v, step=2, learning_rate=0.1)
    m8, v8 = 0.9 * m8 + 0.1 * g8, 0.999 * v8 + 0.001 * g8**2
    step = 0.1 * m8 / (1 - 0.9**2) / (np.sqrt(v8 / (1 - 0.999**2)) + 1e-8)
    agrees(m, m8, dtype)
    agrees(v, v8, dtype)
    agrees(p, p8 - step, dtype, p8 + np.abs(step))


def check_attention(queries: int) -> None:
    q, k, v = draw(2, 4, queries, 24), draw(2, 2, 200, 24), draw(2, 2, 200, 24, seed=1)
    lengths, options = np.array([200, 30]), {"causal": True, "window": 150}
    arrays = [values_of(x) for x in (q, k, v)]
    expected, terms, sums = expected_of(*arrays, lengths=lengths, **options)
    out, lse = kernels.attention(q, k, v, lengths=array(lengths), return_lse=True, **options)
    agrees(out, expected, "f4", 2 * terms)
    agrees(lse, sums, "f4", 1 + np.abs(sums))
    cache = kernels.PagedKVCache(2, 2, 9, 50, 24, like=q)
    cache.append(k, v)
    expected, terms, _ = expected_of(*arrays, causal=True)
    agrees(cache.attend(q), expected, "f4", 2 * terms)


def check_masks_of_finite_minima(keys: int) -> None:
    q, k, v = draw(1, 1, 2, 24), draw(1, 1, keys, 24), draw(1, 1, keys, 24, seed=1)
    bias = np.full((1, 1, 2, keys), np.finfo("f4").min)
    bias[:, :, 1, :30] = 0
    expected, terms, sums = expected_of(*(values_of(x) for x in (q, k, v)), bias=bias.astype("f8"))
    out, lse = kernels.attention(q, k, v, bias=array(bias), return_lse=True)
    agrees(out, expected, "f4", 2 * terms)
    agrees(lse, sums, "f4", 1 + np.abs(sums))


def check_long_sums() -> None:
    x, weight = array(np.full((1, 512, 3, 3), 0.1, "f4")), np.full((16, 512, 3, 3), 0.1, "f4")
    for filters in (1, 16):  # one by one, and in tiles
        got = kernels.conv2d(x, array(weight[:filters]))
        agrees(got, np.full((1, filters, 1, 1), 512 * 9 * float(np.float32(0.1)) ** 2), "f4")


def check_quantized() -> None:
    x, matrix = draw(3, 64), draw(18, 64, seed=1)
    values, scales = kernels.quantize(matrix, bits=4, group_size=32)
    back = kernels.dequantize(values, scales)
    spread = np.repeat(values_of(scales), 32, axis=-1)
    assert (np.abs(values_of(back) - values_of(matrix)) <= 0.5001 * spread).all()
    terms = np.abs(values_of(x)) @ np.abs(values_of(back)).T
    agrees(kernels.matmul_int4(x, values, scales), values_of(x) @ values_of(back).T, "f4", terms)


def check_images() -> None:
    x, bias, options = draw(2, 8, 5, 6), draw(40, seed=1), {"padding": 1, "stride": (1, 2)}
    for groups in (1, 4):  # in tiles, and one by one
        w = draw(40, 8 // groups, 3, 2)
        operands = [values_of(x), values_of(w)]
        expected = convolution_of(*operands, groups=groups, **options)
        terms = convolution_of(*map(np.abs, operands), groups=groups, **options)
        shift = values_of(bias)[:, None, None]
        got = kernels.conv2d(x, w, bias, groups=groups, **options)
        agrees(got, expected + shift, "f4", terms + np.abs(shift))
    m, v = draw(8), draw(8, seed=1)
    middle, spread = (values_of(p)[:, None, None] for p in (m, v))
    expected = (values_of(x) - middle) / np.sqrt(spread + 9.0)
    agrees(kernels.batch_norm(x, m, v, eps=9.0), expected, "f4", 1.0 + np.abs(expected))


def main() -> None:
    check_norms(5, 64)  # a warp for a row
    check_softmax(3, 301)  # a group for a row
    check_elements()
    check_rope()
    check_adam(ml_dtypes.bfloat16)
    check_attention(2)  # keys in parts
    check_attention(20)  # tiles
    for keys in (300, 600, 1100):
        check_masks_of_finite_minima(keys)
    check_long_sums()
    check_quantized()
    check_images()
    (row,) = corepy.explain(kernels.silu, draw(4, 16)).records
    assert (row.backend, row.device) == ("cupy", "cuda:0")
    shutil.rmtree(FOLDER)
    print("ok")


if __name__ == "__main__":
    main()
