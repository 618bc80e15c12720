"""Calls that repeat a compiled loop on the host: the results are those of the usual way.

What repeats a launch on a GPU is tried by `tests.kernels.test_replay`, and without one by
`tests.kernels.replay_on_host`.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from threading import Thread
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy import kernels
from corepy.kernels import _memory, _replay
from tests.conftest import required
from tests.kernels import test_replay
from tests.kernels.test_replay import (
    FAMILIES,
    ROW,
    SHAPE,
    Make,
    agree,
    check_arrays_of_no_elements,
    check_given_memory,
    check_numbers,
    check_numbers_in_arrays,
    check_positions,
)

required("numba")

from corepy.kernels import _compiled  # noqa: E402


def wrapped(array: np.ndarray[Any, Any]) -> Any:
    """Give corepy's array, or NumPy's where the standard has no such dtype."""
    return xp.asarray(array) if array.dtype.kind == "f" and array.itemsize > 2 else array


MAKES: dict[str, Make] = {"numpy": lambda array: array, "corepy": wrapped}
make_each = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let compiled loops compute, however few elements there are, from the first call on."""
    monkeypatch.setattr(_memory, "LEAST", dict.fromkeys(_memory.LEAST, 0))
    corepy.set_routes("off")
    kernels.silu(np.ones((2, 2)))  # from here on calls are kept


@pytest.fixture(autouse=True)
def _routes() -> Iterator[None]:
    yield
    corepy.set_routes(None)


