"""Arrays beside each row of others: values, bits, warnings and memory are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corepy.array_api as xp
from corepy import _dtypes
from corepy.devices._device import CPU
from corepy.dispatch import make
from corepy.dispatch._table import Table
from tests.dispatch.natives import NUMPY, assert_as_entry, compiled, tables, told, values

#: Rows that are short and long; more than are taken together, and just as many; parts of lines.
PAIRS = [
    ((40, 3), (3,)),
    ((3,), (40, 3)),
    ((40, 1), (40, 3)),
    ((40, 3), (40, 1)),
    ((40, 1), (3,)),
    ((3,), (40, 1)),
    ((1, 3), (40, 1)),
    ((40, 1), (1, 3)),
    ((1, 1, 5), (7, 3, 1)),
    ((7, 1, 1), (7, 3, 5)),
    ((7, 1, 1), (3, 5)),
    ((7, 3, 1), (7, 3, 5)),
    ((7, 3, 1), (3, 5)),  # in the first dimension of one, and the last of the other
    ((7, 1, 5), (7, 3, 5)),  # in the middle
    ((1, 7, 1), (7, 5)),
    ((1, 4), (4,)),
    ((4, 1), (4, 1)),
    ((1, 1), (3, 4)),
    ((5, 1), (1, 1)),
    ((64, 16), (16,)),
    ((65, 63), (63,)),
    ((65, 1), (65, 64)),
    ((5, 700), (700,)),
    ((3, 5000), (3, 1)),
    ((2, 1), (5000,)),
    ((700, 31), (31,)),
    ((0, 3), (3,)),
    ((4, 0), (4, 1)),
    ((1,), (5,)),
]


@pytest.mark.parametrize("name", ["add", "divide", "less", "logical_or", "pow", "bitwise_xor"])
def test_values_and_warnings_are_numpys(name: str) -> None:
    for table in tables(name):
        for number, shapes in enumerate(PAIRS):
            for tame in (True, False):
                natives = [values(table, shape, number + i, tame) for i, shape in enumerate(shapes)]
                assert_as_entry(name, table, natives)


#: More than 32 MiB with their results, so that these are written past the caches.
FAR = [
    ((1_500_000, 3), (3,)),
    ((1_500_000, 1), (1_500_000, 3)),
    ((1_500_000, 1), (4,)),
    ((90_001, 63), (63,)),
    ((1, 64), (90_001, 1)),
    ((5003, 999), (999,)),
    ((5003, 1), (5003, 999)),
    ((2, 2_500_001), (2_500_001,)),
]


@compiled
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shapes", FAR)
def test_what_fits_no_cache(shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    rng = np.random.default_rng(3)
    x: Any
    y: Any
    x, y = (rng.random(shape).astype(dtype) - 0.5 for shape in shapes)
    for ours, numpys in ((xp.subtract, np.subtract), (xp.less, np.less)):
        expected = numpys(x, y)
        for _ in range(3):  # the last in several threads, where these are
            np.testing.assert_array_equal(ours(xp.asarray(x), xp.asarray(y)).unwrap(), expected)


@pytest.mark.parametrize("shapes", [((9000, 1), (9000, 4)), ((9000, 1), (4,)), ((400, 90), (90,))])
def test_a_warning_comes_once_and_an_error_raises(shapes: tuple[tuple[int, ...], ...]) -> None:
    x: Any
    y: Any
    x, y = (np.ones(shape) for shape in shapes)
    y[..., -1] = 0
    a, b = xp.asarray(x), xp.asarray(y)
    for wish in ("ignore", "warn", "raise"):
        with np.errstate(divide=wish):
            for _ in range(2):
                if wish == "raise":
                    with pytest.raises(FloatingPointError, match="divide by zero"):
                        _ = a / b
                    continue
                found, warned = told(lambda: a / b)
                assert len(warned) == (wish == "warn")
                np.testing.assert_array_equal(found.unwrap()[..., -1], np.inf)


def test_shapes_that_do_not_fit_are_told() -> None:
    x, y = xp.ones((4, 3)), xp.ones((5, 3))
    for a, b in ((x, y), (y, x), (x, xp.ones(4)), (xp.ones((4, 1)), xp.ones((5, 2)))):
        with pytest.raises(ValueError, match="shape"):
            _ = a + b


@compiled
@pytest.mark.parametrize(
    ("a", "b"), [((400, 100), (100,)), ((400, 1), (100,)), ((400, 1), (400, 100))]
)
def test_a_route_that_begins_early_is_taken(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    asked = []

    def gate(x: Any, y: Any) -> Any:
        asked.append(x.shape)
        return x + y

    vars(gate).update(least=1000, leasts={"spread": 1000})
    table = Table(NUMPY, CPU, _dtypes.float64)
    table["add"] = (gate, table)
    table.settle("add", gate, table, NUMPY.loop("add"))
    found = make(np.ones(a), table) + make(np.ones(b), table)
    np.testing.assert_array_equal(found.unwrap(), np.full((400, 100), 2.0))
    assert asked == [a]
