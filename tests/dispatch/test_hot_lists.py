"""Lists that somebody changes while they are made arrays of: another thread, or a finalizer."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp


def converted_while_it_loses_one(values: list[Any]) -> Any:
    """Make an array of a list whose last one goes as soon as code in Python runs in between."""
    gone: list[Any] = []

    def lose(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and not gone:
            gone.append(values.pop())  # and lives on: who reads it all the same finds it

    sys.setprofile(lose)
    try:
        return xp.asarray(values)
    finally:
        sys.setprofile(None)
        assert gone


@pytest.mark.parametrize(
    "values",
    [[1.5, 2.5, 3.5, 4.5], [1, 2, 3, 4], [[1.5, 2.5], [3.5, 4.5], [5.5, 6.5]], [(1, 2), (3, 4)]],
)
def test_a_list_changes_while_an_entry_is_resolved(values: list[Any]) -> None:
    xp.asarray(values)._table.clear()
    found = converted_while_it_loses_one(values)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(values))


@pytest.mark.parametrize("number", [np.float64, np.float32, np.int64, xp.asarray])
def test_a_list_of_lists_of_single_numbers_changes_after_it_was_measured(number: Any) -> None:
    values = [[number(2.0 * i), number(2.0 * i + 1)] for i in range(9)]
    wanted = np.arange(16.0).reshape(8, 2)
    with corepy.strict(False):  # who asks whether it is in force runs code in Python
        for _ in range(2):
            xp.asarray([float(i) for i in range(9)])
            xp.asarray([list(row) for row in values])
        found = converted_while_it_loses_one(values)
    assert len(values) == 8
    np.testing.assert_array_equal(np.asarray(found), wanted)
