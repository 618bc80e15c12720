"""Read what the host has: one small function for each fact, which returns it or raises.

Nothing heavy is imported: Linux is read from ``/proc`` and ``/sys``, macOS through ``sysctl`` and
``vm_stat``, Windows through ``kernel32``; GPUs are in `_gpus.py`. All of it comes in through a
`Ground`, so that tests can stand on the recorded ground of any machine. A failing probe raises one
of `FAILURES`; who asks decides whether that is an error or a reason to note.
"""

from __future__ import annotations

import math
import os
import platform
import re
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final


class ProbeError(Exception):
    """A fact about the machine could not be read."""


#: What a probe raises: files that are missing or refuse, figures that are none, and the rest.
FAILURES: Final = (OSError, ValueError, ProbeError)

#: x86-64-v4. The first alone, as on Xeon Phi, is not what code compiled for AVX-512 expects.
_AVX512: Final = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """Memory of a device at the moment it was asked.

    Attributes
    ----------
    total_bytes : int
        What this process may use at most: the device's memory or, on the host, the control
        group's limit or the process's own (``ulimit -v``) where that is lower.
    free_bytes : int
        What could be allocated now without swapping, caches that can be dropped included.
    """

    total_bytes: int
    free_bytes: int


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


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip()


def pairs_of(text: str, separator: str | None = None) -> dict[str, str]:
    """Read lines of ``name: value`` or ``name value``."""
    split = (line.split(separator, 1) for line in text.splitlines())
    return {parts[0].strip(): parts[1].strip() for parts in split if len(parts) == 2}


def figure(pairs: Mapping[str, str], name: str, source: str) -> int:
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
    return pairs_of(ground.run("/usr/sbin/sysctl", "hw", "machdep.cpu"), ":")


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
        return figure(sysctl(ground), "hw.physicalcpu", "sysctl")
    if ground.system == "Windows":
        return _windows_cores(ground)
    raise ProbeError(f"cannot be read on {ground.system}")


def _linux_cores(ground: Ground) -> int:
    cpus = ground.path("sys/devices/system/cpu")
    for name in ("core_cpus_list", "thread_siblings_list"):  # the second before Linux 5.3
        cores = {_text(file) for file in cpus.glob(f"cpu[0-9]*/topology/{name}")}
        if cores:
            return len(cores)
    blocks = [pairs_of(block, ":") for block in ground.read("proc/cpuinfo").split("\n\n")]
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


def scheduled_cores() -> int:
    """Count the hardware threads that this process may be scheduled on, as libraries do."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def process_cores() -> int:
    """Count the same, or take what Python was told since 3.13, by `PYTHON_CPU_COUNT`."""
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    return scheduled_cores()


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
    texts = [_text(path) for name in names if (path := directory / name).exists()]
    return [int(text) for text in texts if text != "max"]


def cpu_quota(ground: Ground) -> float | None:
    """Return how many processors' time the control group grants, None where it sets no limit."""
    version, levels = cgroup_levels(ground, "cpu")
    granted: list[float] = []
    for level in levels:
        if version == 2:
            file = level / "cpu.max"
            quota, period = _text(file).split() if file.exists() else ("max", "100000")
            if quota != "max":
                granted.append(int(quota) / int(period))
        elif (quotas := _limits(level, "cpu.cfs_quota_us")) and quotas[0] > 0:  # -1: no limit
            granted.append(quotas[0] / int(_text(level / "cpu.cfs_period_us")))
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
            used = int(_text(level / current))
            # Files' cached pages count as used, but the kernel drops them when it must.
            droppable = int(pairs_of(_text(level / "memory.stat")).get(cache, "0"))
            total, free = min(total, limit), min(free, limit - used + droppable)
    return MemoryInfo(total, max(free, 0))


#: What Linux limits for a process (``ulimit -v`` and ``-d``), and the name of what is used of it.
_LIMITED: Final = {"Max address space": "VmSize", "Max data size": "VmData"}


def within_limits(ground: Ground, memory: MemoryInfo) -> MemoryInfo:
    """Narrow the host's memory to what the limits of this process leave of it."""
    if not ground.path("proc/self/limits").exists():
        return memory
    columns = (re.split(r"\s{2,}", line) for line in ground.read("proc/self/limits").splitlines())
    limits = {
        _LIMITED[name]: int(soft)
        for name, soft, *_ in columns
        if name in _LIMITED and soft != "unlimited"
    }
    if not limits:
        return memory
    used = pairs_of(ground.read("proc/self/status"), ":")
    total, free = memory.total_bytes, memory.free_bytes
    for name, limit in limits.items():
        taken = figure(used, name, "/proc/self/status") * 1024
        total, free = min(total, limit), min(free, limit - taken)
    return MemoryInfo(total, max(free, 0))


# ---------------------------------------------------------------------------- host memory


def host_memory(ground: Ground) -> MemoryInfo:
    """Return the machine's memory, not looking at control groups."""
    if ground.system == "Linux":
        table = pairs_of(ground.read("proc/meminfo"), ":")
        return MemoryInfo(
            figure(table, "MemTotal", "/proc/meminfo") * 1024,
            figure(table, "MemAvailable", "/proc/meminfo") * 1024,
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
    pages = pairs_of(text, ":")
    # Speculative pages are part of the free ones that vm_stat has subtracted already.
    names = ("Pages free", "Pages inactive", "Pages speculative")
    free = int(page[1]) * sum(figure(pages, name, "vm_stat") for name in names)
    return MemoryInfo(figure(sysctl(ground), "hw.memsize", "sysctl"), free)


def _windows_memory(ground: Ground) -> MemoryInfo:
    import ctypes

    # MEMORYSTATUSEX: its length and the load in per cent, then seven 64-bit figures.
    buffer = ctypes.create_string_buffer(struct.pack("<II7Q", 64, *[0] * 8), 64)
    if not ground.load("kernel32").GlobalMemoryStatusEx(buffer):
        raise ProbeError("GlobalMemoryStatusEx failed")
    _, _, total, free, *_ = struct.unpack("<II7Q", buffer.raw)
    return MemoryInfo(total, free)
