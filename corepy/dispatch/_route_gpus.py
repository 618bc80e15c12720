"""GPUs as tables of routes know them: by their names, and by what else makes them fast or slow."""

from __future__ import annotations

import os
from typing import Any, Final

from corepy.devices._capabilities import detect_devices
from corepy.devices._device import Device
from corepy.dispatch import _machine

#: Of CuPy one is installed, for a version of CUDA; torch's number tells for which it was built.
_DISTRIBUTIONS: Final = (
    *("torch", "cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"),
    *("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu11", "nvidia-cuda-runtime-cu12"),
)
#: Environment variables that change how long operations take.
_SETTINGS: Final = ("CUPY_ACCELERATORS", "CUPY_TF32", "NVIDIA_TF32_OVERRIDE")


def gpu_name(device: Device) -> str | None:
    """Return the name of the GPU that a device is, None where no driver tells."""
    return next((gpu.name for gpu in detect_devices().gpus if gpu.device is device), None)


def gpu_key(name: str) -> dict[str, Any]:
    """Return what decides how fast operations are on a GPU: a table of another does not apply."""
    return {
        "gpu": name,
        "versions": _machine.versions(_DISTRIBUTIONS),
        "settings": {name: os.environ[name] for name in _SETTINGS if name in os.environ},
    }


def key_of(gpu: str | None) -> dict[str, Any]:
    """Return the key of a table for a GPU, or for the host."""
    return _machine.machine_key() if gpu is None else gpu_key(gpu)
