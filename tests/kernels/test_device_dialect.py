"""The dialect of the device kernels: conversions, vectors, reductions; and what compiles it."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corepy.kernels._arguments import given
from corepy.kernels._device import Program, launch, memory
from corepy.kernels.activations.device import _programs as activations
from corepy.kernels.adam.device import _program as adam
from corepy.kernels.attention.device import _cache_program as caches
from corepy.kernels.attention.device import _program as attention
from corepy.kernels.attention.device import _tensor_program as tensorcores
from corepy.kernels.convolutions.device import _program as convolutions
from corepy.kernels.matrices.device import _program as matrices
from corepy.kernels.norms.device import _batch_program as batches
from corepy.kernels.norms.device import _program as norms
from corepy.kernels.quantized.device import _program as quantized
from corepy.kernels.rotary.device import _program as rotary
from corepy.kernels.softmaxes.device import _program as softmaxes
from tests.conftest import required
from tests.kernels.libraries import Kind, device_kinds, host

ROOT = Path(__file__).resolve().parents[2]
DIALECT = Program(__file__, "dialect.c")
BLOCK = 256

each = pytest.mark.parametrize("kind", device_kinds())


def run(kind: Kind, name: str, outs: tuple[Any, ...], *arrays: Any, **defines: Any) -> list[Any]:
    """Launch a kernel of one work-item an element of its first array; return what it filled."""
    operands = [given("test", f"x{n}", x) for n, x in enumerate((*arrays, *outs))]
    size = [] if name == "across" else [np.int64(operands[0].size)]
    grid = (-(-operands[0].size // (BLOCK * int(defines.get("VECTOR", 1)))),)
    arguments = (*map(memory, operands), *size)
    launch(operands[0], DIALECT, name, grid=grid, block=(BLOCK,), arguments=arguments, **defines)
    return [raw(out) for out in outs]


def raw(x: Any) -> Any:
    """Return an array's own values on the host."""
    if hasattr(x, "get"):
        return x.get()
    x = x.cpu()
    short = x.is_floating_point() and x.element_size() == 2  # NumPy has no bfloat16
    return (x.float() if short else x).numpy()


@each
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_word_is_decoded(kind: Kind, dtype: str) -> None:
    words = np.arange(1 << 16, dtype=np.uint16)
    out = kind.array(np.zeros(words.size, "f4"))
    (got,) = run(kind, "decode", (out,), kind.array(words.view(np.int16)), X=dtype)
    expected = words.view(np.float16).astype("f4")
    if dtype == "bfloat16":
        expected = (words.astype(np.uint32) << 16).view("f4")
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)  # whose sign GPUs drop as they widen it
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


@each
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_are_rounded_to_even(kind: Kind, dtype: str) -> None:
    ml_dtypes = required("ml_dtypes")
    target = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    with np.errstate(invalid="ignore"):
        each_one = np.arange(1 << 16, dtype=np.uint16).view(target).astype("f4")
    bits = each_one.view(np.uint32)
    middle = 1 << (12 if dtype == "float16" else 15)  # half of a unit in the last place
    near = [bits, bits + middle, bits + middle - 1, bits + middle + 1]
    drawn = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    edges = np.array([65519.996, 65520.0, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, 3.4e38], "f4")
    values = np.concatenate([*near, drawn]).view("f4")
    values = np.concatenate([values, edges, -edges])
    (got,) = run(
        kind, "encode", (kind.array(np.zeros(values.size, np.int16)),), kind.array(values), X=dtype
    )
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(target)
    number = ~np.isnan(values)
    np.testing.assert_array_equal(got.view(np.uint16)[number], expected.view(np.uint16)[number])
    assert np.isnan(got.view(target)[~number].astype("f4")).all()


@each
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_vectors_come_and_go(kind: Kind, dtype: str) -> None:
    vector = {"float64": 2, "float32": 4}.get(dtype, 8)
    x = kind.array(np.random.default_rng(0).standard_normal(4 * BLOCK * vector - 1), dtype)
    out = kind.array(np.zeros(x.shape), dtype)
    wide = "float64" if dtype == "float64" else "float32"
    run(kind, "move", (out,), x, X=dtype, VECTOR=vector, WIDE=wide)
    np.testing.assert_array_equal(host(out), host(x))


@each
@pytest.mark.parametrize("lanes", [32, 256])
def test_reductions(kind: Kind, lanes: int) -> None:
    values = np.random.default_rng(lanes).integers(-99, 99, BLOCK).astype("f4")
    outs = tuple(kind.array(np.zeros(BLOCK, "f4")) for _ in range(3))
    sums, greatest, others = run(kind, "across", outs, kind.array(values), X="float32", LANES=lanes)
    rows = values.reshape(-1, lanes)
    np.testing.assert_array_equal(sums, rows.sum(1).repeat(lanes))
    np.testing.assert_array_equal(greatest, rows.max(1).repeat(lanes))
    np.testing.assert_array_equal(others, values[np.arange(BLOCK) ^ 5])


@each
def test_products_are_not_fused(kind: Kind) -> None:
    a = np.random.default_rng(0).standard_normal(BLOCK).astype("f4")
    out = kind.array(np.zeros(BLOCK, "f4"))
    arrays = (kind.array(a), kind.array(a), kind.array(-(a * a)))
    (got,) = run(kind, "rounded", (out,), *arrays, X="float32")
    assert (got == 0.0).all()  # a fused one leaves the rounding of a * a


# ---------------------------------------------------------------------------- compilers

