"""Statements, with operands that lie anywhere, give what they give with NumPy, and change the same.

Other tests choose what they look at: layouts, sizes, dtypes. These draw all of it, each run the
same. `python -m tests.statements --seconds 600` goes on to draw others.
"""

from __future__ import annotations

from typing import Any

import pytest

import corepy
import corepy.array_api as xp
from corepy.dispatch._hot import PURE
from tests.statements import STATEMENTS
from tests.statements.comparison import compare

#: Draws for each statement and backend. A thousand take a second or two. Layouts, sizes and dtypes
#: by themselves are all among as many; of two or three at once each backend tries some others.
EXAMPLES = 120
BACKENDS = [
    pytest.param(name, first, marks=pytest.mark.backend(name), id=name)
    for name, first in (("numpy", 0 if PURE is None else 180), ("numba", 90), ("torch", 180))
]


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize(("backend", "first"), BACKENDS)
def test_statements(backend: str, first: int, name: str) -> None:
    with corepy.backend_priority([backend]), corepy.set_fallback("allow"):
        draw_some(name, first)


def draw_some(name: str, first: int = 0) -> None:
    for seed in range(first, first + EXAMPLES):
        compare(STATEMENTS[name], seed)


def test_differences_of_results_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    concat = xp.concat
    monkeypatch.setattr(xp, "concat", lambda *args, **kwargs: concat(*args, **kwargs)[..., ::-1])
    with pytest.raises(AssertionError, match=r"^concat, seed \d+: of .* by .*, expected .* of \d+"):
        draw_some("concat")


def test_differences_of_operands_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def sum_and_forget(x: corepy.Array, **params: Any) -> corepy.Array:
        result = right(x, **params)
        x[...] = 7
        return result

    right = xp.sum
    monkeypatch.setattr(xp, "sum", sum_and_forget)
    with pytest.raises(AssertionError, match=r"^sums, seed \d+: of .*: \[7"):
        draw_some("sums")
