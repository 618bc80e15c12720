"""Probes of processor and host memory, on the recorded ground of other machines."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from corepy.devices import _probe
from corepy.devices._probe import Ground, MemoryInfo, ProbeError

GIB = 2**30

#: A two-socket server of the AVX-512 and AMX generation; four of its hardware threads.
SAPPHIRE_RAPIDS = """\
processor\t: {cpu}
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8480+
physical id\t: {socket}
core id\t\t: {core}
flags\t\t: fpu sse sse2 avx fma avx2 avx512f avx512dq avx512cd avx512bw avx512vl amx_bf16 amx_tile \
amx_int8
bugs\t\t: spectre_v1

"""
XEON_PHI = "processor\t: 0\nflags\t\t: fpu avx avx2 avx512f avx512pf avx512er avx512cd\n"
GRAVITON = """\
processor\t: 0
BogoMIPS\t: 2100.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp sve
CPU implementer\t: 0x41

processor\t: 1
BogoMIPS\t: 2100.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp
CPU implementer\t: 0x41
"""
MEMINFO = """\
MemTotal:       67108864 kB
MemFree:         1048576 kB
MemAvailable:   33554432 kB
Buffers:             532 kB
"""

#: What systemd mounts on a pure version 2 machine, and on one that keeps version 1 beside it.
MOUNTS_V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
MOUNTS_HYBRID = """\
24 1 254:1 / / rw,relatime shared:1 - ext4 /dev/root rw
31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
32 31 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
"""
UNLIMITED_V1 = 9223372036854771712


def linux(root: Path, files: Mapping[str, object], machine: str = "x86_64") -> Ground:
    """Lay a Linux machine's files below a directory."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}")
    return Ground(root=root, system="Linux", machine=machine, environ={})


def tools(**printed: str) -> Callable[..., str]:
    return lambda command, *_: printed[command.rpartition("/")[2]]


# ---------------------------------------------------------------------------- instruction sets


def test_x86_flags_of_avx512_and_amx(tmp_path: Path) -> None:
    text = SAPPHIRE_RAPIDS.format(cpu=0, socket=0, core=0)
    flags = _probe.cpu_flags(linux(tmp_path, {"proc/cpuinfo": text}))
    assert {"avx2", "avx512f", "amx_tile"} <= flags
    assert "spectre_v1" not in flags
    assert _probe.has_avx512(flags)


def test_avx512_foundation_alone_is_not_avx512(tmp_path: Path) -> None:
    flags = _probe.cpu_flags(linux(tmp_path, {"proc/cpuinfo": XEON_PHI}))
    assert "avx512f" in flags
    assert not _probe.has_avx512(flags)


def test_arm_flags_are_those_that_all_cores_share(tmp_path: Path) -> None:
    flags = _probe.cpu_flags(linux(tmp_path, {"proc/cpuinfo": GRAVITON}, "aarch64"))
    assert "asimd" in flags
    assert "sve" not in flags  # only the first core has it


def test_flags_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _probe.cpu_flags(linux(tmp_path, {}))
    with pytest.raises(ProbeError, match="no line of flags"):
        _probe.cpu_flags(linux(tmp_path, {"proc/cpuinfo": "processor: 0\n"}))
    with pytest.raises(ProbeError, match="cannot be read on Plan9"):
        _probe.cpu_flags(Ground(system="Plan9"))


def test_apple_flags() -> None:
    intel = "hw.physicalcpu: 8\nhw.optional.avx2_0: 1\nhw.optional.avx512f: 0\n"
    ground = Ground(system="Darwin", machine="x86_64", run=tools(sysctl=intel))
    assert _probe.cpu_flags(ground) == {"avx2"}
    assert _probe.physical_cores(ground) == 8
    assert _probe.cpu_flags(Ground(system="Darwin", machine="arm64")) == {"asimd"}