def drawn(make: Make, seed: int, *shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    kind = required("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    return test_replay.drawn(make, seed, *shapes, dtype=kind)


def launches(usual: int) -> AbstractContextManager[None]:
    """Expect that so many loops are launched anew."""
    return test_replay.calls(_compiled, "note", usual)


def natives(found: Any) -> list[np.ndarray[Any, Any]]:
    """Return results as NumPy's arrays."""
    if isinstance(found, tuple):
        return [native for one in found for native in natives(one)]
    return [found if isinstance(found, np.ndarray) else np.asarray(found)]


#: Of `FAMILIES`, those whose loops take no array that is made of another one's values.
REPEATED = [
    pytest.param(function, shapes, id=str(number))
    for number, (function, shapes) in enumerate(FAMILIES)
    if number < len(FAMILIES) - 2
]


@make_each
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(("function", "shapes"), REPEATED)
def test_families(
    make: Make, dtype: str, function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]
) -> None:
    # The weights and tables of 16-bit floats are float32, which loops take as they are.
    def draw(seed: int) -> list[Any]:
        x, *others = drawn(make, seed, *shapes, dtype=dtype)
        if dtype in ("float16", "bfloat16"):
            made = drawn(make, seed, *shapes, dtype="float32")[1:]
            alike = (other.shape == x.shape for other in others)
            others = [o if same else m for o, m, same in zip(others, made, alike, strict=True)]
        return [x, *others]

    first = draw(0)
    function(*first)
    for seed in (1, 2):
        arrays = draw(seed)
        with launches(1):  # the one that it is held to
            result = agree(function, *arrays)
        results = result if isinstance(result, tuple) else (result,)
        assert all(type(one) is type(arrays[0]) for one in results)
        for one in natives(result):
            assert not any(np.may_share_memory(one, other) for other in natives(tuple(arrays)))


#: Heads, heads of keys, queries: rows by one chunk of keys and by several, and panels.
ATTENTIONS = [(4, 4, 1, 40), (8, 2, 1, 40), (8, 2, 3, 2100), (4, 4, 24, 40)]


@make_each
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", ATTENTIONS)
def test_attention(make: Make, dtype: str, shape: tuple[int, int, int, int]) -> None:
    """Loops that leave something to each other are repeated together, on memory of their own."""
    heads, kv_heads, queries, keys = shape
    shapes = (2, heads, queries, 16), (2, kv_heads, keys, 16), (2, kv_heads, keys, 16)
    ways: list[Callable[..., Any]] = [
        kernels.attention,
        lambda q, k, v: kernels.attention(q, k, v, causal=True, return_lse=True),
        lambda q, k, v: kernels.attention(q, k, k, window=9, scale=0.5),
    ]
    for way in ways:
        way(*drawn(make, 0, *shapes, dtype=dtype))
        for seed in (1, 2):
            with launches(1):  # the one that it is held to
                agree(way, *drawn(make, seed, *shapes, dtype=dtype))


@make_each
def test_attention_with_more_arrays(make: Make) -> None:
    q, k, bias = drawn(make, 30, (2, 4, 1, 16), (2, 2, 40, 16), (40,))
    mask = make(np.arange(40) % 3 > 0)
    for _ in range(2):
        agree(lambda q, k, m, b: kernels.attention(q, k, k, mask=m, bias=b), q, k, mask, bias)
    with launches(0):
        kernels.attention(q, k, k, mask=mask, bias=bias)
    for lengths in ([40, 3], [7, 0]):  # whose values are looked at
        given = make(np.asarray(lengths))
        with launches(2):
            agree(lambda q, k, n: kernels.attention(q, k, k, lengths=n), q, k, given)
    found = [kernels.attention(q, k, k) for _ in range(3)]
    assert len({_compiled._address(one) for one in map(np.asarray, found)}) == 3


@pytest.mark.parametrize("shape", ATTENTIONS)
def test_attention_in_several_threads(shape: tuple[int, int, int, int]) -> None:
    """What loops leave to each other is the call's own."""
    heads, kv_heads, queries, keys = shape
    shapes = (1, heads, queries, 16), (1, kv_heads, keys, 16), (1, kv_heads, keys, 16)
    given = [drawn(MAKES["numpy"], seed, *shapes) for seed in range(4)]
    expected = [kernels.attention(*arrays).tobytes() for arrays in given]
    wrong: list[int] = []

    def repeat(number: int) -> None:
        for _ in range(200):
            if kernels.attention(*given[number]).tobytes() != expected[number]:
                wrong.append(number)

    threads = [Thread(target=repeat, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@make_each
def test_others(make: Make) -> None:
    """What is made of an array's values is made anew."""
    for function, shapes in FAMILIES:
        for seed in (0, 1, 2):
            agree(function, *drawn(make, seed, *shapes))
    for seed in (0, 1, 2):
        x, w = drawn(lambda a: a, seed, SHAPE, ROW, dtype="float16")
        with launches(2):
            agree(lambda x, w: kernels.rms_norm(x, w, 1e-5), x, w)


def test_layouts() -> None:
    views: list[Callable[[Any], Any]] = [
        lambda x: x[:, :32],
        lambda x: x[::2, 4:36],
        lambda x: x[:, ::2],
        lambda x: x[::-1, :32],
        lambda x: np.asfortranarray(x[:, :32]),
        lambda x: np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view("f4").reshape(SHAPE)[:, :32],
    ]
    for view in views * 2:
        (x,) = drawn(MAKES["numpy"], 3, SHAPE)
        (w,) = drawn(MAKES["numpy"], 3, (32,))
        agree(lambda x, w: kernels.rms_norm(x, w, 1e-5), view(x), w)
        agree(kernels.silu, view(x))
    x = drawn(MAKES["numpy"], 4, SHAPE)[0]
    agree(kernels.silu, x)
    x.flags.writeable = False
    agree(kernels.silu, x)
    agree(kernels.silu, x.astype(">f4"))
    agree(kernels.silu, x.astype("f8"))
    agree(kernels.silu, x.reshape(-1).copy())
    with launches(0):
        kernels.silu(x.copy())
        kernels.silu(x.reshape(-1).copy())


@make_each
def test_numbers(make: Make) -> None:
    x, w = drawn(make, 5, SHAPE, ROW)
    check_numbers(make)
    check_numbers_in_arrays(make)
    agree(lambda x: kernels.rms_norm(x, None, 1e-5), x)
    with launches(0):
        kernels.rms_norm(x, None, 1e-5)
        kernels.rms_norm(x, w, 1e-5)


@make_each
def test_positions(make: Make) -> None:
    check_positions(make)


@make_each
def test_aliases(make: Make) -> None:
    shape = (5, 48)
    x, y = drawn(make, 7, shape, shape)
    agree(kernels.swiglu, x, y)
    agree(kernels.swiglu, x, x)
    with launches(0):
        one, other = kernels.swiglu(x, x), kernels.swiglu(x, y)
    assert natives(one)[0].tobytes() != natives(other)[0].tobytes()
    agree(kernels.swiglu, y, x)
    check_given_memory(make)


def test_views_of_one_memory() -> None:
    """Whose memory a loop works on is not told from where two arrays begin alike."""
    shape = (4, 16)
    (x,) = drawn(MAKES["numpy"], 11, shape)
    for _ in range(2):
        agree(kernels.swiglu, x, x.view())
    y = drawn(MAKES["numpy"], 12, shape)[0]
    agree(kernels.swiglu, x, y)
    with launches(0):
        kernels.swiglu(x, y)


def test_mixed_operands() -> None:
    x, w = drawn(MAKES["numpy"], 13, SHAPE, ROW)
    for _ in range(3):
        assert type(kernels.rms_norm(xp.asarray(x), w, 1e-5)) is corepy.Array
        assert type(kernels.rms_norm(x, xp.asarray(w), 1e-5)) is np.ndarray


def test_other_routes_are_asked() -> None:
    (x,) = drawn(MAKES["numpy"], 14, (64, 64))
    kernels.softmax(x, -1)
    with launches(0):
        kernels.softmax(x, -1)
    before = [row.backend for row in corepy.explain(kernels.softmax, x, -1).records]
    corepy.set_routes("shipped")
    with launches(1):
        kernels.softmax(x, -1)
    corepy.set_routes("off")  # as it was
    with launches(0):
        kernels.softmax(x, -1)
    assert before == ["numba"]


@make_each
def test_listeners(make: Make) -> None:
    (x,) = drawn(make, 15, SHAPE)
    kernels.silu(x)
    with launches(0):
        kernels.silu(x)
    (row,) = corepy.explain(kernels.silu, x).records
    assert (row.backend, row.device) == ("numba", "cpu")
    found: list[Any] = []
    thread = Thread(target=lambda: found.append(kernels.silu(x)))
    thread.start()
    thread.join()
    assert natives(found[0])[0].tobytes() == natives(kernels.silu(x))[0].tobytes()


def test_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be repeated takes the usual way, with its errors."""
    (x,) = drawn(MAKES["numpy"], 16, (3, 32))
    kernels.silu(x)

    def failing(*_: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patch, launches(2):
        patch.setattr(_compiled._Again, "run", failing)
        agree(kernels.silu, x)
    with launches(1):
        agree(kernels.silu, x)


@make_each
def test_memory(make: Make) -> None:
    """Nothing that is kept keeps an array alive."""
    (x,) = drawn(make, 18, (7, 32))
    found = [kernels.silu(x) for _ in range(2)]
    assert natives(found[0])[0].tobytes() == natives(found[1])[0].tobytes()
    alive = [weakref.ref(native) for native in natives((x, *found))]
    del x, found
    gc.collect()
    assert [one() for one in alive] == [None] * 3


def test_large_results_are_recycled_memory() -> None:
    (x,) = drawn(MAKES["numpy"], 19, (600, 600))
    found = [kernels.silu(x) for _ in range(3)]
    assert len({_compiled._address(one) for one in found}) == 3
    assert all(_compiled._address(one) % 64 == 0 for one in found)


@make_each
def test_no_elements(make: Make) -> None:
    check_arrays_of_no_elements(make)


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept calls are so many at most."""
    monkeypatch.setattr(_replay, "_MOST", 2)
    for size in (2, 4, 6, 8, 2):
        (x,) = drawn(MAKES["numpy"], 13, (size, 64))
        agree(kernels.silu, x)


def test_calls_before_loops_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A formula that computes the first calls does not bar the loop from later ones."""
    (x,) = drawn(MAKES["numpy"], 20, (3, 16))
    monkeypatch.setattr(_memory, "LEAST", dict.fromkeys(_memory.LEAST, 1024))
    monkeypatch.setattr(_memory, "PATIENCE", 1 << 62)
    with launches(0):
        kernels.gelu(x)
    monkeypatch.setattr(_memory, "PATIENCE", 0)
    with launches(1):
        kernels.gelu(x)
    with launches(0):
        kernels.gelu(x)
