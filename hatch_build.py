"""Compile the extension modules as corepy is installed, where that is possible.

Every ``corepy/**/*.pyx`` becomes a module beside it, together with the ``.pxi`` it includes.
Without a C compiler, or where it fails, corepy is installed without them and runs in Python, with a
warning that pip shows with ``-v`` alone. ``COREPY_COMPILE=never`` does not try;
``COREPY_COMPILE=always`` ends the installation where it fails.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Of modules to compile, and of what they include.
SUFFIXES = (".pyx", ".pxi")

#: Of which GCC before 14 and Clang before 16 only warn.
REFUSED = ("implicit-function-declaration", "incompatible-pointer-types", "int-conversion")


class CompileHook(BuildHookInterface):
    """Adds the compiled modules to the wheel, or puts them beside their sources if editable."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is put together."""
        if self.target_name != "wheel":
            return
        wish = os.environ.get("COREPY_COMPILE", "auto")
        if wish not in ("auto", "always", "never"):
            raise ValueError(f"COREPY_COMPILE is {wish!r}; expected auto, always or never")
        if wish == "never":
            return
        root = Path(self.root)
        self.folder = tempfile.mkdtemp(prefix="corepy-")
        try:
            modules = compile_modules(root, Path(self.folder))
        except (Exception, SystemExit) as error:  # compilers fail in their own ways
            shutil.rmtree(self.folder, ignore_errors=True)  # `finalize` is not called where it ends
            if wish == "always":
                raise
            self.app.display_warning(
                f"corepy's hot path was not compiled and runs in Python: {error}"
            )
            return
        if version == "editable":
            for name, path in modules.items():
                replace(path, root / name)
        else:
            build_data["force_include"].update({str(p): name for name, p in modules.items()})
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what compiling left."""
        shutil.rmtree(getattr(self, "folder", ""), ignore_errors=True)


def compile_modules(root: Path, folder: Path) -> dict[str, Path]:
    """Compile all modules into a folder; return their paths by those they shall have in `root`."""
    import numpy
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    sources = sorted(path for path in (root / "corepy").rglob("*") if path.suffix in SUFFIXES)
    for source in sources:
        copy = folder / source.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    extensions = []
    for source in sources:
        if source.suffix == ".pxi":  # which others include
            continue
        copy = folder / source.relative_to(root)
        extensions.append(
            Extension(
                ".".join(source.relative_to(root).with_suffix("").parts),
                [str(copy)],
                include_dirs=[numpy.get_include()],
                define_macros=[("COREPY_SOURCE", f'"{digest(source.parent)}"')],
                extra_compile_args=[] if os.name == "nt" else options(),
            )
        )
    modules = cythonize(extensions, quiet=True)
    command = Distribution({"ext_modules": modules}).get_command_obj("build_ext")
    command.build_lib = str(folder / "built")
    command.build_temp = str(folder / "objects")
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()
    built = Path(command.build_lib)
    return {str(p.relative_to(built)): p for p in built.rglob("*") if p.is_file()}


def options() -> list[str]:
    """Return what compilers other than Microsoft's are told, after Python's own options.

    Some Pythons are built with -O2, by which loops do not fill vector registers, and most with -g,
    which takes a third of the time and makes modules five times as large: it is left to ``CFLAGS``.
    What GCC has in the place of ``memset`` clears 300 bytes in four times the time that it takes.
    Elements are moved as integers of their size; and a product is rounded before it is added, on
    every processor, but where a loop has them fused.
    Where compiling must succeed, older compilers shall refuse what those of today do.
    """
    found = ["-O3", "-fno-builtin-memset", "-fno-strict-aliasing", "-ffp-contract=off"]
    if os.environ.get("COREPY_COMPILE") == "always":
        found += [f"-Werror={name}" for name in REFUSED]
    return found if "CFLAGS" in os.environ else [*found, "-g0"]


def digest(folder: Path) -> str:
    """Return what changes when a source of the modules in a folder does; they know it."""
    sources = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    return sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def replace(source: Path, target: Path) -> None:
    """Put a file in the place of another one at once: a process may have the old one loaded."""
    new = target.with_name(f"{target.name}.new")
    shutil.copy(source, new)
    new.replace(target)
