"""The path that a test asks for: compiled kernels, or the reference."""

from __future__ import annotations

import pytest

from tests.kernels.libraries import Kind, kinds, select


@pytest.fixture(params=kinds())
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    """Run a test on arrays of each library, computed by the reference and compiled."""
    found: Kind = request.param
    select(monkeypatch, found)
    return found
