"""Where the libraries of drivers are that tinygrad loads: OpenCL's loader, and Dawn for WebGPU.

tinygrad looks in the system's folders, and where ``OPENCL_PATH`` and ``WEBGPU_PATH`` point. Python
packages bring both libraries too, in folders of their own, which are named to it here. What the
user has set stays.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from ctypes import CDLL
from ctypes.util import find_library
from importlib.util import find_spec
from pathlib import Path
from typing import Final

#: What is to be installed where a device is missing, for `corepy info`.
HINTS: Final[Mapping[str, str]] = {
    "opencl": (
        "install the driver of the GPU, or PoCL to compute on the processor (apt-get install "
        "pocl-opencl-icd ocl-icd-libopencl1, or pip install pyopencl pocl-binary-distribution)"
    ),
    "webgpu": (
        "install Dawn (pip install dawn-python) and a driver of Vulkan, Metal or Direct3D 12 "
        "(apt-get install mesa-vulkan-drivers libvulkan1 has one for the processor)"
    ),
}


def name_opencl() -> None:
    """Name pyopencl's OpenCL loader to tinygrad where the system has none."""
    named = os.environ.get("OPENCL_PATH")
    if named is None and find_library("OpenCL") is not None:
        return
    found = _bundled("pyopencl", ".libs", "libOpenCL*.so*")
    if found is not None and named in (None, str(found)):  # which a parent process named, too
        # The loader finds the drivers beside it only after pyopencl's own module has loaded it.
        import pyopencl  # noqa: F401

        os.environ["OPENCL_PATH"] = str(found)


def name_webgpu() -> None:
    """Name the package dawn-python's library to tinygrad where the system has none.

    Raises
    ------
    OSError
        If Linux has no loader of Vulkan's drivers. Dawn would write that to the standard error, and
        take a device that computes nothing.
    """
    if "XDG_RUNTIME_DIR" not in os.environ:
        # Else Mesa's layer for Vulkan asks the desktop for its GPU, and complains where is none.
        os.environ.setdefault("NODEVICE_SELECT", "1")
    if platform.system() == "Linux" and "WEBGPU_BACKEND" not in os.environ:
        CDLL("libvulkan.so.1")
    if "WEBGPU_PATH" in os.environ or find_library("webgpu_dawn") is not None:
        return
    machine = {"AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    suffixes = {"Darwin": f"_{machine}.dylib", "Windows": ".dll"}
    suffix = suffixes.get(platform.system(), f"_{machine}.so")
    found = _bundled("pydawn", "lib", f"libwebgpu_dawn{suffix}")
    if found is not None:
        os.environ["WEBGPU_PATH"] = str(found)


def _bundled(package: str, folder: str, pattern: str) -> Path | None:
    """Return a library in a folder of an installed package, without importing the package."""
    spec = find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted((Path(place) / folder).glob(pattern)):
            return path
    return None
