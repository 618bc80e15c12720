"""Mixed kinds, Python scalars, native arrays and strictness: the same on every backend."""

from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES, MIXED_PROMOTION, PROMOTION, integer_range
from corepy.testing import fake_devices
from tests.helpers import FLOATS, INTEGERS, NAMES
from tests.together import together

pytestmark = pytest.mark.usefixtures("backend")

MIXED = [
    (a.name, b.name, found.name)
    for (a, b), found in MIXED_PROMOTION.items()
    if (a, b) not in PROMOTION
]


@together(("a", "b", "expected"), MIXED)
def test_mixed_kinds_take_the_dtype_of_the_higher(a: str, b: str, expected: str) -> None:
    x1, x2 = xp.ones(2, dtype=DTYPES[a]), xp.ones(1, dtype=DTYPES[b])
    total = x1 + x2
    assert total.dtype.name == expected
    assert total.tolist() == [2, 2]
    assert (x2 * x1).dtype.name == expected
    assert xp.where(xp.asarray(True), x1, x2).dtype.name == expected
    assert xp.result_type(x1, x2).name == expected
    with corepy.strict():
        for call in (
            lambda: x1 + x2,
            lambda: xp.result_type(x1, x2),
            lambda: xp.concat([x1, x2]),
        ):
            with pytest.raises(TypeError, match=r"dtypes of one kind \(strict mode\)"):
                call()


@pytest.mark.parametrize("signed", ["int8", "int16", "int32", "int64"])
def test_uint64_and_a_signed_integer_have_no_common_dtype(signed: str) -> None:
    x1, x2 = xp.ones(2, dtype=xp.uint64), xp.ones(2, dtype=DTYPES[signed])
    message = f"^add: operands have dtypes uint64 and {signed}; expected two that share a dtype"
    with pytest.raises(TypeError, match=message):
        x1 + x2


def test_no_dimension_is_as_good_as_many() -> None:
    # Libraries let 0-D arrays give way, as scalars do; in the standard they do not.
    assert (xp.ones(3, dtype=xp.float32) + xp.ones((), dtype=xp.float64)).dtype is xp.float64
    assert (xp.ones(3, dtype=xp.int8) + xp.ones((), dtype=xp.int64)).dtype is xp.int64


# ---------------------------------------------------------------------------- scalars

SCALARS = [(False, 0), (True, 0), (3, 1), (2.5, 2), (1j, 3)]


@pytest.mark.parametrize("dtype", NAMES)
@together(("scalar", "rank"), SCALARS)
def test_scalars_follow_the_array(dtype: str, scalar: Any, rank: int) -> None:
    own = DTYPES[dtype]
    x = xp.ones(2, dtype=own)
    if rank <= own.rank:
        expected = own
    elif rank == 3 and own.rank == 2:
        expected = {"float32": xp.complex64, "float64": xp.complex128}[dtype]
    else:
        expected = {1: xp.int64, 2: xp.float64, 3: xp.complex128}[rank]
    assert xp.result_type(x, scalar) is expected
    if expected is xp.bool:
        assert (x & scalar).tolist() == [scalar] * 2
        return
    for result in (x + scalar, scalar + x):
        assert result.dtype is expected
        assert result.tolist() == [1 + scalar] * 2


