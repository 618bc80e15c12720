"""Where new arrays are made, and in which dtype, held on fake devices."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy.devices import _capabilities
from corepy.devices._device import CPU, GPU_KINDS, as_device
from corepy.dispatch import _select
from corepy.testing import DEVICES, FakeBackend, fake_devices
from tests.conftest import required

NO_FLOAT64, NO_X64, DEVICE1 = "fake:no_float64", "fake:no_x64", "fake:device1"


@pytest.fixture
def fake() -> Iterator[FakeBackend]:
    with fake_devices() as backend:
        yield backend


# ---------------------------------------------------------------------------- default dtypes


def test_default_dtypes_are_those_of_the_device(fake: FakeBackend) -> None:
    info = xp.__array_namespace_info__()
    wanted = {
        NO_FLOAT64: ["float32", "complex64", "int64", "int64"],
        NO_X64: ["float32", "complex64", "int32", "int32"],
        DEVICE1: ["float64", "complex128", "int64", "int64"],
    }
    for device, names in wanted.items():
        found = info.default_dtypes(device=as_device(device))
        assert [dtype.name for dtype in found.values()] == names
        assert xp.ones(1, device=device).dtype.name == names[0]
        assert xp.asarray(1.5, device=device).dtype.name == names[0]
        assert xp.asarray([1j], device=device).dtype.name == names[1]
        assert xp.arange(3, device=device).dtype.name == names[2]
        assert xp.fft.rfftfreq(4, device=device).dtype.name == names[0]
        with corepy.backend_priority([device]):
            assert xp.linspace(0, 1, 3).dtype.name == names[0]
            assert xp.asarray([1, 2]).dtype.name == names[2]


@pytest.mark.parametrize(
    ("obj", "device"),
    [
        (2**40, NO_X64),
        ([0, -(2**31) - 1], NO_X64),
        (1e300, NO_FLOAT64),
        ([[0.5, 1e300]], NO_FLOAT64),
        ([1e300j], NO_FLOAT64),
    ],
)
def test_numbers_that_the_default_dtype_of_a_device_lacks(
    fake: FakeBackend, obj: Any, device: str
) -> None:
    with pytest.raises(OverflowError, match="^asarray: obj holds "):
        xp.asarray(obj, device=device)
    with corepy.backend_priority([device]), pytest.raises(OverflowError, match="^asarray: "):
        xp.asarray(obj)


# ---------------------------------------------------------------------------- the default device


def test_a_fake_device_is_never_the_default_by_itself(fake: FakeBackend) -> None:
    assert xp.ones(1).device is CPU
    assert xp.__array_namespace_info__().default_device() is CPU


@pytest.mark.parametrize(
    ("entry", "device"),
    [
        ("fake", NO_FLOAT64),  # the first that the backend serves
        ("fake:fake:device1", DEVICE1),
        ("fake:fake:no_x64", NO_X64),
        ("fake:no_float64", NO_FLOAT64),
        ("fake:device1", DEVICE1),
    ],
)
def test_a_priority_names_backend_device_or_both(
    fake: FakeBackend, entry: str, device: str
) -> None:
    with corepy.backend_priority([entry]):
        x = xp.ones(2)
        assert (x.backend, x.device.name) == ("fake", device)
        y = xp.asarray(np.ones(2, np.float32))  # as lists do: a program may have its data in either
        assert (y.backend, y.device.name) == ("fake", device)
        assert (x + y).tolist() == [2.0, 2.0]
        assert xp.asarray(np.ones(2, np.float32), device="cpu").device is CPU
        assert xp.asarray(xp.ones(2, device="cpu")).device is CPU
    assert xp.ones(1).device is CPU


def test_new_arrays_are_made_where_they_were_asked_for_each_time() -> None:
    # Where one went is remembered by device, for as long as wish and backends are the same.
    def made(device: object) -> set[tuple[str, str, str]]:
        x = xp.zeros(2, device=device)
        several = [x, xp.asarray(0.5, device=device), xp.asarray([0.5], device=device)]
        several += [xp.arange(2.0, device=device), xp.full(2, 0.5, device=device), xp.ones_like(x)]
        several += [xp.zeros(2, dtype=xp.float32, device=device), xp.eye(2, device=device)]
        return {(y.backend, y.device.name, y.dtype.name) for y in several}

    for _ in range(2):
        with fake_devices():
            place = xp.ones(1, device=DEVICE1).device
            for _ in range(2):
                assert made(place) == {
                    ("fake", DEVICE1, "float64"),
                    ("fake", DEVICE1, "float32"),
                }
                assert {each[:2] for each in made(CPU)} == {("numpy", "cpu")}
                assert {each[:2] for each in made(None)} == {("numpy", "cpu")}
                with corepy.backend_priority([DEVICE1, "reference"]):
                    assert {each[:2] for each in made(CPU)} == {("reference", "cpu")}
                    assert {each[:2] for each in made(None)} == {("fake", DEVICE1)}
                    assert xp.zeros_like(xp.zeros(1, device=CPU), device=place).device is place
                no_float64 = xp.ones(1, device=NO_FLOAT64).device
                assert made(no_float64) == {("fake", NO_FLOAT64, "float32")}
        for _ in range(2):
            with pytest.raises(corepy.BackendUnavailableError, match="^zeros: "):
                made(place)


def test_arrays_of_numpy_come_to_the_default_device(fake: FakeBackend) -> None:
    values = np.asarray([1.0, 2.0])
    with corepy.backend_priority([DEVICE1]):
        report = corepy.explain(xp.asarray, values)
        assert (report.result.device.name, report.bytes_moved) == (DEVICE1, values.nbytes)
        assert xp.asarray(values, dtype=xp.int32).tolist() == [1, 2]
        with pytest.raises(ValueError, match="^asarray: obj .* expected .* for copy=False"):
            xp.asarray(values, copy=False)
        with pytest.raises(corepy.DeviceMismatchError):  # an operand is no array to be made
            xp.ones(2) + values
    with (
        corepy.backend_priority([NO_FLOAT64]),
        pytest.raises(corepy.UnsupportedOperationError, match="^asarray: dtype is float64, which"),
    ):
        xp.asarray(values)


@pytest.mark.needs("torch")
def test_arrays_of_libraries_that_know_devices_stay(fake: FakeBackend) -> None:
    values = required("torch").ones(2)
    with corepy.backend_priority([DEVICE1]):
        assert xp.asarray(values).device is CPU
        assert xp.asarray(values, device=DEVICE1).device.name == DEVICE1


def test_a_priority_for_a_device_that_is_not_served(fake: FakeBackend) -> None:
    for entry in ("fake:fake:device2", "fake:device2", "fake:cuda"):
        with pytest.raises(
            corepy.BackendUnavailableError,
            match="^backend_priority: backend fake has no device .*; expected fake:no_float64, ",
        ):
            corepy.backend_priority([entry])


@pytest.mark.parametrize("name", ["cuda:0", "rocm:0", "mps", "xpu:0"])
def test_gpu_is_the_first_of_any_kind(name: str) -> None:
    backend = FakeBackend(devices={DEVICE1: DEVICES[DEVICE1], name: DEVICES[DEVICE1]})
    corepy.register_backend("fake", backend, priority=1)
    try:
        for entry in ("gpu", "fake:gpu"):
            with corepy.backend_priority([entry]):
                assert xp.ones(1).device.name == name
        x = xp.ones(2, device="gpu")
        assert (x.backend, x.device) == ("fake", as_device(name))
        assert xp.ones(2).to_device("gpu").device is x.device
        assert corepy.to(np.ones(1), device="gpu").device is x.device
        assert corepy.stream("gpu").device is x.device
        assert xp.__array_namespace_info__().dtypes(device="gpu")
        assert x.device.name == name  # and no device has that name
        with corepy.strict(True), pytest.raises(TypeError, match="^ones: device is of type str"):
            xp.ones(2, device="gpu")
    finally:
        corepy.unregister_backend("fake")


def test_gpu_where_there_is_none(fake: FakeBackend) -> None:
    if any(device.kind in GPU_KINDS for device in corepy.list_devices()):
        pytest.skip("this machine has a GPU that a backend can use")
    for call in (
        lambda: xp.ones(2, device="gpu"),
        lambda: xp.ones(2).to_device("gpu"),
        lambda: corepy.stream("gpu"),
    ):
        with pytest.raises(corepy.BackendUnavailableError, match="device is 'gpu'; expected one "):
            call()
    with pytest.raises(corepy.BackendUnavailableError, match="backend fake has no gpu; expected"):
        corepy.set_backend("fake:gpu")


def test_what_becomes_the_default_can_be_found() -> None:
    """Without loading any library."""
    assert set(_select._ACCELERATORS) <= set(_select._FOUND)
    assert set(_select._FOUND) == {k for kinds in _capabilities._GPU_KINDS.values() for k in kinds}


HIDDEN = """
import corepy, corepy.testing
from corepy._dtypes import ANY, float64
from corepy.dispatch import _select
class Gpu(corepy.testing.FakeBackend):
    name = "fake"
for dtypes in (ANY - {float64}, ANY):
    corepy.register_backend("fake", Gpu(devices={"cuda:0": dtypes}), priority=1)
    _select._accelerators = lambda: ("cuda",)
    print(corepy.array_api.ones(1).device)
"""


def test_a_gpu_becomes_the_default_only_with_every_dtype() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN],
        env={k: v for k, v in os.environ.items() if not k.startswith("COREPY_")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.split() == ["cpu", "cuda:0"], done.stderr
