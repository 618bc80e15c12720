"""What tests of backends have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import corepy
from tests.sharing import share


@pytest.fixture(autouse=True)
def preferred(request: pytest.FixtureRequest) -> Iterator[None]:
    """Prefer the backend that a module names ``PREFERRED``."""
    name = getattr(request.module, "PREFERRED", None)
    if name is None:
        yield
        return
    with corepy.backend_priority([name]):
        yield


@pytest.fixture
def small_chunks() -> Iterator[None]:
    """Split Dask's arrays every 40 bytes or so: most of what can go wrong needs several chunks."""
    import dask

    with dask.config.set({"scheduler": "synchronous", "array.chunk-size": "40B"}):
        yield


@pytest.fixture
def watched() -> Callable[[Any], tuple[Any, list[int]]]:
    """Return an array of Dask with the sizes of its blocks, as they are computed from then on."""
    import numpy as np

    def watch(native: Any) -> tuple[Any, list[int]]:
        computed: list[int] = []

        def look(block: Any) -> Any:
            computed.append(block.size)
            return block

        return native.map_blocks(look, dtype=float, meta=np.ones(0)), computed

    return watch


@pytest.fixture(params=["alone", "shared"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run loops in the calling thread, or share the smallest ones."""
    if request.param == "shared":
        share(monkeypatch)
    return str(request.param)


@pytest.fixture
def ran() -> Counter[str]:
    """How often operations of the Numba backend ran in their own loops."""
    from tests.backends.numbas import counted  # which imports it

    return counted()
