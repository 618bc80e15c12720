"""NumPy warns where a result is infinite or NaN; the standard asks for the value alone."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
QUIET = pytest.mark.filterwarnings(
    "ignore:(divide by zero|invalid value|overflow|underflow) encountered:RuntimeWarning"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of this folder compute special cases without warnings."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(QUIET)
