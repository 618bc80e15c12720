"""Calls on NumPy's arrays that repeat a function of torch's: the results are the usual way's."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import kernels
from corepy.dispatch._neighbours import NEIGHBOURS
from corepy.dispatch._route_sources import InForce
from corepy.dispatch._route_table import Option, Route, RouteTable
from corepy.kernels import _choice, _host, _ways
from tests.conftest import required
from tests.kernels import test_replay
from tests.kernels.test_replay import bits, forms

pytestmark = pytest.mark.backend("torch")

MAKES: dict[str, Callable[[Any], Any]] = {"numpy": lambda array: array, "corepy": xp.asarray}
make_each = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)

IMAGES, FILTERS, HEADS = (2, 4, 9, 8), (6, 2, 3, 3), (1, 4, 32, 16)

#: Functions, and the shapes of what they take.
FAMILIES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "conv2d": (lambda x, w: kernels.conv2d(x, w, groups=2), (IMAGES, FILTERS)),
    "conv2d with bias": (
        lambda x, w, b: kernels.conv2d(x, w, b, groups=2, stride=2, padding=1),
        (IMAGES, FILTERS, (6,)),
    ),
    "conv2d by pairs": (
        lambda x, w: kernels.conv2d(x, w, groups=2, stride=(2, 1), padding=((0, 1), (2, 0))),
        (IMAGES, FILTERS),
    ),
    "attention": (kernels.attention, (HEADS,) * 3),
    "causal attention": (lambda q, k, v: kernels.attention(q, k, v, causal=True), (HEADS,) * 3),
    "attention of one array": (lambda q: kernels.attention(q, q, q, scale=0.5), (HEADS,)),
    "grouped attention": (kernels.attention, (HEADS, (1, 2, 48, 16), (1, 2, 48, 16))),
    "rms_norm": (lambda x, w: kernels.rms_norm(x, w, 1e-5), ((6, 64), (64,))),
    "softmax": (lambda x: kernels.softmax(x, -1), ((6, 64),)),
}
family_each = pytest.mark.parametrize(("function", "shapes"), FAMILIES.values(), ids=FAMILIES)


def routes(busy: float) -> InForce:
    """Return routes that give all kernels to torch."""
    option = Option("torch", 3.0, busy=busy)
    names = ("rms_norm", "softmax", "conv2d", "conv2d grouped", "attention")
    found = []
    for name in names:
        kernel, _, group = name.partition(" ")
        works = ("numpy decode", "numpy prefill") if kernel == "attention" else ("numpy",)
        for work in works:
            form = f"{work} {group}" if group else work
            found.append(Route(f"kernels.{kernel}", "float32", form, 1, math.inf, (option,)))
    return InForce(RouteTable({"threads": 2}, {}, {}, found), "a test")  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _by_torch(monkeypatch: pytest.MonkeyPatch, alone: None) -> None:
    use(monkeypatch, routes(3.0))
    kernels.softmax(np.ones((2, 2), "f4"), -1)  # from here on calls are kept


def use(monkeypatch: pytest.MonkeyPatch, found: InForce) -> None:
    monkeypatch.setattr(_ways, "in_force", lambda: found)


def drawn(make: Callable[[Any], Any], seed: int, *shapes: tuple[int, ...]) -> list[Any]:
    return test_replay.drawn(make, seed, *shapes)


def counted(patch: pytest.MonkeyPatch, owner: Any, name: str) -> list[str]:
    """Return a list that grows with each call of a function."""
    found, function = [], getattr(owner, name)

    def call(*args: Any) -> Any:
        found.append(name)
        return function(*args)

    patch.setattr(owner, name, call)
    return found


@make_each
@family_each
def test_families(
    make: Callable[[Any], Any],
    function: Callable[..., Any],
    shapes: tuple[tuple[int, ...], ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = counted(monkeypatch, _choice, "insist")
    function(*drawn(make, 0, *shapes))
    assert len(usual) == 1
    for seed in (1, 2):
        arrays = drawn(make, seed, *shapes)
        found = function(*arrays)
        assert len(usual) == seed  # those below: an explanation asks in the usual way
        seen = corepy.explain(function, *arrays)
        assert [row.backend for row in seen.records] == ["torch"]
        assert type(found) is type(seen.result)
        assert forms(found) == forms(seen.result)
        assert bits(found) == bits(seen.result)
        assert not any(np.may_share_memory(np.asarray(found), np.asarray(a)) for a in arrays)


def test_busy_cores_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is repeated only while its route is open."""
    use(monkeypatch, routes(1.0))
    x, w = drawn(MAKES["numpy"], 3, IMAGES, FILTERS)

    by_torch = counted(monkeypatch, _host, "by_torch")

    def who() -> int:
        by_torch.clear()
        kernels.conv2d(x, w, groups=2)
        return len(by_torch)

    assert who() == 1
    assert who() == 1
    monkeypatch.setattr(NEIGHBOURS, "busy", lambda *_: True)
    assert who() == 0
    monkeypatch.setattr(NEIGHBOURS, "busy", lambda *_: False)
    assert who() == 1


