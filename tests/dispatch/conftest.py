"""Accelerators to offload to, registers that loops fill, and the budget of threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import corepy
from corepy import _budget
from corepy.dispatch import _threads
from corepy.dispatch._hot import PURE
from corepy.testing import FakeBackend
from tests.dispatch.offloading import NOTHING, SLOW, accelerator


@pytest.fixture
def fake() -> Iterator[FakeBackend]:
    with accelerator() as backend:
        yield backend


@pytest.fixture
def eager() -> Iterator[FakeBackend]:
    """Offer an accelerator on which nothing takes any time, beside a host that takes a second."""
    with accelerator(moving=NOTHING, here=SLOW, there=NOTHING) as backend:
        yield backend


@pytest.fixture(params=["wide", "usual"] if PURE is None else ["usual"])
def registers(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have loops of the compiled hot path fill the widest registers, or those that all have."""
    try:
        from corepy.dispatch import _hot_compiled
    except ImportError:
        yield request.param
        return
    _hot_compiled.widen(request.param == "wide")
    yield request.param
    _hot_compiled.widen()


@pytest.fixture
def own_budget() -> Iterator[None]:
    """Put the budget of threads back: libraries keep what they were told for the process."""
    before = _budget._budget, _budget._environment_read
    yield
    corepy.set_num_threads(_budget.cores())
    _budget._budget, _budget._environment_read = before
    _threads._unmoved.clear()
