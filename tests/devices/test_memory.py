"""Free memory, the check against it, and the estimate for language models."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from corepy._errors import BackendUnavailableError, InsufficientMemoryError
from corepy.devices import _memory
from corepy.devices._device import CPU, as_device
from corepy.devices._memory import (
    MemoryInfo,
    estimate_inference_memory,
    memory_info,
    require_memory,
)
from corepy.devices._probe import Ground

GIB = 2**30

LLAMA2_7B: dict[str, int] = {
    "dim": 4096, "hidden_dim": 11008, "n_layers": 32, "vocab_size": 32000,
    "n_heads": 32, "n_kv_heads": 32, "seq_len": 4096, "bytes_per_weight": 2,
}  # fmt: skip
LLAMA3_8B = LLAMA2_7B | {
    "hidden_dim": 14336, "vocab_size": 128256, "n_kv_heads": 8, "seq_len": 8192,
}  # fmt: skip
LLAMA32_1B = {
    "dim": 2048, "hidden_dim": 8192, "n_layers": 16, "vocab_size": 128256,
    "n_heads": 32, "n_kv_heads": 8, "seq_len": 2048, "bytes_per_weight": 2,
}  # fmt: skip


@pytest.fixture
def limited(tmp_path: Path) -> Ground:
    """Lay out a machine of 64 GiB that grants this process 10, of which 6 are free."""
    files = {
        "proc/meminfo": f"MemTotal: {64 * 2**20} kB\nMemAvailable: {32 * 2**20} kB\n",
        "proc/self/cgroup": "0::/job\n",
        "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/job/memory.max": f"{10 * GIB}\n",
        "sys/fs/cgroup/job/memory.current": f"{4 * GIB}\n",
        "sys/fs/cgroup/job/memory.stat": "inactive_file 0\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Ground(tmp_path, "Linux", "x86_64", {})


# ---------------------------------------------------------------------------- free memory


def test_memory_of_this_machine() -> None:
    memory = memory_info("cpu")
    assert 0 < memory.free_bytes <= memory.total_bytes
    assert memory_info(CPU).total_bytes == memory.total_bytes


def test_memory_of_a_limited_process(limited: Ground) -> None:
    assert _memory._read_memory(CPU, limited, "f") == MemoryInfo(10 * GIB, 6 * GIB)


def test_memory_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(
        BackendUnavailableError,
        match="^memory_info: device is 'tpu:0'; expected one whose memory can be read "
        r"\(no library that is in use there tells of it\)$",
    ):
        memory_info("tpu")
    empty = Ground(tmp_path, "Linux", "x86_64", {})
    with pytest.raises(BackendUnavailableError, match=r"f: device is 'cpu'.*meminfo: No such file"):
        _memory._read_memory(CPU, empty, "f")
    with pytest.raises(BackendUnavailableError, match=r"'rocm:0'.*nodes: No such"):
        _memory._read_memory(as_device("rocm"), empty, "f")


def test_memory_that_a_library_in_use_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [SimpleNamespace(memory_info=lambda device: None)]
    monkeypatch.setattr(_memory, "serving", lambda device: told if device.kind == "tpu" else [])
    with pytest.raises(BackendUnavailableError, match="device is 'tpu:0'"):
        memory_info("tpu:0")
    told.append(SimpleNamespace(memory_info=lambda device: MemoryInfo(5 * GIB, GIB)))
    assert memory_info("tpu:0") == MemoryInfo(5 * GIB, GIB)
    with pytest.raises(InsufficientMemoryError, match="expected at most the 1073741824 "):
        require_memory("tpu:0", 2 * GIB)
    with pytest.raises(BackendUnavailableError, match="device is 'xpu:0'"):
        memory_info("xpu:0")

    def lost(device: object) -> NoReturn:
        raise RuntimeError("the device\nis lost")

    told[:] = [SimpleNamespace(name="jax", memory_info=lost)]
    with pytest.raises(BackendUnavailableError, match=r"read \(jax: the device is lost\)$"):
        memory_info("tpu:0")


def test_memory_of_what_is_no_device() -> None:
    with pytest.raises(TypeError, match="memory_info: device is of type int"):
        memory_info(0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="memory_info: device is 'CPU!'"):
        memory_info("CPU!")


# ---------------------------------------------------------------------------- the check


def test_memory_that_suffices(limited: Ground) -> None:
    expected = MemoryInfo(10 * GIB, 6 * GIB)
    assert _memory._require(CPU, 6 * GIB, limited, "f") == expected
    assert _memory._require(CPU, 0, limited, "f") == expected
    assert require_memory("cpu", 1).total_bytes > 1


def test_memory_that_does_not_suffice(limited: Ground) -> None:
    with pytest.raises(InsufficientMemoryError) as caught:
        _memory._require(CPU, 6 * GIB + 1, limited, "init_backend")
    assert str(caught.value) == (
        "init_backend: required_bytes is 6442450945 (6.00 GiB); expected at most the "
        "6442450944 (6.00 GiB) free of 10737418240 (10.00 GiB) on cpu"
    )
    with pytest.raises(MemoryError, match="^require_memory: required_bytes is 1152921504606846976"):
        require_memory("cpu", 2**60)


def test_memory_required_must_be_a_number_of_bytes() -> None:
    with pytest.raises(TypeError, match="required_bytes is of type float; expected a number of"):
        require_memory("cpu", 1e9)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="required_bytes is of type bool"):
        require_memory("cpu", True)
    with pytest.raises(ValueError, match="required_bytes is -1; expected 0 or more"):
        require_memory("cpu", -1)
    with pytest.raises(ValueError, match="^init_backend: device is 'no device'"):
        require_memory("no device", 1, "init_backend")


# ---------------------------------------------------------------------------- language models


@pytest.mark.parametrize(
    ("model", "tied", "published"),
    [
        (LLAMA2_7B, False, 6_738_415_616),
        (LLAMA3_8B, False, 8_030_261_248),
        (LLAMA32_1B, True, 1_235_814_400),
    ],
    ids=["Llama-2-7B", "Llama-3-8B", "Llama-3.2-1B"],
)
def test_parameters_of_published_models(model: dict[str, int], tied: bool, published: int) -> None:
    estimate = estimate_inference_memory(**model, tied_embeddings=tied)
    assert estimate.n_parameters == published
    assert estimate.weights_bytes == 2 * published


def test_cache_of_published_models() -> None:
    # 512 KiB a token for Llama-2-7B in float16; a quarter of that with 8 of 32 heads.
    assert estimate_inference_memory(**LLAMA2_7B).kv_cache_bytes == 4096 * 512 * 1024
    assert estimate_inference_memory(**LLAMA3_8B).kv_cache_bytes == 8192 * 128 * 1024
    doubled = estimate_inference_memory(**LLAMA3_8B, batch_size=2, bytes_per_kv=1)
    assert doubled.kv_cache_bytes == 8192 * 128 * 1024


def test_breakdown_of_a_small_model() -> None:
    estimate = estimate_inference_memory(
        8, 20, 3, 50, 4, 2, 5, 1, batch_size=2, bytes_per_kv=3, bytes_per_activation=7
    )
    assert estimate.breakdown == {
        "embedding": 50 * 8,
        "attention_q": 3 * 8 * 8,
        "attention_k": 3 * 8 * 4,
        "attention_v": 3 * 8 * 4,
        "attention_o": 3 * 8 * 8,
        "mlp": 3 * 3 * 8 * 20,
        "norms": 7 * 8,
        "output_head": 50 * 8,
        "keys": 3 * 10 * 4 * 3,
        "values": 3 * 10 * 4 * 3,
        "residual": 2 * 10 * 8 * 7,
        "layer": 10 * 40 * 7,  # the two of 20 are wider than queries, keys, values and result
        "logits": 2 * 50 * 7,
    }
    assert sum(estimate.breakdown.values()) == estimate.total_bytes
    assert estimate.activations_bytes == (160 + 400 + 100) * 7


def test_attention_is_the_widest_where_the_mlp_is_narrow() -> None:
    estimate = estimate_inference_memory(8, 2, 1, 50, 4, 2, 5, 1, bytes_per_activation=1)
    assert estimate.breakdown["layer"] == 5 * (2 * 8 + 2 * 4)


def test_quantised_weights() -> None:
    quantised = estimate_inference_memory(**LLAMA2_7B | {"bytes_per_weight": 0.5625})
    assert quantised.weights_bytes == 6_738_415_616 * 9 // 16
    odd = estimate_inference_memory(1, 1, 1, 1, 1, 1, 1, 0.5)
    assert odd.breakdown["embedding"] == 1  # half a byte takes a whole one


def test_estimate_is_frozen_and_compares_by_value() -> None:
    estimate = estimate_inference_memory(**LLAMA2_7B)
    assert estimate == estimate_inference_memory(**LLAMA2_7B)
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimate.n_parameters = 1  # type: ignore[misc]


def test_table_of_an_estimate() -> None:
    lines = str(estimate_inference_memory(**LLAMA3_8B)).splitlines()
    assert lines[0].split() == ["part", "GiB", "share"]
    assert lines[1].split() == ["weights", "14.958", "87.6%"]
    assert lines[10].split() == ["kv", "cache", "1.000", "5.9%"]
    assert lines[-1].split() == ["total", "17.083", "100.0%"]
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"dim": 0}, ValueError, "dim is 0; expected a positive integer"),
        ({"n_layers": -2}, ValueError, "n_layers is -2; expected a positive integer"),
        ({"seq_len": 1.5}, TypeError, "seq_len is of type float; expected a positive integer"),
        ({"batch_size": True}, TypeError, "batch_size is of type bool"),
        ({"bytes_per_weight": "2"}, TypeError, "bytes_per_weight is of type str; expected a pos"),
        ({"bytes_per_kv": 0}, ValueError, "bytes_per_kv is 0; expected a positive number"),
        ({"bytes_per_activation": float("nan")}, ValueError, "bytes_per_activation is nan"),
        ({"bytes_per_weight": float("inf")}, ValueError, "bytes_per_weight is inf"),
        ({"dim": 4100}, ValueError, "dim is 4100; expected a multiple of n_heads, which is 32"),
        ({"n_kv_heads": 5}, ValueError, "n_heads is 32; expected a multiple of n_kv_heads, which"),
        ({"tied_embeddings": 1}, TypeError, "tied_embeddings is of type int; expected a bool"),
    ],
)
def test_estimate_refuses(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^estimate_inference_memory: {message}"):
        estimate_inference_memory(**LLAMA2_7B | change)
