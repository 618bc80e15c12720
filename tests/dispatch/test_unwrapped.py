"""What is unwrapped is the caller's to reshape: loops find the elements that they expect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp


@pytest.mark.parametrize("name", ["numpy", pytest.param("numba", marks=pytest.mark.needs("numba"))])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # NumPy 2.5 does of such assignments
def test_an_array_keeps_its_shape_and_dtype_when_what_was_unwrapped_changes(name: str) -> None:
    with corepy.backend_priority([name]):
        x = xp.zeros((50, 2))
        native: Any = x.unwrap()
        native.dtype = np.int8  # of which there are eight times as many
        assert x.shape == (50, 2)
        x += 1.5
        assert (x + x).tolist() == [[3.0, 3.0]] * 50
        other: Any = x.unwrap()
        other.shape = (100,)
        assert x.shape == (50, 2)
        other[3] = 7.0  # in the memory that both have
        assert x[1, 1] == 7.0
