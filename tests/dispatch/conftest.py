"""Accelerators that operations may be offloaded to."""

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
