"""Read what hardware there is: one small function for each fact, which returns it or raises.

Nothing heavy is imported: Linux is read from ``/proc`` and ``/sys``, macOS through ``sysctl`` and
``vm_stat``, Windows through ``kernel32``, NVIDIA's driver through its management library. All of
it comes in through a `Ground`, so that tests can stand on the recorded ground of any machine.
A failing probe raises one of `FAILURES`; who asks decides whether that is an error or a reason
to note.
"""

from __future__ import annotations

import math
import os
import platform
import re
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from corepy.devices._device import Device, as_device


class ProbeError(Exception):
    """A fact about the machine could not be read."""


#: What a probe raises: files that are missing or refuse, figures that are none, and the rest.
FAILURES: Final = (OSError, ValueError, ProbeError)

#: Compute capabilities of the NVIDIA GPUs that have no memory of their own (Jetson boards, GB10):
#: asked for it, their driver answers "Not Supported".
_NVIDIA_INTEGRATED: Final = {(5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0), (12, 1)}
#: x86-64-v4. The first alone, as on Xeon Phi, is not what code compiled for AVX-512 expects.
_AVX512: Final = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """Memory of a device at the moment it was asked.

    Attributes
    ----------
    total_bytes : int
        What this process may use at most: the device's memory or, on the host, the control
        group's limit where that is lower.
    free_bytes : int
        What could be allocated now without swapping, caches that can be dropped included.
    """

    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class GpuInfo:
    """One GPU, as its driver describes it.

    Attributes
    ----------
    device : Device
        ``cuda:0``, ``rocm:0``, ..., numbered as programs see them (``CUDA_VISIBLE_DEVICES``,
        ``ROCR_VISIBLE_DEVICES`` and ``HIP_VISIBLE_DEVICES`` are honoured), or ``mps``.
    name : str
        The product's name.
    memory : MemoryInfo
        Its memory; the host's, where `unified_memory` is true.
    unified_memory : bool
        Whether it has no memory of its own, but works in the host's.
    compute_capability : tuple of two ints, or None
        ``(9, 0)``; None for GPUs that are not NVIDIA's.
    architecture : str or None
        ``"sm_90"`` or ``"gfx90a"``, the compilers' names; None where there is none.
    uuid : str or None
        What the driver identifies it by.
    driver_version : str or None
        The driver's version where it tells.
    """

    device: Device
    name: str
    memory: MemoryInfo
    unified_memory: bool = False
    compute_capability: tuple[int, int] | None = None
    architecture: str | None = None
    uuid: str | None = None
    driver_version: str | None = None


def _run_tool(*command: str) -> str:
    """Return what a system tool prints."""
    import subprocess  # not at the top: only macOS needs it

    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired as error:
        raise ProbeError(str(error)) from error
    if not done.stdout:
        raise ProbeError(f"{command[0]}: {done.stderr.strip() or 'printed nothing'}")
    return done.stdout


def _load_library(name: str) -> Any:
    """Open a shared library with its own calling convention."""
    import ctypes  # not at the top: most programs on most machines never need it

    if sys.platform == "win32" and name == "kernel32":
        return ctypes.WinDLL(name)
    return ctypes.CDLL(name)


@dataclass(frozen=True, slots=True)
class Ground:
    """The machine that is probed: its files, its environment, its tools and its libraries."""

    root: Path = Path("/")
    system: str = field(default_factory=platform.system)
    machine: str = field(default_factory=platform.machine)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    run: Callable[..., str] = _run_tool
    load: Callable[[str], Any] = _load_library

    def path(self, name: str | PurePosixPath) -> Path:
        """Place an absolute path under the root."""
        return self.root / str(name).lstrip("/")

    def read(self, name: str) -> str:
        """Return the text of a file, without the white space around it."""
        return self.path(name).read_text(encoding="utf-8", errors="replace").strip()


