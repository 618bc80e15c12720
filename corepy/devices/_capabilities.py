"""What this machine offers: `detect_devices`, asked once and remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

from corepy import _forks
from corepy._errors import bad_argument, bad_type
from corepy._signals import let_through
from corepy.devices import _gpus, _probe
from corepy.devices._gpus import GpuInfo
from corepy.devices._probe import Ground, MemoryInfo

__all__ = ["DeviceInfo", "GpuInfo", "OperationProperties", "detect_devices"]

P = ParamSpec("P")
T = TypeVar("T")
Otherwise = TypeVar("Otherwise")


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What this process found on its machine.

    A fact that could not be read is None, False or absent, and `problems` says why.

    Attributes
    ----------
    platform_system : str
        ``"Linux"``, ``"Darwin"``, ``"Windows"``, ...
    platform_machine : str
        The processor's architecture: ``"x86_64"``, ``"arm64"``, ...
    cpu_cores : int
        Hardware threads that this process can use at once: within its affinity mask and its
        control group's quota, a part of a processor counted as one.
    cpu_cores_physical : int or None
        The machine's cores, hyper-threads not counted.
    memory_limit_bytes : int or None
        The memory this process may use: the machine's, or its control group's or its own limit.
    has_avx2 : bool
        x86: 256-bit integer and floating-point vectors.
    has_avx512 : bool
        x86: AVX-512 F, BW, CD, DQ and VL, the set that compilers call x86-64-v4.
    has_amx : bool
        x86: matrix tiles.
    has_neon : bool
        ARM: 128-bit vectors (Advanced SIMD).
    gpus : tuple of GpuInfo
        The GPUs that programs see, in their order.
    forced_backend : str or None
        The first entry of ``COREPY_BACKEND_PRIORITY``.
    problems : tuple of str
        What could not be read, each with its reason. A missing driver on a machine without a
        GPU is one too: a reason, not an error.
    """

    platform_system: str
    platform_machine: str
    cpu_cores: int
    cpu_cores_physical: int | None
    memory_limit_bytes: int | None
    has_avx2: bool
    has_avx512: bool
    has_amx: bool
    has_neon: bool
    gpus: tuple[GpuInfo, ...]
    forced_backend: str | None
    problems: tuple[str, ...]

    @property
    def gpu_count(self) -> int:
        """The number of GPUs."""
        return len(self.gpus)

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """The products' names."""
        return tuple(gpu.name for gpu in self.gpus)

    @property
    def gpu_memory_bytes(self) -> tuple[int, ...]:
        """The memory of each GPU."""
        return tuple(gpu.memory.total_bytes for gpu in self.gpus)

    @property
    def gpu_free_bytes(self) -> tuple[int, ...]:
        """What was free of it at detection; `memory_info` tells what is free now."""
        return tuple(gpu.memory.free_bytes for gpu in self.gpus)

    @property
    def gpu_compute_capabilities(self) -> tuple[tuple[int, int] | None, ...]:
        """CUDA's compute capability of each GPU, None for those of other makers."""
        return tuple(gpu.compute_capability for gpu in self.gpus)

    @property
    def has_unified_memory(self) -> bool:
        """Whether a GPU works in the host's memory."""
        return any(gpu.unified_memory for gpu in self.gpus)


@dataclass(frozen=True, slots=True)
class OperationProperties:
    """What matters of an operation when a backend is to be chosen for it.

    Attributes
    ----------
    op_type : str
        The operation's name in the standard, such as ``"add"`` or ``"linalg.cholesky"``.
    input_size_bytes : int
        The bytes of all operands together.
    requires_gpu : bool
        Whether it must run on a GPU.

    Raises
    ------
    TypeError
        If a value is of another type.
    ValueError
        If the name is empty or the size negative.
    """

    op_type: str
    input_size_bytes: int
    requires_gpu: bool = False

    def __post_init__(self) -> None:
        name, size, gpu = self.op_type, self.input_size_bytes, self.requires_gpu
        if not isinstance(name, str):
            raise bad_type("OperationProperties", "op_type", name, "an operation's name")
        if not name:
            raise bad_argument("OperationProperties", "op_type", name, "an operation's name")
        if isinstance(size, bool) or not isinstance(size, int):
            raise bad_type("OperationProperties", "input_size_bytes", size, "a number of bytes")
        if size < 0:
            raise bad_argument("OperationProperties", "input_size_bytes", size, "0 or more")
        if not isinstance(gpu, bool):
            raise bad_type("OperationProperties", "requires_gpu", gpu, "a bool")


