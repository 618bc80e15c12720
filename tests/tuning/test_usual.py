"""Settings that are the user's own do not decide what is measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corepy
from corepy.dispatch import _routes
from corepy.dispatch._settings import OFFLOAD
from corepy.tuning import _cases, _usual, tune, tune_offload


@pytest.mark.parametrize("measure", [tune, tune_offload])
def test_settings_of_the_user_do_not_decide_what_is_measured(
    measure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def stop(*_: Any) -> Any:
        seen.append([setting.get() for setting, _ in _usual._USUAL])
        raise KeyError

    monkeypatch.setattr("corepy.tuning._tune._todo", stop)
    monkeypatch.setattr("corepy.tuning._offload.found_accelerators", stop)
    with (
        corepy.reproducible(),
        corepy.precision("fast"),
        OFFLOAD.scoped("auto"),
        corepy.strict(),
        corepy.autocast("float16"),
    ):
        with pytest.raises(KeyError):
            measure()
        assert corepy.is_reproducible()
    assert seen == [[usual for _, usual in _usual._USUAL]]


@pytest.mark.backend("numba")
def test_a_candidate_runs_under_reproducible_too() -> None:
    gone: list[str] = []
    go = _routes.Choice._go

    def watched(self: Any, *rest: Any) -> Any:
        gone.append("numba")
        return go(self, *rest)

    x = np.ones(10_000)
    case = next(iter(_cases.cases(["atan2"])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_routes.Choice, "_go", watched)
        with corepy.reproducible(), _usual.as_usual():
            work = case.work("numba", (x.astype(case.dtype), x.astype(case.dtype)), {})
            gone.clear()
            work()
    assert gone == ["numba"]


def test_what_no_setting_changed_stays_untouched() -> None:
    settings = [setting for setting, _ in _usual._USUAL]
    before = [setting.touched for setting in settings]
    with _usual.as_usual():
        assert [setting.touched for setting in settings] == before
