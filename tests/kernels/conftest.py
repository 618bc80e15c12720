"""The path that a test asks for: compiled kernels, device kernels, or the reference."""

from __future__ import annotations

from types import ModuleType
from typing import Final

import pytest

from tests.kernels.libraries import Kind, device_kinds, kinds, select

#: Modules of functions that have device kernels.
_ON_DEVICES: Final = (
    *("activations", "adam", "attention", "batch_norm", "cache", "norms", "quantized", "rope"),
    "softmax",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on arrays of each library, computed by each path that there is."""
    markers = metafunc.definition.iter_markers("parametrize")
    if "kind" not in metafunc.fixturenames or any("kind" in m.args[0] for m in markers):
        return
    name = _name_of(metafunc.module)
    found = [*kinds(), *(device_kinds() if name in _ON_DEVICES else ())]
    metafunc.parametrize("kind", found, indirect=True)


def _name_of(module: ModuleType) -> str:
    return module.__name__.rpartition("test_")[2]


@pytest.fixture(autouse=True)
def quick_builds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PoCL not optimise where builds are many, which takes most of their time.

    What `test_device.py` and `test_device_dialect.py` build is optimised, as users have it.
    """
    if _name_of(request.module) in (
        *_ON_DEVICES,
        "attention_device",
        "convolutions",
        "matrices",
        "tinygrad",
    ):
        monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")


@pytest.fixture
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    """Give whose arrays a test makes."""
    found: Kind = request.param
    select(monkeypatch, found)
    return found
