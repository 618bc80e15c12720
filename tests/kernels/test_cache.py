"""Caches of keys and values: the same as attention over all of them at once."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import array_api as xp
from corepy import kernels
from corepy.kernels.attention import _cache_memory
from tests.kernels.libraries import DEVICES, Kind, check, dtype_of, host, kinds, select
from tests.kernels.test_attention import expected_of, sample

TOLERANCE = {"float32": 2.0, "float64": 1.0, "float16": 1.0, "bfloat16": 1.0}


def states(kind: Kind, length: int, dtype: str, batch: int = 2) -> list[Any]:
    shapes = ((batch, 4, length, 8), (batch, 2, length, 8), (batch, 2, length, 8))
    return [kind.array(sample(*shape, seed=n), dtype) for n, shape in enumerate(shapes)]


def dtypes_of(kind: Kind) -> tuple[str, ...]:
    if kind.library in DEVICES:  # each of them is several builds
        return ("float32", "bfloat16") if "bfloat16" in kind.dtypes else ("float32",)
    return kind.dtypes[:1] if kind.slow or kind.library == "jax" else kind.dtypes


def test_grows_to_the_whole(kind: Kind) -> None:
    for dtype in dtypes_of(kind):
        q, k, v = states(kind, 7, dtype)
        expected, terms, _ = expected_of(*map(host, (q, k, v)), causal=True)
        cache = kernels.KVCache(2, 2, 9, 8, like=q)
        for start, stop in ((0, 4), (4, 5), (5, 7)):
            at = (slice(None), slice(None), slice(start, stop), slice(None))
            cache.append(k[at], v[at])
            assert cache.length == stop
            out = cache.attend(q[at])
            scale = terms[at] * TOLERANCE[dtype]
            check(q, out, expected[at], dtype, scale)
        assert dtype_of(cache.keys) == dtype
        np.testing.assert_array_equal(host(cache.keys), host(k))
        np.testing.assert_array_equal(host(cache.values), host(v))


def test_truncate_and_options(kind: Kind) -> None:
    q, k, v = states(kind, 6, "float32")
    cache = kernels.KVCache(2, 2, 6, 8, "float32", like=q)
    cache.append(k, v)
    cache.truncate(6)
    assert cache.length == 6
    cache.truncate(3)
    assert cache.length == 3
    short = [x[:, :, :3, :] for x in (k, v)]
    last = q[:, :, 2:3, :]
    found = cache.attend(last, window=1, scale=0.5)
    arrays = [host(x) for x in (last, *short)]
    expected, terms, _ = expected_of(*arrays, causal=True, window=1, scale=0.5)
    check(q, found, expected, "float32", 2 * terms)
    _, lse = cache.attend(last, causal=False, return_lse=True)
    np.testing.assert_allclose(host(lse), expected_of(*arrays)[2], rtol=1e-5)


def test_keeps_parts_of_its_own_memory(kind: Kind) -> None:
    _, k, v = states(kind, 5, "float32", batch=1)
    cache = kernels.KVCache(1, 2, 9, 8, like=k)
    cache.append(k, v)
    keys, values = cache.keys, cache.values
    cache.truncate(1)
    cache.append(values, keys)  # each where the other one lies, and further on
    for found, start, rest in ((cache.keys, k, v), (cache.values, v, k)):
        expected = np.concatenate([host(start)[:, :, :1], host(rest)], axis=2)
        np.testing.assert_array_equal(host(found), expected)


def test_pages_are_the_whole(kind: Kind) -> None:
    for dtype in dtypes_of(kind):
        q, k, v = states(kind, 11, dtype, batch=3)
        cache = kernels.PagedKVCache(3, 2, 12, 3, 8, like=q)
        filled = [0, 0, 0]
        steps = [([1], 4), ([0, 2], 2), ([0, 1, 2], 1), ([2, 0], 5)]
        for sequences, new in steps:
            keys, values = (
                kind.array(
                    np.stack([host(x)[s, :, filled[s] : filled[s] + new] for s in sequences]), dtype
                )
                for x in (k, v)
            )
            cache.append(keys, values, sequences=sequences)
            for s in sequences:
                filled[s] += new
        assert cache.lengths.tolist() == filled == [8, 5, 8]
        assert cache.free_blocks == 12 - 3 - 2 - 3
        assert cache.table().shape == (3, 3)
        lengths = np.asarray(filled)
        for queries in (1, 2, 5):
            part = q[:, :, :queries, :]
            expected, terms, sums = expected_of(
                *(host(x)[:, :, :8] if n else host(x) for n, x in enumerate((part, k, v))),
                causal=True,
                lengths=lengths,
            )
            out, lse = cache.attend(part, return_lse=True)
            check(q, out, expected, dtype, terms * TOLERANCE[dtype])
            np.testing.assert_allclose(host(lse), sums, rtol=1e-5, atol=1e-5)
            some = cache.attend(q[1:, :, :queries, :], sequences=[2, 0], window=2)
            expected, terms, _ = expected_of(
                host(q)[1:, :, :queries],
                *(host(x)[[2, 0], :, :8] for x in (k, v)),
                causal=True,
                window=2,
            )
            check(q, some, expected, dtype, terms * TOLERANCE[dtype])


@pytest.mark.parametrize("kind", kinds("numpy", "torch"))
def test_long_pages(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that are longer than those of the computation, and panels of queries."""
    select(monkeypatch, kind)
    k, v = (sample(2, 1, 400, 8, seed=s) for s in range(2))
    q = sample(2, 2, 60, 8)
    cache = kernels.PagedKVCache(2, 1, 8, 150, 8, like=kind.array(q, "float32"))
    for start in range(0, 400, 100):
        part = (x[:, :, start : start + 100] for x in (k, v))
        cache.append(*(kind.array(x, "float32") for x in part))
    found = cache.attend(kind.array(q, "float32"))
    expected, terms, _ = expected_of(*(x.astype("f4") for x in (q, k, v)), causal=True)
    check(kind.array(q, "float32"), found, expected, "float32", 2 * terms)


