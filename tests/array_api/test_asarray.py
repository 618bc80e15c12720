"""Arrays of what others have: values, default dtypes, sharing of memory, and refusals."""

from __future__ import annotations

import array
import math
from collections import UserList, UserString, deque
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.testing import fake_devices
from tests.helpers import (
    FLOATS,
    INTEGERS,
    NAMES,
    REALS,
    arrays,
    assert_same,
    assert_values,
    oracle,
    shapes,
    to_numpy,
)
from tests.together import together

pytestmark = pytest.mark.usefixtures("backend")


# ---------------------------------------------------------------------------- asarray

NESTED = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.complex_numbers()),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@given(obj=NESTED)
def test_nested_sequences_become_arrays_or_are_refused_as_ragged(obj: Any) -> None:
    try:
        expected = np.array(obj)
    except ValueError:
        with pytest.raises(ValueError, match="^asarray: obj is ragged; expected nested sequences"):
            xp.asarray(obj)
        return
    assume(expected.dtype != object)
    result = xp.asarray(obj)
    assert result.dtype.name == expected.dtype.name
    assert_values(result, expected)


@pytest.mark.parametrize(
    ("obj", "dtype"),
    [
        ([], "float64"),
        ([[], []], "float64"),
        ([True, False], "bool"),
        ([True, 2], "int64"),
        ([1, 2.0], "float64"),
        ([1, 2j], "complex128"),
        ((1, (2,)[0]), "int64"),
        (range(3), "int64"),
        ([range(2), (0.5, 1)], "float64"),
        (UserList([deque([1, 2]), range(2)]), "int64"),
    ],
)
def test_default_dtypes(obj: Any, dtype: str) -> None:
    found = xp.asarray(obj)
    assert found.dtype.name == dtype
    assert found.tolist() == np.asarray(obj).tolist()


