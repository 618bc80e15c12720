"""Where memory runs out for a kernel, every library gives back what it keeps first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from corepy.devices import _shortage
from corepy.kernels import _memory
from corepy.kernels.attention import _cache_memory
from corepy.kernels.matrices import reference
from tests.kernels.libraries import Kind

A = np.arange(4.0).reshape(2, 2)
X = np.linspace(-1, 1, 4096, dtype=np.float32).reshape(2, -1)


def cache(like: Any = None) -> Any:
    return kernels.KVCache(1, 1, 8, 4, like=like).keys.shape


#: What makes memory, and a call that needs it.
WAYS = {
    "formula": (reference, "gemm", lambda: kernels.gemm(A, A)),
    "formula of an Array": (
        *(reference, "gemm"),
        lambda: kernels.gemm(corepy.array_api.asarray(A), corepy.array_api.asarray(A)),
    ),
    "loop": (_memory, "_new", lambda: kernels.silu(X)),
    "cache": (_cache_memory, "_zeros_like", cache),
}


class Short:
    """A function that lacks memory for some calls."""

    def __init__(self, function: Callable[..., Any], calls: int) -> None:
        self._function, self.left = function, calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.left:
            self.left -= 1
            raise MemoryError
        return self._function(*args, **kwargs)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, marks=[pytest.mark.needs("numba")] if way == "loop" else [])
        for way in WAYS
    ],
)
def test_caches_are_freed_and_it_is_tried_again(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, call = WAYS[way]
    expected = call()
    freed: list[Any] = []
    monkeypatch.setattr(_shortage, "release", lambda device: freed.append(device) or 0)
    short = Short(getattr(place, name), 1)
    monkeypatch.setattr(place, name, short)
    with corepy.reproducible():  # a call that is repeated makes its memory apart
        assert np.array_equal(np.asarray(call()), np.asarray(expected))
    assert (short.left, [device.name for device in freed]) == (0, ["cpu"])

    short.left = 2
    with (
        corepy.reproducible(),
        pytest.raises(corepy.InsufficientMemoryError, match="the memory of cpu does not suffice"),
    ):
        call()


@pytest.mark.backend("torch")
def test_torchs_own_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from corepy.kernels.attention import torch as own

    q = torch.rand(1, 2, 16, 8)
    expected = kernels.attention(q, q, q)
    assert corepy.explain(kernels.attention, q, q, q).records[0].reason.startswith("torch has")
    freed: list[Any] = []
    monkeypatch.setattr(_shortage, "release", lambda device: freed.append(device) or 0)
    monkeypatch.setattr(own, "_side_by_side", Short(own._side_by_side, 1))
    assert torch.equal(kernels.attention(q, q, q), expected)
    assert [device.name for device in freed] == ["cpu"]


@pytest.mark.device("opencl")
def test_results_larger_than_the_device_allows() -> None:
    column = Kind("opencl", True).array(np.ones((1 << 22, 1)), "float32")
    with pytest.raises(corepy.InsufficientMemoryError, match="^gemm: the memory of opencl:"):
        kernels.gemm(column, column.reshape(1, -1))
