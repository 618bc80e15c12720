"""Floats made integers: NumPy's values at both ends of the range, and beyond them too."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from corepy.dispatch import make
from tests.dispatch.natives import compiled
from tests.dispatch.short_ways import without_entries
from tests.together import together

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SIZES = (1, 7, 100, 5_000, 300_001)


def held(source: str, target: str, size: int) -> np.ndarray[Any, Any]:
    """Floats that an integer dtype holds, with whatever they have behind the point."""
    limits = np.iinfo(target)
    low, high = float(limits.min), float(limits.max)
    # What is next to the ends, as far as the floats tell it from what is beyond.
    ends = np.asarray([low, low / 2, -0.75 if low else 0.5, high / 2], source)
    last = np.asarray(high, source)
    last = last if float(last) <= high < 2**53 else np.nextafter(last, np.asarray(0, source))
    values = np.concatenate([ends, last[None], np.linspace(-100 if low else 0, 100.5, 11)])
    return np.resize(values.astype(source), size)


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("source", ["float32", "float64"])
@together("target", INTEGERS)
def test_what_is_in_range(source: str, target: str, size: int) -> None:
    native = held(source, target, size)
    found = xp.astype(xp.asarray(native), getattr(xp, target)).unwrap()
    np.testing.assert_array_equal(found, native.astype(target), strict=True)


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("source", ["float32", "float64"])
@together("target", INTEGERS)
def test_what_is_out_of_range(source: str, target: str, size: int) -> None:
    """Comes to what NumPy makes of it, without its warning."""
    limits = np.iinfo(target)
    for value in (float(limits.max) + 1, float(limits.min) * 2 - 1, np.nan, np.inf, -np.inf, -1e30):
        native = held(source, target, size)
        native[size // 2] = value
        with np.errstate(invalid="ignore"):
            expected = native.astype(target)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = xp.astype(xp.asarray(native), getattr(xp, target)).unwrap()
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("target", [name for name in INTEGERS if "64" not in name])
def test_what_is_just_beyond_the_ends_and_comes_back(target: str) -> None:
    """Digits behind the point go, on whichever side of it a number is."""
    limits = np.iinfo(target)
    native = np.asarray([limits.max + 0.875, limits.min - 0.875, 1.875, -0.875], "float64")
    found = xp.astype(xp.asarray(native), getattr(xp, target)).tolist()
    assert found == [limits.max, limits.min, 1, 0]


@compiled
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16", "int32", "int64"])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_the_short_way_is_taken(source: str, target: str) -> None:
    for size in (10, 5_000, 200_000):
        native = held(source, target, size)
        x = make(native, without_entries(source, "astype"))
        found = xp.astype(x, getattr(xp, target)).unwrap()
        np.testing.assert_array_equal(found, native.astype(target), strict=True)