class Findings:
    """Ask probes, and keep the reasons of those that fail."""

    __slots__ = ("problems",)

    def __init__(self) -> None:
        self.problems: list[str] = []

    def ask(
        self,
        what: str,
        otherwise: Otherwise,
        probe: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T | Otherwise:
        """Return what a probe finds, and `otherwise` where it fails."""
        try:
            return probe(*args, **kwargs)
        except _probe.FAILURES as error:
            let_through(error)
            self.note(what, _reason(error))
            return otherwise

    def note(self, what: str, why: str) -> None:
        """Keep a reason."""
        self.problems.append(f"{what}: {why}")


def _reason(error: Exception) -> str:
    """Word why a probe failed; a file's error names the file."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


_LOCK: Final = _forks.lock()
_detected: DeviceInfo | None = None


def detect_devices(refresh: bool = False) -> DeviceInfo:
    """Tell what processor, memory and GPUs this process can use.

    The machine is read at the first call, without importing any library of arrays, and the
    answer is kept.

    Parameters
    ----------
    refresh : bool
        Read it again: a GPU was plugged in, an environment variable changed.

    Returns
    -------
    DeviceInfo
        The machine. What could not be read is listed in its `problems`.

    Raises
    ------
    TypeError
        If `refresh` is no bool.
    """
    global _detected
    if not isinstance(refresh, bool):
        raise bad_type("detect_devices", "refresh", refresh, "a bool")
    with _LOCK:
        if _detected is None or refresh:
            _detected = read_machine(Ground(), _probe.process_cores())
        return _detected


def read_machine(ground: Ground, scheduled: int) -> DeviceInfo:
    """Read a machine on which the process may be scheduled on so many hardware threads."""
    findings = Findings()
    nothing: frozenset[str] = frozenset()
    flags = findings.ask("instruction sets", nothing, _probe.cpu_flags, ground)
    memory = read_host_memory(ground, findings)
    return DeviceInfo(
        platform_system=ground.system,
        platform_machine=ground.machine,
        cpu_cores=findings.ask("cpu quota", scheduled, _probe.usable_cores, ground, scheduled),
        cpu_cores_physical=findings.ask("cpu cores", None, _probe.physical_cores, ground),
        memory_limit_bytes=None if memory is None else memory.total_bytes,
        has_avx2="avx2" in flags,
        has_avx512=_probe.has_avx512(flags),
        has_amx="amx_tile" in flags,
        has_neon=not flags.isdisjoint({"asimd", "neon"}),
        gpus=read_gpus(ground, findings, memory, _GPU_KINDS.get(ground.system, ())),
        forced_backend=_forced_backend(ground),
        problems=tuple(findings.problems),
    )


def _forced_backend(ground: Ground) -> str | None:
    first = ground.environ.get("COREPY_BACKEND_PRIORITY", "").partition(",")[0].strip()
    return first or None


def read_host_memory(ground: Ground, findings: Findings) -> MemoryInfo | None:
    """Read the memory of the host that this process may use."""
    memory = findings.ask("memory", None, _probe.host_memory, ground)
    if memory is None or ground.system != "Linux":
        return memory
    memory = findings.ask("memory limit", memory, _probe.within_cgroup, ground, memory)
    return findings.ask("memory limit", memory, _probe.within_limits, ground, memory)


def read_gpus(
    ground: Ground, findings: Findings, host: MemoryInfo | None, kinds: Iterable[str]
) -> tuple[GpuInfo, ...]:
    """Read the GPUs of some kinds of device; `host` is the memory of those without their own."""
    found: tuple[GpuInfo, ...] = ()
    for kind in kinds:
        if kind == "cuda":
            found += findings.ask("nvml", (), _nvidia_gpus, ground, findings, host)
        elif kind == "rocm":
            found += findings.ask("rocm", (), _amd_gpus, ground, findings, host)
        elif kind == "mps":
            found += findings.ask("mps", (), _apple_gpus, ground, host)
    return found


#: By kind of device: the probe that describes its GPUs, the files by which programs reach them
#: though that may fail (in containers with CUDA alone, on Jetson boards), and what hides them.
_REACHED: Final = {
    "cuda": ("nvml", ("nvidia[0-9]*", "nvhost-gpu"), ("CUDA_VISIBLE_DEVICES",)),
    "rocm": ("rocm", ("kfd",), ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")),
}


def gpu_kinds(info: DeviceInfo | None = None, ground: Ground | None = None) -> frozenset[str]:
    """Return the kinds of GPU that are there, or may be: only their libraries know for sure."""
    info = detect_devices() if info is None else info
    ground = Ground() if ground is None else ground
    found = {gpu.device.kind for gpu in info.gpus}
    for kind, (probe, files, hiding) in _REACHED.items():
        silent = any(problem.startswith(f"{probe}:") for problem in info.problems)
        hidden = any(ground.environ.get(name, "0").strip() in ("", "-1") for name in hiding)
        if silent and not hidden and any(any(ground.path("dev").glob(file)) for file in files):
            found.add(kind)
    return frozenset(found)


#: Where which drivers can be at all.
_GPU_KINDS: Final = {"Linux": ("cuda", "rocm"), "Windows": ("cuda",), "Darwin": ("mps",)}


def _nvidia_gpus(
    ground: Ground, findings: Findings, host: MemoryInfo | None
) -> tuple[GpuInfo, ...]:
    with _gpus.nvml(ground) as driver:
        handles = driver.visible_handles(ground.environ.get("CUDA_VISIBLE_DEVICES"))
        answers = [
            findings.ask(f"cuda:{index}", None, driver.describe, handle, index, host)
            for index, handle in enumerate(handles)
        ]
    gpus = tuple(gpu for gpu in answers if gpu is not None)
    if are_unordered(gpus, ground):
        findings.note(
            "nvml",
            "the GPUs differ and CUDA puts the fastest first, so it may number them otherwise; "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID makes the orders agree",
        )
    return gpus


def are_unordered(gpus: Iterable[GpuInfo], ground: Ground) -> bool:
    """Say whether CUDA may number GPUs otherwise than NVIDIA's management library does."""
    names = {gpu.name for gpu in gpus if gpu.device.kind == "cuda"}
    return len(names) > 1 and ground.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"


def _amd_gpus(ground: Ground, findings: Findings, host: MemoryInfo | None) -> tuple[GpuInfo, ...]:
    answers = [
        findings.ask(f"rocm:{index}", None, _gpus.amd_gpu, ground, node, index, host)
        for index, node in enumerate(_gpus.amd_nodes(ground))
    ]
    return tuple(gpu for gpu in answers if gpu is not None)


def _apple_gpus(ground: Ground, host: MemoryInfo | None) -> tuple[GpuInfo, ...]:
    return (_gpus.apple_gpu(ground, host),)
