"""The stable order that NumPy's backend finds by sorting words of a number and its place."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import corepy.array_api as xp
from corepy._extensions import extension
from corepy.backends import _numpy_order
from tests.backends.arrays import unaligned

Array = npt.NDArray[Any]

_module: Final[Any] = extension("corepy.backends._order_loops")[0]
pytestmark = pytest.mark.skipif(_module is None, reason="no loops were compiled")

WIDTHS: Final = {} if _module is None else _module.BY_WIDTH
INTEGERS: Final = ("int32", "int64", "uint32", "uint64")
FLOATS: Final = ("float32", "float64")
SIZES: Final = (64, 65, 100, 1000, 4097)
#: Samples of which many elements may have the same upper bits.
LEFT: Final = ("both ends", "pairs near each other", "special")


def by_merging(x: Array, axis: int, descending: bool) -> Array:
    """Return the stable order that NumPy merges."""
    if not descending:
        return np.argsort(x, axis, stable=True)
    backwards = np.argsort(np.flip(x, axis), axis, stable=True)
    return x.shape[axis] - 1 - np.flip(backwards, axis)


def integers(dtype: str, size: int) -> dict[str, Array]:
    rng, limits = np.random.default_rng(size), np.iinfo(dtype)
    return {
        "any": rng.integers(limits.min, limits.max, size, dtype, endpoint=True),
        "few": rng.integers(0, 3, size).astype(dtype),
        "least": np.full(size, limits.min, dtype),
        "greatest": np.full(size, limits.max, dtype),
        "both ends": rng.choice(np.array([limits.min, limits.max, 7], dtype), size),
        "near the end": limits.max - rng.integers(0, 1000, size).astype(dtype),
    }


def floats(dtype: str, size: int) -> dict[str, Array]:
    rng, limits = np.random.default_rng(size), np.finfo(dtype)
    special = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, limits.max, limits.min]
    special += [limits.smallest_subnormal, -limits.smallest_subnormal, 1.0]
    near = 1 + rng.integers(0, 1000, size).astype(dtype) * limits.eps
    made = {
        "normal": rng.standard_normal(size),
        "whole": rng.integers(-3, 3, size),
        "special": rng.choice(np.array(special, dtype), size),
        "near each other": near,
        "pairs near each other": np.where(np.arange(size) % 2, near, rng.standard_normal(size)),
        "any exponent": 10.0 ** rng.uniform(-37, 37, size) * rng.choice([-1, 1], size),
    }
    return {name: x.astype(dtype) for name, x in made.items()}


@pytest.fixture(params=WIDTHS)
def in_registers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the loops in registers of one width."""
    monkeypatch.setattr(_module, "LOOPS", WIDTHS[request.param])
    monkeypatch.setattr(_numpy_order, "QUICK", True)


@pytest.mark.usefixtures("in_registers")
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_the_order_is_that_of_merging(dtype: str, descending: bool) -> None:
    for size in SIZES:
        samples = floats(dtype, size) if dtype in FLOATS else integers(dtype, size)
        for name, x in samples.items():
            found = _numpy_order.ordered(x, 0, descending)
            if found is None:
                assert name in LEFT, name
                continue
            np.testing.assert_array_equal(found, by_merging(x, 0, descending), err_msg=name)


@pytest.mark.usefixtures("in_registers")
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_rows_along_any_axis(dtype: str, axis: int) -> None:
    x = np.random.default_rng(0).integers(0, 50, (70, 80, 90)).astype(dtype)
    for array in (x, x[:, ::-1], x.transpose(2, 0, 1)):
        found = _numpy_order.ordered(array, axis, False)
        assert found is not None
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, np.argsort(array, axis, stable=True))


@pytest.mark.usefixtures("in_registers")
@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_elements_that_cannot_be_told_apart_are_left_to_others(dtype: str) -> None:
    far = -1e300 if dtype == "float64" else np.iinfo(dtype).max
    x = np.random.default_rng(0).permutation(1000).astype(dtype)
    if dtype == "float64":
        x = 1 + x * np.finfo(dtype).eps
    x[::50] = far
    assert _numpy_order.ordered(x, 0, False) is None
    np.testing.assert_array_equal(np.asarray(xp.argsort(xp.asarray(x))), np.argsort(x, stable=True))


