"""GPUs of every maker: a driver behind true C functions, and recorded trees of sysfs."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_char, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from corepy._errors import BackendUnavailableError
from corepy.devices import _memory, _probe
from corepy.devices._capabilities import DeviceInfo, Findings, read_gpus, read_machine
from corepy.devices._device import as_device
from corepy.devices._probe import Ground, MemoryInfo, ProbeError

GIB = 2**30
HOST = MemoryInfo(128 * GIB, 100 * GIB)
NOT_SUPPORTED, NOT_FOUND, DRIVER_NOT_LOADED, GPU_IS_LOST = 3, 6, 9, 15
WORDS = {
    NOT_SUPPORTED: b"Not Supported",
    NOT_FOUND: b"Not Found",
    DRIVER_NOT_LOADED: b"Driver Not Loaded",
    GPU_IS_LOST: b"GPU is lost",
}


@dataclass
class Card:
    name: str
    uuid: str
    total: int = 0
    free: int = 0
    capability: tuple[int, int] = (9, 0)
    memory_status: int = 0


@dataclass
class Driver:
    """NVIDIA's library as C functions of the signatures that nvml.h declares.

    A call with arguments of other types fails, and one outside of init and shutdown answers
    that the library is not initialised.
    """

    cards: list[Card]
    parts: list[Card] = field(default_factory=list)  # MIG devices, all of the first card
    init_status: int = 0
    missing: tuple[str, ...] = ()
    open: int = 0

    def __post_init__(self) -> None:
        texts = {code: ctypes.create_string_buffer(words) for code, words in WORDS.items()}
        words = ctypes.CFUNCTYPE(c_void_p, c_int)(lambda code: ctypes.addressof(texts[code]))
        functions: dict[str, Any] = {"nvmlErrorString": words}

        def c(*types: Any) -> Callable[[Callable[..., int]], None]:
            def declare(function: Callable[..., int]) -> None:
                functions[function.__name__] = ctypes.CFUNCTYPE(c_int, *types)(function)

            return declare

        def card(handle: int) -> Card:  # handles are made up: the place in the list, plus 1000
            return [*self.cards, *self.parts][handle - 1000]

        def text(buffer: Any, size: int, value: str) -> int:
            data = value.encode() + b"\0"
            ctypes.memmove(buffer, data, len(data))
            return 0 if len(data) <= size else 7

        @c()
        def nvmlInit_v2() -> int:
            self.open += not self.init_status
            return self.init_status

        @c()
        def nvmlShutdown() -> int:
            self.open -= 1
            return 0

        @c(POINTER(c_char), c_uint)
        def nvmlSystemGetDriverVersion(buffer: Any, size: int) -> int:
            return text(buffer, size, "570.86.15")

        @c(POINTER(c_uint))
        def nvmlDeviceGetCount_v2(count: Any) -> int:
            count[0] = len(self.cards)
            return 0 if self.open else 1

        @c(c_uint, POINTER(c_void_p))
        def nvmlDeviceGetHandleByIndex_v2(index: int, handle: Any) -> int:
            handle[0] = 1000 + index
            return 0

        @c(c_char_p, POINTER(c_void_p))
        def nvmlDeviceGetHandleByUUID(uuid: bytes, handle: Any) -> int:
            found = [i for i, part in enumerate(self.parts) if part.uuid == uuid.decode()]
            handle[0] = 1000 + len(self.cards) + found[0] if found else None
            return 0 if found else NOT_FOUND

        @c(c_void_p, POINTER(c_void_p))
        def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part: int, handle: Any) -> int:
            handle[0] = 1000
            return 0

        @c(c_void_p, POINTER(c_char), c_uint)
        def nvmlDeviceGetName(handle: int, buffer: Any, size: int) -> int:
            return text(buffer, size, card(handle).name)

        @c(c_void_p, POINTER(c_char), c_uint)
        def nvmlDeviceGetUUID(handle: int, buffer: Any, size: int) -> int:
            return text(buffer, size, card(handle).uuid)

        @c(c_void_p, POINTER(c_ulonglong * 3))
        def nvmlDeviceGetMemoryInfo(handle: int, figures: Any) -> int:
            found = card(handle)
            figures[0][:] = [found.total, found.free, found.total - found.free]
            return found.memory_status

        @c(c_void_p, POINTER(c_int), POINTER(c_int))
        def nvmlDeviceGetCudaComputeCapability(handle: int, major: Any, minor: Any) -> int:
            if handle - 1000 >= len(self.cards):
                return NOT_SUPPORTED
            major[0], minor[0] = card(handle).capability
            return 0

        for name, function in functions.items():
            if name not in self.missing:
                setattr(self, name, function)


def h200(uuid: str, free: int = 120 * GIB) -> Card:
    return Card("NVIDIA H200", uuid, 140 * GIB, free)


def ground(driver: Driver, tmp_path: Path, system: str = "Linux", **environ: str) -> Ground:
    def load(name: str) -> Driver:
        assert name == {"Linux": "libnvidia-ml.so.1", "Windows": "nvml.dll"}[system]
        return driver

    return Ground(root=tmp_path, system=system, machine="x86_64", environ=environ, load=load)


def nvidia(where: Ground, host: MemoryInfo | None = HOST) -> tuple[tuple[Any, ...], list[str]]:
    findings = Findings()
    return read_gpus(where, findings, host, ["cuda"]), findings.problems


# ---------------------------------------------------------------------------- NVIDIA


def test_nvidia_gpus(tmp_path: Path) -> None:
    driver = Driver([h200("GPU-aa", 120 * GIB), h200("GPU-bb", 7 * GIB)])
    gpus, problems = nvidia(ground(driver, tmp_path))
    assert [gpu.device for gpu in gpus] == [as_device("cuda:0"), as_device("cuda:1")]
    assert [gpu.name for gpu in gpus] == ["NVIDIA H200"] * 2
    assert [gpu.memory.total_bytes for gpu in gpus] == [140 * GIB] * 2
    assert [gpu.memory.free_bytes for gpu in gpus] == [120 * GIB, 7 * GIB]
    assert [gpu.uuid for gpu in gpus] == ["GPU-aa", "GPU-bb"]
    assert gpus[0].compute_capability == (9, 0)
    assert gpus[0].architecture == "sm_90"
    assert gpus[0].driver_version == "570.86.15"
    assert not gpus[0].unified_memory
    assert problems == []
    assert driver.open == 0  # whatever was initialised was shut down


def test_nvidia_on_windows(tmp_path: Path) -> None:
    gpus, problems = nvidia(ground(Driver([h200("GPU-aa")]), tmp_path, "Windows"))
    assert [gpu.name for gpu in gpus] == ["NVIDIA H200"]
    assert problems == []


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("1,0", ["GPU-bbbb", "GPU-aaaa"]),
        (" 2 ", ["GPU-bcbc"]),
        ("GPU-bb", ["GPU-bbbb"]),
        ("GPU-b,0", []),  # the beginning of two
        ("0,7,1", ["GPU-aaaa"]),  # what follows an entry that names none is not seen
        ("0,-1,1", ["GPU-aaaa"]),
        ("0,GPU-aa", []),  # one GPU twice
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
    ],
)
def test_cuda_visible_devices(tmp_path: Path, setting: str, expected: list[str]) -> None:
    driver = Driver([h200("GPU-aaaa"), h200("GPU-bbbb"), h200("GPU-bcbc")])
    gpus, problems = nvidia(ground(driver, tmp_path, CUDA_VISIBLE_DEVICES=setting))
    assert [gpu.uuid for gpu in gpus] == expected
    assert [gpu.device.name for gpu in gpus] == [f"cuda:{i}" for i in range(len(expected))]
    assert problems == []


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("", []), (" ", []), (",0", []), ("0,", ["GPU-aaaa"]), ("G", ["GPU-aaaa"])],
)
def test_cuda_visible_devices_of_one(tmp_path: Path, setting: str, expected: list[str]) -> None:
    """An entry without a word is no beginning of every name."""
    driver = Driver([h200("GPU-aaaa")])
    gpus, problems = nvidia(ground(driver, tmp_path, CUDA_VISIBLE_DEVICES=setting))
    assert ([gpu.uuid for gpu in gpus], problems) == (expected, [])


def test_part_of_a_gpu(tmp_path: Path) -> None:
    part = Card("NVIDIA H200 MIG 1g.18gb", "MIG-11", 16 * GIB, 15 * GIB)
    driver = Driver([h200("GPU-aa")], [part])
    gpus, _ = nvidia(ground(driver, tmp_path, CUDA_VISIBLE_DEVICES="MIG-11,MIG-22"))
    assert [(gpu.uuid, gpu.memory.total_bytes) for gpu in gpus] == [("MIG-11", 16 * GIB)]
    assert gpus[0].compute_capability == (9, 0)  # the whole GPU's: the part does not tell
    gpus, problems = nvidia(ground(driver, tmp_path, CUDA_VISIBLE_DEVICES="MIG-33"))
    assert gpus == ()
    assert problems == ["nvml: nvmlDeviceGetHandleByUUID: Not Found"]


def test_a_failing_gpu_does_not_hide_the_others(tmp_path: Path) -> None:
    lost = Card("NVIDIA H200", "GPU-aa", memory_status=GPU_IS_LOST)
    gpus, problems = nvidia(ground(Driver([lost, h200("GPU-bb")]), tmp_path))
    assert [gpu.device.name for gpu in gpus] == ["cuda:1"]
    assert problems == ["cuda:0: nvmlDeviceGetMemoryInfo: GPU is lost"]


def test_gpu_without_memory_of_its_own(tmp_path: Path) -> None:
    gb10 = Card("NVIDIA GB10", "GPU-aa", capability=(12, 1), memory_status=NOT_SUPPORTED)
    gpus, problems = nvidia(ground(Driver([gb10]), tmp_path))
    assert gpus[0].memory == HOST
    assert gpus[0].unified_memory
    assert gpus[0].architecture == "sm_121"
    assert problems == []
    gpus, problems = nvidia(ground(Driver([gb10]), tmp_path), host=None)
    assert gpus == ()
    assert problems == ["cuda:0: it shares the host's memory, which could not be read"]


def test_unlike_gpus_may_be_numbered_otherwise(tmp_path: Path) -> None:
    driver = Driver([Card("NVIDIA T4", "GPU-aa", 15 * GIB, GIB, (7, 5)), h200("GPU-bb")])
    _, problems = nvidia(ground(driver, tmp_path))
    assert len(problems) == 1
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in problems[0]
    _, problems = nvidia(ground(driver, tmp_path, CUDA_DEVICE_ORDER="PCI_BUS_ID"))
    assert problems == []


def test_driver_that_does_not_start(tmp_path: Path) -> None:
    driver = Driver([], init_status=DRIVER_NOT_LOADED)
    assert nvidia(ground(driver, tmp_path)) == ((), ["nvml: nvmlInit_v2: Driver Not Loaded"])
    assert driver.open == 0


def test_driver_that_is_too_old(tmp_path: Path) -> None:
    driver = Driver([h200("GPU-aa")], missing=("nvmlDeviceGetCount_v2",))
    expected = "nvml: nvmlDeviceGetCount_v2: the driver is too old to have it"
    assert nvidia(ground(driver, tmp_path)) == ((), [expected])
    assert driver.open == 0  # shut down all the same


def test_memory_info_reads_anew(tmp_path: Path) -> None:
    card = h200("GPU-aa", 120 * GIB)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8 kB\nMemAvailable: 4 kB\n")
    where = ground(Driver([card]), tmp_path)
    device = as_device("cuda")
    assert _memory._read_memory(device, where, "f") == MemoryInfo(140 * GIB, 120 * GIB)
    card.free = GIB
    assert _memory._read_memory(device, where, "f") == MemoryInfo(140 * GIB, GIB)
    with pytest.raises(BackendUnavailableError, match="'cuda:4'.*its devices are cuda:0"):
        _memory._read_memory(as_device("cuda:4"), where, "f")


class Library:
    """One that knows the memory of its devices by its own numbers."""

    name = "torch"

    def __init__(self, found: MemoryInfo | Exception | None) -> None:
        self.found = found

    def memory_info(self, device: Any) -> MemoryInfo | None:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def test_a_library_tells_where_nvidias_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that was given CUDA alone, and where unlike GPUs may be in any order."""
    mine = MemoryInfo(9 * GIB, GIB)
    libraries = [Library(RuntimeError("the device is lost")), Library(None), Library(mine)]
    monkeypatch.setattr(_memory, "serving", lambda device: libraries)
    silent = ground(Driver([], init_status=DRIVER_NOT_LOADED), tmp_path)
    unlike = Driver([Card("NVIDIA T4", "GPU-aa", 15 * GIB, GIB, (7, 5)), h200("GPU-bb")])
    cuda = as_device("cuda")
    assert _memory._read_memory(cuda, silent, "f") == mine
    assert _memory._read_memory(cuda, ground(unlike, tmp_path), "f") == mine
    by_bus = ground(unlike, tmp_path, CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert _memory._read_memory(cuda, by_bus, "f") == MemoryInfo(15 * GIB, GIB)
    libraries.pop()
    assert _memory._read_memory(cuda, ground(unlike, tmp_path), "f") == MemoryInfo(15 * GIB, GIB)
    with pytest.raises(
        BackendUnavailableError, match="Driver Not Loaded.*torch: the device is lost"
    ):
        _memory._read_memory(cuda, silent, "f")


# ---------------------------------------------------------------------------- AMD

NODES = "sys/class/kfd/kfd/topology/nodes"


def amd(minor: int, version: int, unique: int, cpu_cores: int = 0) -> str:
    return (
        f"cpu_cores_count {cpu_cores}\nsimd_count 416\nvendor_id 4098\n"
        f"drm_render_minor {minor}\ngfx_target_version {version}\nunique_id {unique}\n"
    )


def sysfs(root: Path, files: Mapping[str, str], **environ: str) -> Ground:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Ground(root=root, system="Linux", machine="x86_64", environ=environ)


#: A server with two accelerators of unlike generations; its first node is the processor.
SERVER = {
    f"{NODES}/0/properties": "cpu_cores_count 64\nsimd_count 0\n",
    f"{NODES}/2/properties": amd(128, 90010, 0xABC),
    f"{NODES}/10/properties": amd(129, 110000, 0xDEF),
    "sys/class/drm/renderD128/device/mem_info_vram_total": f"{64 * GIB}\n",
    "sys/class/drm/renderD128/device/mem_info_vram_used": f"{4 * GIB}\n",
    "sys/class/drm/renderD128/device/product_name": "AMD Instinct MI210\n",
    "sys/class/drm/renderD129/device/mem_info_vram_total": f"{24 * GIB}\n",
    "sys/class/drm/renderD129/device/mem_info_vram_used": "0\n",
    "sys/class/drm/renderD129/device/product_name": "\n",
}


def rocm(where: Ground, host: MemoryInfo | None = HOST) -> tuple[tuple[Any, ...], list[str]]:
    findings = Findings()
    return read_gpus(where, findings, host, ["rocm"]), findings.problems


def test_amd_gpus(tmp_path: Path) -> None:
    gpus, problems = rocm(sysfs(tmp_path, SERVER))
    assert [gpu.device.name for gpu in gpus] == ["rocm:0", "rocm:1"]
    assert [gpu.name for gpu in gpus] == ["AMD Instinct MI210", "AMD gfx1100"]
    assert [gpu.architecture for gpu in gpus] == ["gfx90a", "gfx1100"]
    assert gpus[0].memory == MemoryInfo(64 * GIB, 60 * GIB)
    assert gpus[1].memory == MemoryInfo(24 * GIB, 24 * GIB)
    assert gpus[0].uuid == "GPU-0000000000000abc"
    assert gpus[0].compute_capability is None
    assert problems == []


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HIP_VISIBLE_DEVICES": "1"}, ["AMD gfx1100"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["AMD gfx1100"]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, ["AMD Instinct MI210"]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-0000000000000def"}, ["AMD gfx1100"]),
        # The second numbers what the first has left.
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, ["AMD gfx1100"]),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, []),
    ],
)
def test_amd_visible(tmp_path: Path, environ: dict[str, str], expected: list[str]) -> None:
    gpus, _ = rocm(sysfs(tmp_path, SERVER, **environ))
    assert [gpu.name for gpu in gpus] == expected


