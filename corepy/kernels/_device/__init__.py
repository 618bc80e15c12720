"""Kernels in C, run by OpenCL, CUDA and HIP: the runtime that all families of them share.

``portability.h`` is the dialect they are written in, `_runtime` what a launch is, `_opencl` and
`_cupy` the libraries that compile and launch.
"""

from corepy.kernels._device._runtime import (
    Memory,
    Program,
    Result,
    broadcast,
    broadcast_rows,
    launch,
    memory,
    on_device,
    rows,
    target_of,
)

__all__ = [
    "Memory",
    "Program",
    "Result",
    "broadcast",
    "broadcast_rows",
    "launch",
    "memory",
    "on_device",
    "rows",
    "target_of",
]
