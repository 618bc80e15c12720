"""tinygrad's memory on OpenCL and WebGPU: counting it, giving it back, and running out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import array_api as xp
from corepy.devices import require_memory
from corepy.devices._device import Device, as_device
from corepy.dispatch import load

OPENCL = pytest.param("opencl:0", marks=pytest.mark.device("tinygrad:opencl"))
WEBGPU = pytest.param("webgpu:0", marks=pytest.mark.device("tinygrad:webgpu"))
PLACES = {"opencl": "CL", "webgpu": "WEBGPU"}


@pytest.fixture(params=[OPENCL, WEBGPU])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Give each device, as the default one, and allow no fallback."""
    found = as_device(request.param)
    with corepy.backend_priority([f"tinygrad:{found}"]), corepy.set_fallback("raise"):
        yield found
    corepy.empty_cache(found)


def ones(device: Device, *shape: int) -> corepy.Array:
    return xp.asarray(np.ones(shape, np.float32), device=device)


@pytest.fixture
def allocator(device: Device, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Let the driver lack memory some times; return the sizes that it was asked for."""
    from tinygrad import Device as Devices

    there = Devices[PLACES[device.kind]].allocator
    plain = there._alloc

    def begin(times: int) -> list[int]:
        asked: list[int] = []

        def alloc(size: int, options: Any) -> Any:
            asked.append(size)
            if len(asked) <= times:
                raise RuntimeError("OpenCL Error -4: CL_MEM_OBJECT_ALLOCATION_FAILURE")
            return plain(size, options)

        monkeypatch.setattr(there, "_alloc", alloc)
        return asked

    return begin


# ---------------------------------------------------------------------------- what there is


def test_memory_of_the_device_is_told(device: Device) -> None:
    x = ones(device, 1 << 18)
    memory = corepy.memory_info(device)
    assert 2**28 <= memory.total_bytes < 2**50
    assert 0 < memory.free_bytes <= memory.total_bytes - x.nbytes
    require_memory(device, 1 << 20)
    with pytest.raises(corepy.InsufficientMemoryError, match=f"free of .* on {device}$"):
        require_memory(device, 2**60)


def test_what_is_held_and_kept_is_counted(device: Device) -> None:
    corepy.empty_cache(device)
    before = corepy.memory_stats(device)
    assert (before.cached_bytes, before.cached_blocks) == (0, 0)
    x = ones(device, 1 << 18)
    held = corepy.memory_stats(device)
    assert held.allocated_bytes == before.allocated_bytes + 2**20
    del x
    # Of the two only OpenCL's allocator keeps memory for later.
    kept = (2**20, 1) if device.kind == "opencl" else (0, 0)
    after = corepy.memory_stats(device)
    assert after.allocated_bytes == before.allocated_bytes
    assert (after.cached_bytes, after.cached_blocks) == kept
    assert corepy.empty_cache(device) == kept[0]
    assert corepy.memory_stats(device).cached_bytes == 0


def test_the_hardware_has_a_name(device: Device) -> None:
    name = load("tinygrad").hardware(device)
    assert name is not None
    assert len(name) > 5
    assert "\0" not in name


# ---------------------------------------------------------------------------- running out of it


@pytest.mark.parametrize("device", [OPENCL], indirect=True)
def test_more_memory_than_there_is(device: Device) -> None:
    x, y = ones(device, 1 << 20, 1), ones(device, 1, 1 << 20)
    everything = x + y  # 4 TiB, once somebody looks
    with pytest.raises(corepy.InsufficientMemoryError) as caught:
        np.asarray(everything)
    message = str(caught.value)
    assert f"the memory of {device} does not suffice, and its operands are untouched" in message
    assert " bytes are free (MemoryError: Allocation of " in message
    assert float(xp.sum(x)) == 1 << 20


def test_the_cache_is_given_back_and_what_failed_is_tried_again(
    device: Device, allocator: Callable[[int], list[int]]
) -> None:
    x, waiting = ones(device, 100), ones(device, 1 << 18)
    del waiting
    tries = 2 if device.kind == "opencl" else 1  # tinygrad's own, where it keeps memory
    asked = allocator(tries)
    y = x + ones(device, 1)[0]
    assert np.asarray(y).tolist() == [2.0] * 100
    assert len(asked) > tries
    assert corepy.memory_stats(device).cached_bytes < 2**20


@pytest.mark.parametrize("device", [WEBGPU], indirect=True)
def test_then_the_policy_decides(
    device: Device, allocator: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On WebGPU floats are computed at once, so that the operation itself lacks the memory."""
    x = ones(device, 100)
    allocator(2)
    with pytest.raises(corepy.InsufficientMemoryError) as caught:
        x + x
    message = str(caught.value)
    assert message.startswith(f"add: the memory of {device} does not suffice")
    assert 'fallback="raise" forbids that the host computes it' in message
    monkeypatch.undo()
    allocator(2)
    with corepy.set_fallback("warn"), pytest.warns(corepy.FallbackWarning, match="^add: tinygrad"):
        y = x + x
    assert (y.device, y.tolist()) == (device, [2.0] * 100)


@pytest.mark.parametrize(
    "told",
    [
        "OpenCL Error -4: CL_MEM_OBJECT_ALLOCATION_FAILURE",
        "OpenCL Error -6: CL_OUT_OF_HOST_MEMORY",
    ],
)
@pytest.mark.parametrize("device", [OPENCL], indirect=True)
def test_kernels_that_lack_memory_are_short_of_it(
    device: Device, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers may give memory when it is first written to."""
    from tinygrad import tensor

    lazy = ones(device, 4) + ones(device, 4)

    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError(told)

    with monkeypatch.context() as patched:
        patched.setattr(tensor, "run_linear", fail)
        with pytest.raises(
            corepy.InsufficientMemoryError, match=f"the memory of {device} .*{told}"
        ):
            np.asarray(lazy)
    assert lazy.tolist() == [2.0] * 4


@pytest.mark.parametrize("device", [WEBGPU], indirect=True)
def test_memory_that_webgpu_does_not_give(device: Device) -> None:
    """It gives a buffer all the same, out of which zeros are read."""
    from corepy.backends.tinygrad import _arrays

    with pytest.raises(MemoryError, match="failed on WEBGPU") as caught:
        _arrays.empty((2**31,), xp.float32, "WEBGPU")
    assert "exceeds the max buffer size limit" in str(caught.value.__cause__)
    assert load("tinygrad").is_out_of_memory(caught.value)


# ---------------------------------------------------------------------------- arrays beyond limits


@pytest.mark.parametrize("device", [WEBGPU], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_arrays_that_kernels_of_webgpu_do_not_take(device: Device, dtype: str) -> None:
    from corepy.backends.tinygrad import _memory

    count = _memory.largest("WEBGPU") // 4 + 256
    if count > 2**26:
        pytest.skip(f"the device takes arrays of {4 * count} bytes")
    numbers = np.arange(count, dtype=dtype) % 1000
    half = numbers[: count // 2 + 1]
    x = xp.asarray(numbers, device=device)
    # What only moves values is read without a kernel.
    assert x[-1].item() == numbers[-1]
    np.testing.assert_array_equal(np.asarray(xp.flip(x[9:])), np.flip(numbers[9:]))
    with pytest.raises(corepy.InsufficientMemoryError) as caught:
        x + x
    message = str(caught.value)
    assert message.startswith(f"add: the memory of {device} does not suffice")
    assert f"{4 * count} bytes; kernels of WEBGPU take at most {4 * count - 1024}" in message
    with pytest.raises(corepy.InsufficientMemoryError, match="^multiply: the memory of webgpu:0"):
        xp.asarray(np.ones((2, 1), dtype), device=device) * xp.asarray(half, device=device)
    with corepy.set_fallback("allow"):
        y = x + x
        assert y.device is device
        np.testing.assert_array_equal(np.asarray(y), numbers + numbers)
        assert xp.max(x).item() == 999
        assert x[5::1_000_000].tolist() == numbers[5::1_000_000].tolist()
        assert (x[3:5] + x[1:3]).tolist() == (numbers[3:5] + numbers[1:3]).tolist()