def windows_kernel(features: set[int], xstate: int) -> SimpleNamespace:
    """Stand in for kernel32, with true C functions in place of its own."""
    present = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32)
    enabled = ctypes.CFUNCTYPE(ctypes.c_uint64)
    memory = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    cores = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32)
    )
    # Two cores of one group and one whose record is longer.
    records = b"".join(struct.pack(f"<II{n - 8}x", 0, n) for n in (48, 48, 64))

    def fill_memory(at: int) -> int:
        if ctypes.c_uint32.from_address(at).value != 64:  # as Windows refuses a wrong dwLength
            return 0
        ctypes.memmove(at + 8, struct.pack("<2Q", 32 * GIB, 20 * GIB), 16)
        return 1

    def fill_cores(relation: int, at: int | None, size: object) -> int:
        room, size[0] = size[0], len(records)  # type: ignore[index]
        if relation != 0 or at is None or room < len(records):
            return 0
        ctypes.memmove(at, records, len(records))
        return 1

    return SimpleNamespace(
        IsProcessorFeaturePresent=present(lambda feature: feature in features),
        GetEnabledXStateFeatures=enabled(lambda: xstate),
        GlobalMemoryStatusEx=memory(fill_memory),
        GetLogicalProcessorInformationEx=cores(fill_cores),
    )


@pytest.mark.parametrize(
    ("features", "xstate", "expected"),
    [
        ({40}, 0b111, {"avx2"}),
        ({40, 41}, 0b11 << 17 | 0xE7, {"avx2", "amx_tile", *_probe._AVX512}),
        ({40}, 1 << 17, {"avx2"}),  # the configuration without the tiles
        ({19}, 0b11 << 17, {"asimd"}),
    ],
)
def test_windows_flags(features: set[int], xstate: int, expected: set[str]) -> None:
    kernel = windows_kernel(features, xstate)
    assert _probe.cpu_flags(Ground(system="Windows", load=lambda _: kernel)) == expected


# ---------------------------------------------------------------------------- cores


def test_cores_of_linux_count_siblings_once(tmp_path: Path) -> None:
    siblings = {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}
    files = {f"sys/devices/system/cpu/cpu{i}/topology/thread_siblings_list": s
             for i, s in siblings.items()}  # fmt: skip
    assert _probe.physical_cores(linux(tmp_path, files)) == 2


def test_cores_of_linux_from_cpuinfo(tmp_path: Path) -> None:
    threads = [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 0, 0)]  # the last is the first's sibling
    text = "".join(SAPPHIRE_RAPIDS.format(cpu=t, socket=s, core=c) for t, s, c in threads)
    assert _probe.physical_cores(linux(tmp_path, {"proc/cpuinfo": text})) == 3
    with pytest.raises(ProbeError, match="neither"):
        _probe.physical_cores(linux(tmp_path, {"proc/cpuinfo": GRAVITON}))


def test_cores_of_windows_walk_records_of_any_length() -> None:
    kernel = windows_kernel(set(), 0)
    assert _probe.physical_cores(Ground(system="Windows", load=lambda _: kernel)) == 3


def test_process_cores_is_what_the_scheduler_allows() -> None:
    assert 1 <= _probe.process_cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("quota", "scheduled", "usable"),
    [
        ("max 100000", 8, 8),
        ("250000 100000", 8, 3),
        ("50000 100000", 8, 1),
        ("800000 100000", 2, 2),
    ],
)
def test_quota_of_cgroup_v2(tmp_path: Path, quota: str, scheduled: int, usable: int) -> None:
    files = {
        "proc/self/cgroup": "0::/job\n",
        "proc/self/mountinfo": MOUNTS_V2,
        "sys/fs/cgroup/job/cpu.max": quota,
    }
    assert _probe.usable_cores(linux(tmp_path, files), scheduled) == usable


def test_quota_of_a_parent_counts(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/slice/job\n",
        "proc/self/mountinfo": MOUNTS_V2,
        "sys/fs/cgroup/slice/cpu.max": "150000 100000",
        "sys/fs/cgroup/slice/job/cpu.max": "400000 100000",
    }
    assert _probe.cpu_quota(linux(tmp_path, files)) == 1.5