def test_where_nothing_was_compiled_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_numpy_order, "QUICK", False)
    assert _numpy_order.ordered(np.zeros(1000), 0, False) is None


def test_words_are_sorted_on_every_processor() -> None:
    """Even where NumPy sorts slowly, as on Zen 4, merging takes twice as long and more."""
    assert _numpy_order.ORDER_LOOP is not None
    assert _numpy_order.ordered(np.arange(300.0).reshape(3, 100), 1, False) is not None


@pytest.mark.usefixtures("in_registers")
def test_other_dtypes_and_short_rows_are_left_to_others() -> None:
    assert _numpy_order.ordered(np.zeros(63), 0, False) is None
    assert _numpy_order.ordered(np.zeros((100, 10)), 1, False) is None
    assert _numpy_order.ordered(np.zeros((0, 100)), 1, False) is None
    assert _numpy_order.ordered(np.zeros(100, np.int8), 0, False) is None
    assert _numpy_order.ordered(np.zeros(100, np.complex128), 0, False) is None
    assert _numpy_order.ordered(unaligned(np.zeros(100)), 0, False) is None


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("size", [64, 65, 128, 129, 1000, 20_000])
def test_of_what_is_in_order_already(size: int, dtype: str, descending: bool) -> None:
    few = integers(dtype, size)["few"] if dtype in INTEGERS else floats(dtype, size)["whole"]
    rising = np.sort(few)
    late = rising.copy()
    late[-1] = late[0]
    early = np.roll(rising, 1)
    samples = [rising, rising[::-1].copy(), late, early, np.roll(rising[::-1], 1)]
    if dtype in FLOATS:
        samples += [np.where(np.arange(size) == at, np.nan, rising) for at in (0, 1, size - 1)]
        samples += [x.astype(dtype)[::-1].copy() for x in samples[-3:]]
    for x in samples:
        given = x.astype(dtype)
        found = np.asarray(xp.argsort(xp.asarray(given), descending=descending))
        np.testing.assert_array_equal(found, by_merging(given, 0, descending))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("size", [10, 63, 64, 1000, 20_000])
def test_the_namespace_finds_it(size: int, dtype: str, descending: bool) -> None:
    samples = floats(dtype, size) if dtype in FLOATS else integers(dtype, size)
    for name, x in samples.items():
        found = np.asarray(xp.argsort(xp.asarray(x), descending=descending))
        np.testing.assert_array_equal(found, by_merging(x, 0, descending), err_msg=name)


PART: Final = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_ssize_t,
                               *[ctypes.c_void_p] * 4)  # fmt: skip


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("width", {} if _module is None else _module.PARTS_BY_WIDTH)
def test_parts_of_a_vector(width: int, dtype: str) -> None:
    loop = PART(_module.PARTS_BY_WIDTH[width][dtype])
    rng = np.random.default_rng(4)
    for size in (1, 7, 15, 16, 17, 64, 1000, 5003):
        samples = floats(dtype, size) if dtype in FLOATS else integers(dtype, size)
        for x in samples.values():
            pivots = np.sort(rng.choice(x, 3))
            pivots[np.isnan(pivots)] = np.inf if dtype in FLOATS else 0
            out, filled = np.empty(size + 8, dtype), np.zeros(size, np.int64)
            out[size:] = 99
            for part in range(4):
                first = ctypes.c_ssize_t()
                low = pivots[part - 1 :].ctypes.data if part else None
                high = pivots[part:].ctypes.data if part < 3 else None
                count = loop(x.ctypes.data, size, low, high, out.ctypes.data, ctypes.byref(first))
                wanted = np.ones(size, np.bool_)
                if part:
                    wanted &= ~(x < pivots[part - 1])
                if part < 3:
                    wanted &= x < pivots[part]
                mine = slice(first.value, first.value + count)
                assert out[mine].tobytes() == x[wanted].tobytes()
                filled[mine] += 1
            assert (filled == 1).all()
            assert (out[size:] == 99).all()