def test_blocks_go_to_others() -> None:
    cache = kernels.PagedKVCache(2, 1, 3, 2, 1)
    ones = np.ones((1, 1, 6, 1), "f4")
    cache.append(ones, ones, sequences=[0])
    assert cache.free_blocks == 0
    assert np.isnan(cache.attend(np.full((1, 1, 1, 1), np.nan, "f4"), sequences=[0])).all()
    cache.free(0)
    assert cache.free_blocks == 3
    assert cache.lengths.tolist() == [0, 0]
    cache.append(2 * ones, 3 * ones, sequences=[1])
    assert (cache.attend(np.ones((2, 1, 1, 1), "f4")).ravel() == [0, 3]).all()
    assert cache.table([1]).tolist() == [[0, 1, 2]]


def test_they_say_how_full_they_are() -> None:
    new = np.zeros((1, 2, 3, 4), np.float32)
    cache = kernels.KVCache(1, 2, 8, 4)
    cache.append(new, new)
    shape = "batch=1, kv_heads=2, head_dim=4"
    assert repr(cache) == f"KVCache({shape}, 3 of 8 positions, float32 of numpy)"
    paged = kernels.PagedKVCache(1, 2, 5, 2, 4, "float64")
    assert repr(paged) == f"PagedKVCache({shape}, 0 of 5 blocks of 2, float64 of numpy)"
    paged.append(new.astype("f8"), new.astype("f8"))
    assert repr(paged) == f"PagedKVCache({shape}, 2 of 5 blocks of 2, float64 of numpy)"


def test_no_sequence_has_anything() -> None:
    cache = kernels.PagedKVCache(2, 1, 3, 2, 4)
    out, lse = cache.attend(np.ones((2, 2, 1, 4), "f4"), return_lse=True)
    assert (out == 0).all()
    assert (lse == -np.inf).all()


