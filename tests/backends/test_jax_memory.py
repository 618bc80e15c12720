"""The memory that the JAX backend shares, and arrays of its own."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from tests.conftest import required

jax = required("jax")
jnp = jax.numpy

from corepy.backends.jax import _backend  # noqa: E402
from corepy.backends.jax._backend import JaxBackend  # noqa: E402
from corepy.devices import MemoryInfo  # noqa: E402
from corepy.devices._device import CPU, as_device  # noqa: E402
from corepy.dispatch import load  # noqa: E402
from corepy.dispatch._fallback import Elsewhere  # noqa: E402

HostArray = np.ndarray[Any, Any]
PREFERRED = "jax"


def aligned(count: int, dtype: Any = np.float64) -> HostArray:
    """Return writable host memory that starts at a multiple of 64 bytes."""
    size = count * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype)


def frozen(values: HostArray) -> HostArray:
    """Return a read-only copy that nobody can write to, at a multiple of 64 bytes."""
    memory = aligned(values.size, values.dtype).reshape(values.shape)
    memory[...] = values
    owner = memory
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        owner = owner.base
    return memory


def address(x: corepy.Array) -> int:
    found: int = x.unwrap().unsafe_buffer_pointer()
    return found


# ---------------------------------------------------------------------------- memory


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "float64", "complex128"])
def test_read_only_memory_is_shared_both_ways(dtype: str) -> None:
    values = frozen(np.arange(6).reshape(2, 3).astype(dtype))
    x = xp.asarray(values)
    assert x.backend == "jax"
    assert address(x) == values.ctypes.data
    back = np.asarray(x)
    assert back.ctypes.data == values.ctypes.data
    assert not back.flags.writeable
    again = xp.asarray(back, copy=False)
    assert address(again) == values.ctypes.data
    np.testing.assert_array_equal(back, values)


def test_memory_that_may_change_is_copied_unless_sharing_was_asked_for() -> None:
    values = aligned(8)
    x = xp.asarray(values)
    assert address(x) != values.ctypes.data
    view = values[:4]
    view.flags.writeable = False  # whoever holds `values` can still write to it
    y = xp.asarray(view)
    values[:] = 3.0
    assert x.tolist() == [0.0] * 8
    assert y.tolist() == [0.0] * 4
    assert address(xp.asarray(values, copy=False)) == values.ctypes.data
    copied = xp.asarray(frozen(np.ones(4)), copy=True)
    assert copied.tolist() == [1.0] * 4


def test_memory_lent_by_dlpack_may_still_change() -> None:
    class Lender:
        """Keeps the right to write into what it lends as read-only."""

        def __init__(self, memory: HostArray) -> None:
            self.memory = memory

        def __dlpack__(self, **params: Any) -> Any:
            shown = self.memory[:]
            shown.flags.writeable = False
            return shown.__dlpack__(**params)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    memory = aligned(8)
    lent = np.from_dlpack(Lender(memory))
    assert not lent.flags.writeable
    x = xp.asarray(lent)
    memory[:] = 3.0
    assert x.tolist() == [0.0] * 8
    assert address(xp.asarray(lent, copy=False)) == memory.ctypes.data


@pytest.mark.parametrize(
    "values",
    [aligned(9)[1:], aligned(8)[::-1], aligned(8)[::2], np.broadcast_to(aligned(1), (4,))],
    ids=["unaligned", "backwards", "gaps", "broadcast"],
)
def test_memory_that_jax_cannot_share(values: HostArray) -> None:
    cause = "shares contiguous memory alone" if values.strides != (8,) else "at multiples of 64 by"
    message = f"^asarray: obj cannot be shared by jax for copy=False: jax .*{cause}"
    with pytest.raises(ValueError, match=message):
        xp.asarray(values, copy=False)
    np.testing.assert_array_equal(xp.asarray(values).unwrap(), values)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3)])
def test_small_shapes_cross_both_ways(shape: tuple[int, ...]) -> None:
    for copy in (None, True):
        x = xp.asarray(np.full(shape, 2.5), copy=copy)
        assert x.shape == shape
        assert np.asarray(x).shape == shape
        assert np.asarray(x).tolist() == np.full(shape, 2.5).tolist()


def test_shared_memory_lives_as_long_as_it_is_used() -> None:
    values = frozen(np.arange(1000.0))
    place = values.ctypes.data
    x = xp.asarray(values)
    watch = weakref.ref(values.base)
    del values
    gc.collect()
    assert watch() is not None
    assert address(x) == place
    assert float(xp.sum(x)) == 499500.0
    exported = np.asarray(x)
    del x
    gc.collect()
    assert float(exported.sum()) == 499500.0


def test_consumers_of_old_dlpack_get_a_copy() -> None:
    class Old:
        def __init__(self, array: corepy.Array, copy: bool | None = None) -> None:
            self.array = array
            self.copy = copy

        def __dlpack__(self, **params: Any) -> Any:
            return self.array.__dlpack__(copy=self.copy)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    x = xp.asarray([1.0, 2.0])
    assert np.from_dlpack(x).ctypes.data == address(x)
    assert not np.from_dlpack(x).flags.writeable
    old = np.from_dlpack(Old(x))
    assert old.ctypes.data != address(x)
    assert old.tolist() == [1.0, 2.0]
    assert np.from_dlpack(Old(x, copy=False)).ctypes.data == address(x)
    assert x.__dlpack__(copy=False, max_version=(1, 0)) is not None
    assert x.__dlpack__(max_version=(0, 0)) is not None


def test_reshape_without_a_copy() -> None:
    x = xp.arange(6.0)
    assert address(xp.reshape(x, (2, 3), copy=False)) == address(x)
    assert xp.reshape(x, (2, 3), copy=False).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert address(xp.reshape(x, (6,), copy=True)) != address(x)
    assert address(xp.reshape(x, (3, 2), copy=True)) != address(x)
    assert address(xp.asarray(x, copy=True)) != address(x)


def test_values_on_the_host() -> None:
    backend = JaxBackend()
    native = jnp.ones(2)
    assert backend.to_numpy(native, copy=False).ctypes.data == native.unsafe_buffer_pointer()
    assert backend.to_numpy(native, copy=True).flags.writeable
    assert backend.shares_memory(native, np.asarray(native))
    assert not backend.shares_memory(native, np.ones(2))


# ---------------------------------------------------------------------------- native arrays


def test_native_arrays_are_operands() -> None:
    native = jnp.asarray([1.0, 2.0], dtype="float32")
    x = xp.asarray(native)
    assert x.unwrap() is native
    assert xp.sin(native).backend == "jax"
    for found in (native + x, x + native):
        assert isinstance(found, corepy.Array)
        assert found.dtype is xp.float32
        assert found.tolist() == [2.0, 4.0]
    assert xp.add(native, native).tolist() == [2.0, 4.0]


def test_without_a_priority_native_arrays_stay_with_jax() -> None:
    x = corepy.array_api.asarray(jnp.arange(3))
    assert x.backend == "jax"
    assert (x * 2).backend == "jax"


def test_threads_compute_in_64_bits_each() -> None:
    def work(i: int) -> float:
        with corepy.backend_priority(["jax"]):
            x = xp.asarray([float(i), 2.0**-40])
            return float(xp.sum(x)) + float(x[1])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(64))) == [i + 2.0**-39 for i in range(64)]


def test_synchronize_waits_for_what_was_asked_for() -> None:
    x = xp.ones((700, 700))
    y = x @ x @ x
    JaxBackend().synchronize(CPU)
    assert y.unwrap().is_ready()
    assert float(y[0, 0]) == 490000.0


# ---------------------------------------------------------------------------- devices


class Place:
    """A device of JAX's, as it describes one that is not here."""

    platform = "gpu"
    device_kind = "Accelerator 5"
    client = SimpleNamespace(platform_version="PJRT C API\ncuda 12090")

    def __init__(self, local_hardware_id: int | None = None, **stats: int) -> None:
        self.local_hardware_id = local_hardware_id
        self.memory_stats = lambda: stats


