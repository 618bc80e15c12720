"""Kernels in C, run by OpenCL, CUDA and HIP: the runtime that all families of them share.

``portability.h`` is the dialect they are written in, ``tiles.h`` what products share, `_runtime`
what a launch is, `_opencl` and `_cupy` the libraries that compile and launch, `_results` where
results are put.
"""

from corepy.kernels._device._results import (
    Result,
    apart,
    refuse_overlap_on_device,
    tell_changed,
)
from corepy.kernels._device._runtime import (
    TILES,
    Memory,
    Program,
    broadcast,
    broadcast_rows,
    launch,
    memory,
    on_device,
    reals,
    rows,
    target_of,
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
