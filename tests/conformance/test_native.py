"""`conformance/native.py`: the published shares are those of the registered backends."""

from __future__ import annotations

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from conformance import native
from corepy._dtypes import DTYPES
from corepy.devices._device import CPU
from corepy.dispatch._operations import OPERATIONS
from corepy.dispatch._registry import BUILT_IN, load


def test_every_operation_stands_in_a_chapter() -> None:
    chapters = {native.chapter(operation) for operation in OPERATIONS.values()}
    assert {"elementwise", "linalg", "fft", "set", "operators, indexing"} <= chapters
    assert "array api" not in chapters


def test_a_share_is_whole_only_where_nothing_is_missing() -> None:
    assert native._share(10, 10) == "100 %"
    assert native._share(0, 10) == "0 %"
    assert native._share(9_999, 10_000) == "99.9 %"
    assert native._share(1, 10_000) == "0.1 %"
    assert native._share(1, 3) == "33.3 %"


def test_numpy_leaves_nothing_to_others() -> None:
    assert native.elsewhere(load("numpy"), CPU) == {}


@pytest.mark.backend("torch")
def test_what_is_listed_runs_there() -> None:
    found = native.elsewhere(load("torch"), CPU)
    assert found["add", DTYPES["uint16"]] == "numpy"
    assert ("add", DTYPES["float32"]) not in found
    with corepy.backend_priority(["torch"]):
        for dtype, where in (("uint16", "numpy"), ("float32", "torch")):
            x = xp.asarray(np.ones(3, dtype))
            assert corepy.explain(xp.add, x, x).records[-1].backend == where


def needed(name: str) -> pytest.MarkDecorator:
    if name == "reference":
        return pytest.mark.needs("mpmath")  # without it linalg and fft run in NumPy
    return pytest.mark.device(name) if ":" in name else pytest.mark.backend(name)


def test_the_page_has_what_the_registry_has() -> None:
    page = native.PAGE.read_text(encoding="utf-8")
    header = next(line for line in page.splitlines() if line.startswith("| chapter"))
    published = [cell.strip(" `") for cell in header.strip("|").split("|")]
    assert published[2:] == [*native.BACKENDS]
    assert {name.partition(":")[0] for name in published[2:]} == {*BUILT_IN} - {"cupy"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needed(name)) for name in native.BACKENDS]
)
def test_the_page_says_what_is_so(name: str) -> None:
    page = native.PAGE.read_text(encoding="utf-8")
    header = next(line for line in page.splitlines() if line.startswith("| chapter"))
    published = [cell.strip(" `") for cell in header.split("|")]
    made = [cell.strip(" `") for cell in native.shares([name]).splitlines()[2].split("|")]
    total = next(line for line in page.splitlines() if line.startswith("| **all**"))
    assert total.split("|")[published.index(name)].strip() == made[3]
    assert native.lists([name]).strip() in page