@pytest.mark.backend("torch")
def test_no_gradients_are_kept() -> None:
    import torch

    x = torch.ones(1, 1, 2, 4, requires_grad=True)
    cache = kernels.KVCache(1, 1, 4, 4, like=x)
    cache.append(x, x)
    assert not cache.keys.requires_grad
    q = torch.ones(1, 1, 1, 4, requires_grad=True)
    cache.attend(q).sum().backward()
    assert q.grad is not None


@pytest.mark.backend("jax")
def test_memory_in_64_bits_of_jax() -> None:
    x = Kind("jax", compiled=False).array(np.ones((1, 1, 2, 4)), "float64")
    cache = kernels.KVCache(1, 1, 4, 4, like=x)
    cache.append(x, x)
    assert dtype_of(cache.keys) == "float64"
    assert dtype_of(cache.attend(x)) == "float64"


# ---------------------------------------------------------------------------- traces

each_cache = pytest.mark.parametrize("name", ["KVCache", "PagedKVCache"])


def cache_of(name: str, like: Any) -> Any:
    """Make a cache of either kind, of eight positions, for one sequence and one head of four."""
    if name == "KVCache":
        return kernels.KVCache(1, 1, 8, 4, like=like)
    return kernels.PagedKVCache(1, 1, 4, 2, 4, like=like)


@each_cache
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.backend("jax")
def test_traces_of_jax_stay_inside(name: str, wrapped: bool) -> None:
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(sample(1, 1, 2, 4).astype("f4"))
    cache = cache_of(name, corepy.array_api.asarray(x) if wrapped else x)
    q = corepy.array_api.asarray(x) if wrapped else x
    cache.append(x, x)
    before = host(cache.attend(q))

    def kept(k: Any) -> Any:
        cache.append(k, k)
        return k.sum()

    words = f"^{name}.append: k is kept inside a function that JAX transforms; expected a call out"
    for function in (jax.jit(kept), jax.grad(kept), jax.jit(lambda _: kept(x))):
        with pytest.raises(ValueError, match=words):
            function(x)
        np.testing.assert_array_equal(host(cache.attend(q)), before)
    jax.grad(lambda k: k.sum() + kept(x))(x)  # which is no trace
    both = jnp.concatenate([x, x], 2)
    expected = kernels.attention(x, both, both, causal=True)
    np.testing.assert_allclose(host(cache.attend(q)), host(expected), rtol=1e-6)


@each_cache
@pytest.mark.backend("jax")
def test_caches_made_inside_a_trace_grow(name: str) -> None:
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(sample(1, 1, 2, 4).astype("f4"))

    def one(k: Any) -> Any:
        cache = cache_of(name, k)
        cache.append(k, k)
        other = copy(cache)
        other.append(2 * k, k)
        return other.attend(k)

    np.testing.assert_allclose(jax.jit(one)(x), one(x), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(one)(x[None])[0], one(x), rtol=1e-6)
    assert host(jax.jit(jax.grad(lambda k: one(k).sum()))(x)).all()


@each_cache
@pytest.mark.backend("torch")
def test_torch_func_writes_into_nothing_outside(name: str) -> None:
    import torch

    x = torch.from_numpy(sample(1, 1, 2, 4).astype("f4"))
    cache = cache_of(name, x)
    cache.append(x, x)

    def kept(k: Any) -> Any:
        cache.append(k, k)
        return k.sum()

    words = f"^{name}.append: k is kept inside a function that torch.func transforms; expected a ca"
    for function, operand in ((torch.func.grad(kept), x), (torch.func.vmap(kept), x[None])):
        with pytest.raises(ValueError, match=words):
            function(operand)
    cache.append(x, x)
    both = torch.cat([x, x], 2)
    torch.testing.assert_close(cache.attend(x), kernels.attention(x, both, both, causal=True))


