"""Elementwise loops in wide registers: NumPy's values bit by bit, and its flags."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import corepy
import corepy.array_api as xp
from corepy._extensions import extension
from corepy.backends._numpy_elementwise import floor_divide, sign
from corepy.backends._numpy_loops import accumulated
from tests.backends.arrays import unaligned
from tests.dispatch.natives import outcome, told

Array = npt.NDArray[Any]

_module: Final[Any] = extension("corepy.backends._wide_loops")[0]
WIDTHS: Final[dict[int, dict[str, dict[str, int]]]] = {} if _module is None else _module.BY_WIDTH
UFUNCS: Final = {
    "sqrt": np.sqrt,
    "sign": sign,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "multiply": np.multiply,
    "to float64": np.float64,
}
LOOP: Final = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
LENGTHS: Final = (*range(1, 70), 127, 128, 129, 1000, 1001)


def run(address: int, operands: list[Array], out: Array) -> Array:
    """Call a loop on operands of one dimension, of which some have one element."""
    parts = [*operands, out]
    places = (ctypes.c_void_p * len(parts))(*[x.ctypes.data for x in parts])
    sizes = (ctypes.c_ssize_t * 1)(out.size)
    single = [x.size == 1 and out.size > 1 for x in parts]
    steps = (ctypes.c_ssize_t * len(parts))(
        *[0 if one else x.itemsize for x, one in zip(parts, single, strict=True)]
    )
    LOOP(address)(ctypes.addressof(places), ctypes.addressof(sizes), ctypes.addressof(steps), None)
    return out


def specials(dtype: str) -> Array:
    if np.dtype(dtype).kind == "c":
        parts = specials(np.dtype(dtype).type(0).real.dtype.name)
        pairs = np.empty((parts.size, parts.size), dtype)
        pairs.real, pairs.imag = parts[:, None], parts
        return pairs.reshape(-1)
    if np.dtype(dtype).kind != "f":
        limits = np.iinfo(dtype)
        return np.array([0, 1, 2, 3, 7, 100, limits.min, limits.max, limits.max // 2], dtype)
    limits = np.finfo(dtype)
    few = [0.0, 1.0, 1.5, 2.0, 30.0, np.inf, np.nan]
    few += [limits.max, limits.tiny, limits.smallest_subnormal]
    return np.array([sign * value for value in few for sign in (1, -1)], dtype)


def samples(dtype: str) -> Iterator[Array]:
    many = np.arange(1001) * 1.37 - 600
    if np.dtype(dtype).kind in "iu":
        many = many.astype(np.int64)  # of which those that a dtype does not hold wrap around
    whole = np.concatenate([specials(dtype), many.astype(dtype)])
    for length in LENGTHS:
        for first in (0, 1, 5):
            yield whole[first : first + length]
    yield whole


def cases(*names: str) -> Any:
    return [
        pytest.param(address, name, dtype, id=f"{name}-{dtype}-{width}")
        for width, loops in WIDTHS.items()
        for name, addresses in loops.items()
        for dtype, address in addresses.items()
        if name in names
    ]


@pytest.mark.parametrize(
    ("address", "name", "dtype"),
    cases("sqrt", "sign", "isfinite", "isinf", "isnan", "to float64"),
)
def test_of_one_operand(address: int, name: str, dtype: str) -> None:
    with np.errstate(invalid="ignore"):
        for x in samples(dtype):
            expected = UFUNCS[name](x)
            found = run(address, [x], np.empty_like(expected))
            if x.dtype.kind == "c":
                equal(found.real, expected.real)
                equal(found.imag, expected.imag)
            else:
                assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("address", "name", "dtype"), cases("multiply"))
def test_products(address: int, name: str, dtype: str) -> None:
    for x in samples(dtype):
        for y in (x[::-1].copy(), x[:1], x[-1:]):
            for operands in ([x, y], [y, x]):
                expected = np.multiply(*operands)
                found = run(address, operands, np.empty_like(expected))
                assert found.tobytes() == expected.tobytes()


def divisions(dtype: str) -> Iterator[tuple[Array, Array]]:
    """Yield what is divided, and by what: pairs of special values, exact quotients, others."""
    few = specials(dtype)
    many = few
    if few.dtype.kind == "f":
        with np.errstate(all="ignore"):
            many = np.concatenate([few, few / 3, few * few.dtype.type(7)])
    yield tuple(np.stack(np.meshgrid(many, many)).reshape(2, -1))  # type: ignore[misc]
    rng = np.random.default_rng(11)
    for length in LENGTHS:
        x, y = (rng.integers(-50, 50, length).astype(dtype) for _ in range(2))
        y[y == 0] = 3
        yield x * y, y
        if few.dtype.kind == "f":
            yield (x / 3).astype(dtype), (y / 7).astype(dtype)
            yield np.nextafter(x * y, x), y


@pytest.mark.parametrize(("address", "name", "dtype"), cases("floor_divide", "remainder"))
def test_divisions(address: int, name: str, dtype: str) -> None:
    function = floor_divide if name == "floor_divide" else np.remainder
    with np.errstate(all="ignore"):
        for x, y in divisions(dtype):
            if x.dtype.kind != "f":
                x, y = x[y != 0], y[y != 0]
            for a, b in ((x, y), (x, y[-1:]), (x[:1], y), (y, x[:1])):
                if b.dtype.kind != "f" and not b.all():
                    continue
                expected = function(a, b)
                found = run(address, [a, b], np.empty_like(expected))
                equal(found, expected)
            into = x.copy()  # over the first operand
            equal(run(address, [into, y], into), function(x, y))


def rough_quotients(dtype: str) -> tuple[Array, Array, Array]:
    """Return what is divided by what, and the floors, of which NumPy's are one off at times.

    Quotients are less than what a float holds integers only of, and rounded to halves.
    """
    rng = np.random.default_rng(5)
    y = (1 + rng.random(999)).astype(dtype)
    x = (y * rng.uniform(0.5, 0.9, 999) / np.finfo(dtype).eps).astype(dtype)
    exact = [Fraction(float(a)) / Fraction(float(b)) for a, b in zip(x, y, strict=True)]
    expected = np.array([math.floor(quotient) for quotient in exact], dtype)
    assert (expected != np.floor_divide(x, y)).any()
    return x, y, expected


@pytest.mark.parametrize(
    ("address", "name", "dtype"),
    [case for case in cases("floor_divide") if case.values[2] != "int64"],
)
def test_floors_are_exact_beside_what_is_rare(address: int, name: str, dtype: str) -> None:
    x, y, expected = rough_quotients(dtype)
    for beside in (1, np.nan):
        x[500] = beside
        found = run(address, [x, y], np.empty_like(x))
        np.testing.assert_array_equal(np.delete(found, 500), np.delete(expected, 500))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sign", [1, -1])
def test_floors_that_no_loop_finds_are_exact_too(dtype: str, sign: int) -> None:
    x, y, expected = rough_quotients(dtype)
    x, y = sign * x, sign * y
    np.testing.assert_array_equal(floor_divide(x, y), expected)
    np.testing.assert_array_equal(floor_divide(x[0], y[0]), expected[0])
    many = (np.tile(part, 20) for part in (x, y))  # more than a block
    np.testing.assert_array_equal(floor_divide(*many), np.tile(expected, 20))


def equal(found: Array, expected: Array) -> None:
    """Say whether numbers are the same, zeros of one sign, and what is none is none."""
    np.testing.assert_array_equal(found, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(expected)[number])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_divisions_of_the_namespace(name: str, dtype: str) -> None:
    """Of few elements and many: also what is said of them, and that zeros divide no integers."""
    function = floor_divide if name == "floor_divide" else np.remainder
    with corepy.set_routes("off"):
        for x, y in divisions(dtype):
            for size in (x.size, 20_000):
                a, b = np.resize(x, size), np.resize(y, size)
                made = xp.asarray(a), xp.asarray(b)
                for _ in range(2):  # the first call fills the table
                    if a.dtype.kind != "f" and not b.all():
                        with pytest.raises(ZeroDivisionError, match=f"^{name}: "):
                            getattr(xp, name)(*made)
                        continue
                    found, said = told(lambda: getattr(xp, name)(*made))  # noqa: B023
                    expected, wanted = told(lambda: function(a, b))  # noqa: B023
                    assert said == wanted
                    equal(np.asarray(found), expected)


@pytest.mark.parametrize(("address", "name", "dtype"), cases("sum", "prod"))
def test_rows_and_columns_are_reduced(address: int, name: str, dtype: str) -> None:
    ufunc = np.add if name == "sum" else np.multiply
    rng = np.random.default_rng(3)
    limits = np.iinfo(dtype)
    for length in LENGTHS:
        x = rng.integers(limits.min, limits.max, length, dtype, endpoint=True)
        into = x[:1] ^ x.dtype.type(5)
        expected = ufunc(into, ufunc.reduce(x))
        reduce(address, into, x, 0)
        assert into.tobytes() == expected.tobytes()
        columns = x[::-1].copy()
        expected = ufunc(columns, x)
        reduce(address, columns, x, x.itemsize)
        assert columns.tobytes() == expected.tobytes()


def reduce(address: int, into: Array, x: Array, step: int) -> None:
    """Call a loop as a ufunc's reduction does: what it adds to is the result too."""
    places = (ctypes.c_void_p * 3)(into.ctypes.data, x.ctypes.data, into.ctypes.data)
    steps = (ctypes.c_ssize_t * 3)(step, x.itemsize, step)
    sizes = (ctypes.c_ssize_t * 1)(x.size)
    LOOP(address)(ctypes.addressof(places), ctypes.addressof(sizes), ctypes.addressof(steps), None)


