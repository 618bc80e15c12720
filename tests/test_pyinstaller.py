"""The hook by which PyInstaller finds what corepy imports by name and reads as it runs."""

from __future__ import annotations

import runpy
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import corepy

ROOT = Path(corepy.__file__).parent.parent


def test_the_entry_point_leads_to_the_hook() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["entry-points"]["pyinstaller40"]["hook-dirs"].partition(":")
    (folder,) = getattr(import_module(module), name)()
    assert (Path(folder) / "hook-corepy.py").is_file()


def test_the_hook_takes_all_but_itself_and_what_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, dict[str, Any]] = {}

    def collect_all(package: str, **options: Any) -> tuple[list[Any], list[Any], list[str]]:
        asked[package] = options
        return [("data", "corepy/data")], [], ["corepy.backends._numpy"]

    def collect_submodules(package: str, **options: Any) -> list[str]:
        asked[package] = options
        return [f"{package}.numpy.fft"]

    hooks = ModuleType("PyInstaller.utils.hooks")
    hooks.collect_all = collect_all  # type: ignore[attr-defined]
    hooks.collect_submodules = collect_submodules  # type: ignore[attr-defined]
    for name in ("PyInstaller", "PyInstaller.utils"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, hooks.__name__, hooks)
    found = runpy.run_path(str(ROOT / "corepy" / "_pyinstaller" / "hook-corepy.py"))
    assert found["hiddenimports"] == ["corepy.backends._numpy", "array_api_compat.numpy.fft"]
    assert found["datas"] == [("data", "corepy/data")]
    assert asked["array_api_compat"] == {"on_error": "ignore"}
    wanted = asked["corepy"]["filter_submodules"]
    assert wanted("corepy.backends.torch")
    assert not wanted("corepy._pyinstaller")
