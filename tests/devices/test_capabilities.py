"""What is reported of a whole machine, and what describes an operation."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import corepy.devices._capabilities as capabilities
from corepy.devices._capabilities import OperationProperties, detect_devices, read_machine
from corepy.devices._probe import Ground

GIB = 2**30


def no_library(name: str) -> Any:
    raise OSError(f"{name}: cannot open shared object file: No such file or directory")


def container(root: Path, **environ: str) -> Ground:
    """Lay out a container that may use 1.5 of 4 threads, and 2 of 64 GiB."""
    files = {
        "proc/cpuinfo": "flags : sse2 avx2 avx512f\n",
        "proc/meminfo": f"MemTotal: {64 * 2**20} kB\nMemAvailable: {32 * 2**20} kB\n",
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/memory.max": f"{2 * GIB}\n",
        "sys/fs/cgroup/memory.current": f"{GIB}\n",
        "sys/fs/cgroup/memory.stat": "inactive_file 0\n",
        "sys/devices/system/cpu/cpu0/topology/core_cpus_list": "0-1\n",
        "sys/devices/system/cpu/cpu1/topology/core_cpus_list": "0-1\n",
        "sys/devices/system/cpu/cpu2/topology/core_cpus_list": "2-3\n",
        "sys/devices/system/cpu/cpu3/topology/core_cpus_list": "2-3\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Ground(root, "Linux", "x86_64", environ, load=no_library)


def test_container_without_gpu(tmp_path: Path) -> None:
    info = read_machine(container(tmp_path), 4)
    assert info.platform_system == "Linux"
    assert info.platform_machine == "x86_64"
    assert info.cpu_cores == 2
    assert info.cpu_cores_physical == 2
    assert info.memory_limit_bytes == 2 * GIB
    assert (info.has_avx2, info.has_avx512, info.has_amx, info.has_neon) == (
        True, False, False, False,
    )  # fmt: skip
    assert info.gpu_count == 0
    assert info.gpu_names == info.gpu_memory_bytes == info.gpu_free_bytes == ()
    assert info.gpu_compute_capabilities == ()
    assert not info.has_unified_memory
    assert info.problems == (
        "nvml: libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
        f"rocm: {tmp_path / 'sys/class/kfd/kfd/topology/nodes'}: No such file or directory",
    )


@pytest.mark.parametrize(
    ("file", "environ", "kinds"),
    [
        ("dev/nvidia0", {}, {"cuda"}),
        ("dev/nvhost-gpu", {"CUDA_VISIBLE_DEVICES": "0"}, {"cuda"}),  # a Jetson board
        ("dev/nvidia0", {"CUDA_VISIBLE_DEVICES": ""}, set()),
        ("dev/nvidia0", {"CUDA_VISIBLE_DEVICES": "-1"}, set()),
        ("dev/nvidiactl", {}, set()),
        ("dev/kfd", {}, {"rocm"}),
        ("dev/kfd", {"HIP_VISIBLE_DEVICES": "-1"}, set()),
    ],
)
def test_gpus_that_nobody_describes_may_be_there(
    tmp_path: Path, file: str, environ: dict[str, str], kinds: set[str]
) -> None:
    """As in a container that was given CUDA and not NVIDIA's management library."""
    ground = container(tmp_path, **environ)
    assert capabilities.gpu_kinds(read_machine(ground, 4), ground) == set()
    (tmp_path / "dev").mkdir()
    (tmp_path / file).write_text("")
    info = read_machine(ground, 4)
    assert info.gpu_count == 0
    assert capabilities.gpu_kinds(info, ground) == kinds
    told = dataclasses.replace(info, problems=())  # all that there is to tell
    assert capabilities.gpu_kinds(told, ground) == set()


