"""What is measured: of which operations, on which operands and sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import corepy
from corepy.backends._extents import EXTENTS
from corepy.dispatch._admitted import ADMITTED
from corepy.tuning._cases import Case, cases, operands

CASES = list(cases())


def test_cases_are_what_libraries_have_of_their_own() -> None:
    labels = {case.label: case.candidates for case in CASES}
    assert {case.operation for case in CASES} <= ADMITTED.keys()
    if "numba" in corepy.usable_backends():
        assert "numba" in labels["sqrt float64"]
        assert "numba" not in labels.get("linalg.inv float64", ())
    with pytest.raises(ValueError, match="'rm' is no operation that can be routed"):
        list(cases(["rm"]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_operands_have_the_form_that_the_router_recognizes(case: Case) -> None:
    args, params = operands(case, 4096, np.random.default_rng(0))
    admission = ADMITTED[case.operation]
    assert admission.former(args, params) == case.form
    of = EXTENTS.get(case.operation)
    size = max(np.size(x) for x in args) if of is None else of(*args)
    if "irfft" in case.operation:  # of a number of points that is a product of small ones
        assert 3072 < size <= 4096
    else:
        assert size == 4096


@pytest.mark.backend("numba")
def test_sizes_of_arrays_are_no_powers_of_two() -> None:
    """There stretches of two threads fall on the same lines of caches, and gains look smaller."""
    first, greater, smaller = next(cases(["sqrt"])).sizes()
    sizes = sorted([first, *greater, *smaller])
    assert not [n for n in sizes if n & (n - 1) == 0]
    assert all(b <= 4 * a for a, b in itertools.pairwise(sizes))


@pytest.mark.backend("numba")
def test_numba_is_a_candidate_where_it_has_a_way_of_its_own() -> None:
    found = {
        (case.operation, case.dtype, case.form): "numba" in case.candidates
        for case in cases(["matmul", "linalg.qr", "linalg.svd"])
    }
    # Else it would run NumPy's function, and nobody would look what is in BLAS's way.
    for dtype in ("float32", "float64"):
        assert not found.get(("matmul", dtype, ""), False)
        assert found["matmul", dtype, "inner"]
        for name in ("linalg.qr", "linalg.svd"):
            assert not found.get((name, dtype, ""), False)
            assert found[name, dtype, "tall"]
    assert found["matmul", "int64", ""]
