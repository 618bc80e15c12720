"""Casts, promotion and limits."""

from __future__ import annotations

import numpy as np
import pytest

from corepy import _dtypes
from corepy._dtypes import DTYPES
from corepy.backends import reference
from tests.backends.reference.values import ALL_DTYPES, INF, NAN, assert_same, from_numpy, sample


@pytest.mark.parametrize("target", ALL_DTYPES)
@pytest.mark.parametrize("source", ALL_DTYPES)
def test_astype_like_numpy(source: str, target: str) -> None:
    x = sample((3, 4), source)
    if source.startswith("float") and target.startswith("uint"):
        x = np.abs(x)
    if source.startswith("complex") and not target.startswith(("complex", "bool")):
        with pytest.raises(TypeError, match=f"astype: x has dtype {source}"):
            reference.astype(from_numpy(x), DTYPES[target])
        return
    assert_same(reference.astype(from_numpy(x), DTYPES[target]), x.astype(target))


def test_astype_of_what_does_not_fit() -> None:
    x = [NAN, INF, -INF, 1e30, -1e30, -1.9, 127.9]
    assert reference.astype(x, _dtypes.int8).values == [0, 127, -128, 127, -128, -1, 127]
    assert reference.astype(x, _dtypes.uint8).values == [0, 255, 0, 255, 0, 0, 127]
    assert reference.astype([300, -1], _dtypes.uint8).values == [44, 255]
    assert reference.astype([2**53 + 1], _dtypes.float64).values == [2.0**53]
    value = ((2**24 + 1) << 30) + 1  # would be rounded down on the way over float64
    assert reference.astype([value], _dtypes.float32).values == [float((2**24 + 2) << 30)]
    assert reference.astype([0.5, -0.0, NAN], _dtypes.bool) == [True, False, True]


def test_astype_copies() -> None:
    x = reference.asarray([1])
    assert reference.astype(x, _dtypes.int64, copy=False) is x
    assert reference.astype(x, _dtypes.int64) is not x


def test_can_cast() -> None:
    assert reference.can_cast(_dtypes.int8, _dtypes.int16)
    assert not reference.can_cast(_dtypes.int16, _dtypes.int8)
    assert not reference.can_cast(_dtypes.uint64, _dtypes.int64)
    assert reference.can_cast(reference.asarray([1.0]), _dtypes.complex128)
    assert not reference.can_cast(_dtypes.int8, _dtypes.float64)


def test_result_type() -> None:
    float32 = reference.zeros(1, dtype=_dtypes.float32)
    assert reference.result_type(_dtypes.uint8, _dtypes.int8) is _dtypes.int16
    assert reference.result_type(float32, 1.0) is _dtypes.float32
    assert reference.result_type(float32, 1j) is _dtypes.complex64
    assert reference.result_type(1, _dtypes.int8, 2) is _dtypes.int8
    with pytest.raises(TypeError, match="result_type: operands have dtypes int8 and float32"):
        reference.result_type(_dtypes.int8, float32)
    with pytest.raises(TypeError, match="is of type float"):
        reference.result_type(_dtypes.int8, 1.0)
    with pytest.raises(ValueError, match="expected an array or a dtype"):
        reference.result_type(1, 2.0)


def test_isdtype() -> None:
    assert reference.isdtype(_dtypes.int8, "signed integer")
    assert reference.isdtype(_dtypes.uint8, ("bool", "integral"))
    assert reference.isdtype(_dtypes.float32, _dtypes.float32)
    assert not reference.isdtype(_dtypes.bool, "numeric")
    with pytest.raises(ValueError, match="isdtype: kind is 'floating'"):
        reference.isdtype(_dtypes.bool, "floating")


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "complex128"])
def test_finfo_like_numpy(name: str) -> None:
    found, expected = reference.finfo(DTYPES[name]), np.finfo(name)
    for field in ("bits", "eps", "max", "min", "smallest_normal"):
        assert getattr(found, field) == float(getattr(expected, field))
    assert found.dtype is _dtypes.real_of(DTYPES[name])
    with pytest.raises(TypeError, match="finfo: type has dtype int8"):
        reference.finfo(_dtypes.int8)


@pytest.mark.parametrize("name", ["int8", "uint16", "int64", "uint64"])
def test_iinfo_like_numpy(name: str) -> None:
    found, expected = reference.iinfo(from_numpy(np.zeros(1, name))), np.iinfo(name)
    assert (found.bits, found.min, found.max) == (expected.bits, expected.min, expected.max)
    assert found.dtype is DTYPES[name]
    with pytest.raises(TypeError, match="iinfo: type has dtype float32"):
        reference.iinfo(_dtypes.float32)