@pytest.mark.parametrize(("address", "name", "dtype"), cases("clip"))
def test_clip(address: int, name: str, dtype: str) -> None:
    bounds: list[tuple[float, float]] = [(-30, 30), (0, 1), (2, -2), (5, 5)]
    if np.dtype(dtype).kind == "f":
        bounds += [(-0.0, 0.0), (0.0, -0.0), (-np.inf, np.inf), (0.0, np.inf)]
    for low, high in bounds:
        one, other = (np.asarray([bound]).astype(dtype) for bound in (low, high))
        for x in samples(dtype):
            found = run(address, [x, one, other], np.empty_like(x))
            assert found.tobytes() == np.clip(x, one[0], other[0]).tobytes()
            many = np.resize(one + np.arange(7).astype(dtype), x.size)
            for least, most in ((many, other), (one, many), (many, many[::-1].copy())):
                found = run(address, [x, least, most], np.empty_like(x))
                np.testing.assert_array_equal(found, np.clip(x, least, most))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint64"])
def test_the_namespace_gives_what_numpy_does(dtype: str) -> None:
    floating = np.dtype(dtype).kind == "f"
    names = ["sign", "multiply", *(["sqrt", "isfinite", "isinf", "isnan"] if floating else [])]
    with corepy.set_routes("off"):
        for size in (1, 9, 500, 20_000):
            x = np.resize(specials(dtype), size)
            for name in names:
                operands = [x] * (2 if name == "multiply" else 1)
                made = [xp.asarray(each) for each in operands]
                for _ in range(2):  # the first call fills the table
                    found = outcome(lambda: getattr(xp, name)(*made))  # noqa: B023
                    assert found == outcome(lambda: UFUNCS[name](*operands))  # noqa: B023
            for low, high in ((1, 1000), (3, 2), (0, 7)):
                made_x, bounds = xp.asarray(x), np.array([low, high], dtype)
                for _ in range(2):
                    found = outcome(lambda: xp.clip(made_x, low, high))  # noqa: B023
                    assert found == outcome(lambda: np.clip(x, *bounds))  # noqa: B023


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_clip_between_what_is_no_number(dtype: str) -> None:
    x = xp.asarray(specials(dtype))
    for low, high in ((float("nan"), 1.0), (0.0, float("nan"))):
        assert bool(xp.all(xp.isnan(xp.clip(x, low, high))))
    low = xp.asarray(-1.0, dtype=x.dtype)
    assert xp.clip(x, low, 1)[2] == 1
    assert xp.clip(x, -1, xp.ones_like(x))[5] == -1
    with pytest.raises(OverflowError):
        xp.clip(xp.ones(3, dtype=xp.int32), 0, 2**40)