def test_amd_apu_works_in_host_memory(tmp_path: Path) -> None:
    gpus, _ = rocm(sysfs(tmp_path, {f"{NODES}/0/properties": amd(128, 90402, 1, cpu_cores=24)}))
    assert gpus[0].memory == HOST
    assert gpus[0].unified_memory
    assert gpus[0].architecture == "gfx942"


def test_amd_gpu_with_a_broken_file(tmp_path: Path) -> None:
    used = "sys/class/drm/renderD128/device/mem_info_vram_used"
    gpus, problems = rocm(sysfs(tmp_path, SERVER | {used: "none"}))
    assert [gpu.device.name for gpu in gpus] == ["rocm:1"]
    assert problems == ["rocm:0: invalid literal for int() with base 10: 'none'"]


def test_amd_gpus_hidden_from_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = sysfs(tmp_path, SERVER)
    read = Path.read_text

    def refuse(path: Path, *args: Any, **kwargs: Any) -> str:
        if path.parent.name in hidden:
            raise PermissionError(1, "Operation not permitted", str(path))
        return read(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", refuse)
    hidden = {"2"}
    assert [gpu.name for gpu in rocm(where)[0]] == ["AMD gfx1100"]
    hidden = {"2", "10"}
    assert rocm(where) == ((), ["rocm: 2 found, but this process may use none of them"])


# ---------------------------------------------------------------------------- Apple


def apple(machine: str) -> DeviceInfo:
    printed = {
        "/usr/sbin/sysctl": "hw.memsize: 17179869184\nhw.physicalcpu: 8\n"
        "hw.optional.avx2_0: 0\nmachdep.cpu.brand_string: Apple M2\n",
        "/usr/bin/vm_stat": "(page size of 16384 bytes)\n"
        "Pages free: 65536.\nPages inactive: 0.\nPages speculative: 0.\n",
    }
    run = lambda command, *_: printed[command]  # noqa: E731
    return read_machine(Ground(system="Darwin", machine=machine, environ={}, run=run), 8)


def test_apple_silicon() -> None:
    info = apple("arm64")
    assert info.gpu_names == ("Apple M2",)
    assert info.gpus[0].device is as_device("mps")
    assert info.gpus[0].memory == MemoryInfo(16 * GIB, GIB)
    assert info.has_unified_memory
    assert info.has_neon
    assert not info.has_avx2
    assert info.cpu_cores_physical == 8
    assert info.memory_limit_bytes == 16 * GIB
    assert info.problems == ()


def test_apple_with_intel_has_no_mps() -> None:
    info = apple("x86_64")
    assert info.gpu_count == 0
    assert not info.has_unified_memory
    assert info.problems == ("mps: the processor is x86_64; expected arm64",)


def test_tools_that_fail() -> None:
    with pytest.raises(ProbeError, match="printed nothing"):
        _probe._run_tool(sys.executable, "-c", "")
    with pytest.raises(ProbeError, match="unknown oid"):
        _probe._run_tool(sys.executable, "-c", "import sys; sys.exit('unknown oid')")
    with pytest.raises(FileNotFoundError):
        _probe._run_tool("/nowhere/sysctl")
    assert _probe._run_tool(sys.executable, "-c", "print('hw.ncpu: 8')") == "hw.ncpu: 8\n"