@pytest.mark.parametrize("dtype", NAMES)
@together(("scalar", "rank"), SCALARS)
def test_strict_mode_takes_the_scalars_of_the_standard(dtype: str, scalar: Any, rank: int) -> None:
    own = DTYPES[dtype]
    x = xp.ones(2, dtype=own)
    # https://data-apis.org/array-api/2025.12/API_specification/type_promotion.html
    allowed = rank == own.rank or (0 < rank < own.rank) or (rank, own.rank) == (3, 2)
    with corepy.strict():
        if allowed:
            assert (x == scalar).dtype is xp.bool
        else:
            with pytest.raises(TypeError, match=r"^equal: x2 is of type .* \(strict mode\)"):
                xp.equal(x, scalar)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_scalars_must_fit(dtype: str) -> None:
    low, high = integer_range(DTYPES[dtype])
    x = xp.zeros(2, dtype=DTYPES[dtype])
    assert (x + high).tolist() == [high] * 2
    assert (x + low).tolist() == [low] * 2
    for value in (high + 1, low - 1):
        message = f"^add: x2 is {value}; expected {low} to {high} for {dtype}"
        with pytest.raises(OverflowError, match=message):
            x + value
        with pytest.raises(OverflowError, match=f"^subtract: x1 is {value}; expected"):
            value - x
        with pytest.raises(OverflowError, match=f"^add: x2 is {value}; expected"):
            x += value
        with pytest.raises(OverflowError, match=f"^__setitem__: value is {value}; expected"):
            x[0] = value
        with pytest.raises(OverflowError, match=f"^full: fill_value is {value}; expected"):
            xp.full(2, value, dtype=DTYPES[dtype])
        with pytest.raises(
            OverflowError, match=f"^asarray: obj holds {value}; expected|^asarray: "
        ):
            xp.asarray(value, dtype=DTYPES[dtype])
    assert x.tolist() == [0, 0]


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_scalars_must_fit(dtype: str) -> None:
    x = xp.zeros(1, dtype=DTYPES[dtype])
    assert (x + float("inf")).tolist() == [float("inf")]
    with pytest.raises(OverflowError, match=f"^add: x2 is an integer beyond the range of {dtype}"):
        x + 10**400
    if dtype == "float32":
        with pytest.raises(OverflowError, match="^add: x2 is 1e.300; expected at most"):
            x + 1e300


class Turn(complex):
    """A complex number by another name."""


def test_both_parts_of_complex_scalars_must_fit() -> None:
    single, double = (xp.zeros(1, dtype=dtype) for dtype in (xp.complex64, xp.complex128))
    most = (2 - 2.0**-24) * 2.0**127  # which rounds to infinity, as the next ones do
    for value in (most, -most, complex(1.0, most), complex(-most, 1.0), 1e300j, Turn(0.0, most)):
        for _ in range(2):  # the first call may fill a table
            with pytest.raises(
                OverflowError, match="^add: x2 is .*; expected at most 3.4028235e38"
            ):
                single + value
            with pytest.raises(OverflowError, match="^multiply: x1 is .*; expected at most 3.402"):
                xp.multiply(value, single)
        assert (double + value).tolist() == [value]
    assert (single + Turn(0.5, -2.0)).tolist() == [0.5 - 2j]
    assert (single + complex(0.0, float("inf"))).tolist() == [complex(0.0, float("inf"))]


def test_numpy_scalars_are_arrays_without_dimensions() -> None:
    x = xp.ones(2, dtype=xp.float32)
    assert (x + np.float64(1.0)).dtype is xp.float64
    assert (np.int8(3) * x).dtype is xp.float32


def numpys_scalars(x: Any) -> list[Any]:
    """Return what comes of an array of two float32 beside scalars of NumPy's."""
    written = xp.asarray(x, copy=True)
    written[np.int64(1)] = np.float32(5)
    written += np.float32(1)
    written -= np.float64(1)
    return [
        np.float32(2) * x,
        x ** np.float32(2),
        xp.add(np.float32(2), x),
        np.int8(3) < x,
        xp.where(x > np.int64(0), x, np.float32(0)),
        xp.where(np.True_, x, np.float32(0)),
        xp.clip(x, np.float32(0), np.float64(1)),
        xp.concat([x, xp.broadcast_to(xp.stack([np.float32(1), x[0]]), (2,))]),
        xp.take(x, xp.asarray([0], device=x.device)) + x[np.uint8(1)],
        xp.repeat(x, np.int64(2)),
        xp.take(x, np.int64(1)),
        written,
    ]


def test_numpy_scalars_go_where_the_array_is(backend: str) -> None:
    x = xp.asarray([1.0, 2.0], dtype=xp.float32)
    for found in numpys_scalars(x):
        assert (found.device, found.backend) == (x.device, backend)
        assert found.dtype in {xp.float32, xp.bool}
    wanted = [[2, 4], [1, 4], [3, 4], [False, False], [1, 2], [1, 2], [1, 1], [1, 2, 1, 1]]
    wanted += [[3], [1, 1, 2, 2], 2, [1, 5]]
    assert [found.tolist() for found in numpys_scalars(x)] == wanted


def test_numpy_scalars_go_to_other_devices_but_arrays_do_not() -> None:
    with fake_devices():
        for name in ("device1", "no_float64"):
            x = xp.asarray([1.0, 2.0], dtype=xp.float32, device=f"fake:{name}")
            for found in numpys_scalars(x):
                assert found.device is x.device
            with pytest.raises(corepy.DeviceMismatchError, match="^multiply: x2 is on fake:.* x1 "):
                np.ones(2, np.float32) * x
        assert (x * np.float64(2)).dtype is xp.float32  # as on a device that lacks float64


