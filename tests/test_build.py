"""The build hook that compiles the hot path: what it leaves where compiling fails."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import pytest

PATH = Path(__file__).resolve().parent.parent / "hatch_build.py"


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Load the hook without hatchling, which only builds have; compiling fails."""
    name = "hatchling.builders.hooks.plugin.interface"
    stand_in = ModuleType(name)
    stand_in.BuildHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, stand_in)
    spec = importlib.util.spec_from_file_location("hatch_build_here", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def fails(root: Path, folder: Path) -> NoReturn:
        (folder / "half.c").write_text("")
        raise SystemExit("no compiler")

    monkeypatch.setattr(module, "compile_modules", fails)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return module


@pytest.mark.parametrize("wish", ["auto", "always"])
def test_a_build_that_fails_leaves_nothing_behind(
    build: Any, wish: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COREPY_COMPILE", wish)
    warnings: list[str] = []
    hook = build.CompileHook()
    hook.target_name, hook.root = "wheel", str(PATH.parent)
    hook.app = SimpleNamespace(display_warning=warnings.append)
    if wish == "always":
        with pytest.raises(SystemExit, match="no compiler"):
            hook.initialize("standard", {})
    else:
        hook.initialize("standard", {})
        assert warnings == ["corepy's hot path was not compiled and runs in Python: no compiler"]
    assert list(tmp_path.iterdir()) == []
