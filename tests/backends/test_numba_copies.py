"""Memory that the Numba backend converts and copies."""

from __future__ import annotations

import warnings
from typing import Final

import numpy as np
import pytest

from tests.conftest import required

required("numba")

from tests.backends.arrays import numpys  # noqa: E402
from tests.backends.numbas import (  # noqa: E402
    OPERATIONS,
    Array,
    assert_same,
    layouts,
    own,
    quiet,
    sample,
)

#: One of each size, and what is no number.
DTYPES: Final = ("bool", "int8", "uint16", "int32", "float32", "float64", "complex128")
#: What loops convert.
NUMBERS: Final = ("bool", "int32", "int64", "float32", "float64")


# ---------------------------------------------------------------------------- converted


@quiet
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("target", NUMBERS)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_conversions_equal_numpys(dtype: str, target: str) -> None:
    whole = sample((3, 1100), dtype)
    if whole.dtype.kind == "f":
        limits = np.finfo(dtype)
        special = [0.0, -0.0, np.nan, np.inf, -np.inf, 2.0**31, 2.0**63, -(2.0**63), 1e30]
        special += [limits.max, limits.tiny, limits.smallest_subnormal, 0.99999999, -0.5]
        whole[1, : len(special)] = special
    for x in layouts(whole):
        expected = numpys("astype", x, np.dtype(target))
        with np.errstate(all="ignore"):
            found = OPERATIONS["astype"](x, np.dtype(target), copy=True)
        assert_same(found, expected)
        assert found is not x
        if target != "bool" and x.flags.forc:
            assert_same(own("astype", x, np.dtype(target), copy=True), expected)
            assert found.flags.f_contiguous == expected.flags.f_contiguous


def test_the_same_dtype_is_copied_only_if_asked() -> None:
    astype, x = OPERATIONS["astype"], sample((2500,), "float32")
    assert astype(x, np.dtype("float32"), copy=False) is x
    assert not np.may_share_memory(astype(x, np.dtype("float32"), copy=True), x)
    assert astype(x, np.dtype("float64"), copy=False).dtype == "float64"


@pytest.mark.usefixtures("threads")
def test_conversions_warn_as_numpy_does() -> None:
    x = sample((5000,), "float64")
    x[4000:] = 1e300
    single = np.dtype("float32")
    with pytest.warns(RuntimeWarning, match="overflow encountered in cast") as found:
        OPERATIONS["astype"].own(x, single, copy=True)
    assert len(found) == 1
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        OPERATIONS["astype"].own(x, single, copy=True)
    with np.errstate(under="raise"), pytest.raises(FloatingPointError, match="underflow"):
        OPERATIONS["astype"].own(np.full(5000, 1e-300), single, copy=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OPERATIONS["astype"].own(x[:4000], single, copy=True)
        OPERATIONS["astype"].own(x, np.dtype("int64"), copy=True)  # open in the standard


# ---------------------------------------------------------------------------- copied


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [(5,), (30, 1), (0, 7), (3, 0, 40), (1, 2, 3, 4)])
def test_arrays_are_joined(lengths: tuple[int, ...], dtype: str) -> None:
    for axis in range(3):
        shapes = [[6, 5, 40] for _ in lengths]
        for shape, length in zip(shapes, lengths, strict=True):
            shape[axis] = length
        arrays = tuple(sample(tuple(shape), dtype) for shape in shapes)
        assert_same(own("concat", arrays, axis=axis), np.concatenate(arrays, axis))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_are_stacked(dtype: str) -> None:
    x = sample((6, 5, 40), dtype)
    arrays = (x, x[::-1].copy(), -x if dtype[0] in "ifc" else x)
    for axis in range(4):
        assert_same(own("stack", arrays, axis=axis), np.stack(arrays, axis))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shift", [0, 1, -1, 7, 5000, -12345])
def test_arrays_are_rolled(shift: int, dtype: str) -> None:
    x = sample((6, 50, 40), dtype)
    for axis in (None, 0, 1, 2):
        assert_same(own("roll", x, shift, axis=axis), np.roll(x, shift, axis))


@pytest.mark.parametrize("name", ["concat", "stack"])
def test_other_layouts_and_dtypes_are_numpys(name: str) -> None:
    function = np.concatenate if name == "concat" else np.stack
    x = sample((50, 60), "float64")
    others: list[tuple[Array, ...]] = [(x, x[:, ::-1]), (x.T, x.T), (x, x.astype("float32"))]
    for arrays in others:
        assert OPERATIONS[name].own(arrays, axis=1) is None
        assert_same(OPERATIONS[name](arrays, axis=1), function(arrays, 1))


def test_several_shifts_are_numpys() -> None:
    x = sample((50, 60), "float64")
    assert_same(OPERATIONS["roll"](x, (3, -4), axis=(0, 1)), np.roll(x, (3, -4), (0, 1)))
    assert_same(OPERATIONS["roll"](x.T, 3, axis=0), np.roll(x.T, 3, 0))


# ---------------------------------------------------------------------------- past the caches


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("offset", [0, 1, 5])
def test_what_no_cache_holds(offset: int) -> None:
    x = np.arange((1 << 22) + 1003, dtype=np.float64)[offset:]
    assert_same(own("astype", x, np.dtype("float32"), copy=True), x.astype("float32"))
    assert_same(own("concat", (x, x[:999], x[1:]), axis=0), np.concatenate((x, x[:999], x[1:])))
    rows = x[: x.size // 3 * 3].reshape(3, -1)
    assert_same(own("roll", rows, -12345, axis=1), np.roll(rows, -12345, 1))
