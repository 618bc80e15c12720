"""What is measured is called as users call it, and goes the way that is to be measured."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import corepy
from corepy.dispatch import _registry, _route_libraries, _routes
from corepy.tuning import _calls
from corepy.tuning._cases import cases, operands

CASES = list(cases())


def test_calls_are_written_as_users_write_them() -> None:
    rng = np.random.default_rng(0)
    for case in CASES:
        args, params = operands(case, 1 << 16 if case.form == "inner" else 1024, rng)
        with np.errstate(all="ignore"):
            wanted = case.home(args, params)
            for backend in (None, *case.candidates):
                made = case.work(backend, args, params)()
                native = [unwrapped(x) for x in (made if isinstance(made, tuple) else [made])]
                wanted_ = list(wanted) if isinstance(wanted, tuple) else [wanted]
                assert [(x.dtype, x.shape) for x in native] == [
                    (np.asarray(x).dtype, np.shape(x)) for x in wanted_
                ], (case.label, backend)


def unwrapped(made: Any) -> Any:
    """Return NumPy's array, of an `Array` or as it is."""
    return made.unwrap() if isinstance(made, corepy.Array) else np.asarray(made)


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *(
            pytest.param(name, "numba", marks=pytest.mark.backend("numba"))
            for name in ("sqrt", "sum", "where", "__getitem__", "take", "searchsorted")
        ),
        # Of real operands it converts them, and asks the table of another dtype.
        pytest.param("fft.fft", "torch", marks=pytest.mark.backend("torch")),
    ],
)
def test_a_call_goes_the_way_that_it_is_to_be_measured_on(
    name: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[str] = []
    cross = _routes.crossing

    def watched(operation: str, *rest: Any) -> Any:
        call = cross(operation, *rest)

        def crossed(args: Any, params: Any) -> Any:
            gone.append(operation)
            return call(args, params)

        return crossed

    monkeypatch.setattr(_routes, "crossing", watched)
    monkeypatch.setattr(_routes.NEIGHBOURS, "until", math.inf)  # a call lost time: routes wait
    # A library that nobody has imported waits for its price.
    library = _route_libraries.LIBRARIES[backend]
    monkeypatch.setattr(library, "backend", None)
    monkeypatch.setattr(library, "price", 1e9)
    nowhere = replace(_registry.records()[backend], modules=("not_imported",))
    monkeypatch.setitem(_registry._records, backend, nowhere)
    _calls._home.cache_clear()
    mine = [case for case in CASES if case.operation == name and backend in case.candidates]
    for case in mine:
        if case.form != mine[0].form:
            continue
        args, params = operands(case, 1024, np.random.default_rng(0))
        case.work(None, args, params)()
        assert gone == []
        work = case.work(backend, args, params)
        gone.clear()
        work()
        assert gone == [name], case.label
        gone.clear()
    with corepy.set_routes("off"):  # which empties all tables
        case.work(backend, args, params)()
    assert gone == [name, name]
    _calls._home.cache_clear()
