"""The path that a test asks for: compiled kernels, device kernels, or the reference."""

from __future__ import annotations

from typing import Final

import pytest

from tests.kernels.libraries import Kind, device_kinds, kinds, select

#: Modules of functions that have device kernels.
_ON_DEVICES: Final = ("activations", "adam", "norms", "rope", "softmax")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on arrays of each library, computed by each path that there is."""
    markers = metafunc.definition.iter_markers("parametrize")
    if "kind" not in metafunc.fixturenames or any("kind" in m.args[0] for m in markers):
        return
    name = metafunc.module.__name__.rpartition("test_")[2]
    found = [*kinds(), *(device_kinds() if name in _ON_DEVICES else ())]
    metafunc.parametrize("kind", found, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    """Give whose arrays a test makes."""
    found: Kind = request.param
    select(monkeypatch, found)
    return found