def test_quota_of_cgroup_v1(tmp_path: Path) -> None:
    base = "sys/fs/cgroup/cpu,cpuacct"
    files = {
        "proc/self/cgroup": "4:memory:/\n2:cpu,cpuacct:/docker/3f\n0::/\n",
        "proc/self/mountinfo": MOUNTS_HYBRID,
        f"{base}/cpu.cfs_quota_us": -1,
        f"{base}/cpu.cfs_period_us": 100000,
        f"{base}/docker/3f/cpu.cfs_quota_us": 350000,
        f"{base}/docker/3f/cpu.cfs_period_us": 100000,
    }
    assert _probe.cpu_quota(linux(tmp_path, files)) == 3.5


def test_no_quota(tmp_path: Path) -> None:
    assert _probe.cpu_quota(linux(tmp_path, {})) is None  # no control groups at all
    files = {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": ""}  # groups, none mounted
    assert _probe.cpu_quota(linux(tmp_path, files)) is None
    assert _probe.usable_cores(Ground(system="Windows"), 6) == 6


# ---------------------------------------------------------------------------- host memory


def test_memory_of_linux(tmp_path: Path) -> None:
    ground = linux(tmp_path, {"proc/meminfo": MEMINFO})
    assert _probe.host_memory(ground) == MemoryInfo(64 * GIB, 32 * GIB)
    with pytest.raises(ProbeError, match="MemAvailable is None; expected a number"):
        _probe.host_memory(linux(tmp_path, {"proc/meminfo": "MemTotal: 4 kB\n"}))


def test_memory_of_macos() -> None:
    vm_stat = """\
Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               65536.
Pages active:                            500000.
Pages inactive:                          131072.
Pages speculative:                        65536.
"Translation faults":                 123456789.
"""
    ground = Ground(system="Darwin", run=tools(vm_stat=vm_stat, sysctl="hw.memsize: 17179869184\n"))
    assert _probe.host_memory(ground) == MemoryInfo(16 * GIB, 4 * GIB)
    with pytest.raises(ProbeError, match="page size"):
        _probe.host_memory(Ground(system="Darwin", run=tools(vm_stat="")))


def test_memory_of_windows() -> None:
    kernel = windows_kernel(set(), 0)
    ground = Ground(system="Windows", load=lambda _: kernel)
    assert _probe.host_memory(ground) == MemoryInfo(32 * GIB, 20 * GIB)
    refusing = SimpleNamespace(GlobalMemoryStatusEx=lambda _: 0)
    with pytest.raises(ProbeError, match="GlobalMemoryStatusEx failed"):
        _probe.host_memory(Ground(system="Windows", load=lambda _: refusing))


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="only Unix has sysconf")
def test_memory_of_other_unix() -> None:
    memory = _probe.host_memory(Ground(system="FreeBSD"))
    assert 0 < memory.free_bytes <= memory.total_bytes


HOST = MemoryInfo(64 * GIB, 32 * GIB)


def test_memory_of_cgroup_v2_takes_the_tightest_level(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/slice/job\n",
        "proc/self/mountinfo": MOUNTS_V2,
        "sys/fs/cgroup/memory.stat": "",  # the root group has no limits
        "sys/fs/cgroup/slice/memory.max": 16 * GIB,
        "sys/fs/cgroup/slice/memory.high": "max",
        "sys/fs/cgroup/slice/memory.current": 15 * GIB,
        "sys/fs/cgroup/slice/memory.stat": f"anon {12 * GIB}\ninactive_file {2 * GIB}\n",
        "sys/fs/cgroup/slice/job/memory.max": 12 * GIB,
        "sys/fs/cgroup/slice/job/memory.high": 10 * GIB,
        "sys/fs/cgroup/slice/job/memory.current": 6 * GIB,
        "sys/fs/cgroup/slice/job/memory.stat": f"anon {6 * GIB}\ninactive_file 0\n",
    }
    # The own group is limited to 10 and has 4 left; its slice has 16 - 15 + 2 = 3 left.
    memory = _probe.within_cgroup(linux(tmp_path, files), HOST)
    assert memory == MemoryInfo(10 * GIB, 3 * GIB)


