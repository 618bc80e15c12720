"""Indexing agrees with NumPy for every key of the standard, and take with the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from tests.helpers import INTEGERS, agrees, arrays, assert_values, elements, shapes, to_numpy, xps
from tests.together import together

pytestmark = pytest.mark.usefixtures("backend")


def keys(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Draw ints, slices, Ellipsis and None that select within a shape."""
    return xps.indices(shape, allow_newaxis=True, min_dims=0)


@given(x=arrays(), data=st.data())
def test_getitem(x: Any, data: st.DataObject) -> None:
    key = data.draw(keys(x.shape))
    result = x[key]
    assert type(result) is corepy.Array
    assert (result.dtype, result.backend) == (x.dtype, x.backend)
    assert_values(result, to_numpy(x)[key])


@given(x=arrays(), data=st.data())
def test_setitem_of_a_scalar(x: Any, data: st.DataObject) -> None:
    key = data.draw(xps.indices(x.shape, min_dims=0))
    value = data.draw(elements(x.dtype))
    expected = to_numpy(x)
    expected[key] = value
    x[key] = value
    assert_values(x, expected)


@given(data=st.data())
def test_setitem_broadcasts_and_promotes(data: st.DataObject) -> None:
    x = data.draw(arrays(("int32", "int64"), bound=100))
    key = data.draw(xps.indices(x.shape, min_dims=0))
    shape = to_numpy(x)[key].shape
    smaller = tuple(data.draw(st.sampled_from((1, n))) for n in shape)
    value = data.draw(arrays(("int8", "int32"), shape=smaller, bound=100))
    expected = to_numpy(x)
    expected[key] = to_numpy(value)
    same = x
    x[key] = value
    assert x is same
    assert_values(x, expected)


@given(x=arrays(bound=100), data=st.data())
def test_boolean_masks(x: Any, data: st.DataObject) -> None:
    depth = data.draw(st.integers(0, x.ndim))
    mask = data.draw(arrays(("bool",), shape=x.shape[:depth]))
    assert_values(x[mask], to_numpy(x)[to_numpy(mask)])
    expected = to_numpy(x)
    expected[to_numpy(mask)] = 1
    x[mask] = xp.asarray(1, dtype=x.dtype)
    assert_values(x, expected)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0), (0, 3, 4), (2, 0, 4), (0,)])
def test_masks_without_elements_select_nothing_of_any_size(shape: tuple[int, ...]) -> None:
    x = xp.reshape(xp.arange(24), (2, 3, 4))
    mask = xp.zeros(shape, dtype=xp.bool)
    assert_values(x[mask], np.zeros((0, *x.shape[len(shape) :]), np.int64))
    x[mask] = 7
    assert_values(x, np.arange(24).reshape(2, 3, 4))
    with pytest.raises(IndexError, match="^__getitem__: key"):
        np.asarray(x[xp.zeros((0, 5), dtype=xp.bool)])


@given(x=arrays(shape=shapes(min_dims=1, min_side=1), bound=100), data=st.data())
def test_integer_arrays_together_with_integers(x: Any, data: st.DataObject) -> None:
    shape = data.draw(shapes(max_dims=2))
    count = int(np.prod(shape))
    parts: list[Any] = []
    for size in x.shape:
        if data.draw(st.booleans()) or not parts:
            drawn = st.lists(st.integers(-size, size - 1), min_size=count, max_size=count)
            dtype = DTYPES[data.draw(st.sampled_from(("int8", "int64")))]
            parts.append(xp.reshape(xp.asarray(data.draw(drawn), dtype=dtype), shape))
        else:
            parts.append(data.draw(st.integers(-size, size - 1)))
    native = tuple(to_numpy(p) if isinstance(p, corepy.Array) else p for p in parts)
    assert_values(x[tuple(parts)], to_numpy(x)[native])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_an_integer_array_selects_along_the_first_axis(dtype: str) -> None:
    x = xp.asarray([[1, 2], [3, 4], [5, 6]])
    assert x[xp.asarray([2, 0], dtype=DTYPES[dtype])].tolist() == [[5, 6], [1, 2]]


