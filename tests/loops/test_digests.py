"""Loops that were kept are not used once a file changes whose code or constants are in them."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import corepy
from tests.conftest import required

required("numba")

from numba.core.dispatcher import Dispatcher  # noqa: E402

from corepy._loops import _compile, _jobs, _streaming  # noqa: E402
from corepy.backends.numba import _compiled, _matrix_loops  # noqa: E402
from corepy.kernels import _compiled as _compiled_kernels  # noqa: E402

PACKAGE = Path(corepy.__file__).parent
#: Decorators that `_compile.compiler` made.
MADE = (
    _compiled.kernel,
    _compiled_kernels._compile,
    _jobs._compiled,
    _matrix_loops.kernel,
    _streaming._kernel,
)


def digested() -> dict[str, set[Path]]:
    """Return, by the digest that is part of a loop's name, the files that it is of."""
    made: list[Any] = [inspect.unwrap(each) for each in MADE]
    found: dict[str, set[Path]] = {}
    for decorator in made:
        names = dict(zip(decorator.__code__.co_freevars, decorator.__closure__ or ()))
        if "files" not in names:  # of `kernel(fastmath=...)`, which is in what it returned
            (names,) = (
                dict(zip(each.cell_contents.__code__.co_freevars, each.cell_contents.__closure__))
                for each in names.values()
                if inspect.isfunction(each.cell_contents)
            )
        files = names["files"].cell_contents
        found[_compile.digest(files)] = {*files}
    return found


def loops() -> Iterator[tuple[ModuleType, Any]]:
    """Yield the compiled loops of corepy with their modules."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not any(f"\n@{name}" in text for name in ("kernel", "_kernel", "_compiled")):
            continue
        name = ".".join(("corepy", *path.relative_to(PACKAGE).with_suffix("").parts))
        module = importlib.import_module(name)
        for value in vars(module).values():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == name:
                yield module, value


def names(code: CodeType) -> set[str]:
    """Return the names that code, and what is defined in it, takes from its module."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return {*code.co_names}.union(*map(names, inner))


def imported(module: ModuleType) -> dict[str, Path]:
    """Return the files of corepy that the names of a module come from."""
    found = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("corepy"):
            for alias in node.names:
                for name in (f"{node.module}.{alias.name}", node.module or ""):
                    try:
                        spec = importlib.util.find_spec(name)
                    except ModuleNotFoundError:  # its parent is a module, no package
                        continue
                    if spec is not None:
                        assert spec.origin is not None
                        found[alias.asname or alias.name] = Path(spec.origin)
                        break
    return found


def test_digests_are_of_all_files_that_loops_are_made_from() -> None:
    files, count, missing = digested(), 0, set()
    for module, loop in loops():
        digest = loop.py_func.__qualname__.rpartition("_")[2][:12]
        if digest not in files:
            continue  # it becomes a part of others
        count += 1
        sources = imported(module)
        for name in names(loop.py_func.__code__) & {*sources}:
            if sources[name] not in files[digest]:
                missing.add((module.__name__, sources[name].name, name))
    assert count > 100
    assert missing == set()


def test_digests_are_of_how_loops_are_compiled() -> None:
    found = digested()
    assert len(found) == len(MADE)
    assert all(Path(_compile.__file__) in files for files in found.values())


def test_digests_are_of_a_loop_s_own_file_whatever_its_time(tmp_path: Path) -> None:
    path, names = tmp_path / "source.py", []
    for number in (1, 2):
        path.write_text(f"def loop(x):\n    return x + {number}\n")
        os.utime(path, (0, 0))
        _compile.digest.cache_clear()
        made = _compile.compiler(())()(runpy.run_path(str(path))["loop"])
        names.append(made.py_func.__qualname__)
        assert made(1) == 1 + number
    assert names[0] != names[1]
