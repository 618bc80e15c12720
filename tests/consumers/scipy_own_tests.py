"""SciPy's own tests of the array API, with corepy's namespace as the library that they try.

A plugin of pytest. The tests come with SciPy; those of one of its modules run by

    python -m pytest -p tests.consumers.scipy_own_tests -c /dev/null -p no:cacheprovider \\
        -m array_api_backends --pyargs scipy.special

and of some by several names after ``--pyargs``; ``COREPY_BACKEND_PRIORITY=torch`` or
``COREPY_STRICT=1`` before it run them on that backend or in strict mode, and
``SCIPY_TEST_LIBRARY=array_api_strict`` with another library that SciPy knows, to compare.

SciPy knows the libraries it tries by name, and skips or expects what each cannot do. Of corepy it
knows nothing, so what it leaves to NumPy alone is left out, unless array-api-strict takes it.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import pytest

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # read when SciPy is imported

import scipy.conftest as theirs

import corepy
import corepy.array_api

_WANTED = os.environ.get("SCIPY_TEST_LIBRARY")
_NAME = corepy.array_api.__name__
_reasons = theirs._backends_kwargs_from_request


def _our_reasons(request: pytest.FixtureRequest, skip_or_xfail: str) -> dict[str, str]:
    """Return why SciPy skips a test or expects it to fail, by library."""
    reasons = _reasons(request, skip_or_xfail)
    numpys = [
        marker
        for marker in request.node.iter_markers(f"{skip_or_xfail}_xp_backends")
        if marker.kwargs.get("np_only")
    ]
    if all("array_api_strict" in marker.kwargs.get("exceptions", ()) for marker in numpys):
        reasons.pop(_NAME, None)
    return reasons


def _devices(xp: ModuleType) -> list[Any]:
    """Return the devices of the default one's kind, as a list: a tuple since 2025.12."""
    info = xp.__array_namespace_info__()
    kind = info.default_device().kind
    return [*(device for device in info.devices() if device.kind == kind), None]


if _WANTED is None:
    corepy.set_fallback("allow")  # what a backend lacks is not what these tests are about
    theirs.xp_known_backends.add(_NAME)
    theirs._backends_kwargs_from_request = _our_reasons
    theirs.devices = pytest.fixture(_devices)
    _libraries = [pytest.param(corepy.array_api, id="corepy", marks=pytest.mark.array_api_backends)]
else:
    _libraries = [each for each in theirs.xp_available_backends if each.id == _WANTED]

# pytest takes the module as it is now for SciPy's conftest.
theirs.xp = pytest.fixture(params=_libraries)(theirs.xp._get_wrapped_function())
