"""The memory that the torch backend shares with the host, both ways."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.devices._device import CPU
from tests.backends.arrays import a, pointer
from tests.conftest import required

torch = required("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from corepy.backends.torch._backend import TorchBackend  # noqa: E402  it imports torch

pytestmark = pytest.mark.backend("torch")

BACKEND = TorchBackend()
PREFERRED = "torch"


@pytest.mark.parametrize("name", list(DTYPES))
def test_host_memory_is_shared_both_ways(name: str) -> None:
    for array in (
        np.ones((2, 3), name),
        np.ones((), name),
        np.ones((3, 4), name).T,
        np.ones(8, name)[::2],
    ):
        native = BACKEND.from_numpy(array, CPU, copy=False)
        assert BACKEND.dtype_of(native) is DTYPES[name]
        assert BACKEND.shape_of(native) == array.shape
        assert pointer(native) == pointer(array)
        back = BACKEND.to_numpy(native, copy=False)
        assert pointer(back) == pointer(array)
        assert back.strides == array.strides
        assert BACKEND.shares_memory(native, array)
        array[...] = 0
        assert not native.any()


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_empty_arrays_come_and_go(shape: tuple[int, ...]) -> None:
    native = BACKEND.from_numpy(np.zeros(shape, "int16")[::-1], CPU)
    assert native.shape == shape
    assert BACKEND.to_numpy(native).shape == shape
    assert BACKEND.shares_memory(native, np.zeros(shape))


def test_copies_are_made_on_request() -> None:
    array = np.arange(3.0)
    native = BACKEND.from_numpy(array, CPU, copy=True)
    assert not BACKEND.shares_memory(native, array)
    assert pointer(BACKEND.to_numpy(native, copy=True)) != pointer(native)
    native[0] = 9.0
    assert array[0] == 0.0


def test_a_copy_of_what_the_host_cannot_read_is_made_once() -> None:
    class Elsewhere(torch.Tensor):
        is_cpu = False
        there: Any = None

        def cpu(self) -> Any:
            type(self).there = self.as_subclass(torch.Tensor).clone()
            return self.there

    native = torch.arange(3.0).as_subclass(Elsewhere)
    values = BACKEND.to_numpy(native, copy=True)
    assert values.tolist() == [0.0, 1.0, 2.0]
    assert pointer(values) == pointer(Elsewhere.there)
    lazy = torch.tensor([1 + 2j]).conj()
    assert BACKEND.to_numpy(lazy, copy=True).tolist() == [1 - 2j]


def unshareable() -> Iterator[Any]:
    read_only = np.arange(6)
    read_only.flags.writeable = False
    yield pytest.param(read_only, "read-only memory", id="read-only")
    yield pytest.param(np.arange(6)[::-1], "negative strides", id="negative stride")
    inside = np.arange(6.0).reshape(2, 3)[:, ::-2]
    yield pytest.param(inside, "negative strides", id="negative stride inside")
    repeated = np.broadcast_to(np.arange(3), (2, 3))
    yield pytest.param(repeated, "read-only memory", id="broadcast")
    other = np.arange(3, dtype=">i4")
    yield pytest.param(other, "other byte order than the machine's", id="other byte order")
    packed = np.zeros(3, [("a", "u1"), ("b", "f8")])
    packed["b"] = [1, 2, 3]
    strides = "strides but multiples of the elements' size"
    yield pytest.param(packed["b"], strides, id="stride between elements")


def placed(name: str, offset: int, count: int = 8) -> Any:
    """Return ones that begin `offset` bytes behind a multiple of 64."""
    size = np.dtype(name).itemsize
    room = np.zeros(64 + offset + count * size, "uint8")
    start = -room.ctypes.data % 64 + offset
    array = room[start : start + count * size].view(name)
    array[...] = 1
    return array


@pytest.mark.parametrize("offset", [1, 2, 4, 8, 9, 16, 24])
@pytest.mark.parametrize("name", list(DTYPES))
def test_only_complex128_has_to_lie_at_multiples_of_its_size(name: str, offset: int) -> None:
    array = placed(name, offset)
    native = BACKEND.from_numpy(array, CPU)
    assert native.tolist() == array.tolist()
    shares = name != "complex128" or offset % 16 == 0
    assert BACKEND.shares_memory(native, array) is shares
    part = BACKEND.from_numpy(array[1:], CPU)
    assert BACKEND.shares_memory(part, array) is shares
    if shares:
        BACKEND.from_numpy(array[1::2], CPU, copy=False)
        return
    assert native.data_ptr() % 16 == 0
    with pytest.raises(ValueError, match="^torch has complex128 at multiples of 16 bytes alone$"):
        BACKEND.from_numpy(array, CPU, copy=False)
    message = "^asarray: obj cannot be shared by torch for copy=False: torch has complex128 at"
    with pytest.raises(ValueError, match=message):
        xp.asarray(array, copy=False)


def test_memory_of_accelerators_is_taken_at_multiples_of_the_size_alone() -> None:
    there = BACKEND.import_(torch.from_numpy(placed("complex64", 8)), CPU)
    assert there[1] is False
    apart = torch.from_numpy(placed("complex64", 4))
    native, new = BACKEND.import_(apart, CPU)
    assert new
    assert native.tolist() == apart.tolist()
    assert native.data_ptr() % 8 == 0
    with pytest.raises(BufferError, match="multiples of their size"):
        BACKEND.import_(apart[::2], CPU)


def test_complex_numbers_at_any_address_can_be_computed_with() -> None:
    # Where they are not copied, the process ends.
    code = """
