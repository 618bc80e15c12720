"""Statistical functions agree with the oracle over dtypes, axes and keywords."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corepy.array_api as xp
from corepy._dtypes import DTYPES
from tests.helpers import (
    FLOATING,
    FLOATS,
    NUMERIC,
    REALS,
    agrees,
    arrays,
    assert_values,
    axes,
    function,
    shapes,
)

pytestmark = pytest.mark.usefixtures("backend")

NAN = float("nan")
#: Sums and products of few moderate numbers: order of summation costs little.
CLOSE = {"float32": 1e-4, "complex64": 1e-4, "float64": 1e-11, "complex128": 1e-11}


def tolerance(x: Any) -> float | None:
    return CLOSE.get(x.dtype.name)


@pytest.mark.parametrize("name", ["max", "min"])
@given(x=arrays(REALS, shape=shapes(min_side=1)), data=st.data())
def test_extremes(name: str, x: Any, data: st.DataObject) -> None:
    agrees(name, x, axis=data.draw(axes(x.ndim)), keepdims=data.draw(st.booleans()))


@pytest.mark.parametrize("name", ["sum", "prod"])
@given(x=arrays(NUMERIC, bound=6.0), data=st.data())
def test_sum_and_prod(name: str, x: Any, data: st.DataObject) -> None:
    axis, keepdims = data.draw(axes(x.ndim)), data.draw(st.booleans())
    result = agrees(name, x, tolerance=tolerance(x), axis=axis, keepdims=keepdims)
    if x.dtype.rank == 1:
        assert result.dtype.bits == 64
        assert result.dtype.kind == x.dtype.kind
    for wide in (xp.float64, xp.complex128):
        if wide.rank >= x.dtype.rank and x.dtype.rank in (wide.rank, 1):
            found = function(name)(x, axis=axis, keepdims=keepdims, dtype=wide)
            assert found.dtype is wide
            exact = agrees(name, xp.astype(x, wide), axis=axis, keepdims=keepdims, tolerance=1e-11)
            assert_values(found, exact, 1e-11)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@given(x=arrays(NUMERIC, shape=shapes(min_dims=1), bound=6.0), data=st.data())
def test_cumulative(name: str, x: Any, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    initial = data.draw(st.booleans())
    agrees(name, x, tolerance=tolerance(x), axis=axis, include_initial=initial)


@given(x=arrays(FLOATING, shape=shapes(min_side=1), bound=1e3), data=st.data())
def test_mean(x: Any, data: st.DataObject) -> None:
    kwargs = {"axis": data.draw(axes(x.ndim)), "keepdims": data.draw(st.booleans())}
    agrees("mean", x, tolerance=tolerance(x), **kwargs)


@pytest.mark.parametrize("name", ["std", "var"])
@given(x=arrays(FLOATS, shape=shapes(min_dims=1, min_side=2), bound=10.0), data=st.data())
def test_spread(name: str, x: Any, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    correction = data.draw(st.sampled_from((0, 1, 0.0, 0.5)))
    # The square root of a rounding error is no small number: constant rows are compared coarsely.
    close = (CLOSE[x.dtype.name] * 100) ** 0.5 if name == "std" else CLOSE[x.dtype.name] * 100
    agrees(
        name,
        x,
        tolerance=close,
        axis=axis,
        correction=correction,
        keepdims=data.draw(st.booleans()),
    )


def test_empty_reductions() -> None:
    empty = xp.zeros((0, 2))
    assert xp.sum(empty).tolist() == 0.0
    assert xp.prod(empty).tolist() == 1.0
    assert xp.sum(empty, axis=0).tolist() == [0.0, 0.0]
    assert xp.cumulative_sum(empty, axis=0, include_initial=True).tolist() == [[0.0, 0.0]]
    for name in ("max", "min"):
        with pytest.raises(
            ValueError, match=rf"^{name}: x.shape is \(0, 2\); expected at least one"
        ):
            function(name)(empty)
        assert function(name)(empty, axis=1).shape == (0,)


@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")
def test_results_without_a_degree_of_freedom_are_nan() -> None:
    assert_values(xp.mean(xp.zeros((0,))), NAN)
    assert_values(xp.var(xp.zeros((2, 0)), axis=1), [NAN, NAN])
    assert_values(xp.std(xp.ones(1), correction=1), NAN)
    x = xp.asarray([[1.0, 2.0], [3.0, 7.0], [4.0, 4.0]])
    for spread in (xp.var, xp.std):
        assert_values(spread(x, axis=1, correction=2), [NAN, NAN, NAN])
        assert_values(spread(x, axis=0, correction=3.5), [NAN, NAN])
        assert_values(spread(x, correction=6), NAN)


@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")
@pytest.mark.parametrize("name", ["std", "var"])
def test_corrections_without_bounds(name: str) -> None:
    x = xp.asarray([1.0, 2.0, 4.0])
    for correction, expected in ((math.inf, NAN), (NAN, NAN), (-math.inf, 0.0)):
        assert_values(function(name)(x, correction=correction), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_digits_of_a_correction_next_to_the_number_of_elements(dtype: str) -> None:
    x = xp.asarray([0.0, 1.0, 2.0], dtype=DTYPES[dtype])
    for correction in (2.9999, 2.5, 0.1):
        expected = 2.0 / (3 - correction)
        assert_values(xp.var(x, correction=correction), expected, CLOSE[dtype])
        assert_values(xp.std(x, correction=correction), math.sqrt(expected), CLOSE[dtype])


@pytest.mark.parametrize("name", ["std", "var"])
@pytest.mark.parametrize("correction", [-1, -0.5])
def test_squares_of_nothing_and_of_one_element_are_zero(name: str, correction: float) -> None:
    spread = partial(function(name), correction=correction)
    assert_values(spread(xp.asarray(3.0)), 0.0)
    assert_values(spread(xp.ones((2, 1)), axis=1), [0.0, 0.0])
    assert_values(spread(xp.zeros((0,))), 0.0)
    assert_values(spread(xp.zeros((0, 3)), axis=0), [0.0, 0.0, 0.0])


@pytest.mark.parametrize("name", ["max", "min", "sum", "prod", "mean", "std", "var"])
def test_nan_spreads(name: str) -> None:
    x = xp.asarray([[1.0, NAN], [3.0, 4.0]])
    result = function(name)(x, axis=1)
    assert xp.isnan(result).tolist() == [True, False]


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_spreads_in_large_arrays(name: str, dtype: str) -> None:
    values = np.ones((8, 1024), dtype)
    values[3, 5] = NAN
    x = xp.asarray(values)
    assert math.isnan(function(name)(x))
    lost = xp.isnan(function(name)(x, axis=1, keepdims=True))
    assert lost.tolist() == [[row == 3] for row in range(8)]
    assert xp.count_nonzero(xp.isnan(function(name)(x, axis=0))) == 1


def test_float32_accumulates_in_float32() -> None:
    x = xp.asarray([1.0, 2.0], dtype=xp.float32)
    for name in ("sum", "prod", "mean", "std", "var", "max", "min"):
        assert function(name)(x).dtype is xp.float32


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_integers_wrap_in_64_bits(name: str) -> None:
    x = xp.asarray([2**63 - 1, 2], dtype=xp.int64)
    wrapped = {"sum": -(2**63) + 1, "prod": -2}[name.removeprefix("cumulative_")]
    result = function(name)(x).tolist()
    assert (result if isinstance(result, int) else result[-1]) == wrapped


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_dtype_that_would_lose_values_raises(name: str) -> None:
    x = xp.ones(3, dtype=xp.complex128)
    with pytest.raises(
        ValueError, match=f"^{name}: dtype is 'float64'; expected one that complex128"
    ):
        function(name)(x, dtype=xp.float64)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_cumulative_needs_an_axis_for_several_dimensions(name: str) -> None:
    with pytest.raises(
        ValueError, match=f"^{name}: axis is None; expected an int for 2 dimensions"
    ):
        function(name)(xp.ones((2, 2)))
    with pytest.raises(
        ValueError, match=rf"^{name}: x.shape is \(\); expected at least one dimensi"
    ):
        function(name)(xp.asarray(1.0))
    with pytest.raises(
        TypeError, match=f"^{name}: include_initial is of type int; expected a bool"
    ):
        function(name)(xp.ones(2), include_initial=1)


@pytest.mark.parametrize("name", ["max", "min", "sum", "prod", "mean", "std", "var"])
def test_bad_keywords_raise(name: str) -> None:
    x = xp.ones((2, 2))
    call = function(name)
    with pytest.raises(IndexError, match=f"^{name}: axis is 2; expected -2 to 1 for a 2-D array"):
        call(x, axis=2)
    with pytest.raises(ValueError, match=rf"^{name}: axis is \(0, -2\); expected distinct axes"):
        call(x, axis=(0, -2))
    with pytest.raises(TypeError, match=f"^{name}: axis is of type float; expected an int"):
        call(x, axis=1.0)
    with pytest.raises(TypeError, match=f"^{name}: keepdims is of type int; expected a bool"):
        call(x, keepdims=1)


@pytest.mark.parametrize(
    "name",
    ["mean", "std", "var", "max", "min", "sum", "prod", "cumulative_sum", "cumulative_prod"],
)
def test_bool_is_no_number(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}: x has dtype bool on \S+; expected a"):
        function(name)(xp.ones(2, dtype=DTYPES["bool"]))


@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")
@pytest.mark.parametrize("name", ["std", "var"])
def test_correction_is_a_number(name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name}: correction is of type str; expected an int or"):
        function(name)(xp.ones(2), correction="1")
    assert np.isnan(float(function(name)(xp.ones(2), correction=10**30)))
    with pytest.raises(OverflowError, match=f"^{name}: correction is an integer beyond"):
        function(name)(xp.ones(2), correction=10**400)
    x = xp.asarray([1.0, 2.0, 4.0])
    for number in (np.int64(1), np.float32(1), np.uint8(1)):
        found = function(name)(x, correction=number)
        assert float(found) == float(function(name)(x, correction=1))
    with pytest.raises(TypeError, match=f"^{name}: correction is of type numpy.bool; expected an"):
        function(name)(x, correction=np.True_)
