"""Where PyInstaller finds what it has to know of corepy: it asks the entry point ``hook-dirs``."""

from __future__ import annotations

from pathlib import Path

__all__ = ["hook_dirs"]


def hook_dirs() -> list[str]:
    """Return the folder of the hook."""
    return [str(Path(__file__).parent)]