# ---------------------------------------------------------------------------- bad input

ONES = np.ones((2, 2, 3, 4), np.float32)


def cache() -> kernels.KVCache:
    found = kernels.KVCache(2, 2, 5, 4)
    found.append(ONES, ONES)
    return found


@pytest.mark.parametrize("dtype", [xp.float64, np.float64, np.dtype("f8")])
def test_dtypes_of_corepy_and_numpy_mean_their_names(dtype: Any) -> None:
    for cache in (kernels.KVCache(1, 1, 1, 1, dtype), kernels.PagedKVCache(1, 1, 1, 1, 1, dtype)):
        assert dtype_of(cache._k) == "float64"


def pages() -> kernels.PagedKVCache:
    found = kernels.PagedKVCache(2, 2, 5, 2, 4)
    found.append(ONES, ONES)
    return found


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: kernels.KVCache(0, 1, 1, 1), ValueError, "KVCache: batch is 0; expected an inte"),
        (lambda: kernels.KVCache(1, 1, -1, 1), ValueError, "KVCache: capacity is -1; expected"),
        (lambda: kernels.KVCache(1, 1, 1.5, 1), TypeError, "KVCache: capacity is of type float"),
        (lambda: kernels.KVCache(1, 1, 1, 1, "int8"), ValueError, "KVCache: dtype is 'int8'; exp"),
        (lambda: kernels.KVCache(1, 1, 1, 1, xp.int8), ValueError, "KVCache: dtype is 'int8'; exp"),
        (
            lambda: kernels.KVCache(1, 1, 1, 1, "bfloat16", like=xp.ones(1)),
            ValueError,
            "KVCache: dtype is 'bfloat16'; expected float32 or float64, or None",
        ),
        (lambda: kernels.KVCache(1, 1, 1, 1, like=[1.0]), TypeError, "KVCache: like is of type"),
        (
            lambda: cache().append(ONES, ONES),
            ValueError,
            "KVCache.append: k has 3 positions in shape (2, 2, 3, 4); expected at most 2, for 3 of "
            "5 are filled",
        ),
        (
            lambda: cache().append(ONES[:1], ONES[:1]),
            ValueError,
            "KVCache.append: k has shape (1, 2, 3, 4); expected (2, 2, length, 4)",
        ),
        (
            lambda: cache().append(ONES, ONES[:, :, :1]),
            ValueError,
            "KVCache.append: v has shape (2, 2, 1, 4); expected (2, 2, 3, 4)",
        ),
        (
            lambda: cache().append(ONES.astype("f8"), ONES),
            TypeError,
            "KVCache.append: k has dtype float64 on cpu; expected float32 beside the cache of floa",
        ),
        (lambda: cache().append([1.0], ONES), TypeError, "KVCache.append: k is of type list"),
        (
            lambda: cache().truncate(4),
            ValueError,
            "KVCache.truncate: length is 4; expected at most",
        ),
        (
            lambda: cache().attend(ONES[:1]),
            ValueError,
            "attention: k has shape (2, 2, 3, 4); expec",
        ),
        (lambda: kernels.PagedKVCache(1, 1, 0, 1, 1), ValueError, "PagedKVCache: blocks is 0; exp"),
        (
            lambda: pages().append(ONES, ONES),
            ValueError,
            "PagedKVCache.append: k takes 2 new blocks in shape (2, 2, 3, 4); expected at most 1, "
            "the free ones of 5",
        ),
        (
            lambda: pages().append(ONES, ONES, sequences=[0]),
            ValueError,
            "PagedKVCache.append: k has shape (2, 2, 3, 4); expected (1, 2, length, 4)",
        ),
        (
            lambda: pages().append(ONES, ONES, sequences=[0, 2]),
            IndexError,
            "PagedKVCache.append: sequences is 2; expected 0 to 1",
        ),
        (
            lambda: pages().append(ONES, ONES, sequences=[1, 1]),
            ValueError,
            "PagedKVCache.append: sequences is [1, 1]; expected each sequence once",
        ),
        (
            lambda: pages().append(ONES, ONES, sequences=3),
            TypeError,
            "PagedKVCache.append: sequences is of type int; expected a sequence of integers",
        ),
        (
            lambda: pages().append(ONES, ONES, sequences=[True, False]),
            TypeError,
            "PagedKVCache.append: sequences is of type bool; expected a sequence of integers",
        ),
        (
            lambda: pages().append(ONES, ONES, sequences=[0, "1"]),
            TypeError,
            "PagedKVCache.append: sequences is of type str; expected a sequence of integers",
        ),
        (lambda: pages().free(-1), IndexError, "PagedKVCache.free: sequence is -1; expected 0"),
        (
            lambda: pages().attend(ONES[:1]),
            ValueError,
            "PagedKVCache.attend: q has shape (1, 2, 3, 4); expected 2 sequences",
        ),
        (
            lambda: pages().attend(ONES[..., :3]),
            ValueError,
            "PagedKVCache.attend: the cache has head_dim 4 in shape (5, 2, 2, 4); expected 3",
        ),
        (
            lambda: pages().attend(ONES, window=-2),
            ValueError,
            "PagedKVCache.attend: window is -2; expected an integer of at least 0",
        ),
        (lambda: pages().attend(ONES, causal=None), TypeError, "PagedKVCache.attend: causal is"),
    ],
)
def test_bad_input(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_nothing_is_written_where_there_is_no_room() -> None:
    for found in (cache(), pages()):
        before = found.attend(ONES)
        with pytest.raises(ValueError, match="append: k .* expected at most"):
            found.append(7 * ONES, 7 * ONES)
        np.testing.assert_array_equal(found.attend(ONES), before)
    held = pages()
    assert held.lengths.tolist() == [3, 3]
    assert held.free_blocks == 1
    held.append(ONES[:1, :, :1], ONES[:1, :, :1], sequences=[0])  # fits in its last block
    assert held.free_blocks == 1


def test_what_could_not_be_written_leaves_a_cache_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(memory: Any, at: Any, values: Any) -> Any:
        if values.argument == "v":
            raise MemoryError
        return written(memory, at, values)

    written = _cache_memory._written

    def state(memory: Any) -> tuple[Any, ...]:
        if isinstance(memory, kernels.KVCache):
            return memory.length, memory.keys.tolist(), memory.values.tolist()
        return memory.free_blocks, memory.table().tolist(), memory.lengths.tolist()

    for memory in (kernels.KVCache(2, 1, 8, 1), kernels.PagedKVCache(2, 1, 6, 2, 1)):
        one, more = np.ones((2, 1, 1, 1), "f4"), np.full((2, 1, 5, 1), 2, "f4")
        memory.append(one, one)
        before, seen = state(memory), memory.attend(one)
        with monkeypatch.context() as patch:
            patch.setattr(_cache_memory, "_written", broken)
            with pytest.raises(MemoryError):
                memory.append(more, more)
        assert state(memory) == before
        np.testing.assert_array_equal(memory.attend(one), seen)
        memory.append(more, more)  # the room is still there
    assert state(memory) == (0, [[0, 2, 3], [1, 4, 5]], [6, 6])


@pytest.mark.parametrize(
    "library", [pytest.param(name, marks=pytest.mark.backend(name)) for name in ("mlx", "dask")]
)
def test_arrays_of_libraries_themselves(library: str) -> None:
    values = [sample(1, heads, 3, 4, seed=heads).astype("f4") for heads in (4, 2, 2)]
    q, k, v = (corepy.to(x, backend=library).unwrap() for x in values)
    expected = expected_of(*values, causal=True)[0]
    cache = kernels.KVCache(1, 2, 3, 4, like=q)
    pages = kernels.PagedKVCache(1, 2, 2, 2, 4, like=q)
    for memory in (cache, pages):
        memory.append(k, v)
        out = memory.attend(q)
        assert type(out) is type(q)
        np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="KVCache: dtype is 'float16'; expected float32 or float6"):
        kernels.KVCache(1, 2, 3, 4, "float16", like=q)


