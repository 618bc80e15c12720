"""What all tests of tuning share."""

from __future__ import annotations

import pytest

from corepy.tuning._clock import Usage


@pytest.fixture(autouse=True)
def in_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """See no other process: tests beside others would find other things."""
    monkeypatch.setattr(Usage, "is_crowded", lambda self, threads: False)