def _pairs(text: str, separator: str | None = None) -> dict[str, str]:
    """Read lines of ``name: value`` or ``name value``."""
    split = (line.split(separator, 1) for line in text.splitlines())
    return {parts[0].strip(): parts[1].strip() for parts in split if len(parts) == 2}


def _figure(pairs: Mapping[str, str], name: str, source: str) -> int:
    """Return the leading integer of a value, as in ``MemTotal: 24684092 kB``."""
    found = re.match(r"\d+", pairs.get(name, ""))
    if found is None:
        raise ProbeError(f"{source}: {name} is {pairs.get(name)!r}; expected a number")
    return int(found[0])


# ---------------------------------------------------------------------------- processor


def cpu_flags(ground: Ground) -> frozenset[str]:
    """Return the instruction sets usable on every core, by their names in Linux."""
    if ground.system == "Linux":
        return _linux_cpu_flags(ground)
    if ground.system == "Darwin":
        return _apple_cpu_flags(ground)
    if ground.system == "Windows":
        return _windows_cpu_flags(ground)
    raise ProbeError(f"cannot be read on {ground.system}")


def _linux_cpu_flags(ground: Ground) -> frozenset[str]:
    lines = (line.partition(":") for line in ground.read("proc/cpuinfo").splitlines())
    keys = ("flags", "Features")  # as x86 and ARM write it
    cores = [frozenset(rest.split()) for key, _, rest in lines if key.strip() in keys]
    if not cores:
        raise ProbeError("/proc/cpuinfo: has no line of flags or features")
    return frozenset.intersection(*cores)  # a thread may be moved to any core


def sysctl(ground: Ground) -> dict[str, str]:
    """Return macOS's table of hardware properties."""
    return _pairs(ground.run("/usr/sbin/sysctl", "hw", "machdep.cpu"), ":")


def _apple_cpu_flags(ground: Ground) -> frozenset[str]:
    # All of Apple's ARM cores have NEON. An x86 process that they run translated cannot use it.
    if ground.machine == "arm64":
        return frozenset({"asimd"})
    table = sysctl(ground)
    known = {f"hw.optional.{flag}": flag for flag in _AVX512} | {"hw.optional.avx2_0": "avx2"}
    return frozenset(flag for key, flag in known.items() if table.get(key) == "1")


def _windows_cpu_flags(ground: Ground) -> frozenset[str]:
    import ctypes

    kernel = ground.load("kernel32")
    present = kernel.IsProcessorFeaturePresent
    flags: set[str] = set()
    if present(ctypes.c_uint32(19)):  # PF_ARM_NEON_INSTRUCTIONS_AVAILABLE
        flags.add("asimd")
    if present(ctypes.c_uint32(40)):  # PF_AVX2_INSTRUCTIONS_AVAILABLE
        flags.add("avx2")
    if present(ctypes.c_uint32(41)):  # PF_AVX512F; no other is named, Xeon Phi runs no Windows
        flags |= _AVX512
    tiles = 0b11 << 17  # XSTATE_MASK_AMX_TILE_CONFIG and _DATA, in the lower half of the answer
    if "asimd" not in flags and kernel.GetEnabledXStateFeatures() & tiles == tiles:
        flags.add("amx_tile")
    return frozenset(flags)


def has_avx512(flags: frozenset[str]) -> bool:
    """Say whether the flags hold all of x86-64-v4's."""
    return flags >= _AVX512


def physical_cores(ground: Ground) -> int:
    """Count the machine's cores, hyper-threads not counted."""
    if ground.system == "Linux":
        return _linux_cores(ground)
    if ground.system == "Darwin":
        return _figure(sysctl(ground), "hw.physicalcpu", "sysctl")
    if ground.system == "Windows":
        return _windows_cores(ground)
    raise ProbeError(f"cannot be read on {ground.system}")