@pytest.mark.needs("ml_dtypes")
def test_bfloat16_of_numpy() -> None:
    import ml_dtypes

    x = np.asarray(sample(1, 1, 3, 4), ml_dtypes.bfloat16)
    for like in (x, x.astype("f4")):
        cache = kernels.KVCache(1, 1, 3, 4, x.dtype.name if like is not x else None, like=x)
        cache.append(x, x)
        assert cache.keys.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(cache.values, x)


@pytest.mark.needs("ml_dtypes")
def test_bfloat16_of_numpy_by_its_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import ml_dtypes

    x = np.asarray(sample(1, 1, 3, 4), ml_dtypes.bfloat16)
    for dtype in ("bfloat16", ml_dtypes.bfloat16):
        for cache in (
            kernels.KVCache(1, 1, 3, 4, dtype),
            kernels.PagedKVCache(1, 1, 2, 2, 4, dtype, like=np.ones(1)),
        ):
            cache.append(x, x)
            found = cache.attend(x, causal=True)
            assert found.dtype == ml_dtypes.bfloat16
            np.testing.assert_array_equal(found, kernels.attention(x, x, x, causal=True))
    monkeypatch.setattr(_cache_memory, "is_there", lambda library: False)
    with pytest.raises(ValueError, match="^KVCache: dtype is 'bfloat16'; expected .* ml_dtypes"):
        kernels.KVCache(1, 1, 3, 4, "bfloat16")


