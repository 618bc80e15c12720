"""MLX: memory counted and given back, shared outwards and copied inwards."""

from __future__ import annotations

import ctypes
import gc
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.devices._device import CPU
from tests.backends.arrays import a
from tests.conftest import required

# Without a package of kernels mlx is found, and fails to import.
mx = required("mlx.core", exc_type=ImportError)

from corepy.backends.mlx._backend import MLXBackend  # noqa: E402  it imports mlx

pytestmark = [
    pytest.mark.backend("mlx"),
    pytest.mark.skipif(mx.metal.is_available(), reason="tests the build for the host"),
]

BACKEND = MLXBackend()
NAMES = [name for name in DTYPES if name != "complex128"]
PREFERRED = "mlx"


def address(values: Any) -> int:
    values = values if isinstance(values, np.ndarray) else np.from_dlpack(values)
    found: int = values.__array_interface__["data"][0]
    return found


def test_memory_that_mlx_holds_and_keeps_is_counted_and_given_back() -> None:
    gc.collect()
    BACKEND.empty_cache(CPU)
    before = BACKEND.memory_stats(CPU)
    assert before.cached_bytes == 0
    x = mx.zeros(1 << 20, mx.int8)
    mx.eval(x)
    held = BACKEND.memory_stats(CPU)
    assert 2**20 <= held.allocated_bytes - before.allocated_bytes < 2**21
    assert held.peak_allocated_bytes >= held.allocated_bytes
    del x
    kept = BACKEND.memory_stats(CPU)
    assert kept.allocated_bytes == before.allocated_bytes
    assert kept.cached_bytes >= 2**20
    assert BACKEND.empty_cache(CPU) == kept.cached_bytes
    assert BACKEND.memory_stats(CPU).cached_bytes == 0
    assert corepy.empty_cache("cpu") >= 0


def test_mlx_heeds_a_limit_as_far_as_it_can() -> None:
    default = mx.get_memory_limit()
    assert BACKEND.memory_stats(CPU).limit_bytes == 0
    for limit in (10**6, 10**7):
        assert "goes beyond" in str(BACKEND.limit_memory(CPU, limit))
        assert mx.get_memory_limit() == BACKEND.memory_stats(CPU).limit_bytes == limit
    assert BACKEND.limit_memory(CPU, None) is None
    assert mx.get_memory_limit() == default
    assert BACKEND.memory_stats(CPU).limit_bytes == 0


def test_mlx_tells_a_lack_of_memory() -> None:
    for told in (
        "[malloc_or_wait] Unable to allocate 8 bytes.",
        "[metal::malloc] Attempting to allocate 8 bytes which is greater than the maximum allowed "
        "buffer size of 4 bytes.",
    ):
        assert BACKEND.is_out_of_memory(RuntimeError(told))
    assert not BACKEND.is_out_of_memory(RuntimeError("[metal::Device] Unable to build a kernel"))


