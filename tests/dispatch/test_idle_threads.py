"""Idle threads of libraries sleep soon, where corepy is imported in time to tell them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import corepy
from corepy import _idle_threads

ROOT = Path(corepy.__file__).parent.parent


def test_idle_threads_are_settled_before_libraries_load() -> None:
    code = "import {0}, os; print([os.environ.get(n) for n in {1}])"
    names = ["OPENBLAS_THREAD_TIMEOUT", "GOMP_SPINCOUNT"]
    unset = dict.fromkeys(names, "")
    clean = {k: v for k, v in os.environ.items() if k not in (*names, "OMP_WAIT_POLICY")}

    def settings(first: str, **environ: str) -> str:
        command = [sys.executable, "-c", code.format(first, names)]
        env = clean | {"PYTHONPATH": str(ROOT)} | environ
        return subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout

    assert unset.keys() == _idle_threads._SPINNING.keys()
    assert settings("corepy").strip() == "['17', '1000']"
    assert settings("numpy, corepy").strip() == "[None, '1000']"
    assert settings("corepy", OPENBLAS_THREAD_TIMEOUT="20").strip() == "['20', '1000']"
    assert settings("corepy", OMP_WAIT_POLICY="ACTIVE").strip() == "['17', None]"


def test_what_came_too_late_to_settle_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "17")
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    assert _idle_threads.spinning() == []
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT")
    (words,) = _idle_threads.spinning()
    assert words.startswith("numpy was imported before corepy")
    assert words.endswith("set OPENBLAS_THREAD_TIMEOUT=17")
