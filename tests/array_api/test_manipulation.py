"""Manipulation functions agree with the oracle over dtypes, shapes and axes of either sign."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corepy.array_api as xp
from corepy._dtypes import DTYPES, PROMOTION
from tests.helpers import (
    NAMES,
    agrees,
    arrays,
    assert_same,
    axes,
    broadcastable,
    function,
    oracle,
    shapes,
    to_numpy,
    translate,
    xps,
)
from tests.together import together

pytestmark = pytest.mark.usefixtures("backend")


@given(data=st.data())
def test_broadcast_arrays_and_shapes(data: st.DataObject) -> None:
    parts = data.draw(broadcastable(3))
    found = [data.draw(arrays(shape=shape)) for shape in parts]
    agrees("broadcast_arrays", *found)
    together = np.broadcast_shapes(*parts)
    assert xp.broadcast_shapes(*parts) == together
    agrees("broadcast_to", found[0], together)


def test_broadcast_arrays_names_itself() -> None:
    expected = r"^broadcast_arrays: operands have shapes \(0,\) and \(3,\); expected shapes that"
    with pytest.raises(ValueError, match=expected):
        xp.broadcast_arrays(xp.zeros(0), xp.zeros(3))


def test_broadcast_shapes_with_sizes_that_are_not_known() -> None:
    assert xp.broadcast_shapes() == ()
    assert xp.broadcast_shapes((None, 1), (3,)) == (None, 3)
    assert xp.broadcast_shapes((None,), (4,)) == (4,)
    with pytest.raises(ValueError, match=r"^broadcast_shapes: operands have shapes \(2,\) and"):
        xp.broadcast_shapes((2,), (3,))
    with pytest.raises(
        ValueError, match=r"^broadcast_shapes: shapes\[1\] is -1; expected an int of"
    ):
        xp.broadcast_shapes((2,), (-1, 2))
    with pytest.raises(
        TypeError, match=r"^broadcast_shapes: shapes\[0\] is of type float; expected"
    ):
        xp.broadcast_shapes((2.0,), (2,))  # type: ignore[arg-type]


@given(data=st.data())
def test_concat_and_stack(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(NAMES))
    partners = tuple(n for n in NAMES if (DTYPES[dtype], DTYPES[n]) in PROMOTION)
    shape = data.draw(shapes(min_dims=1))
    parts = [data.draw(arrays((dtype,), shape=shape)), data.draw(arrays(partners, shape=shape))]
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    longer = list(shape)
    longer[axis] += 2
    agrees("stack", parts, axis=axis)
    parts.append(data.draw(arrays((dtype,), shape=tuple(longer))))
    agrees("concat", parts, axis=axis)
    agrees("concat", tuple(parts), axis=None)


@given(x=arrays(), data=st.data())
def test_expand_dims_and_squeeze_are_inverses(x: Any, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim - 1, x.ndim))
    taller = agrees("expand_dims", x, axis)
    assert_same(xp.squeeze(taller, axis), oracle("squeeze", taller, axis))
    assert xp.squeeze(taller, axis).shape == x.shape
    several = xp.expand_dims(x, (0, -1))
    assert several.shape == (1, *x.shape, 1)
    np.testing.assert_array_equal(to_numpy(several).ravel(), to_numpy(x).ravel())


@given(x=arrays(), data=st.data())
def test_flip(x: Any, data: st.DataObject) -> None:
    agrees("flip", x, axis=data.draw(axes(x.ndim)))


@given(x=arrays(shape=shapes(min_dims=1)), data=st.data())
def test_moveaxis(x: Any, data: st.DataObject) -> None:
    one = st.integers(-x.ndim, x.ndim - 1)
    agrees("moveaxis", x, data.draw(one), data.draw(one))
    order = data.draw(st.permutations(range(x.ndim)))
    agrees("moveaxis", x, tuple(order), tuple(range(x.ndim)))


@given(x=arrays(), data=st.data())
def test_permute_dims(x: Any, data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(range(x.ndim))))
    turned = agrees("permute_dims", x, order)
    negative = tuple(axis - x.ndim for axis in order)
    assert_same(xp.permute_dims(x, negative), oracle("permute_dims", x, order))
    back = xp.permute_dims(turned, tuple(int(i) for i in np.argsort(order)))
    assert back.shape == x.shape


@given(x=arrays(), data=st.data())
def test_repeat(x: Any, data: st.DataObject) -> None:
    axis = data.draw(axes(x.ndim, several=False))
    agrees("repeat", x, data.draw(st.integers(0, 3)), axis=axis)
    length = math.prod(x.shape) if axis is None else x.shape[axis]
    counts = data.draw(st.lists(st.integers(0, 3), min_size=length, max_size=length))
    agrees("repeat", x, xp.asarray(counts, dtype=xp.int64), axis=axis)


@given(x=arrays(), data=st.data())
def test_reshape(x: Any, data: st.DataObject) -> None:
    shape = data.draw(
        xps.reshape_shapes(x.shape) if hasattr(xps, "reshape_shapes") else _regroup(x)
    )
    result = agrees("reshape", x, shape)
    assert result.size == x.size
    agrees("reshape", x, (-1,))
    assert xp.reshape(x, shape, copy=True).shape == result.shape


def _regroup(x: Any) -> st.SearchStrategy[tuple[int, ...]]:
    total = math.prod(x.shape)
    divisors = [n for n in range(1, total + 1) if total % n == 0] or [1]
    return st.sampled_from([(n, total // n) for n in divisors])


@given(x=arrays(), data=st.data())
def test_roll(x: Any, data: st.DataObject) -> None:
    axis = data.draw(axes(x.ndim))
    shift = st.integers(-5, 5)
    if axis == ():
        assert_same(xp.roll(x, (), axis=()), translate(x))
        assert_same(xp.roll(x, 1, axis=()), translate(x))
    elif isinstance(axis, tuple):
        several = data.draw(st.tuples(*[shift] * len(axis)))
        agrees("roll", x, several, axis=axis)
    else:
        agrees("roll", x, data.draw(shift), axis=axis)


def test_one_shift_holds_for_all_axes_however_far_it_is() -> None:
    x = xp.reshape(xp.arange(6), (2, 3))
    assert xp.roll(x, 1, axis=(0, 1)).tolist() == [[5, 3, 4], [2, 0, 1]]
    assert xp.roll(x, 1, axis=(1, 1)).tolist() == [[1, 2, 0], [4, 5, 3]]
    assert xp.roll(x, 2**70).tolist() == np.roll(np.arange(6), 2**70 % 6).reshape(2, 3).tolist()
    assert xp.roll(x, -(2**70), axis=1).tolist() == [[1, 2, 0], [4, 5, 3]]
    assert xp.roll(x, (2**70 + 1, -(2**64)), axis=(0, 1)).tolist() == [[4, 5, 3], [1, 2, 0]]
    assert xp.roll(xp.zeros((0, 2)), 2**70).shape == (0, 2)


@given(x=arrays(), data=st.data())
def test_tile(x: Any, data: st.DataObject) -> None:
    agrees("tile", x, data.draw(st.lists(st.integers(0, 2), max_size=3).map(tuple)))


@given(x=arrays(shape=shapes(min_dims=1)), data=st.data())
def test_unstack(x: Any, data: st.DataObject) -> None:
    agrees("unstack", x, axis=data.draw(st.integers(-x.ndim, x.ndim - 1)))


@together(
    ("name", "args", "error", "message"),
    [
        ("broadcast_to", ((2,),), ValueError, "broadcast_to: shape is (2,); expected one that"),
        ("broadcast_to", ((-1,),), ValueError, "broadcast_to: shape is -1; expected an int"),
        ("expand_dims", (5,), IndexError, "expand_dims: axis is 5; expected -3 to 2"),
        ("expand_dims", ((0, 0),), ValueError, "expand_dims: axis is (0, 0); expected distinct"),
        ("squeeze", (0,), ValueError, "squeeze: axis is 0; expected axes of size 1"),
        ("squeeze", (7,), IndexError, "squeeze: axis is 7; expected -2 to 1"),
        ("moveaxis", ((0, 1), (0,)), ValueError, "moveaxis: destination is (0,); expected 2 axes"),
        ("permute_dims", ((0,),), ValueError, "permute_dims: axes is (0,); expected a permutation"),
        ("permute_dims", ((0, 0),), ValueError, "permute_dims: axes is (0, 0); expected distinct"),
        ("permute_dims", ((0, 2),), IndexError, "permute_dims: axes is 2; expected -2 to 1"),
        ("repeat", (-1,), ValueError, "repeat: repeats is -1; expected an int of at least 0"),
        ("repeat", (1.5,), TypeError, "repeat: repeats is of type float; expected an int"),
        ("reshape", ((5,),), ValueError, "reshape: shape is (5,); expected a shape of 6 elements"),
        ("reshape", ((-1, -1),), ValueError, "reshape: shape is (-1, -1); expected sizes"),
        ("reshape", ((-2, -3),), ValueError, "reshape: shape is (-2, -3); expected sizes"),
        ("roll", ((1, 2),), ValueError, "roll: shift is (1, 2); expected an int, or one for each"),
        ("tile", (2,), TypeError, "tile: repetitions is of type int; expected a tuple of int"),
        ("tile", ((-1,),), ValueError, "tile: repetitions is -1; expected an int of at least 0"),
    ],
)
def test_bad_arguments_raise(name: str, args: Any, error: type[Exception], message: str) -> None:
    x = xp.reshape(xp.arange(6), (2, 3))
    with pytest.raises(error) as caught:
        function(name)(x, *args)
    assert type(caught.value) is error
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["concat", "stack"])
def test_sequences_of_arrays_are_checked(name: str) -> None:
    call = function(name)
    with pytest.raises(ValueError, match=rf"^{name}: arrays is \[\]; expected at least one array"):
        call([])
    with pytest.raises(TypeError, match=f"^{name}: arrays is of type corepy.*Array; expected a tu"):
        call(xp.ones(2))
    with pytest.raises(TypeError, match=rf"^{name}: arrays\[1\] is of type int; expected an arra"):
        call([xp.ones(2), 3])
    with pytest.raises(ValueError, match=rf"^{name}: arrays\[1\].shape is \(2, 3\); expected"):
        call([xp.ones((2, 2)), xp.ones((2, 3))])
    with pytest.raises(IndexError, match=f"^{name}: axis is 9; expected"):
        call([xp.ones((2, 2))], axis=9)


def test_repeat_checks_its_counts() -> None:
    x = xp.arange(3)
    with pytest.raises(
        TypeError, match=r"^repeat: repeats has dtype float64 on \S+; expected an in"
    ):
        xp.repeat(x, xp.ones(3))
    with pytest.raises(ValueError, match=r"^repeat: repeats.shape is \(2,\); expected \(\) or \(3"):
        xp.repeat(x, xp.asarray([1, 2]))
    with pytest.raises(ValueError, match="^repeat: repeats holds a negative number"):
        xp.repeat(x, xp.asarray([1, -2, 3]))
    with pytest.raises(ValueError, match=f"^repeat: repeats is {2**64 - 1}; expected counts below"):
        xp.repeat(x, xp.asarray([1, 2**64 - 1, 0], dtype=xp.uint64))
    assert xp.repeat(x, xp.asarray([2, 0, 1], dtype=xp.uint64)).tolist() == [0, 0, 2]
    nothing = xp.repeat(xp.zeros((2, 0)), xp.zeros(0, dtype=xp.int64), axis=1)
    assert (nothing.shape, nothing.dtype) == ((2, 0), xp.float64)


@pytest.mark.parametrize("counts", [[2**62] * 4 + [3], [2**46, 2**46, 0, 0, 0], [2**62], 2**45])
def test_repeat_refuses_more_elements_than_memory_holds(counts: Any) -> None:
    with pytest.raises(MemoryError, match=r"^repeat: the result has \d+ elements; expected fewer"):
        xp.repeat(xp.arange(5), xp.asarray(counts))
    with pytest.raises(MemoryError, match=r"^repeat: the result has \d+ elements; expected fewer"):
        xp.repeat(xp.zeros((2, 5)), xp.asarray(counts), axis=1)


def test_reshape_without_a_copy_shares_memory_or_raises(backend: str) -> None:
    x = xp.reshape(xp.arange(6), (2, 3))
    if backend == "numpy":
        with pytest.raises(ValueError, match="^reshape: "):
            xp.reshape(xp.permute_dims(x, (1, 0)), (6,), copy=False)
    assert xp.reshape(x, (6,), copy=False).tolist() == [0, 1, 2, 3, 4, 5]
    copied = xp.reshape(x, (6,), copy=True)
    copied[0] = 99
    assert int(x[0, 0]) == 0


def test_mixed_kinds_join_as_the_higher_kind() -> None:
    joined = xp.concat([xp.asarray([1, 2]), xp.asarray([0.5], dtype=xp.float32)])
    assert joined.dtype is xp.float32
    assert joined.tolist() == [1.0, 2.0, 0.5]
