"""Read what GPUs there are, as their drivers tell: NVIDIA's, AMD's and Apple's.

NVIDIA's driver answers through its management library, AMD's in ``/sys``. As in `_probe.py` all of
it comes in through a `Ground`, and what fails raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from corepy.devices._device import Device, as_device
from corepy.devices._probe import Ground, MemoryInfo, ProbeError, figure, pairs_of, sysctl

#: Compute capabilities of the NVIDIA GPUs that have no memory of their own (Jetson boards, GB10):
#: asked for it, their driver answers "Not Supported".
_NVIDIA_INTEGRATED: Final = {(5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0), (12, 1)}


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

    def _text(self, name: str, *arguments: object) -> str:
        import ctypes

        size = 96
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
            properties = pairs_of((directory / "properties").read_text(encoding="utf-8"))
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
    card = f"sys/class/drm/renderD{figure(node, 'drm_render_minor', 'kfd')}/device"
    unified = node.get("cpu_cores_count", "0") != "0"  # cores and GPU in one node: an APU
    if unified:
        memory = _shared(host)
    else:
        total = int(ground.read(f"{card}/mem_info_vram_total"))
        memory = MemoryInfo(total, total - int(ground.read(f"{card}/mem_info_vram_used")))
    version = figure(node, "gfx_target_version", "kfd")  # 90010 is 9, 0 and 10: gfx90a
    architecture = f"gfx{version // 10000}{version // 100 % 100}{version % 100:x}"
    named = ground.path(f"{card}/product_name")  # only server cards have one, or fill it
    name = named.read_text(encoding="utf-8").strip() if named.exists() else ""
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
