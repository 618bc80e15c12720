"""What the compiled hot path fills new arrays with, of few elements and of many.

Ranges of whole numbers are held to integers; others are NumPy's, whose formulas they follow.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

import corepy.array_api as xp
from corepy.backends import _numpy_creation
from corepy.devices._device import CPU
from tests.dispatch.natives import assert_same_bits, compiled
from tests.together import together

pytestmark = [compiled, pytest.mark.usefixtures("routes_off")]

INTEGERS: Final = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
FLOATS: Final = ["float32", "float64"]
#: Around vector registers, what is computed at a time, and what threads may share.
SIZES: Final = [0, 1, 2, 15, 16, 17, 31, 255, 256, 257, 511, 2047, 2048, 2049, 5003, 3_000_001]


@pytest.mark.parametrize("size", SIZES)
@together("dtype", [*INTEGERS, *FLOATS])
def test_ranges_of_whole_numbers(size: int, dtype: str) -> None:
    native = np.dtype(dtype)
    held = np.iinfo(native) if native.kind in "iu" else None
    for start, step in ((0, 1), (5, 3), (-7, 2), (100, -1), (2**24 - 3, 1), (2**29, 2**4)):
        stop = start + size * step
        if held is not None and not all(held.min <= end <= held.max for end in (start, stop)):
            continue  # there are no such numbers
        found = xp.arange(start, stop, step, dtype=getattr(xp, dtype)).unwrap()
        assert_same_bits(found, (start + np.arange(size) * step).astype(native))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", SIZES)
@together("ends", [(1.5, 0.25), (-3.5, -0.5), (0.1, 0.3), (1e8, 0.001)])
def test_other_ranges(ends: tuple[float, float], size: int, dtype: str) -> None:
    start, step = ends
    stop = start + (size - 0.5) * step
    made = xp.arange(start, stop, step, dtype=getattr(xp, dtype)).unwrap()
    expected = _numpy_creation.arange(start, stop, step, dtype=np.dtype(dtype), device=CPU)
    assert made.shape == (size,)
    assert_same_bits(made, expected)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_ranges_up_to_the_last_number(dtype: str) -> None:
    held, wanted = np.iinfo(dtype), getattr(xp, dtype)
    for ends in (
        (held.max - 20, held.max + 1),
        (held.min, held.min + 20),
        (held.max, held.max + 1),
    ):
        assert xp.arange(*ends, dtype=wanted).tolist() == list(range(*ends))
    for ends in ((held.max - 20, held.max + 2), (held.min - 1, held.min + 20)):
        with pytest.raises(OverflowError, match="^arange: "):
            xp.arange(*ends, dtype=wanted)


def test_ranges_of_nothing() -> None:
    xp.arange(3.0)  # from here on the way is known
    for ends in ((0.0, -1e19, 1.0), (1.0, -1e300, 0.5), (0.0, 1e19, -1.0), (5, 5, 1), (5, 0, 1)):
        for dtype in (xp.float64, xp.float32):
            made = xp.arange(*ends, dtype=dtype)
            assert (made.shape, made.dtype) == ((0,), dtype)


def test_shapes_that_no_memory_holds() -> None:
    for shape in ((2**30,) * 3, (2**30, 2**30), (2**30, 2**30, 8)):
        for make in (xp.ones, lambda shape: xp.full(shape, 1.0), xp.zeros):
            with pytest.raises(MemoryError, match=r"^(ones|full|zeros): "):
                make(shape)
    with pytest.raises(MemoryError, match="^arange: "):
        xp.arange(0.1, 1.8e18, 0.3)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "float32", "complex64", "complex128"])
def test_what_no_cache_holds(dtype: str) -> None:
    """More than 32 MiB, whose last elements fill no line of a cache."""
    wanted = getattr(xp, dtype)
    size = (1 << 25) // np.dtype(dtype).itemsize + 1003
    assert (xp.ones(size, dtype=wanted).unwrap() == 1).all()
    value = False if dtype == "bool" else 7
    assert (xp.full(size, value, dtype=wanted).unwrap() == value).all()
    if dtype == "float32":
        found = xp.linspace(0.0, 1.0, size, dtype=wanted).unwrap()
        assert_same_bits(found, np.linspace(0.0, 1.0, size, dtype=dtype))


def test_ranges_beyond_float32() -> None:
    xp.arange(3.0, dtype=xp.float32)  # from here on the way is known
    for ends in ((0.0, 3e300, 1e300), (1e39, 2e39, 1e39), (0.0, -1e39, -3e38)):
        with pytest.raises(OverflowError, match="^arange: .* for float32"):
            xp.arange(*ends, dtype=xp.float32)
    assert xp.arange(0.0, 1.0, 1e300, dtype=xp.float32).tolist() == [0.0]
    assert xp.arange(1e300, 0.0, 1e300, dtype=xp.float32).tolist() == []


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", SIZES)
@together("ends", [(0, 1), (1.25, -7.5), (-1e30, 1e30), (3, 3), (0, 5e-324), (-0.0, 1e-310)])
def test_spacings(ends: tuple[float, float], size: int, dtype: str) -> None:
    found = xp.linspace(*ends, size, dtype=getattr(xp, dtype)).unwrap()
    assert_same_bits(found, np.linspace(*ends, size, dtype=dtype))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "bool", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 700), (2049,), (70, 301), (5_000_003,)])
def test_one_element(shape: tuple[int, ...], dtype: str) -> None:
    value, wanted = True if dtype == "bool" else 3, getattr(xp, dtype)
    for made, number in (
        (xp.full(shape, value, dtype=wanted), value),
        (xp.full_like(xp.zeros(shape, dtype=wanted), value), value),
        (xp.ones(shape, dtype=wanted), 1),
        (xp.ones_like(xp.zeros(shape, dtype=wanted)), 1),
    ):
        assert_same_bits(made.unwrap(), np.full(shape, number, dtype))


@pytest.mark.parametrize("value", [np.nan, -0.0, np.inf, 0.1])
def test_special_values(value: float) -> None:
    for dtype in FLOATS:
        found = xp.full((400, 40), value, dtype=getattr(xp, dtype)).unwrap()
        assert_same_bits(found, np.full((400, 40), value, dtype))
