"""What belongs into a program that imports corepy, beside what its imports show.

Backends, and the parts of array-api-compat that they build on, are imported by name on first use;
tables of routes and the sources of device kernels are read as files. Of libraries those are taken
that are installed where the program is made.
"""

from __future__ import annotations

from PyInstaller.utils.hooks import collect_all, collect_submodules

datas, binaries, hiddenimports = collect_all(
    "corepy",
    exclude_datas=["**/*.pxi", "**/*.pyx", "**/__pycache__"],
    filter_submodules=lambda name: not name.startswith("corepy._pyinstaller"),
    on_error="ignore",  # a backend whose library is missing
)
hiddenimports += collect_submodules("array_api_compat", on_error="ignore")