# ---------------------------------------------------------------------------- native arrays


@pytest.mark.at_once
@pytest.mark.parametrize("dtype", NAMES)
def test_native_arrays_on_either_side(dtype: str) -> None:
    x = xp.ones(2, dtype=DTYPES[dtype])
    native = np.ones(2, dtype=dtype)
    for result in (x == native, native == x, xp.equal(native, x), xp.equal(x, native)):
        assert type(result) is corepy.Array
        assert result.tolist() == [True, True]
    if dtype != "bool":
        for result in (x + native, native + x, xp.add(native, x), xp.add(native, native)):
            assert type(result) is corepy.Array
            assert result.dtype.name == dtype
            assert result.tolist() == [2, 2]
    with corepy.strict():
        for call in (lambda: xp.equal(x, native), lambda: x == native, lambda: native == x):
            with pytest.raises(
                TypeError, match=r"^equal: x[12] is of type numpy.ndarray; expected"
            ):
                call()


@pytest.mark.at_once
def test_native_arrays_come_to_the_backend_of_an_array(backend: str) -> None:
    x, native = xp.ones((2, 2)), np.ones((2, 2))
    places, ones = xp.zeros((2, 2), dtype=xp.int64), xp.ones(2, dtype=xp.int64)
    for found in (
        native + x,
        native @ x,
        xp.multiply(native, x),
        xp.where(native > 0, native, x),
        xp.concat([native, x]),
        xp.stack([native, native, x]),
        xp.searchsorted(native[0], x[0, :]),
        xp.where(x > 0, native, 0.0),
        xp.clip(native, 0.0, x),
        xp.take(native, ones, axis=0),
        xp.take_along_axis(native, places),
        xp.diff(native, append=x),
    ):
        assert found.backend == backend
    if backend != "dask":  # sizes that depend on values are not Dask's
        assert xp.repeat(native, ones, axis=0).backend == backend


def test_unwrap_gives_an_array_that_is_taken_again(backend: str) -> None:
    x = xp.asarray([1.0, 2.0])
    again = xp.asarray(x.unwrap())
    assert (again.backend, again.tolist()) == (backend, [1.0, 2.0])
    assert (x + x.unwrap()).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("value", ["a", None, [1, 2], (1,), {}, object()])
def test_operators_leave_what_they_do_not_know_to_python(value: Any) -> None:
    x = xp.ones(2)
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+"):
        x + value
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for -"):
        value - x
    with pytest.raises(TypeError, match="'<' not supported between instances"):
        operator.lt(x, value)
    if isinstance(value, (list, tuple)):  # which Python would find unequal, whatever the values
        for compare in (operator.eq, operator.ne):
            with pytest.raises(TypeError, match="equal: x2 is of type .*; expected an arr"):
                compare(x, value)
        return
    assert (x == value) is False
    assert (x != value) is True
    with corepy.strict(), pytest.raises(TypeError, match="^equal: x2 is of type "):
        operator.eq(x, value)


class Other:
    """An array of a library that knows corepy, and takes over."""

    def __radd__(self, other: Any) -> str:
        return "taken"

    def __array_namespace__(self) -> None: ...


def test_another_library_may_take_over() -> None:
    assert xp.ones(2) + Other() == "taken"


@pytest.mark.at_once
def test_backends_of_one_device_share_their_arrays(backend: str) -> None:
    x = xp.ones(2)
    with corepy.backend_priority(["reference"]):
        y = xp.asarray([1.0, 2.0])
    total = x + y
    assert total.backend == backend
    assert (y + x).backend == "reference"
    assert total.tolist() == [2.0, 3.0]
    assert xp.concat([x, y]).tolist() == [1.0, 1.0, 1.0, 2.0]


# ---------------------------------------------------------------------------- strict mode


@pytest.mark.parametrize(
    "call",
    [
        lambda x: xp.zeros(1, dtype="float32"),
        lambda x: xp.zeros(1, device="cpu"),
        lambda x: x.to_device("cpu"),
        lambda x: xp.astype(x, "float32"),
        lambda x: xp.sum(np.ones(2)),
        lambda x: xp.ones(2, dtype=xp.int64) / xp.ones(2, dtype=xp.int64),
    ],
)
def test_strict_mode_refuses_what_the_standard_leaves_open(call: Any) -> None:
    x = xp.ones(2)
    call(x)
    with corepy.strict(), pytest.raises(TypeError):
        call(x)
    call(x)


