"""Data type functions: exact answers over all dtypes, and Python's own types in them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.lib import NumpyVersion

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES, PROMOTION
from corepy.testing import fake_devices
from tests.helpers import FLOATING, INTEGERS, NAMES, arrays, compiles, oracle, to_numpy, xps
from tests.together import together

pytestmark = pytest.mark.usefixtures("backend")


@pytest.mark.skipif(NumpyVersion(np.__version__) < "2.4.0", reason="NumPy asks for it from 2.4 on")
@pytest.mark.parametrize("dtype", NAMES)
def test_numpy_takes_dtypes_for_its_own(dtype: str) -> None:
    assert np.dtype(DTYPES[dtype]) == np.dtype(dtype)
    assert np.ones(2).astype(DTYPES[dtype]).dtype == dtype


@given(x=arrays(bound=100), dtype=st.sampled_from(NAMES))
def test_astype_truncates_and_keeps_the_shape(x: Any, dtype: str) -> None:
    target = DTYPES[dtype]
    if x.dtype.rank == 3 and target.rank in (1, 2):
        with pytest.raises(
            TypeError, match=f"^astype: x has dtype {x.dtype}; expected one that co"
        ):
            xp.astype(x, target)
        return
    values = to_numpy(x)
    if compiles():  # XLA flushes what is subnormal in either dtype
        parts = np.abs(np.stack([values.real, values.imag]))
        assume(not np.any((parts > 0) & (parts < np.finfo(np.float32).tiny)))
    if target.kind == "u" and x.dtype.rank == 2:
        x, values = xp.abs(x), np.abs(values)  # the negative ones are left open
    result = xp.astype(x, target)
    assert (result.dtype, result.shape) == (target, x.shape)
    expected = np.trunc(values) if target.rank == 1 and x.dtype.rank == 2 else values
    assert to_numpy(result).tolist() == expected.astype(dtype).tolist()


def test_astype_copies_unless_told_otherwise() -> None:
    x = xp.asarray([1, 2])
    assert xp.astype(x, xp.int64, copy=False) is x
    copied = xp.astype(x, xp.int64)
    copied[0] = 5
    assert x.tolist() == [1, 2]
    with pytest.raises(TypeError, match="^astype: dtype is of type NoneType; expected a dtype"):
        xp.astype(x, None)


@pytest.mark.parametrize("a", NAMES)
@together("b", NAMES)
def test_promotion_of_two_dtypes(a: str, b: str) -> None:
    found = PROMOTION.get((DTYPES[a], DTYPES[b]))
    assert xp.can_cast(DTYPES[a], DTYPES[b]) is (found is DTYPES[b])
    assert xp.can_cast(xp.ones(1, dtype=DTYPES[a]), DTYPES[b]) is (found is DTYPES[b])
    if found is None:
        return
    assert xp.result_type(DTYPES[a], DTYPES[b]) is found
    assert str(oracle("result_type", DTYPES[a], DTYPES[b])).endswith(f".{found}")
    x1, x2 = xp.ones(2, dtype=DTYPES[a]), xp.ones((), dtype=DTYPES[b])
    assert xp.equal(x1, x2).dtype is xp.bool
    if found.rank:
        assert (x1 + x2).dtype is xp.multiply(x2, x1).dtype is found


@given(dtypes=st.lists(xps.numeric_dtypes(), min_size=1, max_size=4), data=st.data())
def test_result_type_does_not_depend_on_the_order(dtypes: list[Any], data: st.DataObject) -> None:
    def found(order: list[Any]) -> Any:
        try:
            return xp.result_type(*order)
        except TypeError:  # a signed integer met uint64, and no float
            assert xp.uint64 in dtypes
            return None

    assert found(dtypes) is found(data.draw(st.permutations(dtypes)))


def test_arrays_promote_in_any_order() -> None:
    one = [xp.ones(1, dtype=dtype) for dtype in (xp.int64, xp.uint64, xp.float32)]
    for order in itertools.permutations(one):
        assert xp.result_type(*order) is xp.float32
        assert xp.concat(order).dtype is xp.float32


def test_result_type_of_scalars() -> None:
    assert xp.result_type(xp.int8, 1) is xp.int8
    assert xp.result_type(xp.float32, 1.0, 2) is xp.float32
    assert xp.result_type(xp.float32, 1j) is xp.complex64
    assert xp.result_type(1, xp.ones(1, dtype=xp.uint8), xp.int8) is xp.int16
    with pytest.raises(ValueError, match="^result_type: there is no array and no dtype"):
        xp.result_type(1, 2.0)
    with pytest.raises(ValueError, match="^result_type: "):
        xp.result_type()
    with pytest.raises(TypeError, match="^result_type: "):
        xp.result_type(xp.int64, xp.uint64)


def test_promotion_beside_an_array_is_that_of_its_device() -> None:
    with fake_devices():
        whole = xp.asarray([1, 2], dtype=xp.int32, device="fake:no_float64")
        x = xp.asarray([1.0, 2.0], dtype=xp.float32, device="fake:no_float64")
        for scalar in (0.5, 1j):
            assert xp.result_type(whole, scalar) is (whole + scalar).dtype
            assert xp.result_type(scalar, xp.int8, whole) is (whole + scalar).dtype
            assert xp.result_type(x, scalar) is (x + scalar).dtype
        assert xp.result_type(whole, 0.5) is xp.float32
        assert xp.result_type(whole, 1j) is xp.complex64
        assert xp.result_type(whole.dtype, 0.5) is xp.float64
        for lacking in (xp.float64, xp.complex128):
            assert not xp.can_cast(x, lacking)
            assert xp.can_cast(x.dtype, lacking)
        assert xp.can_cast(x, xp.complex64)
        assert xp.can_cast(whole, xp.int64)


@pytest.mark.parametrize("dtype", FLOATING)
def test_finfo_holds_python_numbers(dtype: str) -> None:
    native = np.finfo(dtype)
    for subject in (DTYPES[dtype], xp.ones(1, dtype=DTYPES[dtype])):
        found = xp.finfo(subject)
        for name in ("eps", "max", "min", "smallest_normal"):
            value = getattr(found, name)
            assert type(value) is float
            assert value == float(getattr(native, name))
        assert type(found.bits) is int
        assert found.bits == native.bits
        assert found.dtype.name == native.dtype.name


@pytest.mark.parametrize("dtype", INTEGERS)
def test_iinfo_holds_python_numbers(dtype: str) -> None:
    native = np.iinfo(dtype)
    for subject in (DTYPES[dtype], xp.ones(1, dtype=DTYPES[dtype])):
        found = xp.iinfo(subject)
        for name in ("bits", "max", "min"):
            value = getattr(found, name)
            assert type(value) is int
            assert value == int(getattr(native, name))
        assert found.dtype is DTYPES[dtype]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: xp.finfo(xp.int8), ValueError, "finfo: type is 'int8'; expected a floating-point"),
        (lambda: xp.iinfo(xp.float32), ValueError, "iinfo: type is 'float32'; expected an integer"),
        (lambda: xp.finfo(3), TypeError, "finfo: type is of type int; expected a dtype"),
        (lambda: xp.iinfo(None), TypeError, "iinfo: type is of type NoneType; expected a dtype"),
        (lambda: xp.isdtype(1, "bool"), TypeError, "isdtype: dtype is of type int; expected a dt"),
        (lambda: xp.isdtype(xp.int8, "int"), ValueError, "isdtype: kind is 'int'; expected one of"),
        (lambda: xp.isdtype(xp.int8, (("bool",),)), TypeError, "isdtype: kind is of type tuple;"),
        (lambda: xp.can_cast(1, xp.int8), TypeError, "can_cast: from_ is of type int; expected a"),
        (lambda: xp.can_cast(xp.int8, 1), TypeError, "can_cast: to is of type int; expected a dt"),
    ],
)
def test_bad_arguments_raise(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message)


KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]


@pytest.mark.parametrize("kind", KINDS)
@together("dtype", NAMES)
def test_isdtype(dtype: str, kind: str) -> None:
    assert xp.isdtype(DTYPES[dtype], kind) is (dtype in KINDS[kind])
    assert xp.isdtype(DTYPES[dtype], (kind, xp.bool)) is (dtype in KINDS[kind] or dtype == "bool")
    assert xp.isdtype(DTYPES[dtype], DTYPES[dtype]) is True
    assert (dtype in xp.__array_namespace_info__().dtypes(kind=kind)) is (dtype in KINDS[kind])


def test_inspection() -> None:
    info = xp.__array_namespace_info__()
    assert info.capabilities().keys() == {
        "boolean indexing",
        "data-dependent shapes",
        "max dimensions",
    }
    assert isinstance(info.devices(), tuple)
    assert info.default_device() is info.devices()[0]
    assert info.default_device() is xp.zeros(1).device
    assert info.default_dtypes(device=info.default_device()) == {
        "real floating": xp.float64,
        "complex floating": xp.complex128,
        "integral": xp.int64,
        "indexing": xp.int64,
    }
    assert info.dtypes(kind=("bool", "real floating")).keys() == {"bool", "float32", "float64"}
    with pytest.raises(
        corepy.BackendUnavailableError, match="^dtypes: device is 'nowhere'; expected one"
    ):
        info.dtypes(device="nowhere")
    with pytest.raises(ValueError, match="kind is 'words'; expected one of"):
        info.dtypes(kind="words")
