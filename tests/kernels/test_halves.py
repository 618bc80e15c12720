"""float16 in compiled loops: all its numbers, and every place where rounding decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.backend("numba")

WORDS = np.arange(1 << 16, dtype=np.uint16)


def alike(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    """Say whether numbers are the same, with their signs; a NaN is one with any bits."""
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    return bool(same.all() and (np.signbit(found) == np.signbit(expected)).all())


@pytest.fixture(params=["in integers", "as compiled"])
def conversions(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Return a loop that widens, and one that rounds."""
    from numba import njit

    from corepy.kernels import _simd

    widen, rounded = _simd.from_half, _simd._to_half
    if request.param == "in integers":  # what processors without conversions of their own have
        widen, rounded = _simd._half_in_integers, _simd._rounded_half_in_integers

    @njit  # type: ignore[untyped-decorator]
    def widen_all(words: Any, out: Any) -> None:
        for j in range(words.size):
            out[j] = widen(words[j])

    @njit  # type: ignore[untyped-decorator]
    def round_all(values: Any, out: Any) -> None:
        for j in range(values.size):
            out[j] = rounded(values[j])

    return widen_all, round_all


def test_all_are_widened(conversions: tuple[Any, Any]) -> None:
    found = np.empty(WORDS.size, np.float32)
    conversions[0](WORDS, found)
    assert alike(found, WORDS.view(np.float16).astype(np.float32))


def test_rounding_is_to_nearest_ties_to_even(conversions: tuple[Any, Any]) -> None:
    numbers = WORDS.view(np.float16).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    edges = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2]).astype(np.float32)
    one = np.float32(np.inf)
    anything = np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    special = np.array([65519.99, 65520, 1e38, -1e38, -0.0, one, -one, np.nan, -np.nan], "f4")
    beside = (np.nextafter(edges, one), np.nextafter(edges, -one))
    values = np.concatenate([edges, *beside, anything.view(np.float32), special])
    found = np.empty(values.size, np.uint16)
    conversions[1](values, found)
    with np.errstate(all="ignore"):
        assert alike(found.view(np.float16), values.astype(np.float16))