def _linux_cores(ground: Ground) -> int:
    cpus = ground.path("sys/devices/system/cpu")
    for name in ("core_cpus_list", "thread_siblings_list"):  # the second before Linux 5.3
        cores = {file.read_text().strip() for file in cpus.glob(f"cpu[0-9]*/topology/{name}")}
        if cores:
            return len(cores)
    blocks = [_pairs(block, ":") for block in ground.read("proc/cpuinfo").split("\n\n")]
    found = {(b["physical id"], b["core id"]) for b in blocks if {"physical id", "core id"} <= {*b}}
    if not found:
        raise ProbeError("neither /sys/devices/system/cpu nor /proc/cpuinfo tells the cores")
    return len(found)


def _windows_cores(ground: Ground) -> int:
    import ctypes

    ask = ground.load("kernel32").GetLogicalProcessorInformationEx
    relation_core, size = ctypes.c_int(0), ctypes.c_uint32(0)
    ask(relation_core, None, ctypes.byref(size))  # fails, and tells the size
    buffer = ctypes.create_string_buffer(size.value)
    if not size.value or not ask(relation_core, buffer, ctypes.byref(size)):
        raise ProbeError("GetLogicalProcessorInformationEx failed")
    cores = offset = 0
    while offset < size.value:  # records (Relationship, Size, ...), one a core
        (length,) = struct.unpack_from("<I", buffer.raw, offset + 4)
        if length < 8:
            raise ProbeError(f"GetLogicalProcessorInformationEx gave a record of {length} bytes")
        cores, offset = cores + 1, offset + length
    return cores


def process_cores() -> int:
    """Count the hardware threads that this process may be scheduled on."""
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# ---------------------------------------------------------------------------- control groups


