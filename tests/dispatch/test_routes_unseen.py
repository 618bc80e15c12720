"""Calls for which nobody looks at libraries that are not imported: they count like the last one."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import corepy
import corepy.array_api as xp
from corepy.dispatch._route_libraries import Library
from corepy.dispatch._routes import _UNSEEN, Choice, _Step
from corepy.dispatch._sites import HOST


@pytest.fixture
def library() -> Library:
    made = Library("numba")
    made.price = 1.0
    return made


def unseen(step: _Step, size: int) -> int:
    """Return how many calls go the home's way at once."""
    return next(n for n in range(100) if not step.is_settled(size))


def test_calls_that_nobody_looked_at_count_as_the_last_one(library: Library) -> None:
    step = _Step(100, [])
    assert unseen(step, 1000) == 0  # nobody has looked yet
    step.book([(library, 1e-3)], 1000)
    assert unseen(step, 1000) == _UNSEEN
    step.book([(library, 2e-3)], 1000)
    assert library.saved == pytest.approx((1 + _UNSEEN) * 1e-3 + 2e-3)
    assert all(step.is_settled(1000) for _ in range(3))
    step.book([(library, 0.0)], 1000)  # earlier: three of them were not looked at
    assert library.saved == pytest.approx((1 + _UNSEEN) * 1e-3 + 4 * 2e-3)


def test_near_the_price_each_call_is_looked_at(library: Library) -> None:
    step = _Step(100, [])
    library.saved = 0.98
    step.book([(library, 1e-3)], 1000)
    assert unseen(step, 1000) == 2  # an eighth of the 19 calls that are left
    step.book([(library, 1e-2)], 1000)
    assert unseen(step, 1000) == 0


def test_what_may_change_the_choice_is_looked_at(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = _Step(100, [])
    step.book([(library, 1e-3)], 1000)
    assert step.is_settled(2000)
    assert not step.is_settled(2001)  # it may be worth the price alone
    assert not any(corepy.explain(lambda: [step.is_settled(1000), xp.ones(1)]).result[:1])
    monkeypatch.setitem(sys.modules, "a_module_of_this_test", ModuleType("a_module_of_this_test"))
    assert not step.is_settled(1000)  # the library may be there now


def test_a_lesser_way_or_a_library_that_is_there_is_looked_for_each_time(
    library: Library,
) -> None:
    step = _Step(100, [])
    step.book([(library, 1e-3)], 0)  # a lesser way was gone
    assert unseen(step, 1) == 0
    step.book([], 1000)  # none could be gone just now
    assert unseen(step, 1000) == 0


def test_a_call_that_went_a_lesser_way_is_not_one_of_many(library: Library) -> None:
    def way(gain: float) -> Any:
        return SimpleNamespace(
            gain=gain,
            library=library,
            leads=lambda threads: True,
            open=lambda threads: lambda args, params: None,
            saves=lambda at_home, lesser: 1e-3,
        )

    choice = Choice.__new__(Choice)
    choice.site, choice.threads, choice.native = HOST, 2, lambda: None
    ways = [way(9.0), way(2.0)]
    for gone, calls in ((None, _UNSEEN), (ways[1], 0)):
        step = _Step(100, ways)
        choice._timed(step, gone, 1000, (), {})
        assert unseen(step, 1000) == calls
