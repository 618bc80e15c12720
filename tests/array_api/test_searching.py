"""Searching, sorting, set and utility functions agree with the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corepy.array_api as xp
from corepy._dtypes import DTYPES, PROMOTION
from tests.helpers import (
    INTEGERS,
    NAMES,
    REALS,
    agrees,
    arrays,
    assert_same,
    axes,
    broadcastable,
    function,
    oracle,
    shapes,
    to_numpy,
)

pytestmark = pytest.mark.usefixtures("backend")

NAN = float("nan")


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@given(x=arrays(REALS, shape=shapes(min_side=1), bound=3), data=st.data())
def test_arg_extremes_take_the_first(name: str, x: Any, data: st.DataObject) -> None:
    axis = data.draw(axes(x.ndim, several=False))
    agrees(name, x, axis=axis, keepdims=data.draw(st.booleans()))


def test_arg_extremes_find_the_first_nan() -> None:
    x = xp.asarray([[1.0, NAN, 0.0, NAN]])
    assert xp.argmax(x).tolist() == xp.argmin(x).tolist() == 1
    with pytest.raises(ValueError, match=r"^argmax: x.shape is \(0,\); expected at least one elem"):
        xp.argmax(xp.zeros(0))
    with pytest.raises(TypeError, match=r"^argmin: x has dtype complex128 on \S+; expected a real"):
        xp.argmin(xp.asarray([1j]))


@given(x=arrays(), data=st.data())
def test_count_nonzero(x: Any, data: st.DataObject) -> None:
    agrees("count_nonzero", x, axis=data.draw(axes(x.ndim)), keepdims=data.draw(st.booleans()))


@given(x=arrays(shape=shapes(min_dims=1), bound=1))
def test_nonzero(x: Any) -> None:
    found = agrees("nonzero", x)
    assert len(found) == x.ndim
    assert {part.dtype for part in found} == {xp.int64}


def test_nonzero_needs_a_dimension() -> None:
    with pytest.raises(
        ValueError, match=r"^nonzero: x.shape is \(\); expected at least one dimens"
    ):
        xp.nonzero(xp.asarray(1))


@given(data=st.data())
def test_searchsorted(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(REALS))
    sizes = st.sampled_from([(0,), (1,), (3,), (6,)])
    x = data.draw(arrays((dtype,), shape=sizes, bound=5))
    needles = data.draw(arrays((dtype,), bound=6))
    side = data.draw(st.sampled_from(("left", "right")))
    values = to_numpy(x)
    ordered = xp.asarray(np.sort(values).tolist(), dtype=x.dtype)
    expected = agrees("searchsorted", ordered, needles, side=side)
    if x.size:
        order = xp.asarray(np.argsort(values).tolist(), dtype=xp.int64)
        by_sorter = xp.searchsorted(x, needles, side=side, sorter=order)
        assert_same(by_sorter, oracle("asarray", expected))


def test_searchsorted_takes_a_scalar_and_checks_its_arguments() -> None:
    x = xp.asarray([1.0, 2.0, 3.0])
    assert xp.searchsorted(x, 2).tolist() == 1
    assert xp.searchsorted(x, 2.5).shape == ()
    with pytest.raises(ValueError, match="^searchsorted: side is 'middle'; expected one of"):
        xp.searchsorted(x, x, side="middle")
    with pytest.raises(
        ValueError, match=r"^searchsorted: x1.shape is \(1, 3\); expected one dimen"
    ):
        xp.searchsorted(xp.reshape(x, (1, 3)), x)
    with pytest.raises(ValueError, match=r"^searchsorted: sorter.shape is \(1,\); expected \(3,\)"):
        xp.searchsorted(x, x, sorter=xp.asarray([0]))
    with pytest.raises(
        TypeError, match=r"^searchsorted: sorter has dtype float64 on \S+; expected"
    ):
        xp.searchsorted(x, x, sorter=x)


@pytest.mark.at_once
def test_searchsorted_refuses_a_sorter_out_of_bounds() -> None:
    x = xp.asarray([3.0, 1.0, 2.0])
    assert xp.searchsorted(x, 1.5, sorter=xp.asarray([1, 2, 0], dtype=xp.uint64)).tolist() == 1
    for far in (xp.asarray([1, 2, 3]), xp.asarray([1, 2, 2**64 - 1], dtype=xp.uint64)):
        with pytest.raises(IndexError, match="^searchsorted: sorter: "):
            xp.searchsorted(x, xp.asarray([1.5]), sorter=far)


@given(data=st.data())
def test_where_broadcasts_and_promotes(data: st.DataObject) -> None:
    parts = data.draw(broadcastable(3))
    dtype = data.draw(st.sampled_from(NAMES))
    partners = tuple(n for n in NAMES if (DTYPES[dtype], DTYPES[n]) in PROMOTION)
    agrees(
        "where",
        data.draw(arrays(("bool",), shape=parts[0])),
        data.draw(arrays((dtype,), shape=parts[1])),
        data.draw(arrays(partners, shape=parts[2])),
    )


def test_where_takes_scalars_and_checks_the_condition() -> None:
    mask = xp.asarray([True, False])
    result = xp.where(mask, xp.asarray([1, 2], dtype=xp.int8), 7)
    assert result.dtype is xp.int8
    assert result.tolist() == [1, 7]
    with pytest.raises(
        TypeError, match=r"^where: condition has dtype int64 on \S+; expected the boo"
    ):
        xp.where(xp.asarray([1]), 1, xp.ones(1))
    with pytest.raises(
        ValueError, match=r"^where: operands have shapes \(2,\) and \(3,\) and \(3,"
    ):
        xp.where(mask, xp.ones(3), xp.zeros(3))


# ---------------------------------------------------------------------------- sorting


@given(x=arrays(REALS, shape=shapes(min_dims=1), bound=3), data=st.data())
def test_sort_and_stable_argsort(x: Any, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    descending = data.draw(st.booleans())
    result = agrees("sort", x, axis=axis, descending=descending)
    order = agrees("argsort", x, axis=axis, descending=descending)
    taken = np.take_along_axis(to_numpy(x), to_numpy(order), axis)
    assert taken.tolist() == to_numpy(result).tolist()
    loose = xp.sort(x, axis=axis, descending=descending, stable=False)
    assert to_numpy(loose).tolist() == to_numpy(result).tolist()


def test_descending_argsort_keeps_the_order_of_equals() -> None:
    x = xp.asarray([1, 0, 1, 0, 1])
    assert xp.argsort(x, descending=True).tolist() == [0, 2, 4, 1, 3]
    assert xp.argsort(x).tolist() == [1, 3, 0, 2, 4]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_keeps_zeros_of_both_signs_in_their_order(dtype: str, descending: bool) -> None:
    few = np.asarray([[1.0, 0.0, -0.0, NAN, 0.0], [-0.0, -2.0, 0.0, -0.0, NAN]], dtype)
    many = np.resize(np.asarray([0.0, 3.0, -0.0, -0.0, -1.0, 0.0, NAN], dtype), 20_000)
    for values, axis in ((few, 1), (few, 0), (many[:40], 0), (many, 0)):
        if values is many and xp.zeros(0).backend == "reference":  # which takes its time
            continue
        x = xp.asarray(values)
        found = to_numpy(xp.sort(x, axis=axis, descending=descending))
        order = to_numpy(xp.argsort(x, axis=axis, descending=descending))
        wanted = np.take_along_axis(values, order, axis)
        assert np.array_equal(found, wanted, equal_nan=True)
        numbers = ~np.isnan(wanted)
        assert np.array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])


@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_sorting_checks_its_arguments(name: str) -> None:
    x = xp.asarray([3, 1])
    with pytest.raises(IndexError, match=f"^{name}: axis is 1; expected -1 to 0 for a 1-D array"):
        function(name)(x, axis=1)
    with pytest.raises(TypeError, match=f"^{name}: descending is of type str; expected a bool"):
        function(name)(x, descending="yes")
    with pytest.raises(
        TypeError, match=rf"^{name}: x has dtype complex128 on \S+; expected a real"
    ):
        function(name)(xp.asarray([1j]))
    with pytest.raises(IndexError, match=f"^{name}: axis is -1; expected"):
        function(name)(xp.asarray(1))


# ---------------------------------------------------------------------------- sets


@given(data=st.data())
def test_isin(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(INTEGERS))
    x1 = data.draw(arrays((dtype,), bound=5))
    x2 = data.draw(arrays((dtype,), bound=5))
    invert = data.draw(st.booleans())
    agrees("isin", x1, x2)
    result = xp.isin(x1, x2, invert=invert)
    assert result.shape == x1.shape
    values = set(to_numpy(x2).ravel().tolist())
    expected = [(v in values) is not invert for v in to_numpy(x1).ravel().tolist()]
    assert to_numpy(result).ravel().tolist() == expected


def test_isin_takes_scalars() -> None:
    x = xp.asarray([1, 2, 3])
    assert xp.isin(x, 2).tolist() == [False, True, False]
    assert xp.isin(2, x).tolist() is True
    assert xp.isin(xp.asarray([NAN]), xp.asarray([NAN])).tolist() == [False]
    with pytest.raises(TypeError, match="^isin: x1 is of type int; expected an array in at least"):
        xp.isin(1, 2)


@given(x=arrays(bound=2))
def test_unique_functions(x: Any) -> None:
    flat = to_numpy(x).ravel()
    values, indices, inverse, counts = agrees("unique_all", x)
    assert to_numpy(values).tolist() == np.unique(flat).tolist()
    assert flat[to_numpy(indices)].tolist() == to_numpy(values).tolist()
    assert to_numpy(values)[to_numpy(inverse)].tolist() == to_numpy(x).tolist()
    assert to_numpy(counts).sum() == flat.size
    agrees("unique_counts", x)
    agrees("unique_inverse", x)
    agrees("unique_values", x)
    assert xp.unique_all(x)._fields == ("values", "indices", "inverse_indices", "counts")
    assert xp.unique_counts(x)._fields == ("values", "counts")
    assert xp.unique_inverse(x)._fields == ("values", "inverse_indices")


def test_each_nan_is_distinct() -> None:
    x = xp.asarray([NAN, 1.0, NAN])
    assert to_numpy(xp.unique_values(x)).shape == (3,)
    values, counts = xp.unique_counts(x)
    assert xp.isnan(values).tolist() == [False, True, True]
    assert counts.tolist() == [1, 1, 1]
    assert xp.unique_inverse(x).inverse_indices.shape == (3,)


# ---------------------------------------------------------------------------- utility


@pytest.mark.parametrize("name", ["all", "any"])
@given(x=arrays(bound=1), data=st.data())
def test_truth(name: str, x: Any, data: st.DataObject) -> None:
    agrees(name, x, axis=data.draw(axes(x.ndim)), keepdims=data.draw(st.booleans()))


def test_nan_is_true_and_nothing_is_all() -> None:
    assert xp.all(xp.asarray([NAN, 1.0])).tolist() is True
    assert xp.all(xp.zeros(0)).tolist() is True
    assert xp.any(xp.zeros(0)).tolist() is False


@given(data=st.data())
def test_diff(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(("int8", "uint16", "int64", "float32", "complex128")))
    x = data.draw(arrays((dtype,), shape=shapes(min_dims=1), bound=100))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = data.draw(st.integers(0, 3))
    extra = data.draw(st.booleans())
    prepend = x if extra else None
    # NumPy, not the oracle: that one stops where the axis runs out of elements.
    values = to_numpy(x)
    kwargs = {"prepend": values} if extra else {}
    expected = np.diff(values, n=n, axis=axis, **kwargs) if n else values
    result = xp.diff(x, axis=axis, n=n, prepend=prepend)
    if n == 0:
        assert result.dtype is x.dtype
        return
    assert result.dtype is x.dtype
    assert result.shape == expected.shape
    np.testing.assert_allclose(to_numpy(result), expected, rtol=1e-5, atol=1e-4)


def test_no_differences_at_all_have_memory_of_their_own() -> None:
    x = xp.asarray([1.0, 4.0])
    copied = xp.diff(x, n=0)
    copied += 1.0
    assert (x.tolist(), copied.tolist()) == ([1.0, 4.0], [2.0, 5.0])


def test_diff_of_booleans_and_bad_arguments() -> None:
    assert xp.diff(xp.asarray([True, True, False])).tolist() == [False, True]
    with pytest.raises(
        ValueError, match=r"^diff: x.shape is \(\); expected at least one dimension"
    ):
        xp.diff(xp.asarray(1))
    with pytest.raises(ValueError, match="^diff: n is -1; expected an int of at least 0"):
        xp.diff(xp.ones(3), n=-1)
    with pytest.raises(IndexError, match="^diff: axis is 1; expected"):
        xp.diff(xp.ones(3), axis=1)