HALF = {"X": "bfloat16", "WIDE": "float32", "VECTOR": 8}
DOUBLE = {"X": "float64", "WIDE": "float64", "VECTOR": 2}
OF_PROBLEM = {"BIAS": "float32", "LENGTHS": "int32", "QUERY_LENGTHS": "int64"}
TILES = {"TILE_ROWS": 8, "TILE_KEYS": 8, "DOWN": 8, "ACROSS": 8, "LONG": 1}
TENSOR_CORES = "attention by tensor cores"
#: Programs, and macros that they are built with.
BUILDS: dict[str, tuple[Program, dict[str, Any]]] = {
    "norms": (
        norms,
        {**HALF, "HELD": 4, "LANES": 256, "W": "float32", "B": "bfloat16"}
        | {"RESIDUAL": 1, "WEIGHTED": 1},
    ),
    "batches": (batches, {**HALF, **dict.fromkeys("MVWB", "float32")}),
    "convolutions": (convolutions, {**HALF, "B": "float32", "HEIGHT": 3, "WIDTH": 3}),
    "softmaxes": (softmaxes, {**DOUBLE, "HELD": 4, "LANES": 32, "MASKED": 1}),
    "activations": (activations["float32"], {**HALF, "FUNCTION": "gelu", "OPENED": 1}),
    "rotary": (rotary, {**HALF, "C": "float32", "P": "int32", "INTERLEAVED": 1, "LANES": 16}),
    "matrices": (matrices, {**HALF, "HELD": 0, "LANES": 256}),
    "adam": (adam, {**HALF, "G": "bfloat16", "M": "float32"}),
    "attention in tiles": (attention, {**DOUBLE, **OF_PROBLEM, **TILES, "D": 256}),
    "attention by keys": (attention, {**HALF, **OF_PROBLEM, "D": 128, "FEW": 4, "SPAN": 512}),
    TENSOR_CORES: (tensorcores, {**HALF, **OF_PROBLEM, "D": 128, "TILES": 2, "TILE_KEYS": 32}),
    "caches": (caches, {"X": "uint16"}),
    "quantized": (
        quantized,
        {**HALF, "VALUES": "uint8", "BITS": 4, "LANES": 32, "TOGETHER": 8, "LONG": 1},
    ),
    "the dialect": (DIALECT, {"X": "float16", "LANES": 64}),
}


#: Work-items of a group, where it is not BLOCK.
ITEMS = {"attention in tiles": 64, "attention by keys": 128, TENSOR_CORES: 128, "quantized": 128}


def text(name: str) -> str:
    program, defines = BUILDS[name]
    return program.text((ITEMS.get(name, BLOCK), 1, 1), tuple(defines.items()))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("name", BUILDS)
def test_it_compiles_for_cuda(name: str, tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text(text(name))
    targets = [f"-gencode=arch=compute_{sm},code=sm_{sm}" for sm in (80, 90)]
    log = built(["nvcc", "-fatbin", *targets, "-Xptxas=-v", "-o", "kernel.fatbin"], tmp_path)
    spills = [line for line in log.splitlines() if "spill" in line]
    assert len(spills) >= 2  # at least one kernel, for both
    assert all("0 bytes spill stores, 0 bytes spill loads" in line for line in spills), log


@pytest.mark.needs("ml_dtypes")
@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("c++") is None, reason="needs Linux and a C++ compiler"
)
@pytest.mark.parametrize(
    "name", ["cuda_on_host", pytest.param("replay_on_host", marks=pytest.mark.needs("torch"))]
)
def test_cuda_computes_the_same_on_the_host(name: str) -> None:
    """Whatever only CUDA's form of the source and its launches through CuPy have."""
    script = [sys.executable, "-W", "error", "-m", f"tests.kernels.{name}"]
    done = subprocess.run(script, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "ok\n", done.stderr


def hip_compiler() -> list[str] | None:
    """Return a Clang that compiles for AMD's GPUs: the system's, or that of the wheel ziglang."""
    for name in ("amdclang++", "clang++", "clang++-19"):
        if shutil.which(name):
            targets = subprocess.check_output([name, "-print-targets"], text=True)
            if "amdgcn" in targets:
                return [name]
    return (
        [sys.executable, "-m", "ziglang", "clang"] if importlib.util.find_spec("ziglang") else None
    )


@pytest.mark.skipif(hip_compiler() is None, reason="needs a Clang for AMD's GPUs, or ziglang")
@pytest.mark.parametrize("name", [name for name in BUILDS if name != TENSOR_CORES])
def test_it_compiles_for_hip(name: str, tmp_path: Path) -> None:
    """For gfx942, with declarations in place of HIP's headers, and calls of its library open."""
    stand_in = Path(__file__).with_name("hip.h").read_text(encoding="utf-8")
    (tmp_path / "kernel.cu").write_text(stand_in + text(name))
    compiler = hip_compiler()
    assert compiler is not None
    flags = ["-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "--offload-arch=gfx942"]
    built(
        [*compiler, *flags, "-O2", "-S", "-Wall", "-Wno-unused-function", "-o", "kernel.s"],
        tmp_path,
    )
    assert ".amdhsa_kernel" in (tmp_path / "kernel.s").read_text()


def built(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        [*command, "kernel.cu"], check=False, cwd=folder, capture_output=True, text=True
    )
    log = done.stdout + done.stderr
    assert done.returncode == 0, log
    assert "warning" not in log.lower(), log
    return log