@pytest.mark.parametrize("scalar", [np.float64(1), np.complex128(1), np.float32(1), np.int64(1)])
@together(
    ("argument", "call"),
    [
        ("add: x2", lambda x, s: x + s),
        ("add: x2", lambda x, s: x.__iadd__(s)),
        ("multiply: x2", lambda x, s: x.__imul__(s)),
        ("pow: x2", lambda x, s: x.__ipow__(s)),
        ("__setitem__: value", lambda x, s: x.__setitem__(0, s)),
        ("__setitem__: value", lambda x, s: x.__setitem__(slice(None), s)),
        ("__setitem__: value", lambda x, s: x.__setitem__(x == 1, s)),
        ("clip: min", xp.clip),
        ("clip: max", lambda x, s: xp.clip(x, None, s)),
        ("clip: max", lambda x, s: xp.clip(x, 0, s)),
        ("arange: start", lambda x, s: xp.arange(s)),
        ("arange: stop", lambda x, s: xp.arange(0, s)),
        ("arange: step", lambda x, s: xp.arange(0, 3, s)),
        ("linspace: start", lambda x, s: xp.linspace(s, 2, 3)),
        ("linspace: stop", lambda x, s: xp.linspace(0, s, 3)),
        ("full: fill_value", lambda x, s: xp.full(3, s)),
    ],
)
def test_strict_mode_takes_no_scalars_of_numpy(argument: str, call: Any, scalar: Any) -> None:
    kept, wanted = xp.ones(2), "expected an Array (strict mode takes no native arrays)"
    told = f"{argument} is of type numpy.{scalar.dtype.name}; {wanted}"
    with corepy.strict():
        for _ in range(2):  # a short way may be learnt from the first call
            with pytest.raises(TypeError, match=f"^{re.escape(told)}$"):
                call(kept, scalar)
        call(xp.ones(2), 1.0)  # Python's own pass
    assert kept.tolist() == [1.0, 1.0]
    if scalar.dtype.kind != "c":
        call(xp.ones(2), scalar)


def test_strict_is_a_switch_and_a_context() -> None:
    x, y = xp.ones(1), xp.ones(1, dtype=xp.int8)
    with corepy.strict():
        with pytest.raises(TypeError):
            x + y
        with corepy.strict(False):
            assert (x + y).dtype is xp.float64
        with pytest.raises(TypeError):
            x + y
    assert (x + y).dtype is xp.float64
    with pytest.raises(TypeError, match="^strict: on is of type int; expected a bool"):
        corepy.strict(1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, i, f: xp.logical_and(b, f), "logical_and: x2 has dtype float32"),
        (lambda b, i, f: xp.logical_and(f, b), "logical_and: x1 has dtype float32"),
        (lambda b, i, f: xp.logical_or(True, f), "logical_or: x2 has dtype float32"),
        (lambda b, i, f: xp.logical_xor(b, 1.0), "logical_xor: x2 is of type float"),
        (lambda b, i, f: 1.5 & i, "bitwise_and: x1 is of type float"),
        (lambda b, i, f: i | f, "bitwise_or: x2 has dtype float32"),
        (lambda b, i, f: f < 1j, "less: x2 is of type complex"),
        (lambda b, i, f: f < xp.ones(2, dtype=xp.complex64), "less: x2 has dtype complex64"),
        (lambda b, i, f: operator.iand(i, f), "__iand__: x2 has dtype float32"),
        (lambda b, i, f: operator.iand(f, i), "__iand__: x1 has dtype float32"),
        (lambda b, i, f: operator.ixor(i, 1.5), "__ixor__: x2 is of type float"),
        (lambda b, i, f: operator.ior(i, f.unwrap()), "__ior__: x2 has dtype float32"),
    ],
)
def test_a_refusal_names_the_operand_that_is_refused(call: Any, message: str) -> None:
    made = [xp.ones(2, dtype=dtype) for dtype in (xp.bool, xp.int32, xp.float32)]
    with pytest.raises(TypeError, match=rf"^{message}.*; expected .* dtype$"):
        call(*made)


def test_integer_division_gives_the_default_float() -> None:
    x = xp.asarray([1, 2], dtype=xp.int8)
    assert (x / 2).dtype is xp.float64
    assert (x / x).tolist() == [1.0, 1.0]
