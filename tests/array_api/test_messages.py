"""One mistake has one message, whichever backend meets it, and on either form of the hot path."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

import corepy

ONE_TO_THREE: Final = np.asarray([1, 2, 3])
ROW: Final = np.asarray([[1, 2, 3]])
NO_COLUMNS: Final = np.ones((2, 0))

BEYOND_0: Final = "index 5 is out of bounds for axis 0 with size 3; expected -3 to 2"
BEFORE_1: Final = "index -4 is out of bounds for axis 1 with size 3; expected -3 to 2"
ZERO: Final = "x2 holds 0; expected no zero among integers"
NEGATIVE: Final = "x2 holds a negative integer; expected powers of at least 0"


def put(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


#: The call, its operands, the exception and what it says.
MISTAKES: Final[list[tuple[Callable[..., Any], tuple[Any, ...], type[Exception], str]]] = [
    (
        lambda xp, x, i: xp.take(x, i),
        (ONE_TO_THREE, [0, 5]),
        IndexError,
        f"take: indices: {BEYOND_0}",
    ),
    (
        lambda xp, x, i: xp.take(x, i, axis=1),
        (ROW, [-4]),
        IndexError,
        f"take: indices: {BEFORE_1}",
    ),
    (
        lambda xp, x, i: xp.take(x, i, axis=1),
        (NO_COLUMNS, [0]),
        IndexError,
        "take: indices: index 0 is out of bounds for axis 1 with size 0; expected none",
    ),
    (
        lambda xp, x, i: xp.take_along_axis(x, i, axis=1),
        (ROW, [[0, -4]]),
        IndexError,
        f"take_along_axis: indices: {BEFORE_1}",
    ),
    (lambda xp, x: x[5], (ONE_TO_THREE,), IndexError, f"__getitem__: key: {BEYOND_0}"),
    (lambda xp, x: x[None, ..., -4], (ROW,), IndexError, f"__getitem__: key: {BEFORE_1}"),
    (
        lambda xp, x, i: x[i],
        (ONE_TO_THREE, [0, 5]),
        IndexError,
        f"__getitem__: key: {BEYOND_0}",
    ),
    (lambda xp, x, i: x[:, i], (ROW, [-4]), IndexError, f"__getitem__: key: {BEFORE_1}"),
    (lambda xp, x, i: x[0, i], (ROW, [2, -4]), IndexError, f"__getitem__: key: {BEFORE_1}"),
    (lambda xp, x: put(x, 5, 1), (ONE_TO_THREE,), IndexError, f"__setitem__: key: {BEYOND_0}"),
    (
        lambda xp, x, i: put(x, i, 1),
        (ONE_TO_THREE, [0, 5]),
        IndexError,
        f"__setitem__: key: {BEYOND_0}",
    ),
    (
        lambda xp, x, i: put(x, (slice(None), i), 1),
        (ROW, [-4]),
        IndexError,
        f"__setitem__: key: {BEFORE_1}",
    ),
    (
        lambda xp, x, y: put(x, slice(None, None, -1), y),
        (ONE_TO_THREE, [1, 2]),
        ValueError,
        "__setitem__: value: its shape is (2,); expected one that broadcasts to (3,)",
    ),
    (
        lambda xp, x, y: put(x, (..., 0), y),
        (ROW, [[1, 2], [3, 4]]),
        ValueError,
        "__setitem__: value: its shape is (2, 2); expected one that broadcasts to (1,)",
    ),
    (
        lambda xp, x, y: put(x, 0, y),
        (ONE_TO_THREE, [1, 2]),
        ValueError,
        "__setitem__: value: its shape is (2,); expected one that broadcasts to ()",
    ),
    (
        lambda xp, x, i: x[i, :],
        (NO_COLUMNS, [1, -3]),
        IndexError,
        "__getitem__: key: index -3 is out of bounds for axis 0 with size 2; expected -2 to 1",
    ),
    (
        lambda xp, x, y: x // y,
        (ONE_TO_THREE, [1, 0, 1]),
        ZeroDivisionError,
        f"floor_divide: {ZERO}",
    ),
    (lambda xp, x: x % 0, (ONE_TO_THREE,), ZeroDivisionError, f"remainder: {ZERO}"),
    (lambda xp, x: 5 % x, ([1, 0, 1],), ZeroDivisionError, f"remainder: {ZERO}"),
    (lambda xp, x, y: x**y, (ONE_TO_THREE, [1, 0, -1]), ValueError, f"pow: {NEGATIVE}"),
    (lambda xp, x: x**-1, (ONE_TO_THREE,), ValueError, f"pow: {NEGATIVE}"),
]


@pytest.fixture(autouse=True)
def where_it_can_be_told(xp: ModuleType) -> None:
    """Leave out torch's kernels on devices, which see no zeros and end with indices beyond."""
    x = xp.zeros(1)
    if x.backend == "torch" and x.device.kind != "cpu":
        pytest.skip("torch tells on the host alone")


@pytest.mark.few_shapes
@pytest.mark.parametrize(
    ("call", "operands", "error", "message"), MISTAKES, ids=range(len(MISTAKES))
)
def test_one_mistake_has_one_message(
    xp: ModuleType,
    call: Callable[..., Any],
    operands: tuple[Any, ...],
    error: type[Exception],
    message: str,
) -> None:
    home = xp.zeros(1)
    arrays = [
        corepy.to(np.asarray(x), backend=home.backend, device=home.device, copy=True)
        for x in operands
    ]
    with pytest.raises(error) as caught:
        np.asarray(call(xp, *arrays))  # which a lazy backend computes now
    assert str(caught.value) == message


@pytest.mark.at_once
@pytest.mark.few_shapes
def test_what_works_in_place_is_named_by_its_own_name(xp: ModuleType) -> None:
    x, zero, negative = (xp.asarray(values) for values in ([1, 2], [1, 0], [1, -1]))
    with pytest.raises(ZeroDivisionError, match=f"^__ifloordiv__: {ZERO}$"):
        x //= zero
    with pytest.raises(ZeroDivisionError, match=f"^__imod__: {ZERO}$"):
        x %= 0
    with pytest.raises(ValueError, match=f"^__ipow__: {NEGATIVE}$"):
        x **= negative
    assert x.tolist() == [1, 2]


def test_classes_have_the_names_that_users_know(xp: ModuleType) -> None:
    x, stream = xp.ones(2), corepy.stream("cpu")
    for call, found in (
        (lambda: xp.zeros(x), "Array"),
        (lambda: xp.add(x, stream), "Stream"),
        (lambda: xp.add(x, x.device), "Device"),
    ):
        with pytest.raises(TypeError, match=rf"is of type corepy\.{found}; expected an "):
            call()
    with pytest.raises(TypeError, match=rf"x2 is of type {__name__}\.Other; expected an array"):
        xp.add(x, Other())


class Other:
    """No array, and nobody's that corepy knows."""
