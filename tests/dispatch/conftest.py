"""Accelerators that operations may be offloaded to, and registers that loops fill."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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


@pytest.fixture(params=["wide", "usual"])
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
