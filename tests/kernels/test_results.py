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
