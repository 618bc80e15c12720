"""Who is measured means the same as NumPy, within the published bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
from conformance.accuracy import bound as published
from corepy.dispatch._admitted import ADMITTED
from corepy.dispatch._crossings import bound
from corepy.tuning import _check
from corepy.tuning._cases import NUMPY, Case, cases


@pytest.mark.parametrize("case", [*cases()], ids=lambda case: case.label)
def test_what_is_admitted_means_the_same(case: Case) -> None:
    for name in case.candidates:
        found = _check.deviation(
            case, bound(case.operation, NUMPY), bound(case.operation, corepy.dispatch.load(name))
        )
        assert found is None, name


def test_the_bounds_are_the_published_ones() -> None:
    for operation in ADMITTED:
        bounds = {published(operation, "torch", dtype) for dtype in ("float32", "float64")}
        bounds |= {published(operation, "numba")}
        if operation not in ("__getitem__", "matmul", "tensordot"):
            assert bounds == {_check.ULP.get(operation, 0.0)}, operation


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: np.sin(x).astype(np.float32), "float32 .*; expected float64"),
        (lambda x: np.sin(x)[:-1], r"float64 .*; expected float64 \("),
        (lambda x: np.sin(x) * (1 + 1e-14), "ulp apart; expected at most 8"),
        (lambda x: np.nan_to_num(np.sin(x)), "one nan: other infinities or NaN"),
        (lambda x: np.sin(x) + 0.0, "minus zeros: zeros of other signs"),
        (lambda x: np.where(np.abs(x) > 1e100, np.nan, np.sin(x)), "special values: infinities"),
    ],
)
def test_a_candidate_that_means_something_else_is_found(
    wrong: Callable[[Any], Any], words: str
) -> None:
    case = Case("sin", "float64", "", ())
    found = _check.deviation(
        case, lambda args, params: np.sin(*args), lambda args, params: wrong(*args)
    )
    assert found is not None
    assert re.search(words, found), found
