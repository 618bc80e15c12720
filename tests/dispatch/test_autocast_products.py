"""Products once `corepy.autocast` was asked for, and what `enable_tf32` tells."""

from __future__ import annotations

from typing import Any

import pytest

import corepy
import corepy.array_api as xp
from corepy.dispatch import _autocast, _tf32, load


@pytest.fixture(autouse=True)
def touched() -> None:
    """Have somebody ask for rounding, so that products choose."""
    with corepy.autocast("bfloat16"):
        pass


@pytest.mark.parametrize("low", [None, "bfloat16"])
def test_arguments_reach_the_product(backend: str, low: Any) -> None:
    x = xp.reshape(xp.arange(6, dtype=xp.float32), (2, 3))  # which 16 bits hold
    with corepy.autocast(low):
        assert xp.vecdot(x, x, axis=0).tolist() == [9.0, 17.0, 29.0]
        assert xp.tensordot(x, x, axes=((0, 1), (0, 1))).tolist() == 55.0
        assert xp.tensordot(x, x, axes=0).shape == (2, 3, 2, 3)


def test_what_a_product_says_of_itself_is_what_its_native_says() -> None:
    def native(x1: Any, x2: Any, /) -> Any:
        return x1

    names = ("backend", "device", "least", "leasts", "blocks", "hindered")
    for missing in ("", *names):  # none is made up either
        vars(native).clear()
        vars(native).update({name: object() for name in names if name != missing})
        product = _autocast.applied(native, "matmul", load("numpy"), xp.float32)
        assert product is not native
        assert vars(product) == vars(native)


def test_what_enable_tf32_tells_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tf32, "_unmoved", {})
    monkeypatch.setattr(_tf32, "_allowed", None)
    told = _tf32.set_tf32(False, ())
    told["mine"] = "why"
    assert _tf32.set_tf32(False, ()) == {}
