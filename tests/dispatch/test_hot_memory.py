"""Results of before are used again for later ones, and nobody sees it."""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from tests.dispatch.natives import compiled


def test_no_memory_is_used_again_while_it_can_be_seen() -> None:
    x = xp.asarray(np.arange(100.0))
    holders: list[Callable[[Any], Any]] = [
        lambda n: n.unwrap(),
        lambda n: n.unwrap()[...],
        lambda n: memoryview(n.unwrap()),
        lambda n: np.from_dlpack(n.unwrap()),
        lambda n: weakref.ref(n._native)() if sys.getrefcount(n) else None,
        lambda n: n,
        lambda n: n.unwrap().reshape(1),
    ]
    for hold in holders:
        held = hold(x[7])
        others = [x[i] for i in range(100)] + [xp.sum(x), xp.max(x)]
        del others
        for i in range(100):
            x[i]
        assert float(np.asarray(held).reshape(-1)[0]) == 7


@compiled
def test_four_small_arrays_of_a_shape_wait_until_the_cache_is_emptied() -> None:
    x = xp.asarray(np.arange(1000.0))
    x + x  # what is resolved once stays
    corepy.empty_cache()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        held = [x + x for _ in range(20)]
        del held
        kept = tracemalloc.get_traced_memory()[0] - before
        corepy.empty_cache()
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 4 * 8000 <= kept < 5 * 8000
    assert left < 4000


def test_views_that_anything_can_see_are_not_used_again() -> None:
    rng = random.Random(1)
    sources = [
        xp.asarray(np.arange(120).astype(dtype).reshape(2, 3, 4, 5))
        for dtype in ("float64", "float32", "int8", "complex128", "bool")
    ]
    looks: list[Callable[[Any], Any]] = [
        lambda x: x[1],
        lambda x: x[0, 1:],
        lambda x: x[..., ::-2],
        lambda x: x[1, 2, 3],
        lambda x: x.mT,
        lambda x: xp.reshape(x, (-1,)),
        lambda x: xp.permute_dims(x, (3, 0, 2, 1)),
        lambda x: xp.expand_dims(x[0, 0], axis=1),
    ]
    holders: list[Callable[[Any], Any]] = [
        lambda v: v,
        lambda v: v.unwrap(),
        lambda v: v.unwrap()[...],
        lambda v: memoryview(v.unwrap()),
        lambda v: (weakref.ref(v._native), v)[1],
    ]
    kept: list[tuple[Any, Any]] = []
    for _ in range(2000):
        x, look = rng.choice(sources), rng.choice(looks)
        view = look(x)
        expected = np.array(view.unwrap())
        native = view.unwrap()
        assert native.dtype == x.unwrap().dtype
        assert native.flags.aligned
        again = np.lib.stride_tricks.as_strided(native, native.shape, native.strides)
        assert str(native.flags) == str(again.flags)
        kept.append((rng.choice(holders)(view), expected))
        del view, native
        while len(kept) > 10 or (kept and rng.random() < 0.5):
            kept.pop(rng.randrange(len(kept)))
        for held, values in kept:
            np.testing.assert_array_equal(np.asarray(held), values)


def test_a_view_lets_go_of_what_it_looks_at_and_a_finalizer_may_compute() -> None:
    seen: list[float] = []

    class Owner(np.ndarray):
        def __del__(self) -> None:
            x = xp.asarray(np.arange(6.0).reshape(2, 3))
            seen.append(float(xp.sum(x[1] + x[0])))

    owner = Owner((3, 4))
    owner[...] = np.arange(12.0).reshape(3, 4)
    x = xp.asarray(np.asarray(owner))
    gone = weakref.ref(owner)
    view = x[1:]
    del owner, x
    assert gone() is not None
    assert float(xp.sum(view)) == 60
    del view
    assert gone() is None
    assert seen == [15]


def fixed(values: Any) -> Any:
    """Make an `Array` of memory that it leaves for a copy when it is written to."""
    native = np.asarray(values)
    native.flags.writeable = False
    return xp.asarray(native)


BIG = fixed(np.full(60_000, 2.0))


@pytest.mark.parametrize(
    "call",
    [xp.sin, lambda x: xp.hypot(x, BIG), lambda x: xp.nextafter(x, 2.0), lambda x: x + BIG, xp.sum],
)
def test_a_finalizer_writes_to_what_is_being_computed(call: Callable[[Any], Any]) -> None:
    expected = call(fixed(np.ones(60_000)))  # which the entry is resolved for
    junk: list[Any] = []

    class Writer:
        def __init__(self) -> None:
            self.me = self  # for the collector

        def __del__(self) -> None:
            gc.disable()
            x[0] = 1.0
            junk.extend(np.full(60_000, 777.0) for _ in range(4))

    x = fixed(np.ones(60_000))
    thresholds, enabled = gc.get_threshold(), gc.isenabled()
    gc.disable()
    gc.collect()
    Writer()
    gc.set_threshold(1, 1000, 1000)
    gc.enable()
    try:
        found = call(x)
    finally:
        gc.set_threshold(*thresholds)
        (gc.enable if enabled else gc.disable)()
    gc.collect()
    assert junk
    assert bool(xp.all(found == expected))


