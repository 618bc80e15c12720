"""New arrays of the Numba backend."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tests.conftest import required

required("numba")

from corepy.devices._device import CPU  # noqa: E402
from tests.backends.numbas import OPERATIONS, assert_same, numpys, own  # noqa: E402

#: One of each size, and what is no number.
DTYPES: Final = ("bool", "int8", "uint16", "int32", "float32", "float64", "complex128")


# ---------------------------------------------------------------------------- filled


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (1023,), (2500,), (3, 1100)])
def test_arrays_are_filled(shape: tuple[int, ...], dtype: str) -> None:
    given = {"dtype": np.dtype(dtype), "device": CPU}
    assert_same(own("ones", shape, **given), np.ones(shape, dtype))
    for value in (0, 1):
        assert_same(own("full", shape, value, **given), np.full(shape, value, dtype))


@pytest.mark.parametrize("value", [np.nan, -0.0, np.inf, 0.1])
def test_special_values_fill_arrays(value: float) -> None:
    for dtype in ("float32", "float64"):
        found = own("full", (40, 40), value, dtype=np.dtype(dtype), device=CPU)
        assert_same(found, np.full((40, 40), value, dtype))


def test_few_elements_are_filled_by_numpy() -> None:
    full = OPERATIONS["full"]
    assert full((0, 3), 7, dtype=np.dtype("int8"), device=CPU).shape == (0, 3)
    assert_same(full((), 7, dtype=np.dtype("int8"), device=CPU), np.array(7, "int8"))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("offset", [0, 1])
def test_what_no_cache_holds_is_filled(offset: int) -> None:
    shape = ((1 << 22) + 1003 + offset,)
    given = {"dtype": np.dtype("float64"), "device": CPU}
    assert_same(own("full", shape, 7.0, **given), np.full(shape, 7.0))


# ---------------------------------------------------------------------------- ranges


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(
    "ends", [(0, 5000, 1), (3001, -4000, -7), (-(2**22), 2**22, 99), (5, 6, 1), (0, -2500, -1)]
)
def test_integers_are_counted(ends: tuple[int, int, int], dtype: str) -> None:
    found = own("arange", *ends, dtype=np.dtype(dtype), device=CPU)
    assert_same(found, np.arange(*ends).astype(dtype))


@pytest.mark.parametrize(
    ("dtype", "ends"),
    [
        ("float32", (0, 2**24 + 5000, 2**12)),
        ("float64", (0.5, 3000.0, 1)),
        ("int32", (0, 3000, 1)),
        ("int64", (2**62, 2**62 + 3000, 1)),
        ("int64", (5, 0, 1)),
    ],
)
def test_other_ranges_are_numpys(dtype: str, ends: tuple[Any, ...]) -> None:
    given = {"dtype": np.dtype(dtype), "device": CPU}
    assert_same(OPERATIONS["arange"](*ends, **given), numpys("arange", *ends, **given))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("endpoint", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("ends", [(0.0, 1.0), (-3, 1e30), (1e-300, 1e-290), (7, -7.5)])
def test_numbers_are_spaced(ends: tuple[Any, Any], dtype: str, endpoint: bool) -> None:
    given = {"dtype": np.dtype(dtype), "device": CPU, "endpoint": endpoint}
    for number in (2, 3, 1025, 100_003):
        expected = np.linspace(*ends, number, endpoint=endpoint, dtype=dtype)
        assert_same(own("linspace", *ends, number, **given), expected)


@pytest.mark.parametrize(
    ("dtype", "arguments"),
    [
        ("complex128", (0.0, 1.0, 2500)),
        ("float64", (2.0, 2.0, 2500)),
        ("float64", (0.0, 5e-324, 2500)),
        ("float64", (-1e308, 1e308, 2500)),
        ("float32", (0.0, 1e39, 2500)),
        ("float64", (0.0, 1.0, 1)),
        ("float64", (0.0, 1.0, 0)),
        ("float64", (2**60 + 1, 2**61, 2500)),
    ],
)
def test_other_spacings_are_numpys(dtype: str, arguments: tuple[Any, ...]) -> None:
    given = {"dtype": np.dtype(dtype), "device": CPU, "endpoint": True}
    with np.errstate(all="ignore"):
        expected = numpys("linspace", *arguments, **given)
        assert_same(OPERATIONS["linspace"](*arguments, **given), expected)
