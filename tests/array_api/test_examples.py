"""Every function of the standard gives, on every backend, the result that is written down for it.

The tests run over the table of the standard and over the product's own registry, so a function
that comes new fails here until it has an example.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import corepy
from corepy.dispatch import OPERATIONS
from tests.array_api.examples import EXAMPLES
from tests.helpers import FUNCTIONS, assert_values
from tests.together import together

#: What the registry holds beside the functions of the standard: methods, tested by name.
METHODS = {name for name in OPERATIONS if name.startswith("__")}


@pytest.mark.few_shapes
@together("name", FUNCTIONS)
def test_function_gives_the_result_of_its_example(name: str, xp: ModuleType) -> None:
    run, values, dtype = EXAMPLES[name]
    _check(run(xp), values, dtype)


def _check(result: Any, values: Any, dtype: Any) -> None:
    if isinstance(dtype, tuple):
        assert isinstance(result, tuple)
        assert len(result) == len(values) == len(dtype)
        for part in zip(result, values, dtype, strict=True):
            _check(*part)
    elif dtype is None:
        assert type(result) is type(values)
        assert result == values
    else:
        assert type(result) is corepy.Array
        assert result.dtype.name == dtype
        assert_values(result, values, 1e-12)


def test_every_operation_of_the_registry_has_an_example() -> None:
    assert sorted(OPERATIONS.keys() - METHODS - EXAMPLES.keys()) == []


def test_every_example_is_of_a_function_of_the_standard() -> None:
    assert sorted(EXAMPLES.keys() - set(FUNCTIONS)) == []


@together("name", FUNCTIONS)
def test_results_stay_in_the_backend_of_their_operands(name: str, backend: str) -> None:
    run, _, dtype = EXAMPLES[name]
    if dtype is None:
        return
    result = run(corepy.array_api)
    parts = result if isinstance(dtype, tuple) else (result,)
    assert {part.backend for part in parts} == {backend}
    assert len({part.device for part in parts}) == 1
