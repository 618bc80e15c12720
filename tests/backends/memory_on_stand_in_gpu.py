"""Memory of a GPU that runs out: CuPy's stand-in and a library that keeps what it had.

`tests/test_streams.py` runs this file in a process of its own, where they are installed.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import array_api as xp
from corepy.dispatch import load
from tests.backends import stand_in_gpu
from tests.backends.cupy_devices import POOL
from tests.backends.gpu_on_host import GPU
from tests.backends.stand_in_gpu import values
from tests.backends.stand_ins import Second

second = stand_in_gpu.second  # fixtures


@pytest.fixture
def small(second: Second) -> Second:
    """Give the GPU 1,000 bytes for both libraries."""
    GPU.defers = False
    gc.collect()
    GPU.capacity = 1000
    return second


def hoard(second: Second, size: int) -> None:
    """Let the second library keep so many bytes of arrays that are gone."""
    corepy.to(np.zeros(size // 8), backend="second")
    gc.collect()
    assert second.pool.cached == size


def test_another_librarys_hoard_is_freed_and_nobody_notices(small: Second) -> None:
    hoard(small, 800)
    x = xp.ones(20)  # 160 bytes, beside which 160 more do not fit
    with corepy.set_fallback("raise"):
        assert values(x + 1.0) == [2.0] * 20
    assert small.pool.cached == 0


CALLS: list[tuple[str, Callable[[Any], Any]]] = [
    ("add", lambda x: x + x),
    ("add", lambda x: x + 1.0),
    ("add", lambda x: xp.add(x, xp.astype(x[:1], xp.float32))),
    ("negative", lambda x: -x),
    ("exp", xp.exp),
    ("clip", lambda x: xp.clip(x, 0.0, 2.0)),
    ("concat", lambda x: xp.concat([x, x])),
    ("where", lambda x: xp.where(xp.asarray(True), x, -x)),
    ("cumulative_sum", xp.cumulative_sum),
    ("__getitem__", lambda x: x[x > 0.0]),
    ("copy", copy.copy),
    ("add", lambda x: x + xp.asarray([1j])),
]


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_without_memory_an_operation_raises_and_its_operands_are_whole(
    small: Second, name: str, call: Callable[[Any], Any]
) -> None:
    x = xp.ones(100)
    with corepy.set_fallback("allow"), pytest.raises(corepy.InsufficientMemoryError) as caught:
        call(x)
    message = str(caught.value)
    assert message.startswith((f"{name}: the memory of cuda:0 does not suffice, and its", "negat"))
    assert "nor on the host: transfer: the memory of cuda:0 does not suffice" in message
    assert isinstance(caught.value, MemoryError)
    GPU.capacity = 10_000
    assert values(x) == [1.0] * 100
    call(x)


SCALARS: list[tuple[str, Callable[[Any], Any]]] = [
    ("__setitem__", lambda x: x.__setitem__(0, 5.0)),
    ("atan2", lambda x: xp.atan2(x, 5.0)),
    ("atan2", lambda x: xp.atan2(5.0, x)),
    ("clip", lambda x: xp.clip(x, -5.0, 5.0)),
    ("isin", lambda x: xp.isin(x, 5.0)),
    ("pow", lambda x: 5.0**x),
    ("remainder", lambda x: 5.0 % x),
]


@pytest.mark.parametrize(("name", "call"), SCALARS)
def test_scalars_that_take_memory_of_the_device_get_it_or_say_what_lacks(
    small: Second, name: str, call: Callable[[Any], Any]
) -> None:
    x = xp.ones(10)
    hoard(small, 920)  # all that is left
    with corepy.set_fallback("raise"):
        call(x)
    assert small.pool.cached == 0
    gc.collect()
    corepy.empty_cache("cuda:0")
    GPU.capacity = x.nbytes + 4
    with (
        corepy.set_fallback("raise"),
        pytest.raises(corepy.InsufficientMemoryError, match=f"^{name}: the memory of cuda:0 does"),
    ):
        call(x)


@pytest.fixture
def greedy(small: Second, monkeypatch: pytest.MonkeyPatch) -> Second:
    """Let CuPy's sum need as much memory as its operand."""
    backend = load("cupy")
    plain = backend.operation("sum")
    assert plain is not None

    def operation(name: str) -> Any:
        return total if name == "sum" else type(backend).operation(backend, name)

    def total(x: Any, **params: Any) -> Any:
        POOL.give(POOL.take(x.nbytes))
        return plain(x, **params)

    monkeypatch.setattr(backend, "operation", operation)
    from corepy.dispatch._table import forget_entries

    forget_entries()
    yield small
    forget_entries()


def test_the_host_computes_under_the_fallback_policy(greedy: Second) -> None:
    x = xp.ones(100)
    with pytest.warns(
        corepy.FallbackWarning,
        match="^sum: cupy on cuda:0 lacks the memory for it; numpy on cpu runs it and 800 bytes",
    ):
        total = xp.sum(x)
    assert (total.backend, values(total)) == ("cupy", 100.0)
    with (
        corepy.set_fallback("raise"),
        pytest.raises(
            corepy.InsufficientMemoryError, match='^sum: .* fallback="raise" forbids that the host'
        ),
    ):
        xp.sum(x)
    with corepy.set_fallback("allow"):
        found = corepy.explain(xp.sum, x)
    assert [(r.operation, r.backend, r.bytes_moved) for r in found.records] == [
        ("sum", "numpy", 808)
    ]