@pytest.mark.parametrize("function", ["__getitem__", "__setitem__"])
@together(
    ("key", "error", "message"),
    [
        (3, IndexError, "key: "),
        (-4, IndexError, "key: "),
        ((0, 2), IndexError, "key: "),
        ((0, 0, 0), IndexError, "key has 3 indices; expected at most 2 for shape (3, 2)"),
        ((..., 0, ...), IndexError, "key has 2 Ellipsis; expected at most one"),
        (2**70, IndexError, "key"),
        (1.0, TypeError, "key is of type float; expected an int, slice, Ellipsis, None or Array"),
        ("a", TypeError, "key is of type str; expected an int, slice, Ellipsis, None or Array"),
        (slice(0, "a"), TypeError, "a bound of a slice in key is of type str; expected an int or"),
        (slice(None, None, 0), ValueError, ""),
        ([0, 1], TypeError, "key is of type list; expected an int, slice, Ellipsis, None or Array"),
    ],
)
def test_bad_keys_raise(function: str, key: Any, error: type[Exception], message: str) -> None:
    x = xp.zeros((3, 2))
    with pytest.raises(error) as caught:
        x[key] if function == "__getitem__" else x.__setitem__(key, 1.0)
    assert str(caught.value).startswith(f"{function}: {message}")
    assert x.tolist() == [[0.0, 0.0]] * 3


@pytest.mark.at_once
def test_bad_index_arrays_raise() -> None:
    x = xp.zeros((3, 2))
    with pytest.raises(
        IndexError, match=r"^__getitem__: key has dtype float64 on \S+; expected an"
    ):
        x[xp.asarray([0.0])]
    with pytest.raises(IndexError, match="^__getitem__: key: "):
        x[xp.asarray([5])]
    with pytest.raises(IndexError, match="^__getitem__: key"):
        x[xp.asarray([True, False])]
    with pytest.raises(IndexError, match="^__getitem__: "):
        xp.asarray(1)[0]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (1.5, TypeError, "value promotes x to float64; expected a value that keeps int64"),
        (1j, TypeError, "value promotes x to complex128; expected a value that keeps int64"),
        (2**64, OverflowError, "value is 18446744073709551616; expected"),
        ("a", TypeError, "value is of type str; expected an array"),
        (None, TypeError, "value is of type NoneType; expected an array"),
        ([1, 2], TypeError, "value is of type list; expected an array"),
    ],
)
def test_bad_values_raise(value: Any, error: type[Exception], message: str) -> None:
    x = xp.asarray([1, 2, 3])
    with pytest.raises(error) as caught:
        x[0] = value
    assert str(caught.value).startswith(f"__setitem__: {message}")
    with pytest.raises(ValueError, match="^__setitem__: value"):
        x[:2] = xp.asarray([1, 2, 3])
    with pytest.raises(
        TypeError, match="^__setitem__: value promotes x to float32; expected a valu"
    ):
        x[0] = xp.asarray(1.0, dtype=xp.float32)
    assert x.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (slice(None, None, 2), slice(None, 6)),
        (slice(None, 6), slice(None, None, 2)),
        (slice(None, None, 4), slice(2, 5)),
        (slice(3, 9), slice(None, None, 2)),
        (slice(1, None), slice(None, -1)),
        (slice(None, -1), slice(1, None)),
        (slice(None, None, -1), slice(None)),
        (slice(None, None, -2), slice(None, 6)),
    ],
)
def test_writing_what_it_overlaps_is_as_if_it_had_been_copied(target: slice, source: slice) -> None:
    wanted = np.arange(12.0)
    wanted[target] = wanted[source].copy()
    x, rows = xp.arange(12.0), xp.asarray([[0.0] * 12, list(range(12))])
    x[target] = x[source]
    rows[1, target] = rows[1, source]
    assert x.tolist() == rows[1, :].tolist() == wanted.tolist()


@pytest.mark.parametrize("size", [3, 70, 40_000])
def test_masks_that_lie_where_it_writes_are_as_if_they_had_been_copied(size: int) -> None:
    wanted = np.arange(size) % 3 == 0
    for target, source in ((slice(1, None), slice(-1)), (slice(-1), slice(1, None))):
        for value in (True, False):
            x, expected = xp.asarray(wanted), wanted.copy()
            part, mask = x[target], x[source]
            expected[target][expected[source].copy()] = value
            part[mask] = value
            assert part.tolist() == expected[target].tolist()
    x = xp.asarray(wanted)
    x[x] = False
    assert not xp.any(x)