RUNNING: Final = {"cumulative_sum": np.add, "cumulative_prod": np.multiply}


@pytest.mark.parametrize(("address", "name", "dtype"), cases(*RUNNING))
def test_running_values(address: int, name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        for x in samples(dtype):
            expected = RUNNING[name].accumulate(x)
            found = x.copy()
            run(address, [found[:-1], x[1:]], found[1:])
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint64"])
def test_running_values_of_the_namespace_are_numpys(name: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    whole = rng.integers(1, 4, 20_000).astype(dtype)
    if np.dtype(dtype).kind == "f":
        whole = (whole / 2).astype(dtype)
    function, ufunc = getattr(xp, name), RUNNING[name]
    for x in (specials(dtype), whole[:1], whole[:1000], whole, whole.reshape(10, 2000)):
        for axis in range(x.ndim):
            made = xp.asarray(x)
            for _ in range(2):  # the first call fills the table
                found = outcome(lambda: function(made, axis=axis))  # noqa: B023
                assert found == outcome(lambda: ufunc.accumulate(x, axis))  # noqa: B023
        with np.errstate(all="ignore"):
            initial = np.asarray(function(made, axis=-1, include_initial=True))
            expected = getattr(np, name)(x, axis=-1, include_initial=True)
        np.testing.assert_array_equal(initial, expected)


def test_running_values_that_are_left_to_numpy() -> None:
    x = np.ones((4, 5))
    found = accumulated("cumulative_sum", x, 1)
    assert (found is not None) == bool(WIDTHS)
    for operand, axis in ((x, 0), (x.T, 1), (x[:0], 1), (unaligned(x), 1)):
        assert accumulated("cumulative_sum", operand, axis) is None
