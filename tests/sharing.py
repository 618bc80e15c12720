"""Work that threads share, however small it is, and work that one does alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from corepy._loops._helpers import Helpers


class _Counted:
    """Helpers that take note of how many are asked."""

    def __init__(self, helpers: Helpers) -> None:
        self._helpers = helpers
        self.board = helpers.board
        self.asked: list[int] = []

    def call(self, work: Callable[[], object], count: int) -> Any:
        self.asked.append(count)
        return self._helpers.call(work, count)

    def wake(self, count: int) -> None:
        self.asked.append(count)
        self._helpers.wake(count)


def share(
    monkeypatch: pytest.MonkeyPatch, threads: int = 2, helpers: Helpers | None = None
) -> list[int]:
    """Share all work among so many threads; return a list that tells how many helpers are asked."""
    from corepy._loops import _sharing

    for name in ("PARALLEL_FROM", "SHARED_FROM", "STRETCH", "CALLED_STRETCH"):
        monkeypatch.setattr(_sharing, name, 1)
    monkeypatch.setattr(_sharing, "numbas_threads", lambda: threads)
    counted = _Counted(helpers or _sharing.helpers())
    monkeypatch.setattr(_sharing, "helpers", lambda: counted)
    monkeypatch.setattr(_sharing._company, "judge", lambda worked, waited: None)
    monkeypatch.setattr(_sharing._company, "alone", 0)
    return counted.asked


def work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share no work."""
    from corepy._loops import _sharing

    monkeypatch.setattr(_sharing, "SHARED_FROM", 1 << 62)
