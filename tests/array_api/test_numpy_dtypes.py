"""A dtype equals NumPy's of that name, as code that takes corepy's arrays for NumPy's asks."""

from __future__ import annotations

import copy
import pickle
from typing import Final

import numpy as np
import pytest

import corepy.array_api as xp
from corepy._dtypes import DTYPES

#: NumPy's dtypes ask for `__numpy_dtype__` from 2.4 on; its types never do.
ASKING: Final = np.lib.NumpyVersion(np.__version__) >= "2.4.0"


@pytest.mark.parametrize("name", DTYPES)
def test_equals_the_type_and_the_dtype_of_its_name_alone(name: str) -> None:
    dtype = DTYPES[name]
    for other in DTYPES:
        same = other == name
        for theirs in (DTYPES[other], getattr(np, other), *([np.dtype(other)] if ASKING else [])):
            assert (dtype == theirs) is same
            assert (theirs == dtype) is same
            assert (dtype != theirs) is not same
    assert {dtype: 1}[pickle.loads(pickle.dumps(copy.deepcopy(dtype)))] == 1


def test_nothing_else_is_equal() -> None:
    class float32:
        pass

    others = (float32, object, float, np.floating, np.float16, np.datetime64, "float32", None, 1)
    assert not any(xp.float32 == other or other == xp.float32 for other in others)


def test_is_found_among_types_of_numpy() -> None:
    assert xp.zeros(2, dtype=xp.float32).dtype in (np.float64, np.float32)
    assert xp.zeros(2, dtype=xp.int64).dtype not in (np.float64, np.float32)
