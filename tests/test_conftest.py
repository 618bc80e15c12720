"""What the tests need is skipped where it is missing, and demanded where it is expected."""

from __future__ import annotations

import json
import sys

import pytest

from tests.conftest import required


def test_what_is_there_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in ("", "json"):
        monkeypatch.setenv("COREPY_EXPECT_BACKENDS", names)
        assert required("json.decoder") is json.decoder


@pytest.mark.parametrize(
    ("module", "names", "outcome"),
    [
        ("numba", "", pytest.skip.Exception),
        ("numba", "numpy,torch", pytest.skip.Exception),
        ("numba", "numpy,numba", pytest.fail.Exception),
        ("mlx.core", "mlx", pytest.fail.Exception),
        ("mpmath", "reference", pytest.fail.Exception),
    ],
)
def test_what_is_missing_is_skipped_unless_it_is_expected(
    module: str, names: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("COREPY_EXPECT_BACKENDS", names)
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception)) as raised:
        required(module)
    assert raised.type is outcome


@pytest.mark.parametrize(("names", "outcome"), [("", "skip"), ("numpy", "fail")])
def test_what_is_too_old_counts_as_missing(
    names: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COREPY_EXPECT_BACKENDS", names)
    with pytest.raises(
        getattr(pytest, outcome).Exception, match="'numpy' has .* required is: '99'"
    ):
        required("numpy", minversion="99")
