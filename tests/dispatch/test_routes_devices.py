"""Routes on a GPU: on stand-ins in a process of their own, and, where there is one, on it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import corepy
from corepy.devices._device import CPU, as_device
from corepy.dispatch import _hot_python
from corepy.dispatch._hot import guard
from corepy.dispatch._sites import SITES, site_of
from tests.processes import on_stand_in


@pytest.mark.backend("torch")
def test_on_stand_ins() -> None:
    on_stand_in(
        "tests/dispatch/routes_on_stand_in.py",
        "tests/dispatch/route_tables_on_stand_in.py",
        COREPY_ROUTES="",
        COREPY_ROUTES_FORCED="",
    )


def test_each_kind_of_device_has_one_site() -> None:
    assert site_of(CPU) is SITES["cpu"]
    assert site_of(as_device("cuda:3")) is SITES["cuda"]
    assert site_of(as_device("rocm")) is None
    for kind, site in SITES.items():
        assert site.kind == kind
        assert set(site.candidates) <= set(site.named)
        assert set(site.admitted) <= set(site.routable)


# ---------------------------------------------------------------------------- guards


class Sized:
    def __init__(self, size: int) -> None:
        self.count = size


def seen(*args: Any, **params: Any) -> Any:
    return "small", args, params


@pytest.mark.parametrize("make", [guard, _hot_python.guard])
def test_a_guard_lets_small_operands_pass(make: Any) -> None:
    made = make(seen, 10, lambda args, params: ("large", args, params), Sized, lambda x: x.count)
    few, many, other = Sized(9), Sized(10), type("Other", (Sized,), {})(99)
    assert (made.small, made.least) == (seen, 10)
    assert made(few) == ("small", (few,), {})
    assert made(few, 2.0, axis=1) == ("small", (few, 2.0), {"axis": 1})
    assert made(many, axis=1) == ("large", (many,), {"axis": 1})
    assert made(few, many) == ("large", (few, many), {})
    assert made(other) == ("small", (other,), {})
    assert made() == ("small", (), {})


@pytest.mark.parametrize("make", [guard, _hot_python.guard])
def test_what_counting_raises_comes_through(make: Any) -> None:
    made = make(seen, 10, seen, Sized, lambda x: x.missing)
    with pytest.raises(AttributeError, match="missing"):
        made(Sized(3))


# ---------------------------------------------------------------------------- on a GPU


@pytest.fixture(params=[("torch", "cupy"), ("cupy", "torch")], ids="-".join)
def pair(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Route everything to the other library."""
    home, other = request.param
    monkeypatch.setenv("COREPY_ROUTES_FORCED", other)
    before = corepy.set_routes(None)
    with corepy.backend_priority([home]):
        yield home, other
    monkeypatch.undo()
    before.__exit__()


def host(x: Any) -> Any:
    return corepy.to(x, device="cpu", backend="numpy").unwrap()


@pytest.mark.gpu
@pytest.mark.device("cuda")
def test_routed_operations_give_what_the_home_gives(pair: tuple[str, str]) -> None:
    xp, (home, other) = corepy.array_api, pair
    values = np.random.default_rng(0).standard_normal((300, 200)).astype("f4")
    x = xp.asarray(values, device="cuda:0")
    flat = xp.reshape(x, (-1,))
    calls: list[Any] = [
        *(lambda: x + x, lambda: xp.exp(x), lambda: x < 0.5, lambda: 2.0 / x),
        *(lambda: xp.sum(x), lambda: xp.sum(x, axis=-1), lambda: xp.max(x, axis=0)),
        *(lambda: xp.std(x, axis=1), lambda: xp.cumulative_sum(flat)),
        *(lambda: xp.sort(flat), lambda: xp.argsort(flat)),
    ]
    for call in calls:
        found = corepy.explain(call)
        assert [r.backend for r in found.records] == [other], found
        with corepy.set_routes("off"):
            own = call()
        assert (found.result.backend, found.result.dtype) == (home, own.dtype)
        # Running sums lie as far apart as their terms, in another order, add up to.
        np.testing.assert_allclose(host(found.result), host(own), rtol=3e-5, atol=1e-3)


@pytest.mark.gpu
@pytest.mark.device("cuda")
def test_torchs_memory_is_lent_the_short_way(
    pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    x = corepy.array_api.ones((300, 200), dtype=corepy.array_api.float32, device="cuda:0")

    def refuse(self: Any, **params: Any) -> Any:
        raise BufferError("DLPack of torch takes as long as a sum")

    monkeypatch.setattr(torch.Tensor, "__dlpack__", refuse)
    found = corepy.explain(lambda: x + x)
    assert [r.backend for r in found.records] == [pair[1]], found


@pytest.mark.gpu
@pytest.mark.device("cuda")
def test_in_streams_and_with_memory_given_back(pair: tuple[str, str]) -> None:
    xp: ModuleType = corepy.array_api
    for _ in range(20):
        with corepy.stream("cuda:0"):
            x = xp.ones((500, 500), dtype=xp.float32, device="cuda:0")
            y = (x + x) + x
            del x
        corepy.empty_cache("cuda:0")
        junk = xp.zeros((500, 500), dtype=xp.float32, device="cuda:0") - 1.0
        assert (host(y) == 3.0).all()
        assert (host(junk) == -1.0).all()


@pytest.mark.gpu
@pytest.mark.device("cuda")
def test_graphs_are_recorded_by_the_home(pair: tuple[str, str]) -> None:
    xp = corepy.array_api
    x = xp.ones((64, 64), dtype=xp.float32, device="cuda:0")
    replay = corepy.graph(lambda x: xp.exp(x) + x, x)
    np.testing.assert_allclose(host(replay(x)), np.e + 1, rtol=1e-6)
