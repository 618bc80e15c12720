"""What `asarray` and `from_dlpack` take: byte orders, dtypes, old producers, and refusals."""

from __future__ import annotations

import array
import ctypes
import math
import pickle
import re
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from tests.conftest import required
from tests.helpers import to_numpy

pytestmark = pytest.mark.usefixtures("backend")


class Interface:
    """An object whose memory is known by ``__array_interface__`` alone."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.__array_interface__ = values.__array_interface__


# ---------------------------------------------------------------------------- byte order

#: The byte order that is not this machine's.
SWAPPED = np.dtype("f8").newbyteorder("S")


def test_buffers_of_another_byte_order_have_their_values() -> None:
    swapped = np.asarray([1.0, 2.0, 3.0], SWAPPED)
    names = ("__ctype_be__", "__ctype_le__")
    other = next(
        getattr(ctypes.c_double, name)
        for name in names
        if np.dtype(getattr(ctypes.c_double, name)) == SWAPPED
    )
    for obj in (Interface(swapped), memoryview((other * 3)(1, 2, 3)), swapped):
        x = xp.asarray(obj)
        for _ in range(3):  # the loops that come in after the first call read it, too
            assert (x * 2.0).tolist() == [2.0, 4.0, 6.0]
        assert xp.asarray(obj, copy=True).tolist() == [1.0, 2.0, 3.0]
        assert xp.asarray(obj, dtype=xp.complex128).tolist() == [1.0, 2.0, 3.0]
        assert xp.asarray(obj, dtype=xp.float32).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(OverflowError, match="^asarray: obj holds 1e\\+300; expected at most"):
        xp.asarray(memoryview((other * 2)(1e300, 2.5)), dtype=xp.float32)


def test_arrays_pickled_where_the_byte_order_is_another() -> None:
    rebuild, (_, *where) = xp.asarray([1.0, 2.0]).__reduce__()
    x = rebuild(pickle.loads(pickle.dumps(np.asarray([1.0, 2.0], SWAPPED))), *where)
    for _ in range(3):
        assert (x + 1.0).tolist() == [2.0, 3.0]


def test_another_byte_order_is_not_shared() -> None:
    swapped = np.arange(3.0).astype(SWAPPED)
    for obj in (swapped, Interface(swapped)):
        with pytest.raises(ValueError, match=r"^asarray: obj .* for copy=False"):
            xp.asarray(obj, copy=False)
    with pytest.raises(BufferError, match="^from_dlpack: x has another byte order"):
        xp.from_dlpack(swapped, copy=False)
    with pytest.raises(ValueError, match="^to: x has another byte order; expected the machine's"):
        corepy.to(swapped, copy=False)
    assert corepy.to(swapped).tolist() == xp.from_dlpack(swapped).tolist() == [0.0, 1.0, 2.0]


# ---------------------------------------------------------------------------- dtypes


@pytest.mark.parametrize(
    ("values", "dtype", "error", "message"),
    [
        ([300.5], "uint8", OverflowError, "obj holds 300; expected 0 to 255 for uint8"),
        ([0.0, np.nan], "int64", ValueError, "obj holds NaN; expected integers for int64"),
        ([0.0, -np.inf], "int64", OverflowError, "obj holds an infinity; expected integers for"),
        ([1j], "float64", TypeError, "obj has dtype complex128; expected one that converts to"),
        ([-1, 300], "uint8", OverflowError, "obj holds -1; expected 0 to 255 for uint8"),
        ([1, 300], "uint8", OverflowError, "obj holds 300; expected 0 to 255 for uint8"),
        ([1e300], "float32", OverflowError, "obj holds 1e+300; expected at most 3.4028235e38"),
        ([1e300j], "complex64", OverflowError, "obj holds 1e+300; expected at most 3.4028235e38"),
    ],
)
def test_buffers_keep_their_values_or_are_refused(
    values: Any, dtype: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        xp.asarray(memoryview(np.asarray(values)), dtype=getattr(xp, dtype))
    assert type(caught.value) is error
    assert str(caught.value).startswith(f"asarray: {message}")


def test_fractions_of_buffers_are_dropped_unless_strict() -> None:
    buffer = array.array("d", [-0.5, 1.75, 100.5])
    for dtype in (xp.uint8, xp.int64):
        x = xp.asarray(buffer, dtype=dtype)
        assert x.dtype is dtype
        assert x.tolist() == [0, 1, 100]
        with (
            corepy.strict(),
            pytest.raises(TypeError, match="^asarray: obj has dtype float64; expected one that"),
        ):
            xp.asarray(buffer, dtype=dtype)


def test_buffers_are_converted_upwards() -> None:
    small = array.array("h", [1, 200])
    for dtype in ("uint8", "int64", "float32", "complex64"):
        x = xp.asarray(small, dtype=getattr(xp, dtype))
        assert x.dtype.name == dtype
        assert x.tolist() == [1, 200]
    single = xp.asarray(array.array("f", [1.0, float("inf")]), dtype=xp.complex64)
    assert to_numpy(single).real.tolist() == [1.0, float("inf")]


def test_a_buffer_of_what_the_standard_lacks() -> None:
    with pytest.raises(TypeError, match="^asarray: obj holds float16; expected one of bool, int8"):
        xp.asarray(memoryview(np.ones(2, np.float16)))


@pytest.mark.parametrize(
    "lacking",
    [
        np.ones(2, np.float16),
        np.ones((), np.longdouble),
        np.zeros(2, "M8[s]"),
        np.zeros(2, [("real", "f8")]),
        np.asarray(["a", "b"], np.dtypes.StringDType()),
    ],
    ids=lambda values: str(values.dtype),
)
def test_arrays_of_what_the_standard_lacks(lacking: Any) -> None:
    refused = re.escape(f"obj: its dtype is numpy's {lacking.dtype}; expected one of bool, int8")
    for obj in (lacking, [lacking], [[lacking]]):
        with pytest.raises(TypeError, match=f"^asarray: {refused}"):
            xp.asarray(obj)


def test_what_is_lent_may_be_what_the_standard_lacks() -> None:
    class Lender:
        values = np.ones(2, np.float16)

        def __dlpack__(self, **options: Any) -> Any:
            return self.values.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.values.__dlpack_device__()

    with pytest.raises(
        TypeError, match="^from_dlpack: x holds float16; expected one of bool, int8"
    ):
        xp.from_dlpack(Lender())


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_columns_that_cannot_be_shared(error: type[Exception]) -> None:
    class Column:
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            if copy is False:
                raise error("copy not allowed")
            return np.arange(3.0)

    assert xp.asarray(Column()).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(ValueError, match="^asarray: obj cannot be shared for copy=False: copy not"):
        xp.asarray(Column(), copy=False)


class Masked(np.ma.MaskedArray[Any, Any]):
    """As other libraries derive theirs."""


@pytest.mark.parametrize("kind", [np.ma.MaskedArray, Masked])
def test_no_mask_is_dropped(kind: Any) -> None:
    masked, x = kind([1.0, 2.0], mask=[False, True]), xp.ones(2)
    for function in (xp.asarray, xp.from_dlpack):
        with pytest.raises(TypeError, match=f"^{function.__name__}: .*expected an array without a"):
            function(masked)
    for use in (corepy.to, xp.sin, lambda y: xp.add(x, y), lambda y: x.__setitem__(..., y)):
        with pytest.raises(TypeError, match=kind.__name__):
            use(masked)


def test_great_integers_have_to_fit_floats() -> None:
    for obj in (10**39, [10**39], [1.5, 10**39]):
        for name in ("float32", "complex64"):
            with pytest.raises(OverflowError, match=f"^asarray: obj .* {name}"):
                xp.asarray(obj, dtype=getattr(xp, name))
    with pytest.raises(OverflowError, match="^asarray: obj holds an integer beyond the range of"):
        xp.asarray([10**400], dtype=xp.float64)
    assert xp.asarray([10**38], dtype=xp.float32).tolist() == [float(np.float32(1e38))]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("sign", ["", "u"])
def test_integers_fit_up_to_the_last_one(sign: str, dtype: str) -> None:
    info, wanted = np.iinfo(sign + dtype), getattr(xp, sign + dtype)
    ends = [int(info.min), int(info.max)]
    assert xp.asarray(ends, dtype=wanted).tolist() == ends
    for value in (ends[0] - 1, ends[1] + 1):
        for obj in (value, [0, value]):
            message = f"^asarray: obj holds {value}; expected {ends[0]} to {ends[1]} for {wanted}$"
            with pytest.raises(OverflowError, match=message):
                xp.asarray(obj, dtype=wanted)


def test_floats_fit_up_to_the_last_one() -> None:
    beyond = (2 - 2.0**-24) * 2.0**127  # half way to where the next one would be
    last = [math.nextafter(beyond, 0.0), -math.nextafter(beyond, 0.0)]
    greatest = float(np.finfo(np.float32).max)
    assert xp.asarray(last, dtype=xp.float32).tolist() == [greatest, -greatest]
    for endless in ([math.inf, -math.inf], array.array("d", [math.inf, -math.inf])):
        assert xp.asarray(endless, dtype=xp.float32).tolist() == [math.inf, -math.inf]
    for value in (beyond, -beyond):
        for obj in (value, [0.5, value], complex(0.0, value)):
            dtype = xp.complex64 if isinstance(obj, complex) else xp.float32
            with pytest.raises(OverflowError, match="^asarray: obj holds -?3.4028235"):
                xp.asarray(obj, dtype=dtype)


def test_arrays_in_sequences_keep_their_dtype() -> None:
    for dtype in ("bool", "int8", "uint64", "float32", "complex64"):
        for values in (xp.ones(2, dtype=getattr(xp, dtype)), np.ones(2, dtype)):
            assert xp.asarray([values, values]).dtype.name == dtype
            assert xp.asarray([[values[0]], [values[1]]]).dtype.name == dtype
    most, great = xp.asarray(2**64 - 1, dtype=xp.uint64), np.float32(1e30)
    assert xp.asarray([most]).tolist() == [2**64 - 1]
    assert xp.asarray([great]).tolist() == [float(great)]
    assert xp.asarray([xp.asarray(1e300), 2]).tolist() == [1e300, 2.0]


# ---------------------------------------------------------------------------- DLPack


class Old:
    """A producer from before DLPack 1.0, which knows a stream and nothing else."""

    def __init__(self) -> None:
        self.values = np.arange(3.0)

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.values.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_old_producers_are_copied_where_asked() -> None:
    old = Old()
    copied = xp.from_dlpack(old, copy=True)
    old.values[0] = 9.0
    assert copied.tolist() == [0.0, 1.0, 2.0]
    copied[1] = 5.0
    assert old.values.tolist() == [9.0, 1.0, 2.0]


@pytest.mark.backend("numpy")
def test_old_producers_share_where_asked() -> None:
    old = Old()
    with corepy.backend_priority(["numpy"]):
        assert np.shares_memory(xp.from_dlpack(old, copy=False).unwrap(), old.values)


def test_producers_that_would_copy_are_refused_where_memory_is_to_be_shared() -> None:
    class Copying(Old):
        def __dlpack__(self, *, copy: bool | None = None, **options: Any) -> Any:
            if copy is False:
                raise BufferError("its memory is not here")
            return self.values.copy().__dlpack__(**options)

    assert xp.from_dlpack(Copying()).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(BufferError, match="^from_dlpack: x: its memory is not here$"):
        xp.from_dlpack(Copying(), copy=False)


def test_arrays_that_run_backwards_are_exported_as_copies() -> None:
    line, plane = xp.flip(xp.arange(4.0)), xp.reshape(xp.arange(6.0), (2, 3))[:, ::-2]
    for x in (line, plane, xp.flip(xp.ones(1)), xp.flip(xp.zeros((0, 2)))):
        given = np.from_dlpack(x, device="cpu")
        assert min(given.strides) >= 0  # torch ends the process where one is negative
        assert given.tolist() == x.tolist()
        try:
            strides = np.from_dlpack(x, device="cpu", copy=False).strides
        except BufferError:
            continue
        assert min(strides) >= 0
    if line.backend == "numpy":
        with pytest.raises(
            BufferError, match="^__dlpack__: x has a negative stride; expected none"
        ):
            np.from_dlpack(line, copy=False)


@pytest.mark.backend("numpy")
def test_a_copy_says_that_it_is_one() -> None:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    x = corepy.to(np.arange(4.0), backend="numpy")
    for wanted, values, copy in (
        (0, x, None),
        (2, x, True),
        (2, x[::-1], None),
        (2, x[::-1], True),
    ):
        capsule = values.__dlpack__(max_version=(1, 0), copy=copy)
        flags = pointer(capsule, b"dltensor_versioned") + 24  # of DLManagedTensorVersioned
        assert ctypes.c_uint64.from_address(flags).value == wanted


@pytest.mark.needs("torch")
def test_torch_takes_arrays_that_run_backwards() -> None:
    torch = required("torch")
    for x in (xp.flip(xp.arange(4.0)), xp.reshape(xp.arange(6.0), (2, 3))[:, ::-2]):
        assert min(np.from_dlpack(x, device="cpu").strides) >= 0  # or the process ends here
        assert torch.from_dlpack(x).tolist() == x.tolist()


def test_numpys_functions_give_arrays_of_numpys() -> None:
    x, values = xp.asarray([1.0, 4.0]), np.asarray([3.0, 5.0])
    for found, wanted in (
        (np.sqrt(x), [1.0, 2.0]),
        (np.add(values, x), [4.0, 9.0]),
        (np.multiply.outer(x, values), [[3.0, 5.0], [12.0, 20.0]]),
        (np.sum(x, keepdims=True), [5.0]),
        (np.isfinite(x[0]), True),
    ):
        assert type(found) in {np.ndarray, np.bool_}
        assert found.tolist() == wanted
    np.subtract(values, x, out=values)
    assert values.tolist() == [2.0, 1.0]


@pytest.mark.at_once
def test_an_array_added_in_place_to_one_of_numpys_gives_an_array() -> None:
    owner = np.asarray([3.0, 5.0, 7.0])
    values = owner[1:]
    values += xp.asarray([1.0, 4.0])
    assert type(values) is corepy.Array
    assert values.tolist() == [6.0, 11.0]
    assert owner.tolist() == [3.0, 5.0, 7.0]
    owner[1:] += xp.asarray([1.0, 4.0])  # which writes the sum
    assert owner.tolist() == [3.0, 6.0, 11.0]


def test_integers_among_floats_keep_their_digits() -> None:
    great, odd = xp.asarray(2**63 + 1, dtype=xp.uint64), 2**53 + 1
    assert xp.asarray([great, 1], dtype=xp.uint64).tolist() == [2**63 + 1, 1]
    assert xp.asarray([[great], [xp.asarray(1)]], dtype=xp.uint64).tolist() == [[2**63 + 1], [1]]
    for number in (odd, np.int64(odd), xp.asarray(odd)):
        assert xp.asarray([number, 0.5], dtype=xp.int64).tolist() == [odd, 0]
