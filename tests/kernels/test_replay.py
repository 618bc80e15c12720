"""Calls that repeat a launch, on GPUs: the results are those of the usual way, bit by bit.

What decides whether a call is repeated is tried by `tests.kernels.replay_on_host`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from tests.kernels.libraries import Kind

each = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Kind(name, True), marks=pytest.mark.device(name), id=name)
        for name in ("cupy", "cuda")
    ],
)


@contextmanager
def launches(usual: int) -> Iterator[None]:
    """Expect that so many launches of a block are made anew."""
    from corepy.kernels._device import _cupy

    found, run = [0], _cupy.CuPy.run

    def counted(*args: Any) -> None:
        found[0] += 1
        run(*args)

    _cupy.CuPy.run = counted  # type: ignore[method-assign]
    try:
        yield
    finally:
        _cupy.CuPy.run = run  # type: ignore[method-assign]
    assert found[0] == usual, found


def bits(x: Any) -> bytes:
    if isinstance(x, tuple):
        return b"".join(map(bits, x))
    if type(x).__module__ == "torch":
        import torch

        return bytes(x.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return bytes((x.host if hasattr(x, "host") else x.get()).tobytes())


def agree(function: Callable[..., Any], *arrays: Any) -> Any:
    """Hold a call to the same one by the usual way."""
    found = function(*arrays)
    with corepy.reproducible():  # which takes that
        expected = function(*arrays)
    assert bits(found) == bits(expected)
    return found


ROW, SHAPE, TABLE = (64,), (6, 64), (6, 32)


def normed(x: Any, w: Any, r: Any) -> Any:
    return kernels.rms_norm(x, w, 1e-5, residual=r)


#: Functions, and the shapes of what they take.
FAMILIES: list[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
    (lambda x, w: kernels.rms_norm(x, w, 1e-5), (SHAPE, ROW)),
    (normed, (SHAPE, ROW, SHAPE)),
    (lambda x, w: kernels.layer_norm(x, w, None, eps=1e-5), (SHAPE, ROW)),
    (lambda x: kernels.softmax(x, -1, scale=0.5), (SHAPE,)),
    (lambda x: kernels.softmax(x, 0), (SHAPE,)),
    (kernels.silu, (SHAPE,)),
    (lambda x: kernels.gelu(x, approximate="tanh"), (SHAPE,)),
    (kernels.swiglu, (SHAPE, SHAPE)),
    (kernels.rope, (SHAPE, TABLE, TABLE)),
    (lambda x, c, s: kernels.rope(x, c, s, layout="interleaved"), (SHAPE, TABLE, TABLE)),
    (lambda x, m, v: kernels.batch_norm(x, m, v, eps=9.0, axis=0), (SHAPE, (6,), (6,))),
    (lambda x: kernels.quantize(x, group_size=32), (SHAPE,)),
]


#: Of arrays of `SHAPE`: three that are taken as they lie, with rows at other places, and copies.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "half of each row": lambda x: x[:, :32],
    "rows that begin anywhere": lambda x: x[:, 1:33],
    "every other row": lambda x: x[::2, 4:36],
    "every third row": lambda x: x[::3, :32],
    "every other element": lambda x: x[:, ::2],
}


def draw(kind: Kind, seed: int, *shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng(seed)
    return [kind.array(rng.standard_normal(shape), dtype) for shape in shapes]


@pytest.fixture
def served(kind: Kind) -> Kind:
    """Give a kind of arrays that a kernel has been run on: from then on calls are kept."""
    kernels.silu(*draw(kind, 0, (2, 2)))
    return kind


@each
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("number", range(len(FAMILIES)))
def test_families(served: Kind, number: int, dtype: str) -> None:
    if dtype not in served.dtypes:
        pytest.skip("CuPy has no bfloat16 before 14")
    function, shapes = FAMILIES[number]
    function(*draw(served, 0, *shapes, dtype=dtype))
    for seed in (1, 2):
        arrays = draw(served, seed, *shapes, dtype=dtype)
        with launches(1):  # the one that it is held to
            agree(function, *arrays)


@each
@pytest.mark.parametrize("view", VIEWS)
def test_layouts(served: Kind, view: str) -> None:
    for seed in (0, 1, 2):
        (x, w) = draw(served, seed, SHAPE, (32,))
        agree(lambda x, w: kernels.rms_norm(x, w, 1e-5), VIEWS[view](x), w)
        agree(kernels.silu, VIEWS[view](x))


@each
def test_streams(served: Kind) -> None:
    """A kernel waits for what was begun before it, in the library's current stream."""
    (x,) = draw(served, 3, (256, 1024))
    expected = bits(kernels.silu(x))
    with launches(0):
        for _ in range(3):
            assert _on_other_stream(served, x, 1000) == expected


def _on_other_stream(kind: Kind, x: Any, steps: int) -> bytes:
    if kind.library == "cupy":
        import cupy

        cupy.cuda.Device().synchronize()
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            y = cupy.zeros_like(x)
            for _ in range(steps):
                y += 1
            y -= steps
            y += x
            found = kernels.silu(y)
        stream.synchronize()
        return bits(found)
    import torch

    torch.cuda.synchronize()
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        z = torch.zeros_like(x)
        for _ in range(steps):
            z += 1
        z -= steps
        z += x
        found = kernels.silu(z)
    other.synchronize()
    return bits(found)


@pytest.mark.device("cuda")
def test_graphs_of_torch() -> None:
    """A call is recorded, and computes again with the graph."""
    import torch

    kind = Kind("cuda", True)
    x, y = draw(kind, 4, (8, 64), (8, 64))
    for _ in range(3):
        expected = kernels.silu(y)
    graph = torch.cuda.CUDAGraph()
    with launches(0), torch.cuda.graph(graph):
        found = kernels.silu(x)
    x.copy_(y)
    graph.replay()
    torch.cuda.synchronize()
    assert bits(found) == bits(expected)