def test_indices_that_lie_where_it_writes_are_as_if_they_had_been_copied() -> None:
    x = xp.asarray([1, 2, 3, 4, 5, 0, 6, 6])
    part, indices = x[1:], x[:-1]
    part[indices] = xp.asarray([3, 1, 0, 2, 6, 5, 4])
    expected = np.array([1, 2, 3, 4, 5, 0, 6, 6])
    expected[1:][expected[:-1].copy()] = [3, 1, 0, 2, 6, 5, 4]
    assert part.tolist() == expected[1:].tolist()
    x = xp.asarray([1, 2, 0])
    x[x] = xp.asarray([7, 8, 9])
    assert x.tolist() == [9, 7, 8]


def test_an_array_is_written_into_itself_the_other_way_round() -> None:
    x = xp.arange(5.0)
    x[::-1] = x
    assert x.tolist() == [4.0, 3.0, 2.0, 1.0, 0.0]
    x[...] = x
    assert x.tolist() == [4.0, 3.0, 2.0, 1.0, 0.0]


@given(x=arrays(shape=shapes(min_dims=1, min_side=1)), data=st.data())
def test_take(x: Any, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    size = x.shape[axis]
    indices = data.draw(st.lists(st.integers(-size, size - 1), max_size=4))
    agrees("take", x, xp.asarray(indices, dtype=xp.int64), axis=axis)


def test_take_puts_the_shape_of_the_indices_where_the_axis_was() -> None:
    x, indices = xp.reshape(xp.arange(6), (2, 3)), [[0, 2], [1, -1], [0, 0]]
    for axis in (0, 1):
        chosen = np.asarray(indices) % x.shape[axis]
        found = xp.take(x, xp.asarray(chosen.tolist()), axis=axis)
        assert_values(found, np.take(np.arange(6).reshape(2, 3), chosen, axis))


def test_take_puts_the_shape_of_the_indices_where_an_empty_axis_was() -> None:
    for shape, axis in (((0,), 0), ((2, 0), 1), ((2, 0, 4), -2)):
        for counts in ((0,), (0, 3), (3, 0)):
            found = xp.take(xp.zeros(shape), xp.zeros(counts, dtype=xp.int32), axis=axis)
            assert_values(found, np.take(np.zeros(shape), np.zeros(counts, np.int32), axis))


def test_values_may_have_leading_dimensions_of_size_one() -> None:
    x = xp.asarray([[1.0, 2.0], [3.0, 9.0]])
    x[0, 0] = xp.asarray([5.0])
    x[1, :] = xp.asarray([[[6.0, 7.0]]])
    x[x > 6] = xp.asarray([[0.0]])
    assert x.tolist() == [[5.0, 2.0], [6.0, 0.0]]
    x[xp.asarray([0, 1]), 1] = xp.asarray([[8.0, 9.0]])
    x[0, ...] = xp.asarray([[1.0], [2.0]])[:1, :]
    assert x.tolist() == [[1.0, 1.0], [6.0, 9.0]]
    with pytest.raises(ValueError, match="^__setitem__: value"):
        x[0, 0] = xp.asarray([1.0, 2.0])


@given(x=arrays(shape=shapes(min_dims=1, min_side=1)), data=st.data())
def test_take_along_axis(x: Any, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    assume(x.shape[axis] > 0)
    shape = list(x.shape)
    shape[axis] = data.draw(st.integers(0, 3))
    count, size = int(np.prod(shape)), x.shape[axis]
    drawn = st.lists(st.integers(-size, size - 1), min_size=count, max_size=count)
    indices = xp.reshape(xp.asarray(data.draw(drawn), dtype=xp.int64), tuple(shape))
    result = xp.take_along_axis(x, indices, axis=axis)
    assert result.dtype is x.dtype
    assert_values(result, np.take_along_axis(to_numpy(x), to_numpy(indices), axis))


@pytest.mark.at_once
def test_indices_out_of_bounds_are_refused_where_nothing_is_copied() -> None:
    x, far = xp.zeros((2, 0)), xp.asarray([0, 5])
    assert xp.take(x, xp.asarray([1, -2, 0]), axis=0).shape == (3, 0)
    assert x[xp.asarray([1, -2, 0]), :].shape == (3, 0)
    with pytest.raises(IndexError, match="^take: indices: index 5 is .* axis 0 with size 2; "):
        xp.take(x, far, axis=0)
    with pytest.raises(IndexError, match="^take: indices: index -3 is .* axis 0 with size 2; "):
        xp.take(x, xp.asarray([1, -3]), axis=0)
    with pytest.raises(IndexError, match="^take: indices: index 0 is .* axis 1 with size 0; "):
        xp.take(x, xp.asarray([0]), axis=1)
    for key in (far, (far,), (far, slice(None))):
        with pytest.raises(IndexError, match="^__getitem__: key: index 5 is .* axis 0 with size 2"):
            x[key]
        with pytest.raises(IndexError, match="^__setitem__: key: index 5 is .* axis 0 with size 2"):
            x[key] = 1.0
    if x.backend in ("dask", "tinygrad"):  # which find a mask's values elsewhere, or later
        return
    nothing, y = xp.asarray([False, False, False]), xp.zeros((2, 3))
    assert y[xp.asarray([1]), nothing].shape == (0,)
    for _ in range(3):  # the first call may fill a table
        for key in ((far[1:], nothing), (far[1:], far[:0]), (nothing[:2], far[1:], None)):
            with pytest.raises(IndexError, match="^__getitem__: key: index 5 is .* axis . with si"):
                y[key]
            with pytest.raises(IndexError, match="^__setitem__: key: index 5 is .* axis . with si"):
                y[key] = 1.0


@pytest.mark.at_once
@pytest.mark.parametrize("size", [3, 1_000, 70_000])
def test_a_key_out_of_bounds_writes_nothing(size: int) -> None:
    places = list(range(size))
    x, m = xp.zeros(size), xp.zeros((size, 2))
    if x.backend in ("dask", "tinygrad"):  # which find out later
        return
    for last in (size, -size - 1):
        far = xp.asarray([*places[:-1], last])
        for array, key in ((x, far), (m, (far, 1)), (m, (far, far * 0)), (m, far)):
            for value in (1.0, xp.ones_like(array if key is far else x)):
                with pytest.raises(IndexError, match="^__setitem__: key: index"):
                    array[key] = value
                assert not xp.any(array)


@pytest.mark.at_once
def test_great_indices_without_a_sign_do_not_wrap_around() -> None:
    x = xp.asarray([1, 2, 3])
    for number in (3, 2**63, 2**64 - 1):
        far = xp.asarray([0, number], dtype=xp.uint64)
        with pytest.raises(IndexError, match="^take: "):
            xp.take(x, far)
        with pytest.raises(IndexError, match="^take_along_axis: "):
            xp.take_along_axis(x, far)
        for key in (far, (far,), (..., far)):
            with pytest.raises(IndexError, match="^__getitem__: "):
                x[key]
            with pytest.raises(IndexError, match="^__setitem__: "):
                x[key] = 5
    x, near = xp.asarray([1, 2, 3]), xp.asarray([2, 0], dtype=xp.uint64)
    assert x[near].tolist() == xp.take(x, near).tolist() == [3, 1]
    assert xp.take_along_axis(x, near).tolist() == [3, 1]
    x[near] = xp.asarray([7, 8])
    assert x.tolist() == [8, 2, 7]


@pytest.mark.at_once
def test_take_checks_its_arguments() -> None:
    x = xp.zeros((2, 3))
    two = xp.asarray([0, 1])
    for call, error, message in (
        (lambda: xp.take(x, two), ValueError, "take: axis is None; expected an int for 2 dimens"),
        (lambda: xp.take(x, two, axis=2), IndexError, "take: axis is 2; expected -2 to 1"),
        (lambda: xp.take(x, xp.asarray([5]), axis=0), IndexError, "take: "),
        (lambda: xp.take(x, x, axis=0), TypeError, "take: indices has dtype float64 on "),
        (lambda: xp.take(x, [0], axis=0), TypeError, "take: indices is of type list; expected"),
        (lambda: xp.take_along_axis(x, two), ValueError, "take_along_axis: indices.shape is (2,)"),
        (
            lambda: xp.take_along_axis(x, xp.asarray([[9]]), axis=1),
            IndexError,
            "take_along_axis: ",
        ),
        (
            lambda: xp.take_along_axis(x, xp.zeros((5, 1), dtype=xp.int64), axis=1),
            ValueError,
            "take_along_axis: operands have shapes (2, 3) and (5, 1)",
        ),
    ):
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize("far", [2**63, 2**70, -(2**70)])
def test_ints_beyond_64_bits_are_out_of_bounds(far: int) -> None:
    x = xp.asarray([1, 2, 3])
    for key in (far, (far,)):
        with pytest.raises(IndexError, match=f"^__getitem__: key is {far}; expected an index with"):
            x[key]
        with pytest.raises(IndexError, match=f"^__setitem__: key is {far}; expected an index with"):
            x[key] = 1


def test_slices_reach_as_far_as_they_say() -> None:
    x, far = xp.asarray([[1, 2, 3], [4, 5, 6]]), 10**20
    assert x[-far:far].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert x[far:, 1:far:far].tolist() == []
    assert x[:, far:-far:-far].tolist() == [[3], [6]]
    x[..., -far:2] = xp.asarray(0)
    assert x.tolist() == [[0, 0, 3], [0, 0, 6]]


@pytest.mark.parametrize("step", [2**31 + 1, 2**40, 2**61, 2**62, 2**63])
def test_steps_reach_as_far_as_they_say(step: int) -> None:
    values = np.arange(12).reshape(4, 3)
    for key in (np.s_[::step], np.s_[1::step, 0], np.s_[:, ::-step], np.s_[::-step, 1::step]):
        x, expected = xp.asarray(values.tolist()), values.copy()
        assert_values(x[key], values[key])
        x[key], expected[key] = xp.asarray(-1), -1
        assert_values(x, expected)


def test_a_step_of_zero_is_the_keys_fault() -> None:
    x = xp.asarray([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="^__getitem__: key"):
        x[::0]
    with pytest.raises(ValueError, match="^__setitem__: key"):
        x[::0] = 1.0


def test_an_ellipsis_for_no_axis_keeps_arrays_apart() -> None:
    values, index = np.arange(40).reshape(4, 5, 2), np.asarray([1, 2, 0])
    x, i = xp.asarray(values.tolist()), xp.asarray(index.tolist())
    chosen, put = values[:, index, ..., -1], np.arange(12).reshape(3, 4)
    assert chosen.shape == put.shape
    assert_values(x[:, i, ..., -1], chosen)
    assert_values(x[::-1, i, ..., -1], values[::-1, index, ..., -1])
    assert_values(x[..., i, -1], values[..., index, -1])
    expected = values.copy()
    expected[:, index, ..., -1] = put
    x[:, i, ..., -1] = xp.asarray(put.tolist())
    assert_values(x, expected)


@pytest.mark.at_once
def test_indices_are_within_bounds_where_nothing_is_selected() -> None:
    x, i = xp.zeros((2, 3, 4)), xp.asarray([0, 1])
    none = slice(0, 0)
    for key in ((i, none, 99), (none, i, 99), (none, 9, i), (i + 7, none, i), (i, none, i - 9)):
        with pytest.raises(IndexError, match="^__getitem__: "):
            x[key]
        with pytest.raises(IndexError, match="^__setitem__: "):
            x[key] = 0.0


@pytest.mark.parametrize("dtype", INTEGERS)
def test_indices_of_every_integer_dtype_where_nothing_is_selected(dtype: str) -> None:
    near, far = (xp.asarray([n], dtype=getattr(xp, dtype)) for n in (1, 9))
    x, empty = xp.ones((3, 2)), xp.zeros((0, 2))
    assert_values(empty[:, near], np.zeros((0, 1)))
    assert_values(x[0:0, near], np.zeros((0, 1)))
    x[0:0, near] = 5.0
    assert_values(x, np.ones((3, 2)))
    if x.backend == "dask":
        pytest.skip("Dask reads and writes such an array later")
    for array, key in ((empty, (slice(None), far)), (x, (slice(0, 0), far))):
        with pytest.raises(IndexError, match="^__getitem__: "):
            array[key]
        with pytest.raises(IndexError, match="^__setitem__: "):
            array[key] = 5.0


@pytest.mark.at_once
def test_indices_beside_a_mask_that_selects_nothing_are_within_bounds() -> None:
    x, far = xp.ones((3, 4)), xp.asarray(9)
    for mask in (xp.zeros(4, dtype=xp.bool), xp.asarray(False)):
        assert x[2, mask].shape == x[xp.asarray(2), mask].shape == (0, *(x.shape[1 + mask.ndim :]))
        x[2, mask] = 5.0
        for key in ((9, mask), (far, mask), (far - 13, mask), (9, None, mask)):
            with pytest.raises(IndexError, match="^__getitem__: "):
                x[key]
            with pytest.raises(IndexError, match="^__setitem__: "):
                x[key] = 5.0
    assert_values(x, np.ones((3, 4)))


@pytest.mark.parametrize("kind", [bool, np.bool_, "array"])
@pytest.mark.parametrize("flag", [True, False])
@together(
    "key",
    [
        lambda mask: mask,
        lambda mask: (0, None, mask),
        lambda mask: (slice(0, 2), mask, None, 1),
        lambda mask: (1, slice(None, None, -1), mask),
        lambda mask: (0, ..., mask),
        lambda mask: (2, 1, ..., mask),
        lambda mask: (mask, slice(0, 2), mask),
        lambda mask: (slice(None), mask),
    ],
)
def test_a_mask_without_dimensions_counts_as_an_array(key: Any, flag: bool, kind: Any) -> None:
    values = np.arange(12.0).reshape(3, 4)
    mask = xp.asarray(flag) if kind == "array" else kind(flag)
    x, ours, numpys = xp.asarray(values.tolist()), key(mask), key(np.asarray(flag))
    chosen = values[numpys]
    assert_values(x[ours], chosen)
    put = 50.0 + np.arange(chosen.size).reshape(chosen.shape)
    x[ours] = xp.reshape(xp.asarray(put.ravel().tolist(), dtype=xp.float64), put.shape)
    values[numpys] = put
    assert_values(x, values)


def test_a_value_fits_where_nothing_is_selected() -> None:
    x, i = xp.zeros((2, 5)), xp.asarray([1, 2])
    x[:0, i] = xp.ones((0, 1))
    x[:, i[:0]] = xp.ones((2, 0))
    if x.backend == "dask":
        pytest.skip("Dask reads and writes such an array later")
    for key, shape in (((slice(None), i[:0]), (3,)), ((slice(0, 0), i), (0, 3))):
        with pytest.raises(ValueError, match="^__setitem__: "):
            x[key] = xp.ones(shape)


def test_elements_are_swapped() -> None:
    x, matrix = xp.asarray([5.0, 1.0, 4.0]), xp.asarray([[1, 2], [3, 4]])
    x[0], x[1] = x[1], x[0]
    matrix[0, 0], matrix[1, 1] = matrix[1, 1], matrix[0, 0]
    kept = x[2]
    x[2] = 7.0
    assert_values(x, [1.0, 5.0, 7.0])
    assert_values(matrix, [[4, 2], [3, 1]])
    assert float(kept) == 4.0


def test_arrays_of_indices_broadcast() -> None:
    x, i, j = xp.zeros((4, 4)), xp.asarray([0, 1, 2]), xp.asarray([0, 1])
    with pytest.raises(IndexError, match="^__getitem__: "):
        x[i, j]
    with pytest.raises(IndexError, match="^__setitem__: "):
        x[i, j] = 1.0
    if x.backend == "dask":
        pytest.skip("Dask computes a mask when a value is asked for")
    mask = xp.asarray([True, False, True, False])
    with pytest.raises(IndexError, match="^__getitem__: "):
        x[i, mask]
    with pytest.raises(IndexError, match="^__setitem__: "):
        x[i, mask] = 1.0


@pytest.mark.parametrize("size", [5, 200])
def test_a_mask_that_lies_in_what_it_writes(size: int) -> None:
    values = np.random.default_rng(1).random(size) < 0.5
    expected = values.copy()
    expected[values[::-1].copy()] = False
    for wrapped in (False, True):
        x = xp.asarray(values.tolist())
        mask = x[::-1]
        x[(mask,) if wrapped else mask] = False
        assert_values(x, expected)


@pytest.mark.at_once
def test_errors_name_the_function_once() -> None:
    x = xp.asarray([1.0, 2.0, 3.0])
    far, mask = xp.asarray([7]), xp.asarray([True])
    for key in (5, -4, far, mask, slice(None, None, 0)):
        for name, call in (("__getitem__", x.__getitem__), ("__setitem__", assign(x))):
            with pytest.raises((IndexError, ValueError), match=f"^{name}: ") as caught:
                call(key)
            assert str(caught.value).count(name) == 1
    with pytest.raises(ValueError, match="^__setitem__: value: ") as caught:
        x[:2] = xp.ones(3)
    assert str(caught.value).count("__setitem__") == 1


def assign(x: Any) -> Callable[[Any], None]:
    """Return what writes one element's value at a key."""
    return lambda key: x.__setitem__(key, 1.0)


# ---------------------------------------------------------------------------- strict mode

FEWER = "key has fewer indices than the 2 dimensions of x; expected one for each, or an Ellipsis"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (0, FEWER),
        (np.s_[0:1], FEWER),
        ((None, 0), FEWER),
        (np.s_[0, :4], "key has a slice whose stop is 4; expected -3 to 3 for an axis of size 3"),
        (np.s_[0, -4:], "key has a slice whose start is -4; expected -3 to 3 for an axis of si"),
        (np.s_[0, 4:], "key has a slice whose start is 4; expected -3 to 3 for an axis of size 3"),
        (np.s_[..., :4], "key has a slice whose stop is 4; expected -3 to 3 for an axis of size"),
        (np.s_[:3, ...], "key has a slice whose stop is 3; expected -2 to 2 for an axis of size"),
        (np.s_[None, :, 4:], "key has a slice whose start is 4; expected -3 to 3 for an axis of"),
        (np.s_[0, 3::-1], "key has a slice whose start is 3; expected -3 to 2 for an axis of si"),
        (np.s_[0, :3:-1], "key has a slice whose stop is 3; expected -4 to 2 for an axis of siz"),
        (np.s_[0, :-5:-1], "key has a slice whose stop is -5; expected -4 to 2 for an axis of s"),
        (([0, 1], np.s_[:]), "key has an integer array beside slices; expected only integers and"),
        ((..., [0, 1]), "key has an integer array beside slices; expected only integers and inte"),
        (([True, False], 0), "key has a boolean array beside others; expected it alone"),
    ],
)
def test_strict_mode_refuses_keys_that_the_standard_leaves_open(key: Any, message: str) -> None:
    x = xp.reshape(xp.arange(6.0), (2, 3))
    parts = key if isinstance(key, tuple) else (key,)
    made = tuple(xp.asarray(part) if isinstance(part, list) else part for part in parts)
    strictly = made if isinstance(key, tuple) else made[0]
    for function, call in (("__getitem__", x.__getitem__), ("__setitem__", assign(x))):
        with corepy.strict(), pytest.raises(IndexError) as caught:
            call(strictly)
        assert str(caught.value).startswith(f"{function}: {message}")
        assert str(caught.value).endswith("(strict mode)")
    assert_values(x[strictly], np.arange(6.0).reshape(2, 3)[key])
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


@pytest.mark.parametrize(
    "key",
    [
        *(np.s_[0, 1], np.s_[0, ...], np.s_[..., 2], np.s_[None, 0, 1], np.s_[...]),
        *(np.s_[-2:2, -3:3], np.s_[:, 3:], np.s_[0, 2:-4:-1], np.s_[0, -3::-1], np.s_[..., None]),
        *(([0, 1], 2), ([0, 1], [2, 0]), ([[True, False, True], [False, True, False]],)),
    ],
)
def test_strict_mode_takes_the_keys_of_the_standard(key: Any) -> None:
    values = np.arange(6.0).reshape(2, 3)
    x = xp.reshape(xp.arange(6.0), (2, 3))
    parts = key if isinstance(key, tuple) else (key,)
    made = tuple(xp.asarray(part) if isinstance(part, list) else part for part in parts)
    given = made if len(made) > 1 else made[0]
    with corepy.strict():
        assert_values(x[given], values[key])
        if any(isinstance(part, list) and part[0].__class__ is int for part in parts):
            with pytest.raises(
                IndexError, match="^__setitem__: key has an integer array; expected"
            ):
                x[given] = 9.0
        else:
            x[given] = 9.0
            values[key] = 9.0
    assert_values(x, values)


def test_strict_mode_takes_no_flags_and_native_numbers_as_keys() -> None:
    x: Any = xp.arange(3.0)
    with corepy.strict():
        with pytest.raises(
            TypeError, match="^__getitem__: key is of type bool; expected an int, s"
        ):
            x[True]
        for key in (np.int64(1), np.asarray([0, 1])):
            with pytest.raises(TypeError, match=r"^__getitem__: key is of type .* \(strict mode"):
                x[key]
    assert x[np.int64(1)].tolist() == 1.0