def test_cores_that_are_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What computes in torch's place is repeated only while its route is not open."""
    required("numba")
    use(monkeypatch, routes(1.0))
    (x,) = drawn(MAKES["numpy"], 15, (64, 64))
    kernels.softmax(x[:, ::2], -1)  # its loops are there from here on
    by_torch = counted(monkeypatch, _host, "by_torch")
    for busy, times in ((True, 0), (True, 0), (False, 1), (False, 1), (True, 0)):
        monkeypatch.setattr(NEIGHBOURS, "busy", lambda *_, busy=busy: busy)
        by_torch.clear()
        found = kernels.softmax(x, -1)
        np.testing.assert_allclose(found.sum(-1), 1.0, rtol=1e-5)
        assert len(by_torch) == times


def test_kernels_of_torch_that_are_off() -> None:
    """Where no kernel hides them, NaN among keys that nobody sees would be seen."""
    import torch

    q, k, v = drawn(MAKES["numpy"], 4, HEADS, HEADS, HEADS)
    for _ in range(2):
        expected = kernels.attention(q, k, v, causal=True)
    k[:, :, -1] = math.nan
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        found = kernels.attention(q, k, v, causal=True)
    finally:
        torch.backends.cuda.enable_flash_sdp(True)
    np.testing.assert_allclose(found[:, :, :-1], expected[:, :, :-1], rtol=1e-4, atol=1e-6)


def test_autocast() -> None:
    """The dtype of a result is that of the operands."""
    import torch

    x, w = drawn(MAKES["numpy"], 5, IMAGES, FILTERS)
    expected = [kernels.conv2d(x, w, groups=2) for _ in range(2)]
    with torch.autocast("cpu"):
        found = kernels.conv2d(x, w, groups=2)
    assert bits(found) == bits(expected[1])
    assert found.dtype == np.float32


def test_layouts_and_results_in_given_memory() -> None:
    x, w = drawn(MAKES["numpy"], 6, IMAGES, FILTERS)
    expected = [kernels.conv2d(x, w, groups=2) for _ in range(2)][1]
    out = np.empty_like(expected)
    for _ in range(2):
        out[...] = 0
        assert kernels.conv2d(x, w, groups=2, out=out) is out
        assert bits(out) == bits(expected)
        turned = np.asfortranarray(x)
        np.testing.assert_allclose(kernels.conv2d(turned, w, groups=2), expected, rtol=1e-5)
    x.flags.writeable = False
    np.testing.assert_allclose(kernels.conv2d(x, w, groups=2), expected, rtol=1e-5)


def test_results_in_the_memory_of_an_operand() -> None:
    """Another array of corepy's around the same one of NumPy's is written to as any other."""
    for seed in (12, 13, 14):
        (x,) = drawn(xp.asarray, seed, (6, 64))
        other = xp.real(x)
        expected = kernels.softmax(xp.asarray(x, copy=True), -1)
        assert kernels.softmax(x, -1, out=other) is other
        assert bits(other) == bits(x) == bits(expected)


def test_what_is_wrong_is_refused_as_ever() -> None:
    x, w = drawn(MAKES["numpy"], 7, IMAGES, FILTERS)
    for _ in range(2):
        kernels.conv2d(x, w, groups=2, stride=1)
        kernels.conv2d(x, w, groups=2, stride=(1, 1))
        with pytest.raises(TypeError, match="^conv2d: stride"):
            kernels.conv2d(x, w, groups=2, stride=True)
        with pytest.raises(TypeError, match="^conv2d: stride"):
            kernels.conv2d(x, w, groups=2, stride=(1, True))
        with pytest.raises(TypeError, match="^conv2d: stride"):
            kernels.conv2d(x, w, groups=2, stride=(1, 1.0))
        with pytest.raises(ValueError, match="^conv2d: weight has shape"):
            kernels.conv2d(x, w)


@make_each
def test_memory(make: Callable[[Any], Any]) -> None:
    """Nothing that is kept keeps an array alive."""
    x, w = drawn(make, 8, IMAGES, FILTERS)
    found = [kernels.conv2d(x, w, groups=2) for _ in range(3)]
    natives = [a if isinstance(a, np.ndarray) else a.unwrap() for a in (x, w, *found)]
    alive = [weakref.ref(native) for native in natives]
    del x, w, found, natives
    gc.collect()
    assert [one() for one in alive] == [None] * 5
