"""What a machine's table is kept under: the machine, the libraries and their settings."""

from __future__ import annotations

import numpy as np
import pytest

from corepy.dispatch import _machine
from corepy.dispatch import _route_files as files


def test_the_key_names_what_decides_how_fast_things_are(monkeypatch: pytest.MonkeyPatch) -> None:
    key = _machine.machine_key()
    assert key["versions"]["numpy"] == np.__version__
    assert key["cores"] == _machine.cores()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert files.cache_file(_machine.machine_key()) != files.cache_file(key)


def test_the_key_says_that_the_hot_path_is_the_one_in_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_machine, "PURE", None)
    compiled = _machine.machine_key()
    monkeypatch.setattr(_machine, "PURE", "COREPY_PURE_PYTHON=1")
    pure = _machine.machine_key()
    assert files.cache_file(pure) != files.cache_file(compiled)
    assert _machine.differences(compiled, pure) == ["hot path absent then, Python now"]