@pytest.mark.parametrize("name", NAMES)
def test_values_come_and_go_unchanged(name: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(name)
    native = BACKEND.from_numpy(values, CPU)
    assert type(native) is mx.array
    assert BACKEND.dtype_of(native) is DTYPES[name]
    assert BACKEND.native_dtype(DTYPES[name]) == native.dtype
    back = BACKEND.to_numpy(native)
    assert back.dtype == values.dtype
    np.testing.assert_array_equal(back, values)
    assert address(back) == address(native)  # outwards nothing is copied
    assert not back.flags.writeable
    assert BACKEND.shares_memory(native, back)
    assert not BACKEND.shares_memory(native, values)  # inwards everything is


@pytest.mark.parametrize(
    "values",
    [
        np.arange(6.0)[::-1],
        np.arange(6.0)[1:0:-1],
        np.arange(12, dtype=np.int16).reshape(3, 4).T[::-2],
        np.broadcast_to(np.array([True, False]), (3, 2)),
        np.array(2.5),
        np.zeros((0, 3), np.float32),
        np.array([2**64 - 1], np.uint64),
        np.array([0.1, 1e300, 5e-324]),
        np.asfortranarray(np.arange(6, dtype=np.complex64).reshape(2, 3)),
    ],
    ids=[
        "backwards",
        "one backwards",
        "strided",
        "broadcast",
        "0-D",
        "empty",
        "uint64",
        "float64",
        "fortran",
    ],
)
def test_any_layout_comes_in(values: np.ndarray[Any, Any]) -> None:
    native = BACKEND.from_numpy(values, CPU)
    back = BACKEND.to_numpy(native)
    assert (back.dtype, back.shape) == (values.dtype, values.shape)
    np.testing.assert_array_equal(back, values)


def test_memory_of_others_is_copied_or_refused() -> None:
    values = np.ones(3)
    with pytest.raises(ValueError, match="mlx takes no memory of others"):
        BACKEND.from_numpy(values, CPU, copy=False)
    with pytest.raises(ValueError, match="^asarray: obj cannot be shared by mlx for copy=False: "):
        xp.asarray(values, copy=False)
    values.setflags(write=False)
    x = a(values)
    x[0] = 7.0
    assert values.tolist() == [1.0, 1.0, 1.0]
    assert x.tolist() == [7.0, 1.0, 1.0]


def test_copies_have_memory_of_their_own() -> None:
    x = a([1.0, 2.0])
    for copy in (
        xp.asarray(x, copy=True),
        xp.astype(x, x.dtype),
        xp.reshape(x, (2, 1), copy=True),
        BACKEND.to_numpy(x.unwrap(), copy=True),
    ):
        assert address(np.asarray(copy)) != address(x.unwrap())
    assert BACKEND.to_numpy(x.unwrap(), copy=True).flags.writeable
    assert address(xp.reshape(x, (2, 1), copy=False).unwrap()) == address(x.unwrap())
    rows = a([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    for odd in (rows.T, rows[:, :2], xp.broadcast_to(x, (3, 2))):
        with pytest.raises(ValueError, match="^reshape: "):
            xp.reshape(odd, (odd.size,), copy=False)


def test_exported_memory_outlives_the_array_and_later_writes() -> None:
    x = xp.full(1000, 7.0)
    shown = np.asarray(x + 0.0)
    exported = np.asarray(x)
    x[0] = 5.0
    del x
    gc.collect()
    noise = [np.asarray(xp.full(1000, float(i)) + 0.0) for i in range(20)]
    assert (exported == 7.0).all()
    assert (shown == 7.0).all()
    assert noise[3][0] == 3.0


def test_exported_memory_is_read_only_and_nothing_reads_it_any_more() -> None:
    x = xp.ones(3_000_000)
    y = xp.tanh(x)
    view = np.from_dlpack(x)  # which MLX alone would give away while it still reads it
    assert not view.flags.writeable
    ctypes.memset(view.ctypes.data, 0, view.nbytes)  # as torch does, which knows no read-only
    assert (np.asarray(y) == float(y[0])).all()
    assert float(y[0]) == pytest.approx(math.tanh(1.0))


def test_consumers_that_know_no_read_only_memory_get_a_copy() -> None:
    x = a([1.0, 2.0])

    class Old:
        """Asks for DLPack before version 1.0."""

        def __dlpack__(self, **_: Any) -> Any:
            return x.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

    assert address(np.from_dlpack(Old())) != address(x.unwrap())
    assert np.from_dlpack(Old()).tolist() == [1.0, 2.0]
    assert "dltensor" in repr(x.__dlpack__(copy=False))  # shares, and must not write
    z = x + 1j  # held in NumPy, and writable
    assert np.from_dlpack(z).__array_interface__ == z.unwrap().__array_interface__


@pytest.mark.parametrize("key", [slice(None, None, -1), (slice(None), slice(2, 0, -1))])
def test_backward_strides_of_complex128_are_exported_as_a_copy(key: Any) -> None:
    # torch ends the process where it meets one.
    values = np.arange(12.0).reshape(3, 4) * (1 + 2j)
    x = a(values)[key]
    assert min(x.unwrap().strides) < 0
    shown = np.from_dlpack(x)
    assert min(shown.strides) > 0
    assert not np.shares_memory(shown, x.unwrap())
    assert shown.tolist() == values[key].tolist()
    with pytest.raises(BufferError, match="negative stride; expected none for copy=False"):
        np.from_dlpack(x, copy=False)


def test_a_native_array_is_wrapped_without_a_copy() -> None:
    native = mx.array([1.0, 2.0]) + 1.0
    x = xp.asarray(native)
    assert x.backend == "mlx"
    assert x.unwrap() is native
    assert (x + 1.0).tolist() == [3.0, 4.0]
    assert xp.asarray(x).unwrap() is native  # as long as nothing is written to it
    x[0] = 9.0
    assert x.unwrap() is not native
    assert (native.tolist(), x.tolist()) == ([2.0, 3.0], [9.0, 3.0])


def test_writing_leaves_the_native_array_that_was_wrapped() -> None:
    # MLX would free the memory that `view` looks at, and give it to the next array.
    native = mx.full((1000,), 7.0) + 0.0
    view = memoryview(native)
    x = xp.asarray(native)
    x[...] = 5.0
    noise = [mx.full((1000,), float(i)) + 0.0 for i in range(20)]
    mx.eval(noise)
    assert view[3] == 7.0
    assert native[3].item() == 7.0
    assert x.tolist() == [5.0] * 1000


def test_writing_reuses_memory() -> None:
    x = xp.full(1000, 1.0) + 0.0
    x[0] = 2.0
    before = address(x.unwrap())
    for i in range(5):
        BACKEND.synchronize(CPU)  # as long as it computes, MLX holds on to what it computes with
        x[i] = 3.0
    assert address(x.unwrap()) == before
    assert x[4] == 3.0


def test_dtypes_beyond_the_standard_are_refused() -> None:
    with pytest.raises(TypeError, match="its dtype is mlx's float16; expected one of bool, int8"):
        xp.asarray(mx.zeros(2, mx.float16))


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul])
def test_operators_with_native_arrays(op: Callable[..., Any]) -> None:
    native, x = mx.array([4.0, 5.0]), a([1.0, 2.0], "float32")
    wanted = op(np.array([1.0, 2.0]), [4.0, 5.0]).tolist()
    made = op(x, native)
    assert type(made) is corepy.Array
    assert made.tolist() == wanted
    # MLX never defers: it takes the Array by DLPack, and the answer is its own.
    first = op(native, a([1.0, 2.0], "float32"))
    assert type(first) is mx.array
    assert first.tolist() == op(np.array([4.0, 5.0]), [1.0, 2.0]).tolist()


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (2**64 - 1, "uint64"),
        (-(2**63), "int64"),
        (0.1, "float64"),
        (0.1, "float32"),
        (1 - 2j, "complex64"),
        (0.1 + 1e-17j, "complex128"),
        (True, "bool"),
    ],
)
def test_scalars_are_exact(value: Any, name: str) -> None:
    wanted = np.array(value, name).item()
    assert BACKEND.item(BACKEND.scalar(value, DTYPES[name], CPU)) == wanted
    assert xp.full((2,), value, dtype=DTYPES[name]).tolist() == [wanted] * 2