@together(
    ("obj", "kwargs", "error", "message"),
    [
        ([[1, 2], [3]], {}, ValueError, "asarray: obj is ragged; expected nested sequences"),
        ([[1], 2], {}, ValueError, "asarray: obj is ragged; expected nested sequences"),
        ("12", {}, TypeError, "asarray: obj is of type str; expected an array, a scalar"),
        (["1"], {}, TypeError, "asarray: obj is of type str; expected scalars in the nested"),
        ([b"1"], {}, TypeError, "asarray: obj is of type bytes; expected scalars in the nested"),
        (UserString("1"), {}, TypeError, "asarray: obj is of type collections.UserString; expect"),
        ([None], {}, TypeError, "asarray: obj is of type NoneType; expected scalars in the nested"),
        (None, {}, TypeError, "asarray: obj is of type NoneType; expected an array, a scalar"),
        ({1: 2}, {}, TypeError, "asarray: obj is of type dict; expected an array, a scalar"),
        (300, {"dtype": "uint8"}, OverflowError, "asarray: obj holds 300; expected 0 to 255 for"),
        ([-1], {"dtype": "uint64"}, OverflowError, "asarray: obj holds -1; expected 0 to"),
        (2**64, {}, OverflowError, "asarray: obj"),
        ([300.5], {"dtype": "uint8"}, OverflowError, "asarray: obj holds 300; expected 0 to 255"),
        ([0, math.nan], {"dtype": "int64"}, ValueError, "asarray: obj holds NaN; expected"),
        (-math.inf, {"dtype": "int64"}, OverflowError, "asarray: obj holds an infinity; expected"),
        ([1j], {"dtype": "float64"}, TypeError, "asarray: obj holds complex values; expected real"),
        ([1], {"dtype": "f2"}, ValueError, "asarray: dtype is 'f2'; expected one of bool"),
        ([1], {"dtype": 7}, TypeError, "asarray: dtype is of type int; expected a dtype"),
        ([1], {"copy": "no"}, TypeError, "asarray: copy is of type str; expected a bool"),
        ([1], {"copy": False}, ValueError, "asarray: obj is a list; expected memory that can be"),
        (
            [1],
            {"device": "nowhere"},
            corepy.BackendUnavailableError,
            "asarray: device is 'nowhere'; expected one that is present: ",
        ),
        ([1], {"device": 3}, TypeError, "asarray: device is of type int; expected a Device"),
    ],
)
def test_bad_objects_raise(obj: Any, kwargs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        xp.asarray(obj, **kwargs)
    assert type(caught.value) is error
    assert str(caught.value).startswith(message)


def test_big_integers_become_floats_where_asked() -> None:
    assert xp.asarray([2**70], dtype=xp.float64).tolist() == [float(2**70)]
    assert xp.asarray(2**64 - 1, dtype=xp.uint64).tolist() == 2**64 - 1


@pytest.mark.parametrize("form", ["name", "numpy", "class"])
@together("dtype", NAMES)
def test_dtypes_have_many_names(dtype: str, form: str) -> None:
    wanted = {"name": dtype, "numpy": np.dtype(dtype), "class": np.dtype(dtype).type}[form]
    assert xp.zeros(2, dtype=wanted).dtype is DTYPES[dtype]


@together(
    ("short", "dtype"),
    [
        ("f4", "float32"),
        ("f32", "float32"),
        ("f8", "float64"),
        ("f64", "float64"),
        ("i1", "int8"),
        ("i8", "int64"),
        ("i16", "int16"),
        ("u8", "uint64"),
        ("u1", "uint8"),
        ("c16", "complex128"),
        ("c64", "complex64"),
        ("?", "bool"),
        (float, "float64"),
        (int, "int64"),
        (bool, "bool"),
        (complex, "complex128"),
    ],
)
def test_dtypes_have_short_names(short: Any, dtype: str) -> None:
    assert xp.zeros(1, dtype=short).dtype.name == dtype


@given(x=arrays(), dtype=st.sampled_from(NAMES))
def test_asarray_of_an_array_converts_upwards(x: Any, dtype: str) -> None:
    target = DTYPES[dtype]
    assume(x.dtype.rank <= target.rank)
    result = xp.asarray(x, dtype=target)
    assert result.dtype is target
    assert_values(result, to_numpy(x).astype(dtype))


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_asarray_of_an_array_drops_fractions_unless_strict(dtype: str) -> None:
    target = DTYPES[dtype]
    wanted = [False, True, True] if dtype == "bool" else [0, 1, 100]
    for source in FLOATS:
        values = np.asarray([0.0, 1.75, 100.5], source)
        for x in (values, xp.asarray(values)):
            result = xp.asarray(x, dtype=target)
            assert result.dtype is target
            assert result.tolist() == wanted
        with (
            corepy.strict(),
            pytest.raises(TypeError, match=f"^asarray: obj has dtype {source}; expected one that"),
        ):
            xp.asarray(xp.asarray(values, dtype=DTYPES[source]), dtype=target)


def test_asarray_of_floats_drops_fractions_unless_strict() -> None:
    for obj, wanted in (
        (-1.75, -1),
        ([[0.5, 1.75], [-100.5, 2]], [[0, 1], [-100, 2]]),
        ([np.float32(2.5), True], [2, 1]),
        ([0.5, 2**63 - 1], [0, 2**63 - 1]),
    ):
        result = xp.asarray(obj, dtype=xp.int64)
        assert result.dtype is xp.int64
        assert result.tolist() == wanted
    with (
        corepy.strict(),
        pytest.raises(TypeError, match="^asarray: obj holds floats; .*strict mode"),
    ):
        xp.asarray([1.5], dtype=xp.int64)


def test_asarray_drops_no_imaginary_parts() -> None:
    for dtype in REALS:
        with pytest.raises(
            TypeError,
            match=f"^asarray: obj has dtype complex128; expected one that converts to {dtype}: ta",
        ):
            xp.asarray(xp.asarray([1j]), dtype=DTYPES[dtype])


def test_copy_makes_new_memory_and_no_copy_shares() -> None:
    x = xp.asarray([1, 2, 3])
    copied = xp.asarray(x, copy=True)
    copied[0] = 9
    assert x.tolist() == [1, 2, 3]
    assert xp.asarray(x, copy=False).tolist() == [1, 2, 3]
    with pytest.raises(
        ValueError, match=r"^asarray: obj has dtype int64 on \S+; expected an array"
    ):
        xp.asarray(x, dtype=xp.int8, copy=False)


def test_buffers_become_arrays() -> None:
    assert xp.asarray(array.array("d", [1.0, 2.0])).tolist() == [1.0, 2.0]
    assert xp.asarray(memoryview(b"\x01\x02")).dtype is xp.uint8
    assert xp.asarray(bytearray(b"\x05"), dtype=xp.int16).tolist() == [5]


class Column:
    """What a table of another library has: values that NumPy can ask for."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype, copy=copy)


def test_objects_that_convert_to_numpys_arrays_are_taken() -> None:
    column = Column([1.0, 2.0])
    found = xp.asarray(column)
    assert (found.dtype, found.tolist()) == (xp.float64, [1.0, 2.0])
    assert xp.asarray(column, dtype=xp.float32).dtype is xp.float32
    assert xp.asarray([column, Column([3, 4])]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    for masked in (np.ma.masked_array([1, 2], [0, 1]), [np.ma.masked_array([1, 2], [0, 1])]):
        with pytest.raises(TypeError, match="MaskedArray; expected an array without a mask$"):
            xp.asarray(masked)
    with pytest.raises(TypeError, match="^asarray: obj holds object; expected one of bool, int8"):
        xp.asarray(Column([1, None]))
    with (
        corepy.strict(),
        pytest.raises(TypeError, match=r"Column; expected an Array, .* \(strict mode\)"),
    ):
        xp.asarray(column)


@pytest.mark.backend("numpy")
def test_objects_that_convert_share_their_memory_or_not() -> None:
    column = Column([1.0, 2.0])
    with corepy.backend_priority(["numpy"]):
        shared, copied = xp.asarray(column, copy=False), xp.asarray(column, copy=True)
    column.values[0] = 9.0
    assert (shared.tolist(), copied.tolist()) == ([9.0, 2.0], [1.0, 2.0])
    column.values = [1.0, 2.0]  # which NumPy has to copy
    with pytest.raises(ValueError, match="^asarray: obj cannot be shared for copy=False: "):
        xp.asarray(column, copy=False)


def test_nested_sequences_of_arrays() -> None:
    x = xp.asarray([1.0, 2.0])
    assert xp.asarray([x[0], 3, x[1]]).tolist() == [1.0, 3.0, 2.0]
    assert xp.asarray([x, x]).shape == (2, 2)
    assert xp.asarray([np.float32(1.5), 2]).tolist() == [1.5, 2.0]


# ---------------------------------------------------------------------------- dlpack


@given(x=arrays(shape=shapes(min_dims=1, min_side=1)))
def test_from_dlpack_round_trip(x: Any) -> None:
    again = xp.from_dlpack(x)
    assert again.dtype is x.dtype
    assert_same(again, oracle("asarray", x))


def test_from_dlpack_of_numpy(xp: ModuleType) -> None:
    values = np.array([1.0, 2.0, 3.0])
    shared = xp.from_dlpack(values)
    assert shared.tolist() == [1.0, 2.0, 3.0]
    copied = xp.from_dlpack(values, copy=True)
    values[0] = 9.0
    assert copied.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(TypeError, match="^from_dlpack: x is of type list; expected an object with"):
        xp.from_dlpack([1, 2])
    with pytest.raises(TypeError, match="^from_dlpack: copy is of type int; expected a bool"):
        xp.from_dlpack(values, copy=1)


@pytest.mark.parametrize("error", [BufferError, ValueError])
def test_from_dlpack_refuses_to_copy_as_the_standard_has_it(error: type[Exception]) -> None:
    # It names the one for `copy` and the other one for `device`.
    with fake_devices():
        x = xp.asarray([1.0], device="cpu")
        with pytest.raises(error, match="^from_dlpack: x is on cpu; expected fake:device1 for cop"):
            xp.from_dlpack(x, device="fake:device1", copy=False)
    swapped = np.asarray([1, 2]).astype(np.dtype(np.int64).newbyteorder())
    with pytest.raises(error, match="^from_dlpack: x has another byte order; expected the machine"):
        xp.from_dlpack(swapped, copy=False)


class Elsewhere:
    """An array on a device that no backend of this machine serves."""

    def __dlpack__(self, **kwargs: Any) -> Any:
        raise AssertionError("the device is asked first")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def test_from_dlpack_of_a_device_that_is_not_there() -> None:
    with pytest.raises(BufferError, match="^from_dlpack: x is on DLPack device type 2; expected 1"):
        xp.from_dlpack(Elsewhere())
