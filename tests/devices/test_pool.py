"""Recycled host memory: used again, never too early, and given back."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name

import corepy
import corepy.array_api as xp
from corepy.devices import _pool
from tests.dispatch.natives import compiled

pytestmark = compiled

MIB = 1 << 20
#: What may be reserved beyond the most that was in use, as `_host_pool.pyx` has it.
SLACK = 16 * MIB


@pytest.fixture(autouse=True)
def limit() -> Iterator[int]:
    """Begin with an empty pool, and leave the limit as it was."""
    before = corepy.memory_stats().limit_bytes
    gc.collect()
    corepy.empty_cache()
    with corepy.backend_priority(["numpy"]):
        yield before
    corepy.set_memory_pool(before)


def filled(value: float, size: int) -> Any:
    """Make an array in memory of the pool."""
    return xp.full(size, value) + 0.0


def address(x: Any) -> int:
    return int(np.asarray(x).ctypes.data)


# ---------------------------------------------------------------------------- recycling


def test_memory_is_used_again_and_aligned() -> None:
    x = xp.ones(3 * MIB // 8)
    y = -x
    assert get_handler_name(y._native) == "corepy"
    first = address(y)
    assert first % 64 == 0
    new = corepy.memory_stats().new_blocks
    for _ in range(5):
        del y
        y = -x
        assert address(y) == first
    assert corepy.memory_stats().new_blocks == new
    assert float(xp.min(y)) == float(xp.max(y)) == -1.0


@pytest.mark.parametrize("size", [100_000, MIB - 4096, MIB, 3 * MIB])
def test_memory_is_clear_where_it_has_to_be(size: int) -> None:
    x = xp.full(size, 1, dtype=xp.int8)
    for _ in range(3):
        y = x + x
        del y  # what is waiting is not clear
        made = _pool.recycling(np.zeros)(size, np.int8)
        assert get_handler_name(made) == "corepy"
        assert not made.any()
        made[:] = 7
        del made


def test_of_several_blocks_the_one_used_last_comes_first() -> None:
    x = xp.ones(MIB // 8)
    a, b, c = -x, -x, -x
    last = address(b)
    del a, c, b
    assert corepy.memory_stats().cached_blocks == 3
    assert address(-x) == last


def test_small_results_and_other_code_keep_numpys_memory() -> None:
    assert get_handler_name((xp.ones(100) + 1)._native) == "default_allocator"
    filled(1.0, MIB)
    assert get_handler_name(np.ones(MIB)) == "default_allocator"
    with pytest.raises(ValueError, match="broadcast"):
        filled(1.0, MIB) + xp.ones(3)
    assert get_handler_name(np.ones(MIB)) == "default_allocator"


@pytest.mark.parametrize(
    "make",
    [
        xp.sqrt,
        lambda x: xp.concat((x, x)),
        lambda x: xp.astype(x, xp.float32),
        lambda x: xp.full(x.shape, 3.0),
        xp.sort,
        lambda x: x[::2] * 2,
        lambda x: xp.linspace(0, 1, x.shape[0]),
        lambda x: xp.broadcast_to(x[:1000], (100, 1000)) + 1,
    ],
)
def test_what_makes_large_results_takes_them_from_the_pool(make: Callable[[Any], Any]) -> None:
    x = xp.ones(20_000)
    made = make(x).unwrap()
    while made.base is not None:
        made = made.base
    assert get_handler_name(made) == "corepy"


def test_resizing_in_place_keeps_the_values() -> None:
    native = filled(3.0, MIB)._native
    native.resize(3 * MIB, refcheck=False)
    assert native[MIB - 1] == 3.0
    assert native[MIB] == 0.0
    native.resize(10, refcheck=False)
    assert list(native) == [3.0] * 10


# ---------------------------------------------------------------------------- never too early


def holders() -> list[Callable[[Any], Any]]:
    """Ways to keep the memory of an array without the array."""
    found: list[Callable[[Any], Any]] = [
        lambda x: x,
        lambda x: x.unwrap(),
        lambda x: x.unwrap()[7:-7:3],
        lambda x: memoryview(x.unwrap()).cast("B").cast("d"),
        np.from_dlpack,
        lambda x: np.frombuffer(x.unwrap().data, np.float64),
        lambda x: x[11:],
        lambda x: xp.reshape(x, (-1, 1)),
    ]
    if find_spec("torch"):
        import torch

        found += [lambda x: torch.from_numpy(x.unwrap()), torch.from_dlpack]
    if find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        found += [jax.numpy.from_dlpack]
    return found


def wrong(holder: Any, value: float) -> bool:
    if isinstance(holder, memoryview):
        holder = np.frombuffer(holder)
    values = np.asarray(holder)
    return not bool((values == value).all())


LARGE = (20_000, 40_000, 40_000, 41_000, 150_000)
#: Those of which whole arrays are used again, and one that is too large for that.
SMALL = (1, 20, 20, 21, 1000, 1025)


def stress(seed: int, steps: int, faults: list[str], sizes: Sequence[int] = LARGE) -> None:
    """Keep and drop results in random order, and look at all that are kept."""
    rng = random.Random(seed)
    ways = holders()
    kept: list[tuple[Any, float, int]] = []
    with corepy.backend_priority(["numpy"]):
        for step in range(steps):
            value = float(seed * 1_000_000 + step)
            size = rng.choice(sizes)
            way = rng.randrange(len(ways))
            kept.append((ways[way](filled(value, size)), value, way))
            while len(kept) > 12 or (kept and rng.random() < 0.4):
                kept.pop(rng.randrange(len(kept)))
            faults += [f"way {w} at step {step}" for h, v, w in kept if wrong(h, v)]


@pytest.mark.parametrize("waiting", [0, 200_000, MIB, None])
def test_memory_that_anything_can_see_is_not_used_again(waiting: int | None, limit: int) -> None:
    corepy.set_memory_pool(limit if waiting is None else waiting)
    faults: list[str] = []
    before = corepy.memory_stats()
    stress(1, 400, faults)
    assert faults == []
    after = corepy.memory_stats()
    assert (after.recycled_blocks > before.recycled_blocks) is (waiting != 0)


def test_small_arrays_that_anything_can_see_are_not_used_again() -> None:
    faults: list[str] = []
    stress(2, 2000, faults, SMALL)
    threads = [threading.Thread(target=stress, args=(s, 200, faults, SMALL)) for s in range(3, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_the_stress_would_find_a_single_reuse() -> None:
    """Somebody else's value in one block of those that are held is a fault."""
    x = filled(1.0, 40_000)
    held = [way(x) for way in holders()]
    assert not any(wrong(h, 1.0) for h in held)
    x.unwrap()[777] = 2.0
    assert all(wrong(h, 1.0) for h in held[:2])
    x.unwrap()[:] = 2.0
    assert all(wrong(h, 1.0) for h in held)