def cgroup_levels(ground: Ground, controller: str) -> tuple[int, tuple[Path, ...]]:
    """Find the control group that rules this process.

    Returns
    -------
    version : int
        1 or 2: which files to read.
    levels : tuple of Path
        The directories of the group and of those above it, up to the highest that is visible.
        Empty where nothing is controlled. The tightest of their limits counts.
    """
    if not ground.path("proc/self/cgroup").exists():  # a kernel without control groups
        return 2, ()
    groups: dict[str, str] = {}
    for line in ground.read("proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), group)  # version 2 names none: ""
    # A hybrid machine mounts both; the controller then sits in version 1.
    version, group = (1, groups[controller]) if controller in groups else (2, groups.get("", "/"))
    for line in ground.read("proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        kind, *_, options = right.split()
        holds = version == 2 or controller in options.split(",")
        if holds and kind == ("cgroup2" if version == 2 else "cgroup"):
            mounted, point = left.split()[3:5]
            top = ground.path(point)
            own = top / _below(mounted, group)
            levels = [own, *own.parents]
            return version, tuple(p for p in levels[: levels.index(top) + 1] if p.is_dir())
    return version, ()


def _below(mounted: str, group: str) -> PurePosixPath:
    """Return where a group lies below the part of the hierarchy that is mounted.

    Inside a container that may be nowhere; the mount then stands for the group.
    """
    path = PurePosixPath(group)
    if ".." in path.parts or not path.is_relative_to(mounted):
        return PurePosixPath()
    return path.relative_to(mounted)


def _limits(directory: Path, *names: str) -> list[int]:
    """Return the figures of the files that exist and hold a limit."""
    texts = [path.read_text().strip() for name in names if (path := directory / name).exists()]
    return [int(text) for text in texts if text != "max"]


def cpu_quota(ground: Ground) -> float | None:
    """Return how many processors' time the control group grants, None where it sets no limit."""
    version, levels = cgroup_levels(ground, "cpu")
    granted: list[float] = []
    for level in levels:
        if version == 2:
            file = level / "cpu.max"
            quota, period = file.read_text().split() if file.exists() else ("max", "100000")
            if quota != "max":
                granted.append(int(quota) / int(period))
        elif (quotas := _limits(level, "cpu.cfs_quota_us")) and quotas[0] > 0:  # -1: no limit
            granted.append(quotas[0] / int((level / "cpu.cfs_period_us").read_text()))
    return min(granted, default=None)


def usable_cores(ground: Ground, scheduled: int) -> int:
    """Return how many threads can run at once, of the `scheduled` that the affinity allows.

    A part of a processor counts as one, as Java and Go have it.
    """
    quota = cpu_quota(ground) if ground.system == "Linux" else None
    return scheduled if quota is None else min(scheduled, math.ceil(quota))


def within_cgroup(ground: Ground, memory: MemoryInfo) -> MemoryInfo:
    """Narrow the host's memory to what the control group leaves of it."""
    version, levels = cgroup_levels(ground, "memory")
    limits = ("memory.max", "memory.high") if version == 2 else ("memory.limit_in_bytes",)
    current = "memory.current" if version == 2 else "memory.usage_in_bytes"
    cache = "inactive_file" if version == 2 else "total_inactive_file"
    total, free = memory.total_bytes, memory.free_bytes
    for level in levels:
        if figures := _limits(level, *limits):
            limit = min(figures)
            used = int((level / current).read_text())
            # Files' cached pages count as used, but the kernel drops them when it must.
            droppable = int(_pairs((level / "memory.stat").read_text()).get(cache, "0"))
            total, free = min(total, limit), min(free, limit - used + droppable)
    return MemoryInfo(total, max(free, 0))


# ---------------------------------------------------------------------------- host memory


def host_memory(ground: Ground) -> MemoryInfo:
    """Return the machine's memory, not looking at control groups."""
    if ground.system == "Linux":
        table = _pairs(ground.read("proc/meminfo"), ":")
        return MemoryInfo(
            _figure(table, "MemTotal", "/proc/meminfo") * 1024,
            _figure(table, "MemAvailable", "/proc/meminfo") * 1024,
        )
    if ground.system == "Darwin":
        return _apple_memory(ground)
    if ground.system == "Windows":
        return _windows_memory(ground)
    if sys.platform == "win32":
        raise ProbeError(f"cannot be read on {ground.system}")
    page = os.sysconf("SC_PAGE_SIZE")
    return MemoryInfo(page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES"))


def _apple_memory(ground: Ground) -> MemoryInfo:
    text = ground.run("/usr/bin/vm_stat")
    page = re.search(r"page size of (\d+) bytes", text)
    if page is None:
        raise ProbeError("vm_stat: tells no page size")
    pages = _pairs(text, ":")
    # Speculative pages are part of the free ones that vm_stat has subtracted already.
    names = ("Pages free", "Pages inactive", "Pages speculative")
    free = int(page[1]) * sum(_figure(pages, name, "vm_stat") for name in names)
    return MemoryInfo(_figure(sysctl(ground), "hw.memsize", "sysctl"), free)


def _windows_memory(ground: Ground) -> MemoryInfo:
    import ctypes

    # MEMORYSTATUSEX: its length and the load in per cent, then seven 64-bit figures.
    buffer = ctypes.create_string_buffer(struct.pack("<II7Q", 64, *[0] * 8), 64)
    if not ground.load("kernel32").GlobalMemoryStatusEx(buffer):
        raise ProbeError("GlobalMemoryStatusEx failed")
    _, _, total, free, *_ = struct.unpack("<II7Q", buffer.raw)
    return MemoryInfo(total, free)


# ---------------------------------------------------------------------------- GPUs


def visible(setting: str | None, uuids: Sequence[str]) -> list[int]:
    """Select GPUs as a ``*_VISIBLE_DEVICES`` variable does.

    Parameters
    ----------
    setting : str or None
        Indices or (beginnings of) UUIDs, separated by commas; None selects all.
    uuids : sequence of str
        The GPUs in the driver's order.

    Returns
    -------
    list of int
        Indices into `uuids`. As with CUDA, the first entry that names no GPU ends the list, and
        a list that repeats one selects nothing.
    """
    if setting is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for entry in map(str.strip, setting.split(",")):
        if entry.isdecimal():
            found = [int(entry)] if int(entry) < len(uuids) else []
        else:
            found = [i for i, uuid in enumerate(uuids) if entry and uuid.startswith(entry)]
        if len(found) != 1:
            break
        chosen += found
    return chosen if len(set(chosen)) == len(chosen) else []


def _shared(host: MemoryInfo | None) -> MemoryInfo:
    """Return the host's memory for a GPU that has none of its own."""
    if host is None:
        raise ProbeError("it shares the host's memory, which could not be read")
    return host


@contextmanager
def nvml(ground: Ground) -> Iterator[Nvml]:
    """Open a conversation with NVIDIA's driver; each one costs some milliseconds."""
    driver = Nvml(ground.load("nvml.dll" if ground.system == "Windows" else "libnvidia-ml.so.1"))
    driver.call("nvmlInit_v2")
    try:
        yield driver
    finally:
        driver.call("nvmlShutdown")


class Nvml:
    """NVIDIA's management library, through its C interface.

    Arguments are passed as ctypes' own objects of the type that ``nvml.h`` declares, so nothing
    depends on prototypes. Handles are pointers that stay the driver's.
    """

    __slots__ = ("_library",)

    def __init__(self, library: Any) -> None:
        self._library = library

    def call(self, name: str, *arguments: object) -> None:
        """Call a function and raise, with the driver's words, what it returns."""
        import ctypes

        function = getattr(self._library, name, None)
        if function is None:
            raise ProbeError(f"{name}: the driver is too old to have it")
        status = int(function(*arguments))
        if status:
            words = self._library.nvmlErrorString
            words.restype = ctypes.c_char_p
            text = words(ctypes.c_int(status)) or b"no reason given"
            raise ProbeError(f"{name}: {text.decode(errors='replace')}")

    def _text(self, name: str, *arguments: object, size: int = 96) -> str:
        import ctypes

        buffer = ctypes.create_string_buffer(size)
        self.call(name, *arguments, buffer, ctypes.c_uint(size))
        return buffer.value.decode(errors="replace")

    def _handle(self, name: str, *arguments: object) -> Any:
        import ctypes

        handle = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle

    def handles(self) -> list[Any]:
        """Return the handles of all GPUs, in the order of the PCI bus."""
        import ctypes

        count = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        indices = range(count.value)
        return [self._handle("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(i)) for i in indices]

    def visible_handles(self, setting: str | None) -> list[Any]:
        """Return the handles of the GPUs that ``CUDA_VISIBLE_DEVICES`` selects."""
        first = (setting or "").partition(",")[0].strip()
        if first.startswith("MIG-"):  # CUDA sees one such part of a GPU, and nothing beside it
            return [self._handle("nvmlDeviceGetHandleByUUID", first.encode())]
        handles = self.handles()
        return [handles[i] for i in visible(setting, [self.uuid(h) for h in handles])]

    def name(self, handle: Any) -> str:
        """Return the product's name."""
        return self._text("nvmlDeviceGetName", handle)

    def uuid(self, handle: Any) -> str:
        """Return ``GPU-...``, or ``MIG-...`` for a part of one."""
        return self._text("nvmlDeviceGetUUID", handle)

    def compute_capability(self, handle: Any) -> tuple[int, int]:
        """Return ``(major, minor)``, those of the whole GPU for a part of one."""
        import ctypes

        if self.uuid(handle).startswith("MIG-"):
            handle = self._handle("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
        major, minor = ctypes.c_int(), ctypes.c_int()
        name = "nvmlDeviceGetCudaComputeCapability"
        self.call(name, handle, ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def memory(self, handle: Any) -> MemoryInfo:
        """Return the GPU's own memory; one that has none of its own raises."""
        import ctypes

        figures = (ctypes.c_ulonglong * 3)()  # nvmlMemory_t: total, free, used
        self.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(figures))
        return MemoryInfo(figures[0], figures[1])

    def describe(self, handle: Any, index: int, host: MemoryInfo | None) -> GpuInfo:
        """Describe the GPU that CUDA knows by `index`; `host` is the host's memory."""
        major, minor = capability = self.compute_capability(handle)
        unified = capability in _NVIDIA_INTEGRATED
        memory = _shared(host) if unified else self.memory(handle)
        return GpuInfo(
            device=as_device(f"cuda:{index}"),
            name=self.name(handle),
            memory=memory,
            unified_memory=unified,
            compute_capability=capability,
            architecture=f"sm_{major}{minor}",
            uuid=self.uuid(handle),
            driver_version=self._text("nvmlSystemGetDriverVersion"),
        )


def amd_nodes(ground: Ground) -> list[dict[str, str]]:
    """Return the properties of the compute nodes that ROCm's driver shows as GPUs."""
    top = ground.path("sys/class/kfd/kfd/topology/nodes")
    nodes: list[dict[str, str]] = []
    hidden = 0
    for directory in sorted(top.iterdir(), key=lambda path: int(path.name)):
        try:
            properties = _pairs((directory / "properties").read_text())
        except PermissionError:  # how the driver hides a GPU that this container was not given
            hidden += 1
            continue
        if int(properties.get("simd_count", "0")):  # else the node is a processor
            nodes.append(properties)
    if hidden and not nodes:
        raise ProbeError(f"{hidden} found, but this process may use none of them")
    # The second narrows what the first has left; HIP takes CUDA's variable for its own.
    environ = ground.environ
    hip = environ.get("HIP_VISIBLE_DEVICES", environ.get("CUDA_VISIBLE_DEVICES"))
    for setting in (environ.get("ROCR_VISIBLE_DEVICES"), hip):
        nodes = [nodes[i] for i in visible(setting, [_amd_uuid(node) for node in nodes])]
    return nodes


def _amd_uuid(node: Mapping[str, str]) -> str:
    return f"GPU-{int(node.get('unique_id', '0')):016x}"


def amd_gpu(
    ground: Ground, node: Mapping[str, str], index: int, host: MemoryInfo | None
) -> GpuInfo:
    """Describe the GPU that ROCm knows by `index`; `host` is the host's memory."""
    card = f"sys/class/drm/renderD{_figure(node, 'drm_render_minor', 'kfd')}/device"
    unified = node.get("cpu_cores_count", "0") != "0"  # cores and GPU in one node: an APU
    if unified:
        memory = _shared(host)
    else:
        total = int(ground.read(f"{card}/mem_info_vram_total"))
        memory = MemoryInfo(total, total - int(ground.read(f"{card}/mem_info_vram_used")))
    version = _figure(node, "gfx_target_version", "kfd")  # 90010 is 9, 0 and 10: gfx90a
    architecture = f"gfx{version // 10000}{version // 100 % 100}{version % 100:x}"
    named = ground.path(f"{card}/product_name")  # only server cards have one, or fill it
    name = named.read_text().strip() if named.exists() else ""
    return GpuInfo(
        device=as_device(f"rocm:{index}"),
        name=name or f"AMD {architecture}",
        memory=memory,
        unified_memory=unified,
        architecture=architecture,
        uuid=_amd_uuid(node),
    )


def apple_gpu(ground: Ground, host: MemoryInfo | None) -> GpuInfo:
    """Describe the GPU of Apple silicon; `host` is the host's memory, which it shares."""
    if ground.machine != "arm64":
        raise ProbeError(f"the processor is {ground.machine}; expected arm64")
    name = sysctl(ground).get("machdep.cpu.brand_string", "Apple silicon")
    return GpuInfo(as_device("mps"), name, _shared(host), unified_memory=True)