import numpy as np
import corepy
import corepy.array_api as xp
corepy.set_backend_priority(["torch"])
for offset in (8, 1):
    room = np.zeros(80 + offset, "uint8")
    start = -room.ctypes.data % 16 + offset
    v = room[start : start + 64].view("complex128")
    v[...] = [1, 2j, 3, 4j]
    x, mask = xp.asarray(v), xp.asarray([True, False, True, True])
    i = xp.asarray([1, 0])
    assert np.asarray(x[mask]).tolist() == [1, 3, 4j]
    assert np.asarray(xp.where(mask, x, x)).tolist() == v.tolist()
    assert np.asarray(xp.reshape(x, (2, 2))[i, i]).tolist() == [4j, 1]
    assert np.asarray(xp.take_along_axis(x, i)).tolist() == [2j, 1]
    assert np.asarray(xp.repeat(x, 2))[:3].tolist() == [1, 1, 2j]
    x[mask] = 0
    assert np.asarray(x).tolist() == [0, 2j, 0, 0]
    assert v.tolist() == [1, 2j, 3, 4j]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(("array", "what"), list(unshareable()))
def test_memory_that_torch_may_not_write_is_copied(array: Any, what: str) -> None:
    native = BACKEND.from_numpy(array, CPU)
    assert native.tolist() == array.tolist()
    assert not BACKEND.shares_memory(native, array)
    before = array.copy()
    native[...] = 77
    assert (array == before).all()
    with pytest.raises(ValueError, match=f"^torch has no {what}$"):
        BACKEND.from_numpy(array, CPU, copy=False)


def test_the_owner_lives_as_long_as_its_memory_is_used() -> None:
    x = a(np.arange(100_000.0))
    gc.collect()
    assert float(xp.sum(x)) == 4_999_950_000.0
    values = np.asarray(xp.asarray(torch.arange(100_000.0)))
    gc.collect()
    assert values[-1] == 99_999.0


def test_lazy_conjugation_and_negation_are_resolved() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    x = xp.asarray(z.conj())
    assert not x.unwrap().is_conj()
    assert np.asarray(x).tolist() == [1 - 2j, 3 + 4j]
    assert not xp.conj(x).unwrap().is_conj()
    negative = xp.asarray(z.conj().imag)
    assert not negative.unwrap().is_neg()
    assert np.from_dlpack(negative).tolist() == [-2.0, 4.0]
    assert BACKEND.to_numpy(z.conj()).tolist() == [1 - 2j, 3 + 4j]
    assert not BACKEND.shares_memory(z.conj(), z.numpy())
    with pytest.raises(ValueError, match="^to_numpy: the tensor is on cpu or lazily conjugated"):
        BACKEND.to_numpy(z.conj(), copy=False)


@pytest.mark.parametrize("lazy", [torch.Tensor.conj, lambda z: z.conj().imag])
def test_lazy_conjugation_is_not_shared(lazy: Callable[[Any], Any]) -> None:
    x = lazy(torch.tensor([1 + 2j, 3 - 4j]))
    with pytest.raises(ValueError, match="^asarray: obj is lazily conjugated or negated; expected"):
        xp.asarray(x, copy=False)
    with pytest.raises(BufferError, match="^from_dlpack: x is lazily conjugated or negated; expec"):
        xp.from_dlpack(x, copy=False)
    for backend in ("torch", "numpy"):
        with pytest.raises(ValueError, match="^to: x is lazily conjugated or negated; expected"):
            corepy.to(x, backend=backend, copy=False)
    assert xp.asarray(x, copy=None).tolist() == x.tolist()


@pytest.mark.parametrize("shape", [(5,), (0,), (0, 5)])
def test_half_spectra_are_not_conjugated_lazily(shape: tuple[int, ...]) -> None:
    values = np.arange(float(np.prod(shape))).reshape(shape)
    x = xp.fft.ihfft(a(values), n=5)
    assert not x.unwrap().is_conj()
    expected = np.fft.ihfft(values, n=5) if values.size else np.zeros(x.shape, "complex128")
    np.testing.assert_allclose(np.from_dlpack(x), expected, rtol=1e-14)
    x += x  # complex numbers are added as pairs, which torch makes of no lazy ones
    np.testing.assert_allclose(np.asarray(x), 2 * expected, rtol=1e-14)


def test_tensors_without_memory_are_not_exported() -> None:
    with FakeTensorMode():
        x = xp.asarray(torch.ones(3))
    for export in (np.from_dlpack, torch.from_dlpack):
        with pytest.raises(BufferError, match="torch on cpu exports no DLPack"):
            export(x)
