"""Up to how many rows BLAS is faster in one thread than in several."""

from __future__ import annotations

from typing import Any

import pytest

from corepy.tuning import _alone


@pytest.mark.parametrize(
    ("gains", "enough"),
    [
        ({}, 640),  # nobody gains anywhere: what holds for all machines
        ({100: (1.4, 1.3), 128: (1.4, 1.3)}, 0),
        ({100: (1.4, 1.3)}, 640),  # once is chance
        ({128: (1.1, 0.7), 181: (0.9, 1.3)}, 640),  # asleep they lose what they gain awake
        ({128: (1.1, 0.9), 181: (1.1, 0.9)}, 100),  # or less
        ({256: (1.2, 1.1), 512: (1.3, 1.3), 640: (1.2, 1.2)}, 362),
        ({640: (1.2, 1.2)}, 512),
    ],
)
def test_one_thread_is_enough_up_to_where_several_gain_awake_and_asleep(
    gains: dict[int, tuple[float, float]], enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def works(name: str, side: int) -> dict[str, Any]:
        seen.append(side)
        return {"alone": lambda: None, "together": lambda: None}

    def times(asleep: bool) -> dict[str, list[float]]:
        gain = gains.get(seen[-1], (1.0, 1.0))[asleep]
        return {"alone": [gain / 1e3] * 9, "together": [1e-3] * 9}

    monkeypatch.setattr(_alone, "_works", works)
    monkeypatch.setattr(_alone, "take_turns", lambda works, seconds: times(False))
    monkeypatch.setattr(_alone, "after", lambda company, works, rounds: times(True))
    assert _alone.rows_alone("linalg.qr", 0.1) == enough


@pytest.mark.parametrize("name", _alone.OPERATIONS)
def test_what_is_timed_in_one_thread_runs(name: str) -> None:
    for work in _alone._works(name, 100).values():
        work()
