"""Importing corepy loads no optional library, and using it loads only what is used."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import corepy
from corepy import _extensions
from corepy._extensions import are_outdated, extension
from corepy._variables import number

#: How code says that it is for types alone.
TYPING: Final = ("TYPE_CHECKING", "_typing.TYPE_CHECKING")
ROOT: Final = Path(__file__).resolve().parent.parent

#: None of these may be loaded by the import, whether installed or not.
OPTIONAL = [
    "array_api_strict",
    "asyncio",
    "cupy",
    "dask",
    "fractions",
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
        [sys.executable, "-W", "error", "-X", "warn_default_encoding", "-c", f"{code}\n{report}"],
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


def test_asking_what_the_machine_has_loads_nothing_and_warns_of_nothing() -> None:
    code = "import corepy; corepy.detect_devices(); corepy.memory_info('cpu')"
    assert loaded_after(code) == []


def test_import_leaves_numpy_for_the_first_array() -> None:
    code = "import sys, corepy\nassert 'numpy' not in sys.modules"
    assert loaded_after(code) == []


def test_computing_with_numpy_loads_no_module_that_nothing_uses() -> None:
    code = """
import sys, corepy, corepy.array_api as xp
corepy.set_backend("numpy")
a = xp.reshape(xp.arange(9.0), (3, 3))
xp.sum(xp.sort(a @ a + 1.0), axis=0), xp.linalg.svd(a), xp.unique_values(a), xp.mean(a)
assert not {"array_api_compat", "numpy.f2py", "numpy.ma", "numpy.testing"} & {*sys.modules}
"""
    assert loaded_after(code) == []


def test_submodules_that_not_every_program_needs_are_loaded_on_use() -> None:
    code = """
import sys, corepy
names = [f"corepy.{name}" for name in ("kernels", "testing")]
assert not [name for name in names if name in sys.modules]
assert {"kernels", "testing"} <= {*dir(corepy)}
assert not hasattr(corepy, "nope")
assert not [name for name in names if name in sys.modules]
assert corepy.kernels.softmax and corepy.testing.fake_devices
"""
    assert loaded_after(code) == []


@pytest.mark.parametrize("name", ["zeros", "float32", "linalg"])
def test_names_of_the_standard_say_where_they_are(name: str) -> None:
    told = f"^module 'corepy' has no attribute '{name}': the namespace of the standard is corepy.ar"
    with pytest.raises(AttributeError, match=told):
        getattr(corepy, name)
    with pytest.raises(AttributeError, match="^module 'corepy' has no attribute 'nope'$"):
        _ = corepy.nope


def test_variables_are_quoted_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COREPY_SOME", "1G")
    with pytest.raises(ValueError, match="^corepy: COREPY_SOME is '1G'; expected a number of byt"):
        number("COREPY_SOME", "bytes")


def test_what_was_not_compiled_says_no_more_than_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COREPY_PURE_PYTHON", raising=False)
    why = "it was not built as corepy was installed (see COREPY_COMPILE)"
    assert extension("corepy._never") == (None, why)


def test_modules_are_outdated_once_a_source_beside_them_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = ModuleType("made")
    module.__file__ = str(tmp_path / "made.so")
    module.SOURCE = sha256(b"onetwo").hexdigest()
    monkeypatch.setattr(_extensions, "_loaded", [module])
    assert not are_outdated()  # there are no sources to compare with
    (tmp_path / "b.pyx").write_bytes(b"two")
    (tmp_path / "a.pxi").write_bytes(b"one")
    assert not are_outdated()
    (tmp_path / "b.pyx").write_bytes(b"three")
    assert are_outdated()
    del module.SOURCE  # compiled before there was one
    assert are_outdated()
    module.__file__ = str(tmp_path / "gone" / "made.so")  # as of a program that unpacks itself
    assert not are_outdated()


# ---------------------------------------------------------------------------- who imports whom


def imports_allowed() -> dict[str, set[str]]:
    """Return what each part of corepy may import, from the tables in CONTRIBUTING.md."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.partition("## Where things are\n")[2].partition("\n## ")[0]
    allowed: dict[str, set[str]] = {}
    for row in re.findall(r"^\| (`.*) \|$", section, re.MULTILINE):
        first, _, last = row.split("|")
        parts = re.findall(r"`(?:corepy/)?(\w+)/?`", first)
        free = {*re.findall(r"`(\w+)`", last)} | ({*parts} if "each other" in last else set())
        allowed |= {part: free | {part} for part in parts}
    ground = {part for part in allowed if "_errors" in allowed[part]}
    return {part: free | ground for part, free in allowed.items()}


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the parts of corepy that code imports, those for types alone left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in TYPING:
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "corepy":
            yield from (alias.name for alias in node.names if alias.name != "__version__")
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names = names or [alias.name for alias in node.names]
            for package, *rest in (name.split(".") for name in names):
                if package == "corepy":
                    yield rest[0] if rest else package
        else:
            yield from imported(node)


def test_imports_are_those_that_the_tables_allow() -> None:
    allowed = imports_allowed()
    found = set()
    for path in (ROOT / "corepy").rglob("*.py"):
        part = path.relative_to(ROOT / "corepy").parts[0].removesuffix(".py")
        for other in imported(ast.parse(path.read_text(encoding="utf-8"))):
            if other not in allowed[part]:
                found.add((part, other))
    assert found == set()


def test_the_tables_and_what_is_read_of_imports() -> None:
    allowed = imports_allowed()
    assert "dispatch" in allowed["array_api"]
    assert "_forks" in allowed["devices"]
    assert "_errors" in allowed["_dtypes"]
    assert allowed["backends"].isdisjoint({"array_api", "dispatch", "kernels", "corepy"})
    code = "import corepy\nfrom corepy import _errors\ndef f():\n    import corepy.devices._pool\n"
    code += "if TYPE_CHECKING:\n    from corepy.kernels import rope\nelse:\n    import numpy\n"
    assert [*imported(ast.parse(code))] == ["corepy", "_errors", "devices"]
