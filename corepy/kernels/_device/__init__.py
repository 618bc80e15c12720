"""Kernels in C, run by OpenCL, CUDA and HIP: the runtime that all families of them share.

``portability.h`` is the dialect they are written in, ``tiles.h`` what products share, `_runtime`
what a launch is, `_opencl` and `_cupy` the libraries that compile and launch.
"""

from corepy.kernels._device._runtime import (
    TILES,
    Memory,
    Program,
    Result,
    apart,
    broadcast,
    broadcast_rows,
    launch,
    memory,
    on_device,
    reals,
    refuse_overlap_on_device,
    rows,
    target_of,
    tell_changed,
)

__all__ = [
    "TILES",
    "Memory",
    "Program",
    "Result",
    "apart",
    "broadcast",
    "broadcast_rows",
    "launch",
    "memory",
    "on_device",
    "reals",
    "refuse_overlap_on_device",
    "rows",
    "target_of",
    "tell_changed",
]
