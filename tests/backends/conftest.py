"""What tests of backends have in common."""

from __future__ import annotations

import pytest

from tests.sharing import share


@pytest.fixture(params=["alone", "shared"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run loops in the calling thread, or share the smallest ones."""
    if request.param == "shared":
        share(monkeypatch)
    return str(request.param)
