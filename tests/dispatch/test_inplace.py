"""In-place operators keep object, dtype and shape, and touch no memory that is not theirs."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.dispatch import OPERATIONS
from corepy.dispatch._fallback import INPLACE
from tests.helpers import NAMES, assert_values, function, to_numpy
from tests.together import together

pytestmark = pytest.mark.usefixtures("backend")

SYMBOLS: dict[str, Callable[[Any, Any], Any]] = {name: getattr(operator, name) for name in INPLACE}
CASES = [
    (symbol, name)
    for symbol, plain in INPLACE.items()
    for name in NAMES
    if DTYPES[name] in OPERATIONS[plain].dtypes
]


@together(("symbol", "dtype"), CASES)
def test_in_place_gives_what_the_function_gives(symbol: str, dtype: str) -> None:
    kind = DTYPES[dtype]
    values = {0: [True, False], 1: [5, 3], 2: [5.5, 3.0], 3: [5.5 + 1j, 3.0]}[kind.rank]
    others = {0: [True, True], 1: [2, 1], 2: [2.0, 0.5], 3: [2.0, 1j]}[kind.rank]
    x = same = xp.asarray([values, values], dtype=kind)
    y = xp.asarray(others, dtype=kind)
    expected = to_numpy(function(INPLACE[symbol])(x, y))
    x = SYMBOLS[symbol](x, y)
    assert x is same
    assert x.dtype is kind
    assert_values(x, expected)


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_in_place_with_itself(symbol: str) -> None:
    dtype = xp.int64 if xp.int64 in OPERATIONS[INPLACE[symbol]].dtypes else xp.float64
    x = xp.asarray([1, 2, 3], dtype=dtype)
    expected = to_numpy(function(INPLACE[symbol])(x, x))
    alias = x
    x = SYMBOLS[symbol](x, x)
    assert x is alias
    assert_values(x, expected)


@given(data=st.data())
def test_in_place_with_an_overlapping_part(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(-9, 9), min_size=4, max_size=4))
    x = xp.asarray(values)
    x += xp.flip(x)
    assert x.tolist() == [a + b for a, b in zip(values, values[::-1], strict=True)]


@pytest.mark.backend("numpy")
@pytest.mark.parametrize("symbol", SYMBOLS)
def test_numpy_keeps_its_memory(symbol: str) -> None:
    dtype = np.int64 if xp.int64 in OPERATIONS[INPLACE[symbol]].dtypes else np.float64
    native = np.array([3, 2], dtype=dtype)
    with corepy.backend_priority(["numpy"]):
        x = xp.asarray(native)
    x = SYMBOLS[symbol](x, 1 if dtype is np.int64 else 2.0)
    assert np.shares_memory(x.unwrap(), native)
    assert x.tolist() == native.tolist()


@pytest.mark.parametrize(
    ("left", "right", "error", "message"),
    [
        ("int8", "int16", TypeError, "the result has dtype int16; expected int8, the dtype of the"),
        ("int8", "float32", TypeError, "the result has dtype float32; expected int8"),
        ("float32", "complex64", TypeError, "the result has dtype complex64; expected float32"),
        ("float32", "float64", TypeError, "the result has dtype float64; expected float32"),
    ],
)
def test_a_result_of_another_dtype_raises(
    left: str, right: str, error: type[Exception], message: str
) -> None:
    x, y = xp.ones(2, dtype=DTYPES[left]), xp.ones(2, dtype=DTYPES[right])
    with pytest.raises(error, match=f"^__iadd__: {message}"):
        x += y
    assert (x.dtype.name, x.tolist()) == (left, [1, 1])


def test_scalars_of_a_higher_kind_raise() -> None:
    x = xp.ones(2, dtype=xp.int8)
    with pytest.raises(
        TypeError,
        match="^__imul__: the result has dtype float64; expected int8, the dtype of the left "
        r"operand: x = x \* y makes a new array$",
    ):
        x *= 1.5
    with pytest.raises(OverflowError, match="^add: x2 is 200; expected -128 to 127 for int8"):
        x += 200
    assert x.tolist() == [1, 1]


def test_numpys_own_float_and_complex_take_the_dtype_of_what_they_are_written_into() -> None:
    for dtype, value in (("float32", np.float64(0.5)), ("complex64", np.complex128(0.5))):
        x = xp.asarray([1, 2], dtype=DTYPES[dtype])
        x += value
        x[0] = value
        assert x.dtype.name == dtype
        assert x.tolist() == [0.5, 2.5]
    n = xp.asarray([1, 2])
    for write in (lambda: n.__iadd__(np.float64(1)), lambda: n.__setitem__(0, np.float64(1))):
        with pytest.raises(TypeError):
            write()
    assert n.tolist() == [1, 2]


def test_a_result_of_another_shape_raises() -> None:
    x = xp.ones(2)
    for other in (xp.ones((2, 2)), xp.ones(3), xp.ones((1, 2))):
        with pytest.raises(ValueError, match=r"^__iadd__: operands have shapes \(2,\) and"):
            x += other
    y = xp.ones((2, 2))
    y += xp.asarray([1.0, 2.0])
    y += xp.asarray(1.0)
    assert y.tolist() == [[3.0, 4.0], [3.0, 4.0]]
    assert x.tolist() == [1.0, 1.0]


def test_a_result_of_another_shape_is_not_computed() -> None:
    x, y = xp.full((1, 3), xp.inf), xp.full((3, 1), -xp.inf)
    for _ in range(2):  # the first time fills the table
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(ValueError, match="^__iadd__: operands have shapes"):
                x += y
        assert not caught


@pytest.mark.at_once
def test_integer_division_by_zero_leaves_the_operand_alone() -> None:
    x = xp.asarray([4, 5])
    for symbol in ("__ifloordiv__", "__imod__"):
        with pytest.raises(ZeroDivisionError):
            SYMBOLS[symbol](x, xp.asarray([2, 0]))
    assert x.tolist() == [4, 5]


def test_matrix_product_in_place() -> None:
    x = same = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    x @= xp.asarray([[0.0, 1.0], [1.0, 0.0]])
    assert x is same
    assert x.tolist() == [[2.0, 1.0], [4.0, 3.0]]
    with pytest.raises(ValueError, match=r"^__imatmul__: the result has shape \(2,\); expected"):
        x @= xp.asarray([1.0, 1.0])


# ---------------------------------------------------------------------------- read-only memory


def read_only() -> np.ndarray[Any, Any]:
    values = np.array([1.0, 2.0, 3.0])
    values.setflags(write=False)
    return values


def write(x: Any) -> None:
    x[0] = 9.0


def add(x: Any) -> None:
    x += 8.0


@pytest.mark.parametrize(
    ("change", "expected"), [(write, [9.0, 2.0, 3.0]), (add, [9.0, 10.0, 11.0])]
)
def test_read_only_memory_is_copied_before_a_write(
    change: Callable[[Any], None], expected: list[float]
) -> None:
    values = read_only()
    x = xp.asarray(values)
    change(x)
    assert x.tolist() == expected
    assert values.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.backend("numpy")
@pytest.mark.parametrize(("change", "name"), [(write, "__setitem__"), (add, "__iadd__")])
def test_strict_mode_refuses_to_write_read_only_memory(
    change: Callable[[Any], None], name: str
) -> None:
    with corepy.backend_priority(["numpy"]):
        x = xp.asarray(read_only())
    with corepy.strict(), pytest.raises(ValueError, match=f"^{name}: x is read-only; expected wr"):
        change(x)
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_broadcast_results_are_copied_before_a_write() -> None:
    x = xp.asarray([1.0, 2.0])
    wide = xp.broadcast_to(x, (2, 2))
    wide[0, 0] = 7.0
    assert wide.tolist() == [[7.0, 2.0], [1.0, 2.0]]
    assert x.tolist() == [1.0, 2.0]


def outside(x: Any) -> None:
    x[0, 9] = 1


def of_another_shape(x: Any) -> None:
    x[...] = xp.ones(5, dtype=x.dtype)


def by_zeros(x: Any) -> None:
    x //= xp.zeros(2, dtype=x.dtype)


@pytest.mark.parametrize(
    "backend", ["numpy", pytest.param("torch", marks=pytest.mark.backend("torch"))]
)
@pytest.mark.parametrize(
    ("change", "error"),
    [
        (outside, IndexError),
        (of_another_shape, ValueError),
        (by_zeros, ZeroDivisionError),
    ],
)
def test_a_write_that_fails_leaves_an_array_in_the_memory_that_it_shares(
    backend: str, change: Callable[[Any], None], error: type[Exception]
) -> None:
    with corepy.backend_priority([backend]):
        x = xp.asarray([1, 2])
        wide = xp.broadcast_to(x, (2, 2))
        with pytest.raises(error):
            change(wide)
        x[0] = 7
        assert wide.tolist() == [[7, 2], [7, 2]]
        wide[0, 0] = 5
        assert (wide.tolist(), x.tolist()) == ([[5, 2], [7, 2]], [7, 2])


def test_a_value_that_overlaps_what_is_written() -> None:
    x = xp.asarray([1, 2, 3, 4])
    x[1:] = x[:-1]
    assert x.tolist() == [1, 1, 2, 3]


@pytest.mark.parametrize("value", [0.0, 1, -2.5, np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_single_number_is_written_over_as_many_are(dtype: str, value: float) -> None:
    for name in ("add", "truediv", "mod", "floordiv"):
        function, over = getattr(operator, name), getattr(operator, f"i{name}")
        for number in (1.0, -0.0, float(np.finfo(dtype).max)):
            for beside in (value, xp.asarray(value, dtype=getattr(xp, dtype))):
                x = xp.asarray(number, dtype=getattr(xp, dtype))
                with warnings.catch_warnings(record=True) as due:
                    warnings.simplefilter("always")
                    expected = np.asarray(function(x, beside))
                with warnings.catch_warnings(record=True) as warned:
                    warnings.simplefilter("always")
                    found = np.asarray(over(xp.asarray(x, copy=True), beside))
                assert found.dtype == expected.dtype
                assert found.tobytes() == expected.tobytes()
                assert [str(w.message) for w in warned] == [str(w.message) for w in due]
