"""scikit-learn's own tests of the array API, with corepy's namespace as the library that they try.

A plugin of pytest. The tests come with scikit-learn, and run by

    python -m pytest -p tests.consumers.sklearn_own_tests -c /dev/null -p no:cacheprovider \\
        --pyargs sklearn -k array_api

``COREPY_BACKEND_PRIORITY=torch`` before it runs them on that backend, and
``SKLEARN_TEST_LIBRARY=array_api_strict`` with that library, to compare.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # read when SciPy is imported

import sklearn.utils._array_api as theirs
import sklearn.utils._testing as testing

import corepy.array_api

_OURS = corepy.array_api.__name__
_CHOSEN = os.environ.get("SKLEARN_TEST_LIBRARY", _OURS)
_names = theirs.yield_namespaces
_combinations = theirs.yield_namespace_device_dtype_combinations
_for_tests = testing._array_api_for_tests


def _our_names(include_numpy_namespaces: bool = True) -> Iterator[str]:
    return (name for name in (*_names(include_numpy_namespaces), _OURS) if name == _CHOSEN)


def _our_combinations(include_numpy_namespaces: bool = True) -> Iterator[tuple[Any, ...]]:
    for name, device, dtype in _combinations(include_numpy_namespaces):
        if name == _OURS:
            yield from ((name, "cpu", "float64"), (name, "cpu", "float32"))
        else:
            yield name, device, dtype


def _our_mixtures() -> Iterator[tuple[Any, Any, str]]:
    device = "cpu" if _CHOSEN == _OURS else "device1"  # array-api-strict's name for another one
    chosen = theirs.NamespaceAndDevice(_CHOSEN, device)
    for other in (
        theirs.NamespaceAndDevice("torch", "cpu"),
        theirs.NamespaceAndDevice("numpy", None),
    ):
        yield chosen, other, f"{_CHOSEN} to {other.xp}"
        yield other, chosen, f"{other.xp} to {_CHOSEN}"


def _our_namespace(array_namespace: str, *args: Any, **params: Any) -> tuple[Any, Any]:
    xp, device = _for_tests(array_namespace, *args, **params)
    return xp, "cpu" if array_namespace == _OURS else device


theirs.yield_namespaces = _our_names
theirs.yield_namespace_device_dtype_combinations = _our_combinations
theirs.yield_mixed_namespace_input_permutations = _our_mixtures
testing._array_api_for_tests = _our_namespace