def test_memory_of_cgroup_v1(tmp_path: Path) -> None:
    base = "sys/fs/cgroup/memory"
    files = {
        "proc/self/cgroup": "4:memory:/docker/3f\n2:cpu,cpuacct:/\n0::/\n",
        "proc/self/mountinfo": MOUNTS_HYBRID,
        f"{base}/memory.limit_in_bytes": UNLIMITED_V1,
        f"{base}/memory.usage_in_bytes": 30 * GIB,
        f"{base}/memory.stat": "total_inactive_file 0\n",
        f"{base}/docker/3f/memory.limit_in_bytes": 8 * GIB,
        f"{base}/docker/3f/memory.usage_in_bytes": 5 * GIB,
        f"{base}/docker/3f/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB}\n",
    }
    memory = _probe.within_cgroup(linux(tmp_path, files), HOST)
    assert memory == MemoryInfo(8 * GIB, 4 * GIB)


@pytest.mark.parametrize(
    ("group", "mounted"),
    [
        ("/", "/"),  # the container has its own view of the hierarchy
        ("/docker/3f", "/docker/3f"),  # the host's view, the own group mounted
        ("/../../other", "/"),  # a process moved out of the container's view
        ("/docker/3f", "/kubepods/9c"),  # a group that is not mounted here
    ],
)
def test_memory_in_containers(tmp_path: Path, group: str, mounted: str) -> None:
    files = {
        "proc/self/cgroup": f"0::{group}\n",
        "proc/self/mountinfo": MOUNTS_V2.replace(" / /sys", f" {mounted} /sys"),
        "sys/other/memory.max": GIB,  # no control group, though the third path leads here
        "sys/other/memory.current": 0,
        "sys/other/memory.stat": "",
        "sys/fs/cgroup/memory.max": 2 * GIB,
        "sys/fs/cgroup/memory.current": 3 * GIB,  # over its limit: nothing is free
        "sys/fs/cgroup/memory.stat": "",
    }
    memory = _probe.within_cgroup(linux(tmp_path, files), HOST)
    assert memory == MemoryInfo(2 * GIB, 0)


def test_memory_without_limits_is_the_host_s(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/job\n",
        "proc/self/mountinfo": MOUNTS_V2,
        "sys/fs/cgroup/job/memory.max": "max",
    }
    assert _probe.within_cgroup(linux(tmp_path, files), HOST) == HOST


LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max data size             {data}            unlimited            bytes
Max stack size            8388608              unlimited            bytes
Max address space         {space}            unlimited            bytes
Max nice priority         0                    0
"""


@pytest.mark.parametrize(
    ("data", "space", "expected"),
    [
        ("unlimited", "unlimited", HOST),
        ("unlimited", 8 * GIB, MemoryInfo(8 * GIB, 3 * GIB)),
        (4 * GIB, 9 * GIB, MemoryInfo(4 * GIB, 2 * GIB)),
        ("unlimited", 4 * GIB, MemoryInfo(4 * GIB, 0)),  # lowered to less than what it has
        (HOST.total_bytes * 2, HOST.total_bytes * 2, HOST),
    ],
)
def test_memory_is_what_the_limits_of_the_process_leave(
    tmp_path: Path, data: object, space: object, expected: MemoryInfo
) -> None:
    used = f"VmSize:\t{5 * GIB // 1024} kB\nVmData:\t{2 * GIB // 1024} kB\n"
    files = {
        "proc/self/limits": LIMITS.format(data=data, space=space),
        "proc/self/status": used,
    }
    assert _probe.within_limits(linux(tmp_path, files), HOST) == expected


def test_memory_where_the_kernel_tells_no_limits_is_the_host_s(tmp_path: Path) -> None:
    assert _probe.within_limits(linux(tmp_path, {}), HOST) == HOST