def test_in_place_operations_are_done_once_or_not_at_all(small: Second) -> None:
    GPU.capacity = 10_000
    x, y = xp.ones(50), xp.full(50, 2.0)
    GPU.capacity = 800  # both are there, and nothing more
    gc.collect()
    x += y
    assert values(x) == [3.0] * 50
    with pytest.raises(corepy.InsufficientMemoryError), corepy.set_fallback("allow"):
        x //= y  # which makes the quotient first
    assert values(x) == [3.0] * 50
    alias = x
    GPU.capacity = 10_000
    x //= y
    assert (values(alias), values(y)) == ([1.0] * 50, [2.0] * 50)
    GPU.capacity = 800
    x[:25] = y[25:]
    assert values(x) == [2.0] * 25 + [1.0] * 25


def test_a_transfer_frees_hoards_or_says_what_lacks(small: Second) -> None:
    hoard(small, 800)
    x = corepy.to(np.ones(100), backend="cupy")
    with pytest.raises(
        corepy.InsufficientMemoryError, match="^transfer: the memory of cuda:0 does not suffice, "
    ):
        corepy.to(np.ones(100), backend="second")
    assert values(x) == [1.0] * 100
    with pytest.raises(corepy.InsufficientMemoryError, match="^ones: the memory of cuda:0 does"):
        xp.ones(100)


def test_errors_of_memory_that_are_none_of_pythons(small: Second) -> None:
    x = corepy.to(np.ones(100), backend="second")
    with (
        corepy.set_fallback("allow"),
        pytest.raises(corepy.InsufficientMemoryError, match="OutOfMemory: second: no 800 bytes"),
    ):
        corepy.to(x + x, device="cpu")
    assert x.tolist() == [1.0] * 100


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("cupy_backends.cuda.api.runtime", "cudaErrorMemoryAllocation: out of memory"),
        ("cupy_backends.cuda.api.driver", "CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
        ("cupy_backends.cuda.libs.cublas", "CUBLAS_STATUS_ALLOC_FAILED"),
        ("cupy_backends.cuda.libs.cusolver", "CUSOLVER_STATUS_ALLOC_FAILED"),
        ("cupy.cuda.cufft", "CUFFT_ALLOC_FAILED"),
    ],
)
def test_every_library_beneath_says_that_memory_lacks(module: str, words: str) -> None:
    error = type("Error", (RuntimeError,), {"__module__": module})
    told = load("cupy").is_out_of_memory
    assert told(error(words))
    assert not told(error("CUBLAS_STATUS_EXECUTION_FAILED"))
    assert not told(RuntimeError(words))  # of somebody else


def test_a_limit_holds_and_goes(small: Second) -> None:
    told = corepy.set_memory_limit(400, "cuda:0")
    assert told == {"second": "the library has no limit to set"}
    with pytest.raises(corepy.InsufficientMemoryError), corepy.set_fallback("allow"):
        xp.ones(100)
    assert corepy.memory_stats("cuda:0").limit_bytes == 400
    corepy.set_memory_limit(None, "cuda:0")
    assert xp.ones(100).shape == (100,)


def test_stats_and_the_cache_are_those_of_all_libraries(small: Second) -> None:
    hoard(small, 160)
    x = xp.ones(10)
    stats = corepy.memory_stats("cuda:0")
    assert (stats.allocated_bytes, stats.cached_bytes) == (80, 160)
    assert corepy.empty_cache("cuda:0") == 160
    assert corepy.memory_stats("cuda:0").cached_bytes == 0
    assert values(x) == [1.0] * 10


def test_the_library_tells_what_is_free_where_no_driver_does(small: Second) -> None:
    if corepy.detect_devices().gpus:
        pytest.skip("a driver tells, of a true GPU")
    x = xp.ones(10)
    found = corepy.memory_info("cuda:0")
    assert (found.total_bytes, found.free_bytes) == (1000, 1000 - x.nbytes)
    with (
        corepy.set_fallback("raise"),
        pytest.raises(corepy.InsufficientMemoryError, match="920 of 1000 bytes are free"),
    ):
        xp.ones(1000)


def test_one_pool_for_all_and_back(small: Second) -> None:
    assert corepy.share_memory_pool("second") == {}
    stream = corepy.stream("cuda:0")
    with stream:
        x = xp.ones(10)
    assert small.lent == [(80, 0, stream.address)]
    assert (small.pool.used, POOL.used) == (80, 0)
    del x
    gc.collect()
    assert (small.pool.used, small.pool.cached) == (0, 80)
    corepy.share_memory_pool(None)
    x = xp.ones(10)
    assert (len(small.lent), POOL.used, x.shape) == (1, 80, (10,))
    with pytest.raises(corepy.UnsupportedOperationError, match="^share_memory_pool: owner is 'num"):
        corepy.share_memory_pool("numpy")
    with pytest.raises(TypeError, match="^share_memory_pool: owner is of type int"):
        corepy.share_memory_pool(1)  # type: ignore[arg-type]