def test_gpus_have_the_numbers_that_other_libraries_know_them_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With ``jax_cuda_visible_devices=1`` JAX's first GPU is CUDA's second."""
    places = [Place(1), Place(None)]
    monkeypatch.setattr(jax, "local_devices", lambda backend: places)
    assert _backend._device_of(places[0]).name == "cuda:1"
    places[1].local_hardware_id = None
    places.reverse()
    assert _backend._device_of(places[0]).name == "cuda:0"


def test_jax_tells_a_lack_of_memory() -> None:
    backend = load("jax")
    error = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.")
    assert backend.is_out_of_memory(error)
    assert not backend.is_out_of_memory(jax.errors.JaxRuntimeError("INTERNAL: no such"))
    with pytest.raises(corepy.InsufficientMemoryError):
        xp.ones(1 << 44) + 1.0
    assert backend.memory_stats(CPU) is None


def test_memory_of_a_tpu_is_what_jax_says(monkeypatch: pytest.MonkeyPatch) -> None:
    tpu, gpu = as_device("tpu:0"), as_device("cuda:0")
    told = {"bytes_limit": 1000, "bytes_in_use": 300}
    places = {tpu: Place(**told), gpu: Place(**told), CPU: Place()}
    monkeypatch.setattr(_backend, "_native_devices", lambda: places)
    backend = JaxBackend()
    assert backend.memory_info(tpu) == MemoryInfo(1000, 700)
    assert backend.memory_info(gpu) is None  # of which JAX takes but a part
    assert backend.memory_info(CPU) is None
    assert backend.hardware(tpu) == "Accelerator 5"


def test_scalars_are_taken_elsewhere_as_arrays_are() -> None:
    """As where the host computes ``x + 1.0`` for want of memory on a GPU."""
    scalar = JaxBackend().scalar(1.0, xp.float32, CPU)
    assert JaxBackend().device_of(scalar) is CPU
    add = Elsewhere("add", load("jax"), CPU, load("numpy"), CPU)
    made = add(jnp.asarray([1, 2], jnp.float32), scalar)
    assert isinstance(made, jax.Array)
    assert made.tolist() == [2, 3]