@pytest.mark.backend("torch")
@pytest.mark.backend("jax")
def test_dtypes_of_the_library_mean_their_names() -> None:
    import jax.numpy as jnp
    import torch

    for like, dtype in (
        (torch.ones(1), torch.bfloat16),
        (jnp.ones(1), jnp.bfloat16),
        (jnp.ones(1), jnp.ones(1, jnp.bfloat16).dtype),
    ):
        assert dtype_of(kernels.KVCache(1, 1, 1, 1, dtype, like=like).keys) == "bfloat16"
    with pytest.raises(TypeError, match="a name, a dtype of corepy or NumPy, or None"):
        kernels.KVCache(1, 1, 1, 1, torch.bfloat16)


def test_what_is_freed_is_a_sequence() -> None:
    cache = kernels.PagedKVCache(2, 1, 4, 2, 1)
    with pytest.raises(TypeError, match="PagedKVCache.free: sequence is of type str; expected an"):
        cache.free("a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "cache", [kernels.KVCache(1, 1, 4, 2), kernels.PagedKVCache(1, 1, 3, 2, 2)], ids=["KV", "paged"]
)
@pytest.mark.parametrize("again", [copy, deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_grows_by_itself(cache: Any, again: Callable[[Any], Any]) -> None:
    first, mine, yours, q = sample(4, 1, 1, 1, 2).astype("f4")
    cache = deepcopy(cache)
    cache.append(first, first)
    other = again(cache)
    cache.append(mine, mine)
    other.append(yours, yours)
    for grown, last in ((cache, mine), (other, yours)):
        kept = np.concatenate([first, last], axis=2)
        assert np.allclose(grown.attend(q), kernels.attention(q, kept, kept), atol=1e-6)


@pytest.mark.backend("jax")
def test_pages_of_jax_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each write copies the memory of all blocks.
    writes, write = [], _cache_memory._written

    def counted(*given: Any) -> Any:
        writes.append(given)
        return write(*given)

    monkeypatch.setattr(_cache_memory, "_written", counted)
    q, k, v = states(Kind("jax", compiled=False), 7, "float32")
    for wrapped in (False, True):
        writes.clear()
        arrays = [xp.asarray(x) if wrapped else x for x in (q, k, v)]
        cache = kernels.PagedKVCache(2, 2, 8, 2, 8, like=arrays[0])
        first = [x[:, :, :3, :] for x in arrays[1:]]
        cache.append(*first)
        cache.append(*(x[:, :, 3:, :] for x in arrays[1:]), sequences=[0, 1])
        cache.append(*(x[:, :, :0, :] for x in arrays[1:]))
        cache.append(*(x[:0] for x in arrays[1:]), sequences=[])
        assert len(writes) == 4
        expected = kernels.attention(q, k, v, causal=True)
        np.testing.assert_allclose(host(cache.attend(arrays[0])), host(expected), rtol=1e-5)


@pytest.mark.device("opencl")
@pytest.mark.parametrize("again", [copy, deepcopy])
def test_a_copy_on_a_queue_grows_by_itself(again: Callable[[Any], Any]) -> None:
    kind = Kind("opencl", True)
    first, mine, yours = (kind.array(x, "float32") for x in sample(3, 1, 1, 1, 2))
    for cache in (
        kernels.KVCache(1, 1, 4, 2, like=first),
        kernels.PagedKVCache(1, 1, 3, 2, 2, like=first),
    ):
        cache.append(first, first)
        other = again(cache)
        cache.append(mine, mine)
        other.append(yours, yours)
        for grown, last in ((cache, mine), (other, yours)):
            kept = kind.array(np.concatenate([host(first), host(last)], axis=2), "float32")
            expected = host(kernels.attention(first, kept, kept))
            assert np.allclose(host(grown.attend(first)), expected, atol=1e-6)


@pytest.mark.backend("tinygrad")
def test_what_is_held_of_tensors_of_tinygrad_stays() -> None:
    parts = [sample(1, 1, 2, 2, seed=n).astype("f4") for n in range(3)]
    tensors = [corepy.to(x, backend="tinygrad").unwrap() for x in parts]
    cache = kernels.KVCache(1, 1, 6, 2, like=tensors[0])
    held = []
    for x in tensors:
        cache.append(x, x)
        held.append((cache.keys, cache.values + 1.0))  # of which tinygrad computes nothing yet
    for n, (keys, more) in enumerate(held, 1):
        expected = np.concatenate(parts[:n], axis=2)
        np.testing.assert_array_equal(keys.numpy(), expected)
        np.testing.assert_array_equal(more.numpy(), expected + np.float32(1))


@pytest.mark.backend("jax")
def test_sizes_beyond_memory_do_not_end_the_process() -> None:
    import jax.numpy as jnp

    for make in (
        lambda: kernels.KVCache(2**30, 2**30, 2**30, 2, like=jnp.ones(1)),
        lambda: kernels.PagedKVCache(1, 2**30, 2**30, 2**30, 2, like=jnp.ones(1)),
    ):
        with pytest.raises(MemoryError, match="its keys have .* elements; expected fewer than"):
            make()


@pytest.mark.parametrize("batch", [2**40, 2**62])
def test_more_sequences_than_memory_holds(batch: int) -> None:
    with pytest.raises(MemoryError, match="^PagedKVCache: "):
        kernels.PagedKVCache(batch, 1, 1, 1, 1)


@pytest.mark.parametrize("dtype", [np.ones(3), 3])
def test_a_dtype_that_is_no_name_is_refused_by_name(dtype: Any) -> None:
    with pytest.raises(TypeError, match=r"^KVCache: dtype is .*; expected a name, a dtype"):
        kernels.KVCache(1, 1, 4, 4, dtype)
    with pytest.raises(TypeError, match=r"^PagedKVCache: dtype is .*; expected a name, a dtype"):
        kernels.PagedKVCache(1, 1, 2, 4, 4, dtype)
