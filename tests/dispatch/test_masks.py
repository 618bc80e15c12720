"""What masks select by loops over words of 64 flags, for all widths of registers.

The oracle is NumPy, element by element where it has no word for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import corepy.array_api as xp
from tests.dispatch.natives import assert_same_bits, compiled

pytestmark = [compiled, pytest.mark.usefixtures("registers")]

#: Around a word, a block of bytes that are added up, and a chunk.
SIZES: Final = (0, 1, 7, 63, 64, 65, 127, 128, 129, 1000, 2048, 8191, 8192, 8193, 20_000, 100_003)
DTYPES: Final = (
    *("bool", "int8", "uint16", "int32", "float32", "int64", "uint64", "float64"),
    *("complex64", "complex128"),
)


def masks(size: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Masks with many, some and few elements, none and all, in runs, and of bytes other than 1."""
    rng = np.random.default_rng(seed)
    for share in (0.0, 0.01, 0.1, 0.5, 0.9, 1.0):
        yield rng.random(size) < share
    yield np.arange(size) % 200 < 100
    yield np.arange(size) == size - 1
    yield rng.integers(0, 3, size, np.uint8).view(bool)


def elements(dtype: str, size: int, seed: int = 1) -> np.ndarray:
    bits = np.random.default_rng(seed).integers(0, 256, size * np.dtype(dtype).itemsize, np.uint8)
    return (bits & 1).view(bool) if dtype == "bool" else bits.view(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reading_and_writing(dtype: str) -> None:
    for size in SIZES:
        x, value = elements(dtype, size), elements(dtype, 1, 2)[0]
        for mask in masks(size):
            truth = mask.view(np.uint8) != 0
            array, which = xp.asarray(x), xp.asarray(mask)
            wanted = x[truth]
            for _ in range(2):
                assert_same_bits(array[which].unwrap(), wanted)
            for given in (value.item(), elements(dtype, wanted.size, 3)):
                written, expected = xp.asarray(x, copy=True), x.copy()
                expected[truth] = given
                written[which] = given if np.ndim(given) == 0 else xp.asarray(given)
                assert_same_bits(written.unwrap(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_choices(dtype: str) -> None:
    for size in SIZES:
        x, y, value = elements(dtype, size), elements(dtype, size, 2), elements(dtype, 1, 3)[0]
        a, b = xp.asarray(x), xp.asarray(y)
        for mask in masks(size):
            truth, which = mask.view(np.uint8) != 0, xp.asarray(mask)
            assert_same_bits(xp.where(which, a, b).unwrap(), np.where(truth, x, y))
            scalar = value.item()
            expected = np.where(truth, x, np.array(scalar, dtype))
            assert_same_bits(xp.where(which, a, scalar).unwrap(), expected)
            expected = np.where(truth, np.array(scalar, dtype), y)
            assert_same_bits(xp.where(which, scalar, b).unwrap(), expected)
            assert_same_bits(
                xp.where(which, xp.asarray(scalar, dtype=a.dtype), b).unwrap(), expected
            )


@pytest.mark.parametrize("dtype", DTYPES)
def test_places(dtype: str) -> None:
    for size in SIZES:
        x = elements(dtype, size)
        if x.dtype.kind in "fc":  # where zeros have signs, and NaN is none
            x = np.array([0.0, -0.0, 1.0, np.nan], dtype)[x.view(np.uint8)[:: x.itemsize] % 4]
        for mask in masks(size):
            some = np.where(mask.view(np.uint8) != 0, x, np.zeros(1, dtype))
            (found,) = xp.nonzero(xp.asarray(some))
            (expected,) = np.nonzero(some)
            assert_same_bits(found.unwrap(), expected)
    zeros = np.zeros(100, dtype)
    if dtype.startswith("complex"):
        zeros.imag[7] = 1
        assert xp.nonzero(xp.asarray(zeros))[0].tolist() == [7]


@pytest.mark.parametrize(
    "shape", [(3, 5), (64, 1), (1, 70), (5, 4, 3, 2), (300, 500), (90_000, 2), (0, 4), (4, 0)]
)
@pytest.mark.parametrize("dtype", ["bool", "int16", "float64"])
def test_places_along_several_axes(shape: tuple[int, ...], dtype: str) -> None:
    size = int(np.prod(shape))
    for mask in masks(size):
        x = np.where(mask.view(np.uint8) != 0, elements(dtype, size), 0).astype(dtype)
        x = x.reshape(shape)
        found, wanted = xp.nonzero(xp.asarray(x)), np.nonzero(x)
        assert len(found) == len(shape)
        for indices, expected in zip(found, wanted, strict=True):
            assert_same_bits(indices.unwrap(), expected)


def test_places_in_flags_that_are_not_one() -> None:
    for size in SIZES:
        for mask in masks(size):
            (found,) = xp.nonzero(xp.asarray(mask))
            assert_same_bits(found.unwrap(), np.nonzero(mask.view(np.uint8))[0])


def test_of_several_dimensions_and_in_pieces() -> None:
    x = np.arange(3 * 70 * 5.0).reshape(3, 70, 5)
    mask = x % 3 == 0
    for turn in (np.array, np.asfortranarray, lambda a: a[:, ::2], lambda a: a.T):
        some, which = turn(x), turn(mask)
        a, m = xp.asarray(some), xp.asarray(which)
        assert_same_bits(a[m].unwrap(), some[which])
        assert_same_bits(xp.where(m, a, -1.0).unwrap(), np.where(which, some, -1.0))
        for found, expected in zip(xp.nonzero(m), np.nonzero(which), strict=True):
            assert_same_bits(found.unwrap(), expected)
        written, wanted = xp.asarray(some, copy=True), some.copy()
        written[m] = 0.5
        wanted[which] = 0.5
        assert_same_bits(written.unwrap(), wanted)


def test_what_is_written_may_lie_where_it_is_written() -> None:
    for size in (10, 300, 50_000):
        x = np.arange(float(size))
        for start in (0, 1, size // 2):
            mask = x % 2 == 0
            array, wanted = xp.asarray(x, copy=True), x.copy()
            part = array[start : start + int(mask.sum())]
            wanted[mask] = wanted[start : start + mask.sum()].copy()
            if part.size == mask.sum():
                array[xp.asarray(mask)] = part
                assert_same_bits(array.unwrap(), wanted)
            array, wanted = xp.asarray(x, copy=True), x.copy()
            array[xp.asarray(mask)] = array[start]
            wanted[mask] = x[start]
            assert_same_bits(array.unwrap(), wanted)


@pytest.mark.parametrize("size", [100, 50_000])
def test_too_few_and_too_many_elements(size: int) -> None:
    x, mask = xp.ones(size), xp.arange(size) % 2 == 0
    for count in (0, 2, size // 2 - 1, size // 2 + 1, size):
        with pytest.raises(ValueError, match="^__setitem__: value"):
            x[mask] = xp.zeros(count)
    x[mask] = xp.zeros(1)  # which is for all
    assert xp.sum(x) == size // 2


def test_what_is_not_selected_is_not_written() -> None:
    memory = np.zeros(1024)
    memory[::3] = np.nan
    before = memory.copy()
    mask = np.zeros(1024, bool)
    mask[1::3] = True
    locked = xp.asarray(memory, copy=False)
    stop = threading.Event()

    def write() -> None:  # by NumPy, which lets the other thread run meanwhile
        k = 0.0
        while not stop.is_set():
            k += 1.0
            np.add(before[2::3], k, out=memory[2::3])
        memory[2] = k

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for k in range(2000):
            locked[xp.asarray(mask)] = float(k)
    finally:
        stop.set()
        thread.join()
    assert_same_bits(memory[::3], before[::3])
    assert (memory[1::3] == 1999).all()


CALLS: Final[dict[str, Callable[[Any, Any], object]]] = {
    "read": lambda x, mask: x[mask],
    "write": lambda x, mask: x.__setitem__(mask, 1.0),
    "find": lambda x, mask: xp.nonzero(mask),
    "choose": lambda x, mask: xp.where(mask, x, 2.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_mask_that_changes_meanwhile_harms_nothing_else(name: str) -> None:
    flags = np.zeros(200_000, bool)
    x, mask = xp.ones(flags.size), xp.asarray(flags, copy=False)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            np.logical_not(flags, out=flags)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            CALLS[name](x, mask)  # a write behind what was counted would be seen by sanitizers
    finally:
        stop.set()
        thread.join()
    assert xp.sum(x) == flags.size
