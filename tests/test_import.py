"""Importing corepy loads no optional library, and using it loads only what is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from corepy._extensions import extension

#: None of these may be loaded by the import, whether installed or not.
OPTIONAL = [
    "array_api_strict",
    "asyncio",
    "cupy",
    "dask",
    "jax",
    "mlx",
    "mpmath",
    "numba",
    "scipy",
    "sklearn",
    "tinygrad",
    "torch",
]


def loaded_after(code: str) -> list[str]:
    """Return which optional libraries a fresh interpreter has loaded after some code."""
    report = f"import sys; print(*[m for m in {OPTIONAL} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}\n{report}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_probe_sees_what_is_loaded() -> None:
    assert loaded_after("import asyncio") == ["asyncio"]


def test_import_loads_no_optional_library() -> None:
    assert loaded_after("import corepy, corepy.array_api, corepy.dispatch, corepy.devices") == []


def test_computing_with_numpy_loads_no_other_library() -> None:
    code = "import corepy; corepy.set_backend('numpy'); corepy.array_api.ones(2) + 1.0"
    assert loaded_after(code) == []


def test_import_leaves_numpy_for_the_first_array() -> None:
    code = "import sys, corepy\nassert 'numpy' not in sys.modules"
    assert loaded_after(code) == []


def test_what_was_not_compiled_says_no_more_than_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COREPY_PURE_PYTHON", raising=False)
    why = "it was not built as corepy was installed (see COREPY_COMPILE)"
    assert extension("corepy._never") == (None, why)
