"""Memory of large results: used again, but never while anything refers to it."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from corepy import kernels
from corepy.kernels import _pool

SHAPE = (600, 1000)  # of float32: above the least size that is kept


def make(value: float) -> Any:
    out = _pool.aligned(SHAPE, np.dtype("f4"))
    out[...] = value
    return out


@pytest.fixture(autouse=True)
def nothing_waits() -> None:
    gc.collect()
    _pool._Block.waiting.clear()


def test_memory_is_used_again() -> None:
    x = make(1.0)
    assert x.ctypes.data % 64 == 0
    assert x.flags.writeable
    place = x.ctypes.data
    del x
    assert make(2.0).ctypes.data == place


def test_memory_lives_as_long_as_a_view() -> None:
    x = make(1.0)
    view = x.reshape(-1)[5:7]
    del x
    y = make(2.0)
    assert not np.may_share_memory(view, y)
    assert view.tolist() == [1.0, 1.0]


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


def test_two_blocks_wait_and_no_more() -> None:
    arrays = [make(i) for i in range(4)]
    assert len({a.ctypes.data for a in arrays}) == 4
    del arrays
    assert len(_pool._Block.waiting) == 2
    small = _pool.aligned((10,), np.dtype("f4"))
    del small
    assert len(_pool._Block.waiting) == 2


def test_threads_never_get_the_same_memory() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(30):
            x = make(number)
            if (x != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
