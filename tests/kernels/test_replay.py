"""Calls that repeat a launch, on GPUs: the results are those of the usual way, bit by bit.

What decides whether a call is repeated is tried by `tests.kernels.replay_on_host`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from tests.kernels.libraries import Kind

Make = Callable[[Any], Any]

each = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Kind(name, True), marks=pytest.mark.device(name), id=name)
        for name in ("cupy", "cuda")
    ],
)


@contextmanager
def calls(owner: Any, name: str, usual: int) -> Iterator[None]:
    """Expect that a function is called so many times in a block."""
    found, function = [0], getattr(owner, name)

    def counted(*args: Any) -> Any:
        found[0] += 1
        return function(*args)

    setattr(owner, name, counted)
    try:
        yield
    finally:
        setattr(owner, name, function)
    assert found[0] == usual, found


def launches(usual: int) -> AbstractContextManager[None]:
    """Expect that so many launches of a block are made anew."""
    from corepy.kernels._device import _cupy

    return calls(_cupy.CuPy, "run", usual)


def bits(x: Any) -> bytes:
    if isinstance(x, tuple):
        return b"".join(map(bits, x))
    if type(x).__module__ == "torch":
        import torch

        return bytes(x.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    if type(x).__module__.partition(".")[0] in ("corepy", "numpy"):
        return np.asarray(x).tobytes()
    return bytes((x.host if hasattr(x, "host") else x.get()).tobytes())


def forms(x: Any) -> list[Any]:
    """Return the dtypes and shapes of results."""
    return [(one.dtype, tuple(one.shape)) for one in (x if isinstance(x, tuple) else (x,))]


def agree(function: Callable[..., Any], *arrays: Any) -> Any:
    """Hold a call to the same one by the usual way."""
    found = function(*arrays)
    with corepy.reproducible():  # which takes that
        expected = function(*arrays)
    assert forms(found) == forms(expected)
    assert bits(found) == bits(expected)
    return found


def drawn(make: Make, seed: int, *shapes: tuple[int, ...], dtype: Any = "f4") -> list[Any]:
    rng = np.random.default_rng(seed)
    return [make(rng.standard_normal(shape).astype(dtype)) for shape in shapes]


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


def check_numbers(make: Make) -> None:
    """Numbers count by class and value, and what is wrong is refused as ever."""
    x, w = drawn(make, 5, SHAPE, ROW)
    for eps in (1e-5, 1, 1e-5, 1.0, 0, 0.0, 1e-5):
        agree(lambda x, w, eps=eps: kernels.rms_norm(x, w, eps), x, w)
    for wrong, error in ((True, TypeError), ("1", TypeError), (-1.0, ValueError)):
        with pytest.raises(error, match="^rms_norm: eps"):
            kernels.rms_norm(x, w, wrong)
    with pytest.raises(ValueError, match="^rms_norm: weight has shape"):
        kernels.rms_norm(x, w[:8], 1e-5)
    with pytest.raises(TypeError, match="positional"):
        kernels.silu(x, "out", None)  # type: ignore[misc]
    for axis in (-1, 1, 0, 1):
        agree(lambda x, axis=axis: kernels.softmax(x, axis), x)
    with pytest.raises(TypeError, match="^softmax: axis is of type bool"):  # though True is 1
        kernels.softmax(x, True)


def check_numbers_in_arrays(make: Make) -> None:
    """An array that stands for an integer counts by its value."""
    (x,) = drawn(make, 17, SHAPE)
    for axis in (1, 0, 1, 0):
        agree(lambda x, axis=axis: kernels.softmax(x, np.array(axis)), x)
        agree(lambda x, axis=axis: kernels.softmax(x, axis=make(np.array(axis))), x)
    with pytest.raises(IndexError, match="^softmax: axis is"):
        kernels.softmax(x, make(np.array(2)))


def check_positions(make: Make) -> None:
    """Values decide whether there is an error."""
    x, cos, sin = drawn(make, 6, SHAPE, TABLE, TABLE)
    for order in ([5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5]):
        places = make(np.array(order))
        agree(lambda x, p=places: kernels.rope(x, cos, sin, positions=p), x)
    with pytest.raises(IndexError, match="^rope: positions"):
        kernels.rope(x, cos, sin, positions=make(np.array([0, 1, 2, 3, 4, 6])))


def check_arrays_of_no_elements(make: Make) -> None:
    for _ in range(2):
        assert tuple(kernels.silu(make(np.zeros((0, 4), "f4"))).shape) == (0, 4)


def check_given_memory(make: Make) -> None:
    """Results in given memory are looked at."""
    shape = (5, 48)
    for seed in (8, 9, 10):
        x, y = drawn(make, seed, shape, shape)
        expected = bits(kernels.silu(x))
        assert kernels.silu(x, out=y) is y
        assert bits(y) == expected
        assert kernels.silu(x, out=x) is x
        assert bits(x) == expected


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