def test_every_failure_keeps_its_reason(tmp_path: Path) -> None:
    ground = Ground(tmp_path, "Linux", "riscv64", {}, load=no_library)
    info = read_machine(ground, 4)
    assert info.cpu_cores == 4
    assert info.cpu_cores_physical is None
    assert info.memory_limit_bytes is None
    assert not info.has_avx2
    assert [problem.partition(":")[0] for problem in info.problems] == [
        "instruction sets", "memory", "cpu cores", "nvml", "rocm",
    ]  # fmt: skip
    assert f"memory: {tmp_path / 'proc/meminfo'}: No such file or directory" in info.problems


def test_unreadable_limit_leaves_the_host_s_memory(tmp_path: Path) -> None:
    ground = container(tmp_path)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("lots")
    info = read_machine(ground, 4)
    assert info.memory_limit_bytes == 64 * GIB
    assert "memory limit: invalid literal for int() with base 10: 'lots'" in info.problems


def test_unknown_system() -> None:
    info = read_machine(Ground(system="Plan9", machine="mips", environ={}), 3)
    assert info.cpu_cores == 3
    assert info.gpus == ()
    assert "instruction sets: cannot be read on Plan9" in info.problems
    assert "cpu cores: cannot be read on Plan9" in info.problems


@pytest.mark.parametrize(
    ("value", "expected"),
    [("torch", "torch"), (" torch:mps , cpu", "torch:mps"), ("", None), (" ,numpy", None)],
)
def test_forced_backend(tmp_path: Path, value: str, expected: str | None) -> None:
    info = read_machine(container(tmp_path, COREPY_BACKEND_PRIORITY=value), 1)
    assert info.forced_backend == expected


def test_backend_is_not_forced(tmp_path: Path) -> None:
    assert read_machine(container(tmp_path), 1).forced_backend is None


def test_this_machine() -> None:
    info = detect_devices()
    assert 1 <= info.cpu_cores <= (os.cpu_count() or 1)
    assert info.memory_limit_bytes is not None
    assert info.memory_limit_bytes > 2**26
    assert len(info.gpu_names) == len(info.gpu_memory_bytes) == info.gpu_count
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.cpu_cores = 1  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(info)) == info


def test_detection_is_remembered_until_refreshed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "_detected", None)
    monkeypatch.setenv("COREPY_BACKEND_PRIORITY", "numpy")
    first = detect_devices()
    monkeypatch.setenv("COREPY_BACKEND_PRIORITY", "torch")
    assert detect_devices() is first
    assert detect_devices().forced_backend == "numpy"
    assert detect_devices(refresh=True).forced_backend == "torch"
    with pytest.raises(TypeError, match="^detect_devices: refresh is of type str; expected a bool"):
        detect_devices("x")  # type: ignore[arg-type]
    assert detect_devices().forced_backend == "torch"


def test_importing_is_cheap() -> None:
    # The packages around the modules are left out: only these must not load anything.
    package = Path(capabilities.__file__).parents[1]
    code = f"""
import sys, types
for name, path in (("corepy", {str(package)!r}), ("corepy.devices", {str(package / "devices")!r})):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
import corepy.devices._memory
print(sorted(set(sys.modules) & {{"numpy", "ctypes", "subprocess", "asyncio"}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_operation_properties() -> None:
    properties = OperationProperties("add", 4096)
    assert (properties.op_type, properties.input_size_bytes) == ("add", 4096)
    assert properties.requires_gpu is False
    assert OperationProperties("add", 4096, True) != properties


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, 1), TypeError, "op_type is of type int; expected an operation's name"),
        (("", 1), ValueError, "op_type is ''; expected an operation's name"),
        (("add", 1.0), TypeError, "input_size_bytes is of type float; expected a number of bytes"),
        (("add", True), TypeError, "input_size_bytes is of type bool"),
        (("add", -1), ValueError, "input_size_bytes is -1; expected 0 or more"),
        (("add", 1, 1), TypeError, "requires_gpu is of type int; expected a bool"),
    ],
)
def test_operation_properties_refuse(
    arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^OperationProperties: {message}"):
        OperationProperties(*arguments)
