"""The devices that the JAX backend serves: their names, their dtypes, and what they lack."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import corepy
from tests.conftest import required

jax = required("jax")

from corepy.backends.jax import _backend, _values  # noqa: E402 (they import jax)
from corepy.backends.jax._backend import JaxBackend  # noqa: E402
from corepy.devices._device import CPU, as_device  # noqa: E402

PREFERRED = "jax"


def test_arrays_on_several_devices_are_refused() -> None:
    # Two host devices need another process, for their number is fixed when JAX starts.
    code = (
        "import os\nos.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=2'\n"
        "import jax, corepy, corepy.array_api as xp\n"
        "from jax.sharding import Mesh, NamedSharding, PartitionSpec\n"
        "places = jax.devices('cpu')\n"
        "one = xp.asarray(jax.device_put(jax.numpy.ones(4), places[1]))\n"
        "assert str(one.device) == 'cpu:1' and str((one + one).device) == 'cpu:1'\n"
        "both = NamedSharding(Mesh(places, ('i',)), PartitionSpec('i'))\n"
        "try:\n"
        "    xp.asarray(jax.device_put(jax.numpy.ones(4), both))\n"
        "except ValueError as error:\n"
        "    words = 'asarray: obj: its elements are on 2 devices; expected one device'\n"
        "    assert str(error) == words, error\n"
        "else:\n"
        "    raise AssertionError('taken')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


class FakePlace:
    """What JAX says of a device, for those that this machine lacks."""

    def __init__(self, platform: str, version: str = "") -> None:
        self.platform = platform
        self.client = self
        self.platform_version = version
        self.local_hardware_id = None  # as where JAX's plug-in does not say


@pytest.mark.parametrize(
    ("platform", "version", "name"),
    [
        ("gpu", "PJRT C API\ncuda 12090", "cuda:1"),
        ("gpu", "PJRT C API\nrocm 60300", "rocm:1"),
        ("tpu", "libtpu", "tpu:1"),
        ("cpu", "cpu", "cpu:1"),
    ],
)
def test_names_of_devices(
    monkeypatch: pytest.MonkeyPatch, platform: str, version: str, name: str
) -> None:
    places = [FakePlace(platform, version), FakePlace(platform, version)]
    monkeypatch.setattr(jax, "local_devices", lambda backend=None: places)
    assert _backend._device_of(places[1]) is as_device(name)


@pytest.mark.parametrize("platforms", ["tpu", ""])
def test_why_the_host_is_not_there(monkeypatch: pytest.MonkeyPatch, platforms: str) -> None:
    place = FakePlace("tpu", "libtpu")

    def local_devices(backend: str | None = None) -> list[FakePlace]:
        if backend == "cpu":
            raise RuntimeError("Unknown backend: 'cpu' requested, but no platforms are present.")
        return [place]

    def forget() -> None:
        _backend._native_devices.cache_clear()
        _backend._host_devices.cache_clear()

    forget()
    before = jax.config.jax_platforms
    jax.config.update("jax_platforms", platforms)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(jax, "local_devices", local_devices)
            assert JaxBackend().devices() == (as_device("tpu:0"),)
            (told,) = JaxBackend().unserved()
    finally:
        jax.config.update("jax_platforms", before)
        forget()
    assert told.startswith("cpu: Unknown backend: 'cpu' requested, but no platforms are present.")
    assert ("JAX_PLATFORMS leaves it out" in told) is bool(platforms)
    assert JaxBackend().unserved() == ()


def test_the_dtypes_of_a_tpu(monkeypatch: pytest.MonkeyPatch) -> None:
    # The host stands for it: a backend of its own, whose arrays say that they are there.
    table, device = corepy.array_api, as_device("tpu:0")
    host = jax.local_devices(backend="cpu")[0]
    monkeypatch.setattr(_backend, "_native_devices", lambda: {device: host})
    monkeypatch.setattr(_backend, "_device_of", lambda place: device)
    monkeypatch.setattr(_values, "is_on_host", lambda native: isinstance(native, np.generic))
    backend = JaxBackend()
    backend.name = "tpus"  # type: ignore[misc]
    corepy.register_backend("tpus", backend, modules=())
    try:
        with corepy.backend_priority(["tpus"]):
            info = table.__array_namespace_info__()
            assert info.default_device() is device
            lacking = set(info.dtypes(device=CPU)) - set(info.dtypes(device=device))
            assert lacking == {"float64", "complex128"}
            names = [dtype.name for dtype in info.default_dtypes(device=device).values()]
            assert names == ["float32", "complex64", "int64", "int64"]
            ints = table.asarray([1, 2])
            for made, name in [
                (table.ones(2), "float32"),
                (table.linspace(0, 1, 3), "float32"),
                (table.fft.fftfreq(4), "float32"),
                (ints + 0.5, "float32"),
                (ints / 2, "float32"),
                (ints * 1j, "complex64"),
                (table.sum(ints), "int64"),
            ]:
                assert (made.dtype.name, made.unwrap().dtype.name) == (name, name)
            for ask in (
                lambda: table.ones(2, dtype=table.float64),
                lambda: table.asarray(np.ones(2), device=device),
                lambda: table.sum(table.ones(2), dtype=table.float64),
                lambda: table.astype(table.ones(2), table.complex128),
            ):
                with pytest.raises(
                    corepy.UnsupportedOperationError,
                    match=", which .*tpu:0.*; expected one of bool",
                ):
                    ask()
    finally:
        corepy.unregister_backend("tpus")


def test_what_a_device_lacks() -> None:
    backend, table = JaxBackend(), corepy.array_api
    tpu, cuda = as_device("tpu:0"), as_device("cuda:0")
    assert table.float64 not in backend.capabilities(tpu).dtypes
    assert table.float32 in backend.capabilities(tpu).dtypes
    assert backend.supports("linalg.eig", table.float32, CPU)
    assert not backend.supports("linalg.eig", table.float32, cuda)
    assert backend.supports("linalg.eigh", table.float32, cuda)
    assert not backend.supports("add", table.float64, tpu)
    assert backend.devices()[-1] is CPU


def test_products_keep_all_bits_of_their_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    for name in ("matmul", "add"):
        _backend._operation.cache_clear()

        def spy(*args: Any) -> Any:
            seen.append(jax.config.jax_default_matmul_precision)

        monkeypatch.setitem(_backend._FIXES, name, spy)
        function = JaxBackend().operation(name)
        assert function is not None
        function(1, 2)
    monkeypatch.undo()
    _backend._operation.cache_clear()
    assert seen == ["highest", None]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("sizes", [(1.0,), (1e-25,), (1e30,), (1e30, 1e-25, 1.0)])
def test_qr_of_accelerators_squares_no_great_elements(dtype: str, sizes: tuple[float, ...]) -> None:
    backend = corepy.dispatch.load("jax")
    qr = backend.operation_on("linalg.qr", as_device("cuda:0"))
    assert qr is not None
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        x = (np.random.default_rng(0).random((2, 4, 3)) * sizes).astype(dtype)
        q, r = map(np.asarray, qr(jax.numpy.asarray(x), mode="reduced"))
        assert (q.dtype, r.dtype) == (x.dtype, x.dtype)
        close = float(np.finfo(dtype).eps) * 16
        np.testing.assert_allclose(q @ (r / sizes), x / sizes, rtol=0, atol=close)
        expected = np.linalg.qr(x)[1]
        np.testing.assert_allclose(r / sizes, expected / sizes, rtol=0, atol=close)
        empty = qr(jax.numpy.asarray(x[:, :0]), mode="complete")
        assert (empty[0].shape, empty[1].shape) == ((2, 0, 0), (2, 0, 3))