def test_threads_share_the_pool() -> None:
    faults: list[str] = []
    threads = [threading.Thread(target=stress, args=(s, 120, faults)) for s in range(2, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_a_forked_child_has_a_pool_of_its_own() -> None:
    code = """
import os, corepy, corepy.array_api as xp
x = xp.ones(100_000) + 1
del x
if (child := os.fork()) == 0:
    y = xp.ones(100_000) + 2
    os._exit(0 if float(xp.sum(y)) == 300_000 else 1)
assert os.waitpid(child, 0)[1] == 0
print(float(xp.sum(xp.ones(100_000) + 3)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "400000.0\n"


# ---------------------------------------------------------------------------- bounds


def test_what_is_reserved_stays_near_what_was_in_use() -> None:
    rng = random.Random(0)
    kept: list[Any] = []
    for _ in range(150):
        kept.append(filled(1.0, rng.choice([1, 2, 3, 5, 8]) * MIB // 8))
        while len(kept) > 6:
            kept.pop(rng.randrange(len(kept)))
        now = corepy.memory_stats()
        peak = now.peak_allocated_bytes
        assert now.allocated_bytes + now.cached_bytes <= peak + peak // 10 + SLACK
    assert corepy.memory_stats().recycled_blocks > 0


def test_the_limit_holds_and_the_cache_empties() -> None:
    corepy.set_memory_pool(3 * MIB)
    held = [filled(1.0, MIB // 8) for _ in range(8)]
    held.clear()
    now = corepy.memory_stats()
    assert MIB <= now.cached_bytes <= 3 * MIB
    assert now.limit_bytes == 3 * MIB
    assert corepy.empty_cache() == now.cached_bytes
    assert corepy.memory_stats().cached_bytes == corepy.empty_cache("cpu") == 0
    filled(1.0, MIB // 8)
    assert corepy.memory_stats().cached_bytes > 0
    corepy.set_memory_pool(0)
    assert corepy.memory_stats().cached_bytes == 0


def test_the_system_gets_memory_back_when_it_has_no_more() -> None:
    filled(1.0, 8 * MIB)
    assert corepy.memory_stats().cached_bytes > 0
    with pytest.raises(MemoryError):
        -xp.broadcast_to(xp.ones(1), (1 << 45,))
    assert corepy.memory_stats().cached_bytes == 0
    assert float(xp.max(filled(5.0, MIB))) == 5.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: corepy.set_memory_pool(-1), ValueError, "set_memory_pool: limit is -1"),
        (lambda: corepy.set_memory_pool(1.5), TypeError, "set_memory_pool: limit"),
        (lambda: corepy.memory_stats(5), TypeError, "memory_stats"),  # type: ignore[arg-type]
        (lambda: corepy.empty_cache("cuda:9"), corepy.BackendUnavailableError, "is present: "),
    ],
)
def test_errors(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_the_environment_sets_the_limit() -> None:
    code = "import corepy; print(corepy.memory_stats().limit_bytes)"
    for text, found in (("12345", "12345\n"), ("many", "")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COREPY_POOL_BYTES": text, "PYTHONPATH": ":".join(sys.path)},
        )
        assert done.stdout == found
    assert "COREPY_POOL_BYTES is 'many'; expected a number of bytes" in done.stderr


@pytest.mark.parametrize(
    ("memory", "limit"), [(64 << 30, 1 << 30), (4 << 30, 256 * MIB), (None, 256 * MIB)]
)
def test_by_default_it_is_a_sixteenth_of_the_memory(
    memory: int | None, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sysconf(name: str) -> int:
        if memory is None:
            raise AttributeError(name)
        return 4096 if name == "SC_PAGE_SIZE" else memory // 4096

    monkeypatch.delenv("COREPY_POOL_BYTES", raising=False)
    monkeypatch.setattr(os, "sysconf", sysconf)
    assert _pool._default_limit() == limit
