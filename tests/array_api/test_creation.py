"""Creation functions but `asarray` and `from_dlpack`: values, default dtypes, and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corepy.array_api as xp
from corepy._dtypes import DTYPES
from tests.helpers import (
    FLOATING,
    NAMES,
    REALS,
    agrees,
    arrays,
    assert_same,
    assert_values,
    elements,
    function,
    oracle,
    shapes,
    to_numpy,
)
from tests.together import together

pytestmark = pytest.mark.usefixtures("backend")

INF, NAN = float("inf"), float("nan")


# ---------------------------------------------------------------------------- filled arrays


@pytest.mark.parametrize("name", ["zeros", "ones"])
@given(shape=shapes(), dtype=st.sampled_from(NAMES))
def test_zeros_and_ones(name: str, shape: tuple[int, ...], dtype: str) -> None:
    agrees(name, shape, dtype=DTYPES[dtype])
    assert function(name)(shape).dtype is xp.float64
    assert function(name)(3).shape == (3,)
    assert xp.empty(shape, dtype=DTYPES[dtype]).shape == shape


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like"])
@given(x=arrays(), dtype=st.sampled_from(NAMES))
def test_like(name: str, x: Any, dtype: str) -> None:
    same, other = function(name)(x), function(name)(x, dtype=DTYPES[dtype])
    assert (same.shape, same.dtype) == (x.shape, x.dtype)
    assert (other.shape, other.dtype) == (x.shape, DTYPES[dtype])
    assert same.device is x.device
    assert same.backend == x.backend
    if name != "empty_like":
        assert to_numpy(other).tolist() == to_numpy(oracle(name, x, dtype=DTYPES[dtype])).tolist()


@given(shape=shapes(), data=st.data())
def test_full(shape: tuple[int, ...], data: st.DataObject) -> None:
    dtype = DTYPES[data.draw(st.sampled_from(NAMES))]
    value = data.draw(elements(dtype))
    agrees("full", shape, value, dtype=dtype)
    assert_same(
        xp.full_like(xp.zeros(shape, dtype=dtype), value), oracle("full", shape, value, dtype=dtype)
    )


@pytest.mark.parametrize(
    ("value", "dtype"), [(True, "bool"), (1, "int64"), (1.0, "float64"), (1j, "complex128")]
)
def test_full_takes_its_dtype_from_the_value(value: Any, dtype: str) -> None:
    assert xp.full(2, value).dtype.name == dtype
    assert xp.full(2, xp.asarray(value)).tolist() == [value, value]


@pytest.mark.parametrize("size", [511, 512, 513, 1025, 100_003])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float32", "int64", "complex128"])
def test_large_ones_are_filled_to_the_end(size: int, dtype: str) -> None:
    value = {"bool": True, "complex128": 1 - 2j}.get(dtype, 7)
    kind = getattr(xp, dtype)
    for filled, expected in (
        (xp.full(size, value, dtype=kind), value),
        (xp.ones(size, dtype=kind), 1),
    ):
        assert bool(xp.all(filled == xp.asarray(expected, dtype=kind)))
        assert filled.shape == (size,)


@pytest.mark.parametrize("name", ["full", "full_like"])
def test_fill_value_must_fit(name: str) -> None:
    def fill(value: Any, dtype: str) -> Any:
        if name == "full":
            return xp.full((2,), value, dtype=DTYPES[dtype])
        return xp.full_like(xp.zeros(2, dtype=DTYPES[dtype]), value)

    with pytest.raises(
        OverflowError, match=f"^{name}: fill_value is 300; expected 0 to 255 for ui"
    ):
        fill(300, "uint8")
    with pytest.raises(OverflowError, match=f"^{name}: fill_value is 1e.300; expected at most"):
        fill(1e300, "float32")
    with pytest.raises(TypeError, match=f"^{name}: fill_value is of type complex; expected a real"):
        fill(1j, "float64")
    with pytest.raises(ValueError, match=f"^{name}: fill_value is 1.5; expected a whole number"):
        fill(1.5, "int8")
    with pytest.raises(
        TypeError, match=f"^{name}: fill_value is of type NoneType; expected a bool"
    ):
        fill(None, "int8")


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
@together(
    ("shape", "error", "message"),
    [
        (-1, ValueError, "shape is -1; expected an int of at least 0"),
        ((2, -3), ValueError, "shape is -3; expected an int of at least 0"),
        (1.0, TypeError, "shape is of type float; expected an int"),
        (True, TypeError, "shape is of type bool; expected an int"),
        ("12", TypeError, "shape is of type str; expected an int"),
        (None, TypeError, "shape is of type NoneType; expected an int"),
        ((2, None), TypeError, "shape is of type NoneType; expected an int"),
        (2**63, ValueError, f"shape is {2**63}; expected an int of at least 0 and below 2**63"),
    ],
)
def test_bad_shapes_raise(name: str, shape: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        function(name)(shape)
    assert str(caught.value).startswith(f"{name}: {message}")


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_sizes_beyond_memory_raise_at_once(name: str) -> None:
    for shape in ((2**62,), (2**40, 2**40), (2**31, 2**31)):
        with pytest.raises((MemoryError, ValueError), match=f"^{name}: "):
            function(name)(shape)


def test_sizes_beyond_memory_are_refused_beside_one_of_zero(backend: str) -> None:
    """Libraries multiply them all the same: XLA ended the process, Dask made chunks of them."""
    nothing = xp.zeros((1, 0))
    for call in (
        lambda: xp.zeros((2**62, 0)),
        lambda: xp.eye(0, 2**47),
        lambda: xp.broadcast_to(nothing, (2**62, 0)),
        lambda: xp.reshape(nothing, (2**40, 0, 2**40)),
    ):
        with pytest.raises(MemoryError, match=r"elements, sizes of 0 aside; expected fewer than"):
            call()
    # XLA takes a tenth of a microsecond for each row of nothing.
    assert xp.reshape(nothing, (2**20, 0)).shape == (2**20, 0)


# ---------------------------------------------------------------------------- ranges


@given(data=st.data())
def test_arange_of_integers(data: st.DataObject) -> None:
    start, stop = data.draw(st.tuples(*[st.integers(-50, 50)] * 2))
    step = data.draw(st.integers(-7, 7).filter(bool))
    result = agrees("arange", start, stop, step)
    assert result.tolist() == list(range(start, stop, step))
    assert xp.arange(abs(stop)).tolist() == list(range(abs(stop)))
    for name in ("int8", "uint8", "float32"):
        if name == "uint8" and min(start, stop) < 0:
            continue
        assert xp.arange(start, stop, step, dtype=DTYPES[name]).tolist() == result.tolist()


@given(start=st.integers(-40, 40), length=st.integers(0, 5), step=st.integers(1, 12))
def test_arange_of_floats(start: float, length: int, step: float) -> None:
    start, step = start / 4, step / 4  # exact, so that rounding does not decide the length
    stop = start + length * step
    result = xp.arange(start, stop, step)
    assert result.dtype is xp.float64
    assert result.size == max(0, math.ceil((stop - start) / step))
    assert_values(result, start + step * np.arange(result.size), 1e-12)


@pytest.mark.parametrize(
    ("args", "dtype"),
    [
        ((2**24, 2**24 + 8), "float32"),
        ((1e16, 1e16 + 16, 1.0), "float64"),
        ((-1e16, -1e16 - 40, -2.5), "float64"),
        ((1.0, 3.0, 0.1), "float64"),
        ((1e8, 1e8 + 500, 0.5), "float32"),
        ((1e6, 1e6 + 20_000, 0.1), "float64"),  # which threads make
    ],
)
def test_arange_of_floats_keeps_the_step_beside_a_great_start(args: Any, dtype: str) -> None:
    start, stop, step = (*args, 1)[:3]
    exact = start + step * np.arange(math.ceil((stop - start) / step), dtype=np.float64)
    for _ in range(2):  # the second call may know a shorter way
        result = xp.arange(*args, dtype=DTYPES[dtype])
        assert result.shape == exact.shape
        error = np.abs(to_numpy(result) - exact)
        assert error.max() <= np.spacing(np.abs(exact.astype(dtype))).max()


@pytest.mark.parametrize("args", [(10, 0, -2.5), (0, 3, 0.5), (1.5, 6, 1.5), (0.5, 3)])
@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_arange_of_fractions_makes_integers(args: Any, dtype: str) -> None:
    found = to_numpy(xp.arange(*args, dtype=DTYPES[dtype]))
    np.testing.assert_array_equal(found, np.arange(*args).astype(dtype))


@together(
    "args",
    [
        *((1.0, 2, 1 / 3), (0, 1, 0.1), (0.1, 0.7, 0.2), (0, -1, -0.1), (1, 1.3, 0.1), (0, 7, 0.7)),
        *((1e16, 1e16 + 64, 6.4), (5.0, 5.0, 0.3), (0.0, 1e-300, 1.0), (-1e300, 1e300, 1e299)),
    ],
)
def test_arange_of_floats_has_as_many_elements_as_the_standard_counts(args: Any) -> None:
    start, stop, step = args
    assert xp.arange(*args).shape == (math.ceil((stop - start) / step),)


def test_arange_of_floats_from_zero_is_the_multiples_of_the_step() -> None:
    for stop in (1.0, 2000.0):
        found = to_numpy(xp.arange(0.0, stop, 0.1))
        np.testing.assert_array_max_ulp(found, 0.1 * np.arange(found.size), 1)


@pytest.mark.parametrize("args", [(0.0, 1e300, 1e300), (-3e38, 4e38, 6e38), (-3e38, 4e38, 2e38)])
def test_arange_of_floats_has_steps_beyond_the_dtype(args: tuple[float, float, float]) -> None:
    found = to_numpy(xp.arange(*args, dtype=xp.float32))
    np.testing.assert_array_max_ulp(found, np.arange(*args).astype("float32"), 1)


@pytest.mark.parametrize("ends", [(0, -(2**2000), 1), (2**2000, 0, 1), (0, 2**2000, -1)])
def test_ranges_of_nothing_between_great_integers(ends: Any) -> None:
    assert xp.arange(*ends).tolist() == []


@pytest.mark.parametrize("ends", [(0, -(2**2000), -1), (2**2000, 0, -1), (0, 2**2000, 2**1999)])
def test_ranges_of_great_integers_raise(ends: Any) -> None:
    with pytest.raises((OverflowError, ValueError, MemoryError), match="^arange: "):
        xp.arange(*ends)


def test_a_range_between_far_ends_against_its_step_is_empty() -> None:
    for _ in range(2):  # a second call may go a shorter way
        assert xp.arange(1.7e308, -1.7e308, 1.0).shape == (0,)
        assert xp.arange(-1.7e308, 1.7e308, -1.0).shape == (0,)
        assert xp.arange(0.0, 1.0, 0.5).shape == (2,)


@together(
    ("args", "kwargs", "error", "message"),
    [
        ((0, 5, 0), {}, ValueError, "arange: step is 0; expected a number other than 0"),
        ((0, INF), {}, ValueError, "arange: stop is inf; expected a finite number"),
        ((NAN,), {}, ValueError, "arange: "),
        (("3",), {}, TypeError, "arange: start is of type str; expected an int or float"),
        ((1j,), {}, TypeError, "arange: start is of type complex; expected an int or float"),
        ((True,), {}, TypeError, "arange: start is of type bool; expected an int or float"),
        ((-2, 3.5), {"dtype": "uint8"}, OverflowError, "arange: start is -2; expected 0 to 255"),
        ((0, 200, 0.5), {"dtype": "int8"}, OverflowError, "arange: last value is 199; expected"),
        ((300,), {"dtype": "int8"}, OverflowError, "arange: last value is 299; expected -128 to"),
        (
            (1e300, 3e300, 1e300),
            {"dtype": "float32"},
            OverflowError,
            "arange: start is 1e+300; ex",
        ),
        ((0.0, 3e39, 1e39), {"dtype": "float32"}, OverflowError, "arange: last value is 2e+39; ex"),
        ((3,), {"dtype": "bool"}, ValueError, "arange: dtype is 'bool'; expected a real-valued"),
        ((3,), {"dtype": "float16"}, ValueError, "arange: dtype is 'float16'; expected one of bo"),
        ((2**62,), {}, (MemoryError, ValueError), "arange: "),
        ((0, 1e308, 1e-10), {}, MemoryError, "arange: the result has "),
        ((0, 10**400, 0.5), {}, OverflowError, "arange: stop is an integer beyond the range of f"),
        ((-1.7e308, 1.7e308, 1e308), {}, OverflowError, "arange: the distance of start and stop"),
        ((10**39, 10**39 + 3), {"dtype": "float32"}, OverflowError, "arange: start is 1000"),
    ],
)
def test_bad_ranges_raise(args: Any, kwargs: Any, error: Any, message: str) -> None:
    with pytest.raises(error) as caught:
        xp.arange(*args, **kwargs)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "bounds", [(10**30, 5), (5, 10**30, -1), (-(2**63), -(2**64)), (1e300, 0.0)]
)
@pytest.mark.parametrize("dtype", [None, "float32", "int64"])
def test_nothing_lies_between_bounds_that_no_dtype_holds(
    bounds: tuple[float, ...], dtype: str | None
) -> None:
    found = xp.arange(*bounds, dtype=None if dtype is None else DTYPES[dtype])
    assert found.shape == (0,)
    default = xp.float64 if isinstance(bounds[0], float) else xp.int64
    assert found.dtype == (default if dtype is None else DTYPES[dtype])


@pytest.mark.parametrize("size", [16_383, 16_384, 262_144, 1_000_003])
def test_large_zeros_are_zero(size: int) -> None:
    for shape in (size, (size,), (1, size, 1)):
        xp.ones(shape)  # whose memory the next one may get
        for made in (xp.zeros(shape), xp.zeros_like(xp.empty(shape))):
            assert made.size == size
            assert int(xp.count_nonzero(made)) == 0


@given(data=st.data())
def test_linspace(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(FLOATING))
    start, stop = (data.draw(elements(DTYPES[dtype], 100.0)) for _ in range(2))
    num = data.draw(st.integers(0, 6))
    endpoint = data.draw(st.booleans())
    result = xp.linspace(start, stop, num, dtype=DTYPES[dtype], endpoint=endpoint)
    assert result.dtype.name == dtype
    expected = np.linspace(start, stop, num, endpoint=endpoint)
    assert_values(result, expected, 1e-5 if dtype in ("float32", "complex64") else 1e-12)
    if num > 1:
        assert complex(result[0]) == start
        if endpoint:
            assert complex(result[-1]) == stop


def test_linspace_checks_its_arguments() -> None:
    assert xp.linspace(0, 1, 2).dtype is xp.float64
    assert xp.linspace(0, 1j, 2).dtype is xp.complex128
    with pytest.raises(ValueError, match="^linspace: num is -1; expected an int of at least 0"):
        xp.linspace(0, 1, -1)
    with pytest.raises(TypeError, match="^linspace: num is of type float; expected an int"):
        xp.linspace(0, 1, 2.5)
    with pytest.raises(TypeError, match="^linspace: start is of type str"):
        xp.linspace("0", 1, 2)
    with pytest.raises((TypeError, ValueError), match="^linspace: "):
        xp.linspace(0, 1j, 2, dtype=xp.float64)
    with pytest.raises(OverflowError, match="^linspace: stop is an integer beyond the range of fl"):
        xp.linspace(0, 10**400, 3)
    for end, dtype in ((1e39, xp.float32), (1e39j, xp.complex64), (10**39, xp.float32)):
        with pytest.raises(OverflowError, match="^linspace: start is .*; expected at most 3.40282"):
            xp.linspace(end, 0, 3, dtype=dtype)


@pytest.mark.parametrize(
    ("ends", "num", "dtype", "endpoint", "expected"),
    [
        ((0, 10), 11, "int64", True, list(range(11))),
        ((0, -10), 4, "int16", True, [0, -4, -7, -10]),
        ((0.5, 3.5), 4, "uint8", True, [0, 1, 2, 3]),
        ((-0.5, 255.9), 1, "int32", True, [-1]),
        ((0, 255.9), 2, "uint8", True, [0, 255]),
        ((2**63 - 1, 2**63 - 5), 5, "int64", True, [2**63 - 1 - i for i in range(5)]),
        ((2**64 - 1, 0), 2, "uint64", False, [2**64 - 1, 2**63 - 1]),
        ((3, 9), 0, "int8", True, []),
        ((0, 256), 256, "uint8", False, list(range(256))),
        ((4, -132.5), 3, "int8", False, [4, -42, -87]),
        ((0.1, 2**61 + 0.5), 3, "int64", True, [0, 2**60, 2**61]),
    ],
)
def test_linspace_of_integers_rounds_down(
    ends: Any, num: int, dtype: str, endpoint: bool, expected: list[int]
) -> None:
    found = xp.linspace(*ends, num, dtype=getattr(xp, dtype), endpoint=endpoint)
    assert (found.dtype.name, found.tolist()) == (dtype, expected)


def test_linspace_of_integers_has_no_error_of_a_step() -> None:
    found = xp.linspace(0, 58, 201, dtype=xp.int64)  # 28 in NumPy, whose step is less than 0.29
    assert int(found[100]) == 29
    for end in (np.inf, np.nan):
        with pytest.raises(ValueError, match="^linspace: stop is (inf|nan); expected a finite num"):
            xp.linspace(0, end, 2, dtype=xp.int64)
    with pytest.raises(OverflowError, match="^linspace: stop is 256; expected 0 to 255"):
        xp.linspace(0, 256, 2, dtype=xp.uint8)
    with pytest.raises(OverflowError, match="^linspace: stop is 600; expected 0 to 255"):
        xp.linspace(0, 600, 2, dtype=xp.uint8, endpoint=False)
    with pytest.raises(OverflowError, match="^linspace: start is -0.5; expected 0 to 255"):
        xp.linspace(-0.5, 2, 2, dtype=xp.uint8)
    with pytest.raises(OverflowError, match="^linspace: stop is 1000.*; expected -128 to 127"):
        xp.linspace(0, 10**400, 2, dtype=xp.int8)
    for start in (0, 0.1):
        with pytest.raises(MemoryError, match="^linspace: "):
            xp.linspace(start, 1, 2**46, dtype=xp.int64)
    with pytest.raises(ValueError, match="^linspace: dtype is 'bool'; expected "):
        xp.linspace(0, 1, 2, dtype=xp.bool)
    with pytest.raises(ValueError, match="^linspace: dtype is 'int64'; expected a complex"):
        xp.linspace(0, 1j, 2, dtype=xp.int64)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [1, 2, 7])
def test_linspace_up_to_the_greatest_numbers_overflows_nowhere(num: int, endpoint: bool) -> None:
    for dtype in (xp.float64, xp.float32):
        info = xp.finfo(dtype)
        most = info.max
        for start, stop in ((-most, most), (0.0, most), (most, 0.0), (most, -most / 2)):
            parts = max(1, num - endpoint)
            exact = [start * (1 - i / parts) + stop * (i / parts) for i in range(num)]
            found = xp.linspace(start, stop, num, dtype=dtype, endpoint=endpoint)
            assert to_numpy(found) == pytest.approx(exact, rel=0, abs=4 * info.eps * most)
        ends = complex(-most, most), complex(most, -most)
        wide = xp.complex128 if dtype is xp.float64 else xp.complex64
        spread = to_numpy(xp.linspace(*ends, num, dtype=wide, endpoint=endpoint))
        assert np.isfinite(spread).all()


def test_linspace_between_great_ends() -> None:
    assert xp.linspace(0, 2**64, 3).tolist() == [0.0, 2.0**63, 2.0**64]
    assert xp.linspace(10**300, 10**301, 2).tolist() == [1e300, 1e301]
    for most, dtype in ((1.7e308, xp.float64), (3e38, xp.float32)):
        eps = xp.finfo(dtype).eps
        found = xp.linspace(-most, most, 5, dtype=dtype)
        assert to_numpy(found) == pytest.approx(
            [-most, -most / 2, 0.0, most / 2, most], rel=4 * eps, abs=4 * eps * most
        )
        open_ended = xp.linspace(most, -most, 4, dtype=dtype, endpoint=False)
        assert to_numpy(open_ended) == pytest.approx(
            [most, most / 2, 0.0, -most / 2], rel=4 * eps, abs=4 * eps * most
        )
        assert to_numpy(xp.linspace(-most, most, 1, dtype=dtype)).tolist() == pytest.approx([-most])


# ---------------------------------------------------------------------------- matrices


@given(
    rows=st.integers(0, 4),
    columns=st.one_of(st.none(), st.integers(0, 4)),
    k=st.integers(-6, 6),
    dtype=st.sampled_from(NAMES),
)
def test_eye(rows: int, columns: int | None, k: int, dtype: str) -> None:
    agrees("eye", rows, columns, k=k, dtype=DTYPES[dtype])


@pytest.mark.parametrize("k", [2**40, -(2**40), 2**100, -(2**100)])
def test_diagonals_far_away_are_empty(k: int) -> None:
    assert xp.eye(2, k=k).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    x = xp.ones((2, 2))
    full, empty = [[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]
    assert xp.tril(x, k=k).tolist() == (full if k > 0 else empty)
    assert xp.triu(x, k=k).tolist() == (empty if k > 0 else full)


@pytest.mark.parametrize("name", ["tril", "triu"])
@given(x=arrays(shape=shapes(min_dims=2)), k=st.integers(-4, 4))
def test_triangles(name: str, x: Any, k: int) -> None:
    agrees(name, x, k=k)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@given(data=st.data())
def test_meshgrid(indexing: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(REALS))
    count = data.draw(st.integers(0, 3))
    vectors = [
        data.draw(arrays((dtype,), shape=st.integers(0, 3).map(lambda n: (n,))))
        for _ in range(count)
    ]
    result = xp.meshgrid(*vectors, indexing=indexing)
    assert isinstance(result, tuple)
    expected = np.meshgrid(*map(to_numpy, vectors), indexing=indexing)
    assert len(result) == count
    for part, wanted in zip(result, expected, strict=True):
        assert part.dtype.name == dtype
        assert_values(part, wanted)


def test_grids_have_memory_of_their_own(backend: str) -> None:
    x, y = xp.asarray([1.0, 2.0]), xp.asarray([5.0])
    for grids in (xp.meshgrid(x, y), xp.meshgrid(x), xp.meshgrid(y, x, indexing="ij")[::-1]):
        before = grids[0] + 0
        x[0] = 3.0
        assert xp.all(grids[0] == before)
        grids[0][...] = 7.0
        assert xp.all(x == xp.asarray([3.0, 2.0]))
        x[0] = 1.0


def test_meshgrid_checks_its_arguments() -> None:
    with pytest.raises(ValueError, match="^meshgrid: indexing is 'ab'; expected one of"):
        xp.meshgrid(xp.ones(2), indexing="ab")
    with pytest.raises((TypeError, ValueError), match="^meshgrid: arrays.*0"):
        xp.meshgrid(xp.ones((2, 2)))