def test_a_finalizer_of_a_dtype_writes_to_what_is_being_viewed() -> None:
    class Writer:
        def __del__(self) -> None:
            x[0, 0] = 7.0

    x = fixed(np.ones((2000, 2000)))
    odd = np.zeros(2000).astype(np.dtype("f8", metadata={"ends": Writer()}))
    views = [xp.asarray(odd)[None]]
    del odd, views[:]
    kept = [xp.zeros((5,))[1:] for _ in range(6)]  # what waits with one dimension is used again
    turned = xp.flip(x)
    assert float(xp.sum(turned)) in (4e6, 4e6 + 6)  # in Python it is written before it is viewed
    assert len(kept) == 6


# NumPy 2.5 would have nobody do that any more.
@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype) on a NumPy array:DeprecationWarning")
def test_arrays_that_were_changed_are_not_used_again() -> None:
    changes: list[Callable[[Any], object]] = [
        lambda n: setattr(n, "dtype", np.int64),
        lambda n: setattr(n, "shape", (3, 2)),
        lambda n: n.setflags(write=False),
        lambda n: n.resize((2, 2), refcheck=False),
    ]
    x = xp.asarray(np.arange(6.0).reshape(2, 3))
    for change in changes:
        made = x + x
        change(made._native)
        del made
        again = x * 3
        native = again._native
        assert native.dtype == np.float64
        assert native.shape == (2, 3)
        assert native.flags.writeable
        assert native.flags.c_contiguous
        assert native.flags.owndata
        assert np.array_equal(native, np.arange(6.0).reshape(2, 3) * 3)


def test_results_are_let_go() -> None:
    x = xp.asarray(np.arange(5.0))
    number = x[2]
    gone = weakref.ref(number)
    native = weakref.ref(number._native)
    del number
    assert gone() is None
    assert native() is None
    big = x + x
    memory = weakref.ref(big._native)
    del big
    assert memory() is None
    gc.collect()
    before = sys.getrefcount(x._table), sys.getrefcount(x.unwrap().dtype), sys.getrefcount(None)
    for _ in range(1000):
        x[1], x[1:3], x + x, xp.sum(x), xp.zeros(3), xp.sort(x), xp.reshape(x, (-1, 1))
        xp.astype(x, xp.float32), xp.stack([x, x]), xp.linalg.inv(xp.ones((1, 1))), x[None, :].mT
    after = sys.getrefcount(x._table), sys.getrefcount(x.unwrap().dtype), sys.getrefcount(None)
    assert all(abs(a - b) < 100 for a, b in zip(after, before, strict=True))


def test_a_class_of_a_users_own_may_derive_from_that_of_arrays() -> None:
    class Mine(type(xp.ones(1))):  # type: ignore[misc]
        """Has attributes."""

    x = xp.ones(3)
    for _ in range(100):
        mine = Mine()
        mine._native, mine._table, mine.note = x._native, x._table, [1]
        gone = weakref.ref(mine)
        assert float(xp.sum(mine + x)) == 6
        del mine
        assert gone() is None


@pytest.mark.parametrize("name", ["add", "maximum", "where", "clip"])
def test_more_bytes_than_can_be_counted_are_no_memory(name: str) -> None:
    one = xp.ones((1, 1))
    tall, wide = (xp.broadcast_to(one, shape) for shape in ((2**31, 1), (1, 2**31)))
    args = {"where": (one > 0, tall, wide), "clip": (tall, wide, wide)}.get(name, (tall, wide))
    for _ in range(2):  # the first call fills the table
        with pytest.raises(corepy.InsufficientMemoryError, match=f"^{name}: the memory of cpu"):
            getattr(xp, name)(*args)


#: What a compiled way computes sizes of, sizes of 0 aside, that no memory holds.
BEYOND_MEMORY: dict[str, Callable[[Any], Any]] = {
    **{f"concat of {n}": lambda x, n=n: xp.concat([x] * n, axis=1) for n in (2, 3, 4)},
    **{f"repeat {n} times": lambda x, n=n: xp.repeat(x, n, axis=1) for n in (2, 4)},
    **{f"tile {n} times": lambda x, n=n: xp.tile(x, (1, n)) for n in (2, 4)},
    "argsort": lambda x: xp.argsort(x, axis=1),
    "argsort of columns": lambda x: xp.argsort(xp.permute_dims(x, (1, 0)), axis=0),
    "astype": lambda x: xp.astype(x, xp.float64),
    "cumulative_sum": lambda x: xp.cumulative_sum(x, axis=1),
    "full_like": lambda x: xp.full_like(x, 2, dtype=xp.float64),
    "stack": lambda x: xp.stack([x] * 4, axis=1),
    "zeros_like": lambda x: xp.zeros_like(x, dtype=xp.float64),
}


@pytest.mark.parametrize("call", BEYOND_MEMORY.values(), ids=list(BEYOND_MEMORY))
def test_sizes_beside_no_elements_do_not_wrap_around(call: Callable[[Any], Any]) -> None:
    for _ in range(3):
        call(xp.zeros((2, 3), dtype=xp.int8))  # from then on it takes the shortest way
    with pytest.raises(MemoryError, match=r"memory|elements"):
        call(xp.asarray(np.zeros((0, 2**62), np.int8)))


def test_few_elements_are_taken_without_a_copy_of_all() -> None:
    ones = xp.broadcast_to(xp.asarray(1.0), (2**40, 2))  # of 2**44 bytes, had it memory of its own
    few = xp.asarray([3, 2**40 - 1])
    for _ in range(3):
        xp.take(xp.ones((4, 2)), xp.asarray([3, 0]), axis=0)
    assert xp.take(ones, few, axis=0).shape == (2, 2)
