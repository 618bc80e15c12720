"""Memory of results: aligned, and never used again while anything refers to it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from corepy import kernels
from corepy.kernels._memory import aligned

SHAPE = (600, 1000)


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("shape", [(), (7,), SHAPE])
def test_memory_is_aligned(shape: tuple[int, ...], again: bool) -> None:
    made = aligned(shape, np.dtype("f4"), again=again)
    assert made.shape == shape
    assert made.dtype == np.float32
    assert made.ctypes.data % 64 == 0
    assert made.flags.c_contiguous
    assert made.flags.writeable


@pytest.mark.backend("torch")
def test_memory_lives_as_long_as_a_tensor() -> None:
    import torch

    x = torch.ones(SHAPE)
    y = kernels.silu(x)
    tail = y[-1, -3:]
    place, expected = y.data_ptr(), tail.tolist()
    del y
    assert kernels.gelu(x).data_ptr() != place
    assert tail.tolist() == expected


@pytest.mark.backend("jax")
@pytest.mark.backend("numba")
def test_memory_is_where_the_operand_is() -> None:
    # Two host devices need another process, for their number is fixed when JAX starts.
    code = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import corepy, jax
from corepy.kernels import silu
for place in jax.devices("cpu"):
    told = corepy.explain(silu, jax.device_put(jax.numpy.ones((200, 100)), place))
    assert [record.backend for record in told.records] == ["numba"], told
    assert told.result.devices() == {place}
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.backend("jax")
def test_jax_computes_on_any_of_its_devices() -> None:
    code = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from corepy import kernels
try:
    shard_map = jax.shard_map
except AttributeError:
    from jax.experimental.shard_map import shard_map

def kept(q):
    cache = kernels.KVCache(q.shape[0], 2, 8, 16, like=q)
    cache.append(q, q)
    return cache.attend(q)

def paged(q):
    cache = kernels.PagedKVCache(q.shape[0], 2, 8, 4, 16, like=q)
    cache.append(q, q)
    return cache.attend(q)

def rotated(q):
    return kernels.rope(q, *kernels.rope_tables(8, 16, like=q))

def causal(q):
    return kernels.attention(q, q, q, causal=True)

def near(q):
    return kernels.attention(q, q, q, window=2)

def short(q):
    lengths = jax.numpy.full(q.shape[0], 5, "int32")
    return kernels.attention(q, q, q, lengths=lengths)

x = jax.numpy.asarray(np.random.default_rng(0).standard_normal((2, 2, 8, 16)), "float32")
places, parts = jax.devices("cpu"), PartitionSpec("i")
mesh = Mesh(places, ("i",))
second = jax.device_put(x, places[1])
both = jax.device_put(x, NamedSharding(mesh, parts))

def same(found, expected, where):
    assert found.devices() == set(where), found.devices()
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), atol=1e-5)

for function in (causal, near, short, kept, paged, rotated):
    expected = function(x)
    same(jax.jit(function)(second), expected, places[1:])
    same(function(both), expected, places)
    same(jax.jit(function)(both), expected, places)
    mapped = shard_map(function, mesh=mesh, in_specs=parts, out_specs=parts)
    same(jax.jit(mapped)(both), expected, places)
    same(jax.pmap(function)(x[:, None])[:, 0], expected, places)

# What a trace finds outside of it lies somewhere, and the trace nowhere yet.
cos, sin = kernels.rope_tables(8, 16, like=second)
same(jax.jit(lambda q: kernels.rope(q, cos, sin))(second), rotated(x), places[1:])
for cache in (
    kernels.KVCache(2, 2, 8, 16, like=second),
    kernels.PagedKVCache(2, 2, 8, 4, 16, like=second),
):
    cache.append(second, second)
    same(jax.jit(cache.attend)(second), causal(x), places[1:])
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
