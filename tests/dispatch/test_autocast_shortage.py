"""Products with rounded operands mean the same where a device lacks the memory for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import ANY
from corepy.dispatch import _table
from corepy.dispatch._settings import AUTOCAST
from corepy.testing import FakeBackend
from tests.dispatch.fake import registered


class Full(FakeBackend):
    """A library that has memory for arrays, and none for products or rounded operands."""

    def operation(self, name: str) -> Callable[..., Any] | None:
        def fail(*args: Any, **params: Any) -> Any:
            raise MemoryError("full")

        return fail if name in ("matmul", "tensordot", "vecdot") else super().operation(name)

    def rounded(self, native: Any, dtype: str) -> Any:
        raise MemoryError("full")


@pytest.fixture
def full() -> Iterator[Full]:
    with registered(Full(devices={"fake:0": ANY})) as backend, corepy.set_fallback("allow"):
        yield backend
    AUTOCAST.prepared = AUTOCAST.touched = False
    _table.forget_entries()


@pytest.mark.parametrize("product", [xp.matmul, xp.vecdot, lambda x, y: xp.tensordot(x, y, axes=1)])
def test_the_host_rounds_what_it_multiplies_for_a_device(full: Full, product: Any) -> None:
    x = xp.full((2, 2), 1.001, dtype=xp.float32, device="fake:0")
    exact = product(x, x)
    assert float(xp.max(exact)) == pytest.approx(2 * 1.001**2)
    with corepy.autocast("bfloat16"):
        found = product(x, x)
        wide = product(xp.astype(x, xp.float64), xp.astype(x, xp.float64))
    assert (found.device, found.dtype, float(xp.max(found))) == (x.device, xp.float32, 2.0)
    assert float(xp.max(wide)) == pytest.approx(2 * 1.001**2)
    assert float(xp.max(product(x, x))) == float(xp.max(exact))
